"""Doubles of the CPython C-API, as far as the initialisation of an extension module goes.

An object is a block of memory with a reference count that never reaches zero and a type. Texts, capsules and attributes
are kept; beyond that any function that gives an object gives a fresh one, and one that gives a status succeeds.
Layouts: CPython's Include/object.h, Include/moduleobject.h.
"""

from __future__ import annotations

import struct
from typing import Final

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.process import Call, Process

_OBJECT_SIZE: Final = 512
_MANY: Final = 1 << 30
_HEAP_TYPE_FLAGS: Final = 1 << 9 | 1 << 10  # Py_TPFLAGS_HEAPTYPE, Py_TPFLAGS_BASETYPE
_FLAGS_OFFSET: Final = 168  # PyTypeObject.tp_flags
_METHODS_OFFSET: Final = 96  # PyTypeObject.tp_as_number, tp_as_sequence, tp_as_mapping
_METHODS_SIZE: Final = 36 * 8  # sizeof(PyNumberMethods), the largest
_SLOTS_OFFSET: Final = 72  # PyModuleDef.m_slots
_MODULE_EXECUTE: Final = 2  # Py_mod_exec
_MAX_SLOTS: Final = 32

# Functions that say yes, or give a number that is not zero.
_YES: Final = ("Py_IsInitialized", "PyCallable_Check", "PyGILState_Check", "PyObject_IsTrue", "PyType_IsSubtype")
# Functions whose result is a status, of which 0 is the good one, a number, or nothing found.
_ZERO: Final = (
    r"PyErr_|PyGILState_|PyEval_|PyThread_|Py(Type_Ready|Type_Modified|Buffer_Release|MemoryView_Check)|PyTraceBack_"
    r"|_?PyDict_(GetItem|Next|Contains|Del|Size)|_?Py_(Dealloc|AtExit|DecRef|IncRef|AddPendingCall)"
    r"|PyMem_Free|PyObject_(Free|GC_)"
    r"|PyObject_(HasAttr|SetAttr|SetItem|DelAttr|DelItem|IsInstance|RichCompareBool|Not|Clear|Print|Length|Size|Hash)"
    r"|PyModule_(Add|SetDoc|AddFunctions|ExecDef)|PyState_"
    r"|Py(List|Tuple|Set|Seq|Dict)\w*_(Append|Set|Add|Insert|Size|Length|Update)"
    r"|PyCapsule_Set(Context|Destructor|Name)|PyInterpreterState_|Py(Long|Float)_As|Py(Index|Number|Sequence)_Check"
    r"|PyWeakref_|PyCFunction_GetFlags|PyImport_(Add|Append)"
)

CPYTHON: Final = Doubles()


def new_object(process: Process, type_object: int = 0) -> int:
    """The address of a fresh object."""
    address = process.allocate(_OBJECT_SIZE)
    process.machine.write(address, struct.pack("<QQ", _MANY, type_object or process.bind("PyBaseObject_Type")))
    return address


def fill_datum(process: Process, name: str, slot: int) -> None:
    """Give a datum of the interpreter its content: an exception is a pointer to an object, all else an object."""
    if name.startswith("PyExc_"):
        process.machine.set_word(slot, new_object(process))
    elif name.endswith("_Type"):
        meta = slot if name == "PyType_Type" else process.bind("PyType_Type")
        process.machine.write(slot, struct.pack("<QQ", _MANY, meta))
        process.machine.set_word(slot + _FLAGS_OFFSET, _HEAP_TYPE_FLAGS)
        methods = process.allocate(_METHODS_SIZE)
        process.machine.write(slot + _METHODS_OFFSET, struct.pack("<QQQ", methods, methods, methods))
    elif name.endswith("Struct"):
        process.machine.write(slot, struct.pack("<QQ", _MANY, process.bind("PyBaseObject_Type")))


@CPYTHON.named("Py_GetVersion")
def _version(call: Call) -> int:
    return call.process.store(call.process.python_version.encode() + b".0 (main)\0")


@CPYTHON.named(*_YES)
def _yes(_: Call) -> int:
    return 1


@CPYTHON.named("PyUnicode_FromString", "PyUnicode_InternFromString", "PyBytes_FromString")
def _text_object(call: Call) -> int:
    return _with_text(call, call.machine.text(call.argument(0)))


@CPYTHON.named("PyUnicode_FromStringAndSize", "PyBytes_FromStringAndSize", "PyUnicode_DecodeUTF8")
def _sized_text_object(call: Call) -> int:
    return _with_text(call, call.machine.read(call.argument(0), call.argument(1)) if call.argument(0) else b"")


def _with_text(call: Call, text: bytes) -> int:
    made = new_object(call.process)
    call.process.texts[made] = text
    return made


@CPYTHON.named(
    "PyUnicode_AsUTF8", "PyBytes_AsString", "PyUnicode_AsUTF8AndSize", "PyModule_GetName", "PyEval_GetFuncName"
)
def _text_of(call: Call) -> int:
    text = call.process.texts.get(call.argument(0), b"")
    if call.name == "PyUnicode_AsUTF8AndSize" and call.argument(1):
        call.machine.set_word(call.argument(1), len(text))
    return call.process.store(text + b"\0")


@CPYTHON.named("PyBytes_AsStringAndSize")
def _text_and_size(call: Call) -> int:
    text = call.process.texts.get(call.argument(0), b"")
    call.machine.set_word(call.argument(1), call.process.store(text + b"\0"))
    if call.argument(2):
        call.machine.set_word(call.argument(2), len(text))
    return 0


@CPYTHON.named("PyCapsule_New")
def _capsule(call: Call) -> int:
    made = new_object(call.process)
    call.process.capsules[made] = call.argument(0)
    return made


@CPYTHON.named("PyCapsule_GetPointer", "PyCapsule_GetContext", "PyCapsule_GetName", "PyCapsule_Import")
def _capsule_content(call: Call) -> int:
    return call.process.capsules.get(call.argument(0), 0) if call.name == "PyCapsule_GetPointer" else 0


@CPYTHON.named("PyErr_Fetch", "PyErr_GetExcInfo")
def _no_error(call: Call) -> None:
    for index in range(3):
        call.machine.set_word(call.argument(index), 0)


@CPYTHON.named("PyModule_Create2", "PyModule_FromDefAndSpec2", "PyModule_New", "PyModule_NewObject")
def _module(call: Call) -> int:
    return new_object(call.process, call.process.bind("PyModule_Type"))


@CPYTHON.named("PyModuleDef_Init")
def _definition(call: Call) -> int:
    """The module is made by the importer afterwards (PEP 489): see ``module_functions``."""
    return call.argument(0)


@CPYTHON.named("PyDict_SetDefault")
def _default(call: Call) -> int:
    return call.argument(2)


@CPYTHON.named(
    "PyMem_Malloc", "PyObject_Malloc", "PyMem_RawMalloc", "PyMem_Calloc", "PyObject_Calloc", "PyMem_RawCalloc"
)
def _allocate(call: Call) -> int:
    size = call.argument(0) * (call.argument(1) if "Calloc" in call.name else 1)
    return call.process.allocate(size)


@CPYTHON.matching(_ZERO)
def _good(_: Call) -> int:
    return 0


@CPYTHON.matching(r"_?Py[A-Z]")
def _object(call: Call) -> int:
    return new_object(call.process)


def module_functions(process: Process, definition: int) -> list[int]:
    """The functions that the importer calls with a module that is only defined so far (PEP 489): in its slots."""
    machine, found = process.machine, []
    slots = machine.word(definition + _SLOTS_OFFSET) if process.image.contains(definition) else 0
    for at in range(slots, slots + 16 * _MAX_SLOTS, 16) if process.image.contains(slots) else ():
        kind, function = machine.words(at, 2)
        if not kind & 0xFFFF_FFFF:
            break
        if kind & 0xFFFF_FFFF == _MODULE_EXECUTE:
            found.append(function)
    return found
