"""The doubles of the C API of Python: what its reference manual says of each function, as far as they go."""

from __future__ import annotations

import itertools
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.cpython import CPYTHON, fill_datum, module_functions, new_module, new_object
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.loader import BASE
from abiscan.emulation.process import EmulatedProcess

SAMPLE = Path(__file__).parents[3] / "sample_binaries" / "registrations" / "library.so"
NAME, CALL, FLAGS, BASE_TYPE = 24, 128, 168, 256  # in a PyTypeObject (Include/cpython/object.h)
METHODS = 96  # tp_as_number, tp_as_sequence, tp_as_mapping
needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


@pytest.fixture
def process() -> Iterator[EmulatedProcess]:
    file = ElfFile.open(SAMPLE)
    found = EmulatedProcess(file, file.facts().machine, finder((LIBC, CPYTHON)), fill_datum)
    found.call_limit = 10_000
    yield found
    found.close()


def call(process: EmulatedProcess, name: str, *arguments: int) -> int:
    return process.machine.start(process.bind(name), arguments, 100_000)


def text(process: EmulatedProcess, content: bytes) -> int:
    return process.store(content + b"\0")


def made(process: EmulatedProcess, content: bytes) -> int:
    return call(process, "PyUnicode_FromString", text(process, content))


def content_of(process: EmulatedProcess, instance: int) -> bytes:
    return process.machine.text(call(process, "PyUnicode_AsUTF8", instance))


def type_of(process: EmulatedProcess, instance: int) -> str | None:
    """The name of the type, which follows the reference count of every object."""
    return process.name_at(process.machine.word(instance + 8))


def test_an_object_is_a_reference_count_and_a_type(process: EmulatedProcess) -> None:
    plain, dictionary = new_object(process), new_object(process, process.bind("PyDict_Type"))
    assert (type_of(process, plain), type_of(process, dictionary)) == ("PyBaseObject_Type", "PyDict_Type")
    assert process.machine.word(plain) > 1
    assert type_of(process, new_module(process)) == "PyModule_Type"


@pytest.mark.parametrize(
    ("name", "flag"),
    [("PyLong_Type", 24), ("PyTuple_Type", 26), ("PyBytes_Type", 27), ("PyDict_Type", 29), ("PyType_Type", 31)],
)
def test_a_type_has_the_flag_of_its_subclasses(process: EmulatedProcess, name: str, flag: int) -> None:
    """Include/object.h: ``Py_TPFLAGS_LONG_SUBCLASS`` and those that follow it, one bit each."""
    flags = process.machine.word(process.bind(name) + FLAGS)
    assert flags >> 24 == 1 << (flag - 24)
    assert process.machine.word(process.bind("PyModule_Type") + FLAGS) >> 24 == 0
    assert flags >> 9 & 3 == 3  # on the heap, and may be a base


def test_what_the_interpreter_exports(process: EmulatedProcess) -> None:
    """An exception is a pointer to an object; types and ``None`` are objects themselves."""
    machine = process.machine
    assert type_of(process, machine.word(process.bind("PyExc_TypeError"))) == "PyBaseObject_Type"
    kind, meta = process.bind("PyList_Type"), process.bind("PyType_Type")
    assert type_of(process, kind) == type_of(process, meta) == "PyType_Type"
    assert machine.text(machine.word(kind + NAME)) == b"PyList_Type"
    assert process.name_at(machine.word(kind + CALL)) == "tp_call"
    methods = machine.words(kind + METHODS, 3)
    assert all(machine.read(table, 36 * 8) == bytes(36 * 8) for table in methods)
    none = process.bind("_Py_NoneStruct")
    assert type_of(process, none) == "PyBaseObject_Type"
    assert machine.word(none) > 1
    assert machine.word(process.bind("PyFloat_Type") + FLAGS) == 1 << 9 | 1 << 10  # Py_TPFLAGS_HEAPTYPE, _BASETYPE
    assert machine.read(process.bind("Py_Version"), 8) == bytes(8)  # of anything else nothing is known


@pytest.mark.parametrize("name", ["PyUnicode_FromStringAndSize", "PyBytes_FromStringAndSize", "PyUnicode_DecodeUTF8"])
def test_a_text_of_a_length(process: EmulatedProcess, name: str) -> None:
    instance = call(process, name, text(process, b"text of"), 4)
    assert content_of(process, instance) == b"text"
    assert type_of(process, instance) == ("PyBytes_Type" if "Bytes" in name else "PyUnicode_Type")
    assert content_of(process, call(process, name, 0, 4)) == b""  # memory that the caller fills


@pytest.mark.parametrize("name", ["PyUnicode_InternFromString", "PyBytes_FromString"])
def test_a_text_up_to_its_end(process: EmulatedProcess, name: str) -> None:
    instance = call(process, name, text(process, b"text"))
    assert content_of(process, instance) == b"text"
    assert type_of(process, instance) == ("PyBytes_Type" if "Bytes" in name else "PyUnicode_Type")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("PyObject_Str", "PyUnicode_Type"),
        ("PyUnicode_FromObject", "PyUnicode_Type"),
        ("PyUnicode_AsUTF8String", "PyBytes_Type"),
        ("PyUnicode_AsEncodedString", "PyBytes_Type"),
    ],
)
def test_a_text_as_another_object(process: EmulatedProcess, name: str, kind: str) -> None:
    copy = call(process, name, made(process, b"text"))
    assert (content_of(process, copy), type_of(process, copy)) == (b"text", kind)
    assert content_of(process, call(process, name, new_object(process))) == b""


def test_the_size_of_a_text(process: EmulatedProcess) -> None:
    machine, place, size = process.machine, process.allocate(8), process.allocate(8)
    instance = made(process, b"text")
    assert machine.text(call(process, "PyUnicode_AsUTF8AndSize", instance, size)) == b"text"
    assert machine.word(size) == 4
    assert machine.text(call(process, "PyUnicode_AsUTF8AndSize", instance, 0)) == b"text"
    machine.set_word(size, 0)
    assert call(process, "PyBytes_AsStringAndSize", instance, place, size) == 0
    assert (machine.text(machine.word(place)), machine.word(size)) == (b"text", 4)
    machine.set_word(place, 0)
    assert call(process, "PyBytes_AsStringAndSize", instance, place, 0) == 0
    assert machine.text(machine.word(place)) == b"text"


def test_a_capsule_has_a_pointer_and_no_name(process: EmulatedProcess) -> None:
    capsule = call(process, "PyCapsule_New", 0x1234, text(process, b"name"), 0)
    assert type_of(process, capsule) == "PyCapsule_Type"
    assert call(process, "PyCapsule_GetPointer", capsule, 0) == 0x1234
    assert call(process, "PyCapsule_GetPointer", new_object(process), 0) == 0
    assert call(process, "PyCapsule_GetContext", capsule) == call(process, "PyCapsule_GetName", capsule) == 0


def test_there_is_no_error(process: EmulatedProcess) -> None:
    """``PyErr_Fetch``: all three are set to null where no error is indicated."""
    places = [process.store(b"\xff" * 8) for _ in range(3)]
    call(process, "PyErr_Fetch", *places)
    assert [process.machine.word(place) for place in places] == [0, 0, 0]
    assert call(process, "PyErr_Occurred") == 0


def test_one_thread_and_one_interpreter(process: EmulatedProcess) -> None:
    """``PyThreadState.interp`` is the third word of a thread (Include/cpython/pystate.h, up to 3.12)."""
    thread = call(process, "PyThreadState_Get")
    assert thread == call(process, "PyGILState_GetThisThreadState") == call(process, "_PyThreadState_UncheckedGet")
    assert process.machine.word(thread + 16) == call(process, "PyInterpreterState_Get")
    assert call(process, "PyInterpreterState_Get") == call(process, "PyInterpreterState_Main")


def test_a_value_of_a_thread(process: EmulatedProcess) -> None:
    first, second = call(process, "PyThread_tss_alloc"), call(process, "PyThread_tss_alloc")
    assert first != second
    assert call(process, "PyThread_tss_get", first) == 0
    assert call(process, "PyThread_tss_set", first, 0x1234, 0x5678) == 0
    assert call(process, "PyThread_tss_get", first) == 0x1234
    assert call(process, "PyThread_tss_get", second) == 0


def test_lasting_dictionaries(process: EmulatedProcess) -> None:
    one, other = new_module(process), new_module(process)
    of_one, of_other = (call(process, "PyModule_GetDict", module) for module in (one, other))
    assert of_one == call(process, "PyModule_GetDict", one) != of_other
    names = ("PyEval_GetBuiltins", "PyThreadState_GetDict", "PyInterpreterState_GetDict")
    dictionaries = [call(process, name, one) for name in names]
    assert dictionaries == [call(process, name, other) for name in names]
    assert len({*dictionaries, of_one, of_other}) == 5
    assert {type_of(process, each) for each in (*dictionaries, of_one)} == {"PyDict_Type"}


def test_the_items_of_a_dictionary(process: EmulatedProcess) -> None:
    kept, other = call(process, "PyDict_New"), call(process, "PyDict_New")
    key, value = new_object(process), new_object(process)
    assert call(process, "PyDict_SetItem", kept, key, value) == 0
    assert call(process, "PyDict_GetItem", kept, key) == value
    assert call(process, "PyDict_GetItem", kept, new_object(process)) == 0  # another object
    assert call(process, "PyDict_GetItem", other, key) == 0
    assert [call(process, "PyDict_Contains", each, key) for each in (kept, other)] == [1, 0]
    # Texts are equal if their contents are.
    assert call(process, "PyDict_SetItem", kept, made(process, b"name"), value) == 0
    assert call(process, "PyDict_GetItem", kept, made(process, b"name")) == value
    assert call(process, "PyDict_GetItemString", kept, text(process, b"name")) == value
    assert call(process, "PyDict_SetDefault", other, key, value) == value
    assert call(process, "PyDict_GetItem", other, key) == value


@pytest.mark.parametrize("name", ["PyModule_AddObject", "PyModule_AddObjectRef", "PyObject_SetAttrString"])
def test_attributes_by_a_text(process: EmulatedProcess, name: str) -> None:
    module, value, attribute = new_module(process), new_object(process), text(process, b"attribute")
    assert call(process, "PyObject_HasAttrString", module, attribute) == 0
    assert call(process, name, module, attribute, value) == 0
    assert call(process, "PyObject_HasAttrString", module, attribute) == 1
    assert call(process, "PyObject_GetAttr", module, made(process, b"attribute")) == value
    assert call(process, "PyObject_GetAttrString", new_module(process), attribute) == 0


def test_every_object_has_a_name_and_a_module(process: EmulatedProcess) -> None:
    module, of_others = new_module(process), call(process, "PyImport_ImportModule", text(process, b"os"))
    for instance in (module, of_others):
        name = call(process, "PyObject_GetAttrString", instance, text(process, b"__name__"))
        assert type_of(process, name) == "PyUnicode_Type"
        kept = call(process, "PyObject_GetAttrString", instance, text(process, b"__dict__"))
        assert type_of(process, kept) == "PyBaseObject_Type"
        assert kept == call(process, "PyObject_GetAttrString", instance, text(process, b"__dict__"))
    assert call(process, "PyObject_GetAttrString", of_others, text(process, b"path")) != 0
    # An item by an object that is no text: it may well be there.
    assert call(process, "PyObject_GetItem", module, new_object(process)) != 0


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("PyCFunction_NewEx", "PyCFunction_Type", 3),  # m_ml, m_self, m_module
        ("PyCMethod_New", "PyCFunction_Type", 3),
        ("PyInstanceMethod_New", "PyInstanceMethod_Type", 1),  # func
        ("PyMethod_New", "PyMethod_Type", 1),
    ],
)
def test_functions_have_their_parts_behind_the_head(process: EmulatedProcess, name: str, kind: str, words: int) -> None:
    parts = (0x1111, 0x2222, 0x3333, 0x4444)
    function = call(process, name, *parts)
    assert type_of(process, function) == kind
    assert process.machine.words(function + 16, 4) == (*parts[:words], *(0,) * (4 - words))


@pytest.mark.parametrize(
    ("name", "before"), [("PyType_FromSpec", 0), ("PyType_FromModuleAndSpec", 1), ("PyType_FromMetaclass", 2)]
)
def test_a_type_is_called_as_its_specification_says(process: EmulatedProcess, name: str, before: int) -> None:
    """``PyType_FromMetaclass(metaclass, module, spec, bases)``, ``PyType_FromModuleAndSpec(module, spec, bases)``."""
    called, wrong = text(process, b"module.Name"), process.store(bytes(8))
    specification = process.store(struct.pack("<Q", called))
    arguments = [wrong] * 4
    arguments[before] = specification
    kind = call(process, name, *arguments)
    assert process.machine.word(kind + NAME) == called
    assert type_of(process, kind) == "PyType_Type"
    assert call(process, "PyObject_HasAttrString", kind, text(process, b"x")) == 0


def test_subtypes(process: EmulatedProcess) -> None:
    machine = process.machine
    kinds = [call(process, "PyType_GenericAlloc", process.bind("PyType_Type"), 0) for _ in range(3)]
    for derived, base in itertools.pairwise(kinds):
        machine.set_word(derived + BASE_TYPE, base)
    first, second, third = kinds
    assert call(process, "PyType_IsSubtype", first, first) == 1
    assert call(process, "PyType_IsSubtype", first, second) == call(process, "PyType_IsSubtype", first, third) == 1
    assert call(process, "PyType_IsSubtype", third, first) == call(process, "PyType_IsSubtype", second, first) == 0
    assert call(process, "PyType_IsSubtype", third, process.bind("PyBaseObject_Type")) == 1
    machine.set_word(third + BASE_TYPE, first)  # nonsense, which ends nevertheless
    assert call(process, "PyType_IsSubtype", first, process.bind("PyDict_Type")) == 0


def test_a_type_without_a_base_inherits_from_object(process: EmulatedProcess) -> None:
    machine, kind = process.machine, call(process, "PyType_GenericAlloc", process.bind("PyType_Type"), 0)
    machine.set_word(kind + CALL, 0x1234)
    assert call(process, "PyType_Ready", kind) == 0
    assert machine.word(kind + CALL) == 0x1234  # what it defines stays
    assert process.name_at(machine.word(kind + 304)) == "PyType_GenericAlloc"
    derived = call(process, "PyType_GenericAlloc", process.bind("PyType_Type"), 0)
    machine.set_word(derived + BASE_TYPE, kind)
    assert call(process, "PyType_Ready", derived) == 0
    assert machine.word(derived + CALL) == 0x1234


def test_a_definition_is_what_its_module_is_made_of_afterwards(process: EmulatedProcess) -> None:
    """``PyModuleDef_Init`` returns the definition (PEP 489)."""
    assert call(process, "PyModuleDef_Init", 0x1234, 0x5678) == 0x1234


def test_an_instance_is_of_its_type(process: EmulatedProcess) -> None:
    kind = process.bind("PySet_Type")
    for name in ("PyType_GenericAlloc", "tp_new", "_PyObject_New"):
        assert type_of(process, call(process, name, kind, 0)) == "PySet_Type"
    assert type_of(process, call(process, "PyErr_NewException", text(process, b"m.Error"), 0, 0)) == "PyType_Type"


@pytest.mark.parametrize(
    ("name", "arguments", "size"), [("PyMem_Malloc", (24, 1000), 24), ("PyObject_Calloc", (3, 24), 72)]
)
def test_memory(process: EmulatedProcess, name: str, arguments: tuple[int, ...], size: int) -> None:
    assert process.size_of(call(process, name, *arguments)) == size


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("PyList_New", "PyList_Type"),
        ("PyLong_FromLong", "PyLong_Type"),
        ("PyObject_Call", "PyBaseObject_Type"),
        ("PyIter_Next", "PyBaseObject_Type"),
    ],
)
def test_a_constructor_makes_what_it_is_named_after(process: EmulatedProcess, name: str, kind: str) -> None:
    assert type_of(process, call(process, name, 0)) == kind


@pytest.mark.parametrize(("name", "answer"), [("Py_IsInitialized", 1), ("PyObject_Not", 0), ("PyErr_WarnEx", 0)])
def test_yes_and_success(process: EmulatedProcess, name: str, answer: int) -> None:
    assert call(process, name, 0, 0) == answer


# PEP 489: the slots of a definition, its tenth word, are pairs of a number and an address; a number of 0 ends them.
MODULE = """
static int first(void* module) { return 0; }
static int second(void* module) { return 0; }
static void* create(void* spec, void* definition) { return 0; }
struct slot { int number; void* value; } slots[] = { {2, first}, {1, create}, {2, second}, {0, 0}, {2, create} };
struct slot unending[] = { [0 ... 63] = {2, first} };
struct definition { long head[9]; struct slot* slots; }
  definition = { {0}, slots }, without = { {0}, 0 }, nonsense = { {0}, unending };
int (*functions[])(void*) = { first, second };
"""


@needs_gcc
def test_the_functions_that_the_importer_calls(tmp_path: Path) -> None:
    command = ["gcc", "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(tmp_path / "module.so")]
    subprocess.run(command, input=MODULE.encode(), check=True)
    file = ElfFile.open(tmp_path / "module.so")
    process = EmulatedProcess(file, file.facts().machine, finder((LIBC, CPYTHON)), fill_datum)
    names = ("definition", "without", "nonsense", "functions")
    places = {name: process.image.definition_of(name) for name in names}
    assert None not in places.values()
    at = {name: BASE + (place or 0) for name, place in places.items()}
    assert module_functions(process, at["definition"]) == [*process.machine.words(at["functions"], 2)]
    assert module_functions(process, at["without"]) == []
    assert module_functions(process, 0) == []
    assert len(module_functions(process, at["nonsense"])) == 32  # so many are looked at
    process.close()


def test_a_list_has_what_is_appended_and_inserted(process: EmulatedProcess) -> None:
    first, second = process.allocate(16), process.allocate(16)
    items = call(process, "PyList_New", 0)
    assert call(process, "PyList_Append", items, first) == 0
    assert call(process, "PyList_Insert", items, 0, second) == 0
    assert call(process, "PyList_Size", items) == call(process, "PyObject_Size", items) == 2
    assert [call(process, "PyList_GetItem", items, index) for index in (0, 1, 2)] == [second, first, 0]
    assert call(process, "PyList_SetItem", items, 1, second) == 0
    assert call(process, "PyList_GetItem", items, 1) == second


def test_a_dictionary_contains_what_was_set_in_it(process: EmulatedProcess) -> None:
    entries = call(process, "PyDict_New")
    key, other = (call(process, "PyUnicode_FromString", process.store(text)) for text in (b"key\0", b"other\0"))
    assert call(process, "PyObject_SetItem", entries, key, key) == 0
    assert call(process, "PyDict_Contains", entries, key) == 1
    assert call(process, "PyDict_Contains", entries, other) == 0
    assert call(process, "PyDict_Size", entries) == 1


def test_a_thread_has_taken_the_lock_of_the_interpreter(process: EmulatedProcess) -> None:
    """``PyThreadState.gilstate_counter``, which pybind11 counts down again: CPython 3.11 has it at 136."""
    process.python_version = "3.11"
    assert process.machine.word(call(process, "PyThreadState_Get") + 136) & 0xFFFF_FFFF == 1
