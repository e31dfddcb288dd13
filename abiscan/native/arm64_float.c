/* Single floating-point numbers (Arm ARM, C4.1.96). */

#include "arm64.h"

enum { FLOAT, DOUBLE, TOP_HALF }; /* the type, in bits 23:22 */

static uint64_t number_at(const Core *core, unsigned number, bool is_double) {
    return get_lane(&core->r.vectors[number], is_double ? 8 : 4, 0);
}

static bool put(Core *core, uint32_t word, uint64_t value, bool is_double) {
    set_vector(core, field(word, 0, 5), &value, is_double ? 8 : 4);
    return true;
}

static bool move_general(Core *core, uint32_t word, unsigned type) {
    bool is_wide = word >> 31, to_vector = field(word, 16, 1);
    unsigned source = field(word, 5, 5), target = field(word, 0, 5), top = type == TOP_HALF;
    if (field(word, 19, 2) != top || (is_wide ? type != DOUBLE && !top : type != FLOAT))
        return unknown(core);
    if (!to_vector) {
        set_register_or_none(core, target, get_lane(&core->r.vectors[source], is_wide ? 8 : 4, top), is_wide);
        return true;
    }
    uint64_t value = register_or_zero(core, source);
    if (!top)
        return put(core, word, value, is_wide);
    set_lane(&core->r.vectors[target], 8, 1, value);
    return true;
}

static bool convert_general(Core *core, uint32_t word, unsigned type) {
    bool is_wide = word >> 31, is_double = type == DOUBLE;
    unsigned operation = field(word, 16, 3), mode = field(word, 19, 2);
    uint64_t result = 0;
    if (operation >= 6)
        return move_general(core, word, type);
    if (type > DOUBLE || (operation >= 2 && mode != 0))
        return unknown(core);
    if (operation == 2 || operation == 3) {
        uint64_t value = register_or_zero(core, field(word, 5, 5));
        return put(core, word, arm64_number_of(operation == 2, is_wide, is_double, value), is_double);
    }
    Rounding rounding = operation >= 4 ? AWAY : (Rounding)mode;
    if (!arm64_integer_of(rounding, !(operation & 1), is_wide, is_double, number_at(core, field(word, 5, 5), is_double), &result))
        return unknown(core);
    set_register_or_none(core, field(word, 0, 5), result, is_wide);
    return true;
}

static bool number_of_one(Core *core, uint32_t word, bool is_double) {
    static const Rounding modes[8] = {TO_EVEN, TO_PLUS, TO_MINUS, TO_ZERO, AWAY, AWAY, TO_EVEN, TO_EVEN};
    unsigned operation = field(word, 15, 6);
    uint64_t a = number_at(core, field(word, 5, 5), is_double), sign = (uint64_t)1 << (is_double ? 63 : 31), result = a;
    switch (operation) {
    case 0: break;
    case 1: result &= ~sign; break;
    case 2: result ^= sign; break;
    case 4:
    case 5: /* fcvt, to the other type */
        if ((operation == 5) == is_double || !arm64_converted(is_double, a, &result))
            return unknown(core);
        return put(core, word, result, !is_double);
    default:
        if (operation < 8 || operation == 13 || operation > 15 || !arm64_rounded(modes[operation & 7], is_double, a, &result))
            return unknown(core);
    }
    return put(core, word, result, is_double);
}

static unsigned flags_of(int order) {
    return order == 2 ? 3 : order < 0 ? 8 : order == 0 ? 6 : 2;
}

static bool compare(Core *core, uint32_t word, bool is_double) {
    bool with_zero = field(word, 3, 1);
    if (field(word, 0, 3) || field(word, 14, 2))
        return unknown(core);
    uint64_t b = with_zero ? 0 : number_at(core, field(word, 16, 5), is_double);
    set_flags(&core->r, flags_of(arm64_compared(is_double, number_at(core, field(word, 5, 5), is_double), b)));
    return true;
}

static bool compare_if(Core *core, uint32_t word, bool is_double) {
    uint64_t a = number_at(core, field(word, 5, 5), is_double), b = number_at(core, field(word, 16, 5), is_double);
    bool holds = arm64_holds(&core->r, field(word, 12, 4));
    set_flags(&core->r, holds ? flags_of(arm64_compared(is_double, a, b)) : field(word, 0, 4));
    return true;
}

bool arm64_float(Core *core, uint32_t word) {
    unsigned type = field(word, 22, 2);
    bool is_double = type == DOUBLE;
    if (field(word, 24, 1) || !field(word, 21, 1) || field(word, 29, 1))
        return unknown(core);
    if (field(word, 10, 6) == 0)
        return convert_general(core, word, type);
    if (type > DOUBLE || word >> 31)
        return unknown(core);
    uint64_t a = number_at(core, field(word, 5, 5), is_double), b = number_at(core, field(word, 16, 5), is_double);
    uint64_t result = 0;
    switch (field(word, 10, 2)) {
    case 1: return compare_if(core, word, is_double);
    case 2:
        if (!arm64_number_of_two(field(word, 12, 4), is_double, a, b, &result))
            return unknown(core);
        return put(core, word, result, is_double);
    case 3: return put(core, word, arm64_holds(&core->r, field(word, 12, 4)) ? a : b, is_double);
    default: break;
    }
    if (field(word, 12, 1)) /* fmov of a constant */
        return field(word, 5, 5) ? unknown(core) : put(core, word, arm64_expanded(field(word, 13, 8), is_double), is_double);
    if (field(word, 13, 1))
        return compare(core, word, is_double);
    return field(word, 14, 1) ? number_of_one(core, word, is_double) : unknown(core);
}
