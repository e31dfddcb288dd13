/* LD1 to LD4 and ST1 to ST4: vectors whose elements alternate in memory (Arm ARM, C4.1.94). */

#include "arm64.h"

#define MOST_ELEMENTS 64u

/* Where in the registers the elements go that follow each other in memory. */
typedef struct {
    unsigned count, bytes; /* of elements, of each */
    uint8_t registers[MOST_ELEMENTS], lanes[MOST_ELEMENTS];
    bool replicates, clears;
} Elements;

static void add_element(Elements *elements, unsigned number, unsigned lane) {
    elements->registers[elements->count] = (uint8_t)(number % 32);
    elements->lanes[elements->count++] = (uint8_t)lane;
}

/* Of whole vectors: how many registers, and how many of them an element of each makes a structure. */
static bool multiple(uint32_t word, Elements *elements) {
    static const uint8_t registers[16] = {[0] = 4, [2] = 4, [4] = 3, [6] = 3, [7] = 1, [8] = 2, [10] = 2};
    static const uint8_t structures[16] = {[0] = 4, [2] = 1, [4] = 3, [6] = 1, [7] = 1, [8] = 2, [10] = 1};
    unsigned kind = field(word, 12, 4), size = field(word, 10, 2), width = field(word, 30, 1) ? 16 : 8;
    unsigned of_structure = structures[kind], lanes = width >> size, first = field(word, 0, 5);
    if (of_structure == 0 || (of_structure > 1 && lanes == 1))
        return false;
    elements->bytes = 1u << size;
    elements->clears = true;
    for (unsigned number = 0; number < registers[kind]; number += of_structure)
        for (unsigned lane = 0; lane < lanes; lane++)
            for (unsigned part = 0; part < of_structure; part++)
                add_element(elements, first + number + part, lane);
    return true;
}

/* Of one lane of each register, or of one element that goes into all lanes. */
static bool single(uint32_t word, Elements *elements) {
    unsigned kind = field(word, 13, 3), size = field(word, 10, 2), scale = kind >> 1, top = field(word, 12, 1);
    unsigned of_structure = ((kind & 1) << 1 | field(word, 21, 1)) + 1, first = field(word, 0, 5);
    unsigned lane = field(word, 30, 1) << 3 | top << 2 | size;
    switch (scale) {
    case 0: break;
    case 1:
        if (size & 1)
            return false;
        lane >>= 1;
        break;
    case 2:
        if (size > 1 || (size == 1 && top))
            return false;
        lane >>= 2;
        if (size == 1)
            lane >>= 1, scale = 3;
        break;
    default:
        if (!field(word, 22, 1) || top)
            return false;
        elements->replicates = true;
        scale = size;
    }
    elements->bytes = 1u << scale;
    for (unsigned part = 0; part < of_structure; part++)
        add_element(elements, first + part, elements->replicates ? 0 : lane);
    return true;
}

static bool load_elements(Core *core, const Elements *elements, uint64_t address, bool is_whole) {
    uint64_t values[MOST_ELEMENTS] = {0};
    unsigned bytes = elements->bytes;
    for (unsigned at = 0; at < elements->count; at++)
        if (!load(core, address + (uint64_t)at * bytes, &values[at], bytes))
            return false;
    if (elements->clears || elements->replicates)
        for (unsigned at = 0; at < elements->count; at++)
            memset(&core->r.vectors[elements->registers[at]], 0, sizeof(Vector));
    for (unsigned at = 0; at < elements->count; at++) {
        Vector *vector = &core->r.vectors[elements->registers[at]];
        unsigned lanes = elements->replicates ? (is_whole ? 16 : 8) / bytes : 1;
        for (unsigned lane = 0; lane < lanes; lane++)
            set_lane(vector, bytes, elements->lanes[at] + lane, values[at]);
    }
    return true;
}

static bool store_elements(Core *core, const Elements *elements, uint64_t address) {
    uint8_t values[MOST_ELEMENTS];
    unsigned bytes = elements->bytes, all = elements->count * bytes;
    for (unsigned at = 0; at < elements->count; at++) {
        if (!can_store(core, address + (uint64_t)at * bytes, bytes))
            return false;
        uint64_t value = get_lane(&core->r.vectors[elements->registers[at]], bytes, elements->lanes[at]);
        memcpy(values + (size_t)at * bytes, &value, bytes);
    }
    return store(core, address, values, all);
}

bool arm64_structures(Core *core, uint32_t word) {
    bool is_single = field(word, 24, 1), writes_back = field(word, 23, 1);
    unsigned by = field(word, 16, 5), base = field(word, 5, 5);
    Elements elements = {0};
    if (word >> 31 || (!is_single && field(word, 21, 1)) || (!writes_back && by))
        return unknown(core);
    if (!(is_single ? single(word, &elements) : multiple(word, &elements)))
        return unknown(core);
    uint64_t address = register_or_sp(core, base), all = (uint64_t)elements.count * elements.bytes;
    if (!(field(word, 22, 1) ? load_elements(core, &elements, address, field(word, 30, 1))
                             : store_elements(core, &elements, address)))
        return false;
    if (writes_back)
        core->r.registers[base] = address + (by == ZERO ? all : core->r.registers[by]);
    return true;
}
