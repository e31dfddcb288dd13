/* How long instructions are, and what data they name: see measure.c. */

#ifndef ABISCAN_MEASURE_H
#define ABISCAN_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { MEASURED, SHORT_OF, UNMEASURED, NO_INSTRUCTION } Measured;

/* What an instruction does with a place that it names relative to itself. */
typedef enum { NO_DATA, DATA, NOT_TOLD } Use;

typedef struct {
    uint8_t length;
    bool branches;        /* a call, a jump or a return */
    Use use;
    uint8_t size;         /* of what is written there, or whose address is taken; 0 for a word that is read */
    int32_t displacement; /* of the place, from the end of the instruction */
} Measure;

Measured measure(const uint8_t *code, size_t available, Measure *result);

#endif
