/* Random instructions for the native core, which `make native-fuzz` compiles with sanitizers. Arguments: seed, how many
   sequences. What the core does with memory that it should not touch, or with undefined behaviour, ends the program. */

#include "../../abiscan/native/core.h"
#include "../../abiscan/native/grams.h"
#include "../../abiscan/native/links.h"
#include "../../abiscan/native/measure.h"
#include "../../abiscan/native/search.h"
#include "../../abiscan/native/sweep.h"
#include "../../tests/oracle/native/arm64_forms.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../tests/oracle/native/random.h"

#define CODE 0x10000000u
#define DATA 0x20000000u
#define END (~(uint64_t)0 - PAGE_BYTES + 1) /* the last page that there is */
#define INSTRUCTIONS 64

static uint64_t random_value(void) {
    static const uint64_t bases[] = {0, CODE, DATA, DATA + PAGE_BYTES, DATA + 4 * PAGE_BYTES, END, 0};
    switch (below(4)) {
    case 0: return random_word();
    case 1: return random_word() >> below(64);
    default: return bases[below(7)] + (uint64_t)below(2 * PAGE_BYTES) - below(32);
    }
}

/* Bytes that are more often instructions than random ones are. */
static void fill(uint8_t *code, size_t size) {
    static const uint8_t starts[] = {0x0F, 0x48, 0x66, 0xF3, 0xF2, 0xC4, 0xC5, 0x41, 0x4C, 0xF0, 0x64, 0x67};
    for (size_t at = 0; at < size; at++)
        code[at] = below(3) ? (uint8_t)random_word() : starts[below(sizeof starts)];
    for (unsigned times = below(32); times > 0; times--) {
        static const uint8_t vex[] = {0xC4, 0xE1, 0xC4, 0xE2, 0xC4, 0xE3, 0xC5, 0xFD, 0xC5, 0xFC, 0xC5, 0xF1};
        size_t at = below((unsigned)size - 2);
        memcpy(code + at, vex + 2 * below(6), 2);
    }
}

/* The same of AArch64. */
static void fill_arm64(uint8_t *code, size_t size) {
    for (size_t at = 0; at + 4 <= size; at += 4) {
        const Form *form = &forms[below(FORMS)];
        uint32_t word = ((uint32_t)random_word() & ~form->mask) | form->bits;
        memcpy(code + at, &word, sizeof word);
    }
}

static void run_sequence(Core *core) {
    static uint8_t code[2 * PAGE_BYTES];
    Registers *r = &core->r;
    memory_free(&core->memory);
    free(core->breakpoints);
    free(core->decoded);
    free(core->extensions);
    memset(core, 0, sizeof *core);
    memory_init(&core->memory, 16);
    core->is_arm64 = below(2);
    uint8_t of_code = below(4) ? CAN_READ | CAN_EXECUTE : CAN_READ | CAN_WRITE | CAN_EXECUTE;
    unsigned start = below(8) ? below(PAGE_BYTES) : PAGE_BYTES - below(20);
    if (core->is_arm64 && below(16))
        start &= ~3u;
    if (core->is_arm64)
        fill_arm64(code + start, 256);
    else
        fill(code + start, 256);
    for (unsigned page = 0; page < 1 + below(2); page++) {
        if (!memory_map(&core->memory, CODE / PAGE_BYTES + page, CODE / PAGE_BYTES + page, of_code))
            return;
        memcpy(memory_page(&core->memory, CODE / PAGE_BYTES + page)->data, code + page * PAGE_BYTES, PAGE_BYTES);
    }
    memory_map(&core->memory, DATA / PAGE_BYTES, DATA / PAGE_BYTES + 2, CAN_READ | CAN_WRITE);
    memory_map(&core->memory, DATA / PAGE_BYTES + 4, DATA / PAGE_BYTES + 4, CAN_READ);
    memory_map(&core->memory, END >> PAGE_SHIFT, END >> PAGE_SHIFT, CAN_READ | CAN_WRITE | CAN_EXECUTE);
    for (unsigned at = 0; at < 32; at++)
        r->registers[at] = random_value();
    for (unsigned at = 0; at < 32; at++)
        for (unsigned word = 0; word < 8; word++)
            r->vectors[at].q[word] = random_value();
    r->segments[0] = random_value();
    r->cf = below(2), r->pf = below(2), r->af = below(2), r->zf = below(2), r->sf = below(2), r->of = below(2);
    r->df = below(2);
    r->pc = CODE + start;
    core->limit = below(8) ? 100000 : below(100);
    for (unsigned at = below(4); at > 0; at--)
        add_breakpoint(core, CODE + start + below(256));
    for (unsigned times = 0; times < INSTRUCTIONS; times++) {
        Stopped stopped = run(core, 1 + below(8), below(2));
        if (stopped == AT_LIMIT || stopped == NO_MEMORY)
            return;
        if (stopped == AT_BREAKPOINT)
            remove_breakpoint(core, r->pc);
        if ((stopped == READ_UNMAPPED || stopped == WRITE_UNMAPPED) && below(2))
            memory_map(&core->memory, core->address >> PAGE_SHIFT, core->address >> PAGE_SHIFT, (uint8_t)(1 + below(7)));
        else if (stopped == NOT_CODE && (r->pc < CODE || r->pc >= CODE + 2 * PAGE_BYTES))
            r->pc = CODE + start + below(256);
        else if (stopped != RUNNING)
            r->pc += core->is_arm64 ? 4 : 1 + below(4);
        if (below(64) == 0)
            memory_unmap(&core->memory, (DATA >> PAGE_SHIFT) + below(3), (DATA >> PAGE_SHIFT) + 2);
        if (below(16) == 0)
            memory_guard(&core->memory, below(2) ? CODE + below(2 * PAGE_BYTES) : DATA + below(6 * PAGE_BYTES),
                         below(2 * PAGE_BYTES), below(3) == 0);
        if (below(8) == 0)
            r->registers[below(32)] = random_value();
    }
}

/* Random bytes on the heap, where sanitizers see what is read beyond them. */
static uint8_t *random_bytes(size_t size) {
    uint8_t *bytes = malloc(size ? size : 1), code[512];
    if (bytes == NULL)
        exit(2);
    fill(code, sizeof code);
    for (size_t at = 0; at < size; at++)
        bytes[at] = code[at % sizeof code];
    return bytes;
}

static uint64_t random_address(void) {
    return below(4) ? CODE + below(4096) : random_value();
}

static void search_code(void) {
    size_t size = below(300), table_size = below(50 * 24), symbols_size = below(20 * 24);
    uint8_t *code = random_bytes(size), *table = random_bytes(table_size), *symbols = random_bytes(symbols_size);
    Measure found;
    for (size_t at = 0; at < size; at += found.length)
        if (measure(code + at, size - at, &found) != MEASURED)
            break;
    Swept swept;
    for (size_t at = 0; at < size && sweep(code + at, size - at, &swept); at += swept.length)
        ;
    Links links = {0};
    List functions = {0}, imports = {0};
    Kinds kinds = {8, 1, 6, 7};
    bool damaged = false;
    for (unsigned times = below(20); times > 0; times--)
        links_add_function(&links, random_address());
    for (size_t at = 0; at + 24 <= table_size && below(8); at += 24) {
        uint64_t words[] = {random_address(), (uint64_t)below(16) << 32 | below(9), random_address()};
        memcpy(table + at, words, sizeof words);
    }
    links_add_relocations(&links, table, table_size, symbols, symbols_size, &kinds, &damaged);
    for (unsigned times = below(20); times > 0; times--)
        links_add_pointer(&links, random_address(), random_address());
    List jumps = {0};
    links_add_stubs(&links, code, size, random_address(), &jumps);
    free(jumps.items);
    links_of(&links, code, size, random_address(), &functions, &imports);
    list_sort(&functions);
    uint64_t targets[] = {CODE, CODE + 100, CODE + 200, CODE + 210};
    for (size_t at = 0; at < size; at = find_branch(code, size, at, CODE, targets, below(5)) + 1)
        ;
    for (size_t at = 0; at < size; at = find_displacement(code, size, at, CODE, targets, below(5)) + 1)
        ;
    for (size_t at = 0; at < size; at = find_call(code, size, at, CODE, targets, below(4)) + 1)
        ;
    for (size_t at = 0; at < size; at++) /* hardly any byte is a letter */
        code[at] = below(4) == 0 ? code[at] : (uint8_t)("abcd \n\0" [below(7)]);
    size_t length = 0, least = 8 + below(8);
    for (size_t at = 0; (at = find_text(code, size, at, least, least + below(40), &length)) < size; at += length)
        begins_with(code + at, targets, below(5));
    Grams grams;
    if (grams_of(&grams, code, size)) {
        size_t from = below((unsigned)size + 1), part = below((unsigned)(size - from) + 1);
        if (!may_have(&grams, code + from, part)) /* it has what it consists of */
            abort();
        free(grams.bits);
    }
    links_free(&links);
    free(functions.items);
    free(imports.items);
    free(code);
    free(table);
    free(symbols);
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    state = strtoull(words[1], NULL, 10);
    unsigned long sequences = strtoul(words[2], NULL, 10), executed = 0;
    Core *core = calloc(1, sizeof *core);
    if (core == NULL)
        return 2;
    memory_init(&core->memory, 16);
    for (unsigned long at = 0; at < sequences; at++) {
        run_sequence(core);
        search_code();
        executed += core->count;
    }
    printf("%lu sequences, %lu instructions\n", sequences, executed);
    memory_free(&core->memory);
    free(core->breakpoints);
    free(core->decoded);
    free(core->extensions);
    free(core);
    return 0;
}
