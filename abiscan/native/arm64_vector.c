/* Vectors, and single lanes of them (Arm ARM, C4.1.96). */

#include "arm64.h"

/* What most of these instructions are made of. */
typedef struct {
    const Vector *n, *m; /* the sources */
    Vector before, made;
    unsigned bytes, size, lanes; /* of the vector, of a lane; how many */
    bool is_unsigned, is_whole;  /* bit 29, which tells other things apart too; the bit for 128 bits */
} Operands;

static Operands operands_of(const Core *core, uint32_t word, unsigned size, bool is_single) {
    Operands o = {.n = &core->r.vectors[field(word, 5, 5)], .m = &core->r.vectors[field(word, 16, 5)]};
    o.before = core->r.vectors[field(word, 0, 5)];
    o.is_unsigned = field(word, 29, 1);
    o.is_whole = field(word, 30, 1);
    o.size = size;
    o.bytes = is_single ? size : o.is_whole ? 16 : 8;
    o.lanes = o.bytes / size;
    return o;
}

static bool finish(Core *core, uint32_t word, const Operands *o, unsigned bytes) {
    set_vector(core, field(word, 0, 5), o->made.b, bytes);
    return true;
}

/* Lanes of both sources behind each other, for what combines neighbours. */
static uint64_t lane_of_both(const Operands *o, unsigned lane) {
    return lane < o->lanes ? get_lane(o->n, o->size, lane) : get_lane(o->m, o->size, lane - o->lanes);
}

static bool logic(Core *core, uint32_t word, Operands *o) {
    unsigned operation = (o->is_unsigned ? 4u : 0) | field(word, 22, 2);
    for (unsigned half = 0; half < 2; half++) {
        uint64_t n = o->n->q[half], m = o->m->q[half], made = 0;
        switch (operation) {
        case 0: made = n & m; break;
        case 1: made = n & ~m; break;
        case 2: made = n | m; break;
        case 3: made = n | ~m; break;
        case 4: made = n ^ m; break;
        default: return unknown(core);
        }
        o->made.q[half] = made;
    }
    return finish(core, word, o, o->bytes);
}

/* Arithmetic of numbers: bit 23 belongs to the operation. */
static bool numbers(Core *core, uint32_t word) {
    bool is_double = field(word, 22, 1), in_pairs = false;
    Operands o = operands_of(core, word, is_double ? 8 : 4, false);
    unsigned two = 0;
    if (is_double && !o.is_whole)
        return unknown(core);
    switch (field(word, 23, 1) << 6 | (unsigned)o.is_unsigned << 5 | field(word, 11, 5)) {
    case 0x1A: two = 2; break;                  /* fadd */
    case 0x5A: two = 3; break;                  /* fsub */
    case 0x3B: two = 0; break;                  /* fmul */
    case 0x3F: two = 1; break;                  /* fdiv */
    case 0x3A: two = 2, in_pairs = true; break; /* faddp */
    default: return unknown(core);
    }
    for (unsigned at = 0; at < o.lanes; at++) {
        uint64_t a = in_pairs ? lane_of_both(&o, 2 * at) : get_lane(o.n, o.size, at), made = 0;
        uint64_t b = in_pairs ? lane_of_both(&o, 2 * at + 1) : get_lane(o.m, o.size, at);
        if (!arm64_number_of_two(two, is_double, a, b, &made))
            return unknown(core);
        set_lane(&o.made, o.size, at, made);
    }
    return finish(core, word, &o, o.bytes);
}

enum { ADD = 0x10, EQUAL, MULTIPLY_ADD, MULTIPLY, ADD_PAIRS = 0x17 };

static bool three_same(Core *core, uint32_t word, bool is_single) {
    unsigned operation = field(word, 11, 5), size = 1u << field(word, 22, 2);
    Operands o = operands_of(core, word, size, is_single);
    bool in_pairs = operation == ADD_PAIRS, is_of_64_bits = operation == ADD || operation == EQUAL;
    if (operation > ADD_PAIRS)
        return is_single ? unknown(core) : numbers(core, word);
    if (operation == 0x03)
        return is_single ? unknown(core) : logic(core, word, &o);
    if (is_single ? size != 8 || !is_of_64_bits : size == 8 && !(o.is_whole && (is_of_64_bits || in_pairs)))
        return unknown(core);
    if (o.is_unsigned ? operation == MULTIPLY || in_pairs : operation == EQUAL) /* pmul, cmtst */
        return unknown(core);
    for (unsigned at = 0; at < o.lanes; at++) {
        uint64_t a = in_pairs ? lane_of_both(&o, 2 * at) : get_lane(o.n, size, at), made = 0;
        uint64_t b = in_pairs ? lane_of_both(&o, 2 * at + 1) : get_lane(o.m, size, at), before = get_lane(&o.before, size, at);
        switch (operation) {
        case ADD: made = o.is_unsigned ? a - b : a + b; break;
        case EQUAL: made = a == b ? ~(uint64_t)0 : 0; break;
        case MULTIPLY_ADD: made = o.is_unsigned ? before - a * b : before + a * b; break;
        case MULTIPLY: made = a * b; break;
        case ADD_PAIRS: made = a + b; break;
        default: return unknown(core);
        }
        set_lane(&o.made, size, at, made);
    }
    return finish(core, word, &o, o.bytes);
}

/* Lanes of half the size, from the upper half of a source for the second form of the instruction. */
static uint64_t narrow_lane(const Operands *o, const Vector *source, unsigned lane) {
    uint64_t value = get_lane(source, o->size, lane + (o->is_whole ? 8 / o->size : 0));
    return o->is_unsigned ? value : extended(value, 8 * o->size);
}

/* Results of twice the size of a source, or half of it. */
static bool three_different(Core *core, uint32_t word) {
    unsigned operation = field(word, 12, 4), size = 1u << field(word, 22, 2);
    if (size == 8)
        return unknown(core);
    Operands o = operands_of(core, word, size, false);
    bool is_narrow = operation == 0x4 || operation == 0x6;
    if ((is_narrow && o.is_unsigned) || (operation == 0xC && o.is_unsigned && !o.is_whole)) /* raddhn, rsubhn, umull */
        return unknown(core);
    if (is_narrow && o.is_whole)
        o.made.q[0] = o.before.q[0];
    for (unsigned at = 0; at < 8 / size; at++) {
        uint64_t a = narrow_lane(&o, o.n, at), b = narrow_lane(&o, o.m, at), made = 0;
        uint64_t n = get_lane(o.n, 2 * size, at), m = get_lane(o.m, 2 * size, at), before = get_lane(&o.before, 2 * size, at);
        switch (operation) {
        case 0x0: made = a + b; break;
        case 0x1: made = n + b; break;
        case 0x2: made = a - b; break;
        case 0x3: made = n - b; break;
        case 0x4: made = (n + m) >> (8 * size); break; /* the upper half */
        case 0x6: made = (n - m) >> (8 * size); break;
        case 0x8: made = before + a * b; break;
        case 0xA: made = before - a * b; break;
        case 0xC: made = a * b; break;
        default: return unknown(core);
        }
        if (is_narrow)
            set_lane(&o.made, size, at + (o.is_whole ? 8 / size : 0), made);
        else
            set_lane(&o.made, 2 * size, at, made);
    }
    return finish(core, word, &o, 16);
}

/* Sums of neighbours, in lanes of twice the size; added to what was there. */
static bool add_long_pairs(Core *core, uint32_t word, Operands *o, bool accumulates) {
    if (o->size == 8)
        return unknown(core);
    for (unsigned at = 0; at < o->lanes / 2; at++) {
        uint64_t a = get_lane(o->n, o->size, 2 * at), b = get_lane(o->n, o->size, 2 * at + 1);
        if (!o->is_unsigned)
            a = extended(a, 8 * o->size), b = extended(b, 8 * o->size);
        set_lane(&o->made, 2 * o->size, at, a + b + (accumulates ? get_lane(&o->before, 2 * o->size, at) : 0));
    }
    return finish(core, word, o, o->bytes);
}

/* Of numbers: those that take one. Bit 23 belongs to the operation. */
static bool number_of_one(Core *core, uint32_t word, bool is_single) {
    bool is_double = field(word, 22, 1), is_signed = !field(word, 29, 1);
    unsigned operation = field(word, 23, 1) << 5 | field(word, 12, 5);
    Operands o = operands_of(core, word, is_double ? 8 : 4, is_single);
    uint64_t sign = (uint64_t)1 << (8 * o.size - 1);
    if (is_double && !o.is_whole)
        return unknown(core);
    for (unsigned at = 0; at < o.lanes; at++) {
        uint64_t a = get_lane(o.n, o.size, at), made = 0;
        switch (operation) {
        case 0x1D: /* scvtf, ucvtf */
            if (!is_single)
                return unknown(core);
            made = arm64_number_of(is_signed, is_double, is_double, a);
            break;
        case 0x3B: /* fcvtzs, fcvtzu */
            if (!arm64_integer_of(TO_ZERO, is_signed, is_double, is_double, a, &made))
                return unknown(core);
            break;
        case 0x2F: /* fabs, fneg */
            if (is_single)
                return unknown(core);
            made = is_signed ? a & ~sign : a ^ sign;
            break;
        default: return unknown(core);
        }
        set_lane(&o.made, o.size, at, made);
    }
    return finish(core, word, &o, o.bytes);
}

static bool of_one(Core *core, uint32_t word, bool is_single) {
    unsigned operation = field(word, 12, 5), size = 1u << field(word, 22, 2);
    Operands o = operands_of(core, word, size, is_single);
    if (operation >= 0x0C && operation != 0x12 && operation != 0x13)
        return number_of_one(core, word, is_single);
    if (is_single) {
        if (operation != 0x0B || !o.is_unsigned || size != 8) /* neg */
            return unknown(core);
        o.made.q[0] = -o.n->q[0];
        return finish(core, word, &o, 8);
    }
    switch (operation) {
    case 0x02:
    case 0x06: return add_long_pairs(core, word, &o, operation == 0x06);
    case 0x05: /* not */
        if (!o.is_unsigned || size != 1)
            return unknown(core);
        for (unsigned half = 0; half < 2; half++)
            o.made.q[half] = ~o.n->q[half];
        return finish(core, word, &o, o.bytes);
    case 0x09: /* cmeq with zero */
        if (o.is_unsigned || (size == 8 && !o.is_whole))
            return unknown(core);
        for (unsigned at = 0; at < o.lanes; at++)
            set_lane(&o.made, size, at, get_lane(o.n, size, at) ? 0 : ~(uint64_t)0);
        return finish(core, word, &o, o.bytes);
    case 0x12: /* xtn */
        if (o.is_unsigned || size == 8)
            return unknown(core);
        if (o.is_whole)
            o.made.q[0] = o.before.q[0];
        for (unsigned at = 0; at < 8 / size; at++)
            set_lane(&o.made, size, at + (o.is_whole ? 8 / size : 0), get_lane(o.n, 2 * size, at));
        return finish(core, word, &o, 16);
    case 0x13: /* shll */
        if (!o.is_unsigned || size == 8)
            return unknown(core);
        for (unsigned at = 0; at < 8 / size; at++)
            set_lane(&o.made, 2 * size, at, narrow_lane(&o, o.n, at) << (8 * size));
        return finish(core, word, &o, 16);
    default: return unknown(core);
    }
}

/* SMAXV and the like; ADDV of the largest lanes. */
static bool across_lanes(Core *core, uint32_t word) {
    unsigned operation = field(word, 12, 5), size = 1u << field(word, 22, 2);
    if (size == 8)
        return unknown(core);
    Operands o = operands_of(core, word, size, false);
    bool adds = operation == 0x1B && !o.is_unsigned && size == 4, is_most = operation == 0x0A;
    if ((size == 4 && !o.is_whole) || !(adds || is_most || operation == 0x1A))
        return unknown(core);
    uint64_t made = get_lane(o.n, size, 0);
    for (unsigned at = 1; at < o.lanes; at++) {
        uint64_t value = get_lane(o.n, size, at);
        bool is_lower = o.is_unsigned ? made < value : is_less(extended(made, 8 * size), extended(value, 8 * size));
        made = adds ? made + value : is_lower == is_most ? value : made;
    }
    set_lane(&o.made, size, 0, made);
    return finish(core, word, &o, size);
}

static unsigned lowest_bit(unsigned value) {
    unsigned at = 0;
    while (!(value >> at & 1))
        at++;
    return at;
}

/* DUP, INS, UMOV, SMOV: the lowest bit of five tells the size of lanes, those above it which one. */
static bool copy(Core *core, uint32_t word, bool is_single) {
    unsigned coded = field(word, 16, 5), how = field(word, 11, 4), source = field(word, 5, 5), target = field(word, 0, 5);
    bool is_whole = field(word, 30, 1), is_insertion = field(word, 29, 1);
    if ((coded & 15) == 0)
        return unknown(core);
    unsigned scale = lowest_bit(coded), size = 1u << scale, lane = coded >> (scale + 1);
    Vector *vector = &core->r.vectors[target], made = {{0}};
    uint64_t value = get_lane(&core->r.vectors[source], size, lane);
    if (is_single) {
        if (is_insertion || how != 0)
            return unknown(core);
        set_vector(core, target, &value, size);
        return true;
    }
    if (is_insertion) {
        if (!is_whole)
            return unknown(core);
        set_lane(vector, size, lane, get_lane(&core->r.vectors[source], size, how >> scale));
        return true;
    }
    switch (how) {
    case 0:
    case 1: /* dup */
        if (size == 8 && !is_whole)
            return unknown(core);
        value = how ? register_or_zero(core, source) : value;
        for (unsigned at = 0; at < 16 / size; at++)
            set_lane(&made, size, at, value);
        set_vector(core, target, made.b, is_whole ? 16 : 8);
        return true;
    case 3: /* ins from a general register */
        if (!is_whole)
            return unknown(core);
        set_lane(vector, size, lane, register_or_zero(core, source));
        return true;
    case 5: /* smov */
        if (size > (is_whole ? 4 : 2))
            return unknown(core);
        set_register_or_none(core, target, extended(value, 8 * size), is_whole);
        return true;
    case 7: /* umov */
        if (is_whole != (size == 8))
            return unknown(core);
        set_register_or_none(core, target, value, true);
        return true;
    default: return unknown(core);
    }
}

/* UZP, TRN, ZIP. */
static bool permute(Core *core, uint32_t word) {
    unsigned size = 1u << field(word, 22, 2), kind = field(word, 12, 2), part = field(word, 14, 1);
    Operands o = operands_of(core, word, size, false);
    if (kind == 0 || (size == 8 && !o.is_whole))
        return unknown(core);
    for (unsigned at = 0; at < o.lanes; at++) {
        unsigned from = 2 * at + part; /* uzp: of both sources, one after the other */
        if (kind != 1) {
            unsigned lane = kind == 2 ? (at & ~1u) + part : at / 2 + part * o.lanes / 2;
            from = at & 1 ? o.lanes + lane : lane;
        }
        set_lane(&o.made, size, at, lane_of_both(&o, from));
    }
    return finish(core, word, &o, o.bytes);
}

/* AdvSIMDExpandImm of the Arm ARM: MOVI, MVNI, FMOV; ORR and BIC with what was there. */
static bool constant(Core *core, uint32_t word) {
    unsigned coded = field(word, 16, 3) << 5 | field(word, 5, 5), mode = field(word, 12, 4);
    bool inverts = field(word, 29, 1), is_whole = field(word, 30, 1), combines = mode < 12 && mode & 1;
    uint64_t value = coded;
    if (field(word, 11, 1))
        return unknown(core);
    if (mode < 8) {
        value = (uint64_t)coded << (8 * (mode >> 1));
        value |= value << 32;
    } else if (mode < 12) {
        value = ((uint64_t)coded << (8 * (mode >> 1 & 1))) * 0x0001000100010001u;
    } else if (mode < 14) { /* with ones below */
        value = mode & 1 ? (uint64_t)coded << 16 | 0xFFFF : (uint64_t)coded << 8 | 0xFF;
        value |= value << 32;
    } else if (mode == 14 && !inverts) {
        value *= 0x0101010101010101u;
    } else if (mode == 14) { /* a byte of ones for each bit */
        value = 0;
        for (unsigned at = 0; at < 8; at++)
            value |= coded >> at & 1 ? (uint64_t)0xFF << (8 * at) : 0;
    } else if (!inverts) {
        value = arm64_expanded(coded, false);
        value |= value << 32;
    } else if (is_whole) {
        value = arm64_expanded(coded, true);
    } else {
        return unknown(core);
    }
    if (inverts && mode < 14)
        value = ~value;
    Vector made = {{0}};
    for (unsigned half = 0; half < 2; half++) {
        uint64_t before = core->r.vectors[field(word, 0, 5)].q[half];
        made.q[half] = !combines ? value : inverts ? before & value : before | value;
    }
    set_vector(core, field(word, 0, 5), made.b, is_whole ? 16 : 8);
    return true;
}

/* `by` is up to the bits that there are. */
static uint64_t shifted_right(uint64_t value, unsigned by, unsigned bits, bool is_unsigned) {
    bool is_negative = !is_unsigned && value >> (bits - 1) & 1;
    uint64_t ones = is_negative ? ~(uint64_t)0 : 0;
    return by < bits ? value >> by | ones << (bits - by) : ones;
}

static bool by_constant(Core *core, uint32_t word, bool is_single) {
    unsigned coded = field(word, 16, 7), operation = field(word, 11, 5), scale = 3;
    while (!(coded >> (scale + 3) & 1)) /* one of the upper four is set */
        scale--;
    unsigned size = 1u << scale, bits = 8 * size;
    Operands o = operands_of(core, word, size, is_single);
    if (operation == 0x10 || operation == 0x14) { /* shrn, and sshll with ushll */
        bool is_narrow = operation == 0x10;
        if (size == 8 || is_single || (is_narrow && o.is_unsigned))
            return unknown(core);
        if (is_narrow && o.is_whole)
            o.made.q[0] = o.before.q[0];
        for (unsigned at = 0; at < 8 / size; at++) {
            if (is_narrow)
                set_lane(&o.made, size, at + (o.is_whole ? 8 / size : 0), get_lane(o.n, 2 * size, at) >> (2 * bits - coded));
            else
                set_lane(&o.made, 2 * size, at, narrow_lane(&o, o.n, at) << (coded - bits));
        }
        return finish(core, word, &o, 16);
    }
    bool is_left = operation == 0x0A;
    if ((size == 8 ? !o.is_whole : is_single) || (operation != 0x00 && operation != 0x02 && !(is_left && !o.is_unsigned)))
        return unknown(core);
    if (is_single && (is_left || (operation == 0x00 && !o.is_unsigned))) /* shl, sshr */
        return unknown(core);
    for (unsigned at = 0; at < o.lanes; at++) {
        uint64_t value = get_lane(o.n, size, at);
        uint64_t made = is_left ? value << (coded - bits) : shifted_right(value, 2 * bits - coded, bits, o.is_unsigned);
        if (operation == 0x02) /* ssra, usra */
            made += get_lane(&o.before, size, at);
        set_lane(&o.made, size, at, made);
    }
    return finish(core, word, &o, o.bytes);
}

static bool with_one_lane(Core *core, uint32_t word) {
    if ((word & 0xFFE08400u) == 0x5E000400u)
        return copy(core, word, true);
    if (field(word, 24, 1)) {
        if (!field(word, 10, 1) || field(word, 23, 1) || field(word, 19, 4) == 0)
            return unknown(core);
        return by_constant(core, word, true);
    }
    if (!field(word, 21, 1))
        return unknown(core);
    if (field(word, 10, 1))
        return three_same(core, word, true);
    if ((word & 0xFFFFFC00u) == 0x5EF1B800u) { /* addp */
        const Vector *source = &core->r.vectors[field(word, 5, 5)];
        uint64_t made = source->q[0] + source->q[1];
        set_vector(core, field(word, 0, 5), &made, sizeof made);
        return true;
    }
    return field(word, 17, 4) == 0 && field(word, 11, 1) ? of_one(core, word, true) : unknown(core);
}

bool arm64_vector(Core *core, uint32_t word) {
    if (word >> 31)
        return unknown(core);
    if (field(word, 28, 1))
        return field(word, 30, 1) ? with_one_lane(core, word) : unknown(core);
    if (field(word, 24, 1)) {
        if (!field(word, 10, 1) || field(word, 23, 1))
            return unknown(core);
        return field(word, 19, 4) == 0 ? constant(core, word) : by_constant(core, word, false);
    }
    if (field(word, 21, 1)) {
        if (field(word, 10, 1))
            return three_same(core, word, false);
        if (!field(word, 11, 1))
            return three_different(core, word);
        switch (field(word, 17, 4)) {
        case 0: return of_one(core, word, false);
        case 8: return across_lanes(core, word);
        default: return unknown(core);
        }
    }
    if (field(word, 15, 1))
        return unknown(core);
    if (field(word, 10, 1))
        return field(word, 22, 2) ? unknown(core) : copy(core, word, false);
    return field(word, 11, 1) && !field(word, 29, 1) ? permute(core, word) : unknown(core);
}
