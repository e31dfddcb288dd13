/* Data processing with general registers (Arm ARM, C4.1.92 and C4.1.95). */

#include "arm64.h"

__extension__ typedef unsigned __int128 Double;

enum { LSL, LSR, ASR, ROR };

/* The sum of two numbers and a carry, and its flags if they are asked for. */
static uint64_t sum(Core *core, uint64_t a, uint64_t b, bool carry, bool is_wide, bool sets_flags) {
    unsigned bits = is_wide ? 64 : 32;
    uint64_t mask = low_bits(bits);
    a &= mask, b &= mask;
    uint64_t result = (a + b + carry) & mask;
    if (sets_flags) {
        Registers *r = &core->r;
        r->sf = result >> (bits - 1) & 1;
        r->zf = result == 0;
        r->cf = carry ? result <= a : result < a;
        r->of = (~(a ^ b) & (a ^ result)) >> (bits - 1) & 1;
    }
    return result;
}

/* The result of an instruction of logic, and its flags. */
static void set_logic_flags(Core *core, uint64_t result, bool is_wide) {
    set_flags(&core->r, 0);
    core->r.sf = result >> (is_wide ? 63 : 31) & 1;
    core->r.zf = (is_wide ? result : (uint32_t)result) == 0;
}

static uint64_t rotated(uint64_t value, unsigned by, unsigned bits) {
    value &= low_bits(bits);
    return by == 0 ? value : (value >> by | value << (bits - by)) & low_bits(bits);
}

/* `by` is less than the bits that there are. */
static uint64_t shifted(uint64_t value, unsigned kind, unsigned by, bool is_wide) {
    unsigned bits = is_wide ? 64 : 32;
    value &= low_bits(bits);
    switch (kind) {
    case LSL: return value << by & low_bits(bits);
    case LSR: return value >> by;
    case ASR: {
        bool is_negative = value >> (bits - 1) & 1;
        return (value >> by | (is_negative ? ~(low_bits(bits) >> by) : 0)) & low_bits(bits);
    }
    default: return rotated(value, by, bits);
    }
}

static bool address_of_label(Core *core, uint32_t word) {
    uint64_t distance = extended((uint64_t)field(word, 5, 19) << 2 | field(word, 29, 2), 21), pc = core->r.pc;
    uint64_t result = word >> 31 ? (pc & ~(uint64_t)PAGE_MASK) + (distance << PAGE_SHIFT) : pc + distance;
    set_register_or_none(core, field(word, 0, 5), result, true);
    return true;
}

static bool add_immediate(Core *core, uint32_t word) {
    bool is_wide = word >> 31, subtracts = word >> 30 & 1, sets_flags = word >> 29 & 1;
    uint64_t a = register_or_sp(core, field(word, 5, 5)), b = (uint64_t)field(word, 10, 12) << (field(word, 22, 1) * 12);
    uint64_t result = sum(core, a, subtracts ? ~b : b, subtracts, is_wide, sets_flags);
    if (sets_flags)
        set_register_or_none(core, field(word, 0, 5), result, is_wide);
    else
        set_register_or_sp(core, field(word, 0, 5), result, is_wide);
    return true;
}

/* DecodeBitMasks of the Arm ARM, for logic: a run of ones, rotated, as often as there is room. */
static bool bit_mask(unsigned n, unsigned immr, unsigned imms, uint64_t *mask) {
    unsigned coded = n << 6 | (~imms & 0x3F), length = 0;
    for (unsigned at = 1; at < 7; at++)
        if (coded >> at & 1)
            length = at;
    if (length == 0)
        return false;
    unsigned size = 1u << length, ones = (imms & (size - 1)) + 1;
    if (ones == size)
        return false;
    uint64_t element = rotated(low_bits(ones), immr & (size - 1), size);
    *mask = 0;
    for (unsigned at = 0; at < 64; at += size)
        *mask |= element << at;
    return true;
}

static bool logic(Core *core, uint32_t word, uint64_t a, uint64_t b, bool of_immediate) {
    unsigned number = field(word, 0, 5), operation = field(word, 29, 2);
    bool is_wide = word >> 31;
    uint64_t result = operation == 1 ? a | b : operation == 2 ? a ^ b : a & b;
    if (operation == 3)
        set_logic_flags(core, result, is_wide);
    if (of_immediate && operation != 3)
        set_register_or_sp(core, number, result, is_wide);
    else
        set_register_or_none(core, number, result, is_wide);
    return true;
}

static bool logic_immediate(Core *core, uint32_t word) {
    uint64_t mask = 0;
    if ((!(word >> 31) && field(word, 22, 1)) || !bit_mask(field(word, 22, 1), field(word, 16, 6), field(word, 10, 6), &mask))
        return unknown(core);
    return logic(core, word, register_or_zero(core, field(word, 5, 5)), mask, true);
}

static bool move_wide(Core *core, uint32_t word) {
    bool is_wide = word >> 31;
    unsigned operation = field(word, 29, 2), by = 16 * field(word, 21, 2), number = field(word, 0, 5);
    uint64_t value = (uint64_t)field(word, 5, 16) << by;
    if (operation == 1 || (!is_wide && by >= 32))
        return unknown(core);
    if (operation == 0)
        value = ~value;
    if (operation == 3)
        value |= register_or_zero(core, number) & ~((uint64_t)0xFFFF << by);
    set_register_or_none(core, number, value, is_wide);
    return true;
}

/* SBFM, BFM and UBFM: bits of the source, moved down to the bottom, or up from there. */
static bool bit_field(Core *core, uint32_t word) {
    bool is_wide = word >> 31;
    unsigned operation = field(word, 29, 2), immr = field(word, 16, 6), imms = field(word, 10, 6);
    unsigned bits = is_wide ? 64 : 32, number = field(word, 0, 5);
    if (operation == 3 || field(word, 22, 1) != is_wide || immr >= bits || imms >= bits)
        return unknown(core);
    uint64_t source = register_or_zero(core, field(word, 5, 5)), before = register_or_zero(core, number);
    unsigned from = imms >= immr ? immr : 0, count = imms - from + 1, to = imms >= immr ? 0 : bits - immr;
    uint64_t value = (source >> from & low_bits(count)) << to;
    if (operation == 0)
        value = extended(value, to + count);
    if (operation == 1)
        value |= before & ~(low_bits(count) << to);
    set_register_or_none(core, number, value, is_wide);
    return true;
}

static bool extract(Core *core, uint32_t word) {
    bool is_wide = word >> 31;
    unsigned by = field(word, 10, 6), bits = is_wide ? 64 : 32;
    if (field(word, 29, 2) || field(word, 22, 1) != is_wide || field(word, 21, 1) || by >= bits)
        return unknown(core);
    uint64_t low = register_or_zero(core, field(word, 16, 5)), high = register_or_zero(core, field(word, 5, 5));
    uint64_t value = by == 0 ? low : (low & low_bits(bits)) >> by | high << (bits - by);
    set_register_or_none(core, field(word, 0, 5), value, is_wide);
    return true;
}

bool arm64_immediate(Core *core, uint32_t word) {
    switch (field(word, 23, 3)) {
    case 0:
    case 1: return address_of_label(core, word);
    case 2: return add_immediate(core, word);
    case 4: return logic_immediate(core, word);
    case 5: return move_wide(core, word);
    case 6: return bit_field(core, word);
    case 7: return extract(core, word);
    default: return unknown(core);
    }
}

static bool logic_register(Core *core, uint32_t word) {
    bool is_wide = word >> 31;
    unsigned by = field(word, 10, 6);
    if (!is_wide && by >= 32)
        return unknown(core);
    uint64_t b = shifted(register_or_zero(core, field(word, 16, 5)), field(word, 22, 2), by, is_wide);
    return logic(core, word, register_or_zero(core, field(word, 5, 5)), field(word, 21, 1) ? ~b : b, false);
}

static bool add_shifted(Core *core, uint32_t word) {
    bool is_wide = word >> 31, subtracts = word >> 30 & 1;
    unsigned by = field(word, 10, 6), kind = field(word, 22, 2);
    if (kind == ROR || (!is_wide && by >= 32))
        return unknown(core);
    uint64_t b = shifted(register_or_zero(core, field(word, 16, 5)), kind, by, is_wide);
    uint64_t a = register_or_zero(core, field(word, 5, 5));
    uint64_t result = sum(core, a, subtracts ? ~b : b, subtracts, is_wide, word >> 29 & 1);
    set_register_or_none(core, field(word, 0, 5), result, is_wide);
    return true;
}

static bool add_extended(Core *core, uint32_t word) {
    bool is_wide = word >> 31, subtracts = word >> 30 & 1, sets_flags = word >> 29 & 1;
    unsigned by = field(word, 10, 3), option = field(word, 13, 3), bits = 8u << (option & 3);
    if (field(word, 22, 2) || by > 4)
        return unknown(core);
    uint64_t b = register_or_zero(core, field(word, 16, 5)) & low_bits(bits);
    b = (option & 4 ? extended(b, bits) : b) << by;
    uint64_t result = sum(core, register_or_sp(core, field(word, 5, 5)), subtracts ? ~b : b, subtracts, is_wide, sets_flags);
    if (sets_flags)
        set_register_or_none(core, field(word, 0, 5), result, is_wide);
    else
        set_register_or_sp(core, field(word, 0, 5), result, is_wide);
    return true;
}

static bool add_with_carry(Core *core, uint32_t word) {
    bool is_wide = word >> 31, subtracts = word >> 30 & 1;
    if (field(word, 10, 6))
        return unknown(core);
    uint64_t a = register_or_zero(core, field(word, 5, 5)), b = register_or_zero(core, field(word, 16, 5));
    uint64_t result = sum(core, a, subtracts ? ~b : b, core->r.cf, is_wide, word >> 29 & 1);
    set_register_or_none(core, field(word, 0, 5), result, is_wide);
    return true;
}

static bool compare_if(Core *core, uint32_t word) {
    bool is_wide = word >> 31, subtracts = word >> 30 & 1;
    unsigned coded = field(word, 16, 5);
    if (!field(word, 29, 1) || field(word, 10, 1) || field(word, 4, 1))
        return unknown(core);
    uint64_t b = field(word, 11, 1) ? coded : register_or_zero(core, coded);
    if (arm64_holds(&core->r, field(word, 12, 4)))
        sum(core, register_or_zero(core, field(word, 5, 5)), subtracts ? ~b : b, subtracts, is_wide, true);
    else
        set_flags(&core->r, field(word, 0, 4));
    return true;
}

static bool select_register(Core *core, uint32_t word) {
    bool is_wide = word >> 31, inverts = word >> 30 & 1, adds = field(word, 10, 1);
    if (field(word, 29, 1) || field(word, 11, 1))
        return unknown(core);
    uint64_t value = register_or_zero(core, field(word, 5, 5));
    if (!arm64_holds(&core->r, field(word, 12, 4))) {
        value = register_or_zero(core, field(word, 16, 5));
        value = (inverts ? ~value : value) + adds;
    }
    set_register_or_none(core, field(word, 0, 5), value, is_wide);
    return true;
}

/* The quotient, rounded towards zero; zero of a division by zero (Arm ARM, C6.2.296). */
static uint64_t quotient(uint64_t a, uint64_t b, bool is_wide, bool is_signed) {
    unsigned bits = is_wide ? 64 : 32;
    bool is_negative = false;
    a &= low_bits(bits), b &= low_bits(bits);
    if (is_signed) {
        bool has_negative = a >> (bits - 1) & 1, by_negative = b >> (bits - 1) & 1;
        a = has_negative ? -a & low_bits(bits) : a;
        b = by_negative ? -b & low_bits(bits) : b;
        is_negative = has_negative != by_negative;
    }
    uint64_t result = b == 0 ? 0 : a / b;
    return is_negative ? -result : result;
}

static bool of_two(Core *core, uint32_t word) {
    bool is_wide = word >> 31;
    unsigned operation = field(word, 10, 6);
    uint64_t a = register_or_zero(core, field(word, 5, 5)), b = register_or_zero(core, field(word, 16, 5)), result = 0;
    if (field(word, 29, 1))
        return unknown(core);
    if (operation == 2 || operation == 3)
        result = quotient(a, b, is_wide, operation & 1);
    else if (operation >= 8 && operation < 12)
        result = shifted(a, operation & 3, (unsigned)(b & (is_wide ? 63 : 31)), is_wide);
    else
        return unknown(core);
    set_register_or_none(core, field(word, 0, 5), result, is_wide);
    return true;
}

/* Units of `from` bits in the opposite order, in each `to` bits. */
static uint64_t reversed(uint64_t value, unsigned from, unsigned to) {
    for (unsigned width = from; width < to; width *= 2) {
        uint64_t low = ~(uint64_t)0 / (low_bits(width) + 2); /* 0x0F0F... of 4 */
        value = (value & low) << width | (value >> width & low);
    }
    return value;
}

static unsigned leading_zeros(uint64_t value, unsigned bits) {
    unsigned count = 0;
    while (count < bits && !(value >> (bits - 1 - count) & 1))
        count++;
    return count;
}

/* How many bits after the highest are as that one. */
static unsigned leading_signs(uint64_t value, unsigned bits) {
    unsigned count = leading_zeros((value ^ value << 1) & low_bits(bits) & ~(uint64_t)1, bits);
    return count < bits ? count : bits - 1;
}

static bool of_one(Core *core, uint32_t word) {
    bool is_wide = word >> 31;
    unsigned bits = is_wide ? 64 : 32;
    uint64_t a = register_or_zero(core, field(word, 5, 5)), result = 0;
    if (field(word, 29, 1) || field(word, 16, 5))
        return unknown(core);
    switch (field(word, 10, 6)) {
    case 0: result = reversed(a, 1, bits); break;
    case 1: result = reversed(a, 8, 16); break;
    case 2: result = reversed(a, 8, 32); break;
    case 3:
        if (!is_wide)
            return unknown(core);
        result = reversed(a, 8, 64);
        break;
    case 4: result = leading_zeros(a, bits); break;
    case 5: result = leading_signs(a, bits); break;
    default: return unknown(core);
    }
    set_register_or_none(core, field(word, 0, 5), result, is_wide);
    return true;
}

static uint64_t high_product(uint64_t a, uint64_t b, bool is_signed) {
    uint64_t result = (uint64_t)((Double)a * b >> 64);
    if (is_signed) /* what a negative number has beyond what is multiplied here is 2 to the 64 */
        result -= (a >> 63 ? b : 0) + (b >> 63 ? a : 0);
    return result;
}

static bool of_three(Core *core, uint32_t word) {
    bool is_wide = word >> 31, subtracts = field(word, 15, 1);
    unsigned operation = field(word, 21, 3), added = field(word, 10, 5);
    uint64_t a = register_or_zero(core, field(word, 5, 5)), b = register_or_zero(core, field(word, 16, 5)), result = 0;
    if (field(word, 29, 2) || (operation != 0 && !is_wide))
        return unknown(core);
    switch (operation) {
    case 0: break;
    case 1: a = extended(a, 32), b = extended(b, 32); break;
    case 5: a = (uint32_t)a, b = (uint32_t)b; break;
    case 2:
    case 6:
        if (subtracts)
            return unknown(core);
        set_register_or_none(core, field(word, 0, 5), high_product(a, b, operation == 2), true);
        return true;
    default: return unknown(core);
    }
    result = register_or_zero(core, added);
    set_register_or_none(core, field(word, 0, 5), subtracts ? result - a * b : result + a * b, is_wide);
    return true;
}

bool arm64_register(Core *core, uint32_t word) {
    unsigned group = field(word, 21, 4);
    if (!field(word, 28, 1)) {
        if (!(group & 8))
            return logic_register(core, word);
        return group & 1 ? add_extended(core, word) : add_shifted(core, word);
    }
    if (group & 8)
        return of_three(core, word);
    switch (group) {
    case 0: return add_with_carry(core, word);
    case 2: return compare_if(core, word);
    case 4: return select_register(core, word);
    case 6: return field(word, 30, 1) ? of_one(core, word) : of_two(core, word);
    default: return unknown(core);
    }
}
