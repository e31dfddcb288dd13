/* Random numbers (SplitMix64) that are the same on every machine. */

#pragma once

#include <stdint.h>

static uint64_t state = 1;

static uint64_t random_word(void) {
    state += 0x9E3779B97F4A7C15u;
    uint64_t x = state;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static unsigned below(unsigned limit) {
    return (unsigned)(random_word() % limit);
}
