/* What the files of the AArch64 processor share: see core.h.

   "Arm ARM" in comments is the Arm Architecture Reference Manual for the A-profile (DDI 0487). The general registers
   are the first 31, SP is the last; NZCV are `sf`, `zf`, `cf` and `of`; TPIDR_EL0 is the first of the segments; vectors
   have 16 bytes. */

#ifndef ABISCAN_ARM64_H
#define ABISCAN_ARM64_H

#include "core.h"

#define ZERO 31u /* the number of a register that is read as zero, or of SP */
#define VECTOR_BYTES 16u

/* arm64_integer.c, arm64_branch.c, arm64_memory.c, arm64_structures.c, arm64_float.c, arm64_vector.c: whether the
   instruction is done; if not, core->stopped says why */
bool arm64_immediate(Core *core, uint32_t word);
bool arm64_register(Core *core, uint32_t word);
bool arm64_branch(Core *core, uint32_t word);
bool arm64_memory(Core *core, uint32_t word);
bool arm64_structures(Core *core, uint32_t word);
bool arm64_float(Core *core, uint32_t word);
bool arm64_vector(Core *core, uint32_t word);

/* How numbers become integers: the first four as in instructions. */
typedef enum { TO_EVEN, TO_PLUS, TO_MINUS, TO_ZERO, AWAY } Rounding;

/* arm64_numbers.c: arithmetic of floating-point numbers; false where it is left to others: operands or results that are
   no numbers or do not fit, and what is no such operation */
bool arm64_number_of_two(unsigned operation, bool is_double, uint64_t a, uint64_t b, uint64_t *result);
int arm64_compared(bool is_double, uint64_t a, uint64_t b);
bool arm64_rounded(Rounding mode, bool is_double, uint64_t a, uint64_t *result);
bool arm64_integer_of(Rounding mode, bool is_signed, bool is_wide, bool is_double, uint64_t a, uint64_t *result);
uint64_t arm64_number_of(bool is_signed, bool is_wide, bool is_double, uint64_t a);
bool arm64_converted(bool from_double, uint64_t a, uint64_t *result);
uint64_t arm64_expanded(unsigned coded, bool is_double);

static inline unsigned field(uint32_t word, unsigned low, unsigned count) {
    return word >> low & ((1u << count) - 1);
}

static inline uint64_t low_bits(unsigned count) {
    return count >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
}

/* The number that so many low bits are, with a sign. */
static inline uint64_t extended(uint64_t value, unsigned bits) {
    uint64_t sign = (uint64_t)1 << (bits - 1);
    return ((value & low_bits(bits)) ^ sign) - sign;
}

/* Whether `a` is less than `b`, both with signs. */
static inline bool is_less(uint64_t a, uint64_t b) {
    uint64_t sign = (uint64_t)1 << 63;
    return (a ^ sign) < (b ^ sign);
}

static inline uint64_t register_or_zero(const Core *core, unsigned number) {
    return number == ZERO ? 0 : core->r.registers[number];
}

static inline uint64_t register_or_sp(const Core *core, unsigned number) {
    return core->r.registers[number];
}

static inline void set_register_or_sp(Core *core, unsigned number, uint64_t value, bool is_wide) {
    core->r.registers[number] = is_wide ? value : (uint32_t)value;
}

static inline void set_register_or_none(Core *core, unsigned number, uint64_t value, bool is_wide) {
    if (number != ZERO)
        set_register_or_sp(core, number, value, is_wide);
}

static inline uint64_t get_lane(const Vector *vector, unsigned bytes, unsigned number) {
    uint64_t value = 0;
    memcpy(&value, vector->b + (size_t)bytes * number, bytes); /* as memory is on the hosts that this is built for */
    return value;
}

static inline void set_lane(Vector *vector, unsigned bytes, unsigned number, uint64_t value) {
    memcpy(vector->b + (size_t)bytes * number, &value, bytes);
}

/* Set the low bytes of a vector register, which clears the rest of it. */
static inline void set_vector(Core *core, unsigned number, const void *value, unsigned bytes) {
    Vector made = {{0}};
    memcpy(made.b, value, bytes);
    core->r.vectors[number] = made;
}

/* Whether a condition holds (Arm ARM, C1.2.4). */
static inline bool arm64_holds(const Registers *r, unsigned condition) {
    bool holds = false;
    switch (condition >> 1) {
    case 0: holds = r->zf; break;
    case 1: holds = r->cf; break;
    case 2: holds = r->sf; break;
    case 3: holds = r->of; break;
    case 4: holds = r->cf && !r->zf; break;
    case 5: holds = r->sf == r->of; break;
    case 6: holds = r->sf == r->of && !r->zf; break;
    default: return true; /* both conditions of this pair */
    }
    return holds != (condition & 1);
}

static inline void set_flags(Registers *r, unsigned nzcv) {
    r->sf = nzcv >> 3 & 1;
    r->zf = nzcv >> 2 & 1;
    r->cf = nzcv >> 1 & 1;
    r->of = nzcv & 1;
}

#endif
