/* The registers by their names: see registers.c. */

#ifndef ABISCAN_REGISTERS_H
#define ABISCAN_REGISTERS_H

#include "core.h"

/* Where a register, or a part of one, is. */
typedef struct {
    uint8_t *bytes;
    unsigned size;
    unsigned cleared; /* bytes behind those, which a write clears */
    bool is_flag;
} Place;

bool find_register(Core *core, const char *name, Place *place);

#endif
