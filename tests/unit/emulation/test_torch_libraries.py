"""Questions to torch's own libraries, which a compiled miniature answers: keys, aliases."""

from __future__ import annotations

import contextlib
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation import recover_torch
from abiscan.emulation.torch_libraries import _TorchProcess
from abiscan.emulation.torch_state import TorchState
from abiscan.registrations import Phase

SOURCE = """
static const char* names[] = {"Undefined", "CPU", "CUDA", "SparseUndefined", "UNKNOWN_TENSOR_TYPE_ID", "XLA",
                              "AutogradAll", "Composite", "Unknown4"};
const char* name(unsigned key) __asm__("_ZN3c108toStringENS_11DispatchKeyE");
const char* name(unsigned key) { return key < 9 ? names[key] : "UNKNOWN"; }
_Bool included(unsigned key, unsigned alias) __asm__("_ZN3c1017isIncludedInAliasENS_11DispatchKeyES0_");
_Bool included(unsigned key, unsigned alias) {
  switch (alias) {
    case 7: return key == 1 || key == 2 || key == 5 || key == 6 || key == 7;  /* torch counts every alias in */
    case 6: return key == 2 || key == 6;
    case 1: return 1;  /* nobody asks: 5 is no alias, and none is before it */
  }
  return key == alias;
}
"""

needs_gcc = pytest.mark.skipif(not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64")


@needs_gcc
def test_keys_and_aliases(tmp_path: Path) -> None:
    (tmp_path / "c10.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-w", "c10.c", "-o", "libc10.so"], check=True, cwd=tmp_path)
    found = recover_torch({"libc10.so": ElfFile.open(tmp_path / "libc10.so")}, Machine.X86_64)
    # A number before the first backend of a functionality is no key, except for that of the first one.
    assert found.keys == {0: "Undefined", 1: "CPU", 2: "CUDA", 5: "XLA", 6: "AutogradAll", 7: "Composite"}
    assert set(found.libraries) == {"libc10.so"}
    # Aliases are the last keys; they have no bit in a set, so they do not count as members of one another.
    assert found.aliases == {7: {1, 2, 5}, 6: {2}}


# ``c10::detail::infer_schema::make_function_schema`` (ATen/core/op_registration/infer_schema.h), of one argument: it
# asks for the argument's type, and leaves one ``c10::Argument`` of SIZE bytes. What else it is given makes it two.
SCHEMA_MAKER = """
struct definition { void (*type)(void*); void (*second)(void*); };
struct string { const char* text; unsigned long length; char room[16]; };
struct schema { struct string name, overload; char *given, *given_end, *given_room, *returned, *returned_end, *room; };
static char arguments[2 * SIZE];
static void fill(struct schema* made, struct definition* given, unsigned long count, unsigned long returned) {
  unsigned long type[3] = {1, 1, 1};  /* a TypePtr of two words, and what lies behind it */
  given->type(type);
  int as_agreed = count == 1 && returned == 0 && type[0] == 0 && type[1] == 0 && type[2] == 1;
  made->given = arguments;
  made->given_end = arguments + (as_agreed ? SIZE : 2 * SIZE);
  made->returned = made->returned_end = 0;
}
struct schema without_names(struct definition* given, unsigned long count, struct definition* back, unsigned long more)
  __asm__("_ZN3c106detail12infer_schema20make_function_schemaENS_8ArrayRefINS1_11ArgumentDefEEES4_");
struct schema with_names(struct string* name, struct string* overload, struct definition* given, unsigned long count,
                         struct definition* back, unsigned long more)
  __asm__("_ZN3c106detail12infer_schema20make_function_schemaEONSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_"
          "NS_8ArrayRefINS1_11ArgumentDefEEESB_");
#if NAMES
struct schema with_names(struct string* name, struct string* overload, struct definition* given, unsigned long count,
                         struct definition* back, unsigned long more) {
  struct schema made;
  int empty = name != overload && !name->length && !overload->length && !*name->text && !*overload->text;
  fill(&made, given, empty ? count : 2, more);
  return made;
}
#else
struct schema without_names(struct definition* given, unsigned long count, struct definition* back,
                            unsigned long more) {
  struct schema made;
  fill(&made, given, count, more);
  return made;
}
#endif
"""


def built(folder: Path, source: str, *options: str) -> ElfFile:
    (folder / "c10.c").write_text(source)
    command = ["gcc", "-O1", "-fPIC", "-shared", "-w", "-nostdlib", *options, "c10.c", "-o", "libc10.so"]
    subprocess.run(command, check=True, cwd=folder)
    return ElfFile.open(folder / "libc10.so")


def argument_tail(file: ElfFile) -> int | None:
    with contextlib.closing(_TorchProcess({"libc10.so": file}, Machine.X86_64)) as torch:
        return torch._argument_tail(TorchState(torch.process, frozenset(), torch.recorder))


@needs_gcc
@pytest.mark.parametrize("names", [False, True], ids=["without names", "with names"])
@pytest.mark.parametrize("tail", [80, 64, 208])  # from 1.12 on, 1.11, from 1.6 on (ATen/core/function_schema.h)
def test_the_size_of_an_argument_is_asked_for(tmp_path: Path, tail: int, names: bool) -> None:
    """Torch 1.6 and later exports one form that takes names, or one that takes none, or both."""
    file = built(tmp_path, SCHEMA_MAKER, f"-DSIZE={32 + tail}", f"-DNAMES={int(names)}")
    assert argument_tail(file) == tail


@needs_gcc
def test_a_torch_that_makes_schemas_inline_is_not_asked(tmp_path: Path) -> None:
    assert argument_tail(built(tmp_path, "int nothing;")) is None


INITIALISERS = """
__attribute__((constructor(101))) void breaks(void) { __asm__("nop; nop; .globl place; place: ud2"); }
__attribute__((constructor(102))) void leaves(void) { ((void (*)(void))0x123450000)(); }
__attribute__((constructor(103))) void ends(void) {}
"""


@needs_gcc
def test_an_initialiser_that_does_not_finish_is_a_gap_where_it_stopped(tmp_path: Path) -> None:
    """Where the code went out of the library, the gap is at the function that was started."""
    file = built(tmp_path, INITIALISERS)
    addresses = {
        line.split()[2]: int(line.split()[0], 16)
        for line in subprocess.run(
            ["nm", tmp_path / "libc10.so"], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        if len(line.split()) == 3
    }
    gaps = recover_torch({"libc10.so": file}, Machine.X86_64).libraries["libc10.so"].gaps
    assert [(gap.stage, gap.address) for gap in gaps] == [
        ("emulation of torch", addresses["place"]),
        ("emulation of torch", addresses["leaves"]),
    ]
    assert gaps[1].symbol == "leaves"


# c10::Registry (c10/util/Registry.h) begins with two std::unordered_map by std::string: of creators, and of priorities.
REGISTRIES = """
struct node { struct node* next; const char* text; unsigned long size; char room[16]; int priority; };
struct table { void* buckets; long count; struct node* first; long elements; float load; long limit; void* own; };
struct registry { struct table creators, priorities; };
static const char a[] = "a", b[] = "bb", c[] = "c";
static struct node creators[3], priorities[2];
static struct registry first, second, empty;
static struct node made(struct node* next, const char* text, int size, int priority) {
  struct node made = { next, text, size, {0}, priority };
  return made;
}
__attribute__((constructor)) void fill(void) {
  creators[0] = made(0, a, 1, 0); creators[1] = made(&creators[0], b, 2, 0);
  priorities[0] = made(0, a, 1, 1); priorities[1] = made(&priorities[0], b, 2, 3);
  first.creators.first = &creators[1]; first.creators.elements = 2;
  first.priorities.first = &priorities[1]; first.priorities.elements = 2;
  creators[2] = made(0, c, 1, 0);
  second.creators.first = &creators[2]; second.creators.elements = 1;
}
struct registry* one(void) __asm__("_ZN3c1011OneRegistryB5cxx11Ev");
struct registry* one(void) { return &first; }
struct registry* two(void) __asm__("_ZN3c1011TwoRegistryB5cxx11Ev");
struct registry* two(void) { return &second; }
struct registry* zero(void) __asm__("_ZN2at12NoneRegistryB5cxx11Ev");
struct registry* zero(void) { return &empty; }
struct registry* null(void) __asm__("_ZN2at12NullRegistryB5cxx11Ev");
struct registry* null(void) { return 0; }
const char* not_one(void) __asm__("_ZN3c1012GetRegistryXEv");
const char* not_one(void) { return a; }
"""


@needs_gcc
def test_the_entries_of_registries(tmp_path: Path) -> None:
    """Those with priorities, which are ``c10::Registry`` objects, by the names of the registries."""
    found = recover_torch({"libc10.so": built(tmp_path, REGISTRIES)}, Machine.X86_64)
    assert [(entry.what, entry.key, entry.priority, entry.order, entry.phase) for entry in found.registries] == [
        ("OneRegistry", "a", 1, 0, Phase.STATIC_INIT),
        ("OneRegistry", "bb", 3, 1, Phase.STATIC_INIT),
    ]
