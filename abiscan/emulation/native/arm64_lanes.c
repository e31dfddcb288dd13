/* What single integers become, in general registers and in the lanes of vectors (Arm ARM, C7.2). */

#include "arm64.h"

/* Units of `from` bits in the opposite order, in each `to` bits. */
uint64_t arm64_reversed(uint64_t value, unsigned from, unsigned to) {
    for (unsigned width = from; width < to; width *= 2) {
        uint64_t low = ~(uint64_t)0 / (low_bits(width) + 2); /* 0x0F0F... of 4 */
        value = (value & low) << width | (value >> width & low);
    }
    return value;
}

unsigned arm64_leading_zeros(uint64_t value, unsigned bits) {
    unsigned count = 0;
    while (count < bits && !(value >> (bits - 1 - count) & 1))
        count++;
    return count;
}

/* How many bits after the highest are as that one. */
unsigned arm64_leading_signs(uint64_t value, unsigned bits) {
    unsigned count = arm64_leading_zeros((value ^ value << 1) & low_bits(bits) & ~(uint64_t)1, bits);
    return count < bits ? count : bits - 1;
}

static uint64_t wide(uint64_t value, unsigned bits, bool is_unsigned) {
    return is_unsigned ? value : extended(value, bits);
}

/* To the left by what the low byte of a lane says; to the right if that is negative. */
static uint64_t shifted(uint64_t value, uint64_t by, unsigned bits, bool is_unsigned) {
    uint64_t distance = extended(by, 8);
    if (!(distance >> 63))
        return distance < bits ? value << distance : 0;
    distance = -distance;
    bool is_negative = !is_unsigned && value >> (bits - 1) & 1;
    if (distance >= bits)
        return is_negative ? ~(uint64_t)0 : 0;
    return wide(value, bits, is_unsigned) >> distance | (is_negative ? ~(~(uint64_t)0 >> distance) : 0);
}

static bool is_lower(uint64_t a, uint64_t b, unsigned bits, bool is_unsigned) {
    return is_unsigned ? a < b : is_less(extended(a, bits), extended(b, bits));
}

/* The instructions of the group "three same" but logic: the operation is in bits 15:11. */
bool arm64_of_same(unsigned operation, bool is_unsigned, unsigned bits, uint64_t a, uint64_t b, uint64_t before,
                   uint64_t *result) {
    uint64_t made = 0, ones = ~(uint64_t)0, x = wide(a, bits, is_unsigned), y = wide(b, bits, is_unsigned);
    bool is_lower_here = is_lower(a, b, bits, is_unsigned);
    switch (operation) {
    case 0x00: made = (x + y) >> 1; break; /* with one bit more than the lane, and less than 64 */
    case 0x02: made = (x + y + 1) >> 1; break;
    case 0x04: made = (x - y) >> 1; break;
    case 0x06: made = is_lower(b, a, bits, is_unsigned) ? ones : 0; break;
    case 0x07: made = is_lower_here ? 0 : ones; break;
    case 0x08: made = shifted(a, b, bits, is_unsigned); break;
    case 0x0C:
    case 0x14: made = is_lower_here ? b : a; break;
    case 0x0D:
    case 0x15: made = is_lower_here ? a : b; break;
    case 0x0E: made = is_lower_here ? y - x : x - y; break;
    case 0x0F: made = before + (is_lower_here ? y - x : x - y); break;
    case 0x10: made = is_unsigned ? a - b : a + b; break;
    case 0x11: made = is_unsigned ? (a == b ? ones : 0) : (a & b ? ones : 0); break;
    case 0x12: made = is_unsigned ? before - a * b : before + a * b; break;
    case 0x13:
        if (is_unsigned) /* polynomials */
            return false;
        made = a * b;
        break;
    case 0x17:
        if (is_unsigned)
            return false;
        made = a + b;
        break;
    default: return false;
    }
    *result = made & low_bits(bits);
    return true;
}

/* Of the group "two-register miscellaneous", those whose lanes do not change their size: bits 16:12. */
bool arm64_of_one(unsigned operation, bool is_unsigned, unsigned bits, uint64_t a, uint64_t *result) {
    bool is_negative = a >> (bits - 1) & 1, holds = false;
    switch (operation) {
    case 0x04: *result = is_unsigned ? arm64_leading_zeros(a, bits) : arm64_leading_signs(a, bits); return true;
    case 0x08: holds = is_unsigned ? !is_negative : !is_negative && a; break; /* cmge, cmgt with zero */
    case 0x09: holds = is_unsigned ? is_negative || !a : !a; break;          /* cmle, cmeq */
    case 0x0A:                                                               /* cmlt */
        if (is_unsigned)
            return false;
        holds = is_negative;
        break;
    case 0x0B: *result = is_unsigned || is_negative ? -a & low_bits(bits) : a; return true; /* neg, abs */
    default: return false;
    }
    *result = holds ? low_bits(bits) : 0;
    return true;
}

/* Of the group "shift by immediate", the same: bits 15:11, and how far, which is coded beside the size of lanes. */
bool arm64_of_shift(unsigned operation, bool is_unsigned, unsigned bits, unsigned coded, uint64_t a, uint64_t before,
                    uint64_t *result) {
    unsigned left = coded - bits, right = 2 * bits - coded;
    uint64_t made = 0, kept = 0;
    switch (operation) {
    case 0x00:
    case 0x02: made = shifted(a, 256 - right, bits, is_unsigned); break;
    case 0x08: /* sri */
        if (!is_unsigned)
            return false;
        made = right < bits ? a >> right : 0;
        kept = before & ~(right < bits ? low_bits(bits) >> right : 0);
        break;
    case 0x0A: /* shl, sli */
        made = a << left;
        kept = is_unsigned ? before & low_bits(left) : 0;
        break;
    default: return false;
    }
    if (operation == 0x02)
        made += before;
    *result = (made | kept) & low_bits(bits);
    return true;
}
