/* Decodes the parts that all instructions have: prefixes, opcode, ModRM and SIB, displacement, immediate.

   SDM 2A, 2.1 and 2.2 (REX), 2.3 (VEX); which opcodes have ModRM and an immediate: SDM 2D, appendix A, tables A-2 to
   What is in none of the tables here is left to others. */

#include "core.h"

/* What follows an opcode. */
enum {
    NO = 0x80,  /* not decoded here */
    M = 0x01,   /* ModRM */
    I1 = 0x02,  /* an immediate of one byte */
    IZ = 0x04,  /* of two or four bytes */
    IV = 0x08,  /* of the size of the operand */
    G3 = 0x10,  /* an immediate, if bits 5:3 of ModRM are 0 or 1 */
    I2 = 0x20,  /* of two bytes */
    I3 = 0x40,  /* of two and one */
    M1 = M | I1,
    MZ = M | IZ,
};

/* clang-format off */
static const uint8_t one_byte[256] = {
    /* 00 */ M, M, M, M, I1, IZ, NO, NO, M, M, M, M, I1, IZ, NO, NO,
    /* 10 */ M, M, M, M, I1, IZ, NO, NO, M, M, M, M, I1, IZ, NO, NO,
    /* 20 */ M, M, M, M, I1, IZ, NO, NO, M, M, M, M, I1, IZ, NO, NO,
    /* 30 */ M, M, M, M, I1, IZ, NO, NO, M, M, M, M, I1, IZ, NO, NO,
    /* 40 */ NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    /* 50 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    /* 60 */ NO, NO, NO, M, NO, NO, NO, NO, IZ, MZ, I1, M1, NO, NO, NO, NO,
    /* 70 */ I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1,
    /* 80 */ M1, MZ, NO, M1, M, M, M, M, M, M, M, M, NO, M, NO, M,
    /* 90 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NO, NO, NO, NO, NO, NO,
    /* A0 */ NO, NO, NO, NO, 0, 0, 0, 0, I1, IZ, 0, 0, 0, 0, 0, 0,
    /* B0 */ I1, I1, I1, I1, I1, I1, I1, I1, IV, IV, IV, IV, IV, IV, IV, IV,
    /* C0 */ M1, M1, I2, 0, NO, NO, M1, MZ, I3, 0, NO, NO, NO, NO, NO, NO,
    /* D0 */ M, M, M, M, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    /* E0 */ NO, NO, NO, I1, NO, NO, NO, NO, IZ, IZ, NO, I1, NO, NO, NO, NO,
    /* F0 */ NO, NO, NO, NO, NO, 0, M | G3, M | G3, 0, 0, NO, NO, 0, 0, M, M,
};
static const uint8_t two_bytes[256] = {
    /* 00 */ NO, NO, NO, NO, NO, 0, NO, NO, NO, NO, NO, 0, NO, M, NO, NO,
    /* 10 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 20 */ NO, NO, NO, NO, NO, NO, NO, NO, M, M, M, M, M, M, M, M,
    /* 30 */ NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
    /* 40 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 50 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 60 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 70 */ M1, M1, M1, M1, M, M, M, 0, NO, NO, NO, NO, M, M, M, M,
    /* 80 */ IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ, IZ,
    /* 90 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* A0 */ NO, NO, 0, M, M1, M, NO, NO, NO, NO, NO, M, M1, M, M, M,
    /* B0 */ M, M, NO, M, NO, NO, M, M, M, NO, M1, M, M, M, M, M,
    /* C0 */ M, M, M1, M, M1, M1, M1, M, 0, 0, 0, 0, 0, 0, 0, 0,
    /* D0 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* E0 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, M,
    /* F0 */ M, M, M, M, M, M, M, M, M, M, M, M, M, M, M, NO,
};
/* clang-format on */

typedef struct {
    const uint8_t *at, *end;
    bool short_of;
} Reader;

static uint8_t byte(Reader *reader) {
    if (reader->at >= reader->end) {
        reader->short_of = true;
        return 0;
    }
    return *reader->at++;
}

static uint64_t number(Reader *reader, unsigned size, bool is_signed) {
    uint64_t value = 0;
    for (unsigned at = 0; at < size; at++)
        value |= (uint64_t)byte(reader) << (8 * at);
    if (is_signed && size < 8 && value >> (8 * size - 1) & 1)
        value |= ~(uint64_t)0 << (8 * size);
    return value;
}

typedef struct {
    uint8_t r, x, b;
    int segment;       /* -1, or which of those that have a base */
    bool short_address;
} Prefixes;

/* ModRM, SIB and displacement (SDM 2A, tables 2-2 and 2-3). */
static void operands(Reader *reader, const Prefixes *prefixes, Instruction *i) {
    uint8_t modrm = byte(reader), mode = modrm >> 6, rm = modrm & 7;
    i->mode = mode;
    i->reg = (uint8_t)((modrm >> 3 & 7) | prefixes->r);
    i->rm = (uint8_t)(rm | prefixes->b);
    i->has_memory = mode != 3;
    if (!i->has_memory)
        return;
    i->base = i->index = NO_REGISTER;
    i->segment = (int8_t)prefixes->segment;
    if (rm == 4) {
        uint8_t sib = byte(reader), index = (uint8_t)((sib >> 3 & 7) | prefixes->x), base = sib & 7;
        if (index != RSP)
            i->index = index;
        i->scale = sib >> 6;
        if (base == 5 && mode == 0)
            i->displacement = number(reader, 4, true);
        else
            i->base = base | prefixes->b;
    } else if (rm == 5 && mode == 0) {
        i->displacement = number(reader, 4, true);
        i->is_relative = true;
    } else {
        i->base = i->rm;
    }
    if (mode == 1)
        i->displacement = number(reader, 1, true);
    if (mode == 2)
        i->displacement = number(reader, 4, true);
}

static void immediate(Reader *reader, Instruction *i, unsigned form) {
    unsigned word = i->size == 2 ? 2 : 4;
    if (form & G3 && (i->reg & 7) < 2)
        form |= i->opcode & 1 ? IZ : I1;
    if (form & I1)
        i->immediate = number(reader, 1, true);
    if (form & I2)
        i->immediate = number(reader, 2, false);
    if (form & I3) {
        i->immediate = number(reader, 2, false);
        i->immediate |= number(reader, 1, false) << 16;
    }
    if (form & IZ)
        i->immediate = number(reader, word, true);
    if (form & IV)
        i->immediate = number(reader, i->size, true);
}

/* The rest of an instruction with a VEX prefix (SDM 2A, 2.3.5 and 2.3.6). */
static Decoded vex(Reader *reader, Prefixes *prefixes, Instruction *i, bool is_long) {
    uint8_t first = byte(reader), last = first;
    i->vex = true;
    i->map = 1;
    prefixes->r = first & 0x80 ? 0 : 8;
    if (is_long) {
        prefixes->x = first & 0x40 ? 0 : 8;
        prefixes->b = first & 0x20 ? 0 : 8;
        i->map = first & 0x1F;
        last = byte(reader);
        i->wide = last >> 7;
        if (i->map < 1 || i->map > 3)
            return UNDECODED;
    }
    i->second = (uint8_t)(~last >> 3 & 15);
    i->bytes = last & 4 ? 32 : 16;
    switch (last & 3) {
    case 1: i->operand16 = true; break;
    case 2: i->repeat = 0xF3; break;
    case 3: i->repeat = 0xF2; break;
    default: break;
    }
    return DECODED;
}

/* Which instructions of the maps 0F 38 and 0F 3A have an immediate: all of the latter, none of the former. */
static unsigned form_of(const Instruction *i) {
    switch (i->map) {
    case 0: return one_byte[i->opcode];
    case 1: return i->vex && i->opcode == 0x77 ? 0 : two_bytes[i->opcode];
    case 2: return M;
    default: return M1;
    }
}

bool is_extension(const uint8_t *code, size_t available) {
    static const uint8_t prefixes[] = {0x66, 0xF2, 0xF3, 0xF0, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65, 0x67};
    size_t at = 0;
    bool repeats = false, is_wide = false;
    while (at < available && memchr(prefixes, code[at], sizeof prefixes) != NULL) {
        repeats |= code[at] == 0xF2 || code[at] == 0xF3;
        is_wide |= code[at] == 0x66;
        at++;
    }
    if (at < available && (code[at] & 0xF0) == 0x40)
        at++;
    if (at + 1 >= available)
        return false;
    switch (code[at]) {
    case 0x62: case 0xC4: case 0xC5: return true;   /* EVEX, VEX */
    case 0x8F: return (code[at + 1] & 0x1F) > 7;    /* AMD's XOP */
    case 0x0F: break;
    default: return false;
    }
    switch (code[at + 1]) { /* 0F 38, 0F 3A; SSE3 and single instructions */
    case 0x01: case 0x38: case 0x3A: case 0xC7: return true;
    case 0x12: case 0x16: case 0xB8: case 0xF0: return repeats;
    case 0x7C: case 0x7D: case 0xD0: return repeats || is_wide;
    default: return false;
    }
}

Decoded decode(const uint8_t *code, size_t available, Instruction *i) {
    size_t most = available < MAX_INSTRUCTION ? available : MAX_INSTRUCTION;
    Reader reader = {code, code + most, false};
    Prefixes prefixes = {.segment = -1};
    Decoded failed = available < MAX_INSTRUCTION ? TOO_SHORT : UNDECODED;
    uint8_t opcode = 0, rex = 0;
    memset(i, 0, sizeof *i);
    for (;; rex = 0) {
        opcode = byte(&reader);
        if ((opcode & 0xF0) == 0x40) {
            rex = opcode;
            opcode = byte(&reader);
            if ((opcode & 0xF0) != 0x40 && opcode != 0x66 && opcode != 0xF2 && opcode != 0xF3 && opcode != 0xF0 &&
                opcode != 0x2E && opcode != 0x36 && opcode != 0x3E && opcode != 0x26 && opcode != 0x64 &&
                opcode != 0x65 && opcode != 0x67)
                break;
            return reader.short_of ? failed : UNDECODED; /* a REX prefix that does not come last means nothing */
        }
        if (opcode == 0x66)
            i->operand16 = true;
        else if (opcode == 0xF2 || opcode == 0xF3)
            i->repeat = opcode;
        else if (opcode == 0xF0)
            i->lock = true;
        else if (opcode == 0x64 || opcode == 0x65)
            prefixes.segment = opcode - 0x64;
        else if (opcode == 0x67)
            prefixes.short_address = true;
        else if (opcode != 0x2E && opcode != 0x36 && opcode != 0x3E && opcode != 0x26)
            break;
        if (reader.short_of)
            return failed;
    }
    i->has_rex = rex != 0;
    i->wide = rex >> 3 & 1;
    prefixes.r = (uint8_t)(rex << 1 & 8);
    prefixes.x = (uint8_t)(rex << 2 & 8);
    prefixes.b = (uint8_t)(rex << 3 & 8);
    if (opcode == 0xC4 || opcode == 0xC5) {
        if (rex || i->operand16 || i->repeat || i->lock)
            return UNDECODED;
        Decoded prefix = vex(&reader, &prefixes, i, opcode == 0xC4);
        if (prefix != DECODED)
            return reader.short_of ? failed : prefix;
        opcode = byte(&reader);
    } else if (opcode == 0x0F) {
        opcode = byte(&reader);
        i->map = opcode == 0x38 ? 2 : opcode == 0x3A ? 3 : 1;
        if (i->map > 1)
            opcode = byte(&reader);
    }
    i->opcode = opcode;
    i->size = i->wide ? 8 : i->operand16 ? 2 : 4;
    unsigned form = form_of(i);
    if (reader.short_of)
        return failed;
    if (form & NO)
        return UNDECODED;
    if (form & M) {
        operands(&reader, &prefixes, i);
    } else {
        i->reg = (uint8_t)((opcode & 7) | prefixes.b); /* where the opcode names a register */
        i->rm = i->reg;
    }
    immediate(&reader, i, form);
    if (reader.short_of)
        return failed;
    i->length = (uint8_t)(reader.at - code);
    /* Addresses of 32 bits: only where there are none, as in the padding of calls. */
    bool is_string = i->map == 0 && opcode >= 0xA4 && opcode <= 0xAF && opcode != 0xA8 && opcode != 0xA9;
    bool counts = i->map == 0 && opcode == 0xE3;
    if (prefixes.short_address && (i->has_memory || is_string || counts))
        return UNDECODED;
    bool takes_address = i->map == 0 && opcode == 0x8D; /* lea has no use for a segment */
    if (prefixes.segment >= 0 && (is_string || takes_address))
        return UNDECODED;
    return DECODED;
}
