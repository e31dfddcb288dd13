/* What the functions of an object lead to: see abiscan.emulation.call_graph. */

#ifndef ABISCAN_LINKS_H
#define ABISCAN_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint64_t key, value; /* the key plus one; 0 is none */
} Entry;

/* Numbers by number, open addressing. */
typedef struct {
    Entry *entries;
    size_t capacity, count;
    uint64_t least, most; /* of the keys: most that are asked for are beyond */
} Map;

typedef struct {
    uint64_t *items;
    size_t count, room;
} List;

typedef struct {
    Map functions;     /* where they start */
    Map pointers;      /* words that hold addresses of the object itself */
    Map imports;       /* words that lead to imported functions: the number of the symbol */
    Map own_stubs;     /* the function behind each */
    Map foreign_stubs; /* the number of the imported symbol */
} Links;

/* The types of relocations. */
typedef struct {
    uint32_t relative, absolute, data_slot, stub_slot;
} Kinds;

void list_sort(List *list);
void links_free(Links *links);
bool links_add_function(Links *links, uint64_t start);
bool links_add_pointer(Links *links, uint64_t at, uint64_t target);
bool links_add_relocations(Links *links, const uint8_t *table, size_t size, const uint8_t *symbols, size_t symbols_size,
                           const Kinds *kinds, bool *damaged);
bool links_add_stubs(Links *links, const uint8_t *code, size_t size, uint64_t address, List *jumps);
bool links_of(const Links *links, const uint8_t *code, size_t size, uint64_t start, List *functions, List *imports);

#endif
