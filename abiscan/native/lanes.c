/* What the instructions on vectors of integers compute, for SSE and AVX alike (SDM 2B to 2D). */

#include "core.h"

#define EACH(type, member, expression)                                                                                 \
    for (unsigned at = 0; at < bytes / sizeof(type); at++) {                                                           \
        type x = a->member[at], y = b->member[at];                                                                     \
        result->member[at] = (type)(expression);                                                                       \
    }                                                                                                                  \
    return true

/* Lanes of both sources in turn, in each 128 bits by themselves. */
static void interleave(Vector *result, const Vector *a, const Vector *b, unsigned width, bool high, unsigned bytes) {
    Vector made = {{0}};
    for (unsigned half = 0; half < bytes; half += 16)
        for (unsigned at = 0; at < 8; at += width) {
            unsigned from = half + at + (high ? 8 : 0), to = half + 2 * at;
            memcpy(made.b + to, a->b + from, width);
            memcpy(made.b + to + width, b->b + from, width);
        }
    memcpy(result->b, made.b, bytes);
}

static int32_t signed_of(uint32_t value, unsigned bits) {
    uint32_t sign = (uint32_t)1 << (bits - 1);
    return value & sign ? -(int32_t)((~value & (sign - 1)) + 1) : (int32_t)(value & (sign - 1));
}

/* Wide lanes become narrow ones, or the nearest number that one can hold. Only of 128 bits. */
static void narrow(Vector *result, const Vector *a, const Vector *b, unsigned width, bool is_signed) {
    Vector made = {{0}};
    const Vector *sources[2] = {a, b};
    unsigned count = 16 / width, to = width / 2;
    int32_t most = is_signed ? (1 << (8 * to - 1)) - 1 : (1 << (8 * to)) - 1, least = is_signed ? -most - 1 : 0;
    for (unsigned at = 0; at < 2 * count; at++) {
        const Vector *from = sources[at / count];
        uint32_t bits = width == 4 ? from->d[at % count] : from->w[at % count];
        int32_t value = width == 4 && !(bits >> 31) ? (int32_t)bits : signed_of(bits, 8 * width);
        value = value > most ? most : value < least ? least : value;
        for (unsigned part = 0; part < to; part++)
            made.b[at * to + part] = (uint8_t)((uint32_t)value >> (8 * part));
    }
    memcpy(result->b, made.b, 16);
}

/* The instructions of the map 0F with a prefix of 66; `a` is the first source. */
bool lanes_combine(uint8_t opcode, Vector *result, const Vector *a, const Vector *b, unsigned bytes) {
    switch (opcode) {
    case 0x54:
    case 0xDB: EACH(uint64_t, q, x & y);
    case 0x55:
    case 0xDF: EACH(uint64_t, q, ~x & y);
    case 0x56:
    case 0xEB: EACH(uint64_t, q, x | y);
    case 0x57:
    case 0xEF: EACH(uint64_t, q, x ^ y);
    case 0x60: interleave(result, a, b, 1, false, bytes); return true;
    case 0x61: interleave(result, a, b, 2, false, bytes); return true;
    case 0x14: /* unpcklpd; unpcklps is as punpckldq */
    case 0x6C: interleave(result, a, b, 8, false, bytes); return true;
    case 0x62: interleave(result, a, b, 4, false, bytes); return true;
    case 0x68: interleave(result, a, b, 1, true, bytes); return true;
    case 0x69: interleave(result, a, b, 2, true, bytes); return true;
    case 0x6A: interleave(result, a, b, 4, true, bytes); return true;
    case 0x15:
    case 0x6D: interleave(result, a, b, 8, true, bytes); return true;
    case 0x63: narrow(result, a, b, 2, true); return true;
    case 0x67: narrow(result, a, b, 2, false); return true;
    case 0x6B: narrow(result, a, b, 4, true); return true;
    case 0x64: EACH(uint8_t, b, (x ^ 0x80) > (y ^ 0x80) ? 0xFF : 0);
    case 0x65: EACH(uint16_t, w, (x ^ 0x8000) > (y ^ 0x8000) ? 0xFFFF : 0);
    case 0x66: EACH(uint32_t, d, (x ^ 0x80000000u) > (y ^ 0x80000000u) ? 0xFFFFFFFFu : 0);
    case 0x74: EACH(uint8_t, b, x == y ? 0xFF : 0);
    case 0x75: EACH(uint16_t, w, x == y ? 0xFFFF : 0);
    case 0x76: EACH(uint32_t, d, x == y ? 0xFFFFFFFFu : 0);
    case 0xD4: EACH(uint64_t, q, x + y);
    case 0xD5: EACH(uint16_t, w, (uint32_t)x * y);
    case 0xDA: EACH(uint8_t, b, x < y ? x : y);
    case 0xDE: EACH(uint8_t, b, x > y ? x : y);
    case 0xEA: EACH(uint16_t, w, (x ^ 0x8000) < (y ^ 0x8000) ? x : y);
    case 0xEE: EACH(uint16_t, w, (x ^ 0x8000) > (y ^ 0x8000) ? x : y);
    case 0xF4: EACH(uint64_t, q, (x & 0xFFFFFFFFu) * (y & 0xFFFFFFFFu));
    case 0xF8: EACH(uint8_t, b, x - y);
    case 0xF9: EACH(uint16_t, w, x - y);
    case 0xFA: EACH(uint32_t, d, x - y);
    case 0xFB: EACH(uint64_t, q, x - y);
    case 0xFC: EACH(uint8_t, b, x + y);
    case 0xFD: EACH(uint16_t, w, x + y);
    case 0xFE: EACH(uint32_t, d, x + y);
    default: return false;
    }
}

static uint64_t shifted(uint64_t value, unsigned bits, unsigned operation, uint64_t count) {
    uint64_t mask = bits == 64 ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
    bool is_negative = value >> (bits - 1) & 1;
    if (operation == 4) { /* arithmetic, to the right */
        uint64_t by = count < bits ? count : bits - 1;
        return (value >> by | (is_negative ? ~(mask >> by) : 0)) & mask;
    }
    if (count >= bits)
        return 0;
    return operation == 2 ? value >> count : (value << count) & mask;
}

/* psrl, psra, psll (operation 2, 4, 6) of the lanes that opcode 71, 72 or 73 has; 3 and 7 move whole bytes. */
bool lanes_shift(uint8_t opcode, unsigned operation, Vector *value, uint64_t count, unsigned bytes) {
    unsigned width = opcode == 0x71 ? 2 : opcode == 0x72 ? 4 : 8;
    if (operation == 3 || operation == 7) {
        unsigned by = count < 16 ? (unsigned)count : 16;
        if (opcode != 0x73)
            return false;
        for (unsigned half = 0; half < bytes; half += 16) {
            uint8_t before[16];
            memcpy(before, value->b + half, 16);
            memset(value->b + half, 0, 16);
            memcpy(value->b + half + (operation == 7 ? by : 0), before + (operation == 3 ? by : 0), 16 - by);
        }
        return true;
    }
    if (operation != 2 && operation != 6 && (operation != 4 || width == 8))
        return false;
    for (unsigned at = 0; at < bytes / width; at++) {
        if (width == 2)
            value->w[at] = (uint16_t)shifted(value->w[at], 16, operation, count);
        else if (width == 4)
            value->d[at] = (uint32_t)shifted(value->d[at], 32, operation, count);
        else
            value->q[at] = shifted(value->q[at], 64, operation, count);
    }
    return true;
}

void lanes_shuffle_dwords(Vector *result, const Vector *a, unsigned order, unsigned bytes) {
    lanes_shuffle_floats(result, a, a, order, bytes);
}

void lanes_shuffle_floats(Vector *result, const Vector *a, const Vector *b, unsigned order, unsigned bytes) {
    Vector made = {{0}};
    for (unsigned at = 0; at < bytes / 4; at++) {
        const Vector *source = at % 4 < 2 ? a : b;
        made.d[at] = source->d[(at & ~3u) + (order >> (2 * (at % 4)) & 3)];
    }
    memcpy(result->b, made.b, bytes);
}

void lanes_align(Vector *result, const Vector *high, const Vector *low, unsigned by, unsigned bytes) {
    Vector made = {{0}};
    for (unsigned half = 0; half < bytes; half += 16)
        for (unsigned at = 0; at < 16; at++) {
            unsigned from = at + by;
            made.b[half + at] = from < 16 ? low->b[half + from] : from < 32 ? high->b[half + from - 16] : 0;
        }
    memcpy(result->b, made.b, bytes);
}
