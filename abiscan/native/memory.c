/* The memory of the emulated process: pages of 4 KiB by number, and regions that are zero until they are written to. */

#include "core.h"

#include <stdlib.h>

#define FIRST_CAPACITY 1024u
#define EXECUTED_BYTES (PAGE_BYTES / 8)

static const uint8_t zeros[PAGE_BYTES];

static size_t place(const Memory *memory, uint64_t number) {
    size_t mask = memory->capacity - 1;
    size_t at = (size_t)((number * 0x9E3779B97F4A7C15u) >> 20) & mask;
    while (memory->slots[at] != NULL && memory->slots[at]->number != number)
        at = (at + 1) & mask;
    return at;
}

static void forget(Memory *memory) {
    memset(memory->readable, 0, sizeof memory->readable);
    memset(memory->writable, 0, sizeof memory->writable);
    memory->code = NULL;
}

void memory_init(Memory *memory, size_t most_pages) {
    memset(memory, 0, sizeof *memory);
    memory->most_pages = most_pages;
}

static void free_page(Page *page) {
    free(page->executed);
    free(page->guarded);
    free(page);
}

void memory_free(Memory *memory) {
    for (size_t at = 0; at < memory->capacity; at++)
        if (memory->slots[at] != NULL)
            free_page(memory->slots[at]);
    free(memory->slots);
    memory->slots = NULL;
    memory->capacity = memory->used = memory->region_count = 0;
    forget(memory);
}

/* Move all pages into a table of `capacity`, without those between the two numbers, which are freed. */
static bool rebuild(Memory *memory, size_t capacity, uint64_t first, uint64_t last) {
    Page **before = memory->slots;
    size_t count = memory->capacity;
    Page **slots = calloc(capacity, sizeof *slots);
    if (slots == NULL)
        return false;
    memory->slots = slots;
    memory->capacity = capacity;
    memory->used = 0;
    for (size_t at = 0; at < count; at++) {
        Page *page = before[at];
        if (page == NULL)
            continue;
        if (page->number >= first && page->number <= last) {
            free_page(page);
            continue;
        }
        slots[place(memory, page->number)] = page;
        memory->used++;
    }
    free(before);
    return true;
}

Page *memory_page(const Memory *memory, uint64_t number) {
    return memory->capacity == 0 ? NULL : memory->slots[place(memory, number)];
}

static const Region *region_of(const Memory *memory, uint64_t number) {
    for (size_t at = 0; at < memory->region_count; at++)
        if (number >= memory->regions[at].first && number <= memory->regions[at].last)
            return &memory->regions[at];
    return NULL;
}

/* What may be done with a page; 0 where none is mapped. */
uint8_t memory_permissions(const Memory *memory, uint64_t number) {
    const Page *page = memory_page(memory, number);
    if (page != NULL)
        return page->permissions;
    const Region *region = region_of(memory, number);
    return region == NULL ? 0 : region->permissions;
}

/* The contents of a page, NULL where none is mapped. */
const uint8_t *memory_peek(Memory *memory, uint64_t number) {
    const Page *page = memory_page(memory, number);
    if (page != NULL)
        return page->data;
    return region_of(memory, number) == NULL ? NULL : zeros;
}

/* Map pages as zeros, in the place of what was there. False if there are too many regions. */
bool memory_map(Memory *memory, uint64_t first, uint64_t last, uint8_t permissions) {
    /* Nothing that is remembered is about a page that is not mapped. */
    if ((first != last || memory_permissions(memory, first) != 0) && !memory_unmap(memory, first, last))
        return false;
    if (first == last) {
        Stopped stopped = RUNNING;
        Region *region = &memory->regions[memory->region_count];
        if (memory->region_count == MAX_REGIONS)
            return false;
        *region = (Region){first, last, permissions};
        memory->region_count++;
        Page *page = memory_make(memory, first, &stopped);
        memory->region_count--; /* the page alone is enough */
        return page != NULL;
    }
    if (memory->region_count == MAX_REGIONS)
        return false;
    memory->regions[memory->region_count++] = (Region){first, last, permissions};
    return true;
}

bool memory_unmap(Memory *memory, uint64_t first, uint64_t last) {
    bool has_pages = false;
    forget(memory);
    memory->changes++;
    if (last - first < 16)
        for (uint64_t number = first; number <= last && !has_pages; number++)
            has_pages = memory_page(memory, number) != NULL;
    else
        has_pages = memory->used != 0;
    if (has_pages && !rebuild(memory, memory->capacity, first, last))
        return false;
    for (size_t at = 0; at < memory->region_count;) {
        Region *region = &memory->regions[at];
        if (region->last < first || region->first > last) {
            at++;
            continue;
        }
        Region after = *region;
        bool has_before = region->first < first, has_after = region->last > last;
        if (has_before && has_after) {
            if (memory->region_count == MAX_REGIONS)
                return false;
            region->last = first - 1;
            after.first = last + 1;
            memory->regions[memory->region_count++] = after;
            at++;
        } else if (has_before) {
            region->last = first - 1;
            at++;
        } else if (has_after) {
            region->first = last + 1;
            at++;
        } else {
            *region = memory->regions[--memory->region_count];
        }
    }
    return true;
}

/* The page of a number that is mapped, made if it was only part of a region; NULL, and why, if there is none. */
Page *memory_make(Memory *memory, uint64_t number, Stopped *stopped) {
    Page *page = memory_page(memory, number);
    if (page != NULL)
        return page;
    const Region *region = region_of(memory, number);
    if (region == NULL) {
        *stopped = WRITE_UNMAPPED;
        return NULL;
    }
    *stopped = NO_MEMORY;
    if (memory->used >= memory->most_pages)
        return NULL;
    if (memory->used * 2 >= memory->capacity) {
        size_t capacity = memory->capacity == 0 ? FIRST_CAPACITY : memory->capacity * 2;
        if (!rebuild(memory, capacity, 1, 0))
            return NULL;
    }
    page = calloc(1, sizeof *page);
    if (page == NULL)
        return NULL;
    page->number = number;
    page->permissions = region->permissions;
    memory->slots[place(memory, number)] = page;
    memory->used++;
    memory->readable[number % CACHE_ENTRIES].tag = 0; /* it may hold the zeros that were here */
    *stopped = RUNNING;
    return page;
}

/* Whether one of these bits is set. */
static bool has_bit(const uint8_t *bits, unsigned offset, size_t size) {
    for (size_t at = offset; bits != NULL && at < offset + size && at < PAGE_BYTES; at++)
        if (bits[at / 8] >> (at % 8) & 1)
            return true;
    return false;
}

/* Whether code was executed that lies in these bytes of a page. */
bool memory_was_executed(const Page *page, unsigned offset, size_t size) {
    return has_bit(page->executed, offset, size);
}

/* Forbid all accesses to some bytes, or allow them again. False if not all are mapped, or without memory. */
bool memory_guard(Memory *memory, uint64_t address, uint64_t size, bool guarded) {
    Stopped why = RUNNING;
    bool is_whole = true;
    Page *page = NULL;
    forget(memory);
    for (; size > 0; size--, address++) {
        unsigned offset = (unsigned)(address & PAGE_MASK);
        uint8_t bit = (uint8_t)(1u << (offset % 8));
        if (page == NULL || offset == 0)
            page = memory_make(memory, address >> PAGE_SHIFT, &why);
        if (page != NULL && page->guarded == NULL)
            page->guarded = calloc(1, EXECUTED_BYTES);
        if (page == NULL || page->guarded == NULL)
            is_whole = false;
        else if (guarded)
            page->guarded[offset / 8] |= bit;
        else
            page->guarded[offset / 8] &= (uint8_t)~bit;
    }
    return is_whole;
}

/* Remember that these bytes of a page (up to 15) were executed. False without memory. */
bool memory_mark_executed(Memory *memory, Page *page, unsigned offset, unsigned size, bool *is_first) {
    if (page->executed == NULL) {
        page->executed = calloc(1, EXECUTED_BYTES + 4);
        if (page->executed == NULL)
            return false;
        memory->writable[page->number % CACHE_ENTRIES].tag = 0;
    }
    uint32_t bits;
    memcpy(&bits, page->executed + offset / 8, sizeof bits);
    *is_first = !(bits >> (offset % 8) & 1);
    bits |= ((1u << size) - 1) << (offset % 8);
    memcpy(page->executed + offset / 8, &bits, sizeof bits);
    return true;
}

/* The contents of the page of a number, if these bytes of it can be read. */
static const uint8_t *readable(Core *core, uint64_t number, unsigned offset, unsigned size, uint64_t address) {
    Memory *memory = &core->memory;
    const Page *page = memory_page(memory, number);
    const uint8_t *data = page != NULL ? page->data : memory_peek(memory, number);
    if (data == NULL) {
        stop(core, READ_UNMAPPED, address);
        return NULL;
    }
    if (page != NULL && page->guarded != NULL) {
        if (!has_bit(page->guarded, offset, size))
            return data;
        stop(core, READ_FORBIDDEN, address);
        return NULL;
    }
    CacheEntry *entry = &memory->readable[number % CACHE_ENTRIES];
    entry->tag = number + 1;
    entry->data = (uint8_t *)(uintptr_t)data; /* only read through this cache */
    return data;
}

bool load_slowly(Core *core, uint64_t address, void *value, unsigned size) {
    unsigned offset = (unsigned)(address & PAGE_MASK);
    unsigned first = size < PAGE_BYTES - offset ? size : PAGE_BYTES - offset;
    const uint8_t *data = readable(core, address >> PAGE_SHIFT, offset, first, address);
    if (data == NULL)
        return false;
    if (first == size) {
        memcpy(value, data + offset, size);
        return true;
    }
    const uint8_t *after = readable(core, (address + first) >> PAGE_SHIFT, 0, size - first, address);
    if (after == NULL)
        return false;
    memcpy(value, data + offset, first);
    memcpy((uint8_t *)value + first, after, size - first);
    return true;
}

/* The page of a number, if these bytes of it can be written. */
static Page *writable(Core *core, uint64_t number, unsigned offset, unsigned size, uint64_t address) {
    Memory *memory = &core->memory;
    uint8_t permissions = memory_permissions(memory, number);
    Stopped why = RUNNING;
    if (permissions == 0) {
        stop(core, WRITE_UNMAPPED, address);
        return NULL;
    }
    Page *page = memory_page(memory, number);
    if (page != NULL && memory_was_executed(page, offset, size)) {
        stop(core, CODE_CHANGED, address);
        return NULL;
    }
    if (!(permissions & CAN_WRITE) || (page != NULL && has_bit(page->guarded, offset, size))) {
        stop(core, WRITE_FORBIDDEN, address);
        return NULL;
    }
    page = memory_make(memory, number, &why);
    if (page == NULL) {
        stop(core, why, address);
        return NULL;
    }
    if (page->executed == NULL && page->guarded == NULL) {
        CacheEntry *entry = &memory->writable[number % CACHE_ENTRIES];
        entry->tag = number + 1;
        entry->data = page->data;
    }
    return page;
}

bool store_slowly(Core *core, uint64_t address, const void *value, unsigned size) {
    unsigned offset = (unsigned)(address & PAGE_MASK);
    unsigned first = size < PAGE_BYTES - offset ? size : PAGE_BYTES - offset;
    Page *page = writable(core, address >> PAGE_SHIFT, offset, first, address);
    if (page == NULL)
        return false;
    if (first < size) {
        Page *after = writable(core, (address + first) >> PAGE_SHIFT, 0, size - first, address);
        if (after == NULL)
            return false;
        memcpy(after->data, (const uint8_t *)value + first, size - first);
    }
    memcpy(page->data + offset, value, first);
    return true;
}

bool can_store(Core *core, uint64_t address, unsigned size) {
    unsigned offset = (unsigned)(address & PAGE_MASK);
    unsigned first = size < PAGE_BYTES - offset ? size : PAGE_BYTES - offset;
    if (writable(core, address >> PAGE_SHIFT, offset, first, address) == NULL)
        return false;
    return first == size || writable(core, (address + first) >> PAGE_SHIFT, 0, size - first, address) != NULL;
}

/* A vector is read and written in words of eight bytes: the first one that cannot be is the one that faults. */
bool load_vector(Core *core, uint64_t address, void *value, unsigned size) {
    if ((address & PAGE_MASK) + size <= PAGE_BYTES)
        return load(core, address, value, size);
    for (unsigned at = 0; at < size; at += 8)
        if (!load(core, address + at, (uint8_t *)value + at, 8))
            return false;
    return true;
}

bool store_vector(Core *core, uint64_t address, const void *value, unsigned size) {
    if ((address & PAGE_MASK) + size <= PAGE_BYTES)
        return store(core, address, value, size);
    for (unsigned at = 0; at < size; at += 8)
        if (!can_store(core, address + at, 8))
            return false;
    for (unsigned at = 0; at < size; at += 8)
        if (!store(core, address + at, (const uint8_t *)value + at, 8))
            return false;
    return true;
}
