/* Tells for most texts that some content does not have them, without searching it: it lacks a sequence of four bytes
   that the text has. */

#include "grams.h"

#include <stdlib.h>
#include <string.h>

#define LEAST_WIDTH 9
#define MOST_WIDTH 26

/* Multiplicative hashing, by the golden ratio (Knuth, The Art of Computer Programming, 6.4). */
static uint32_t hash_at(const uint8_t *at, unsigned width) {
    uint32_t word;
    memcpy(&word, at, sizeof word);
    return (word * 0x9E3779B1u) >> (32 - width);
}

/* Returns false if there is no memory. A source has about a quarter as many different sequences as bytes: there are at
   least four bits for each. */
bool grams_of(Grams *grams, const uint8_t *content, size_t size) {
    unsigned width = LEAST_WIDTH;
    while (width < MOST_WIDTH && (size_t)1 << width < size)
        width++;
    grams->width = width;
    grams->bits = calloc((size_t)1 << (width - 3), 1);
    if (grams->bits == NULL)
        return false;
    for (size_t at = 0; size - at >= GRAM; at++) {
        uint32_t hash = hash_at(content + at, width);
        grams->bits[hash >> 3] |= (uint8_t)(1u << (hash & 7));
    }
    return true;
}

/* Whether the content may have a text: it has all of its sequences. */
bool may_have(const Grams *grams, const uint8_t *text, size_t size) {
    for (size_t at = 0; size >= GRAM && at <= size - GRAM; at++) {
        uint32_t hash = hash_at(text + at, grams->width);
        if ((grams->bits[hash >> 3] >> (hash & 7) & 1) == 0)
            return false;
    }
    return true;
}
