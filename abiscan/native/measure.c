/* Measures the instructions that compilers make for x86-64 without AVX, without a processor: prefixes, opcode, ModRM
   and SIB, displacement, immediate (SDM 2A, chapter 2; opcodes: SDM 2D, appendix A, tables ).

   What is in none of the tables is left to others, so that an instruction which does not exist is never measured. Of
   those, only what decoding from within an instruction meets most is known not to exist. */

#include "measure.h"

#include <string.h>

/* What follows an opcode of one byte, and what it does with an operand in memory. */
enum {
    YES = 0x01,
    M = YES | 0x02,  /* ModRM */
    I1 = YES | 0x04, /* an immediate of one byte */
    IZ = YES | 0x08, /* of two or four bytes */
    IV = YES | 0x10, /* of the size of the operand */
    J = 0x20,        /* branches */
    W = M | 0x40,    /* writes what ModRM names */
    B = 0x80,        /* of one byte */
};

/* clang-format off */
static const uint8_t one_byte[256] = {
    /* 00 */ W|B, W, M, M, I1, IZ, 0, 0, W|B, W, M, M, I1, IZ, 0, 0,
    /* 10 */ W|B, W, M, M, I1, IZ, 0, 0, W|B, W, M, M, I1, IZ, 0, 0,
    /* 20 */ W|B, W, M, M, I1, IZ, 0, 0, W|B, W, M, M, I1, IZ, 0, 0,
    /* 30 */ W|B, W, M, M, I1, IZ, 0, 0, M, M, M, M, I1, IZ, 0, 0,
    /* 40 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /* 50 */ YES, YES, YES, YES, YES, YES, YES, YES, YES, YES, YES, YES, YES, YES, YES, YES,
    /* 60 */ 0, 0, 0, M, 0, 0, 0, 0, IZ, M|IZ, I1, M|I1, 0, 0, 0, 0,
    /* 70 */ I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J, I1|J,
    /* 80 */ W|B|I1, W|IZ, 0, W|I1, M, M, M, M, W|B, W, M, M, 0, M, 0, 0,
    /* 90 */ YES, 0, 0, 0, 0, 0, 0, 0, YES, YES, 0, 0, 0, 0, 0, 0,
    /* A0 */ 0, 0, 0, 0, YES, YES, 0, 0, I1, IZ, YES, YES, 0, 0, 0, 0,
    /* B0 */ I1, I1, I1, I1, I1, I1, I1, I1, IV, IV, IV, IV, IV, IV, IV, IV,
    /* C0 */ M|I1, M|I1, 0, YES|J, 0, 0, W|B|I1, W|IZ, 0, YES, 0, 0, YES, 0, 0, 0,
    /* D0 */ M, M, M, M, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /* E0 */ 0, 0, 0, 0, 0, 0, 0, 0, IZ|J, IZ|J, 0, I1|J, 0, 0, 0, 0,
    /* F0 */ 0, 0, 0, 0, YES, 0, M, M, 0, 0, 0, 0, 0, 0, M, M,
};

/* With which prefixes an opcode of two bytes is measured. */
enum {
    N = 0x01,      /* none */
    O = 0x02,      /* 66 */
    S = 0x04,      /* F3 */
    D = 0x08,      /* F2 */
    NO_MODRM = 0x10,
    BYTE = 0x20,   /* an immediate of one byte */
    FAR = 0x40,    /* a branch, with an immediate of four bytes */
    MEMORY = 0x80, /* only of an operand in memory */
};
static const uint8_t two_bytes[256] = {
    /* 00 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, N|NO_MODRM, 0, 0, 0, 0,
    /* 10 */ N|O|S|D, N|O|S|D, N|S|D, N|O|MEMORY, N|O, N|O, N|S, N|O|MEMORY, 0, 0, 0, 0, 0, 0, 0, N|O,
    /* 20 */ 0, 0, 0, 0, 0, 0, 0, 0, N|O, N|O, S|D, N|O|MEMORY, S|D, S|D, N|O, N|O,
    /* 30 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /* 40 */ N|O, N|O, N|O, N|O, N|O, N|O, N|O, N|O, N|O, N|O, N|O, N|O, N|O, N|O, N|O, N|O,
    /* 50 */ 0, N|O|S|D, N|S, N|S, N|O, N|O, N|O, N|O, N|O|S|D, N|O|S|D, N|O|S|D, N|O|S, N|O|S|D, N|O|S|D, N|O|S|D, N|O|S|D,
    /* 60 */ O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O|S,
    /* 70 */ O|S|D|BYTE, 0, 0, 0, O, O, O, 0, 0, 0, 0, 0, 0, 0, O|S, O|S,
    /* 80 */ FAR, FAR, FAR, FAR, FAR, FAR, FAR, FAR, FAR, FAR, FAR, FAR, FAR, FAR, FAR, FAR,
    /* 90 */ N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N,
    /* A0 */ 0, 0, N|NO_MODRM, N|O, N|O|BYTE, N|O, 0, 0, 0, 0, 0, N|O, N|O|BYTE, N|O, 0, N|O,
    /* B0 */ N, N|O, 0, N|O, 0, 0, N|O, N|O, 0, 0, N|O|BYTE, N|O, N|O, N|O, N|O, N|O,
    /* C0 */ N, N|O, N|O|S|D|BYTE, N|MEMORY, 0, 0, N|O|BYTE, 0, N|NO_MODRM, N|NO_MODRM, N|NO_MODRM, N|NO_MODRM, N|NO_MODRM, N|NO_MODRM, N|NO_MODRM, N|NO_MODRM,
    /* D0 */ 0, O, O, O, O, O, O, 0, O, O, O, O, O, O, O, O,
    /* E0 */ O, O, O, O, O, O, S|D|O, O|MEMORY, O, O, O, O, O, O, O, O,
    /* F0 */ 0, O, O, O, O, O, O, 0, O, O, O, O, O, O, O, 0,
};
/* clang-format on */

typedef struct {
    const uint8_t *at, *end;
} Reader;

static bool take(Reader *reader, size_t size, int64_t *value) {
    uint64_t number = 0;
    if ((size_t)(reader->end - reader->at) < size)
        return false;
    memcpy(&number, reader->at, size);
    reader->at += size;
    *value = size == 4 ? (int32_t)number : (int64_t)number;
    return true;
}

typedef struct {
    bool operand16, wide, locked;
    unsigned segment; /* 0, 2E or 64 */
    unsigned repeat; /* 0, F2 or F3 */
    unsigned mode, reg;
    bool has_operands, relative;
    int64_t displacement;
} Parts;

static bool operands(Reader *reader, Parts *parts) {
    int64_t modrm = 0, sib = 0;
    if (!take(reader, 1, &modrm))
        return false;
    unsigned rm = modrm & 7, mode = (unsigned)modrm >> 6, size = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    parts->has_operands = true;
    parts->mode = mode;
    parts->reg = (unsigned)modrm >> 3 & 7;
    if (mode == 3)
        return true;
    if (rm == 4) {
        if (!take(reader, 1, &sib))
            return false;
        if (mode == 0 && (sib & 7) == 5)
            size = 4;
    } else if (mode == 0 && rm == 5) {
        parts->relative = true;
        size = 4;
    }
    return take(reader, size, &parts->displacement);
}

static unsigned operand_size(const Parts *parts) {
    return parts->wide ? 8 : parts->operand16 ? 2 : 4;
}

/* Whether no instruction begins with an opcode of one byte, whatever its prefixes. */
static bool exists_nowhere(uint8_t opcode) {
    return opcode < 0x40 ? (opcode & 7) >= 6 && opcode != 0x0F && opcode != 0x26 && opcode != 0x2E && opcode != 0x36 &&
                               opcode != 0x3E
                         : opcode == 0x60 || opcode == 0x61 || (opcode >= 0xD4 && opcode <= 0xD6);
}

/* An opcode of one byte. */
static Measured measure_one(Reader *reader, uint8_t opcode, Parts *parts, Measure *result) {
    unsigned form = one_byte[opcode], size = form & B ? 1 : operand_size(parts), immediate = 0;
    int64_t ignored;
    bool is_string = opcode == 0xA4 || opcode == 0xA5 || opcode == 0xAA || opcode == 0xAB;
    if (exists_nowhere(opcode))
        return NO_INSTRUCTION;
    if (form == 0 || (parts->repeat && !(is_string && parts->repeat == 0xF3)))
        return UNMEASURED;
    bool is_call_with_padding = opcode == 0xE8 && parts->wide; /* of __tls_get_addr */
    if (parts->operand16 && !is_call_with_padding && (form & J || opcode == 0xC9))
        return UNMEASURED;
    if (parts->segment && opcode != 0x8B && opcode != 0x89 && opcode != 0x2B && opcode != 0x33 && opcode != 0x3B)
        return UNMEASURED;
    result->branches = form & J;
    if ((form & M) == M) {
        if (!operands(reader, parts))
            return SHORT_OF;
        bool is_writing = (form & W) == W, is_told = true;
        switch (opcode) {
        case 0x80:
        case 0x81:
        case 0x83: is_writing = parts->reg != 7; break;
        case 0x8D:
            if (parts->mode == 3)
                return UNMEASURED;
            is_writing = true; /* as far as one can tell */
            break;
        case 0xC6:
        case 0xC7:
            if (parts->reg != 0)
                return UNMEASURED;
            break;
        case 0xC0:
        case 0xC1:
        case 0xD0:
        case 0xD1:
        case 0xD2:
        case 0xD3:
            if (parts->reg == 6)
                return UNMEASURED;
            is_told = false;
            break;
        case 0x86:
        case 0x87: is_told = false; break;
        case 0xF6:
        case 0xF7:
            immediate = parts->reg > 1 ? 0 : opcode == 0xF6 ? 1 : parts->operand16 && !parts->wide ? 2 : 4;
            is_told = false;
            break;
        case 0xFE:
            if (parts->reg > 1)
                return UNMEASURED;
            is_told = false;
            break;
        case 0xFF:
            if (parts->reg == 7 || (parts->mode == 3 && (parts->reg == 3 || parts->reg == 5)))
                return NO_INSTRUCTION;
            if (parts->reg == 3 || parts->reg == 5 || parts->reg == 7 || (parts->reg > 1 && parts->operand16))
                return UNMEASURED;
            result->branches = parts->reg == 2 || parts->reg == 4;
            is_writing = parts->reg < 2;
            break;
        default: break;
        }
        bool is_move_from = opcode == 0x8A || opcode == 0x8B;
        if (parts->locked && (!is_writing || parts->mode == 3 || opcode > 0x83))
            return UNMEASURED;
        result->use = !is_told ? NOT_TOLD : is_writing || is_move_from ? DATA : NO_DATA;
        result->size = is_writing ? (uint8_t)size : 0;
    }
    if (opcode == 0x63 && !parts->wide)
        return UNMEASURED;
    if ((form & I1) == I1)
        immediate = 1;
    if ((form & IZ) == IZ)
        immediate = operand_size(parts) == 2 ? 2 : 4;
    if ((form & IV) == IV)
        immediate = operand_size(parts);
    return take(reader, immediate, &ignored) ? MEASURED : SHORT_OF;
}

/* An opcode of two bytes, behind 0F. */
static Measured measure_two(Reader *reader, uint8_t opcode, Parts *parts, Measure *result) {
    unsigned form = two_bytes[opcode];
    unsigned prefix = parts->repeat == 0xF3 ? S : parts->repeat == 0xF2 ? D : parts->operand16 ? O : N;
    int64_t ignored;
    if (parts->segment && !(parts->segment == 0x2E && opcode == 0x1F))
        return UNMEASURED;
    if (form & FAR) {
        result->branches = true;
        return prefix != N ? UNMEASURED : take(reader, 4, &ignored) ? MEASURED : SHORT_OF;
    }
    if (!(form & prefix) || (parts->repeat && parts->operand16))
        return UNMEASURED;
    if (!(form & NO_MODRM)) {
        if (!operands(reader, parts))
            return SHORT_OF;
        if (opcode == 0xBA && parts->reg < 4)
            return UNMEASURED;
        bool may_lock = opcode == 0xC0 || opcode == 0xC1 || opcode == 0xB0 || opcode == 0xB1;
        if ((form & MEMORY && parts->mode == 3) || (parts->locked && (!may_lock || parts->mode == 3)))
            return UNMEASURED;
        bool is_load = opcode == 0x10 || opcode == 0x28 || opcode == 0x6E || opcode == 0x6F ||
                       (opcode >= 0x40 && opcode < 0x50) || (opcode >= 0x51 && opcode < 0x6E) || opcode == 0x2A ||
                       (opcode == 0x7E && prefix == S);
        bool is_store = opcode == 0x29 || (opcode == 0x11 && parts->repeat) || opcode == 0x7F;
        result->use = is_load ? NO_DATA : is_store && !(opcode == 0x29 && prefix != N) ? DATA : NOT_TOLD;
        result->size = prefix == S && opcode == 0x11 ? 4 : prefix == D ? 8 : 16;
    }
    return take(reader, form & BYTE ? 1 : 0, &ignored) ? MEASURED : SHORT_OF;
}

/* Measure the first instruction of some code. */
Measured measure(const uint8_t *code, size_t available, Measure *result) {
    const size_t longest = 15;
    size_t most = available < longest ? available : longest;
    Reader reader = {code, code + most};
    Parts parts = {0};
    int64_t byte = 0;
    Measured failed = available < longest ? SHORT_OF : UNMEASURED;
    *result = (Measure){0};
    for (;;) {
        if (!take(&reader, 1, &byte))
            return failed;
        if (byte == 0x66)
            parts.operand16 = true;
        else if (byte == 0xF0 && !parts.locked)
            parts.locked = true;
        else if (byte == 0x64 && !parts.segment)
            parts.segment = (unsigned)byte;
        else if (byte == 0x2E && !parts.segment)
            parts.segment = (unsigned)byte;
        else if ((byte == 0xF2 || byte == 0xF3) && !parts.repeat)
            parts.repeat = (unsigned)byte;
        else
            break;
    }
    if ((byte & 0xF0) == 0x40) {
        parts.wide = byte & 8;
        if (!take(&reader, 1, &byte))
            return failed;
    }
    Measured measured;
    bool is_landing = parts.repeat == 0xF3 && (size_t)(reader.end - reader.at) > 1 && byte == 0x0F &&
                      reader.at[0] == 0x1E && reader.at[1] == 0xFA; /* endbr64 */
    if (is_landing) {
        reader.at += 2;
        measured = parts.operand16 || parts.wide || parts.locked || parts.segment ? UNMEASURED : MEASURED;
    } else if (byte != 0x0F) {
        measured = measure_one(&reader, (uint8_t)byte, &parts, result);
    } else {
        if (!take(&reader, 1, &byte))
            return failed;
        measured = measure_two(&reader, (uint8_t)byte, &parts, result);
    }
    if (measured == SHORT_OF)
        return failed;
    bool is_bare = parts.locked && !parts.has_operands;
    if (measured == MEASURED && (is_bare || (parts.segment && parts.relative)))
        return UNMEASURED;
    if (measured == MEASURED) {
        result->length = (uint8_t)(reader.at - code);
        result->displacement = (int32_t)parts.displacement;
        if (!parts.relative)
            result->use = NO_DATA;
    }
    return measured;
}
