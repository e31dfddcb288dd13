/* Executes the instructions on general registers (SDM 2A to 2C, by opcode as in 2D, appendix A).

   Flags that the manual leaves undefined are as icicle leaves them where that can be seen, and else as they fall. */

#include "core.h"

__extension__ typedef unsigned __int128 Double;
__extension__ typedef __int128 SignedDouble;

static unsigned bits_of(unsigned size) {
    return 8 * size;
}

static uint64_t mask_of(unsigned size) {
    return size == 8 ? ~(uint64_t)0 : ((uint64_t)1 << bits_of(size)) - 1;
}

static uint64_t top_of(unsigned size) {
    return (uint64_t)1 << (bits_of(size) - 1);
}

static uint64_t extended(uint64_t value, unsigned size) {
    value &= mask_of(size);
    return value & top_of(size) ? value | ~mask_of(size) : value;
}

/* A signed number, divided by a power of two and rounded down. */
static uint64_t shifted_right(uint64_t value, unsigned count) {
    return value >> count | (value >> 63 && count ? ~(~(uint64_t)0 >> count) : 0);
}

/* Operands */

static uint64_t get_register(const Core *core, const Instruction *i, unsigned number, unsigned size) {
    if (size == 1 && !i->has_rex && number >= 4)
        return core->r.registers[number - 4] >> 8 & 0xFF; /* AH, CH, DH, BH */
    return core->r.registers[number] & mask_of(size);
}

static void set_register(Core *core, const Instruction *i, unsigned number, unsigned size, uint64_t value) {
    uint64_t *target = &core->r.registers[number];
    if (size == 8)
        *target = value;
    else if (size == 4)
        *target = (uint32_t)value;
    else if (size == 2)
        *target = (*target & ~(uint64_t)0xFFFF) | (value & 0xFFFF);
    else if (!i->has_rex && number >= 4)
        core->r.registers[number - 4] = (core->r.registers[number - 4] & ~(uint64_t)0xFF00) | (value & 0xFF) << 8;
    else
        *target = (*target & ~(uint64_t)0xFF) | (value & 0xFF);
}

static bool load_word(Core *core, uint64_t address, unsigned size, uint64_t *value) {
    uint8_t bytes[8] = {0};
    if (!load(core, address, bytes, size))
        return false;
    *value = 0;
    for (unsigned at = 0; at < 8; at++)
        *value |= (uint64_t)bytes[at] << (8 * at);
    return true;
}

static bool store_word(Core *core, uint64_t address, unsigned size, uint64_t value) {
    uint8_t bytes[8];
    for (unsigned at = 0; at < 8; at++)
        bytes[at] = (uint8_t)(value >> (8 * at));
    return store(core, address, bytes, size);
}

static bool get_rm(Core *core, const Instruction *i, unsigned size, uint64_t *value) {
    if (i->has_memory)
        return load_word(core, i->address, size, value);
    *value = get_register(core, i, i->rm, size);
    return true;
}

static bool set_rm(Core *core, const Instruction *i, unsigned size, uint64_t value) {
    if (i->has_memory)
        return store_word(core, i->address, size, value);
    set_register(core, i, i->rm, size, value);
    return true;
}

/* Flags (SDM 1, 3.4.3.1) */

typedef struct {
    uint8_t cf, of, af;
} Carries;

static uint8_t parity(uint64_t value) {
    value ^= value >> 4;
    return 0x9669 >> (value & 15) & 1;
}

static void set_result(Core *core, uint64_t result, unsigned size) {
    core->r.zf = (result & mask_of(size)) == 0;
    core->r.sf = (result & top_of(size)) != 0;
    core->r.pf = parity(result);
}

static void set_carries(Core *core, Carries carries) {
    core->r.cf = carries.cf;
    core->r.of = carries.of;
    core->r.af = carries.af;
}

static uint64_t add(uint64_t a, uint64_t b, unsigned carry, unsigned size, Carries *carries) {
    uint64_t result = (a + b + carry) & mask_of(size);
    carries->cf = carry ? result <= a : result < a;
    carries->of = ((a ^ result) & (b ^ result) & top_of(size)) != 0;
    carries->af = (a ^ b ^ result) >> 4 & 1;
    return result;
}

static uint64_t subtract(uint64_t a, uint64_t b, unsigned carry, unsigned size, Carries *carries) {
    uint64_t result = (a - b - carry) & mask_of(size);
    carries->cf = carry ? a <= b : a < b;
    carries->of = ((a ^ b) & (a ^ result) & top_of(size)) != 0;
    carries->af = (a ^ b ^ result) >> 4 & 1;
    return result;
}

static bool condition(const Core *core, unsigned code) {
    const Registers *r = &core->r;
    bool holds = false;
    switch (code >> 1 & 7) {
    case 0: holds = r->of; break;
    case 1: holds = r->cf; break;
    case 2: holds = r->zf; break;
    case 3: holds = r->cf || r->zf; break;
    case 4: holds = r->sf; break;
    case 5: holds = r->pf; break;
    case 6: holds = r->sf != r->of; break;
    default: holds = r->zf || r->sf != r->of; break;
    }
    return holds != (code & 1);
}

/* add, or, adc, sbb, and, sub, xor, cmp, by the number that opcodes have for them */
enum { COMPARE = 7 };

static uint64_t compute(Core *core, unsigned operation, uint64_t a, uint64_t b, unsigned size, Carries *carries) {
    *carries = (Carries){0};
    switch (operation) {
    case 0: return add(a, b, 0, size, carries);
    case 1: return a | b;
    case 2: return add(a, b, core->r.cf, size, carries);
    case 3: return subtract(a, b, core->r.cf, size, carries);
    case 4: return a & b;
    case 6: return a ^ b;
    default: return subtract(a, b, 0, size, carries); /* sub and cmp */
    }
}

static bool arithmetic(Core *core, const Instruction *i, unsigned operation, unsigned size, uint64_t b) {
    uint64_t a = 0;
    Carries carries;
    if (!get_rm(core, i, size, &a))
        return false;
    uint64_t result = compute(core, operation, a, b & mask_of(size), size, &carries);
    if (operation != COMPARE && !set_rm(core, i, size, result))
        return false;
    set_carries(core, carries);
    set_result(core, result, size);
    return true;
}

/* The opcodes 00 to 3D: each operation with its operands in six ways. */
static bool arithmetic_by_opcode(Core *core, const Instruction *i) {
    unsigned operation = i->opcode >> 3 & 7, size = i->opcode & 1 ? i->size : 1;
    uint64_t a = 0, b = 0;
    Carries carries;
    switch (i->opcode & 7) {
    case 0:
    case 1: return arithmetic(core, i, operation, size, get_register(core, i, i->reg, size));
    case 2:
    case 3:
        if (!get_rm(core, i, size, &b))
            return false;
        a = get_register(core, i, i->reg, size);
        break;
    default:
        a = core->r.registers[RAX] & mask_of(size);
        b = i->immediate & mask_of(size);
        break;
    }
    uint64_t result = compute(core, operation, a, b, size, &carries);
    if (operation != COMPARE) {
        if ((i->opcode & 7) < 4)
            set_register(core, i, i->reg, size, result);
        else if (size == 1)
            core->r.registers[RAX] = (core->r.registers[RAX] & ~(uint64_t)0xFF) | result;
        else
            set_register(core, i, RAX, size, result);
    }
    set_carries(core, carries);
    set_result(core, result, size);
    return true;
}

static bool test(Core *core, const Instruction *i, unsigned size, uint64_t b) {
    uint64_t a = 0;
    if (!get_rm(core, i, size, &a))
        return false;
    set_carries(core, (Carries){0});
    set_result(core, a & b, size);
    return true;
}

static bool step_by_one(Core *core, const Instruction *i, unsigned size, bool is_down) {
    uint64_t a = 0;
    Carries carries;
    if (!get_rm(core, i, size, &a))
        return false;
    uint64_t result = is_down ? subtract(a, 1, 0, size, &carries) : add(a, 1, 0, size, &carries);
    if (!set_rm(core, i, size, result))
        return false;
    carries.cf = core->r.cf; /* inc and dec leave it */
    set_carries(core, carries);
    set_result(core, result, size);
    return true;
}

/* Shifts and rotations by a number of bits */

static bool rotate(Core *core, const Instruction *i, unsigned size, unsigned count, bool is_left) {
    uint64_t a = 0;
    if (!get_rm(core, i, size, &a))
        return false;
    unsigned bits = bits_of(size), by = count % bits;
    if (!is_left)
        by = (bits - by) % bits;
    uint64_t result = by ? (a << by | a >> (bits - by)) & mask_of(size) : a;
    if (!set_rm(core, i, size, result))
        return false;
    if (count) {
        uint8_t low = result & 1, high = (result & top_of(size)) != 0, below = (result & top_of(size) >> 1) != 0;
        core->r.cf = is_left ? low : high;
        core->r.of = high ^ (is_left ? low : below);
    }
    return true;
}

static bool shift(Core *core, const Instruction *i, unsigned size, unsigned count) {
    unsigned operation = i->reg & 7;
    count &= size == 8 ? 63 : 31;
    if (operation < 2)
        return rotate(core, i, size, count, operation == 0);
    if (operation < 4)
        return unknown(core); /* rcl, rcr */
    uint64_t a = 0, result = 0;
    Carries carries = {0};
    if (!get_rm(core, i, size, &a))
        return false;
    if (count == 0)
        return set_rm(core, i, size, a);
    if (operation == 5) {
        result = a >> count;
        carries.cf = a >> (count - 1) & 1;
        carries.of = (a & top_of(size)) != 0;
    } else if (operation == 7) {
        uint64_t wide = extended(a, size);
        result = shifted_right(wide, count) & mask_of(size);
        carries.cf = shifted_right(wide, count - 1) & 1;
    } else {
        result = (a << count) & mask_of(size);
        carries.cf = size == 8 ? a >> (64 - count) & 1 : (a << count) >> bits_of(size) & 1;
        carries.of = carries.cf ^ ((result & top_of(size)) != 0);
    }
    if (!set_rm(core, i, size, result))
        return false;
    set_carries(core, carries);
    set_result(core, result, size);
    return true;
}

/* shld and shrd: shifts that take bits from a second register */
static bool shift_double(Core *core, const Instruction *i, unsigned count, bool is_left) {
    unsigned size = i->size, bits = bits_of(size);
    uint64_t a = 0, b = get_register(core, i, i->reg, size), result = 0;
    if (size == 2)
        return unknown(core);
    count &= size == 8 ? 63 : 31;
    if (!get_rm(core, i, size, &a))
        return false;
    if (count == 0)
        return set_rm(core, i, size, a);
    if (is_left)
        result = (a << count | b >> (bits - count)) & mask_of(size);
    else
        result = (a >> count | b << (bits - count)) & mask_of(size);
    if (!set_rm(core, i, size, result))
        return false;
    core->r.cf = (is_left ? a >> (bits - count) : a >> (count - 1)) & 1;
    core->r.of = ((a ^ result) & top_of(size)) != 0;
    set_result(core, result, size);
    return true;
}

/* Multiplication and division */

static void set_overflow(Core *core, bool overflows) {
    core->r.cf = core->r.of = overflows;
}

static uint64_t multiply_signed(Core *core, uint64_t a, uint64_t b, unsigned size) {
    SignedDouble product = (SignedDouble)(int64_t)extended(a, size) * (int64_t)extended(b, size);
    uint64_t result = (uint64_t)product & mask_of(size);
    set_overflow(core, product != (int64_t)extended(result, size));
    return result;
}

static bool multiply_to_register(Core *core, const Instruction *i, bool by_immediate) {
    uint64_t a = 0, b = by_immediate ? i->immediate : get_register(core, i, i->reg, i->size);
    if (!get_rm(core, i, i->size, &a))
        return false;
    set_register(core, i, i->reg, i->size, multiply_signed(core, a, b, i->size));
    return true;
}

/* The two halves of a double operand: in DX:AX, EDX:EAX, RDX:RAX, or AX. */
static void set_halves(Core *core, unsigned size, uint64_t low, uint64_t high) {
    static const Instruction none = {.has_rex = true};
    if (size == 1) {
        set_register(core, &none, RAX, 2, (low & 0xFF) | high << 8);
        return;
    }
    set_register(core, &none, RAX, size, low);
    set_register(core, &none, RDX, size, high);
}

static void multiply(Core *core, uint64_t b, unsigned size, bool is_signed) {
    uint64_t a = core->r.registers[RAX] & mask_of(size);
    Double product = is_signed ? (Double)((SignedDouble)(int64_t)extended(a, size) * (int64_t)extended(b, size))
                               : (Double)a * b;
    uint64_t low = (uint64_t)product & mask_of(size), high = (uint64_t)(product >> bits_of(size)) & mask_of(size);
    set_halves(core, size, low, high);
    set_overflow(core, is_signed ? high != ((low & top_of(size)) ? mask_of(size) : 0) : high != 0);
}

static bool divide(Core *core, uint64_t by, unsigned size, bool is_signed) {
    uint64_t low = core->r.registers[RAX] & mask_of(size);
    uint64_t high = size == 1 ? core->r.registers[RAX] >> 8 & 0xFF : core->r.registers[RDX] & mask_of(size);
    if (by == 0)
        return stop(core, DIVISION, 0);
    Double dividend = (Double)high << bits_of(size) | low, quotient, rest;
    if (!is_signed) {
        quotient = dividend / by;
        rest = dividend % by;
        if (quotient > mask_of(size))
            return unknown(core);
    } else {
        /* By magnitudes: to negate the least number would overflow. */
        bool is_negative = high & top_of(size), by_negative = by & top_of(size);
        Double magnitude = dividend, limit = (Double)top_of(size);
        if (is_negative) {
            magnitude = 0 - dividend;
            if (size < 8)
                magnitude &= ((Double)1 << (2 * bits_of(size))) - 1;
        }
        uint64_t divisor = by_negative ? (0 - by) & mask_of(size) : by;
        quotient = magnitude / divisor;
        rest = magnitude % divisor;
        if (quotient > (is_negative != by_negative ? limit : limit - 1))
            return unknown(core);
        if (is_negative != by_negative)
            quotient = 0 - quotient;
        if (is_negative)
            rest = 0 - rest;
    }
    set_halves(core, size, (uint64_t)quotient & mask_of(size), (uint64_t)rest & mask_of(size));
    return true;
}

/* test, not, neg, mul, imul, div, idiv */
static bool unary(Core *core, const Instruction *i) {
    unsigned size = i->opcode & 1 ? i->size : 1;
    uint64_t a = 0;
    Carries carries;
    if ((i->reg & 7) < 2)
        return test(core, i, size, i->immediate);
    if (!get_rm(core, i, size, &a))
        return false;
    switch (i->reg & 7) {
    case 2: return set_rm(core, i, size, ~a);
    case 3: {
        uint64_t result = subtract(0, a, 0, size, &carries);
        if (!set_rm(core, i, size, result))
            return false;
        set_carries(core, carries);
        set_result(core, result, size);
        return true;
    }
    case 4: multiply(core, a, size, false); return true;
    case 5: multiply(core, a, size, true); return true;
    case 6: return divide(core, a, size, false);
    default: return divide(core, a, size, true);
    }
}

/* The stack, and jumps */

static bool push(Core *core, uint64_t value) {
    if (!store_word(core, core->r.registers[RSP] - 8, 8, value))
        return false;
    core->r.registers[RSP] -= 8;
    return true;
}

static bool pop(Core *core, uint64_t *value) {
    if (!load_word(core, core->r.registers[RSP], 8, value))
        return false;
    core->r.registers[RSP] += 8;
    return true;
}

static bool return_from(Core *core, uint64_t more) {
    if (!pop(core, &core->next))
        return false;
    core->r.registers[RSP] += more;
    return true;
}

static bool leave(Core *core) {
    uint64_t value = 0;
    if (!load_word(core, core->r.registers[RBP], 8, &value))
        return false;
    core->r.registers[RSP] = core->r.registers[RBP] + 8;
    core->r.registers[RBP] = value;
    return true;
}

/* Takes the size of a frame in its lower 16 bits, then how many frames around it are to be found in it. */
static bool enter(Core *core, uint64_t operands) {
    uint64_t stack = core->r.registers[RSP], base = core->r.registers[RBP], frame = stack - 8, outer[31] = {0};
    unsigned level = operands >> 16 & 31;
    /* A store may fail and the instruction be executed again, so no store may change what it loads. */
    if (level > 1 && base - 8 * level < stack && base > stack - 8 * (level + 1))
        return unknown(core);
    for (unsigned at = 1; at < level; at++)
        if (!load_word(core, base - 8 * at, 8, &outer[at]))
            return false;
    outer[0] = base;
    for (unsigned at = 0; at < (level ? level : 1); at++, stack -= 8)
        if (!store_word(core, stack - 8, 8, outer[at]))
            return false;
    if (level) {
        if (!store_word(core, stack - 8, 8, frame))
            return false;
        stack -= 8;
    }
    core->r.registers[RBP] = frame;
    core->r.registers[RSP] = stack - (operands & 0xFFFF);
    return true;
}

/* inc, dec, call, jmp, push */
static bool group_of_ff(Core *core, const Instruction *i) {
    uint64_t target = 0;
    unsigned operation = i->reg & 7;
    if (operation < 2)
        return step_by_one(core, i, i->size, operation == 1);
    if (operation == 3 || operation == 5 || operation == 7 || (i->operand16 && !i->wide))
        return unknown(core);
    if (!get_rm(core, i, 8, &target))
        return false;
    if (operation == 6)
        return push(core, target);
    if (operation == 2 && !push(core, core->next))
        return false;
    core->next = target;
    return true;
}

/* Strings (SDM 2B, REP): each repetition counts as an instruction, and so does the test that ends it. */

static bool string_step(Core *core, const Instruction *i, unsigned size) {
    Registers *r = &core->r;
    uint64_t step = r->df ? 0 - (uint64_t)size : size, a = 0, b = 0;
    Carries carries;
    switch (i->opcode & ~1) {
    case 0xA4: /* movs */
        if (!load_word(core, r->registers[RSI], size, &a) || !store_word(core, r->registers[RDI], size, a))
            return false;
        r->registers[RSI] += step;
        r->registers[RDI] += step;
        return true;
    case 0xAA: /* stos */
        if (!store_word(core, r->registers[RDI], size, r->registers[RAX]))
            return false;
        r->registers[RDI] += step;
        return true;
    case 0xAC: /* lods */
        if (!load_word(core, r->registers[RSI], size, &a))
            return false;
        r->registers[RSI] += step;
        if (size == 1)
            r->registers[RAX] = (r->registers[RAX] & ~(uint64_t)0xFF) | a;
        else
            set_register(core, i, RAX, size, a);
        return true;
    case 0xA6: /* cmps */
        if (!load_word(core, r->registers[RSI], size, &a) || !load_word(core, r->registers[RDI], size, &b))
            return false;
        r->registers[RSI] += step;
        break;
    default: /* scas */
        a = r->registers[RAX] & mask_of(size);
        if (!load_word(core, r->registers[RDI], size, &b))
            return false;
        break;
    }
    r->registers[RDI] += step;
    set_result(core, subtract(a, b, 0, size, &carries), size);
    set_carries(core, carries);
    return true;
}

/* As many repetitions of movs or stos at once as lie within one page, forwards; 0 if there is no such number. */
static uint64_t string_block(Core *core, const Instruction *i, unsigned size) {
    Registers *r = &core->r;
    uint64_t from = r->registers[RSI], to = r->registers[RDI], most = r->registers[RCX];
    bool moves = (i->opcode & ~1) == 0xA4;
    uint64_t room = (PAGE_BYTES - (to & PAGE_MASK)) / size;
    if (r->df || !(moves || (i->opcode & ~1) == 0xAA))
        return 0;
    if (moves && (PAGE_BYTES - (from & PAGE_MASK)) / size < room)
        room = (PAGE_BYTES - (from & PAGE_MASK)) / size;
    if (room < most)
        most = room;
    if (core->limit - core->count < most)
        most = core->limit - core->count;
    uint64_t length = most * size;
    if (most < 4 || (moves && to - from < length)) /* what is written is read again */
        return 0;
    uint8_t block[PAGE_BYTES] = {0};
    if (moves && !load(core, from, block, (unsigned)length))
        return 0;
    if (!moves)
        for (uint64_t at = 0; at < length; at++)
            block[at] = (uint8_t)(r->registers[RAX] >> (8 * (at % size)));
    if (!store(core, to, block, (unsigned)length))
        return 0;
    r->registers[RDI] += length;
    if (moves)
        r->registers[RSI] += length;
    return most;
}

static bool string(Core *core, const Instruction *i) {
    unsigned size = i->opcode & 1 ? i->size : 1;
    bool compares = (i->opcode & ~1) == 0xA6 || (i->opcode & ~1) == 0xAE;
    uint64_t *left = &core->r.registers[RCX];
    if (i->repeat == 0)
        return string_step(core, i, size);
    /* Whoever called counted the first repetition, or the test. */
    core->count--;
    while (*left) {
        if (core->count >= core->limit) {
            core->next = core->r.pc;
            return true;
        }
        uint64_t done = string_block(core, i, size);
        if (done) {
            core->count += done;
            *left -= done;
            continue;
        }
        core->count++;
        if (!string_step(core, i, size))
            return false;
        --*left;
        if (compares && core->r.zf != (i->repeat == 0xF3))
            return true;
    }
    if (core->count >= core->limit) {
        core->next = core->r.pc;
        return true;
    }
    core->count++;
    return true;
}

/* The opcodes of one byte */

static bool execute_one_byte(Core *core, const Instruction *i) {
    Registers *r = &core->r;
    unsigned opcode = i->opcode, size = opcode & 1 ? i->size : 1;
    uint64_t a = 0, b = 0;
    bool is_branch = (opcode >= 0x70 && opcode < 0x80) || opcode == 0xC2 || opcode == 0xC3 || opcode >= 0xE3;
    bool is_string = opcode >= 0xA4 && opcode <= 0xAF && opcode != 0xA8 && opcode != 0xA9;
    if (i->repeat && !is_string && opcode != 0x90 && opcode != 0xC3 && opcode != 0xE8 && opcode != 0xE9 &&
        opcode != 0xEB && !(opcode >= 0x70 && opcode < 0x80) && !(opcode == 0xFF && (i->reg & 7) >= 2))
        return unknown(core);
    if (i->lock && !i->has_memory)
        return unknown(core);
    if (is_branch && i->operand16 && !i->wide && opcode < 0xF0)
        return unknown(core);
    if (opcode < 0x40)
        return arithmetic_by_opcode(core, i);
    if (opcode < 0x60) {
        if (i->operand16 && !i->wide)
            return unknown(core);
        if (opcode < 0x58)
            return push(core, r->registers[i->reg]);
        if (!pop(core, &a))
            return false;
        r->registers[i->reg] = a;
        return true;
    }
    if (opcode >= 0x70 && opcode < 0x80) {
        if (condition(core, opcode))
            core->next += i->immediate;
        return true;
    }
    if (opcode > 0x90 && opcode < 0x98) {
        a = get_register(core, i, i->reg, i->size);
        set_register(core, i, i->reg, i->size, r->registers[RAX]);
        set_register(core, i, RAX, i->size, a);
        return true;
    }
    if (is_string)
        return string(core, i);
    if (opcode >= 0xB0 && opcode < 0xC0) {
        set_register(core, i, i->reg, opcode < 0xB8 ? 1 : i->size, i->immediate);
        return true;
    }
    switch (opcode) {
    case 0x63: /* movsxd */
        if (i->size == 2)
            return unknown(core);
        if (!get_rm(core, i, 4, &a))
            return false;
        set_register(core, i, i->reg, i->size, extended(a, 4));
        return true;
    case 0x68:
    case 0x6A:
        return i->operand16 && !i->wide ? unknown(core) : push(core, i->immediate);
    case 0x69:
    case 0x6B: return multiply_to_register(core, i, true);
    case 0x80:
    case 0x81:
    case 0x83: return arithmetic(core, i, i->reg & 7, opcode == 0x80 ? 1 : i->size, i->immediate);
    case 0x84:
    case 0x85: return test(core, i, size, get_register(core, i, i->reg, size));
    case 0x86:
    case 0x87: /* xchg */
        b = get_register(core, i, i->reg, size);
        if (!get_rm(core, i, size, &a) || !set_rm(core, i, size, b))
            return false;
        set_register(core, i, i->reg, size, a);
        return true;
    case 0x88:
    case 0x89: return set_rm(core, i, size, get_register(core, i, i->reg, size));
    case 0x8A:
    case 0x8B:
        if (!get_rm(core, i, size, &a))
            return false;
        set_register(core, i, i->reg, size, a);
        return true;
    case 0x8D: /* lea */
        if (!i->has_memory)
            return unknown(core);
        set_register(core, i, i->reg, i->size, i->address);
        return true;
    case 0x8F:
        if (i->has_memory || (i->reg & 7) || (i->operand16 && !i->wide))
            return unknown(core);
        if (!pop(core, &a))
            return false;
        r->registers[i->rm] = a;
        return true;
    case 0x90:
        if (i->reg == R8) {
            a = get_register(core, i, R8, i->size);
            set_register(core, i, R8, i->size, r->registers[RAX]);
            set_register(core, i, RAX, i->size, a);
        }
        return true;
    case 0x98: set_register(core, i, RAX, i->size, extended(r->registers[RAX], i->size / 2)); return true;
    case 0x99:
        set_register(core, i, RDX, i->size, r->registers[RAX] & top_of(i->size) ? ~(uint64_t)0 : 0);
        return true;
    case 0xA8:
    case 0xA9:
        set_carries(core, (Carries){0});
        set_result(core, r->registers[RAX] & i->immediate, size);
        return true;
    case 0xC0:
    case 0xC1: return shift(core, i, size, i->immediate & 0xFF);
    case 0xD0:
    case 0xD1: return shift(core, i, size, 1);
    case 0xD2:
    case 0xD3: return shift(core, i, size, r->registers[RCX] & 0xFF);
    case 0xC2: return return_from(core, i->immediate);
    case 0xC3: return return_from(core, 0);
    case 0xC6:
    case 0xC7: return (i->reg & 7) ? unknown(core) : set_rm(core, i, size, i->immediate);
    case 0xC8: return i->operand16 ? unknown(core) : enter(core, i->immediate);
    case 0xC9: return i->operand16 ? unknown(core) : leave(core);
    case 0xE3:
        if (r->registers[RCX] == 0)
            core->next += i->immediate;
        return true;
    case 0xE8:
        if (!push(core, core->next))
            return false;
        core->next += i->immediate;
        return true;
    case 0xE9:
    case 0xEB: core->next += i->immediate; return true;
    case 0xF5: r->cf = !r->cf; return true;
    case 0xF6:
    case 0xF7: return unary(core, i);
    case 0xF8:
    case 0xF9: r->cf = opcode & 1; return true;
    case 0xFC:
    case 0xFD: r->df = opcode & 1; return true;
    case 0xFE: return (i->reg & 7) > 1 ? unknown(core) : step_by_one(core, i, 1, i->reg & 1);
    case 0xFF: return group_of_ff(core, i);
    default: return unknown(core);
    }
}

/* The opcodes of two bytes */

/* bt, bts, btr, btc. A register can name a bit that lies beyond the operand in memory: that is left to others. */
static bool bit_test(Core *core, const Instruction *i, unsigned operation, uint64_t offset, bool by_register) {
    unsigned size = i->size;
    uint64_t value = 0;
    if (i->has_memory && by_register)
        return unknown(core);
    uint64_t bit = (uint64_t)1 << (offset % bits_of(size));
    if (!get_rm(core, i, size, &value))
        return false;
    uint8_t carry = (value & bit) != 0;
    if (operation == 1)
        value |= bit;
    else if (operation == 2)
        value &= ~bit;
    else if (operation == 3)
        value ^= bit;
    if (operation && !set_rm(core, i, size, value))
        return false;
    core->r.cf = carry;
    return true;
}

static unsigned lowest(uint64_t value) {
    unsigned at = 0;
    while (!(value >> at & 1))
        at++;
    return at;
}

static unsigned highest(uint64_t value) {
    unsigned at = 63;
    while (!(value >> at & 1))
        at--;
    return at;
}

static unsigned ones(uint64_t value) {
    unsigned count = 0;
    for (; value; value &= value - 1)
        count++;
    return count;
}

/* bsf, bsr, and with F3 tzcnt, lzcnt. Of zero the first two are undefined; these are icicle's results. */
static bool bit_scan(Core *core, const Instruction *i, bool is_reverse) {
    unsigned bits = bits_of(i->size);
    uint64_t value = 0, result = 0;
    if (i->repeat == 0xF2 || !get_rm(core, i, i->size, &value))
        return i->repeat == 0xF2 ? unknown(core) : false;
    if (i->repeat == 0xF3) {
        result = value == 0 ? bits : is_reverse ? bits - 1 - highest(value) : lowest(value);
        core->r.cf = value == 0;
        core->r.zf = result == 0;
    } else {
        result = value == 0 ? (is_reverse ? bits - 1 : 0) : is_reverse ? highest(value) : lowest(value);
        core->r.zf = value == 0;
    }
    set_register(core, i, i->reg, i->size, result);
    return true;
}

static bool compare_and_exchange(Core *core, const Instruction *i, unsigned size) {
    uint64_t old = 0, expected = core->r.registers[RAX] & mask_of(size);
    Carries carries;
    if (!i->has_memory)
        return unknown(core);
    if (!get_rm(core, i, size, &old))
        return false;
    if (!set_rm(core, i, size, old == expected ? get_register(core, i, i->reg, size) : old))
        return false;
    set_result(core, subtract(expected, old, 0, size, &carries), size);
    set_carries(core, carries);
    if (old != expected) {
        if (size == 1)
            core->r.registers[RAX] = (core->r.registers[RAX] & ~(uint64_t)0xFF) | old;
        else
            set_register(core, i, RAX, size, old);
    }
    return true;
}

static bool exchange_and_add(Core *core, const Instruction *i, unsigned size) {
    uint64_t a = 0, b = get_register(core, i, i->reg, size);
    Carries carries;
    if (!get_rm(core, i, size, &a))
        return false;
    uint64_t result = add(a, b, 0, size, &carries);
    if (i->has_memory && !set_rm(core, i, size, result))
        return false;
    set_register(core, i, i->reg, size, a);
    if (!i->has_memory)
        set_register(core, i, i->rm, size, result);
    set_carries(core, carries);
    set_result(core, result, size);
    return true;
}

static uint64_t swapped(uint64_t value, unsigned size) {
    uint64_t result = 0;
    for (unsigned at = 0; at < size; at++)
        result |= (value >> (8 * at) & 0xFF) << (8 * (size - 1 - at));
    return result;
}

static bool execute_two_bytes(Core *core, const Instruction *i) {
    Registers *r = &core->r;
    unsigned opcode = i->opcode, size = opcode & 1 ? i->size : 1;
    uint64_t a = 0;
    if (i->lock && !i->has_memory)
        return unknown(core);
    if (i->repeat && !(opcode >= 0x80 && opcode < 0x90) && opcode != 0xB8 && opcode != 0xBC && opcode != 0xBD &&
        opcode != 0x1E)
        return unknown(core);
    if ((opcode & 0xF0) == 0x40) { /* cmov: reads its source in any case */
        if (!get_rm(core, i, i->size, &a))
            return false;
        set_register(core, i, i->reg, i->size,
                     condition(core, opcode) ? a : get_register(core, i, i->reg, i->size));
        return true;
    }
    if ((opcode & 0xF0) == 0x80) {
        if (i->operand16 && !i->wide)
            return unknown(core);
        if (condition(core, opcode))
            core->next += i->immediate;
        return true;
    }
    if ((opcode & 0xF0) == 0x90)
        return set_rm(core, i, 1, condition(core, opcode));
    if (opcode >= 0xC8 && opcode < 0xD0) {
        if (i->size == 2)
            return unknown(core);
        set_register(core, i, i->reg, i->size, swapped(r->registers[i->reg], i->size));
        return true;
    }
    switch (opcode) {
    case 0x05:
        r->registers[RCX] = core->next;
        return stop(core, SYSTEM_CALL, 0);
    case 0x0D:
    case 0x18: return i->has_memory && i->reg < 4 ? true : unknown(core);
    case 0x1F: return i->reg == 0 && !i->wide ? true : unknown(core);
    case 0x1E: return i->repeat == 0xF3 && !i->has_memory && (i->reg & 7) == 7 && (i->rm & 7) == 2 ? true : unknown(core);
    case 0xA2: return unknown(core); /* cpuid: what it answers is not known */
    case 0xA3: return bit_test(core, i, 0, get_register(core, i, i->reg, i->size), true);
    case 0xAB: return bit_test(core, i, 1, get_register(core, i, i->reg, i->size), true);
    case 0xB3: return bit_test(core, i, 2, get_register(core, i, i->reg, i->size), true);
    case 0xBB: return bit_test(core, i, 3, get_register(core, i, i->reg, i->size), true);
    case 0xBA: return (i->reg & 7) < 4 ? unknown(core) : bit_test(core, i, i->reg & 3, i->immediate & 0xFF, false);
    case 0xA4: return shift_double(core, i, i->immediate & 0xFF, true);
    case 0xA5: return shift_double(core, i, r->registers[RCX] & 0xFF, true);
    case 0xAC: return shift_double(core, i, i->immediate & 0xFF, false);
    case 0xAD: return shift_double(core, i, r->registers[RCX] & 0xFF, false);
    case 0xAE: return !i->has_memory && i->rm == 0 && (i->reg & 7) >= 5 && !i->operand16 ? true : unknown(core); /* fences */
    case 0xAF: return multiply_to_register(core, i, false);
    case 0xB0:
    case 0xB1: return compare_and_exchange(core, i, size);
    case 0xB6:
    case 0xB7:
    case 0xBE:
    case 0xBF: {
        unsigned from = opcode & 1 ? 2 : 1;
        if (!get_rm(core, i, from, &a))
            return false;
        set_register(core, i, i->reg, i->size, opcode < 0xB8 ? a : extended(a, from));
        return true;
    }
    case 0xB8:
        if (i->repeat != 0xF3)
            return unknown(core);
        if (!get_rm(core, i, i->size, &a))
            return false;
        set_carries(core, (Carries){0});
        r->sf = r->pf = 0;
        r->zf = a == 0;
        set_register(core, i, i->reg, i->size, ones(a));
        return true;
    case 0xBC: return bit_scan(core, i, false);
    case 0xBD: return bit_scan(core, i, true);
    case 0xC0:
    case 0xC1: return exchange_and_add(core, i, size);
    case 0xC3: return i->has_memory && !i->operand16 ? set_rm(core, i, i->size, get_register(core, i, i->reg, i->size)) : unknown(core);
    default: return unknown(core);
    }
}

bool execute_integer(Core *core, const Instruction *i) {
    return i->map ? execute_two_bytes(core, i) : execute_one_byte(core, i);
}
