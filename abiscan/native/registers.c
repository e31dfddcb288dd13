/* The registers by their names. */

#include "registers.h"

#include <string.h>

static int digits(const char *text, size_t *at) {
    int value = 0;
    size_t start = *at;
    while (text[*at] >= '0' && text[*at] <= '9' && *at < start + 2)
        value = 10 * value + text[(*at)++] - '0';
    return *at == start ? -1 : value;
}

/* Of x86-64. */
static bool find_x86_64(Core *core, const char *name, Place *place) {
    static const char *const words[8] = {"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI"};
    static const char *const lows[8] = {"AL", "CL", "DL", "BL", "SPL", "BPL", "SIL", "DIL"};
    static const char *const highs[4] = {"AH", "CH", "DH", "BH"};
    static const char *const flags[7] = {"CF", "PF", "AF", "ZF", "SF", "OF", "DF"};
    Registers *r = &core->r;
    uint8_t *flag_places[7] = {&r->cf, &r->pf, &r->af, &r->zf, &r->sf, &r->of, &r->df};
    size_t at = 0;
    *place = (Place){0};
    if (name[0] == 'X' && name[1] == 'M' && name[2] == 'M') {
        at = 3;
        int number = digits(name, &at);
        if (number < 0 || number > 15 || name[at] != '_' || name[at + 1] != 'Q' ||
            (name[at + 2] != 'A' && name[at + 2] != 'B') || name[at + 3])
            return false;
        place->bytes = (uint8_t *)&r->vectors[number].q[name[at + 2] == 'B'];
        place->size = 8;
        return true;
    }
    if (name[0] == 'R' && name[1] >= '0' && name[1] <= '9') {
        at = 1;
        int number = digits(name, &at);
        if (number < 8 || number > 15)
            return false;
        place->bytes = (uint8_t *)&r->registers[number];
        place->size = name[at] == 0 ? 8 : name[at] == 'D' ? 4 : name[at] == 'W' ? 2 : name[at] == 'B' ? 1 : 0;
        place->cleared = place->size == 4 ? 4 : 0;
        return place->size != 0 && (name[at] == 0 || name[at + 1] == 0);
    }
    bool is_long = name[0] == 'R' || name[0] == 'E';
    for (unsigned number = 0; number < 8; number++) {
        bool is_word = strcmp(name + is_long, words[number]) == 0;
        unsigned size = !is_word ? 0 : name[0] == 'R' ? 8 : name[0] == 'E' ? 4 : 2;
        if (is_long && !is_word)
            continue;
        if (size == 0 && strcmp(name, lows[number]) == 0)
            size = 1;
        if (size) {
            place->bytes = (uint8_t *)&r->registers[number];
            place->size = size;
            place->cleared = size == 4 ? 4 : 0;
            return true;
        }
        if (number < 4 && strcmp(name, highs[number]) == 0) {
            place->bytes = (uint8_t *)&r->registers[number] + 1;
            place->size = 1;
            return true;
        }
    }
    for (unsigned number = 0; number < 7; number++)
        if (strcmp(name, flags[number]) == 0) {
            place->bytes = flag_places[number];
            place->size = 1;
            place->is_flag = true;
            return true;
        }
    if (strcmp(name, "RIP") == 0) {
        place->bytes = (uint8_t *)&r->pc;
        place->size = 8;
        return true;
    }
    if (strcmp(name, "FS_OFFSET") == 0 || strcmp(name, "GS_OFFSET") == 0) {
        place->bytes = (uint8_t *)&r->segments[name[0] == 'G'];
        place->size = 8;
        return true;
    }
    return false;
}

/* Of AArch64: X, W, SP; the low parts of vectors; flags by the names that icicle has for them. What is written of a vector
   clears the rest of it. */
static bool find_arm64(Core *core, const char *name, Place *place) {
    static const char *const flags[4] = {"NG", "ZR", "CY", "OV"};
    static const char parts[] = "BHSDQ";
    Registers *r = &core->r;
    uint8_t *flag_places[4] = {&r->sf, &r->zf, &r->cf, &r->of};
    const char *part = name[0] == 0 ? NULL : strchr(parts, name[0]);
    size_t at = 1;
    int number = part != NULL || name[0] == 'X' || name[0] == 'W' ? digits(name, &at) : -1;
    *place = (Place){0};
    if (number >= 0) {
        unsigned scale = part == NULL ? 0 : (unsigned)(part - parts), size = scale < 3 ? 1u << scale : 8;
        if (name[at] != 0 || number > (part == NULL ? 30 : 31))
            return false;
        if (part != NULL)
            *place = (Place){r->vectors[number].b, size, 16 - size, false};
        else
            *place = (Place){(uint8_t *)&r->registers[number], name[0] == 'X' ? 8 : 4, name[0] == 'X' ? 0 : 4, false};
        return true;
    }
    for (number = 0; number < 4; number++)
        if (strcmp(name, flags[number]) == 0) {
            *place = (Place){flag_places[number], 1, 0, true};
            return true;
        }
    if (strcmp(name, "SP") == 0 || strcmp(name, "PC") == 0 || strcmp(name, "TPIDR_EL0") == 0) {
        uint64_t *word = name[0] == 'S' ? &r->registers[31] : name[0] == 'P' ? &r->pc : &r->segments[0];
        *place = (Place){(uint8_t *)word, 8, 0, false};
        return true;
    }
    return false;
}

/* The register of a name in capitals. */
bool find_register(Core *core, const char *name, Place *place) {
    return core->is_arm64 ? find_arm64(core, name, place) : find_x86_64(core, name, place);
}
