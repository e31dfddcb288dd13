/* Random instructions, on the core of abiscan and on the processor of this machine.

   The core comes first: what it executes, with all accesses in pages that are mapped at the same addresses in both,
   is safe to execute. Prints the instructions that differ. Arguments: seed, how many, whether the processor has AVX2. */

#define _GNU_SOURCE
#include "../../../abiscan/native/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "random.h"

#define MACHINE 0x40000000u /* as in the assembly below */
#define CODE 0x50000000u
#define DATA 0x60000000u
#define DATA_PAGES 4
#define FLAGS 0x8D5u /* CF, PF, AF, ZF, SF, OF */

enum { CF = 1, PF = 4, AF = 0x10, ZF = 0x40, SF = 0x80, OF = 0x800 };

static uint64_t random_value(void) {
    static const uint64_t special[] = {0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000,
        0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0x3FF0000000000000,
        0x400800003F800000, 0xC05EDD2F3F9DF3B6};
    switch (below(6)) {
    case 0: return special[below(sizeof special / sizeof *special)];
    case 1: return random_word() & 0xFF;
    case 2: return random_word() & 0xFFFFFFFF;
    case 3: {
        double number = (double)(int32_t)random_word() / 1000;
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        return bits;
    }
    case 4: {
        float numbers[2] = {(float)(int16_t)random_word() / 8, (float)(int32_t)random_word() / 1000};
        uint64_t bits;
        memcpy(&bits, numbers, sizeof bits);
        return bits;
    }
    default: return random_word();
    }
}

typedef struct {
    uint64_t registers[16];
    uint64_t flags;
    uint8_t vectors[16][32];
    uint64_t own_stack;
    uint64_t has_avx;
} Machine;

/* Loads the registers from the machine at MACHINE, executes what is written at `around_code`, and stores them again. */
extern const uint8_t around_begin[], around_code[], around_end[];
__asm__(".pushsection .rodata\n"
        "around_begin:\n"
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, 0x40000288\n"
        ".set at, 0x40000088\n"
        "cmpq $0, 0x40000290; je 1f\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "vmovdqu at, %ymm\\n\n"
        ".set at, at+32\n"
        ".endr\n"
        "jmp 2f\n"
        "1:\n"
        ".set at, 0x40000088\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "movdqu at, %xmm\\n\n"
        ".set at, at+32\n"
        ".endr\n"
        "2: pushq 0x40000080; popfq\n"
        "mov 0x40000000, %rax; mov 0x40000008, %rcx; mov 0x40000010, %rdx; mov 0x40000018, %rbx\n"
        "mov 0x40000020, %rsp; mov 0x40000028, %rbp; mov 0x40000030, %rsi; mov 0x40000038, %rdi\n"
        "mov 0x40000040, %r8; mov 0x40000048, %r9; mov 0x40000050, %r10; mov 0x40000058, %r11\n"
        "mov 0x40000060, %r12; mov 0x40000068, %r13; mov 0x40000070, %r14; mov 0x40000078, %r15\n"
        "around_code:\n"
        ".fill 15, 1, 0x90\n"
        "mov %rax, 0x40000000; mov %rcx, 0x40000008; mov %rdx, 0x40000010; mov %rbx, 0x40000018\n"
        "mov %rsp, 0x40000020; mov %rbp, 0x40000028; mov %rsi, 0x40000030; mov %rdi, 0x40000038\n"
        "mov %r8, 0x40000040; mov %r9, 0x40000048; mov %r10, 0x40000050; mov %r11, 0x40000058\n"
        "mov %r12, 0x40000060; mov %r13, 0x40000068; mov %r14, 0x40000070; mov %r15, 0x40000078\n"
        "mov 0x40000288, %rsp\n"
        "pushfq; popq 0x40000080; cld\n"
        ".set at, 0x40000088\n"
        "cmpq $0, 0x40000290; je 3f\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "vmovdqu %ymm\\n, at\n"
        ".set at, at+32\n"
        ".endr\n"
        "jmp 4f\n"
        "3:\n"
        ".set at, 0x40000088\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "movdqu %xmm\\n, at\n"
        ".set at, at+32\n"
        ".endr\n"
        "4: pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n"
        "around_end:\n"
        ".popsection\n");

/* An instruction at random: any opcode of the maps that are decoded, its operands registers or memory near RSI, RDI. */
static unsigned make(uint8_t *code, bool has_avx) {
    static const uint8_t prefixes[] = {0, 0, 0, 0x66, 0xF3, 0xF2};
    uint8_t modrm = (uint8_t)below(256), *at = code;
    unsigned map = below(5);
    if (below(2))
        modrm |= 0xC0;
    else
        modrm = (uint8_t)((modrm & 0x38) | 0x46 | (modrm & 1));
    bool is_register = modrm >> 6 == 3;
    if (has_avx && below(3) == 0) {
        *at++ = 0xC4;
        *at++ = (uint8_t)(below(2) << 7 | 0x40 | (is_register ? below(2) : 1) << 5 | (1 + below(3)));
        *at++ = (uint8_t)(below(2) << 7 | (below(2) ? 15 : below(16)) << 3 | below(8));
    } else {
        uint8_t prefix = prefixes[below(sizeof prefixes)];
        if (prefix)
            *at++ = prefix;
        if (below(2))
            *at++ = (uint8_t)(0x40 | below(2) << 3 | below(2) << 2 | (is_register ? below(2) : 0));
        if (map > 0)
            *at++ = 0x0F;
        if (map > 2)
            *at++ = map == 3 ? 0x38 : 0x3A;
    }
    do
        *at = (uint8_t)below(256);
    while (*at == 0x64 || *at == 0x65); /* the processor's own segments are elsewhere */
    at++;
    *at++ = modrm;
    if (!is_register && below(2))
        *at++ = (uint8_t)(below(8) << 5);
    while (at < code + 15)
        *at++ = (uint8_t)below(256);
    return 15;
}

/* The flags that the manual defines after an instruction (SDM 1, appendix A, and the descriptions). */
static unsigned defined_flags(const Instruction *i, const Registers *before) {
    unsigned opcode = i->opcode, size = i->opcode & 1 ? i->size : 1;
    if (i->vex || i->map > 1)
        return FLAGS;
    if (i->map == 1) {
        if ((opcode & 0xF7) == 0xA3 || (opcode & 0xF7) == 0xB3 || opcode == 0xBA)
            return CF | ZF;
        if (opcode == 0xBC || opcode == 0xBD)
            return i->repeat ? CF | ZF : ZF;
        if (opcode == 0xAF)
            return CF | OF;
        if (opcode == 0xA4 || opcode == 0xA5 || opcode == 0xAC || opcode == 0xAD) {
            unsigned count = (opcode & 1 ? before->registers[RCX] : i->immediate) & (i->size == 8 ? 63 : 31);
            return count == 0 ? FLAGS : count == 1 ? FLAGS & ~AF : FLAGS & ~(AF | OF);
        }
        return FLAGS;
    }
    if (opcode == 0x69 || opcode == 0x6B)
        return CF | OF;
    if ((opcode & 0xFE) == 0xF6)
        return (i->reg & 7) < 2 ? FLAGS & ~AF : (i->reg & 7) < 4 ? FLAGS : (i->reg & 7) < 6 ? CF | OF : 0;
    if (opcode == 0xC0 || opcode == 0xC1 || (opcode >= 0xD0 && opcode <= 0xD3)) {
        unsigned count = opcode < 0xD0 ? i->immediate & 0xFF : opcode < 0xD2 ? 1 : before->registers[RCX] & 0xFF;
        unsigned operation = i->reg & 7;
        count &= size == 8 ? 63 : 31;
        if (count == 0)
            return FLAGS;
        unsigned known = operation < 4 ? FLAGS : FLAGS & ~AF;
        if (count > 1)
            known &= ~OF;
        if (operation >= 4 && count >= 8 * size)
            known &= ~CF;
        return known;
    }
    if (opcode < 0x40 || opcode == 0x80 || opcode == 0x81 || opcode == 0x83) {
        unsigned operation = opcode < 0x40 ? opcode >> 3 & 7 : i->reg & 7;
        return operation == 1 || operation == 4 || operation == 6 ? FLAGS & ~AF : FLAGS;
    }
    if (opcode == 0x84 || opcode == 0x85 || opcode == 0xA8 || opcode == 0xA9)
        return FLAGS & ~AF;
    return FLAGS;
}

static unsigned flags_of(const Registers *r) {
    return (r->cf ? CF : 0) | (r->pf ? PF : 0) | (r->af ? AF : 0) | (r->zf ? ZF : 0) | (r->sf ? SF : 0) | (r->of ? OF : 0);
}

static uint8_t *map_at(uintptr_t address, size_t size, int protection) {
    void *at = mmap((void *)address, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (at != (void *)address) {
        perror("mmap");
        exit(2);
    }
    return at;
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    state = strtoull(words[1], NULL, 10);
    unsigned long trials = strtoul(words[2], NULL, 10), done = 0, different = 0;
    bool has_avx = words[3][0] == '1', seen[2][4][256] = {{{false}}};
    unsigned forms = 0;
    Machine *machine = (Machine *)map_at(MACHINE, PAGE_BYTES, PROT_READ | PROT_WRITE);
    uint8_t *code = map_at(CODE, PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC);
    uint8_t *data = map_at(DATA, DATA_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE);
    size_t length = (size_t)(around_end - around_begin), hole = (size_t)(around_code - around_begin);
    memcpy(code, around_begin, length);
    Core *core = calloc(1, sizeof *core);
    memory_init(&core->memory, 64);
    for (unsigned page = 0; page < DATA_PAGES; page++)
        memory_map(&core->memory, DATA / PAGE_BYTES + page, DATA / PAGE_BYTES + page, CAN_READ | CAN_WRITE);
    for (unsigned long trial = 0; trial < trials; trial++) {
        uint8_t bytes[15];
        uint64_t *words64 = (uint64_t *)(void *)data;
        Instruction instruction;
        make(bytes, has_avx);
        memory_map(&core->memory, CODE / PAGE_BYTES, CODE / PAGE_BYTES, CAN_READ | CAN_EXECUTE);
        memcpy(memory_page(&core->memory, CODE / PAGE_BYTES)->data + hole, bytes, sizeof bytes);
        Registers *r = &core->r;
        for (unsigned at = 0; at < 16; at++) {
            r->registers[at] = random_value();
            Vector vector = {{0}};
            for (unsigned word = 0; word < (has_avx ? 4 : 2); word++)
                vector.q[word] = random_value();
            r->vectors[at] = vector;
        }
        r->registers[RSI] = DATA + 0x800 + (below(2) ? 0 : below(64));
        r->registers[RDI] = DATA + 0x1800 + (below(2) ? 0 : below(64));
        r->registers[RSP] = DATA + 0x3000;
        r->registers[RBP] = DATA + 0x2F00;
        if (below(2))
            r->registers[RCX] = below(70);
        r->cf = below(2), r->pf = below(2), r->af = below(2), r->zf = below(2), r->sf = below(2), r->of = below(2);
        r->df = 0;
        r->pc = CODE + hole;
        for (unsigned at = 0; at < DATA_PAGES * PAGE_BYTES / 8; at += 1 + below(8))
            words64[at] = random_value();
        for (unsigned page = 0; page < DATA_PAGES; page++)
            memcpy(memory_page(&core->memory, DATA / PAGE_BYTES + page)->data, data + page * PAGE_BYTES, PAGE_BYTES);
        Registers before = *r;
        if (decode(bytes, sizeof bytes, &instruction) != DECODED)
            continue;
        core->limit = core->count + 1000;
        if (run(core, 1, true) != RUNNING || r->pc != CODE + hole + instruction.length || r->df)
            continue;
        instruction = core->decoded[before.pc % DECODED_ENTRIES].instruction; /* it has the address of its operand */
        bool is_cpuid = instruction.map == 1 && instruction.opcode == 0xA2 && !instruction.vex;
        bool is_scan = instruction.map == 1 && (instruction.opcode == 0xBC || instruction.opcode == 0xBD);
        if (is_cpuid || (is_scan && !instruction.repeat && r->zf)) /* undefined: the result of a scan of zero */
            continue;
        bool is_enter = instruction.map == 0 && instruction.opcode == 0xC8;
        if (instruction.lock || (is_enter && (instruction.immediate & 0xFFFF) > 0x1000)) /* it touches the new stack */
            continue;
        /* Vectors in memory must be aligned for most of SSE; the core does not mind. */
        bool is_vector = instruction.map > 1 || (instruction.map == 1 && (instruction.opcode < 0x40 ||
            (instruction.opcode >= 0x50 && instruction.opcode < 0x80) || instruction.opcode == 0xC2 || instruction.opcode == 0xC6 ||
            instruction.opcode >= 0xD0));
        if (is_vector && instruction.has_memory && instruction.address % 32 != 0)
            continue;
        memcpy(machine->registers, before.registers, sizeof machine->registers);
        machine->flags = flags_of(&before) | 2;
        for (unsigned at = 0; at < 16; at++)
            memcpy(machine->vectors[at], before.vectors[at].b, 32);
        machine->has_avx = has_avx;
        memset(code + hole, 0x90, 15);
        memcpy(code + hole, bytes, instruction.length);
        ((void (*)(void))(uintptr_t)CODE)();
        done++;
        forms += !seen[instruction.vex][instruction.map][instruction.opcode];
        seen[instruction.vex][instruction.map][instruction.opcode] = true;
        unsigned known = defined_flags(&instruction, &before);
        const char *what = NULL;
        if (memcmp(machine->registers, r->registers, sizeof machine->registers) != 0)
            what = "registers";
        else if ((machine->flags ^ flags_of(r)) & known)
            what = "flags";
        for (unsigned at = 0; at < 16; at++)
            if (memcmp(machine->vectors[at], r->vectors[at].b, has_avx ? 32 : 16) != 0)
                what = "vectors";
        for (unsigned page = 0; page < DATA_PAGES; page++)
            if (memcmp(memory_page(&core->memory, DATA / PAGE_BYTES + page)->data, data + page * PAGE_BYTES, PAGE_BYTES))
                what = "memory";
        if (what == NULL)
            continue;
        different++;
        if (different > 40)
            continue;
        printf("%s:", what);
        for (unsigned at = 0; at < instruction.length; at++)
            printf(" %02x", bytes[at]);
        for (unsigned at = 0; at < 16; at++)
            if (machine->registers[at] != r->registers[at])
                printf(" r%u %llx, not %llx;", at, (unsigned long long)r->registers[at],
                       (unsigned long long)machine->registers[at]);
        for (unsigned at = 0; at < 16; at++)
            if (memcmp(machine->vectors[at], r->vectors[at].b, 32) != 0)
                printf(" v%u", at);
        printf(" flags %x, not %x\n", flags_of(r), (unsigned)machine->flags);
    }
    fprintf(stderr, "%lu instructions of %u forms\n", done, forms);
    memory_free(&core->memory);
    free(core->decoded);
    free(core);
    return different != 0;
}
