/* CRC-32C (Castagnoli): the CPU's instruction where it has one, else eight tables. */
#ifndef LITEMQ_CRC32C_H
#define LITEMQ_CRC32C_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static uint32_t litemq_crc32c_table[8][256];

static uint32_t litemq_crc32c_tables(uint32_t crc, const unsigned char *p, size_t n) {
    while (n && ((uintptr_t)p & 7)) { crc = (crc >> 8) ^ litemq_crc32c_table[0][(crc ^ *p++) & 255]; n--; }
    while (n >= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = litemq_crc32c_table[7][low & 255] ^ litemq_crc32c_table[6][(low >> 8) & 255]
            ^ litemq_crc32c_table[5][(low >> 16) & 255] ^ litemq_crc32c_table[4][low >> 24]
            ^ litemq_crc32c_table[3][p[4]] ^ litemq_crc32c_table[2][p[5]]
            ^ litemq_crc32c_table[1][p[6]] ^ litemq_crc32c_table[0][p[7]];
        p += 8; n -= 8;
    }
    while (n--) crc = (crc >> 8) ^ litemq_crc32c_table[0][(crc ^ *p++) & 255];
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2")))
static uint32_t litemq_crc32c_cpu(uint32_t crc, const unsigned char *p, size_t n) {
    uint64_t c = crc, word;
    while (n >= 8) { memcpy(&word, p, 8); c = __builtin_ia32_crc32di(c, word); p += 8; n -= 8; }
    while (n--) c = __builtin_ia32_crc32qi((uint32_t)c, *p++);
    return (uint32_t)c;
}
#endif

static uint32_t (*litemq_crc32c_raw)(uint32_t, const unsigned char *, size_t) = litemq_crc32c_tables;

static void litemq_crc32c_init(void) {
    for (int i = 0; i < 256; i++) {
        uint32_t c = (uint32_t)i;
        for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
        litemq_crc32c_table[0][i] = c;
    }
    for (int i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            litemq_crc32c_table[t][i] =
                (litemq_crc32c_table[t - 1][i] >> 8) ^ litemq_crc32c_table[0][litemq_crc32c_table[t - 1][i] & 255];
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("sse4.2")) litemq_crc32c_raw = litemq_crc32c_cpu;
#endif
}

static uint32_t litemq_crc32c(uint32_t crc, const unsigned char *p, size_t n) {
    return ~litemq_crc32c_raw(~crc, p, n);
}
#endif
