"""Doubles of the CPython C API, as far as the initialisation of an extension module needs it.

An object is a block of memory with a reference count that never reaches zero and a type. Texts, capsules, dictionaries
and attributes are kept; beyond that any function that gives an object gives a fresh one, and one that gives a status
succeeds. What pybind11 inlines reads the flags of types, and takes its allocator and the like out of them.
Layouts: CPython's Include/object.h, Include/cpython/object.h, Include/moduleobject.h.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from typing import Final

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.emulator import Emulator
from abiscan.emulation.process import Call, EmulatedProcess
from abiscan.regex import regex

_OBJECT_SIZE: Final = 1024  # a PyHeapTypeObject has less
_HEAD_SIZE: Final = 16  # sizeof(PyObject)
_MANY: Final = 1 << 30
_HEAP_TYPE_FLAGS: Final = 1 << 9 | 1 << 10  # Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_BASETYPE
# Py_TPFLAGS_LONG_SUBCLASS and those that follow it.
_SUBCLASSES: Final = ("Long", "List", "Tuple", "Bytes", "Unicode", "Dict", "BaseException", "Type")
_SUBCLASS_FLAGS: Final = {f"Py{name}_Type": 1 << bit for bit, name in enumerate(_SUBCLASSES, 24)}
_NAME_OFFSET: Final = 24  # PyTypeObject.tp_name
_FLAGS_OFFSET: Final = 168  # PyTypeObject.tp_flags
_BASE_OFFSET: Final = 256  # PyTypeObject.tp_base
# Members of PyTypeObject that lead to functions, and are called through it.
_FUNCTIONS: Final = {
    48: "tp_dealloc",
    128: "tp_call",
    144: "PyObject_GenericGetAttr",
    152: "PyObject_GenericSetAttr",
    280: "tp_descr_set",
    296: "tp_init",
    304: "PyType_GenericAlloc",
    312: "tp_new",
    320: "PyObject_Free",
}
_METHODS_OFFSET: Final = 96  # PyTypeObject.tp_as_number, tp_as_sequence, tp_as_mapping
_METHODS_SIZE: Final = 36 * 8  # sizeof(PyNumberMethods), the largest
_INTERPRETER_OFFSET: Final = 16  # PyThreadState.interp
_SLOTS_OFFSET: Final = 72  # PyModuleDef.m_slots
_MODULE_EXECUTE: Final = 2  # Py_mod_exec
_MAX_SLOTS: Final = 32
_MAX_BASES: Final = 64
_MOST_ITEMS: Final = 100  # that fit into an object
_TEXT: Final = "PyUnicode_Type"
_CONSTRUCTOR: Final = regex(r"(Py[A-Z][A-Za-z]+)_(New|From)")
_TEXT_ATTRIBUTES: Final = (b"__name__", b"__qualname__", b"__module__", b"__doc__", b"__file__", b"__version__")
_OWN: Final = -1  # among the attributes of objects that the extension created

# Functions that return true, or a number other than zero.
_YES: Final = ("Py_IsInitialized", "PyCallable_Check", "PyGILState_Check", "PyObject_IsTrue")
# Functions that return 0: a status that means success, a number, or nothing found.
_ZERO: Final = (
    r"tp_(dealloc|descr_set|init)|PyErr_|PyGILState_|PyEval_|PyThread_|Py(Type_Ready|Type_Modified|Buffer_Release|MemoryView_Check)|PyTraceBack_"
    r"|_?PyDict_(Next|Del|Size)|_?Py_(Dealloc|AtExit|DecRef|IncRef|AddPendingCall)"
    r"|PyMem_Free|PyObject_(Free|GC_)"
    r"|PyObject_(GenericSetAttr|DelAttr|DelItem|IsInstance|RichCompareBool|Not|Clear|Print|Length|Size|Hash)"
    r"|PyModule_(Add|SetDoc|AddFunctions|ExecDef)|PyState_"
    r"|Py(List|Tuple|Set|Seq|Dict)\w*_(Append|Set|Add|Insert|Size|Length|Update)"
    r"|PyCapsule_Set(Context|Destructor|Name)|Py(Long|Float)_As|Py(Index|Number|Sequence)_Check"
    r"|PyWeakref_|PyCFunction_GetFlags|PyImport_Append"
)

CPYTHON: Final = Doubles()


def new_object(process: EmulatedProcess, type_object: int = 0) -> int:
    """Return the address of a fresh object."""
    address = process.allocate(_OBJECT_SIZE)
    process.machine.write(address, struct.pack("<QQ", _MANY, type_object or process.bind("PyBaseObject_Type")))
    return address


def new_module(process: EmulatedProcess) -> int:
    """Return the address of a fresh, empty module."""
    return _owned(process, process.bind("PyModule_Type"))


def _owned(process: EmulatedProcess, type_object: int) -> int:
    """Return the address of a fresh object that the extension creates: it only has attributes that are set."""
    instance = new_object(process, type_object)
    process.attributes[instance] = {_OWN: instance}
    return instance


def fill_datum(process: EmulatedProcess, name: str, slot: int) -> None:
    """Give a datum of the interpreter its content: an exception is a pointer to an object, all else an object."""
    if name.startswith("PyExc_"):
        process.machine.set_word(slot, new_object(process))
    elif name.endswith("_Type"):
        meta = slot if name == "PyType_Type" else process.bind("PyType_Type")
        process.machine.write(slot, struct.pack("<QQ", _MANY, meta))
        process.machine.set_word(slot + _NAME_OFFSET, process.store(name.encode() + b"\0"))
        process.machine.set_word(slot + _FLAGS_OFFSET, _HEAP_TYPE_FLAGS | _SUBCLASS_FLAGS.get(name, 0))
        # One block of zeros stands for the tables of numbers, sequences and mappings, in which code looks for
        # functions.
        methods = process.allocate(_METHODS_SIZE)
        process.machine.write(slot + _METHODS_OFFSET, struct.pack("<QQQ", methods, methods, methods))
        for offset, function in _FUNCTIONS.items():
            process.machine.set_word(slot + offset, process.bind(function))
    elif name.endswith("Struct"):
        process.machine.write(slot, struct.pack("<QQ", _MANY, process.bind("PyBaseObject_Type")))


def _key_argument(call: Call, index: int) -> bytes | int:
    """Return a key of a dictionary or an object: a text, as such or as an object, else the object itself."""
    argument = call.argument(index)
    return call.machine.text(argument) if "String" in call.name else call.process.texts.get(argument, argument)


@CPYTHON.named("Py_GetVersion")
def _double_py_get_version(call: Call) -> int:
    return call.process.store(call.process.python_version.encode() + b".0 (main)\0")


@CPYTHON.named(*_YES)
def _double_returning_one(_: Call) -> int:
    return 1


@CPYTHON.named("PyUnicode_FromString", "PyUnicode_InternFromString", "PyBytes_FromString")
def _double_py_unicode_from_string(call: Call) -> int:
    return _with_text(call, call.machine.text(call.argument(0)))


@CPYTHON.named("PyUnicode_FromStringAndSize", "PyBytes_FromStringAndSize", "PyUnicode_DecodeUTF8")
def _double_py_unicode_from_string_and_size(call: Call) -> int:
    return _with_text(call, call.machine.read(call.argument(0), call.argument(1)) if call.argument(0) else b"")


def _with_text(call: Call, text: bytes, kind: str = "") -> int:
    instance = new_object(call.process, call.process.bind(kind or ("PyBytes_Type" if "Bytes" in call.name else _TEXT)))
    call.process.texts[instance] = text
    return instance


@CPYTHON.named("PyObject_Str", "PyObject_Repr", "PyObject_ASCII", "PyUnicode_FromObject", "PyUnicode_FromFormat")
def _double_py_object_str(call: Call) -> int:
    """Return the description of an object: its text, if it is one."""
    return _with_text(call, call.process.texts.get(call.argument(0), b""))


@CPYTHON.named("PyUnicode_AsEncodedString", "PyUnicode_AsUTF8String")
def _double_py_unicode_as_encoded_string(call: Call) -> int:
    return _with_text(call, call.process.texts.get(call.argument(0), b""), "PyBytes_Type")


@CPYTHON.named(
    "PyUnicode_AsUTF8", "PyBytes_AsString", "PyUnicode_AsUTF8AndSize", "PyModule_GetName", "PyEval_GetFuncName"
)
def _double_py_unicode_as_utf8(call: Call) -> int:
    text = call.process.texts.get(call.argument(0), b"")
    if call.name == "PyUnicode_AsUTF8AndSize" and call.argument(1):
        call.machine.set_word(call.argument(1), len(text))
    return call.process.store(text + b"\0")


@CPYTHON.named("PyBytes_AsStringAndSize")
def _double_py_bytes_as_string_and_size(call: Call) -> int:
    text = call.process.texts.get(call.argument(0), b"")
    call.machine.set_word(call.argument(1), call.process.store(text + b"\0"))
    if call.argument(2):
        call.machine.set_word(call.argument(2), len(text))
    return 0


@CPYTHON.named("PyCapsule_New")
def _double_py_capsule_new(call: Call) -> int:
    instance = new_object(call.process, call.process.bind("PyCapsule_Type"))
    call.process.capsules[instance] = call.argument(0)
    return instance


@CPYTHON.named("PyCapsule_GetPointer", "PyCapsule_GetContext", "PyCapsule_GetName", "PyCapsule_Import")
def _double_py_capsule_get_pointer(call: Call) -> int:
    return call.process.capsules.get(call.argument(0), 0) if call.name == "PyCapsule_GetPointer" else 0


@CPYTHON.named("PyErr_Fetch", "PyErr_GetExcInfo")
def _double_py_err_fetch(call: Call) -> None:
    for index in range(3):
        call.machine.set_word(call.argument(index), 0)


@CPYTHON.named(
    "PyModule_Create2", "PyModule_FromDefAndSpec2", "PyModule_New", "PyModule_NewObject", "PyImport_AddModule"
)
def _double_py_module_create2(call: Call) -> int:
    return new_module(call.process)


@CPYTHON.named("PyModuleDef_Init")
def _double_py_module_def_init(call: Call) -> int:
    """Return the definition: the importer makes the module of it afterwards (PEP 489), see ``module_functions``."""
    return call.argument(0)


# How often the thread has taken the lock of the interpreter: ``PyThreadState.gilstate_counter``.
_COUNTER_OFFSETS: Final = {
    **dict.fromkeys(("3.7", "3.8", "3.9", "3.10"), 160),
    **dict.fromkeys(("3.6", "3.11", "3.13"), 136),
    "3.12": 120,
}


@CPYTHON.matching(r"_?PyThreadState_(Get|UncheckedGet|GetUnchecked|Swap)$", r"PyGILState_GetThisThreadState$")
def _double_py_thread_state_get(call: Call) -> int:
    """Return the one thread; the third word of a thread leads to its interpreter (Include/cpython/pystate.h)."""
    thread = call.process.bind("state of a thread")
    if not call.machine.word(thread + _INTERPRETER_OFFSET):
        call.machine.set_word(thread + _INTERPRETER_OFFSET, call.process.bind("state of the interpreter"))
        counter = _COUNTER_OFFSETS.get(call.process.python_version)
        if counter is not None:
            call.machine.write(thread + counter, struct.pack("<i", 1))
    return thread


@CPYTHON.named("PyThread_tss_alloc")
def _double_py_thread_tss_alloc(call: Call) -> int:
    return call.process.allocate(_HEAD_SIZE)


@CPYTHON.named("PyThread_tss_set", "PyThread_set_key_value")
def _double_py_thread_tss_set(call: Call) -> int:
    call.process.attributes.setdefault(call.argument(0), {})[_OWN] = call.argument(1)
    return 0


@CPYTHON.named("PyThread_tss_get", "PyThread_get_key_value")
def _double_py_thread_tss_get(call: Call) -> int:
    return call.process.attributes.get(call.argument(0), {}).get(_OWN, 0)


@CPYTHON.named("PyInterpreterState_Get", "PyInterpreterState_Main")
def _double_py_interpreter_state_get(call: Call) -> int:
    return call.process.bind("state of the interpreter")


@CPYTHON.named("PyInterpreterState_GetDict", "PyEval_GetBuiltins", "PyThreadState_GetDict", "PyModule_GetDict")
def _double_py_interpreter_state_get_dict(call: Call) -> int:
    """Return the dictionary of an interpreter, of a thread, of a module: the same at every call."""
    owner = call.argument(0) if call.name == "PyModule_GetDict" else call.process.bind(call.name)
    kept = call.process.attributes.setdefault(owner, {})
    if b"__dict__" not in kept:
        kept[b"__dict__"] = new_object(call.process, call.process.bind("PyDict_Type"))
    return kept[b"__dict__"]


@CPYTHON.matching(r"_?PyDict_SetItem(String)?")
def _double_py_dict_set_item(call: Call) -> int:
    call.process.items.setdefault(call.argument(0), {})[_key_argument(call, 1)] = call.argument(2)
    return 0


@CPYTHON.matching(r"_?PyDict_(GetItem|Contains)")
def _double_py_dict_get_item(call: Call) -> int:
    value = call.process.items.get(call.argument(0), {}).get(_key_argument(call, 1), 0)
    return int(bool(value)) if "Contains" in call.name else value


@CPYTHON.named("PyDict_SetDefault")
def _double_py_dict_set_default(call: Call) -> int:
    return call.process.items.setdefault(call.argument(0), {}).setdefault(_key_argument(call, 1), call.argument(2))


@CPYTHON.named("PyObject_SetItem")
def _double_py_object_set_item(call: Call) -> int | None:
    """Set an entry of a dictionary, or of anything else, whose attributes stand for its entries."""
    if call.machine.word(call.argument(0) + 8) == call.process.bind("PyDict_Type"):
        return _double_py_dict_set_item(call)
    return _double_py_object_set_attr(call)


@CPYTHON.matching(r"PyObject_(SetAttr|HasAttr)", r"PyModule_Add(Object|ObjectRef)$")
def _double_py_object_set_attr(call: Call) -> int:
    attributes = call.process.attributes.setdefault(call.argument(0), {})
    key = call.machine.text(call.argument(1)) if "Module" in call.name else _key_argument(call, 1)
    if "Has" in call.name:
        return int(key in attributes)
    attributes[key] = call.argument(2)
    return 0


@CPYTHON.matching(r"PyObject_(GetAttr|GetItem|GenericGetAttr)")
def _double_py_object_get_attr(call: Call) -> int:
    """Return the value that was set, else a fresh one: in a real interpreter, the attribute exists.

    Only modules and types that the extension itself makes have nothing else but what every object has.
    """
    attributes = call.process.attributes.setdefault(call.argument(0), {})
    key = _key_argument(call, 1)
    if key not in attributes:
        if _OWN in attributes and isinstance(key, bytes) and not key.startswith(b"__"):
            return 0
        attributes[key] = _with_text(call, b"") if key in _TEXT_ATTRIBUTES else new_object(call.process)
    return attributes[key]


@CPYTHON.named("PyCMethod_New", "PyCFunction_NewEx", "PyCFunction_New", "PyInstanceMethod_New", "PyMethod_New")
def _double_py_c_method_new(call: Call) -> int:
    """Return a function, whose parts follow the head of its object: definition, ``self``, module; function,
    ``self``.
    """
    kind, words = ("PyCFunction_Type", 3) if "PyC" in call.name else (call.name.replace("New", "Type"), 1)
    instance = new_object(call.process, call.process.bind(kind))
    call.machine.write(instance + _HEAD_SIZE, struct.pack(f"<{words}Q", *map(call.argument, range(words))))
    return instance


@CPYTHON.matching(r"PyType_From(Spec|ModuleAndSpec|Metaclass)")
def _double_py_type_from_spec(call: Call) -> int:
    """Return a type whose name is the first word of a PyType_Spec."""
    specification = call.argument({"PyType_FromModuleAndSpec": 1, "PyType_FromMetaclass": 2}.get(call.name, 0))
    instance = _owned(call.process, call.process.bind("PyType_Type"))
    call.machine.set_word(instance + _NAME_OFFSET, call.machine.word(specification))
    return instance


@CPYTHON.named("PyErr_NewException", "PyErr_NewExceptionWithDoc")
def _double_py_err_new_exception(call: Call) -> int:
    return new_object(call.process, call.process.bind("PyType_Type"))


@CPYTHON.named("PyType_GenericAlloc", "tp_new", "tp_call", "_PyObject_New", "_PyObject_NewVar", "_PyObject_GC_New")
def _double_py_type_generic_alloc(call: Call) -> int:
    """Return an object of the type that is the first argument."""
    return _owned(call.process, call.argument(0))


@CPYTHON.named("PyType_IsSubtype")
def _double_py_type_is_subtype(call: Call) -> int:
    """Tell whether the second type is among the bases of the first; the interpreter's types have only one base."""
    base = call.argument(1)
    bases = itertools.islice(_with_bases(call.machine, call.argument(0)), _MAX_BASES)
    return int(base in bases or base == call.process.bind("PyBaseObject_Type"))


def _with_bases(machine: Emulator, type_object: int) -> Iterator[int]:
    """Yield a type, its base, the base of that, and so on."""
    while type_object:
        yield type_object
        type_object = machine.word(type_object + _BASE_OFFSET)


@CPYTHON.named("PyType_Ready")
def _double_py_type_ready(call: Call) -> int:
    """Let a type inherit from its base what it does not define."""
    machine, type_object = call.machine, call.argument(0)
    base = machine.word(type_object + _BASE_OFFSET) or call.process.bind("PyBaseObject_Type")
    for offset in _FUNCTIONS:
        if not machine.word(type_object + offset):
            machine.set_word(type_object + offset, machine.word(base + offset))
    return 0


@CPYTHON.named(
    "PyMem_Malloc", "PyObject_Malloc", "PyMem_RawMalloc", "PyMem_Calloc", "PyObject_Calloc", "PyMem_RawCalloc"
)
def _double_py_mem_malloc(call: Call) -> int:
    size = call.argument(0) * (call.argument(1) if "Calloc" in call.name else 1)
    return call.process.allocate(size)


_ITEMS_AT: Final = 24  # PyListObject.ob_item, and the first item of a PyTupleObject


@CPYTHON.named("PyList_New", "PyTuple_New")
def _double_py_list_new(call: Call) -> int:
    """Return a list, which leads to its items, or a tuple, which has them: macros set them (``listobject.h``)."""
    process, count = call.process, min(call.argument(0), _MOST_ITEMS)
    instance = new_object(process, process.bind(call.name.removesuffix("_New") + "_Type"))
    call.machine.set_word(instance + _HEAD_SIZE, count)
    if call.name == "PyList_New":
        call.machine.set_word(instance + _ITEMS_AT, process.allocate(8 * max(count, 1)))
    return instance


@CPYTHON.named("PyList_Append", "PyList_Insert")
def _double_py_list_append(call: Call) -> int:
    """Insert an item into a list, or append it. Takes (list[, position], item)."""
    machine, target = call.machine, call.argument(0)
    count, items = machine.word(target + _HEAD_SIZE), machine.word(target + _ITEMS_AT)
    old = list(machine.words(items, count)) if 0 < count <= _MOST_ITEMS and items else []
    is_insert = call.name == "PyList_Insert"
    old.insert(min(call.argument(1), len(old)) if is_insert else len(old), call.argument(1 + is_insert))
    machine.set_word(target + _HEAD_SIZE, len(old))
    machine.set_word(target + _ITEMS_AT, call.process.store(struct.pack(f"<{len(old)}Q", *old)))
    return 0


@CPYTHON.named("PyList_GetItem", "PyTuple_GetItem", "PyList_SetItem", "PyTuple_SetItem")
def _double_py_list_get_item(call: Call) -> int:
    """Return or set an item. Takes (list or tuple, position[, item]); a fresh object where code has set none."""
    machine, target, position = call.machine, call.argument(0), call.argument(1)
    if position >= machine.word(target + _HEAD_SIZE):
        return 0 if "Get" in call.name else -1
    items = machine.word(target + _ITEMS_AT) if "List" in call.name else target + _ITEMS_AT
    if "Set" in call.name:
        machine.set_word(items + 8 * position, call.argument(2))
        return 0
    return machine.word(items + 8 * position) or new_object(call.process)


@CPYTHON.matching(r"Py(Object|Sequence|List|Tuple|Dict|Mapping)_(Size|Length)$")
def _double_py_object_size(call: Call) -> int:
    """Return the size of a list or tuple, which has it behind its head, or of what a dictionary was given."""
    process, target = call.process, call.argument(0)
    if target in process.items:
        return len(process.items[target])
    type_object = call.machine.word(target + 8)
    is_sequence = type_object in (process.bind("PyList_Type"), process.bind("PyTuple_Type"))
    return call.machine.word(target + _HEAD_SIZE) if is_sequence else 0


@CPYTHON.matching(_ZERO)
def _double_returning_zero(_: Call) -> int:
    return 0


@CPYTHON.matching(r"_?Py[A-Z]")
def _double_of_any_function(call: Call) -> int:
    """Return a fresh object, of the type that a constructor is named after."""
    match = _CONSTRUCTOR.match(call.name)
    return new_object(call.process, call.process.bind(match[1] + "_Type") if match else 0)


def module_functions(process: EmulatedProcess, definition: int) -> list[int]:
    """Return the functions in the slots of a module definition, which the importer calls with the module (PEP 489)."""
    machine, image, functions = process.machine, process.image, list[int]()
    if not image.contains(definition) or not image.contains(slots := machine.word(definition + _SLOTS_OFFSET)):
        return []
    for number in range(_MAX_SLOTS):
        kind, function = machine.words(slots + 16 * number, 2)
        if not kind & 0xFFFF_FFFF:
            break
        if kind & 0xFFFF_FFFF == _MODULE_EXECUTE:
            functions.append(function)
    return functions
