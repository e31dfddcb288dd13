/* Finds in code what regular expressions would: hundreds of thousands of candidates in a large library. */

#include "search.h"

#define WORD sizeof(uint64_t)

static int64_t displacement(const uint8_t *at) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static bool is_one_of(const uint64_t *sorted, size_t count, uint64_t wanted) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (sorted[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && sorted[low] == wanted;
}

/* Whether one of eight bytes is E8 or E9: then one of `others` is zero. */
static bool may_have_call(const uint8_t *code) {
    uint64_t others;
    memcpy(&others, code, sizeof others);
    others = (others & 0xFEFEFEFEFEFEFEFEu) ^ 0xE8E8E8E8E8E8E8E8u;
    return ((others - 0x0101010101010101u) & ~others & 0x8080808080808080u) != 0;
}

/* The next `call` or `jmp` with a displacement (E8, E9; SDM 2A) from `from` on that leads to one of the targets, which
   are in order; `size` if there is none. Instructions are not decoded: it may be a part of another one. */
size_t find_call(const uint8_t *code, size_t size, size_t from, uint64_t address, const uint64_t *targets, size_t count) {
    if (count == 0)
        return size;
    uint64_t least = targets[0], span = targets[count - 1] - least;
    for (size_t at = from; at < size && size - at >= CALL_BYTES;) {
        size_t part = size - at < WORD ? size - at : WORD;
        if (part == WORD && !may_have_call(code + at)) {
            at += WORD;
            continue;
        }
        for (size_t end = at + part; at < end && size - at >= CALL_BYTES; at++) {
            if ((code[at] & 0xFE) != 0xE8)
                continue;
            uint64_t target = address + at + CALL_BYTES + (uint64_t)displacement(code + at + 1);
            if (target - least <= span && is_one_of(targets, count, target))
                return at;
        }
    }
    return size;
}

/* The next `b` or `bl` of AArch64 (Arm ARM, C6.2) from `from` on that leads to one of the targets, as for find_call. */
size_t find_branch(const uint8_t *code, size_t size, size_t from, uint64_t address, const uint64_t *targets, size_t count) {
    if (count == 0)
        return size;
    uint64_t least = targets[0], span = targets[count - 1] - least;
    for (size_t at = (from + 3) & ~(size_t)3; at < size && size - at >= sizeof(uint32_t); at += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, code + at, sizeof word);
        if ((word & 0x7C000000u) != 0x14000000u)
            continue;
        int32_t distance = (int32_t)((word & 0x3FFFFFFu) ^ 0x2000000u) - 0x2000000; /* of 26 bits, in words */
        uint64_t target = address + at + (uint64_t)((int64_t)distance * 4);
        if (target - least <= span && is_one_of(targets, count, target))
            return at;
    }
    return size;
}

static bool is_between(const uint64_t *bounds, size_t count, uint64_t address) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bounds[middle] <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low & 1;
}

/* The next place from `from` on where a displacement of four bytes may be, or a short jump (EB), that leads to an
   address between two bounds: the first and the second of them, the third and the fourth, and so on, which are in
   order; `size` if there is none. */
size_t find_displacement(const uint8_t *code, size_t size, size_t from, uint64_t address, const uint64_t *bounds,
                         size_t count) {
    if (count == 0)
        return size;
    uint64_t least = bounds[0], span = bounds[count - 1] - least;
    for (size_t at = from; at < size; at++) {
        if (size - at >= sizeof(int32_t)) {
            uint64_t target = address + at + sizeof(int32_t) + (uint64_t)displacement(code + at);
            if (target - least < span && is_between(bounds, count, target))
                return at;
        }
        if (code[at] == 0xEB && size - at >= 2) {
            uint64_t target = address + at + 2 + (uint64_t)(int64_t)(int8_t)code[at + 1];
            if (target - least < span && is_between(bounds, count, target))
                return at;
        }
    }
    return size;
}

static bool is_printed(uint8_t byte) {
    return (byte >= ' ' && byte < 0x7F) || byte == '\n' || byte == '\t';
}

/* The next text from `from` on that lies between two zeros, and its size, between the least and the most bytes; `size`
   if there is none. Where a byte of what would be the least text is none of a text, the zero before one is there or
   behind it: most of a library is passed over in steps of that many bytes. */
size_t find_text(const uint8_t *content, size_t size, size_t from, size_t least, size_t most, size_t *length) {
    for (size_t at = from; at < size && size - at > least + 1;) {
        size_t back = least;
        while (back > 0 && is_printed(content[at + back]))
            back--;
        if (back > 0) {
            at += back;
            continue;
        }
        size_t end = at + least + 1;
        while (end < size && is_printed(content[end]))
            end++;
        *length = end - at - 1;
        if (content[at] == 0 && end < size && content[end] == 0 && *length <= most)
            return at + 1;
        at = end;
    }
    return size;
}

/* Whether the first eight bytes of a text are one of some words, which are in order. */
bool begins_with(const uint8_t *text, const uint64_t *sorted, size_t count) {
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return is_one_of(sorted, count, word);
}
