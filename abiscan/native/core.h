/* A processor that runs code which is not trusted: its state, and what the other files do to it.

   Nothing of the code runs on the host's processor, and all of its accesses to memory go through the page table here.
   It is one of x86-64, or of AArch64 (arm64.h). "SDM" in comments is the Intel 64 and IA-32 Architectures Software
   Developer's Manual. */

#ifndef ABISCAN_CORE_H
#define ABISCAN_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PAGE_SHIFT 12
#define PAGE_BYTES 4096u
#define PAGE_MASK 4095u
#define MAX_INSTRUCTION 15
#define MAX_REGIONS 64
#define CACHE_ENTRIES 256u
#define DECODED_ENTRIES 4096u
#define FILTER_BITS 65536u
#define MAX_EXTENSIONS (1u << 20)

/* Permissions of memory. */
enum { CAN_READ = 1, CAN_WRITE = 2, CAN_EXECUTE = 4 };

/* Why execution stopped; the numbers are those of abiscan.emulation.processor.Stopped. */
typedef enum {
    RUNNING = 0,
    AT_LIMIT = 1,
    AT_BREAKPOINT = 2,
    NOT_CODE = 3,
    READ_UNMAPPED = 4,
    WRITE_UNMAPPED = 5,
    WRITE_FORBIDDEN = 6,
    CODE_CHANGED = 7,
    NO_MEMORY = 8,
    DIVISION = 9,
    SYSTEM_CALL = 10,
    UNKNOWN = 11,
    READ_FORBIDDEN = 13,
} Stopped;

typedef struct {
    uint64_t number;
    uint8_t permissions;
    uint8_t *executed; /* a bit for each byte of an instruction that was executed; NULL before the first */
    uint8_t *guarded;  /* a bit for each byte that may not be accessed; NULL before the first */
    uint8_t data[PAGE_BYTES];
} Page;

/* Memory that is zero until something is written there. */
typedef struct {
    uint64_t first, last; /* numbers of pages, inclusive */
    uint8_t permissions;
} Region;

typedef struct {
    uint64_t tag; /* the number of the page, plus one; 0 is none */
    uint8_t *data;
} CacheEntry;

typedef struct {
    Page **slots; /* by the number of the page, open addressing */
    size_t capacity, used;
    size_t most_pages;
    Region regions[MAX_REGIONS];
    size_t region_count;
    CacheEntry readable[CACHE_ENTRIES];
    CacheEntry writable[CACHE_ENTRIES];
    Page *code; /* the page of the instruction that was executed last */
    uint64_t changes; /* how often pages were mapped or unmapped */
} Memory;

typedef union {
    uint8_t b[64];
    uint16_t w[32];
    uint32_t d[16];
    uint64_t q[8];
    float f[16];
    double g[8];
} Vector;

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 };

typedef struct {
    uint64_t registers[32]; /* x86-64 has 16 */
    uint64_t pc;
    uint64_t segments[2]; /* the bases of FS and GS */
    uint8_t cf, pf, af, zf, sf, of, df;
    Vector vectors[32];
} Registers;

/* An instruction, decoded as far as all of them are alike (SDM 2A, chapter 2). */
typedef struct {
    uint8_t length;
    uint8_t map;    /* 0: one byte; 1: 0F; 2: 0F 38; 3: 0F 3A */
    uint8_t opcode;
    uint8_t size;   /* of an operand that is no byte: 2, 4 or 8 */
    bool operand16, wide, has_rex, lock; /* 66, REX.W, any REX, F0 */
    uint8_t repeat;                      /* 0, F2 or F3 */
    uint8_t mode, reg, rm;               /* of ModRM, with the bits of REX */
    bool has_memory;
    uint8_t base, index, scale; /* of the operand in memory: numbers of registers, or NO_REGISTER; a number of bits */
    bool is_relative;           /* it is behind the instruction */
    int8_t segment;             /* -1, or which of those that have a base */
    uint64_t displacement;
    uint64_t address; /* of it, once it is executed */
    uint64_t immediate; /* sign-extended */
    bool vex;
    uint8_t second; /* VEX.vvvv */
    uint8_t bytes;  /* of a vector: 16 or 32 */
} Instruction;

enum { NO_REGISTER = 0xFF };

/* What is at an address in memory: an instruction that was marked as executed, which nothing can change. */
typedef struct {
    uint64_t pc, changes; /* those of the memory since when it holds, plus one; 0 is none */
    Instruction instruction;
} DecodedInstruction;

typedef struct {
    bool is_arm64;
    Registers r;
    Memory memory;
    uint64_t count;   /* instructions executed; one whose access faulted counts each time */
    uint64_t limit;   /* of the count */
    uint64_t faults;  /* how often an access that was counted faulted */
    uint64_t next;    /* where execution goes on after the instruction */
    Stopped stopped;
    uint64_t address; /* of the access that stopped it */
    uint64_t *breakpoints;
    size_t breakpoint_count, breakpoint_room;
    uint8_t filter[FILTER_BITS / 8]; /* which addresses may have a breakpoint */
    uint64_t *extensions; /* where instructions were executed that not every processor has: each place once */
    size_t extension_count, extension_room;
    DecodedInstruction *decoded; /* by the last bits of the address; NULL before the first */
    uint64_t monitor;   /* of AArch64: where an exclusive load was, */
    unsigned monitored; /* and of how many bytes; 0 if a store there does not pass */
} Core;

/* memory.c */
void memory_init(Memory *memory, size_t most_pages);
void memory_free(Memory *memory);
bool memory_map(Memory *memory, uint64_t first, uint64_t last, uint8_t permissions);
bool memory_unmap(Memory *memory, uint64_t first, uint64_t last);
Page *memory_page(const Memory *memory, uint64_t number);
uint8_t memory_permissions(const Memory *memory, uint64_t number);
const uint8_t *memory_peek(Memory *memory, uint64_t number);
Page *memory_make(Memory *memory, uint64_t number, Stopped *stopped);
bool memory_was_executed(const Page *page, unsigned offset, size_t size);
bool memory_guard(Memory *memory, uint64_t address, uint64_t size, bool guarded);
bool memory_mark_executed(Memory *memory, Page *page, unsigned offset, unsigned size, bool *is_first);
bool load_slowly(Core *core, uint64_t address, void *value, unsigned size);
bool store_slowly(Core *core, uint64_t address, const void *value, unsigned size);
bool can_store(Core *core, uint64_t address, unsigned size);
bool load_vector(Core *core, uint64_t address, void *value, unsigned size);
bool store_vector(Core *core, uint64_t address, const void *value, unsigned size);

/* decode.c */
typedef enum { DECODED, TOO_SHORT, UNDECODED } Decoded;
Decoded decode(const uint8_t *code, size_t available, Instruction *instruction);

/* Whether code begins with an instruction that not every processor of the architecture may have: rather too often. */
bool is_extension(const uint8_t *code, size_t available);

/* lanes.c: what vectors become; false where the opcode is none of those */
bool lanes_combine(uint8_t opcode, Vector *result, const Vector *a, const Vector *b, unsigned bytes);
bool lanes_shift(uint8_t opcode, unsigned operation, Vector *value, uint64_t count, unsigned bytes);
void lanes_shuffle_dwords(Vector *result, const Vector *a, unsigned order, unsigned bytes);
void lanes_shuffle_floats(Vector *result, const Vector *a, const Vector *b, unsigned order, unsigned bytes);
void lanes_align(Vector *result, const Vector *high, const Vector *low, unsigned by, unsigned bytes);

/* scalars.c: arithmetic on numbers; false where it is left to others */
bool scalar_arithmetic(uint8_t opcode, bool is_double, const Vector *a, const Vector *b, unsigned lane, Vector *result);
bool truncated(const Vector *value, bool is_double, bool is_wide, uint64_t *result);
bool is_number(const Vector *value, bool is_double, unsigned lane);
bool is_finite(const Vector *value, bool is_double, unsigned lane);

/* integer.c, vector.c, avx.c: whether the instruction is done; if not, core->stopped says why */
bool execute_integer(Core *core, const Instruction *instruction);
bool execute_vector(Core *core, const Instruction *instruction);
bool execute_avx(Core *core, const Instruction *instruction);

/* arm64_decode.c */
bool arm64_execute(Core *core, uint32_t word);
bool arm64_is_extension(uint32_t word);

/* run.c */
Stopped run(Core *core, uint64_t instructions, bool ignore_breakpoint);
bool add_breakpoint(Core *core, uint64_t address);
void remove_breakpoint(Core *core, uint64_t address);
bool has_breakpoint(const Core *core, uint64_t address);

static inline bool stop(Core *core, Stopped why, uint64_t address) {
    core->stopped = why;
    core->address = address;
    return false;
}

static inline bool unknown(Core *core) {
    return stop(core, UNKNOWN, 0);
}

/* `size` bytes at `address`; whatever was there before stays in `value` if they cannot be read. */
static inline bool load(Core *core, uint64_t address, void *value, unsigned size) {
    const CacheEntry *entry = &core->memory.readable[(address >> PAGE_SHIFT) % CACHE_ENTRIES];
    unsigned offset = (unsigned)(address & PAGE_MASK);
    if (entry->tag == (address >> PAGE_SHIFT) + 1 && offset + size <= PAGE_BYTES) {
        memcpy(value, entry->data + offset, size);
        return true;
    }
    return load_slowly(core, address, value, size);
}

/* Store `size` bytes at `address`: all of them, or none. */
static inline bool store(Core *core, uint64_t address, const void *value, unsigned size) {
    const CacheEntry *entry = &core->memory.writable[(address >> PAGE_SHIFT) % CACHE_ENTRIES];
    unsigned offset = (unsigned)(address & PAGE_MASK);
    if (entry->tag == (address >> PAGE_SHIFT) + 1 && offset + size <= PAGE_BYTES) {
        memcpy(entry->data + offset, value, size);
        return true;
    }
    return store_slowly(core, address, value, size);
}

#endif
