/* Bytes in RocketMQ's order, and runs of bytes: what kernels do all day.  Plain twins: byte_order.py. */
#ifndef LITEMQ_BYTE_ORDER_H
#define LITEMQ_BYTE_ORDER_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline void litemq_put16(unsigned char *p, ptrdiff_t at, long long value) {
    p[at] = (unsigned char)(value >> 8);
    p[at + 1] = (unsigned char)value;
}

static inline void litemq_put32(unsigned char *p, ptrdiff_t at, long long value) {
    uint32_t v = (uint32_t)value;
    p[at] = (unsigned char)(v >> 24);
    p[at + 1] = (unsigned char)(v >> 16);
    p[at + 2] = (unsigned char)(v >> 8);
    p[at + 3] = (unsigned char)v;
}

static inline void litemq_put64(unsigned char *p, ptrdiff_t at, long long value) {
    litemq_put32(p, at, (long long)((uint64_t)value >> 32));
    litemq_put32(p, at + 4, value);
}

static inline long long litemq_u16(const unsigned char *p, ptrdiff_t at) { return p[at] << 8 | p[at + 1]; }

static inline long long litemq_u32(const unsigned char *p, ptrdiff_t at) {
    return (long long)((uint32_t)p[at] << 24 | (uint32_t)p[at + 1] << 16 | (uint32_t)p[at + 2] << 8 | p[at + 3]);
}

static inline long long litemq_i32(const unsigned char *p, ptrdiff_t at) { return (int32_t)litemq_u32(p, at); }

static inline long long litemq_i64(const unsigned char *p, ptrdiff_t at) {
    return (long long)((uint64_t)litemq_u32(p, at) << 32 | (uint64_t)litemq_u32(p, at + 4));
}

static inline void litemq_copy(
    unsigned char *p, ptrdiff_t at, const unsigned char *from, ptrdiff_t start, ptrdiff_t size) {
    memcpy(p + at, from + start, (size_t)size);
}

static inline void litemq_move(unsigned char *p, ptrdiff_t at, ptrdiff_t start, ptrdiff_t size) {
    memmove(p + at, p + start, (size_t)size);
}

static inline int litemq_same(
    const unsigned char *p, ptrdiff_t at, const unsigned char *other, ptrdiff_t start, ptrdiff_t size) {
    return memcmp(p + at, other + start, (size_t)size) == 0;
}

static inline int litemq_is_before(
    const unsigned char *p, ptrdiff_t at, ptrdiff_t size, const unsigned char *other, ptrdiff_t start, ptrdiff_t more) {
    int order = memcmp(p + at, other + start, (size_t)(size < more ? size : more));
    return order < 0 || (order == 0 && size < more);
}

static inline ptrdiff_t litemq_find(const unsigned char *p, ptrdiff_t at, ptrdiff_t end, int byte) {
    const unsigned char *found = at < end ? memchr(p + at, byte, (size_t)(end - at)) : NULL;
    return found ? found - p : end;
}

/* Bytes of a JSON string up to the first that is a quote, a backslash or a control character; eight at a time. */
static inline ptrdiff_t litemq_find_special(const unsigned char *p, ptrdiff_t at, ptrdiff_t end) {
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    uint64_t v, quote, slash;
    while (end - at >= 8) {
        memcpy(&v, p + at, 8);
        quote = v ^ (ones * 0x22);
        slash = v ^ (ones * 0x5C);
        /* Subtracting borrows from a byte that is smaller; one that was not found so is looked at below. */
        if (((v - ones * 0x20) & ~v & high) | ((quote - ones) & ~quote & high) | ((slash - ones) & ~slash & high))
            break;
        at += 8;
    }
    while (at < end && p[at] >= 0x20 && p[at] != 0x22 && p[at] != 0x5C) at++;
    return at;
}

static inline ptrdiff_t litemq_put_decimal(unsigned char *p, ptrdiff_t at, long long value) {
    unsigned char digits[20];
    int count = 0;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if (value < 0) p[at++] = '-';
    do {
        digits[count++] = (unsigned char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    while (count) p[at++] = digits[--count];
    return at;
}

static inline ptrdiff_t litemq_put_hex(
    unsigned char *p, ptrdiff_t at, const unsigned char *from, ptrdiff_t start, ptrdiff_t size) {
    static const char digits[] = "0123456789ABCDEF";
    for (ptrdiff_t i = start; i < start + size; i++) {
        p[at++] = (unsigned char)digits[from[i] >> 4];
        p[at++] = (unsigned char)digits[from[i] & 15];
    }
    return at;
}

#endif
