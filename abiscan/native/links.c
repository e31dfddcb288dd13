/* Finds what functions lead to: displacements that lead to functions, to words with their addresses, and to tables of
   such words. Instructions are not decoded, as in the regular expressions of abiscan.emulation.call_graph. */

#include "links.h"

#include <stdlib.h>

#define SYMBOL_BYTES 24
#define RELOCATION_BYTES 24
#define WORD 8
#define LONGEST_TABLE 256
#define VTABLE_HEADER 16
#define OF_DATUM ((uint64_t)1 << 32) /* beside the number of a symbol */
#define JUMP_BYTES 6
#define NOWHERE UINT64_MAX /* no word and no function is there */

static uint64_t word_at(const uint8_t *bytes) {
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return value;
}

/* Maps */

static Entry *place(const Map *map, uint64_t key) {
    size_t mask = map->capacity - 1;
    size_t at = (size_t)((key * 0x9E3779B97F4A7C15u) >> 24) & mask;
    while (map->entries[at].key != 0 && map->entries[at].key != key + 1)
        at = (at + 1) & mask;
    return &map->entries[at];
}

static void map_free(Map *map) {
    free(map->entries);
    *map = (Map){0};
}

static bool map_grow(Map *map) {
    Map larger = *map;
    larger.capacity = map->capacity ? 2 * map->capacity : 1024;
    larger.entries = calloc(larger.capacity, sizeof *larger.entries);
    if (larger.entries == NULL)
        return false;
    for (size_t at = 0; at < map->capacity; at++)
        if (map->entries[at].key != 0)
            *place(&larger, map->entries[at].key - 1) = map->entries[at];
    free(map->entries);
    *map = larger;
    return true;
}

/* Set the value of a key. False without memory. */
static bool map_set(Map *map, uint64_t key, uint64_t value) {
    if (key == NOWHERE)
        return true;
    if (4 * map->count >= 3 * map->capacity && !map_grow(map))
        return false;
    Entry *entry = place(map, key);
    if (entry->key == 0) {
        map->least = map->count == 0 || key < map->least ? key : map->least;
        map->most = key > map->most ? key : map->most;
        map->count++;
    }
    *entry = (Entry){key + 1, value};
    return true;
}

static bool map_get(const Map *map, uint64_t key, uint64_t *value) {
    if (key < map->least || key > map->most || map->count == 0)
        return false;
    const Entry *entry = place(map, key);
    *value = entry->value;
    return entry->key != 0;
}

static bool is_function(const Links *links, uint64_t address) {
    uint64_t ignored;
    return map_get(&links->functions, address, &ignored);
}

void links_free(Links *links) {
    map_free(&links->functions);
    map_free(&links->pointers);
    map_free(&links->imports);
    map_free(&links->own_stubs);
    map_free(&links->foreign_stubs);
}

static bool append(List *list, uint64_t item) {
    if (list->count == list->room) {
        size_t room = list->room ? 2 * list->room : 64;
        uint64_t *items = realloc(list->items, room * sizeof *items);
        if (items == NULL)
            return false;
        list->items = items;
        list->room = room;
    }
    list->items[list->count++] = item;
    return true;
}

static int compare(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return a < b ? -1 : a > b;
}

void list_sort(List *list) {
    if (list->count > 1)
        qsort(list->items, list->count, sizeof *list->items, compare);
}

/* What is known of an object */

bool links_add_function(Links *links, uint64_t start) {
    return map_set(&links->functions, start, 0);
}

bool links_add_pointer(Links *links, uint64_t at, uint64_t target) {
    return map_set(&links->pointers, at, target);
}

static uint64_t sum(uint64_t value, uint64_t addend) {
    return value + addend < value ? NOWHERE : value + addend;
}

/* What is not only for stubs says what is in a word, if both are there. */
static bool add_import(Links *links, uint64_t slot, uint64_t symbol, bool is_datum) {
    uint64_t before;
    if (!is_datum && map_get(&links->imports, slot, &before) && before & OF_DATUM)
        return true;
    return map_set(&links->imports, slot, is_datum ? symbol | OF_DATUM : symbol);
}

/* Add the words that a table of relocations fills. `damaged`: one of them names a symbol that is not there. */
bool links_add_relocations(Links *links, const uint8_t *table, size_t size, const uint8_t *symbols, size_t symbols_size,
                           const Kinds *kinds, bool *damaged) {
    size_t count = symbols_size / SYMBOL_BYTES;
    for (size_t at = 0; at + RELOCATION_BYTES <= size; at += RELOCATION_BYTES) {
        uint64_t offset = word_at(table + at), info = word_at(table + at + 8), addend = word_at(table + at + 16);
        uint64_t number = info >> 32;
        uint32_t kind = (uint32_t)info;
        if (number >= count) {
            *damaged = true;
            return true;
        }
        if (kind == kinds->relative) {
            if (!map_set(&links->pointers, offset, addend))
                return false;
            continue;
        }
        bool is_slot = kind == kinds->data_slot || kind == kinds->stub_slot;
        if (!is_slot && kind != kinds->absolute)
            continue;
        const uint8_t *symbol = symbols + number * SYMBOL_BYTES;
        bool is_defined = symbol[6] || symbol[7];
        if (is_defined && !map_set(&links->pointers, offset, sum(word_at(symbol + 8), addend)))
            return false;
        if (is_slot && !is_defined && !add_import(links, offset, number, kind == kinds->data_slot))
            return false;
    }
    return true;
}

/* Code at `stub` jumps through a word that leads to a function of the object or to an imported one. */
static bool add_stub(Links *links, uint64_t stub, const uint64_t *pointer, const uint64_t *import) {
    if (pointer != NULL && is_function(links, *pointer) && !map_set(&links->own_stubs, stub, *pointer))
        return false;
    return import == NULL || map_set(&links->foreign_stubs, stub, *import & ~OF_DATUM);
}

/* Add the stubs in code at `address`: jmp [rip + displacement] with all that a stub may have before it. To `jumps`, where
   they jump through words that relocations fill, each with the address of its word. */
bool links_add_stubs(Links *links, const uint8_t *code, size_t size, uint64_t address, List *jumps) {
    static const unsigned entries[] = {0, 1, 4, 5}; /* endbr64 and a bnd prefix */
    for (size_t at = 0; at + JUMP_BYTES <= size; at++) {
        /* Of the two bytes, the second one is the rarer. */
        const uint8_t *second = memchr(code + at + 1, 0x25, size - JUMP_BYTES + 1 - at);
        if (second == NULL)
            break;
        const uint8_t *next = second - 1;
        at = (size_t)(next - code);
        if (next[0] != 0xFF)
            continue;
        int32_t displacement;
        memcpy(&displacement, next + 2, sizeof displacement);
        uint64_t jump = address + at, slot = jump + JUMP_BYTES + (uint64_t)(int64_t)displacement, pointer, import;
        bool is_own = map_get(&links->pointers, slot, &pointer), is_foreign = map_get(&links->imports, slot, &import);
        if (is_own || is_foreign) {
            for (unsigned number = 0; number < sizeof entries / sizeof *entries; number++)
                if (jump >= entries[number] &&
                    !add_stub(links, jump - entries[number], is_own ? &pointer : NULL, is_foreign ? &import : NULL))
                    return false;
            if (!append(jumps, jump) || !append(jumps, slot))
                return false;
        }
        at += JUMP_BYTES - 1; /* what it consists of is no other jump */
    }
    return true;
}

/* Searches */

typedef struct {
    const Links *links;
    List *functions, *imports;
    uint64_t start, end; /* of the function: no other one starts in between */
} Search;

/* The functions in a table of pointers, up to the first word that is no function. */
static bool add_table(const Search *search, uint64_t address) {
    for (unsigned number = 0; number < LONGEST_TABLE; number++) {
        uint64_t at = sum(address, number * WORD), target;
        if (at == NOWHERE || !map_get(&search->links->pointers, at, &target) || !is_function(search->links, target))
            return true;
        if (!append(search->functions, target))
            return false;
    }
    return true;
}

static bool add_if_in(const Map *map, uint64_t key, List *list) {
    uint64_t value;
    return !map_get(map, key, &value) || append(list, value);
}

/* `address` is called or jumped to. */
static bool add_code(const Search *search, uint64_t address) {
    bool is_within = address > search->start && address < search->end;
    return (is_within || !is_function(search->links, address) || append(search->functions, address)) &&
           add_if_in(&search->links->own_stubs, address, search->functions) &&
           add_if_in(&search->links->foreign_stubs, address, search->imports);
}

/* The word at `address` is read. */
static bool add_word(const Search *search, uint64_t address) {
    uint64_t target;
    if (map_get(&search->links->pointers, address, &target)) {
        bool added = is_function(search->links, target) ? append(search->functions, target)
                                                        : add_table(search, sum(target, VTABLE_HEADER));
        if (!added)
            return false;
    }
    return !map_get(&search->links->imports, address, &target) || append(search->imports, target & ~OF_DATUM);
}

/* Several words at `address` are read. */
static bool add_words(const Search *search, uint64_t address) {
    return (is_function(search->links, address) || add_table(search, address)) &&
           add_if_in(&search->links->foreign_stubs, address, search->imports);
}

/* `address` is handed on. */
static bool add_address(const Search *search, uint64_t address) {
    return add_code(search, address) && (is_function(search->links, address) || add_table(search, address));
}

/* ModRM of an operand relative to the instruction. */
static bool is_relative(uint8_t modrm) {
    return (modrm & 0xC7) == 0x05;
}

/* movq, movhps, movdqa, … */
static bool is_load(uint8_t opcode) {
    return opcode == 0x10 || opcode == 0x12 || opcode == 0x16 || opcode == 0x28 || opcode == 0x6E || opcode == 0x6F ||
           opcode == 0x7E;
}

typedef bool (*Add)(const Search *search, uint64_t address);

/* How many bytes precede the displacement of what may be an instruction at `code`, and what is there; 0 if none is. */
static unsigned before_displacement(const uint8_t *code, size_t size, Add *add) {
    uint8_t first = code[0], second = size > 1 ? code[1] : 0, third = size > 2 ? code[2] : 0;
    switch (first) {
    case 0xE8: /* call */
    case 0xE9: *add = add_code; return 1;
    case 0x0F:
        if ((second & 0xF0) == 0x80) { /* jcc */
            *add = add_code;
            return 2;
        }
        *add = add_words;
        return is_load(second) && is_relative(third) ? 3 : 0;
    case 0xFF: /* call, jmp, push */
        *add = add_word;
        return second == 0x15 || second == 0x25 || second == 0x35 ? 2 : 0;
    case 0x48:
    case 0x4C: /* mov, lea */
        *add = second == 0x8B ? add_word : add_address;
        return (second == 0x8B || second == 0x8D) && is_relative(third) ? 3 : 0;
    case 0xC5:
        *add = add_words;
        return size > 3 && is_load(third) && is_relative(code[3]) ? 4 : 0;
    default: return 0;
    }
}

static const uint8_t may_lead[256] = {
    [0x0F] = 1, [0x48] = 1, [0x4C] = 1, [0xC5] = 1, [0xE8] = 1, [0xE9] = 1, [0xEB] = 1, [0xFF] = 1,
};

/* What the code of a function that is at `start` leads to, in which no other one starts; the lists may name something more than once. False without
   memory. */
bool links_of(const Links *links, const uint8_t *code, size_t size, uint64_t start, List *functions, List *imports) {
    Search search = {links, functions, imports, start, start + size};
    size_t short_from = 0;
    if (start > INT64_MAX)
        return true;
    for (size_t at = 0; at < size; at++) {
        if (!may_lead[code[at]])
            continue;
        if (code[at] == 0xEB && at >= short_from && at + 1 < size) { /* what assemblers make of a jump nearby */
            int64_t target = (int64_t)(start + at + 2) + (int8_t)code[at + 1];
            short_from = at + 2;
            if (target >= 0 && !add_code(&search, (uint64_t)target))
                return false;
            continue;
        }
        Add add = NULL;
        unsigned before = before_displacement(code + at, size - at, &add);
        if (before == 0 || size - at < before + sizeof(int32_t))
            continue;
        int32_t displacement;
        memcpy(&displacement, code + at + before, sizeof displacement);
        int64_t target = (int64_t)(start + at + before + sizeof displacement) + displacement;
        if (target >= 0 && !add(&search, (uint64_t)target))
            return false;
    }
    return true;
}
