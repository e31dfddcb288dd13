/* Branches and what concerns the system (Arm ARM, C4.1.93). */

#include "arm64.h"

enum { CLREX = 2, DSB = 4, DMB, ISB };

static bool branch_by(Core *core, uint64_t distance) {
    core->next = core->r.pc + distance;
    return true;
}

static bool branch_to_register(Core *core, uint32_t word) {
    uint64_t target = register_or_zero(core, field(word, 5, 5));
    switch (word & 0xFFFFFC1Fu) {
    case 0xD61F0000u: /* br */
    case 0xD65F0000u: /* ret */ break;
    case 0xD63F0000u: /* blr */ core->r.registers[30] = core->r.pc + 4; break;
    default: return unknown(core);
    }
    core->next = target;
    return true;
}

/* Hints do nothing: there is no other thread to wait for, and pointers are not signed. Nor is there anything for a
   barrier to put in order. */
static bool hint_or_barrier(Core *core, uint32_t word) {
    if ((word & 0xFFFFF01Fu) == 0xD503201Fu)
        return true;
    if ((word & 0xFFFFF01Fu) != 0xD503301Fu)
        return unknown(core);
    switch (field(word, 5, 3)) {
    case CLREX: core->monitored = 0; return true;
    case DSB:
    case DMB:
    case ISB: return true;
    default: return unknown(core);
    }
}

static bool thread_pointer(Core *core, uint32_t word) {
    unsigned number = field(word, 0, 5);
    if (field(word, 21, 1))
        set_register_or_none(core, number, core->r.segments[0], true);
    else
        core->r.segments[0] = register_or_zero(core, number);
    return true;
}

static bool system_of(Core *core, uint32_t word) {
    if ((word & 0xFFE0001Fu) == 0xD4000001u) /* svc */
        return stop(core, SYSTEM_CALL, 0);
    if ((word & 0xFFDFFFE0u) == 0xD51BD040u) /* mrs and msr of TPIDR_EL0 */
        return thread_pointer(core, word);
    return hint_or_barrier(core, word);
}

bool arm64_branch(Core *core, uint32_t word) {
    const Registers *r = &core->r;
    uint64_t near = extended((uint64_t)field(word, 5, 19) << 2, 21), value = register_or_zero(core, field(word, 0, 5));
    bool is_taken = false;
    switch (word >> 29) {
    case 0:
    case 4: /* b and bl */
        if (word >> 31)
            core->r.registers[30] = r->pc + 4;
        return branch_by(core, extended((uint64_t)field(word, 0, 26) << 2, 28));
    case 1:
    case 5:
        if (field(word, 25, 1)) { /* tbz and tbnz */
            unsigned bit = field(word, 31, 1) << 5 | field(word, 19, 5);
            is_taken = (value >> bit & 1) == field(word, 24, 1);
            near = extended((uint64_t)field(word, 5, 14) << 2, 16);
        } else { /* cbz and cbnz */
            is_taken = ((word >> 31 ? value : (uint32_t)value) != 0) == field(word, 24, 1);
        }
        return is_taken ? branch_by(core, near) : true;
    case 2: /* b.cond */
        if ((word & 0xFF000010u) != 0x54000000u)
            return unknown(core);
        return arm64_holds(r, field(word, 0, 4)) ? branch_by(core, near) : true;
    case 6: return field(word, 25, 1) ? branch_to_register(core, word) : system_of(core, word);
    default: return unknown(core);
    }
}
