/* CRC-32 as zlib has it, over parts of a buffer and without a call into Python; and of two parts from those of each. */
#ifndef LITEMQ_CRC32_H
#define LITEMQ_CRC32_H
#include <stddef.h>
#include <stdint.h>

#define LITEMQ_CRC32_POLYNOMIAL 0xEDB88320u

static uint32_t litemq_crc32_table[8][256];
static uint32_t litemq_crc32_power[32]; /* x to the power of 2 to the power of i */

/* The product of two polynomials, bit 31 being the factor of x to the power of 0. */
static uint32_t litemq_crc32_product(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (; a; a <<= 1) {
        product ^= b & (0u - (a >> 31));
        b = (b >> 1) ^ (LITEMQ_CRC32_POLYNOMIAL & (0u - (b & 1)));
    }
    return product;
}

static void litemq_crc32_init(void) {
    for (int i = 0; i < 256; i++) {
        uint32_t c = (uint32_t)i;
        for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ LITEMQ_CRC32_POLYNOMIAL : c >> 1;
        litemq_crc32_table[0][i] = c;
    }
    for (int i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            litemq_crc32_table[t][i] =
                (litemq_crc32_table[t - 1][i] >> 8) ^ litemq_crc32_table[0][litemq_crc32_table[t - 1][i] & 255];
    litemq_crc32_power[0] = 1u << 30;
    for (int i = 1; i < 32; i++)
        litemq_crc32_power[i] = litemq_crc32_product(litemq_crc32_power[i - 1], litemq_crc32_power[i - 1]);
}

static uint32_t litemq_crc32(uint32_t crc, const unsigned char *p, size_t n) {
    crc = ~crc;
    while (n >= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = litemq_crc32_table[7][low & 255] ^ litemq_crc32_table[6][(low >> 8) & 255]
            ^ litemq_crc32_table[5][(low >> 16) & 255] ^ litemq_crc32_table[4][low >> 24]
            ^ litemq_crc32_table[3][p[4]] ^ litemq_crc32_table[2][p[5]]
            ^ litemq_crc32_table[1][p[6]] ^ litemq_crc32_table[0][p[7]];
        p += 8; n -= 8;
    }
    while (n--) crc = (crc >> 8) ^ litemq_crc32_table[0][(crc ^ *p++) & 255];
    return ~crc;
}

/* The CRC of two parts: the first is shifted over the n bytes of the second. */
static uint32_t litemq_crc32_join(uint32_t first, uint32_t second, size_t n) {
    for (int i = 3; n; n >>= 1, i = (i + 1) & 31)
        if (n & 1) first = litemq_crc32_product(litemq_crc32_power[i], first);
    return first ^ second;
}
#endif
