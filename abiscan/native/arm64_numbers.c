/* Arithmetic of floating-point numbers, as FPCR has it after a reset: to the nearest, with subnormal numbers. */

#include "arm64.h"

static double number_in(bool is_double, uint64_t bits) {
    if (is_double) {
        double number;
        memcpy(&number, &bits, sizeof number);
        return number;
    }
    uint32_t half = (uint32_t)bits;
    float number;
    memcpy(&number, &half, sizeof number);
    return (double)number;
}

static uint64_t bits_of_float(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static uint64_t bits_of_double(double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return bits;
}

static uint64_t bits_of(bool is_double, double number) {
    return is_double ? bits_of_double(number) : bits_of_float((float)number);
}

/* FMUL, FDIV, FADD, FSUB, FMAX, FMAXNM, FNMUL. One operation on two floats, made with doubles and rounded
   twice, is as if it were rounded once: a double has more than twice the digits. */
bool arm64_number_of_two(unsigned operation, bool is_double, uint64_t a, uint64_t b, uint64_t *result) {
    double x = number_in(is_double, a), y = number_in(is_double, b), made = 0;
    if (x != x || y != y)
        return false;
    switch (operation) {
    case 0: made = x * y; break;
    case 1: made = x / y; break;
    case 2: made = x + y; break;
    case 3: made = x - y; break;
    case 4:
    case 6: *result = x == y ? a & b : x > y ? a : b; return true; /* of two zeros, the positive one */
    case 8: made = -(x * y); break;
    default: return false;
    }
    *result = bits_of(is_double, made);
    return made == made;
}

/* -1, 0 or 1; 2 if one is no number. */
int arm64_compared(bool is_double, uint64_t a, uint64_t b) {
    double x = number_in(is_double, a), y = number_in(is_double, b);
    if (x != x || y != y)
        return 2;
    return x < y ? -1 : x > y;
}

static double to_integer(Rounding mode, double x) {
    const double integral = 4503599627370496.0; /* from here on, all are integers */
    if (!(x > -integral && x < integral))
        return x;
    double whole = (double)(int64_t)x, rest = x < whole ? whole - x : x - whole, away = x < 0 ? whole - 1 : whole + 1;
    switch (mode) {
    case TO_EVEN: return rest > 0.5 || (rest == 0.5 && (int64_t)whole % 2 != 0) ? away : whole;
    case TO_PLUS: return whole < x ? whole + 1 : whole;
    case TO_MINUS: return whole > x ? whole - 1 : whole;
    case TO_ZERO: return whole;
    default: return rest >= 0.5 ? away : whole;
    }
}

/* FRINTN and the like: a zero keeps the sign. */
bool arm64_rounded(Rounding mode, bool is_double, uint64_t a, uint64_t *result) {
    double x = number_in(is_double, a);
    uint64_t sign = (uint64_t)1 << (is_double ? 63 : 31);
    *result = bits_of(is_double, to_integer(mode, x)) | (a & sign);
    return x == x;
}

/* FCVTNS and the like, of what fits. */
bool arm64_integer_of(Rounding mode, bool is_signed, bool is_wide, bool is_double, uint64_t a, uint64_t *result) {
    double x = to_integer(mode, number_in(is_double, a)), half = is_wide ? 9223372036854775808.0 : 2147483648.0;
    if (is_signed) {
        if (!(x >= -half && x < half))
            return false;
        *result = (uint64_t)(int64_t)x;
    } else {
        if (!(x >= 0 && x < 2 * half))
            return false;
        *result = (uint64_t)x;
    }
    return true;
}

/* SCVTF and UCVTF. */
uint64_t arm64_number_of(bool is_signed, bool is_wide, bool is_double, uint64_t a) {
    if (!is_wide)
        return bits_of(is_double, is_signed ? (double)(int32_t)(uint32_t)a : (double)(uint32_t)a);
    if (is_double)
        return bits_of_double(is_signed ? (double)(int64_t)a : (double)a);
    return bits_of_float(is_signed ? (float)(int64_t)a : (float)a);
}

/* FCVT from one to the other. */
bool arm64_converted(bool from_double, uint64_t a, uint64_t *result) {
    double x = number_in(from_double, a);
    *result = bits_of(!from_double, x);
    return x == x;
}

/* VFPExpandImm of the Arm ARM. */
uint64_t arm64_expanded(unsigned coded, bool is_double) {
    uint64_t sign = coded >> 7, exponent = coded >> 6 & 1, rest = coded & 0x3F;
    if (is_double)
        return sign << 63 | (exponent ^ 1) << 62 | (exponent ? (uint64_t)0xFF << 54 : 0) | rest << 48;
    return sign << 31 | (exponent ^ 1) << 30 | (exponent ? (uint64_t)0x1F << 25 : 0) | rest << 19;
}
