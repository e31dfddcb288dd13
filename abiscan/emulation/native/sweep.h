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

bool sweep(const uint8_t *code, size_t available, Swept *result);

#endif
