/* How long instructions are, and what they name: see sweep.c. */

#ifndef ABISCAN_SWEEP_H
#define ABISCAN_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint8_t length;
    bool asks;            /* cpuid */
    bool leads;           /* a call or a jump to another place */
    bool names_data;      /* a place in memory, relative to itself */
    int32_t displacement; /* of either, from the end of the instruction */
} Swept;

#define KINDS 509u

/* The kinds of instructions that were met, as far as there is room. */
typedef struct {
    uint64_t kinds[KINDS];
} SeenKinds;

/* Whether an instruction needs what one before it did. */
bool is_repeated(SeenKinds *seen, const uint8_t *code, size_t length);

bool sweep(const uint8_t *code, size_t available, Swept *result);

#endif
