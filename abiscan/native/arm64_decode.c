/* Tells the groups of AArch64 instructions apart (Arm ARM, C4.1). */

#include "arm64.h"

bool arm64_execute(Core *core, uint32_t word) {
    switch (field(word, 25, 4)) {
    case 0x8:
    case 0x9: return arm64_immediate(core, word);
    case 0xA:
    case 0xB: return arm64_branch(core, word);
    case 0x4:
    case 0x6:
    case 0xC:
    case 0xE: return arm64_memory(core, word);
    case 0x5:
    case 0xD: return arm64_register(core, word);
    case 0x7:
    case 0xF: return (word & 0x7F000000u) == 0x1E000000u ? arm64_float(core, word) : arm64_vector(core, word);
    default: return unknown(core);
    }
}

typedef struct {
    uint32_t mask, bits;
    bool is_extension;
} Group;

bool arm64_is_extension(uint32_t word) {
    static const Group groups[] = { /* as _AARCH64 in abiscan/cpu/instructions.py: the first that matches counts */
        {0x3FFFFC00u, 0x38BFC000u, true}, {0x3F200C00u, 0x38200000u, true}, {0x3FA07C00u, 0x08A07C00u, true},
        {0xBFA07C00u, 0x08207C00u, true}, {0x9FE0FC00u, 0x0E809400u, true}, {0x9FC0F400u, 0x0F80E000u, true},
        {0x9FE0F400u, 0x0E80A400u, true}, {0xBFE0FC00u, 0x0E809C00u, true}, {0xBF40F400u, 0x0F00F000u, true},
        {0xBFE0FC00u, 0x2E40FC00u, true}, {0xBFE0FC00u, 0x2EC0FC00u, true}, {0xFFE0FC00u, 0x6E40EC00u, true},
        {0xBFFFFC00u, 0x0EA16800u, true}, {0xFFFFFC00u, 0x1E634000u, true}, {0xBF40F400u, 0x0F40F000u, true},
        {0xFFFF7C00u, 0x1EE24000u, false}, {0xFFE00000u, 0x1EE00000u, true}, {0x1E000000u, 0x04000000u, true},
        {0x7FE0F000u, 0x1AC04000u, true},
    };
    for (size_t at = 0; at < sizeof groups / sizeof *groups; at++)
        if ((word & groups[at].mask) == groups[at].bits)
            return groups[at].is_extension;
    return false;
}
