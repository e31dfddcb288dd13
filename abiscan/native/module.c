/* The processor as a Python type, for all versions of CPython from 3.10 on. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#if PY_VERSION_HEX >= 0x030D0000
/* What older headers call these: since 3.13 they are the same, but in older Pythons the plain ones refuse "y#". */
PyAPI_FUNC(int) _PyArg_Parse_SizeT(PyObject *, const char *, ...);
PyAPI_FUNC(int) _PyArg_ParseTuple_SizeT(PyObject *, const char *, ...);
#define PyArg_Parse _PyArg_Parse_SizeT
#define PyArg_ParseTuple _PyArg_ParseTuple_SizeT
#endif

/* Not Py_RETURN_NONE: since 3.12 it counts no reference, and in older Pythons None would go. */
#undef Py_RETURN_NONE
#undef Py_RETURN_TRUE
#undef Py_RETURN_FALSE

#include "core.h"
#include "grams.h"
#include "links.h"
#include "measure.h"
#include "registers.h"
#include "search.h"
#include "sweep.h"

#include <stdlib.h>

#define MOST_GUARDED (1 << 28) /* bytes at once */

typedef struct {
    PyObject_HEAD
    PyObject *access_error;
    Core *core;
} Processor;

static Core *core_of(PyObject *self) {
    return ((Processor *)self)->core;
}

static PyObject *processor_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    const char *architecture = NULL;
    Py_ssize_t most_pages = 0;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "sn:Core", &architecture, &most_pages))
        return NULL;
    PyObject *interface = PyImport_ImportModule("abiscan.emulation.processor");
    PyObject *access_error = interface == NULL ? NULL : PyObject_GetAttrString(interface, "AccessError");
    Py_XDECREF(interface);
    if (access_error == NULL)
        return NULL;
    Processor *self = (Processor *)allocate(type, 0);
    if (self == NULL) {
        Py_DECREF(access_error);
        return NULL;
    }
    self->access_error = access_error;
    self->core = calloc(1, sizeof *self->core);
    if (self->core == NULL || most_pages < 0) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    memory_init(&self->core->memory, (size_t)most_pages);
    self->core->is_arm64 = strcmp(architecture, "aarch64") == 0;
    return (PyObject *)self;
}

static void processor_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    Core *core = core_of(self);
    if (core != NULL) {
        memory_free(&core->memory);
        free(core->breakpoints);
        free(core->decoded);
        free(core->extensions);
        free(core);
    }
    Py_XDECREF(((Processor *)self)->access_error);
    release(self);
    Py_DECREF(type);
}

/* Memory */

static bool to_word(PyObject *value, uint64_t *word) {
    *word = PyLong_AsUnsignedLongLong(value);
    return !(*word == (uint64_t)-1 && PyErr_Occurred());
}

static PyObject *fails(PyObject *self, const char *what, uint64_t address) {
    PyObject *number = PyLong_FromUnsignedLongLong(address), *text = number ? PyNumber_ToBase(number, 16) : NULL;
    if (text != NULL)
        PyErr_Format(((Processor *)self)->access_error, "%s %U", what, text);
    Py_XDECREF(number);
    Py_XDECREF(text);
    return NULL;
}

static bool has_arguments(Py_ssize_t count, Py_ssize_t wanted) {
    if (count != wanted)
        PyErr_Format(PyExc_TypeError, "takes %zd arguments", wanted);
    return count == wanted;
}

/* Whole pages: their first and last number. */
static bool to_pages(PyObject *arguments, const char *format, uint64_t *first, uint64_t *last, unsigned *permissions) {
    PyObject *where = NULL, *much = NULL;
    uint64_t address = 0, size = 0;
    if (!PyArg_ParseTuple(arguments, format, &where, &much, permissions))
        return false;
    if (!to_word(where, &address) || !to_word(much, &size))
        return false;
    if (address % PAGE_BYTES || size % PAGE_BYTES || size == 0 || address + (size - 1) < address) {
        PyErr_SetString(PyExc_ValueError, "not a range of pages");
        return false;
    }
    *first = address >> PAGE_SHIFT;
    *last = (address + (size - 1)) >> PAGE_SHIFT;
    return true;
}

static PyObject *processor_map(PyObject *self, PyObject *arguments) {
    uint64_t first = 0, last = 0;
    unsigned permissions = 0;
    if (!to_pages(arguments, "OOI:mem_map", &first, &last, &permissions))
        return NULL;
    if (!memory_map(&core_of(self)->memory, first, last, (uint8_t)(permissions & 7)))
        return fails(self, "no memory to map", first << PAGE_SHIFT);
    return Py_NewRef(Py_None);
}

static PyObject *processor_unmap(PyObject *self, PyObject *arguments) {
    uint64_t first = 0, last = 0;
    unsigned permissions = 0;
    if (!to_pages(arguments, "OO|I:mem_unmap", &first, &last, &permissions))
        return NULL;
    if (!memory_unmap(&core_of(self)->memory, first, last))
        return fails(self, "no memory to unmap", first << PAGE_SHIFT);
    return Py_NewRef(Py_None);
}

/* Whether so many bytes are mapped; they may go around the end of the address space, which never is. */
static bool is_range(const Core *core, uint64_t address, uint64_t size) {
    if (size == 0)
        return true;
    if (address + (size - 1) < address)
        return false;
    for (uint64_t number = address >> PAGE_SHIFT; number <= (address + (size - 1)) >> PAGE_SHIFT; number++)
        if (memory_permissions(&core->memory, number) == 0)
            return false;
    return true;
}

/* An address, and how much of what is there. */
static bool to_part(PyObject *const *arguments, Py_ssize_t count, uint64_t *address, Py_ssize_t *much) {
    if (!has_arguments(count, 2) || !to_word(arguments[0], address))
        return false;
    *much = PyLong_AsSsize_t(arguments[1]);
    if (*much == -1 && PyErr_Occurred())
        return false;
    if (*much < 0)
        PyErr_SetString(PyExc_ValueError, "negative size");
    return *much >= 0;
}

static PyObject *processor_read(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    Py_ssize_t size = 0;
    uint64_t address = 0;
    Core *core = core_of(self);
    if (!to_part(arguments, count, &address, &size))
        return NULL;
    unsigned offset = (unsigned)(address & PAGE_MASK);
    if (size > 0 && (size_t)size <= PAGE_BYTES - offset) {
        const uint8_t *data = memory_peek(&core->memory, address >> PAGE_SHIFT);
        if (data == NULL)
            return fails(self, "nothing is mapped at", address);
        return PyBytes_FromStringAndSize((const char *)data + offset, size);
    }
    if (!is_range(core, address, (uint64_t)size))
        return fails(self, "nothing is mapped at", address);
    PyObject *result = PyBytes_FromStringAndSize(NULL, size);
    if (result == NULL)
        return NULL;
    char *to = PyBytes_AsString(result);
    for (Py_ssize_t done = 0; done < size;) {
        Py_ssize_t part = (Py_ssize_t)(PAGE_BYTES - ((address + (uint64_t)done) & PAGE_MASK));
        if (part > size - done)
            part = size - done;
        const uint8_t *data = memory_peek(&core->memory, (address + (uint64_t)done) >> PAGE_SHIFT);
        if (data == NULL) {
            Py_DECREF(result);
            return fails(self, "nothing is mapped at", address);
        }
        memcpy(to + done, data + ((address + (uint64_t)done) & PAGE_MASK), (size_t)part);
        done += part;
    }
    return result;
}

static PyObject *processor_words(PyObject *self, PyObject *const *arguments, Py_ssize_t given) {
    Py_ssize_t count = 0;
    uint64_t address = 0;
    Core *core = core_of(self);
    if (!to_part(arguments, given, &address, &count))
        return NULL;
    if (count > PY_SSIZE_T_MAX / 8 || !is_range(core, address, 8 * (uint64_t)count))
        return fails(self, "nothing is mapped at", address);
    PyObject *words = PyTuple_New(count);
    const uint8_t *data = NULL;
    for (Py_ssize_t at = 0; words != NULL && at < count; at++) {
        uint64_t word = 0;
        for (unsigned byte = 0; byte < 8; byte++, address++) {
            if (data == NULL || (address & PAGE_MASK) == 0)
                data = memory_peek(&core->memory, address >> PAGE_SHIFT);
            word |= (uint64_t)data[address & PAGE_MASK] << (8 * byte);
        }
        PyObject *number = PyLong_FromUnsignedLongLong(word);
        if (number == NULL || PyTuple_SetItem(words, at, number) < 0)
            Py_CLEAR(words);
    }
    return words;
}

/* The bytes up to a zero, which is one of so many. */
static PyObject *processor_text(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    Py_ssize_t most = 0;
    uint64_t address = 0;
    Memory *memory = &core_of(self)->memory;
    if (!to_part(arguments, count, &address, &most))
        return NULL;
    uint64_t size = 0;
    while (size < (uint64_t)most && address + size >= address) {
        uint64_t offset = (address + size) & PAGE_MASK, part = PAGE_BYTES - offset;
        if (part > (uint64_t)most - size)
            part = (uint64_t)most - size;
        const uint8_t *data = memory_peek(memory, (address + size) >> PAGE_SHIFT), *zero = NULL;
        if (data == NULL)
            return fails(self, "nothing is mapped at", address + size);
        zero = memchr(data + offset, 0, (size_t)part);
        size += zero == NULL ? part : (uint64_t)(zero - (data + offset));
        if (zero != NULL) {
            PyObject *whole[] = {arguments[0], PyLong_FromUnsignedLongLong(size)};
            PyObject *text = whole[1] == NULL ? NULL : processor_read(self, whole, 2);
            Py_XDECREF(whole[1]);
            return text;
        }
    }
    return fails(self, "no text at", address);
}

static PyObject *processor_write(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    const char *bytes = NULL;
    Py_ssize_t size = 0;
    uint64_t address = 0;
    Core *core = core_of(self);
    if (!has_arguments(count, 2) || !to_word(arguments[0], &address) ||
        !PyArg_Parse(arguments[1], "y#:mem_write", &bytes, &size))
        return NULL;
    if (!is_range(core, address, (uint64_t)size))
        return fails(self, "nothing can be written at", address);
    for (int writes = 0; writes < 2; writes++) /* first see whether all can be written */
        for (Py_ssize_t done = 0; done < size;) {
            uint64_t at = address + (uint64_t)done;
            unsigned offset = (unsigned)(at & PAGE_MASK);
            Py_ssize_t part = (Py_ssize_t)(PAGE_BYTES - offset);
            Stopped why = RUNNING;
            if (part > size - done)
                part = size - done;
            Page *page = writes ? memory_make(&core->memory, at >> PAGE_SHIFT, &why)
                                : memory_page(&core->memory, at >> PAGE_SHIFT);
            if (!writes && page != NULL && memory_was_executed(page, offset, (size_t)part))
                return fails(self, "nothing can be written at", address);
            if (writes && page == NULL)
                return fails(self, "nothing can be written at", address);
            if (writes)
                memcpy(page->data + offset, bytes + done, (size_t)part);
            done += part;
        }
    return Py_NewRef(Py_None);
}

static PyObject *processor_permissions(PyObject *self, PyObject *where) {
    uint64_t address = 0;
    if (!to_word(where, &address))
        return NULL;
    return PyLong_FromLong(memory_permissions(&core_of(self)->memory, address >> PAGE_SHIFT));
}

static PyObject *processor_guard(PyObject *self, PyObject *arguments) {
    PyObject *where = NULL;
    int guarded = 0;
    Py_ssize_t size = 0;
    uint64_t address = 0;
    if (!PyArg_ParseTuple(arguments, "Onp:guard", &where, &size, &guarded) || !to_word(where, &address))
        return NULL;
    if (size < 0 || size > MOST_GUARDED || !memory_guard(&core_of(self)->memory, address, (uint64_t)size, guarded))
        return fails(self, "nothing is mapped at", address);
    return Py_NewRef(Py_None);
}

/* Registers */

static bool to_place(PyObject *self, PyObject *name, Place *place) {
    char capitals[16];
    Py_ssize_t size = 0;
    const char *text = PyUnicode_AsUTF8AndSize(name, &size);
    if (text == NULL)
        return false;
    if (size < (Py_ssize_t)sizeof capitals) {
        for (Py_ssize_t at = 0; at <= size; at++)
            capitals[at] = text[at] >= 'a' && text[at] <= 'z' ? (char)(text[at] - 'a' + 'A') : text[at];
        if (find_register(core_of(self), capitals, place))
            return true;
    }
    PyErr_Format(PyExc_KeyError, "no register %U", name);
    return false;
}

static PyObject *processor_reg_read(PyObject *self, PyObject *name) {
    Place place;
    uint64_t value = 0;
    if (!to_place(self, name, &place))
        return NULL;
    for (unsigned at = 0; at < place.size; at++)
        value |= (uint64_t)place.bytes[at] << (8 * at); /* as memory is on the hosts that this is built for */
    return PyLong_FromUnsignedLongLong(value);
}

static PyObject *processor_reg_write(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    Place place;
    uint64_t value = 0;
    if (!has_arguments(count, 2) || !to_place(self, arguments[0], &place) || !to_word(arguments[1], &value))
        return NULL;
    if (place.is_flag)
        value = value != 0;
    for (unsigned at = 0; at < place.size + place.cleared; at++)
        place.bytes[at] = at < place.size ? (uint8_t)(value >> (8 * at)) : 0;
    return Py_NewRef(Py_None);
}

static Vector *vector_at(PyObject *self, long number) {
    if (number < 0 || number > 31) {
        PyErr_SetString(PyExc_IndexError, "there are 32 vectors");
        return NULL;
    }
    return &core_of(self)->r.vectors[number];
}

static PyObject *processor_vector(PyObject *self, PyObject *number) {
    long index = PyLong_AsLong(number);
    if (index == -1 && PyErr_Occurred())
        return NULL;
    Vector *vector = vector_at(self, index);
    return vector == NULL ? NULL : PyBytes_FromStringAndSize((const char *)vector->b, sizeof vector->b);
}

static PyObject *processor_set_vector(PyObject *self, PyObject *arguments) {
    long index = 0;
    const char *bytes = NULL;
    Py_ssize_t size = 0;
    if (!PyArg_ParseTuple(arguments, "ly#:set_vector", &index, &bytes, &size))
        return NULL;
    Vector *vector = vector_at(self, index);
    if (vector == NULL)
        return NULL;
    if (size != sizeof vector->b) {
        PyErr_SetString(PyExc_ValueError, "a vector has 64 bytes");
        return NULL;
    }
    memcpy(vector->b, bytes, sizeof vector->b);
    return Py_NewRef(Py_None);
}

enum { PC, SP, COUNT, LIMIT, FAULTS, ADDRESS };

static uint64_t *number_at(PyObject *self, void *which) {
    Core *core = core_of(self);
    switch ((int)(intptr_t)which) {
    case PC: return &core->r.pc;
    case SP: return &core->r.registers[core->is_arm64 ? 31 : RSP];
    case COUNT: return &core->count;
    case LIMIT: return &core->limit;
    case FAULTS: return &core->faults;
    default: return &core->address;
    }
}

static PyObject *get_number(PyObject *self, void *which) {
    return PyLong_FromUnsignedLongLong(*number_at(self, which));
}

static int set_number(PyObject *self, PyObject *value, void *which) {
    uint64_t word = 0;
    if (value == NULL || !to_word(value, &word)) {
        if (value == NULL)
            PyErr_SetString(PyExc_AttributeError, "it cannot be deleted");
        return -1;
    }
    *number_at(self, which) = word;
    return 0;
}

/* Execution */

static PyObject *processor_add_breakpoint(PyObject *self, PyObject *where) {
    uint64_t address = 0;
    if (!to_word(where, &address))
        return NULL;
    if (!add_breakpoint(core_of(self), address))
        return PyErr_NoMemory();
    return Py_NewRef(Py_None);
}

static PyObject *processor_remove_breakpoint(PyObject *self, PyObject *where) {
    uint64_t address = 0;
    if (!to_word(where, &address))
        return NULL;
    remove_breakpoint(core_of(self), address);
    return Py_NewRef(Py_None);
}

static PyObject *processor_extensions(PyObject *self, PyObject *first) {
    const Core *core = core_of(self);
    size_t start = PyLong_AsSize_t(first);
    if (start == (size_t)-1 && PyErr_Occurred())
        return NULL;
    PyObject *list = PyList_New(0);
    for (size_t at = start; list != NULL && at < core->extension_count; at++) {
        PyObject *address = PyLong_FromUnsignedLongLong(core->extensions[at]);
        if (address == NULL || PyList_Append(list, address) < 0)
            Py_CLEAR(list);
        Py_XDECREF(address);
    }
    return list;
}

static PyObject *processor_run(PyObject *self, PyObject *arguments) {
    (void)arguments;
    return PyLong_FromLong(run(core_of(self), UINT64_MAX, false));
}

static PyObject *processor_step(PyObject *self, PyObject *arguments) {
    Core *core = core_of(self);
    uint64_t limit = core->limit;
    (void)arguments;
    if (core->count < limit) /* one repetition of a string instruction */
        core->limit = core->count + 1;
    Stopped stopped = run(core, 1, true);
    core->limit = limit;
    return PyLong_FromLong(stopped);
}

#define FAST(function) (PyCFunction)(void (*)(void))(function), METH_FASTCALL

static PyMethodDef methods[] = {
    {"mem_map", processor_map, METH_VARARGS, PyDoc_STR("Map zeros: address, size, permissions.")},
    {"mem_unmap", processor_unmap, METH_VARARGS, PyDoc_STR("Unmap a part of memory: address, size.")},
    {"mem_read", FAST(processor_read), PyDoc_STR("The bytes at an address: address, size.")},
    {"mem_text", FAST(processor_text), PyDoc_STR("The bytes up to a zero: address, the most bytes that are read.")},
    {"mem_words", FAST(processor_words), PyDoc_STR("Words of eight bytes at an address: address, how many.")},
    {"mem_write", FAST(processor_write), PyDoc_STR("Store bytes, also in memory that code cannot write.")},
    {"guard", processor_guard, METH_VARARGS, PyDoc_STR("Stop at accesses to bytes, or no longer: address, size, whether.")},
    {"permissions", processor_permissions, METH_O, PyDoc_STR("What code may do with an address; 0 if it is not mapped.")},
    {"reg_read", processor_reg_read, METH_O, PyDoc_STR("The value of a register.")},
    {"reg_write", FAST(processor_reg_write), PyDoc_STR("Set a register: name, value.")},
    {"vector", processor_vector, METH_O, PyDoc_STR("The 64 bytes of a vector register.")},
    {"set_vector", processor_set_vector, METH_VARARGS, PyDoc_STR("Set a vector register: number, 64 bytes.")},
    {"add_breakpoint", processor_add_breakpoint, METH_O, PyDoc_STR("Stop before the instruction at an address.")},
    {"remove_breakpoint", processor_remove_breakpoint, METH_O, PyDoc_STR("Do not stop there any more.")},
    {"extensions", processor_extensions, METH_O,
     PyDoc_STR("Where instructions were executed that not every processor has, from the n-th place on.")},
    {"run", processor_run, METH_NOARGS, PyDoc_STR("Run until something stops it; return what.")},
    {"step", processor_step, METH_NOARGS, PyDoc_STR("Execute one instruction; return what stopped it, or 0.")},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef numbers[] = {
    {"pc", get_number, set_number, PyDoc_STR("The program counter."), (void *)PC},
    {"sp", get_number, set_number, PyDoc_STR("The stack pointer."), (void *)SP},
    {"icount", get_number, set_number, PyDoc_STR("How many instructions were executed."), (void *)COUNT},
    {"icount_limit", get_number, set_number, PyDoc_STR("How many may be."), (void *)LIMIT},
    {"faults", get_number, set_number, PyDoc_STR("How many were counted whose access faulted."), (void *)FAULTS},
    {"address", get_number, set_number, PyDoc_STR("Of the access that stopped the last run."), (void *)ADDRESS},
    {NULL, NULL, NULL, NULL, NULL},
};

/* All is done when it is made. */
static int processor_init(PyObject *self, PyObject *arguments, PyObject *keywords) {
    (void)self, (void)arguments, (void)keywords;
    return 0;
}

static PyType_Slot slots[] = {
    {Py_tp_new, processor_new},
    {Py_tp_init, processor_init},
    {Py_tp_dealloc, processor_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, numbers},
    {Py_tp_doc, (void *)PyDoc_STR("A processor with its memory: architecture, most pages.")},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "abiscan.native._core.Core",
    .basicsize = sizeof(Processor),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

/* What functions lead to */

typedef struct {
    PyObject_HEAD
    Links links;
} LinksObject;

static Links *links_in(PyObject *self) {
    return &((LinksObject *)self)->links;
}

static PyObject *links_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    const char *starts = NULL;
    Py_ssize_t size = 0;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "y#:Links", &starts, &size))
        return NULL;
    PyObject *self = allocate(type, 0);
    for (Py_ssize_t at = 0; self != NULL && at + 8 <= size; at += 8) {
        uint64_t start;
        memcpy(&start, starts + at, sizeof start);
        if (!links_add_function(links_in(self), start)) {
            Py_DECREF(self);
            return PyErr_NoMemory();
        }
    }
    return self;
}

static void links_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    links_free(links_in(self));
    release(self);
    Py_DECREF(type);
}

static PyObject *links_add_relocations_of(PyObject *self, PyObject *arguments) {
    const char *table = NULL, *symbols = NULL;
    Py_ssize_t size = 0, symbols_size = 0;
    unsigned relative = 0, absolute = 0, data_slot = 0, stub_slot = 0;
    bool damaged = false;
    if (!PyArg_ParseTuple(arguments, "y#y#IIII:add_relocations", &table, &size, &symbols, &symbols_size, &relative,
                          &absolute, &data_slot, &stub_slot))
        return NULL;
    Kinds kinds = {relative, absolute, data_slot, stub_slot};
    if (!links_add_relocations(links_in(self), (const uint8_t *)table, (size_t)size, (const uint8_t *)symbols,
                               (size_t)symbols_size, &kinds, &damaged))
        return PyErr_NoMemory();
    return PyBool_FromLong(!damaged);
}

/* The words in an argument: two of them. */
static bool to_two_words(PyObject *arguments, const char *format, uint64_t *first, uint64_t *second) {
    PyObject *one = NULL, *other = NULL;
    return PyArg_ParseTuple(arguments, format, &one, &other) && to_word(one, first) && to_word(other, second);
}

static PyObject *links_add_pointer_of(PyObject *self, PyObject *arguments) {
    uint64_t at = 0, target = 0;
    if (!to_two_words(arguments, "OO:add_pointer", &at, &target))
        return NULL;
    if (!links_add_pointer(links_in(self), at, target))
        return PyErr_NoMemory();
    return Py_NewRef(Py_None);
}

static PyObject *as_list(const List *list) {
    PyObject *items = PyList_New((Py_ssize_t)list->count);
    for (size_t at = 0; items != NULL && at < list->count; at++) {
        PyObject *item = PyLong_FromUnsignedLongLong(list->items[at]);
        if (item == NULL || PyList_SetItem(items, (Py_ssize_t)at, item) < 0)
            Py_CLEAR(items);
    }
    return items;
}

static PyObject *links_add_stubs_of(PyObject *self, PyObject *arguments) {
    const char *code = NULL;
    Py_ssize_t size = 0;
    PyObject *where = NULL;
    uint64_t address = 0;
    List jumps = {0};
    if (!PyArg_ParseTuple(arguments, "y#O:add_stubs", &code, &size, &where) || !to_word(where, &address))
        return NULL;
    PyObject *result = links_add_stubs(links_in(self), (const uint8_t *)code, (size_t)size, address, &jumps)
                           ? as_list(&jumps)
                           : PyErr_NoMemory();
    free(jumps.items);
    return result;
}

/* In order, because the order of a set may depend on that of what it is made of. */
static PyObject *as_set(List *list) {
    list_sort(list);
    PyObject *items = as_list(list), *result = NULL;
    if (items != NULL)
        result = PyFrozenSet_New(items);
    Py_XDECREF(items);
    return result;
}

static PyObject *links_of_code(PyObject *self, PyObject *arguments) {
    const char *code = NULL;
    Py_ssize_t size = 0;
    PyObject *where = NULL, *result = NULL;
    uint64_t start = 0;
    List functions = {0}, imports = {0};
    if (!PyArg_ParseTuple(arguments, "y#O:of", &code, &size, &where) || !to_word(where, &start))
        return NULL;
    if (links_of(links_in(self), (const uint8_t *)code, (size_t)size, start, &functions, &imports)) {
        PyObject *led_to = as_set(&functions), *imported = led_to == NULL ? NULL : as_set(&imports);
        if (imported != NULL)
            result = PyTuple_Pack(2, led_to, imported);
        Py_XDECREF(led_to);
        Py_XDECREF(imported);
    } else {
        PyErr_NoMemory();
    }
    free(functions.items);
    free(imports.items);
    return result;
}

static PyMethodDef links_methods[] = {
    {"add_relocations", links_add_relocations_of, METH_VARARGS,
     PyDoc_STR("Add the words that relocations fill: table, symbols, four types. False if a symbol is not there.")},
    {"add_pointer", links_add_pointer_of, METH_VARARGS, PyDoc_STR("Add a word that leads to an address: both.")},
    {"add_stubs", links_add_stubs_of, METH_VARARGS,
     PyDoc_STR("Add the stubs in code, which lies at an address: where each jumps, and the address of its word.")},
    {"of", links_of_code, METH_VARARGS,
     PyDoc_STR("What the code of a function leads to: functions, and numbers of imported symbols.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot links_slots[] = {
    {Py_tp_new, links_new},
    {Py_tp_init, processor_init},
    {Py_tp_dealloc, links_dealloc},
    {Py_tp_methods, links_methods},
    {Py_tp_doc, (void *)PyDoc_STR("What the functions of an object lead to: made of the addresses of all functions.")},
    {0, NULL},
};

static PyType_Spec links_spec = {
    .name = "abiscan.native._core.Links",
    .basicsize = sizeof(LinksObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = links_slots,
};

/* Which texts some content has */

typedef struct {
    PyObject_HEAD
    PyObject *content; /* bytes */
    Grams grams;
} Searched;

static PyObject *searched_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    PyObject *content = NULL;
    char *bytes = NULL;
    Py_ssize_t size = 0;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    (void)keywords;
    if (!PyArg_ParseTuple(arguments, "S:Searched", &content) || PyBytes_AsStringAndSize(content, &bytes, &size) < 0)
        return NULL;
    PyObject *self = allocate(type, 0);
    if (self == NULL)
        return NULL;
    Searched *made = (Searched *)self;
    made->content = Py_NewRef(content);
    if (!grams_of(&made->grams, (const uint8_t *)bytes, (size_t)size)) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return self;
}

static void searched_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free(((Searched *)self)->grams.bits);
    Py_XDECREF(((Searched *)self)->content);
    release(self);
    Py_DECREF(type);
}

static PyObject *searched_has(PyObject *self, PyObject *text) {
    const Searched *searched = (const Searched *)self;
    char *bytes = NULL;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(text, &bytes, &size) < 0)
        return NULL;
    if (!may_have(&searched->grams, (const uint8_t *)bytes, (size_t)size))
        return Py_NewRef(Py_False);
    int found = PySequence_Contains(searched->content, text);
    return found < 0 ? NULL : Py_NewRef(found ? Py_True : Py_False);
}

static PyMethodDef searched_methods[] = {
    {"has", searched_has, METH_O, PyDoc_STR("Whether a text, of bytes, is in the content.")},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot searched_slots[] = {
    {Py_tp_new, searched_new},
    {Py_tp_init, processor_init},
    {Py_tp_dealloc, searched_dealloc},
    {Py_tp_methods, searched_methods},
    {Py_tp_doc, (void *)PyDoc_STR("Some content, of bytes, that many texts are looked for in.")},
    {0, NULL},
};

static PyType_Spec searched_spec = {
    .name = "abiscan.native._core.Searched",
    .basicsize = sizeof(Searched),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = searched_slots,
};

/* Searches */

static bool append(PyObject *list, PyObject *item) {
    bool failed = item == NULL || PyList_Append(list, item) < 0;
    Py_XDECREF(item);
    return !failed;
}

typedef size_t (*Find)(const uint8_t *code, size_t size, size_t from, uint64_t address, const uint64_t *words,
                       size_t count);

/* The places in code at which a search stops: code, its address, words that the search is for. */
static PyObject *all_places(PyObject *arguments, Find find) {
    const char *code = NULL, *words = NULL;
    Py_ssize_t size = 0, words_size = 0;
    PyObject *where = NULL;
    uint64_t address = 0;
    if (!PyArg_ParseTuple(arguments, "y#Oy#", &code, &size, &where, &words, &words_size))
        return NULL;
    if (!to_word(where, &address))
        return NULL;
    size_t count = (size_t)words_size / sizeof(uint64_t), length = (size_t)size;
    uint64_t *aligned = calloc(count ? count : 1, sizeof *aligned);
    if (aligned == NULL)
        return PyErr_NoMemory();
    memcpy(aligned, words, count * sizeof *aligned);
    PyObject *places = PyList_New(0);
    size_t at = places == NULL ? length : find((const uint8_t *)code, length, 0, address, aligned, count);
    while (at < length) {
        if (!append(places, PyLong_FromSize_t(at))) {
            Py_CLEAR(places);
            break;
        }
        at = find((const uint8_t *)code, length, at + 1, address, aligned, count);
    }
    free(aligned);
    return places;
}

static PyObject *module_calls(PyObject *module, PyObject *arguments) {
    (void)module;
    return all_places(arguments, find_call);
}

static PyObject *module_branches(PyObject *module, PyObject *arguments) {
    (void)module;
    return all_places(arguments, find_branch);
}

static PyObject *module_displacements(PyObject *module, PyObject *arguments) {
    (void)module;
    return all_places(arguments, find_displacement);
}

static PyObject *module_texts(PyObject *module, PyObject *arguments) {
    const char *content = NULL, *words = NULL;
    Py_ssize_t size = 0, bytes = 0, least = 0, most = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#nny#:texts", &content, &size, &least, &most, &words, &bytes))
        return NULL;
    if (least < 8 || most < least) {
        PyErr_SetString(PyExc_ValueError, "a text has eight bytes or more");
        return NULL;
    }
    size_t count = (size_t)bytes / sizeof(uint64_t), length = 0, start = 0;
    uint64_t *sorted = malloc(count * sizeof *sorted + 1);
    if (sorted == NULL)
        return PyErr_NoMemory();
    memcpy(sorted, words, count * sizeof *sorted);
    PyObject *list = PyList_New(0);
    while (list != NULL && (start = find_text((const uint8_t *)content, (size_t)size, start, (size_t)least, (size_t)most,
                                              &length)) < (size_t)size) {
        if ((count == 0 || begins_with((const uint8_t *)content + start, sorted, count)) &&
            !append(list, PyBytes_FromStringAndSize(content + start, (Py_ssize_t)length)))
            Py_CLEAR(list);
        start += length;
    }
    free(sorted);
    return list;
}

/* The numbers of entries by the page (of 4 KiB) of their first word; each entry has three words. */
static PyObject *module_by_page(PyObject *module, PyObject *arguments) {
    const char *words = NULL;
    Py_ssize_t size = 0, start = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#n:by_page", &words, &size, &start))
        return NULL;
    PyObject *pages = PyDict_New(), *list = NULL;
    uint64_t last = 0;
    for (Py_ssize_t at = 0; pages != NULL && at < size / 24; at++) {
        uint64_t offset;
        memcpy(&offset, words + 24 * at, sizeof offset);
        if (list == NULL || offset >> PAGE_SHIFT != last) {
            last = offset >> PAGE_SHIFT;
            PyObject *key = PyLong_FromUnsignedLongLong(last), *made = NULL;
            list = key == NULL ? NULL : PyDict_GetItemWithError(pages, key);
            if (key != NULL && list == NULL && !PyErr_Occurred()) {
                made = PyList_New(0);
                if (made != NULL && PyDict_SetItem(pages, key, made) == 0)
                    list = made; /* which the dictionary keeps */
            }
            Py_XDECREF(made);
            Py_XDECREF(key);
        }
        if (list == NULL || !append(list, PyLong_FromSsize_t(start + at)))
            Py_CLEAR(pages);
    }
    return pages;
}

/* The instructions of some code, as far as all are measured; how many there are, and where the rest begins. */
static PyObject *module_data(PyObject *module, PyObject *arguments) {
    const char *bytes = NULL;
    Py_ssize_t size = 0, most = 0, count = 0;
    PyObject *where = NULL;
    uint64_t address = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#On:data", &bytes, &size, &where, &most) || !to_word(where, &address))
        return NULL;
    PyObject *data = PyList_New(0);
    Py_ssize_t at = 0;
    for (Measure found; data != NULL && at < size && count < most; at += found.length, count++) {
        if (measure((const uint8_t *)bytes + at, (size_t)(size - at), &found) != MEASURED)
            break;
        if (found.use == NO_DATA)
            continue;
        uint64_t place = address + (uint64_t)at + found.length + (uint64_t)(int64_t)found.displacement;
        int told = found.use == DATA ? found.size : -1;
        if (!append(data, Py_BuildValue("nKi", at, (unsigned long long)place, told)))
            Py_CLEAR(data);
    }
    PyObject *result = data == NULL ? NULL : Py_BuildValue("Onn", data, count, at);
    Py_XDECREF(data);
    return result;
}

/* Where the instructions of some code begin, and whether they branch; none if it is not all instructions, and
   None if one could not be measured. */
static PyObject *module_instructions(PyObject *module, PyObject *arguments) {
    const char *bytes = NULL;
    Py_ssize_t size = 0;
    PyObject *where = NULL;
    uint64_t address = 0;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#O:instructions", &bytes, &size, &where) || !to_word(where, &address))
        return NULL;
    PyObject *list = PyList_New(0);
    Measure found;
    for (Py_ssize_t at = 0; list != NULL && at < size; at += found.length) {
        Measured measured = measure((const uint8_t *)bytes + at, (size_t)(size - at), &found);
        if (measured != MEASURED) {
            Py_DECREF(list);
            if (measured == SHORT_OF || measured == NO_INSTRUCTION) /* it goes on behind the end, or there is none */
                return PyList_New(0);
            return Py_NewRef(Py_None);
        }
        PyObject *branches = found.branches ? Py_True : Py_False;
        if (!append(list, Py_BuildValue("KO", (unsigned long long)(address + (uint64_t)at), branches)))
            Py_CLEAR(list);
    }
    return list;
}

/* What the instructions of a function tell about the processor, up to the first one that cannot be measured: where those
   are that not every processor has (the first of each kind at least), where it is asked, what is called or jumped to, and what data is named. */
static PyObject *module_sweep(PyObject *module, PyObject *arguments) {
    const char *bytes = NULL;
    Py_ssize_t size = 0, at = 0;
    PyObject *where = NULL, *lists[4] = {NULL, NULL, NULL, NULL};
    uint64_t address = 0;
    SeenKinds seen = {{0}};
    bool is_fine = true;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "y#O:sweep", &bytes, &size, &where) || !to_word(where, &address))
        return NULL;
    for (int number = 0; number < 4; number++)
        is_fine &= (lists[number] = PyList_New(0)) != NULL;
    for (Swept found; is_fine && at < size; at += found.length) {
        const uint8_t *code = (const uint8_t *)bytes + at;
        if (!sweep(code, (size_t)(size - at), &found))
            break;
        uint64_t place = address + (uint64_t)at + found.length + (uint64_t)(int64_t)found.displacement;
        if (is_extension(code, (size_t)(size - at)) && !is_repeated(&seen, code, found.length))
            is_fine &= append(lists[0], PyLong_FromSsize_t(at));
        if (found.asks)
            is_fine &= append(lists[1], PyLong_FromSsize_t(at));
        if (found.leads)
            is_fine &= append(lists[2], Py_BuildValue("nK", at, (unsigned long long)place));
        if (found.names_data)
            is_fine &= append(lists[3], Py_BuildValue("nK", at, (unsigned long long)place));
    }
    PyObject *result = is_fine ? Py_BuildValue("OOOOn", lists[0], lists[1], lists[2], lists[3], at) : NULL;
    for (int number = 0; number < 4; number++)
        Py_XDECREF(lists[number]);
    return result;
}

static PyMethodDef functions[] = {
    {"sweep", module_sweep, METH_VARARGS,
     PyDoc_STR("Extensions, questions, (offset, target) of calls, (offset, place) of data, and the end: code, address.")},
    {"data", module_data, METH_VARARGS,
     PyDoc_STR("Data named in code (offset, place, size or -1), number of instructions, end: code, address, most.")},
    {"instructions", module_instructions, METH_VARARGS,
     PyDoc_STR("The instructions of code, and whether they branch; None if one is not known: code, its address.")},
    {"calls", module_calls, METH_VARARGS,
     PyDoc_STR("Where in some code a call or jump leads to one of some addresses: code, its address, the addresses in order.")},
    {"branches", module_branches, METH_VARARGS,
     PyDoc_STR("Where in code of AArch64 a branch leads to one of some addresses: code, its address, the addresses in order.")},
    {"displacements", module_displacements, METH_VARARGS,
     PyDoc_STR("Where in some code a displacement may lead to between two bounds: code, its address, the bounds in order.")},
    {"texts", module_texts, METH_VARARGS,
     PyDoc_STR("Texts between zeros: bytes, their least and most size, their first eight bytes as words in order, or none.")},
    {"by_page", module_by_page, METH_VARARGS, PyDoc_STR("The numbers of relocations by page: table, number of the first.")},
    {NULL, NULL, 0, NULL},
};

static int execute(PyObject *module) {
    struct {
        const char *name;
        PyType_Spec *spec;
    } types[] = {{"Core", &spec}, {"Links", &links_spec}, {"Searched", &searched_spec}};
    bool failed = false;
    for (size_t number = 0; number < sizeof types / sizeof *types; number++) {
        PyObject *type = PyType_FromSpec(types[number].spec);
        failed |= type == NULL || PyModule_AddObjectRef(module, types[number].name, type) < 0;
        Py_XDECREF(type);
    }
    return failed ? -1 : 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, execute},
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "_core",
    .m_methods = functions,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__core(void) {
    return PyModuleDef_Init(&definition);
}
