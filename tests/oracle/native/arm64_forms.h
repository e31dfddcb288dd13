/* The forms of the instructions of AArch64 that the core may know: see arm64.c, and tools/fuzz/native.c. */

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t mask, bits; /* what an instruction of the form has */
    bool has_memory, has_offset; /* the base is an address; the third register is an offset */
} Form;

/* Arm ARM, C4.1; the bits that are not in the mask are random. */
static const Form forms[] = {
    {0x1F000000, 0x10000000, false, false}, {0x1F800000, 0x11000000, false, false}, {0x1F800000, 0x12000000, false, false},
    {0x1F800000, 0x12800000, false, false}, {0x1F800000, 0x13000000, false, false}, {0x1F800000, 0x13800000, false, false},
    {0x1F000000, 0x0A000000, false, false}, {0x1F200000, 0x0B000000, false, false}, {0x1FE00000, 0x0B200000, false, false},
    {0x1FE0FC00, 0x1A000000, false, false}, {0x3FE00410, 0x3A400000, false, false}, {0x3FE00800, 0x1A800000, false, false},
    {0x7FE0E000, 0x1AC00000, false, false}, {0x7FFFE000, 0x5AC00000, false, false}, {0x7F000000, 0x1B000000, false, false},
    {0x7E000000, 0x34000000, false, false}, {0x7E000000, 0x36000000, false, false}, {0xFF000010, 0x54000000, false, false},
    {0xFFFFF01F, 0xD503201F, false, false}, {0xFFFFF01F, 0xD503301F, false, false},
    {0x3F200000, 0x38000000, true, false}, {0x3F200C00, 0x38200800, true, true}, {0x3F3F0000, 0x39000000, true, false},
    {0x3F200000, 0x3C000000, true, false}, {0x3F200C00, 0x3C200800, true, true}, {0x3F3F0000, 0x3D000000, true, false},
    {0x3E000000, 0x28000000, true, false}, {0x3E000000, 0x2C000000, true, false}, {0x3BFFF000, 0x18002000, false, false},
    {0x3F000000, 0x08000000, true, false}, {0x3FFFFC00, 0x085F7C00, true, false}, {0x3FA07C00, 0x08A07C00, true, false},
    {0x3FBFFC00, 0x089FFC00, true, false}, {0x3F200C00, 0x38200000, true, false},
    {0xBFBF0000, 0x0C000000, true, false}, {0xBFA00000, 0x0C800000, true, false}, {0xBF9F0000, 0x0D000000, true, false},
    {0xBF800000, 0x0D800000, true, false},
    {0x7F20FC00, 0x1E200000, false, false}, {0xFF207C00, 0x1E204000, false, false}, {0xFF203C00, 0x1E202000, false, false},
    {0xFF201FE0, 0x1E201000, false, false}, {0xFF200C00, 0x1E200400, false, false}, {0xFF200C00, 0x1E200800, false, false},
    {0xFF200C00, 0x1E200C00, false, false},
    {0x9F200400, 0x0E200400, false, false}, {0x9F200C00, 0x0E200000, false, false}, {0x9F3E0C00, 0x0E200800, false, false},
    {0x9F3E0C00, 0x0E300800, false, false}, {0x9FE08400, 0x0E000400, false, false}, 
    {0xBF208C00, 0x0E000800, false, false}, {0x9FF80C00, 0x0F000400, false, false},
    {0x9F800400, 0x0F000400, false, false},
    {0xDF200400, 0x5E200400, false, false}, {0xDFE00400, 0x5EE00400, false, false}, {0xDF3E0C00, 0x5E200800, false, false},
    {0xDFFE0C00, 0x5EE00800, false, false}, {0xFFFFFC00, 0x5EF1B800, false, false}, {0xFFE0FC00, 0x5E000400, false, false},
    {0xDF800400, 0x5F000400, false, false}, {0xDFC00400, 0x5F400400, false, false},
    {0x7C000000, 0x14000000, false, false}, {0xFF9FFC1F, 0xD61F0000, true, false}, {0x00000000, 0x00000000, true, false},
};
#define FORMS (sizeof forms / sizeof *forms)
