"""Operators that are fetched by name: what is found is what one reads in the sample's source, in every build."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import recover
from abiscan.emulation.aten import operators_behind, struct_of
from abiscan.emulation.lookups import imported_operators
from abiscan.gaps import Gap
from abiscan.registrations import Lookup

SAMPLES = Path(__file__).parents[3] / "sample_binaries" / "registrations"

CONSTANT = {
    ("at::_ops", "aten::add_.Tensor"),
    ("at::_ops", "aten::_cdist_forward"),
    ("at::_ops", "aten::sum.dim_IntList"),
    ("c10::Dispatcher::findSchemaOrThrow", "lookup_sample::rather_long_name_of_an_operator.some_overload"),
    ("c10::Dispatcher::findSchemaOrThrow", "lookup_sample::short"),
    ("c10::Dispatcher::findSchema", "lookup_sample::in_find_schema.out"),
    ("c10::Dispatcher::findOp", "lookup_sample::op"),
    ("c10::Dispatcher::findOp", "lookup_sample::first"),
    ("c10::Dispatcher::findOp", "lookup_sample::second"),
    ("c10::Dispatcher::findOp", "lookup_sample::third"),
    ("torch::jit::findOperatorFor", "lookup_sample::jit.Tensor"),
    ("torch::jit::getOperatorForLiteral", "lookup_sample::literal.x"),
    ("torch::jit::getAllOperatorsFor", "lookup_sample::all_overloads"),
    ("c10::Symbol::fromQualString", "lookup_sample::all_overloads"),
    ("aoti_torch_call_dispatcher", "lookup_sample::shim"),
    ("torch_call_dispatcher", "lookup_sample::versioned.overload"),
}
NOT_CONSTANT = [
    ("c10::Dispatcher::findOp", "_Z12not_constant"),
    ("c10::Dispatcher::findSchemaOrThrow", "_Z12not_constant"),
    ("torch::jit::getAllOperatorsFor", "_Z15known_by_number"),
]


@pytest.mark.parametrize("name", ["lookups", "lookups_unoptimised", "lookups_cow", "lookups_aarch64"])
def test_every_constant_name_is_read_and_every_other_is_a_gap(name: str) -> None:
    file = ElfFile.open(SAMPLES / f"{name}.so")
    found = recover(file, file.facts())
    assert {(lookup.function, lookup.operator) for lookup in found.lookups} == CONSTANT
    assert len(found.lookups) == len(CONSTANT)
    for lookup in found.lookups:
        assert (lookup.address is None) == (lookup.function == "at::_ops")
    gaps = sorted((gap.reason.split()[1], (gap.symbol or "").partition("v")[0].partition("P")[0]) for gap in found.gaps)
    assert gaps == NOT_CONSTANT
    assert {gap.stage for gap in found.gaps} == {"lookups"}
    # Running pieces of functions registers nothing.
    assert not found.operators
    assert not found.kernels


# Strings as optimised code handles them, without the headers. Each function has one name to look up.
SYMBOLS = """
struct string { char *text; unsigned long size; char local[16]; };
#define STRING "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
void append(struct string *, const char *, unsigned long)
  __asm__("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm");
unsigned symbol(const struct string *) __asm__("_ZN3c106Symbol14fromQualStringERK" STRING);
#define EMPTY(s) struct string s; s.text = s.local; s.size = 0

unsigned leaves_the_direction_flag_set(const struct string *name) {
  __asm__ volatile("std" ::: "memory");
  unsigned number = symbol(name);
  __asm__ volatile("cld" ::: "memory");
  return number;
}
unsigned a_constant(void) {
  EMPTY(s);
  append(&s, "aten::", 6);
  append(&s, "a_name_that_is_rather_long", 26);
  return symbol(&s);
}
unsigned an_attribute(const char *name, unsigned long size) {
  EMPTY(s);
  append(&s, "attr::", 6);
  append(&s, name, size);
  return symbol(&s);
}
unsigned an_operator(const char *name, unsigned long size) {
  EMPTY(s);
  append(&s, "aten::", 6);
  append(&s, name, size);
  return symbol(&s);
}
"""


@pytest.mark.skipif(not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64")
def test_a_symbol_is_an_operators_unless_its_domain_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "symbols.c").write_text(SYMBOLS)
    # In the order of the source: what one of them leaves behind, the next one finds.
    command = ["gcc", "-O1", "-fno-toplevel-reorder", "-fPIC", "-shared", "symbols.c", "-o", "symbols.so"]
    subprocess.run(command, check=True, cwd=tmp_path)
    file = ElfFile.open(tmp_path / "symbols.so")
    found = recover(file, file.facts())
    assert [lookup.operator for lookup in found.lookups] == ["aten::a_name_that_is_rather_long"]
    assert [gap.symbol for gap in found.gaps] == ["leaves_the_direction_flag_set", "an_operator"]
    assert {gap.reason for gap in found.gaps} == {
        "calls c10::Symbol::fromQualString with a name that is not a constant"
    }


@pytest.mark.parametrize(
    ("symbol", "operators"),
    [
        ("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE", ("aten::add.Tensor",)),
        ("_ZN2at4_ops11add__Tensor4callERNS_6TensorERKS2_RKN3c106ScalarE", ("aten::add_.Tensor",)),
        ("_ZN2at4_ops11all_all_out4callERKNS_6TensorERS2_", ("aten::all.all_out",)),
        ("_ZN2at4_ops3cat10redispatchEN3c1014DispatchKeySetE", ("aten::cat",)),
        ("_ZN2at4_ops10__iand___Scalar", ()),  # nothing has such a name
        ("_ZN2at4_ops15__iand___Tensor4callERNS_6TensorERKS2_", ("aten::__iand__.Tensor",)),
        # Renamed: the one up to 1.11, the other from 1.12 on.
        (
            "_ZN2at4_ops17normal_functional4callERKNS_6TensorEddN3c108optionalINS_9GeneratorEEE",
            ("aten::normal.functional", "aten::normal_functional"),
        ),
        ("_ZN2at3addERKNS_6TensorES2_RKN3c106ScalarE", None),
        ("_ZN2at4_ops", None),
        ("_ZN2at4_ops99x", ()),
        pytest.param("_ZN2at4_ops" + "1" * 5000, None, id="more digits than int() takes"),
        pytest.param("_ZN2at4_ops9999" + "_" * 9999, (), id="more underscores than an operator has"),
    ],
)
def test_a_struct_of_at_ops_is_an_operator(symbol: str, operators: tuple[str, ...] | None) -> None:
    assert operators_behind(symbol) == operators


def test_structs_are_named_after_operators() -> None:
    assert struct_of("aten::_foo_bar.Tensor_out") == "_foo_bar_Tensor_out"


def test_what_imports_of_structs_say() -> None:
    add = "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE"
    again = "_ZN2at4_ops10add_Tensor10redispatchEN3c1014DispatchKeySetERKNS_6TensorES5_RKNS1_6ScalarE"
    renamed = "_ZN2at4_ops17normal_functional4callERKNS_6TensorEddN3c108optionalINS_9GeneratorEEE"
    normal = ("aten::normal.functional", "aten::normal_functional")
    found = list(imported_operators([renamed, again, "malloc", add, "_ZN2at4_ops99x"]))
    assert found == [
        Lookup(operator="aten::add.Tensor", function="at::_ops", address=None),
        Gap(
            stage="lookups",
            reason=f"the imported struct of at::_ops could be that of {' or '.join(normal)}",
            address=None,
            symbol=renamed,
        ),
        Gap(
            stage="lookups",
            reason="the imported struct of at::_ops is in no known release",
            address=None,
            symbol="_ZN2at4_ops99x",
        ),
    ]


ASSEMBLY = """
        .intel_syntax noprefix
        .section .rodata
name:   .string "aten::to"
other:  .string "aten::add"
over:   .string "dtype"
versions: .quad 0x020a000000000000, 0
        .text
        .globl f
        .type f, @function
f:      .cfi_startproc
        {code}
        .cfi_endproc
        .size f, .-f
        .globl g
        .type g, @function
g:      .cfi_startproc
        nop
        ret
        .cfi_endproc
        .section .note.GNU-stack,"",@progbits
"""
# The code of a function, and what it looks up; None for a call whose name is not constant. A run of the whole function,
# which does not know its arguments, does not get to the calls.
STOPS, ARGUMENTS = (
    "mov rdi, [rdi]; mov rdi, [rdi+8]; cmp byte ptr [rdi], 42; jne 2f",
    "lea rsi, over[rip]; xor edx, edx",
)
CALL, JUMP = "call torch_call_dispatcher@PLT", "jmp torch_call_dispatcher@PLT"
NAMED = f"lea rdi, name[rip]; {ARGUMENTS}"
CODES = {
    "at the end of a function": (f"{STOPS}; {NAMED}; 2: {CALL}", ["aten::to.dtype"]),
    "behind an instruction that fails": (
        f"{STOPS}; mov ecx, 1; mov [rcx], rdx; {NAMED}; {CALL}; 2: ret",
        ["aten::to.dtype"],
    ),
    "behind several": (
        f"{STOPS}; xor ecx, ecx; mov [rcx], rdx; mov [rcx+8], rdx; {NAMED}; {CALL}; 2: ret",
        ["aten::to.dtype"],
    ),
    "behind one that fails and begins a block": (
        f"{STOPS}; mov dword ptr ds:0x10, edx; {NAMED}; {CALL}; 2: ret",
        ["aten::to.dtype"],
    ),
    "a jump": (f"{STOPS}; {NAMED}; {JUMP}; 2: ret", ["aten::to.dtype"]),
    "a jump behind a call of the same": (
        f"{STOPS}; {NAMED}; {CALL}; mov rdi, [r15]; {ARGUMENTS}; {JUMP}; 2: ret",
        ["aten::to.dtype", None],
    ),
    "a call behind a call of the same": (
        f"{STOPS}; {NAMED}; {CALL}; lea rdi, other[rip]; {ARGUMENTS}; {CALL}; 2: ret",
        ["aten::to.dtype", "aten::add.dtype"],
    ),
    "the name comes from the caller": (f"{STOPS}; mov rdi, [r15]; {CALL}; 2: ret", [None]),
}


@pytest.mark.skipif(not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64")
@pytest.mark.parametrize(("code", "expected"), CODES.values(), ids=CODES)
def test_what_is_read_from_the_code_before_a_call(tmp_path: Path, code: str, expected: list[str | None]) -> None:
    (tmp_path / "f.s").write_text(ASSEMBLY.format(code=code))
    subprocess.run(["gcc", "-shared", "-nostdlib", "f.s", "-o", "f.so"], check=True, cwd=tmp_path)
    file = ElfFile.open(tmp_path / "f.so")
    found = recover(file, file.facts())
    assert [lookup.operator for lookup in found.lookups] == [name for name in expected if name]
    assert len(found.gaps) == expected.count(None)
