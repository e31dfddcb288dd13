/* Random instructions of AArch64, on the core of abiscan and, where this is compiled for AArch64, on the processor of the
   machine or an emulator of user mode.

   The core comes first: what it executes, with all accesses in pages that are mapped at the same addresses in both, is
   safe to execute. Prints how many instructions of each form were executed, and a hash of what they left behind: of the
   processor, or else of the core. Instructions that differ are told too. Arguments: seed, how many. */

#define _GNU_SOURCE
#include "../../../abiscan/native/core.h"
#include "arm64_forms.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "random.h"

#define MACHINE 0x40000000u /* as in the assembly below */
#define CODE 0x50000000u
#define DATA 0x60000000u
#define DATA_PAGES 2
#define HOLE 276u /* in the page of code: how far the assembly below gets before the instruction */

static uint8_t code_page[PAGE_BYTES];

static uint64_t random_value(void) {
    static const uint64_t special[] = {0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000,
        0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x3FF0000000000000,
        0x400800003F800000, 0x3FE0000000000000, 0xBF0000003F000000, 0x7FF0000000000000, 0x0000000100000001};
    double number = (double)(int32_t)random_word() / (below(2) ? 1000 : 2);
    float numbers[2] = {(float)(int16_t)random_word() / 2, (float)(int32_t)random_word() / 1000};
    uint64_t bits;
    switch (below(7)) {
    case 0: return special[below(sizeof special / sizeof *special)];
    case 1: return random_word() & 0xFF;
    case 2: return random_word() & 0xFFFFFFFF;
    case 3: memcpy(&bits, &number, sizeof bits); return bits;
    case 4: memcpy(&bits, numbers, sizeof bits); return bits;
    case 5: return random_word() & 0x0F0F0F0F0F0F0F0F;
    default: return random_word();
    }
}

typedef struct {
    uint64_t registers[32]; /* the last is SP */
    uint64_t flags, own_stack, own_thread, unused;
    uint8_t vectors[32][16];
} Machine;

static void make_registers(Registers *r, const Form *form, uint32_t word) {
    for (unsigned at = 0; at < 32; at++) {
        r->registers[at] = random_value();
        r->vectors[at] = (Vector){.q = {random_value(), random_value()}};
    }
    r->registers[31] = DATA + 0xF80;
    if (form->has_offset)
        r->registers[word >> 16 & 31] = below(2) ? below(64) : -(uint64_t)below(64);
    if (form->has_memory)
        r->registers[word >> 5 & 31] = DATA + 0x800 + (below(2) ? below(64) : below(8) * 16);
    r->registers[31] &= ~(uint64_t)15;
    r->sf = below(2), r->zf = below(2), r->cf = below(2), r->of = below(2);
}

#ifdef __aarch64__

/* Loads the registers from the machine at MACHINE, executes what is written at `around_code`, and stores them again. */
extern const uint8_t around_begin[], around_code[], around_end[];
__asm__(".pushsection .rodata\n"
        ".balign 4\n"
        ".global around_begin, around_code, around_end\n"
        "around_begin:\n"
        "stp x19, x20, [sp, #-16]!; stp x21, x22, [sp, #-16]!; stp x23, x24, [sp, #-16]!\n"
        "stp x25, x26, [sp, #-16]!; stp x27, x28, [sp, #-16]!; stp x29, x30, [sp, #-16]!\n"
        "stp d8, d9, [sp, #-16]!; stp d10, d11, [sp, #-16]!\n"
        "stp d12, d13, [sp, #-16]!; stp d14, d15, [sp, #-16]!\n"
        "clrex; movz x0, #0x4000, lsl #16\n"
        "mov x1, sp; str x1, [x0, #264]; mrs x1, tpidr_el0; str x1, [x0, #272]\n"
        "ldr x1, [x0, #256]; msr nzcv, x1; ldr x1, [x0, #248]; mov sp, x1\n"
        "add x1, x0, #288\n"
        ".set at, 0\n"
        ".irp n,0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30\n"
        "ldr q\\n, [x1, #at]\n"
        ".set at, at+32\n"
        ".endr\n"
        ".set at, 16\n"
        ".irp n,1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31\n"
        "ldr q\\n, [x1, #at]\n"
        ".set at, at+32\n"
        ".endr\n"
        "ldp x2, x3, [x0, #16]; ldp x4, x5, [x0, #32]; ldp x6, x7, [x0, #48]; ldp x8, x9, [x0, #64]\n"
        "ldp x10, x11, [x0, #80]; ldp x12, x13, [x0, #96]; ldp x14, x15, [x0, #112]; ldp x16, x17, [x0, #128]\n"
        "ldp x18, x19, [x0, #144]; ldp x20, x21, [x0, #160]; ldp x22, x23, [x0, #176]; ldp x24, x25, [x0, #192]\n"
        "ldp x26, x27, [x0, #208]; ldp x28, x29, [x0, #224]; ldr x30, [x0, #240]; ldp x0, x1, [x0]\n"
        "around_code:\n"
        "nop\n"
        "msr tpidr_el0, x0; movz x0, #0x4000, lsl #16; str x1, [x0, #8]\n" /* the only place that is free */
        "stp x2, x3, [x0, #16]; stp x4, x5, [x0, #32]; stp x6, x7, [x0, #48]; stp x8, x9, [x0, #64]\n"
        "stp x10, x11, [x0, #80]; stp x12, x13, [x0, #96]; stp x14, x15, [x0, #112]; stp x16, x17, [x0, #128]\n"
        "stp x18, x19, [x0, #144]; stp x20, x21, [x0, #160]; stp x22, x23, [x0, #176]; stp x24, x25, [x0, #192]\n"
        "stp x26, x27, [x0, #208]; stp x28, x29, [x0, #224]; str x30, [x0, #240]\n"
        "mrs x1, tpidr_el0; str x1, [x0]; mov x1, sp; str x1, [x0, #248]\n"
        "mrs x1, nzcv; str x1, [x0, #256]; ldr x1, [x0, #272]; msr tpidr_el0, x1\n"
        "ldr x1, [x0, #264]; mov sp, x1; add x1, x0, #288\n"
        ".set at, 0\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
        "str q\\n, [x1, #at]\n"
        ".set at, at+16\n"
        ".endr\n"
        "ldp d14, d15, [sp], #16; ldp d12, d13, [sp], #16; ldp d10, d11, [sp], #16; ldp d8, d9, [sp], #16\n"
        "ldp x29, x30, [sp], #16; ldp x27, x28, [sp], #16; ldp x25, x26, [sp], #16\n"
        "ldp x23, x24, [sp], #16; ldp x21, x22, [sp], #16; ldp x19, x20, [sp], #16; ret\n"
        "around_end:\n"
        ".popsection\n");

static uint8_t *map_at(uintptr_t address, size_t size, int protection) {
    void *at = mmap((void *)address, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != (void *)address) {
        perror("mmap");
        exit(2);
    }
    return at;
}

static sigjmp_buf rejected;

static void reject(int number) {
    siglongjmp(rejected, number);
}

/* Signals come back to where an instruction was started, whatever it made of the stack pointer. */
static void catch_signals(void) {
    static uint8_t stack[1 << 16];
    stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {.sa_handler = reject, .sa_flags = SA_ONSTACK | SA_NODEFER};
    sigaltstack(&other, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

static uint64_t flags_of(const Registers *r) {
    return (uint64_t)r->sf << 31 | (uint64_t)r->zf << 30 | (uint64_t)r->cf << 29 | (uint64_t)r->of << 28;
}

/* The instruction on the processor; false if a signal ends it. */
static bool execute(const Registers *before, Registers *after, uint32_t word) {
    Machine *machine = (Machine *)(uintptr_t)MACHINE;
    uint8_t *code = (uint8_t *)(uintptr_t)CODE;
    memcpy(machine->registers, before->registers, sizeof machine->registers);
    machine->flags = flags_of(before);
    for (unsigned at = 0; at < 32; at++)
        memcpy(machine->vectors[at], before->vectors[at].b, 16);
    memcpy(code + HOLE, &word, sizeof word);
    __builtin___clear_cache((char *)code, (char *)code + PAGE_BYTES);
    if (sigsetjmp(rejected, 1))
        return false;
    ((void (*)(void))(uintptr_t)CODE)();
    *after = *before;
    memcpy(after->registers, machine->registers, sizeof machine->registers);
    after->sf = machine->flags >> 31 & 1, after->zf = machine->flags >> 30 & 1;
    after->cf = machine->flags >> 29 & 1, after->of = machine->flags >> 28 & 1;
    for (unsigned at = 0; at < 32; at++)
        memcpy(after->vectors[at].b, machine->vectors[at], 16);
    return true;
}

static bool is_different(const Registers *a, const Registers *b) {
    bool is_same = memcmp(a->registers, b->registers, sizeof a->registers) == 0 && flags_of(a) == flags_of(b);
    for (unsigned at = 0; at < 32; at++)
        is_same &= memcmp(a->vectors[at].b, b->vectors[at].b, 16) == 0;
    return !is_same;
}

/* The same on both; false, and a line, if not. */
static bool compare(const Core *core, const Registers *before, Registers *real, uint8_t *data, uint32_t word) {
    const Registers *r = &core->r;
    bool is_same = execute(before, real, word) && !is_different(real, r);
    for (unsigned page = 0; page < DATA_PAGES; page++)
        is_same &= !memcmp(memory_page(&core->memory, DATA / PAGE_BYTES + page)->data, data + page * PAGE_BYTES, PAGE_BYTES);
    if (is_same)
        return true;
    printf("different: %08x", word);
    for (unsigned at = 0; at < 32; at++)
        if (real->registers[at] != r->registers[at])
            printf(" x%u %llx, not %llx;", at, (unsigned long long)r->registers[at], (unsigned long long)real->registers[at]);
    for (unsigned at = 0; at < 32; at++)
        for (unsigned half = 0; half < 2; half++)
            if (real->vectors[at].q[half] != r->vectors[at].q[half])
                printf(" v%u[%u] %llx, not %llx;", at, half, (unsigned long long)r->vectors[at].q[half],
                       (unsigned long long)real->vectors[at].q[half]);
    printf(" flags %llx, not %llx\n", (unsigned long long)flags_of(r), (unsigned long long)flags_of(real));
    return false;
}

static uint8_t *set_up(void) {
    map_at(MACHINE, PAGE_BYTES, PROT_READ | PROT_WRITE);
    uint8_t *code = map_at(CODE, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    memcpy(code, code_page, PAGE_BYTES);
    memcpy(code, around_begin, (size_t)(around_end - around_begin));
    if (around_code - around_begin != HOLE)
        exit(2);
    catch_signals();
    return map_at(DATA, DATA_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE);
}

#else

static bool compare(const Core *core, const Registers *before, Registers *real, const uint8_t *data, uint32_t word) {
    (void)before, (void)data, (void)word;
    *real = core->r;
    return true;
}

static uint8_t *set_up(void) {
    static uint8_t data[DATA_PAGES * PAGE_BYTES];
    return data;
}

#endif

static uint64_t hashed(uint64_t hash, const void *bytes, size_t size) {
    for (size_t at = 0; at < size; at++)
        hash = (hash ^ ((const uint8_t *)bytes)[at]) * 0x100000001B3u;
    return hash;
}

/* Some processors sign pointers with what is a hint to all others; TPIDR_EL0 is that of this program; literals may be the
   assembly around the instruction, unless they are as far away as those of the form of literals. */
static bool is_left_out(uint32_t word) {
    bool is_near_literal = (word & 0x3B000000u) == 0x18000000u && (word & 0x00FFF000u) != 0x00002000u;
    return is_near_literal || (word & 0xFFFFFD1Fu) == 0xD503211Fu || word == 0xD50320FFu || (word & 0xFFDFFFE0u) == 0xD51BD040u;
}

int main(int count, char **words) {
    if (count != 3)
        return 2;
    state = strtoull(words[1], NULL, 10);
    static unsigned long executed[FORMS];
    static uint64_t hashes[FORMS];
    unsigned long trials = strtoul(words[2], NULL, 10), different = 0;
    for (unsigned at = 0; at < sizeof code_page; at++)
        code_page[at] = (uint8_t)random_word();
    uint8_t *data = set_up();
    Core *core = calloc(1, sizeof *core);
    memory_init(&core->memory, 64);
    core->is_arm64 = true;
    for (unsigned page = 0; page < DATA_PAGES; page++)
        memory_map(&core->memory, DATA / PAGE_BYTES + page, DATA / PAGE_BYTES + page, CAN_READ | CAN_WRITE);
    for (unsigned long trial = 0; trial < trials; trial++) {
        unsigned number = (unsigned)(trial % FORMS);
        const Form *form = &forms[number];
        uint32_t word = ((uint32_t)random_word() & ~form->mask) | form->bits;
        Registers *r = &core->r, real;
        make_registers(r, form, word);
        for (unsigned at = 0x700; at < 0xA00; at += 8) {
            uint64_t value = random_value();
            memcpy(data + at, &value, sizeof value);
        }
        if (is_left_out(word))
            continue;
        memory_map(&core->memory, CODE / PAGE_BYTES, CODE / PAGE_BYTES, CAN_READ | CAN_EXECUTE);
        memcpy(memory_page(&core->memory, CODE / PAGE_BYTES)->data, code_page, PAGE_BYTES);
        memcpy(memory_page(&core->memory, CODE / PAGE_BYTES)->data + HOLE, &word, sizeof word);
        for (unsigned page = 0; page < DATA_PAGES; page++)
            memcpy(memory_page(&core->memory, DATA / PAGE_BYTES + page)->data, data + page * PAGE_BYTES, PAGE_BYTES);
        r->pc = CODE + HOLE;
        core->monitored = 0;
        core->limit = core->count + 1000;
        Registers before = *r;
        if (run(core, 1, true) != RUNNING || r->pc != CODE + HOLE + sizeof word)
            continue;
        different += !compare(core, &before, &real, data, word);
        executed[number]++;
        hashes[number] = hashed(hashes[number], real.registers, sizeof real.registers);
        for (unsigned at = 0; at < 32; at++)
            hashes[number] = hashed(hashes[number], real.vectors[at].b, 16);
        uint8_t flags[] = {real.sf, real.zf, real.cf, real.of};
        hashes[number] = hashed(hashes[number], flags, sizeof flags);
        for (unsigned page = 0; page < DATA_PAGES; page++) /* the same in both, as compared */
            memcpy(data + page * PAGE_BYTES, memory_page(&core->memory, DATA / PAGE_BYTES + page)->data, PAGE_BYTES);
        hashes[number] = hashed(hashes[number], data + 0x700, 0x300);
    }
    for (unsigned at = 0; at < FORMS; at++)
        printf("%08x %08x %lu %016llx\n", forms[at].mask, forms[at].bits, executed[at], (unsigned long long)hashes[at]);
    memory_free(&core->memory);
    free(core);
    return different != 0;
}
