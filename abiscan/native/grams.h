/* The sequences of four bytes that some content has: see grams.c. */

#ifndef ABISCAN_GRAMS_H
#define ABISCAN_GRAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GRAM sizeof(uint32_t)

typedef struct {
    uint8_t *bits; /* one for each hash */
    unsigned width; /* how many bits a hash has */
} Grams;

bool grams_of(Grams *grams, const uint8_t *content, size_t size);
bool may_have(const Grams *grams, const uint8_t *text, size_t size);

#endif
