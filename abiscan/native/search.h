/* Searches in code. */

#ifndef ABISCAN_SEARCH_H
#define ABISCAN_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CALL_BYTES 5

size_t find_call(const uint8_t *code, size_t size, size_t from, uint64_t address, const uint64_t *targets, size_t count);
size_t find_branch(const uint8_t *code, size_t size, size_t from, uint64_t address, const uint64_t *targets,
                   size_t count);
size_t find_displacement(const uint8_t *code, size_t size, size_t from, uint64_t address, const uint64_t *bounds,
                         size_t count);
size_t find_text(const uint8_t *content, size_t size, size_t from, size_t least, size_t most, size_t *length);
bool begins_with(const uint8_t *text, const uint64_t *sorted, size_t count);

#endif
