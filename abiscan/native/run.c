/* Runs code until something happens that others must deal with. */

#include "core.h"

#include <stdlib.h>

static unsigned filter_of(uint64_t address) {
    return (unsigned)((address ^ address >> 16) % FILTER_BITS);
}

static bool find(const Core *core, uint64_t address, size_t *at) {
    size_t low = 0, high = core->breakpoint_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (core->breakpoints[middle] < address)
            low = middle + 1;
        else
            high = middle;
    }
    *at = low;
    return low < core->breakpoint_count && core->breakpoints[low] == address;
}

bool has_breakpoint(const Core *core, uint64_t address) {
    unsigned bit = filter_of(address);
    size_t at = 0;
    return (core->filter[bit / 8] >> (bit % 8) & 1) && find(core, address, &at);
}

bool add_breakpoint(Core *core, uint64_t address) {
    size_t at = 0;
    unsigned bit = filter_of(address);
    if (find(core, address, &at))
        return true;
    if (core->breakpoint_count == core->breakpoint_room) {
        size_t room = core->breakpoint_room ? core->breakpoint_room * 2 : 64;
        uint64_t *more = realloc(core->breakpoints, room * sizeof *more);
        if (more == NULL)
            return false;
        core->breakpoints = more;
        core->breakpoint_room = room;
    }
    memmove(core->breakpoints + at + 1, core->breakpoints + at, (core->breakpoint_count - at) * sizeof(uint64_t));
    core->breakpoints[at] = address;
    core->breakpoint_count++;
    core->filter[bit / 8] |= (uint8_t)(1u << (bit % 8));
    return true;
}

void remove_breakpoint(Core *core, uint64_t address) {
    size_t at = 0;
    if (!find(core, address, &at)) /* its bit in the filter may stand for another one */
        return;
    core->breakpoint_count--;
    memmove(core->breakpoints + at, core->breakpoints + at + 1, (core->breakpoint_count - at) * sizeof(uint64_t));
}

/* The page of code with this number, NULL where there is none that can be executed. */
static Page *code_page(Core *core, uint64_t number) {
    Memory *memory = &core->memory;
    if (memory->code != NULL && memory->code->number == number)
        return memory->code;
    Page *page = memory_page(memory, number);
    if (page == NULL || !(page->permissions & CAN_EXECUTE))
        return NULL;
    memory->code = page;
    return page;
}

static bool is_of_vectors(const Instruction *i) {
    unsigned opcode = i->opcode;
    if (i->map != 1)
        return i->map != 0;
    return (opcode >= 0x10 && opcode < 0x18) || (opcode >= 0x28 && opcode < 0x30) ||
           (opcode >= 0x50 && opcode < 0x80) || opcode == 0xC2 || (opcode >= 0xC4 && opcode <= 0xC6) || opcode >= 0xD0;
}

/* Remember the place of an instruction that not every processor has; false if there is no memory for that. */
static bool note_extension(Core *core) {
    if (core->extension_count == core->extension_room) {
        size_t room = core->extension_room ? 2 * core->extension_room : 64;
        uint64_t *grown = room > MAX_EXTENSIONS ? NULL : realloc(core->extensions, room * sizeof *grown);
        if (grown == NULL)
            return false;
        core->extensions = grown;
        core->extension_room = room;
    }
    core->extensions[core->extension_count++] = core->r.pc;
    return true;
}

/* Mark an instruction of this length as executed; the first time, note what not every processor has. */
static bool mark(Core *core, Page *page, Page *after, const uint8_t *code, size_t available, unsigned length) {
    unsigned offset = (unsigned)(core->r.pc & PAGE_MASK), here = PAGE_BYTES - offset;
    bool is_first = false, is_known = false;
    if (!memory_mark_executed(&core->memory, page, offset, length < here ? length : here, &is_first))
        return false;
    if (length > here && after != NULL && !memory_mark_executed(&core->memory, after, 0, length - here, &is_known))
        return false;
    return !is_first || !is_extension(code, available) || note_extension(core);
}

/* An instruction that is not known is counted by whoever executes it; one whose access faults comes again. */
static void count_stop(Core *core) {
    switch (core->stopped) {
    case UNKNOWN: core->count--; break;
    case READ_UNMAPPED:
    case WRITE_UNMAPPED:
    case READ_FORBIDDEN:
    case WRITE_FORBIDDEN: core->faults++; break;
    default: break;
    }
}

/* The instruction of x86-64 at the program counter, marked as executed; NULL, and why, if there is none.

   Most code is executed more than once, and decoding takes longer than executing. */
static Instruction *fetch(Core *core) {
    uint64_t pc = core->r.pc, changes = core->memory.changes + 1;
    if (core->decoded == NULL && (core->decoded = calloc(DECODED_ENTRIES, sizeof *core->decoded)) == NULL) {
        stop(core, NO_MEMORY, pc);
        return NULL;
    }
    DecodedInstruction *known = &core->decoded[pc % DECODED_ENTRIES];
    if (known->pc == pc && known->changes == changes)
        return &known->instruction;
    unsigned offset = (unsigned)(pc & PAGE_MASK), here = PAGE_BYTES - offset;
    uint8_t joined[2 * MAX_INSTRUCTION];
    Page *page = code_page(core, pc >> PAGE_SHIFT), *after = NULL;
    if (page == NULL) {
        stop(core, NOT_CODE, pc);
        return NULL;
    }
    const uint8_t *code = page->data + offset;
    size_t available = here;
    if (here < MAX_INSTRUCTION) {
        after = code_page(core, (pc >> PAGE_SHIFT) + 1);
        memcpy(joined, code, here);
        if (after != NULL) {
            memcpy(joined + here, after->data, MAX_INSTRUCTION);
            available += MAX_INSTRUCTION;
        }
        code = joined;
    }
    known->changes = 0;
    Decoded decoded = decode(code, available, &known->instruction);
    bool is_marked = decoded == DECODED || (decoded == UNDECODED && is_extension(code, available));
    unsigned length = decoded == DECODED ? known->instruction.length : 1;
    if (is_marked && !mark(core, page, after, code, available, length)) {
        stop(core, NO_MEMORY, pc);
        return NULL;
    }
    if (decoded != DECODED) {
        stop(core, decoded == TOO_SHORT ? NOT_CODE : UNKNOWN, decoded == TOO_SHORT ? pc : 0);
        return NULL;
    }
    known->pc = pc;
    known->changes = changes;
    return &known->instruction;
}

static uint64_t address_of(const Core *core, const Instruction *i) {
    uint64_t address = i->displacement;
    if (i->base != NO_REGISTER)
        address += core->r.registers[i->base];
    if (i->index != NO_REGISTER)
        address += core->r.registers[i->index] << i->scale;
    if (i->is_relative)
        address += core->r.pc + i->length;
    if (i->segment >= 0)
        address += core->r.segments[i->segment];
    return address;
}

/* Execute the instruction of x86-64 at the program counter; whether that is done. */
static bool step_x86_64(Core *core) {
    Instruction *instruction = fetch(core);
    if (instruction == NULL)
        return false;
    if (instruction->has_memory)
        instruction->address = address_of(core, instruction);
    core->next = core->r.pc + instruction->length;
    bool done = false;
    if (instruction->vex) {
        done = execute_avx(core, instruction);
    } else {
        core->count++;
        done = is_of_vectors(instruction) ? execute_vector(core, instruction) : execute_integer(core, instruction);
        if (!done)
            count_stop(core);
    }
    if (done)
        core->r.pc = core->next;
    return done;
}

/* The same of AArch64. */
static bool step_arm64(Core *core) {
    uint64_t pc = core->r.pc;
    unsigned offset = (unsigned)(pc & PAGE_MASK);
    Page *page = code_page(core, pc >> PAGE_SHIFT);
    bool is_first = false;
    uint32_t word;
    if (page == NULL)
        return stop(core, NOT_CODE, pc);
    if (pc % sizeof word != 0)
        return unknown(core);
    memcpy(&word, page->data + offset, sizeof word);
    if (!memory_mark_executed(&core->memory, page, offset, sizeof word, &is_first))
        return stop(core, NO_MEMORY, pc);
    if (is_first && arm64_is_extension(word) && !note_extension(core))
        return stop(core, NO_MEMORY, pc);
    core->next = pc + sizeof word;
    core->count++;
    if (!arm64_execute(core, word)) {
        count_stop(core);
        return false;
    }
    core->r.pc = core->next;
    return true;
}

/* Execute up to so many instructions, and no more than the limit.

   `ignore_breakpoint`: of the first one. */
Stopped run(Core *core, uint64_t instructions, bool ignore_breakpoint) {
    core->stopped = RUNNING;
    core->address = 0;
    for (; instructions > 0; instructions--) {
        if (core->count >= core->limit)
            return core->stopped = AT_LIMIT;
        bool may_stop = core->breakpoint_count > 0 && !ignore_breakpoint;
        if (may_stop && has_breakpoint(core, core->r.pc) && code_page(core, core->r.pc >> PAGE_SHIFT) != NULL)
            return core->stopped = AT_BREAKPOINT;
        ignore_breakpoint = false;
        if (!(core->is_arm64 ? step_arm64(core) : step_x86_64(core)))
            return core->stopped;
    }
    return RUNNING;
}
