/* Executes the instructions with a VEX prefix that initialisers usually consist of (SDM 2A to 2D).

   They are those of abiscan.emulation.arch.vector, which does the others, and what is special here: what would have no
   number as its result, faults of stores into memory that cannot be written. A result clears what is above it. */

#include "core.h"

enum { PLAIN, P66, PF3, PF2 };

static unsigned prefix_of(const Instruction *i) {
    return i->repeat == 0xF3 ? PF3 : i->repeat == 0xF2 ? PF2 : i->operand16 ? P66 : PLAIN;
}

static bool load_all(Core *core, uint64_t address, void *value, unsigned size) {
    uint64_t boundary = (address | PAGE_MASK) + 1;
    if (load(core, address, value, size))
        return true;
    if (core->stopped == READ_UNMAPPED && memory_permissions(&core->memory, address >> PAGE_SHIFT) != 0)
        core->address = boundary;
    return false;
}

static bool store_all(Core *core, uint64_t address, const void *value, unsigned size) {
    uint64_t boundary = (address | PAGE_MASK) + 1;
    if (store(core, address, value, size))
        return true;
    if (core->stopped == WRITE_FORBIDDEN || core->stopped == CODE_CHANGED)
        return unknown(core);
    if (core->stopped == WRITE_UNMAPPED && memory_permissions(&core->memory, address >> PAGE_SHIFT) != 0)
        core->address = boundary;
    return false;
}

static bool get_source(Core *core, const Instruction *i, Vector *value, unsigned bytes) {
    if (i->has_memory)
        return load_all(core, i->address, value->b, bytes);
    memcpy(value->b, core->r.vectors[i->rm].b, bytes);
    return true;
}

static bool set_vector(Core *core, unsigned number, const Vector *value, unsigned bytes) {
    Vector whole = {{0}};
    memcpy(whole.b, value->b, bytes);
    core->r.vectors[number] = whole;
    return true;
}

static bool get_word(Core *core, const Instruction *i, unsigned size, uint64_t *value) {
    Vector loaded = {{0}};
    if (i->has_memory) {
        if (!load_all(core, i->address, loaded.b, size))
            return false;
        *value = loaded.q[0];
        return true;
    }
    *value = core->r.registers[i->rm];
    if (size < 8)
        *value &= ((uint64_t)1 << (8 * size)) - 1;
    return true;
}

/* A word of a vector, to memory or to a register, whose upper part is cleared. */
static bool put_word(Core *core, const Instruction *i, uint64_t value, unsigned size) {
    Vector stored = {{0}};
    stored.q[0] = value;
    if (i->has_memory)
        return store_all(core, i->address, stored.b, size);
    core->r.registers[i->rm] = size == 8 ? value : value & (((uint64_t)1 << (8 * size)) - 1);
    return true;
}

/* Whole vectors, to or from memory or another vector */
static bool move_whole(Core *core, const Instruction *i, bool is_store) {
    Vector value = {{0}};
    if (i->second)
        return unknown(core);
    if (is_store) {
        if (i->has_memory)
            return store_all(core, i->address, core->r.vectors[i->reg].b, i->bytes);
        return set_vector(core, i->rm, &core->r.vectors[i->reg], i->bytes);
    }
    if (!get_source(core, i, &value, i->bytes))
        return false;
    return set_vector(core, i->reg, &value, i->bytes);
}

/* vmovss, vmovsd: a load clears the rest, a move between registers takes it from the second one */
static bool move_scalar(Core *core, const Instruction *i, unsigned width, bool is_store) {
    Vector value = {{0}};
    if (i->has_memory) {
        if (i->second)
            return unknown(core);
        if (is_store)
            return store_all(core, i->address, core->r.vectors[i->reg].b, width);
        if (!load_all(core, i->address, value.b, width))
            return false;
        return set_vector(core, i->reg, &value, 16);
    }
    value = core->r.vectors[i->second];
    memcpy(value.b, core->r.vectors[is_store ? i->reg : i->rm].b, width);
    return set_vector(core, is_store ? i->rm : i->reg, &value, 16);
}

/* 12, 13, 16, 17: halves of 128 bits */
static bool move_half(Core *core, const Instruction *i, unsigned prefix) {
    Vector value = {{0}}, result = core->r.vectors[i->second];
    bool is_high = i->opcode & 4;
    if (prefix > P66 || i->bytes != 16 || (!i->has_memory && prefix == P66))
        return unknown(core);
    if (i->opcode & 1) {
        if (!i->has_memory || i->second)
            return unknown(core);
        return store_all(core, i->address, core->r.vectors[i->reg].b + (is_high ? 8 : 0), 8);
    }
    if (!get_source(core, i, &value, i->has_memory ? 8 : 16))
        return false;
    if (is_high)
        result.q[1] = value.q[0];
    else
        result.q[0] = i->has_memory ? value.q[0] : value.q[1];
    return set_vector(core, i->reg, &result, 16);
}

/* vmovd, vmovq */
static bool move_word(Core *core, const Instruction *i, unsigned prefix) {
    Vector value = {{0}};
    unsigned size = i->wide ? 8 : 4;
    if (i->second || i->bytes != 16 || (prefix != P66 && !(prefix == PF3 && i->opcode == 0x7E)))
        return unknown(core);
    if (i->opcode == 0x6E) {
        if (!get_word(core, i, size, &value.q[0]))
            return false;
        return set_vector(core, i->reg, &value, 16);
    }
    if (i->opcode == 0x7E && prefix == PF3) {
        if (!get_source(core, i, &value, 8))
            return false;
        return set_vector(core, i->reg, &value, 8);
    }
    if (i->opcode == 0xD6) {
        if (i->has_memory)
            return store_all(core, i->address, core->r.vectors[i->reg].b, 8);
        return set_vector(core, i->rm, &core->r.vectors[i->reg], 8);
    }
    return put_word(core, i, core->r.vectors[i->reg].q[0], size);
}

static bool arithmetic(Core *core, const Instruction *i, unsigned prefix) {
    bool is_double = prefix == P66 || prefix == PF2, is_packed = prefix < PF3;
    unsigned width = is_double ? 8 : 4, lanes = is_packed ? i->bytes / width : 1, bytes = is_packed ? i->bytes : 16;
    const Vector *first = &core->r.vectors[i->second];
    Vector source = {{0}}, result = *first;
    if (i->opcode == 0x5D || i->opcode == 0x5F)
        return unknown(core);
    if (!get_source(core, i, &source, is_packed ? i->bytes : width))
        return false;
    for (unsigned lane = 0; lane < lanes; lane++) {
        bool known = is_finite(first, is_double, lane) && is_finite(&source, is_double, lane);
        if (!known || !scalar_arithmetic(i->opcode, is_double, first, &source, lane, &result) ||
            !is_finite(&result, is_double, lane))
            return unknown(core);
    }
    return set_vector(core, i->reg, &result, bytes);
}

/* vcvtsi2ss, vcvtsi2sd, vcvttss2si, vcvttsd2si */
static bool convert_integer(Core *core, const Instruction *i, unsigned prefix) {
    unsigned size = i->wide ? 8 : 4;
    Vector source = {{0}}, result = core->r.vectors[i->second];
    const int64_t exact = (int64_t)1 << 53;
    uint64_t bits = 0;
    if (prefix < PF3)
        return unknown(core);
    if (i->opcode == 0x2A) {
        int64_t value = 0;
        if (!get_word(core, i, size, &bits))
            return false;
        if (size == 4)
            bits |= bits >> 31 ? ~(uint64_t)0xFFFFFFFF : 0;
        memcpy(&value, &bits, sizeof value);
        if (value > exact || value < -exact)
            return unknown(core);
        if (prefix == PF3)
            result.f[0] = (float)value;
        else
            result.g[0] = (double)value;
        return set_vector(core, i->reg, &result, 16);
    }
    if (i->second)
        return unknown(core);
    if (!get_source(core, i, &source, prefix == PF3 ? 4 : 8))
        return false;
    return truncated(&source, prefix == PF2, size == 8, &core->r.registers[i->reg]) || unknown(core);
}

static bool convert_number(Core *core, const Instruction *i, unsigned prefix) {
    Vector source = {{0}}, result = core->r.vectors[i->second];
    if (prefix < PF3)
        return unknown(core);
    if (!get_source(core, i, &source, prefix == PF3 ? 4 : 8))
        return false;
    if (!is_finite(&source, prefix == PF2, 0))
        return unknown(core);
    if (prefix == PF3)
        result.g[0] = (double)source.f[0];
    else
        result.f[0] = (float)source.g[0];
    if (!is_finite(&result, prefix == PF3, 0))
        return unknown(core);
    return set_vector(core, i->reg, &result, 16);
}

static void set_flags(Core *core, bool zero, bool carry, bool is_unordered) {
    Registers *r = &core->r;
    r->zf = zero;
    r->cf = carry;
    r->pf = is_unordered;
    r->of = r->sf = r->af = 0;
}

static bool compare_numbers(Core *core, const Instruction *i, unsigned prefix) {
    Vector source = {{0}};
    if (prefix > P66 || i->second)
        return unknown(core);
    if (!get_source(core, i, &source, prefix == P66 ? 8 : 4))
        return false;
    const Vector *first = &core->r.vectors[i->reg];
    double a = prefix == P66 ? first->g[0] : (double)first->f[0];
    double b = prefix == P66 ? source.g[0] : (double)source.f[0];
    bool unordered = a != a || b != b;
    set_flags(core, unordered || a == b, unordered || a < b, unordered);
    return true;
}

static bool gather_signs(Core *core, const Instruction *i, unsigned width) {
    if (i->has_memory || i->second)
        return unknown(core);
    const Vector *source = &core->r.vectors[i->rm];
    uint64_t signs = 0;
    for (unsigned at = 0; at < i->bytes / width; at++)
        signs |= (uint64_t)(source->b[at * width + width - 1] >> 7) << at;
    core->r.registers[i->reg] = signs;
    return true;
}

static bool shift(Core *core, const Instruction *i) {
    Vector source = {{0}}, value = {{0}};
    if (i->opcode < 0x80) { /* the target is in VEX.vvvv */
        unsigned operation = i->reg & 7;
        if (i->has_memory || operation == 4)
            return unknown(core);
        memcpy(value.b, core->r.vectors[i->rm].b, i->bytes);
        if (!lanes_shift(i->opcode, operation, &value, i->immediate & 0xFF, i->bytes))
            return unknown(core);
        return set_vector(core, i->second, &value, i->bytes);
    }
    if (i->opcode == 0xE1 || i->opcode == 0xE2)
        return unknown(core);
    if (!get_source(core, i, &source, 16))
        return false;
    memcpy(value.b, core->r.vectors[i->second].b, i->bytes);
    lanes_shift((uint8_t)(0x70 + (i->opcode & 3)), i->opcode < 0xE0 ? 2 : 6, &value, source.q[0], i->bytes);
    return set_vector(core, i->reg, &value, i->bytes);
}

static bool combine(Core *core, const Instruction *i, unsigned prefix) {
    Vector source = {{0}}, result = {{0}};
    uint8_t opcode = i->opcode;
    bool is_for_floats = opcode == 0x14 || opcode == 0x15 || (opcode >= 0x54 && opcode <= 0x57);
    if (prefix != P66 && !(prefix == PLAIN && is_for_floats))
        return unknown(core);
    if (prefix == PLAIN && opcode == 0x14)
        opcode = 0x62;
    if (prefix == PLAIN && opcode == 0x15)
        opcode = 0x6A;
    switch (opcode) { /* those of SSE that abiscan.emulation.arch.vector leaves out */
    case 0x63: case 0x67: case 0x6B: case 0xD5: case 0xEA: case 0xEE: return unknown(core);
    default: break;
    }
    if (!get_source(core, i, &source, i->bytes))
        return false;
    if (!lanes_combine(opcode, &result, &core->r.vectors[i->second], &source, i->bytes))
        return unknown(core);
    return set_vector(core, i->reg, &result, i->bytes);
}

static bool execute_0f(Core *core, const Instruction *i) {
    unsigned prefix = prefix_of(i);
    Vector source = {{0}}, result = core->r.vectors[i->second];
    uint64_t word = 0;
    switch (i->opcode) {
    case 0x10: case 0x11:
        if (prefix >= PF3)
            return move_scalar(core, i, prefix == PF3 ? 4 : 8, i->opcode == 0x11);
        return move_whole(core, i, i->opcode == 0x11);
    case 0x12: case 0x13: case 0x16: case 0x17: return move_half(core, i, prefix);
    case 0x28: case 0x29: return prefix > P66 ? unknown(core) : move_whole(core, i, i->opcode == 0x29);
    case 0x2B: return prefix > P66 || !i->has_memory ? unknown(core) : move_whole(core, i, true);
    case 0xE7: return prefix != P66 || !i->has_memory ? unknown(core) : move_whole(core, i, true);
    case 0xF0: return prefix != PF2 || !i->has_memory ? unknown(core) : move_whole(core, i, false);
    case 0x6F: case 0x7F:
        return prefix == PLAIN || prefix == PF2 ? unknown(core) : move_whole(core, i, i->opcode == 0x7F);
    case 0x6E: case 0x7E: case 0xD6: return move_word(core, i, prefix);
    case 0x2A: case 0x2C: return convert_integer(core, i, prefix);
    case 0x2E: case 0x2F: return compare_numbers(core, i, prefix);
    case 0x50: return prefix > P66 ? unknown(core) : gather_signs(core, i, prefix == P66 ? 8 : 4);
    case 0xD7: return prefix != P66 ? unknown(core) : gather_signs(core, i, 1);
    case 0x58: case 0x59: case 0x5C: case 0x5D: case 0x5E: case 0x5F: return arithmetic(core, i, prefix);
    case 0x5A: return convert_number(core, i, prefix);
    case 0x70:
        if (prefix != P66 || i->second)
            return unknown(core);
        if (!get_source(core, i, &source, i->bytes))
            return false;
        lanes_shuffle_dwords(&result, &source, i->immediate & 0xFF, i->bytes);
        return set_vector(core, i->reg, &result, i->bytes);
    case 0x71: case 0x72: case 0x73: case 0xD1: case 0xD2: case 0xD3: case 0xE1: case 0xE2: case 0xF1: case 0xF2:
    case 0xF3:
        return prefix == P66 ? shift(core, i) : unknown(core);
    case 0x77: /* vzeroupper, vzeroall */
        if (prefix != PLAIN || i->second)
            return unknown(core);
        for (unsigned at = 0; at < 16; at++)
            set_vector(core, at, &core->r.vectors[at], i->bytes == 32 ? 0 : 16);
        return true;
    case 0xC4:
        if (prefix != P66 || i->bytes != 16 || i->wide)
            return unknown(core);
        if (!get_word(core, i, 2, &word))
            return false;
        result.w[i->immediate & 7] = (uint16_t)word;
        return set_vector(core, i->reg, &result, 16);
    case 0xC6:
        if (prefix != PLAIN)
            return unknown(core);
        if (!get_source(core, i, &source, i->bytes))
            return false;
        lanes_shuffle_floats(&result, &core->r.vectors[i->second], &source, i->immediate & 0xFF, i->bytes);
        return set_vector(core, i->reg, &result, i->bytes);
    default: return combine(core, i, prefix);
    }
}

/* The first lane, or the first 128 bits, in all places */
static bool broadcast(Core *core, const Instruction *i, unsigned width) {
    Vector source = {{0}}, result = {{0}};
    if (i->second || i->wide || (width == 16 && !i->has_memory))
        return unknown(core);
    if (!get_source(core, i, &source, width))
        return false;
    for (unsigned at = 0; at < i->bytes; at += width)
        memcpy(result.b + at, source.b, width);
    return set_vector(core, i->reg, &result, i->bytes);
}

static bool permute_dwords(Core *core, const Instruction *i) {
    Vector source = {{0}}, result = {{0}};
    const Vector *order = &core->r.vectors[i->second];
    if (i->bytes != 32 || i->wide)
        return unknown(core);
    if (!get_source(core, i, &source, 32))
        return false;
    for (unsigned at = 0; at < 8; at++)
        result.d[at] = source.d[order->d[at] & 7];
    return set_vector(core, i->reg, &result, 32);
}

static bool shuffle_bytes(Core *core, const Instruction *i) {
    Vector source = {{0}}, result = {{0}};
    const Vector *first = &core->r.vectors[i->second];
    if (!get_source(core, i, &source, i->bytes))
        return false;
    for (unsigned at = 0; at < i->bytes; at++)
        result.b[at] = source.b[at] & 0x80 ? 0 : first->b[(at & 16) + (source.b[at] & 15)];
    return set_vector(core, i->reg, &result, i->bytes);
}

static bool test(Core *core, const Instruction *i) {
    Vector source = {{0}};
    const Vector *first = &core->r.vectors[i->reg];
    uint64_t both = 0, only = 0;
    if (i->second)
        return unknown(core);
    if (!get_source(core, i, &source, i->bytes))
        return false;
    for (unsigned at = 0; at < i->bytes / 8; at++) {
        both |= first->q[at] & source.q[at];
        only |= ~first->q[at] & source.q[at];
    }
    set_flags(core, both == 0, only == 0, false);
    return true;
}

static bool execute_38(Core *core, const Instruction *i) {
    Vector source = {{0}}, result = core->r.vectors[i->second];
    if (prefix_of(i) != P66)
        return unknown(core);
    switch (i->opcode) {
    case 0x00: return shuffle_bytes(core, i);
    case 0x16: case 0x36: return permute_dwords(core, i);
    case 0x17: return test(core, i);
    case 0x18: return broadcast(core, i, 4);
    case 0x19: return i->bytes == 32 ? broadcast(core, i, 8) : unknown(core);
    case 0x1A: case 0x5A: return i->bytes == 32 ? broadcast(core, i, 16) : unknown(core);
    case 0x58: return broadcast(core, i, 4);
    case 0x59: return broadcast(core, i, 8);
    case 0x78: return broadcast(core, i, 1);
    case 0x79: return broadcast(core, i, 2);
    case 0x29: case 0x37: case 0x3A: case 0x3B: case 0x3E: case 0x3F: case 0x40: break;
    default: return unknown(core);
    }
    if (!get_source(core, i, &source, i->bytes))
        return false;
    const uint64_t sign = (uint64_t)1 << 63, all = ~(uint64_t)0;
    for (unsigned at = 0; at < i->bytes; at++) {
        if (i->opcode == 0x29 && at < i->bytes / 8)
            result.q[at] = result.q[at] == source.q[at] ? all : 0;
        if (i->opcode == 0x37 && at < i->bytes / 8)
            result.q[at] = (result.q[at] ^ sign) > (source.q[at] ^ sign) ? all : 0;
        if (i->opcode == 0x3A && at < i->bytes / 2)
            result.w[at] = result.w[at] < source.w[at] ? result.w[at] : source.w[at];
        if (i->opcode == 0x3B && at < i->bytes / 4)
            result.d[at] = result.d[at] < source.d[at] ? result.d[at] : source.d[at];
        if (i->opcode == 0x3E && at < i->bytes / 2)
            result.w[at] = result.w[at] > source.w[at] ? result.w[at] : source.w[at];
        if (i->opcode == 0x3F && at < i->bytes / 4)
            result.d[at] = result.d[at] > source.d[at] ? result.d[at] : source.d[at];
        if (i->opcode == 0x40 && at < i->bytes / 4)
            result.d[at] *= source.d[at];
    }
    return set_vector(core, i->reg, &result, i->bytes);
}

/* vinsertf128, vinserti128; vextractf128, vextracti128 */
static bool move_part(Core *core, const Instruction *i, bool is_insert) {
    Vector source = {{0}}, result = core->r.vectors[i->second];
    unsigned at = i->immediate & 1 ? 16 : 0;
    if (i->bytes != 32 || i->wide || (!is_insert && i->second))
        return unknown(core);
    if (!is_insert) {
        memcpy(source.b, core->r.vectors[i->reg].b + at, 16);
        return i->has_memory ? store_all(core, i->address, source.b, 16) : set_vector(core, i->rm, &source, 16);
    }
    if (!get_source(core, i, &source, 16))
        return false;
    memcpy(result.b + at, source.b, 16);
    return set_vector(core, i->reg, &result, 32);
}

static bool execute_3a(Core *core, const Instruction *i) {
    Vector source = {{0}}, result = {{0}};
    const Vector *first = &core->r.vectors[i->second];
    unsigned number = i->immediate & 0xFF, size = i->wide ? 8 : 4;
    uint64_t word = 0;
    if (prefix_of(i) != P66)
        return unknown(core);
    switch (i->opcode) {
    case 0x00: case 0x01: /* vpermq, vpermpd */
        if (i->second || i->bytes != 32 || !i->wide)
            return unknown(core);
        if (!get_source(core, i, &source, 32))
            return false;
        for (unsigned at = 0; at < 4; at++)
            result.q[at] = source.q[number >> (2 * at) & 3];
        return set_vector(core, i->reg, &result, 32);
    case 0x02: case 0x0C: /* vpblendd, vblendps */
        if (i->wide)
            return unknown(core);
        if (!get_source(core, i, &source, i->bytes))
            return false;
        for (unsigned at = 0; at < i->bytes / 4; at++)
            result.d[at] = number >> at & 1 ? source.d[at] : first->d[at];
        return set_vector(core, i->reg, &result, i->bytes);
    case 0x06: case 0x46: /* vperm2f128, vperm2i128 */
        if (i->bytes != 32 || i->wide)
            return unknown(core);
        if (!get_source(core, i, &source, 32))
            return false;
        for (unsigned at = 0; at < 2; at++) {
            unsigned choice = number >> (4 * at) & 15;
            const Vector *from = choice & 2 ? &source : first;
            if (!(choice & 8))
                memcpy(result.b + 16 * at, from->b + 16 * (choice & 1), 16);
        }
        return set_vector(core, i->reg, &result, 32);
    case 0x0F: /* vpalignr */
        if (!get_source(core, i, &source, i->bytes))
            return false;
        lanes_align(&result, first, &source, number, i->bytes);
        return set_vector(core, i->reg, &result, i->bytes);
    case 0x16: /* vpextrd, vpextrq */
        if (i->second || i->bytes != 16)
            return unknown(core);
        word = i->wide ? core->r.vectors[i->reg].q[number & 1] : core->r.vectors[i->reg].d[number & 3];
        return put_word(core, i, word, size);
    case 0x22: /* vpinsrd, vpinsrq */
        if (i->bytes != 16)
            return unknown(core);
        if (!get_word(core, i, size, &word))
            return false;
        result = *first;
        if (i->wide)
            result.q[number & 1] = word;
        else
            result.d[number & 3] = (uint32_t)word;
        return set_vector(core, i->reg, &result, 16);
    case 0x18: case 0x38: return move_part(core, i, true);
    case 0x19: case 0x39: return move_part(core, i, false);
    default: return unknown(core);
    }
}

bool execute_avx(Core *core, const Instruction *i) {
    switch (i->map) {
    case 1: return execute_0f(core, i);
    case 2: return execute_38(core, i);
    default: return execute_3a(core, i);
    }
}
