/* Executes the SSE instructions (SDM 2A to 2C); MMX is left to others. */

#include "core.h"

enum { PLAIN, P66, PF3, PF2 };

static unsigned prefix_of(const Instruction *i) {
    return i->repeat == 0xF3 ? PF3 : i->repeat == 0xF2 ? PF2 : i->operand16 ? P66 : PLAIN;
}

static Vector *target(Core *core, const Instruction *i) {
    return &core->r.vectors[i->reg];
}

static bool get_source(Core *core, const Instruction *i, Vector *value, unsigned bytes) {
    if (i->has_memory)
        return load_vector(core, i->address, value->b, bytes);
    *value = core->r.vectors[i->rm];
    return true;
}

static uint64_t get_general(const Core *core, unsigned number, unsigned size) {
    uint64_t value = core->r.registers[number];
    return size == 8 ? value : value & (((uint64_t)1 << (8 * size)) - 1);
}

/* A general register, or memory, of up to eight bytes. */
static bool get_word(Core *core, const Instruction *i, unsigned size, uint64_t *value) {
    *value = 0;
    if (i->has_memory) {
        Vector loaded = {{0}};
        if (!load(core, i->address, loaded.b, size))
            return false;
        *value = loaded.q[0];
        return true;
    }
    *value = get_general(core, i->rm, size);
    return true;
}

static void set_low(Vector *vector, const Vector *value, unsigned bytes) {
    memcpy(vector->b, value->b, bytes);
}

/* Moves: 10, 11, 12, 13, 16, 17, 28, 29, 2B, 6F, 7F, E7, and D6, 7E between vectors */
static bool move(Core *core, const Instruction *i, unsigned prefix) {
    Vector *reg = target(core, i), value = {{0}};
    switch (i->opcode) {
    case 0x10:
    case 0x11: {
        unsigned bytes = prefix < PF3 ? 16 : prefix == PF3 ? 4 : 8;
        if (i->opcode == 0x11) {
            if (i->has_memory)
                return store_vector(core, i->address, reg->b, bytes);
            set_low(&core->r.vectors[i->rm], reg, bytes);
            return true;
        }
        if (!get_source(core, i, &value, bytes))
            return false;
        set_low(reg, &value, i->has_memory ? 16 : bytes);
        return true;
    }
    case 0x12: /* movlps, movlpd, movhlps; movsldup, movddup */
        if (prefix == PF3)
            return unknown(core);
        if (prefix == PLAIN && !i->has_memory) {
            reg->q[0] = core->r.vectors[i->rm].q[1];
            return true;
        }
        if (prefix == P66 && !i->has_memory)
            return unknown(core);
        if (!get_source(core, i, &value, 8))
            return false;
        reg->q[0] = value.q[0];
        if (prefix == PF2)
            reg->q[1] = value.q[0];
        return true;
    case 0x16: /* movhps, movhpd, movlhps */
        if (prefix > P66 || (prefix == P66 && !i->has_memory))
            return unknown(core);
        if (!get_source(core, i, &value, 8))
            return false;
        reg->q[1] = value.q[0];
        return true;
    case 0x13:
    case 0x17:
        if (prefix > P66 || !i->has_memory)
            return unknown(core);
        return store(core, i->address, reg->b + (i->opcode == 0x17 ? 8 : 0), 8);
    case 0x28:
    case 0x6F:
        if (i->opcode == 0x28 ? prefix > P66 : prefix == PLAIN || prefix == PF2)
            return unknown(core);
        if (!get_source(core, i, &value, 16))
            return false;
        set_low(reg, &value, 16);
        return true;
    case 0x29:
    case 0x2B:
    case 0x7F:
    case 0xE7:
        if (i->opcode == 0x7F ? prefix == PLAIN || prefix == PF2 : i->opcode == 0xE7 ? prefix != P66 : prefix > P66)
            return unknown(core);
        if (i->has_memory)
            return store_vector(core, i->address, reg->b, 16);
        if (i->opcode == 0x2B || i->opcode == 0xE7)
            return unknown(core);
        set_low(&core->r.vectors[i->rm], reg, 16);
        return true;
    case 0x7E: /* movq */
        if (!get_source(core, i, &value, 8))
            return false;
        reg->q[0] = value.q[0];
        reg->q[1] = 0;
        return true;
    default: /* D6: movq */
        if (prefix != P66)
            return unknown(core);
        if (i->has_memory)
            return store(core, i->address, reg->b, 8);
        core->r.vectors[i->rm].q[0] = reg->q[0];
        core->r.vectors[i->rm].q[1] = 0;
        return true;
    }
}

/* movd and movq between vectors and general registers or memory */
static bool move_word(Core *core, const Instruction *i) {
    unsigned size = i->wide ? 8 : 4;
    Vector *reg = target(core, i);
    uint64_t value = 0;
    if (i->opcode == 0x6E) {
        if (!get_word(core, i, size, &value))
            return false;
        reg->q[0] = value;
        reg->q[1] = 0;
        return true;
    }
    if (i->has_memory)
        return store(core, i->address, reg->b, size);
    core->r.registers[i->rm] = size == 8 ? reg->q[0] : reg->d[0];
    return true;
}

static bool arithmetic(Core *core, const Instruction *i, unsigned prefix) {
    bool is_double = prefix == P66 || prefix == PF2, is_packed = prefix < PF3;
    unsigned width = is_double ? 8 : 4, lanes = is_packed ? 16 / width : 1;
    Vector *reg = target(core, i), source = {{0}}, result = *reg;
    if (is_packed && (i->opcode == 0x5D || i->opcode == 0x5E || i->opcode == 0x5F))
        return unknown(core);
    if (!get_source(core, i, &source, is_packed ? 16 : width))
        return false;
    for (unsigned lane = 0; lane < lanes; lane++)
        if (!scalar_arithmetic(i->opcode, is_double, reg, &source, lane, &result))
            return unknown(core);
    *reg = result;
    return true;
}

/* cvtsi2ss, cvtsi2sd; cvttss2si, cvttsd2si */
static bool convert_integer(Core *core, const Instruction *i, unsigned prefix) {
    unsigned size = i->wide ? 8 : 4;
    Vector *reg = target(core, i), source = {{0}};
    uint64_t bits = 0;
    if (prefix < PF3)
        return unknown(core);
    if (i->opcode == 0x2A) {
        if (!get_word(core, i, size, &bits))
            return false;
        int64_t value = 0;
        if (size == 4)
            bits |= bits >> 31 ? ~(uint64_t)0xFFFFFFFF : 0;
        memcpy(&value, &bits, sizeof value);
        if (prefix == PF3)
            reg->f[0] = (float)value;
        else
            reg->g[0] = (double)value;
        return true;
    }
    if (!get_source(core, i, &source, prefix == PF3 ? 4 : 8))
        return false;
    return truncated(&source, prefix == PF2, size == 8, &core->r.registers[i->reg]) || unknown(core);
}

/* cvtss2sd, cvtsd2ss */
static bool convert_number(Core *core, const Instruction *i, unsigned prefix) {
    Vector *reg = target(core, i), source = {{0}};
    if (prefix < PF3)
        return unknown(core);
    if (!get_source(core, i, &source, prefix == PF3 ? 4 : 8))
        return false;
    if (!is_number(&source, prefix == PF2, 0))
        return unknown(core);
    if (prefix == PF3)
        reg->g[0] = (double)source.f[0];
    else
        reg->f[0] = (float)source.g[0];
    return true;
}

/* cmpps, cmppd, cmpss, cmpsd: a mask in each lane; newer predicates than these eight exist with a VEX prefix only. */
static bool compare_to_mask(Core *core, const Instruction *i, unsigned prefix) {
    bool is_double = prefix == P66 || prefix == PF2, is_packed = prefix < PF3;
    unsigned width = is_double ? 8 : 4, lanes = is_packed ? 16 / width : 1, predicate = i->immediate & 0xFF;
    Vector *reg = target(core, i), source = {{0}}, result = *reg;
    if (predicate > 7)
        return unknown(core);
    if (!get_source(core, i, &source, is_packed ? 16 : width))
        return false;
    for (unsigned lane = 0; lane < lanes; lane++) {
        if (!is_number(reg, is_double, lane) || !is_number(&source, is_double, lane))
            return unknown(core);
        double a = is_double ? reg->g[lane] : (double)reg->f[lane];
        double b = is_double ? source.g[lane] : (double)source.f[lane];
        bool is_equal = a == b, is_less = a < b; /* of numbers, none is unordered */
        bool holds[4] = {is_equal, is_less, is_less || is_equal, false};
        memset(result.b + lane * width, holds[predicate & 3] != (predicate > 3) ? 0xFF : 0, width);
    }
    *reg = result;
    return true;
}

/* ucomiss, ucomisd, comiss, comisd */
static bool compare_numbers(Core *core, const Instruction *i, unsigned prefix) {
    Vector source = {{0}};
    if (prefix > P66)
        return unknown(core);
    if (!get_source(core, i, &source, prefix == P66 ? 8 : 4))
        return false;
    double a = prefix == P66 ? target(core, i)->g[0] : (double)target(core, i)->f[0];
    double b = prefix == P66 ? source.g[0] : (double)source.f[0];
    Registers *r = &core->r;
    bool unordered = a != a || b != b;
    r->zf = unordered || a == b;
    r->pf = unordered;
    r->cf = unordered || a < b;
    r->of = r->sf = r->af = 0;
    return true;
}

/* movmskps, movmskpd, pmovmskb: the sign of each lane */
static bool gather_signs(Core *core, const Instruction *i, unsigned width) {
    if (i->has_memory)
        return unknown(core);
    const Vector *source = &core->r.vectors[i->rm];
    uint64_t signs = 0;
    for (unsigned at = 0; at < 16 / width; at++)
        signs |= (uint64_t)(source->b[at * width + width - 1] >> 7) << at;
    core->r.registers[i->reg] = signs;
    return true;
}

/* pshufd, pshufhw, pshuflw */
static bool shuffle(Core *core, const Instruction *i, unsigned prefix) {
    Vector source = {{0}}, *reg = target(core, i);
    unsigned order = i->immediate & 0xFF;
    if (prefix == PLAIN)
        return unknown(core);
    if (!get_source(core, i, &source, 16))
        return false;
    if (prefix == P66) {
        lanes_shuffle_dwords(reg, &source, order, 16);
        return true;
    }
    unsigned first = prefix == PF3 ? 4 : 0;
    Vector result = source;
    for (unsigned at = 0; at < 4; at++)
        result.w[first + at] = source.w[first + (order >> (2 * at) & 3)];
    set_low(reg, &result, 16);
    return true;
}

static bool combine(Core *core, const Instruction *i, unsigned prefix) {
    Vector source = {{0}}, *reg = target(core, i);
    uint8_t opcode = i->opcode;
    bool is_for_floats = opcode == 0x14 || opcode == 0x15 || (opcode >= 0x54 && opcode <= 0x57);
    if (prefix != P66 && !(prefix == PLAIN && is_for_floats))
        return unknown(core);
    if (prefix == PLAIN && opcode == 0x14)
        opcode = 0x62;
    if (prefix == PLAIN && opcode == 0x15)
        opcode = 0x6A;
    if (!get_source(core, i, &source, 16))
        return false;
    return lanes_combine(opcode, reg, reg, &source, 16) ? true : unknown(core);
}

/* Shifts by a number in the instruction, or in a vector */
static bool shift(Core *core, const Instruction *i, unsigned prefix) {
    Vector source = {{0}}, *reg = target(core, i);
    if (prefix != P66)
        return unknown(core);
    if (i->opcode < 0x80) {
        if (i->has_memory || !lanes_shift(i->opcode, i->reg & 7, &core->r.vectors[i->rm], i->immediate & 0xFF, 16))
            return unknown(core);
        return true;
    }
    if (!get_source(core, i, &source, 16))
        return false;
    unsigned operation = i->opcode < 0xE0 ? 2 : i->opcode < 0xF0 ? 4 : 6;
    uint8_t lanes = (uint8_t)(0x70 + (i->opcode & 3));
    return lanes_shift(lanes, operation, reg, source.q[0], 16) ? true : unknown(core);
}

static bool execute_two_bytes(Core *core, const Instruction *i) {
    unsigned prefix = prefix_of(i);
    Vector source = {{0}}, *reg = target(core, i);
    uint64_t word = 0;
    switch (i->opcode) {
    case 0x10: case 0x11: case 0x12: case 0x13: case 0x16: case 0x17: case 0x28: case 0x29: case 0x2B:
    case 0x6F: case 0x7F: case 0xE7: case 0xD6:
        return move(core, i, prefix);
    case 0x6E: return prefix == P66 ? move_word(core, i) : unknown(core);
    case 0x7E: return prefix == P66 ? move_word(core, i) : prefix == PF3 ? move(core, i, prefix) : unknown(core);
    case 0x2A: case 0x2C: return convert_integer(core, i, prefix);
    case 0x2E: case 0x2F: return compare_numbers(core, i, prefix);
    case 0x50: return prefix == P66 ? gather_signs(core, i, 8) : unknown(core);
    case 0xD7: return prefix == P66 ? gather_signs(core, i, 1) : unknown(core);
    case 0x58: case 0x59: case 0x5C: case 0x5D: case 0x5E: case 0x5F: return arithmetic(core, i, prefix);
    case 0x5A: return convert_number(core, i, prefix);
    case 0x70: return shuffle(core, i, prefix);
    case 0x71: case 0x72: case 0x73: case 0xD1: case 0xD2: case 0xD3: case 0xE1: case 0xE2: case 0xF1: case 0xF2:
    case 0xF3:
        return shift(core, i, prefix);
    case 0xC2: return compare_to_mask(core, i, prefix);
    case 0xC4: /* pinsrw */
        if (prefix != P66)
            return unknown(core);
        if (!get_word(core, i, 2, &word))
            return false;
        reg->w[i->immediate & 7] = (uint16_t)word;
        return true;
    case 0xC5: /* pextrw */
        if (prefix != P66 || i->has_memory)
            return unknown(core);
        core->r.registers[i->reg] = core->r.vectors[i->rm].w[i->immediate & 7];
        return true;
    case 0xC6: /* shufps, shufpd */
        if (prefix > P66)
            return unknown(core);
        if (!get_source(core, i, &source, 16))
            return false;
        if (prefix == PLAIN) {
            lanes_shuffle_floats(reg, reg, &source, i->immediate & 0xFF, 16);
            return true;
        }
        reg->q[0] = reg->q[i->immediate & 1];
        reg->q[1] = source.q[i->immediate >> 1 & 1];
        return true;
    default: return combine(core, i, prefix);
    }
}

static bool execute_38(Core *core, const Instruction *i) {
    Vector source = {{0}}, *reg = target(core, i);
    if (prefix_of(i) != P66 || (i->opcode != 0x17 && i->opcode != 0x29))
        return unknown(core);
    if (!get_source(core, i, &source, 16))
        return false;
    if (i->opcode == 0x29) { /* pcmpeqq */
        for (unsigned at = 0; at < 2; at++)
            reg->q[at] = reg->q[at] == source.q[at] ? ~(uint64_t)0 : 0;
        return true;
    }
    Registers *r = &core->r; /* ptest */
    r->zf = ((reg->q[0] & source.q[0]) | (reg->q[1] & source.q[1])) == 0;
    r->cf = ((~reg->q[0] & source.q[0]) | (~reg->q[1] & source.q[1])) == 0;
    r->of = r->af = r->pf = r->sf = 0;
    return true;
}

static bool execute_3a(Core *core, const Instruction *i) {
    Vector source = {{0}}, *reg = target(core, i);
    unsigned size = i->wide ? 8 : 4, at = (unsigned)i->immediate & (i->wide ? 1 : 3);
    uint64_t word = 0;
    if (prefix_of(i) != P66)
        return unknown(core);
    switch (i->opcode) {
    case 0x0F: /* palignr */
        if (!get_source(core, i, &source, 16))
            return false;
        lanes_align(reg, reg, &source, i->immediate & 0xFF, 16);
        return true;
    case 0x16: /* pextrd, pextrq */
        if (i->has_memory)
            return store(core, i->address, reg->b + at * size, size);
        core->r.registers[i->rm] = size == 8 ? reg->q[at] : reg->d[at];
        return true;
    case 0x22: /* pinsrd, pinsrq */
        if (!get_word(core, i, size, &word))
            return false;
        if (size == 8)
            reg->q[at] = word;
        else
            reg->d[at] = (uint32_t)word;
        return true;
    default: return unknown(core);
    }
}

bool execute_vector(Core *core, const Instruction *i) {
    if (i->lock || (i->repeat && i->operand16))
        return unknown(core);
    switch (i->map) {
    case 1: return execute_two_bytes(core, i);
    case 2: return execute_38(core, i);
    default: return execute_3a(core, i);
    }
}
