/* Loads and stores of registers, pairs of them, and atomically (Arm ARM, C4.1.94). */

#include "arm64.h"

enum { UNSCALED, POST_INDEX, UNPRIVILEGED, PRE_INDEX };

/* Whether bytes can be read, element by element: the first one that cannot be is the one that faults. */
static bool load_element(Core *core, uint64_t address, void *value, unsigned size) {
    return size > 8 ? load_vector(core, address, value, size) : load(core, address, value, size);
}

static bool can_store_element(Core *core, uint64_t address, unsigned size) {
    return can_store(core, address, size < 8 ? size : 8) && (size <= 8 || can_store(core, address + 8, 8));
}

static void put_register(Core *core, unsigned number, uint64_t value, unsigned size, unsigned extended_to) {
    if (extended_to)
        value = extended(value, 8 * size);
    set_register_or_none(core, number, value, extended_to != 4);
}

/* A load or store of one register at an address: `size` and `opc` as they are in the instruction. */
static bool transfer(Core *core, uint32_t word, uint64_t address) {
    unsigned number = field(word, 0, 5), size = 1u << (word >> 30), operation = field(word, 22, 2);
    if (field(word, 26, 1)) {
        uint8_t value[VECTOR_BYTES];
        if (operation & 2)
            size = VECTOR_BYTES; /* size is 0, as `is_transfer` says */
        if (!(operation & 1))
            return size > 8 ? store_vector(core, address, core->r.vectors[number].b, size)
                            : store(core, address, core->r.vectors[number].b, size);
        if (!load_element(core, address, value, size))
            return false;
        set_vector(core, number, value, size);
        return true;
    }
    uint64_t value = operation == 0 ? register_or_zero(core, number) : 0;
    if (operation == 0)
        return store(core, address, &value, size);
    if (!load(core, address, &value, size))
        return false;
    put_register(core, number, value, size, operation == 1 ? 0 : operation == 2 ? 8 : 4);
    return true;
}

static bool is_prefetch(uint32_t word) {
    return word >> 30 == 3 && !field(word, 26, 1) && field(word, 22, 2) == 2;
}

static bool is_transfer(uint32_t word) {
    unsigned size = word >> 30, operation = field(word, 22, 2);
    if (field(word, 26, 1))
        return !(operation & 2) || size == 0;
    return operation < 2 || (operation == 2 ? size < 3 : size < 2);
}

/* Whether the register that is moved is also the base that is written: what becomes of it is not told. */
static bool clashes(uint32_t word, unsigned number) {
    return !field(word, 26, 1) && number == field(word, 5, 5) && number != ZERO;
}

static bool of_index(Core *core, uint32_t word) {
    unsigned base = field(word, 5, 5), mode = field(word, 10, 2);
    uint64_t before = register_or_sp(core, base), after = before + extended(field(word, 12, 9), 9);
    if (mode == UNPRIVILEGED)
        return unknown(core);
    if (mode == UNSCALED)
        return is_prefetch(word) || (is_transfer(word) ? transfer(core, word, after) : unknown(core));
    if (!is_transfer(word) || clashes(word, field(word, 0, 5)))
        return unknown(core);
    if (!transfer(core, word, mode == POST_INDEX ? before : after))
        return false;
    core->r.registers[base] = after;
    return true;
}

static unsigned scale_of(uint32_t word) {
    return field(word, 26, 1) && field(word, 23, 1) ? 4 : word >> 30;
}

static bool of_register_offset(Core *core, uint32_t word) {
    unsigned option = field(word, 13, 3), by = field(word, 12, 1) ? scale_of(word) : 0;
    uint64_t offset = register_or_zero(core, field(word, 16, 5));
    if (!(option & 2) || !(is_transfer(word) || is_prefetch(word)))
        return unknown(core);
    if (!(option & 1))
        offset = option & 4 ? extended(offset, 32) : (uint32_t)offset;
    return is_prefetch(word) || transfer(core, word, register_or_sp(core, field(word, 5, 5)) + (offset << by));
}

static bool of_unsigned_offset(Core *core, uint32_t word) {
    if (is_prefetch(word))
        return true;
    if (!is_transfer(word))
        return unknown(core);
    uint64_t offset = (uint64_t)field(word, 10, 12) << scale_of(word);
    return transfer(core, word, register_or_sp(core, field(word, 5, 5)) + offset);
}

static bool of_literal(Core *core, uint32_t word) {
    unsigned kind = word >> 30, number = field(word, 0, 5), size = kind == 1 ? 8 : 4;
    uint64_t address = core->r.pc + extended((uint64_t)field(word, 5, 19) << 2, 21), value = 0;
    uint8_t bytes[VECTOR_BYTES];
    if (kind == 3)
        return field(word, 26, 1) ? unknown(core) : true; /* prfm */
    if (field(word, 26, 1)) {
        size = 4u << kind;
        if (!load_element(core, address, bytes, size))
            return false;
        set_vector(core, number, bytes, size);
        return true;
    }
    if (!load(core, address, &value, size))
        return false;
    put_register(core, number, value, size, kind == 2 ? 8 : 0);
    return true;
}

static bool load_pair(Core *core, uint32_t word, uint64_t address, unsigned size) {
    unsigned first = field(word, 0, 5), second = field(word, 10, 5);
    uint8_t values[2][VECTOR_BYTES] = {{0}};
    if (!load_element(core, address, values[0], size) || !load_element(core, address + size, values[1], size))
        return false;
    if (field(word, 26, 1)) {
        set_vector(core, first, values[0], size);
        set_vector(core, second, values[1], size);
        return true;
    }
    unsigned extended_to = word >> 30 == 1 ? 8 : 0;
    for (unsigned at = 0; at < 2; at++) {
        uint64_t value;
        memcpy(&value, values[at], sizeof value);
        put_register(core, at ? second : first, value, size, extended_to);
    }
    return true;
}

static bool store_pair(Core *core, uint32_t word, uint64_t address, unsigned size) {
    uint8_t values[2 * VECTOR_BYTES];
    for (unsigned at = 0; at < 2; at++) {
        unsigned number = field(word, at ? 10 : 0, 5);
        uint64_t value = register_or_zero(core, number);
        const void *from = field(word, 26, 1) ? (const void *)core->r.vectors[number].b : (const void *)&value;
        memcpy(values + (size_t)at * size, from, size);
    }
    if (!can_store_element(core, address, size) || !can_store_element(core, address + size, size))
        return false;
    return store(core, address, values, 2 * size);
}

static bool of_pair(Core *core, uint32_t word) {
    bool is_vector = field(word, 26, 1), loads = field(word, 22, 1);
    unsigned kind = word >> 30, mode = field(word, 23, 2), base = field(word, 5, 5);
    unsigned first = field(word, 0, 5), second = field(word, 10, 5), size = is_vector ? 4u << kind : kind == 2 ? 8 : 4;
    bool writes_back = mode & 1, is_word = !is_vector && kind == 1;
    if (kind == 3 || (is_word && (!loads || mode == 0)))
        return unknown(core);
    if ((loads && first == second) || (writes_back && (clashes(word, first) || clashes(word, second))))
        return unknown(core);
    uint64_t before = register_or_sp(core, base), after = before + extended(field(word, 15, 7), 7) * size;
    uint64_t address = mode == POST_INDEX ? before : after;
    if (!(loads ? load_pair(core, word, address, size) : store_pair(core, word, address, size)))
        return false;
    if (writes_back)
        core->r.registers[base] = after;
    return true;
}

/* Loads that watch what they load, and stores that store if nothing was stored there since (Arm ARM, B2.10): nothing
   else runs here that could. */
static bool exclusive(Core *core, uint32_t word) {
    bool is_pair = field(word, 21, 1);
    unsigned size = 1u << (word >> 30), first = field(word, 0, 5), second = field(word, 10, 5);
    unsigned status = field(word, 16, 5), all = is_pair ? 2 * size : size, base = field(word, 5, 5);
    uint64_t address = register_or_sp(core, base), one = 0, other = 0;
    if ((!is_pair && second != ZERO) || address % all != 0)
        return unknown(core);
    if (field(word, 22, 1)) {
        if (status != ZERO || (is_pair && first == second))
            return unknown(core);
        if (!load(core, address, &one, size) || (is_pair && !load(core, address + size, &other, size)))
            return false;
        set_register_or_none(core, first, one, true);
        if (is_pair)
            set_register_or_none(core, second, other, true);
        core->monitored = all;
        core->monitor = address;
        return true;
    }
    if (status == first || (is_pair && status == second) || (status == base && base != ZERO))
        return unknown(core);
    bool passes = core->monitored == all && core->monitor == address;
    one = register_or_zero(core, first), other = register_or_zero(core, second);
    if (passes && is_pair && !can_store(core, address, all))
        return false;
    if (passes && !store(core, address, &one, size))
        return false;
    if (passes && is_pair && !store(core, address + size, &other, size))
        return false;
    core->monitored = 0;
    set_register_or_none(core, status, !passes, false);
    return true;
}

/* CAS: the first register is what is expected, and becomes what was there; the other is what is stored. */
static bool compare_and_swap(Core *core, uint32_t word) {
    unsigned size = 1u << (word >> 30), expected = field(word, 16, 5);
    uint64_t address = register_or_sp(core, field(word, 5, 5)), before = 0, value = register_or_zero(core, field(word, 0, 5));
    if (field(word, 10, 5) != ZERO || address % size != 0)
        return unknown(core);
    if (!load(core, address, &before, size))
        return false;
    bool is_equal = before == (register_or_zero(core, expected) & low_bits(8 * size));
    if (is_equal && !store(core, address, &value, size))
        return false;
    set_register_or_none(core, expected, before, true);
    return true;
}

/* What is loaded or stored in an order that others see: LDAR, STLR. */
static bool in_order(Core *core, uint32_t word) {
    unsigned size = 1u << (word >> 30), number = field(word, 0, 5);
    uint64_t address = register_or_sp(core, field(word, 5, 5)), value = 0;
    if (!field(word, 15, 1) || field(word, 16, 5) != ZERO || field(word, 10, 5) != ZERO || address % size != 0)
        return unknown(core);
    if (!field(word, 22, 1)) {
        value = register_or_zero(core, number);
        return store(core, address, &value, size);
    }
    if (!load(core, address, &value, size))
        return false;
    set_register_or_none(core, number, value, true);
    return true;
}

static bool exclusive_or_ordered(Core *core, uint32_t word) {
    switch (field(word, 23, 1) << 1 | field(word, 21, 1)) {
    case 0: return exclusive(core, word);
    case 1: return word >> 31 ? exclusive(core, word) : unknown(core);
    case 2: return in_order(core, word);
    default: return compare_and_swap(core, word);
    }
}

static bool atomic_result(unsigned operation, unsigned bits, uint64_t before, uint64_t operand, uint64_t *result) {
    bool is_less_signed = is_less(extended(before, bits), extended(operand, bits));
    switch (operation) {
    case 0: *result = before + operand; return true;
    case 1: *result = before & ~operand; return true;
    case 2: *result = before ^ operand; return true;
    case 3: *result = before | operand; return true;
    case 4: *result = is_less_signed ? operand : before; return true;
    case 5: *result = is_less_signed ? before : operand; return true;
    case 6: *result = before < operand ? operand : before; return true;
    case 7: *result = before < operand ? before : operand; return true;
    case 8: *result = operand; return true; /* swp */
    default: return false;
    }
}

/* LDADD and the like, SWP; LDAPR. */
static bool atomic(Core *core, uint32_t word) {
    unsigned size = 1u << (word >> 30), number = field(word, 0, 5), operation = field(word, 12, 4);
    uint64_t address = register_or_sp(core, field(word, 5, 5)), before = 0, after = 0;
    uint64_t operand = register_or_zero(core, field(word, 16, 5)) & low_bits(8 * size);
    bool only_loads = (word & 0x3FFFFC00u) == 0x38BFC000u;
    if (field(word, 26, 1) || address % size != 0 || (!only_loads && !atomic_result(operation, 8 * size, 0, 0, &after)))
        return unknown(core);
    if (!load(core, address, &before, size))
        return false;
    if (!only_loads) {
        atomic_result(operation, 8 * size, before, operand, &after);
        if (!store(core, address, &after, size))
            return false;
    }
    set_register_or_none(core, number, before, true);
    return true;
}

bool arm64_memory(Core *core, uint32_t word) {
    switch (word & 0x3B000000u) {
    case 0x08000000u: return field(word, 26, 1) ? arm64_structures(core, word) : exclusive_or_ordered(core, word);
    case 0x09000000u: return field(word, 26, 1) ? arm64_structures(core, word) : unknown(core);
    case 0x18000000u: return of_literal(core, word);
    case 0x28000000u:
    case 0x29000000u: return of_pair(core, word);
    case 0x39000000u: return of_unsigned_offset(core, word);
    case 0x38000000u:
        if (!field(word, 21, 1))
            return of_index(core, word);
        if (field(word, 10, 2) == 0)
            return atomic(core, word);
        return field(word, 10, 2) == 2 ? of_register_offset(core, word) : unknown(core);
    default: return unknown(core);
    }
}
