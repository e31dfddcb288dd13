/* Arithmetic on floating-point numbers, in the default environment (SDM 1, 11.6): what has no number as its result, or
   is computed of none, is left to others. */

#include "core.h"

bool is_number(const Vector *value, bool is_double, unsigned lane) {
    return is_double ? value->g[lane] == value->g[lane] : value->f[lane] == value->f[lane];
}

/* By the bits: an exponent of all ones is an infinity, or no number. */
bool is_finite(const Vector *value, bool is_double, unsigned lane) {
    if (is_double)
        return (value->q[lane] >> 52 & 0x7FF) != 0x7FF;
    return (value->d[lane] >> 23 & 0xFF) != 0xFF;
}

/* add, mul, sub, min, div, max of one lane. */
bool scalar_arithmetic(uint8_t opcode, bool is_double, const Vector *a, const Vector *b, unsigned lane, Vector *result) {
    if (!is_number(a, is_double, lane) || !is_number(b, is_double, lane))
        return false;
#define BY_OPCODE(member)                                                                                              \
    switch (opcode) {                                                                                                  \
    case 0x58: result->member[lane] = a->member[lane] + b->member[lane]; break;                                        \
    case 0x59: result->member[lane] = a->member[lane] * b->member[lane]; break;                                        \
    case 0x5C: result->member[lane] = a->member[lane] - b->member[lane]; break;                                        \
    case 0x5D: result->member[lane] = a->member[lane] < b->member[lane] ? a->member[lane] : b->member[lane]; break;    \
    case 0x5E: result->member[lane] = a->member[lane] / b->member[lane]; break; /* by zero, too (C11, annex F) */      \
    case 0x5F: result->member[lane] = a->member[lane] > b->member[lane] ? a->member[lane] : b->member[lane]; break;    \
    default: return false;                                                                                             \
    }
    if (is_double) {
        BY_OPCODE(g)
    } else {
        BY_OPCODE(f)
    }
#undef BY_OPCODE
    return is_number(result, is_double, lane);
}

/* The integer that a number is truncated to; what does not fit is left to others. */
bool truncated(const Vector *value, bool is_double, bool is_wide, uint64_t *result) {
    double number = is_double ? value->g[0] : (double)value->f[0], limit = is_wide ? 9.2e18 : 2147483647.0;
    if (!(number > -limit && number < limit))
        return false;
    int64_t integer = (int64_t)number;
    *result = is_wide ? (uint64_t)integer : (uint32_t)integer;
    return true;
}
