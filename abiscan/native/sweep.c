/* Measures all instructions of x86-64, those of AVX, AVX-512 and the x87 among them, to go through whole functions.

   Which opcodes have ModRM and an immediate: SDM 2D, appendix A; prefixes: SDM 2A, 2.1 to 2.3 and 2.7. An opcode that does
   not exist may be measured: what is looked at is code that compilers made, from where a function begins. */

#include "sweep.h"

enum {
    M = 0x01,  /* ModRM */
    I1 = 0x02, /* an immediate of one byte */
    IZ = 0x04, /* of two or four bytes */
    IV = 0x08, /* of the size of the operand */
    I2 = 0x10, /* of two bytes */
    G3 = 0x20, /* an immediate, if bits 5:3 of ModRM are 0 or 1 */
    A8 = 0x40, /* an address of eight bytes */
    NO = 0x80, /* no instruction in 64-bit mode, or a prefix */
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
    /* 60 */ NO, NO, NO, M, NO, NO, NO, NO, IZ, MZ, I1, M1, 0, 0, 0, 0,
    /* 70 */ I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1, I1,
    /* 80 */ M1, MZ, NO, M1, M, M, M, M, M, M, M, M, M, M, M, M,
    /* 90 */ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NO, 0, 0, 0, 0, 0,
    /* A0 */ A8, A8, A8, A8, 0, 0, 0, 0, I1, IZ, 0, 0, 0, 0, 0, 0,
    /* B0 */ I1, I1, I1, I1, I1, I1, I1, I1, IV, IV, IV, IV, IV, IV, IV, IV,
    /* C0 */ M1, M1, I2, 0, NO, NO, M1, MZ, I2 | I1, 0, I2, 0, 0, I1, NO, 0,
    /* D0 */ M, M, M, M, NO, NO, NO, 0, M, M, M, M, M, M, M, M,
    /* E0 */ I1, I1, I1, I1, I1, I1, I1, I1, IZ, IZ, NO, I1, 0, 0, 0, 0,
    /* F0 */ NO, 0, NO, NO, 0, 0, M | G3, M | G3, 0, 0, 0, 0, 0, 0, M, M,
};
/* clang-format on */

/* Behind 0F: all others have ModRM. */
static unsigned form_of_two(uint8_t opcode) {
    if (opcode >= 0x80 && opcode <= 0x8F)
        return IZ;
    if ((opcode >= 0x70 && opcode <= 0x73) || opcode == 0xA4 || opcode == 0xAC || opcode == 0xBA || opcode == 0xC2 ||
        (opcode >= 0xC4 && opcode <= 0xC6))
        return M1;
    if ((opcode >= 0x04 && opcode <= 0x0C && opcode != 0x0A) || opcode == 0x0E || (opcode >= 0x30 && opcode <= 0x37) ||
        opcode == 0x77 || (opcode >= 0xA0 && opcode <= 0xA2) || (opcode >= 0xA8 && opcode <= 0xAA) ||
        (opcode >= 0xC8 && opcode <= 0xCF))
        return 0;
    return M;
}

/* What follows an opcode with a VEX or an EVEX prefix. */
static unsigned form_of_vector(unsigned map, uint8_t opcode, bool is_vex) {
    if (map == 3)
        return M1;
    if (map != 1)
        return M;
    if (is_vex && opcode == 0x77)
        return 0;
    bool has_number = (opcode >= 0x70 && opcode <= 0x73) || opcode == 0xC2 || (opcode >= 0xC4 && opcode <= 0xC6);
    return has_number ? M1 : M;
}

typedef struct {
    const uint8_t *at, *end;
} Reader;

static bool take(Reader *reader, size_t size, uint64_t *value) {
    *value = 0;
    if ((size_t)(reader->end - reader->at) < size)
        return false;
    memcpy(value, reader->at, size);
    reader->at += size;
    return true;
}

/* ModRM, SIB and displacement. */
static bool operands(Reader *reader, uint8_t *modrm, Swept *result) {
    uint64_t value = 0;
    if (!take(reader, 1, &value))
        return false;
    *modrm = (uint8_t)value;
    unsigned mode = *modrm >> 6, rm = *modrm & 7, size = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    if (mode == 3)
        return true;
    if (rm == 4) {
        if (!take(reader, 1, &value))
            return false;
        if (mode == 0 && (value & 7) == 5)
            size = 4;
    } else if (mode == 0 && rm == 5) {
        result->names_data = true;
        size = 4;
    }
    if (!take(reader, size, &value))
        return false;
    if (result->names_data)
        result->displacement = (int32_t)(uint32_t)value;
    return true;
}

static bool is_prefix(uint64_t byte) {
    return byte == 0x66 || byte == 0x67 || byte == 0xF0 || byte == 0xF2 || byte == 0xF3 || byte == 0x2E ||
           byte == 0x36 || byte == 0x3E || byte == 0x26 || byte == 0x64 || byte == 0x65;
}

/* What decides which features an instruction with a VEX or EVEX prefix needs; 0 for others. */
static uint64_t kind_of(const uint8_t *code, size_t length) {
    size_t opcode = code[0] == 0xC5 ? 2 : code[0] == 0xC4 ? 3 : code[0] == 0x62 ? 4 : 0;
    if (opcode == 0 || length < opcode + 1)
        return 0;
    uint64_t kind = (uint64_t)code[0] << 40 | (uint64_t)code[opcode] << 32;
    if (opcode == 2)
        kind |= code[1] & 0x07;
    else if (opcode == 3)
        kind |= (uint64_t)(code[1] & 0x1F) << 8 | (code[2] & 0x87);
    else
        kind |= (uint64_t)(code[1] & 0x07) << 16 | (uint64_t)(code[2] & 0x83) << 8 | (code[3] & 0x70);
    unsigned modrm = length > opcode + 1 ? code[opcode + 1] : 0;
    return kind | (uint64_t)(modrm >= 0xC0) << 28 | (uint64_t)(modrm >> 3 & 7) << 24;
}

bool is_repeated(SeenKinds *seen, const uint8_t *code, size_t length) {
    uint64_t kind = kind_of(code, length);
    if (kind == 0)
        return false;
    unsigned at = (unsigned)((kind ^ kind >> 17 ^ kind >> 33) % KINDS);
    if (seen->kinds[at] == kind)
        return true;
    seen->kinds[at] = kind; /* in place of another, which then comes once more */
    return false;
}

bool sweep(const uint8_t *code, size_t available, Swept *result) {
    const size_t longest = 15;
    Reader reader = {code, code + (available < longest ? available : longest)};
    uint64_t byte = 0, opcode = 0, second = 0, ignored = 0;
    bool operand16 = false, wide = false, is_relative = false;
    unsigned form = 0;
    uint8_t modrm = 0;
    *result = (Swept){0};
    do {
        if (!take(&reader, 1, &byte))
            return false;
        operand16 |= byte == 0x66;
    } while (is_prefix(byte));
    if ((byte & 0xF0) == 0x40) {
        wide = byte & 8;
        if (!take(&reader, 1, &byte))
            return false;
    }
    bool is_xop = byte == 0x8F && reader.at < reader.end && (*reader.at & 0x1F) > 7;
    if (byte == 0xC5 || byte == 0xC4 || byte == 0x62 || is_xop) {
        unsigned map = 1;
        if (!take(&reader, 1, &second))
            return false;
        if (byte != 0xC5)
            map = byte == 0x62 ? (unsigned)second & 7 : (unsigned)second & 31;
        if (byte != 0xC5 && !take(&reader, byte == 0x62 ? 2 : 1, &ignored))
            return false;
        if (!take(&reader, 1, &opcode))
            return false;
        if (is_xop)
            form = map == 8 ? M1 : map == 9 ? M : MZ;
        else
            form = form_of_vector(map, (uint8_t)opcode, byte != 0x62);
        operand16 = false; /* no immediate depends on it */
    } else if (byte == 0x0F) {
        if (!take(&reader, 1, &opcode))
            return false;
        if (opcode == 0x38 || opcode == 0x3A) {
            form = opcode == 0x38 ? M : M1;
            if (!take(&reader, 1, &ignored))
                return false;
        } else {
            form = form_of_two((uint8_t)opcode);
            result->asks = opcode == 0xA2;
        }
    } else {
        form = one_byte[byte];
        is_relative = byte == 0xE8 || byte == 0xE9;
        if (form & NO)
            return false;
    }
    if (form & M && !operands(&reader, &modrm, result))
        return false;
    if (form & G3 && (modrm >> 3 & 7) < 2)
        form |= byte & 1 ? IZ : I1;
    unsigned size = (form & I1 ? 1 : 0) + (form & I2 ? 2 : 0) + (form & A8 ? 8 : 0);
    if (form & IZ)
        size += operand16 && !wide && !is_relative ? 2 : 4;
    if (form & IV)
        size += wide ? 8 : operand16 ? 2 : 4;
    if (!take(&reader, size, &ignored))
        return false;
    if (is_relative) {
        result->leads = true;
        result->displacement = (int32_t)(uint32_t)ignored;
    }
    result->length = (uint8_t)(reader.at - code);
    return true;
}
