"""Every field of ``SharedObject``, against what was put into the file or what ``readelf`` says of it."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from abiscan.binary import elf as elf_module
from abiscan.binary.elf import ElfFile, Machine, Reference, SharedObject, SymbolVersion
from abiscan.binary.symbols import Definition, SymbolTable
from abiscan.errors import AbiscanError, InputError, NotElfError
from tests.elf_builder import (
    DF_1_PIE,
    EM_AARCH64,
    ET_EXEC,
    ET_REL,
    SHN_ABS,
    STB_GNU_UNIQUE,
    STB_LOCAL,
    STB_WEAK,
    STT_FUNC,
    STT_TLS,
    STV_HIDDEN,
    STV_INTERNAL,
    STV_PROTECTED,
    Defined,
    Elf,
    Undefined,
    exports,
    uses,
)
from tests.fakes import SAMPLES


def read(elf: Elf) -> SharedObject:
    return ElfFile.from_bytes(elf.build(), "built.so").facts()


def sample(name: str) -> SharedObject:
    with_extension = SAMPLES / name
    return ElfFile.open(with_extension).facts()


def names(facts: SharedObject) -> set[str]:
    return set(facts.symbols.starting_with(""))


@pytest.mark.parametrize(("number", "machine"), [(62, Machine.X86_64), (183, Machine.AARCH64)])
def test_machine(number: int, machine: Machine) -> None:
    assert read(Elf(machine=number)).machine is machine


@pytest.mark.parametrize(
    ("elf", "executable"), [(Elf(), False), (Elf(type=ET_EXEC), True), (Elf(flags_1=DF_1_PIE), True)]
)
def test_a_program_is_told_from_a_library(elf: Elf, executable: bool) -> None:
    assert read(elf).executable is executable


def test_dynamic_section() -> None:
    facts = read(Elf(soname="liba.so.1", needed=("libz.so.1", "libb.so", "libz.so.1"), rpath="/a:$ORIGIN/b"))
    assert (facts.soname, facts.needed) == ("liba.so.1", ("libz.so.1", "libb.so", "libz.so.1"))
    assert (facts.rpath, facts.runpath) == (("/a", "$ORIGIN/b"), ())


def test_runpath_is_apart_from_rpath() -> None:
    facts = read(Elf(runpath="$ORIGIN/../lib:/c"))
    assert (facts.rpath, facts.runpath) == ((), ("$ORIGIN/../lib", "/c"))


def test_an_object_that_says_nothing() -> None:
    facts = read(Elf())
    assert (facts.soname, facts.needed, facts.rpath, facts.runpath, facts.build_id) == (None, (), (), (), None)
    assert (facts.version_needs, facts.version_definitions, facts.references) == ((), None, ())
    assert facts.imports == frozenset()
    assert (facts.pybind11_internals, facts.pybind11_python, facts.python_modules) == (None, (), ())
    assert names(facts) == set()


def test_build_id() -> None:
    assert read(Elf(build_id=bytes(range(20)))).build_id == bytes(range(20)).hex()


@pytest.mark.parametrize("table", ["gnu", "sysv"])
@pytest.mark.parametrize("machine", [62, EM_AARCH64])
def test_definitions(table: str, machine: int) -> None:
    wanted = {f"symbol_{number}": number for number in range(37)}
    defined = tuple(Defined(name=name, size=size, type=STT_FUNC) for name, size in wanted.items())
    facts = read(Elf(machine=machine, hash=table, defined=defined, undefined=uses("elsewhere")))  # type: ignore[arg-type]
    assert names(facts) == set(wanted)
    for name, size in wanted.items():
        (definition,) = facts.symbols.find(name)
        assert definition == Definition(None, False, 0, STT_FUNC, size)


def test_names_with_a_prefix_are_the_same_however_often_one_asks() -> None:
    """Of many questions, the first are answered by looking at all names, the others in a sorted list."""
    defined = ["a", "ab", "ab.c", "abc", "b", "ab\U0010ffff", "a\U0010ffffb"]
    symbols = read(Elf(defined=exports(*defined))).symbols
    for prefix in ("", "a", "ab", "abc", "abcd", "b", "c", "ab\U0010ffff") * 5:
        assert set(symbols.starting_with(prefix)) == {name for name in defined if name.startswith(prefix)}
        assert set(symbols.starting_with(prefix, "zz")) == set(symbols.starting_with(prefix))
    for asked in range(20):
        assert sorted(symbols.starting_with("b", "abc")) == ["abc", "b"], asked


def test_no_definition_of_that_name() -> None:
    assert read(Elf(defined=exports("here"))).symbols.find("there") == ()


@pytest.mark.parametrize(
    "symbol",
    [
        Defined(name="f", visibility=STV_PROTECTED),
        Defined(name="f", binding=STB_WEAK),
        Defined(name="f", binding=STB_GNU_UNIQUE),
        Defined(name="f", type=STT_TLS, value=0),
        Defined(name="f", section=SHN_ABS, value=0),
    ],
    ids=["protected", "weak", "unique", "thread-local at 0", "absolute at 0"],
)
def test_what_others_can_bind_to(symbol: Defined) -> None:
    assert names(read(Elf(defined=(symbol,)))) == {"f"}


@pytest.mark.parametrize(
    "symbol",
    [
        Defined(name="f", visibility=STV_HIDDEN),
        Defined(name="f", visibility=STV_INTERNAL),
        Defined(name="f", binding=STB_LOCAL),
        Defined(name="f", value=0),
    ],
    ids=["hidden", "internal", "local", "at 0"],
)
def test_what_others_cannot_bind_to(symbol: Defined) -> None:
    assert names(read(Elf(defined=(symbol,)))) == set()


def test_versions_of_definitions() -> None:
    facts = read(
        Elf(
            soname="libv.so",
            defined=(
                Defined(name="f", version="V_1", hidden=True),
                Defined(name="f", version="V_2"),
                Defined(name="g"),
            ),
            version_definitions=("V_0",),
        )
    )
    assert facts.version_definitions == frozenset(("V_0", "V_1", "V_2"))  # not the base version, which is the soname
    assert {(d.version, d.hidden, d.version_index) for d in facts.symbols.find("f")} == {
        ("V_1", True, 3),
        ("V_2", False, 4),
    }
    assert [(d.version, d.hidden, d.version_index) for d in facts.symbols.find("g")] == [(None, False, 1)]


def test_a_base_version_alone_is_not_the_same_as_none() -> None:
    assert read(Elf(version_definitions=())).version_definitions == frozenset()


def test_version_needs() -> None:
    facts = read(
        Elf(
            undefined=(Undefined(name="memcpy", version=("libc.so.6", "GLIBC_2.14")),),
            version_needs=(("libm.so.6", "GLIBC_2.27", True), ("libc.so.6", "GLIBC_2.2.5", False)),
        )
    )
    assert set(facts.version_needs) == {
        SymbolVersion("libm.so.6", "GLIBC_2.27", weak=True),
        SymbolVersion("libc.so.6", "GLIBC_2.2.5"),
        SymbolVersion("libc.so.6", "GLIBC_2.14"),
    }
    assert facts.references == (Reference("memcpy", SymbolVersion("libc.so.6", "GLIBC_2.14"), weak=False),)


def test_references_stand_in_the_order_of_the_relocations() -> None:
    facts = read(
        Elf(
            undefined=(
                Undefined(name="late", relocation="plt"),
                Undefined(name="second"),
                Undefined(name="unused", relocation=None),
                Undefined(name="third", weak=True),
                Undefined(name="second"),
            )
        )
    )
    assert [(reference.name, reference.weak) for reference in facts.references] == [
        ("second", False),
        ("third", True),
        ("late", False),
    ]
    assert facts.imports == {"late", "second", "unused", "third"}


def test_symbols_are_counted_by_the_relocations_if_nothing_else_counts_them() -> None:
    facts = read(Elf(hash="none", undefined=uses("a", "b", "c")))
    assert [reference.name for reference in facts.references] == ["a", "b", "c"]


def test_symbols_are_counted_by_the_relocations_if_the_hash_table_has_none() -> None:
    facts = read(Elf(hash="gnu", undefined=uses("a", "b", "c")))
    assert [reference.name for reference in facts.references] == ["a", "b", "c"]


def test_python_modules() -> None:
    assert read(Elf(defined=exports("PyInit_b", "PyInit_a", "PyInitialize"))).python_modules == ("a", "b")


def test_pybind11_internals() -> None:
    module = Elf(texts=(b"__pybind11_internals_v4_gcc__",), undefined=uses("PyModule_Create2"))
    assert read(module).pybind11_internals == "__pybind11_internals_v4_gcc__"
    assert read(Elf(texts=module.texts)).pybind11_internals is None  # it does not use Python


def test_python_versions_that_pybind11_compares_with() -> None:
    check = b"Python version mismatch: module was compiled for Python %s, but the interpreter version is %s."
    python = uses("Py_GetVersion")
    assert read(Elf(texts=(check, b"3.12", b"1.3.11", b"3.125"), undefined=python)).pybind11_python == ("3.12",)
    assert read(Elf(texts=(b"3.12",), undefined=python)).pybind11_python == ()
    assert read(Elf(texts=(check, b"3.12"))).pybind11_python == ()


def test_a_name_that_is_not_utf8() -> None:
    facts = read(Elf(defined=exports("caf\udce9")))  # the byte E9
    assert names(facts) == {"caf\\xe9"}


# What readelf 2.40 says of the committed samples: -dW, -nW, -VW, -rW, --dyn-syms.


def test_sample_with_a_runpath() -> None:
    facts = sample("sibling_rpath/sibling_rpath.so")
    assert facts.needed == (
        *("libsibling.so", "libtorch_cpu.so", "libc10.so", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6"),
    )
    assert (facts.soname, facts.rpath, facts.runpath) == (None, (), ("$ORIGIN/lib",))
    assert facts.build_id == "9380f2406f2791a17823801cd6aef19a8c6d4233"
    assert [(str(reference), reference.weak) for reference in facts.references] == [
        ("_ITM_registerTMCloneTable", True),
        ("_ITM_deregisterTMCloneTable", True),
        ("__cxa_finalize@GLIBC_2.2.5", True),
        ("__gmon_start__", True),
        ("_ZN2at15get_num_threadsEv", False),
        ("abiscan_sibling", False),
    ]
    assert names(facts) == {"_end", "_edata", "__bss_start", "_Z11abiscan_sumv"}
    assert facts.symbols.find("_Z11abiscan_sumv") == (Definition(None, False, 1, STT_FUNC, 17),)


def test_sample_with_a_version() -> None:
    facts = sample("symbol_version/symbol_version.so")
    version = SymbolVersion("libstdc++.so.6", "GLIBCXX_3.4.99")
    assert (facts.version_needs, facts.version_definitions) == ((version,), None)
    assert facts.references == (
        Reference("abiscan_from_a_newer_libstdcxx", version, weak=False),
        Reference("_ZN2at15get_num_threadsEv", None, weak=False),
    )


def test_sample_of_a_python_module() -> None:
    facts = sample("python_abi_tag/python_abi_tag.cpython-312-x86_64-linux-gnu.so")
    assert facts.python_modules == ("python_abi_tag",)
    assert facts.imports == {
        *("PyLong_FromLong", "PyModule_Create2", "PyType_GetDict", "_ZN2at15get_num_threadsEv"),
        *("_ITM_registerTMCloneTable", "_ITM_deregisterTMCloneTable", "__cxa_finalize", "__gmon_start__"),
    }


def test_sample_for_aarch64() -> None:
    facts = sample("architecture/architecture.so")
    assert (facts.machine, facts.executable) == (Machine.AARCH64, False)
    assert facts.needed == ("libtorch_cpu.so", "libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6")
    assert facts.version_needs == (SymbolVersion("libc.so.6", "GLIBC_2.17"),)
    assert [reference.name for reference in facts.references] == [
        *("__cxa_finalize", "_ITM_deregisterTMCloneTable", "__gmon_start__", "_ITM_registerTMCloneTable"),
        "_ZN2at15get_num_threadsEv",
    ]


def test_sample_with_pybind11() -> None:
    facts = sample("pybind11_internals/pybind11_internals.so")
    assert facts.pybind11_internals == "__pybind11_internals_v4_gcc_libstdcpp_cxxabi1017__"
    assert len(facts.version_needs) == 15
    assert sample("python_abi/python_abi.so").pybind11_python == ("3.12",)


def test_a_file_and_its_bytes_say_the_same() -> None:
    path = SAMPLES / "loads" / "loads.so"
    on_disk, in_memory = ElfFile.open(path).facts(), ElfFile.from_bytes(path.read_bytes(), "loads.so").facts()
    assert (on_disk.references, on_disk.needed) == (in_memory.references, in_memory.needed)
    assert names(on_disk) == names(in_memory) != set()


def test_bytes_by_address() -> None:
    elf = ElfFile.from_bytes(Elf(texts=(b"here",)).build(), "built.so")
    (at,) = elf.find_in_data(b"here")
    assert bytes(elf.bytes_at(at, 4)) == b"here"  # the builder puts every byte at its own offset
    assert bytes(elf.tail_at(at)[:4]) == b"here"
    with pytest.raises(NotElfError, match=r"built\.so: damaged: no segment contains"):
        elf.bytes_at(1 << 40, 4)


def with_functions(starts: Sequence[int], texts: tuple[bytes, ...]) -> bytes:
    """An object of one segment, readable and executable, whose table for exceptions has functions at these places."""
    data = bytearray(Elf(texts=texts, build_id=bytes(12 + 8 * len(starts))).build())
    struct.pack_into("<I", data, 64 + 4, 5)  # the first program header: PF_R | PF_X
    note = 64 + 2 * 56
    at = struct.unpack_from("<Q", data, note + 8)[0] + 16  # behind the head of the note
    struct.pack_into("<IIQQQQ", data, note, 0x6474E550, 4, at, at, at, 12 + 8 * len(starts))
    struct.pack_into("<BBBBiI", data, at, 1, 0x1B, 3, 0x3B, 0, len(starts))
    for number, start in enumerate(starts):
        struct.pack_into("<ii", data, at + 12 + 8 * number, start - at, 0)
    return bytes(data)


def test_texts_lie_before_and_behind_the_functions_of_a_segment_for_all() -> None:
    texts = (b"a constant 1", b"a constant 2", b"a constant 3")
    places = [with_functions((0, 0), texts).index(text) for text in texts]
    starts = [places[1], places[2] - 1]  # the second text is in the code of the first function
    elf = ElfFile.from_bytes(with_functions(starts, texts), "built.so")
    assert elf.function_starts == starts
    assert list(elf.find_in_data(b"a constant")) == [places[0], places[2]]
    assert [match[0] for match in elf.search_data(re.compile(rb"a constant \d"))] == [texts[0], texts[2]]


def test_without_a_table_of_functions_texts_are_looked_for_everywhere() -> None:
    data = with_functions((), (b"a constant 1", b"a constant 2"))
    elf = ElfFile.from_bytes(data, "built.so")
    assert elf.function_starts == []
    assert [data[at : at + 12] for at in elf.find_in_data(b"a constant")] == [b"a constant 1", b"a constant 2"]


@pytest.mark.parametrize("piece", range(1, 20))
def test_a_text_is_found_wherever_the_pieces_end(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = with_functions((), (b"aba", b"ababa", b"ab", b"aba"))
    (tmp_path / "built.so").write_bytes(data)
    monkeypatch.setattr(elf_module, "_PIECE", piece)
    elf = ElfFile.open(tmp_path / "built.so")
    for text in (b"aba", b"ab", b"a"):
        assert list(elf.find_in_data(text)) == list(ElfFile.from_bytes(data, "built.so").find_in_data(text)) != []


def test_symbols_in_memory_are_a_mapping() -> None:
    definition = Definition(None, False, 0, STT_FUNC, 1)
    table = SymbolTable({"ab": (definition,), "b": (definition,)})
    assert dict(table) == {"ab": (definition,), "b": (definition,)}
    assert (len(table), list(table.starting_with("a"))) == (2, ["ab"])


PT_DYNAMIC = 2
GOOD = Elf(defined=exports("f"), undefined=uses("g")).build()


def patched(offset: int, form: str, value: int) -> bytes:
    data = bytearray(GOOD)
    struct.pack_into(form, data, offset, value)
    return bytes(data)


def test_physical_addresses_mean_nothing() -> None:
    """The gABI, chapter 5: System V ignores them for application programs."""
    data = bytearray(GOOD)
    (count,) = struct.unpack_from("<H", data, 56)
    for number in range(count):
        struct.pack_into("<Q", data, 64 + 56 * number + 24, 0xDEAD000)
    moved, as_built = (ElfFile.from_bytes(bytes(each), "it") for each in (data, GOOD))
    assert moved.entries == as_built.entries
    assert names(moved.facts()) == names(as_built.facts()) == {"f"}


def with_entries(**values: int) -> bytes:
    """The file with other values in its dynamic section."""
    tags, data = {"STRTAB": 5, "RELAENT": 9}, bytearray(GOOD)
    at = next(h[2] for h in struct.iter_unpack("<IIQQQQQQ", GOOD[64 : 64 + 56 * 2]) if h[0] == PT_DYNAMIC)
    for name, value in values.items():
        place = next(place for place in range(at, len(data), 16) if data[place] == tags[name])
        struct.pack_into("<Q", data, place + 8, value)
    return bytes(data)


def test_tables_of_a_file_that_the_loader_refuses_may_be_anything() -> None:
    """ld.so asserts the size of an entry (get-dynamic-info.h) before it reads any table."""
    nowhere = 0xFFFF_FFF0
    with pytest.raises(NotElfError, match="no segment contains"):
        ElfFile.from_bytes(with_entries(STRTAB=nowhere), "it").facts()
    refusal = ElfFile.from_bytes(with_entries(STRTAB=nowhere, RELAENT=8), "it").facts().refusal
    assert refusal is not None
    assert "d_un.d_val == sizeof (ElfW(Rela))" in refusal.message


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "an empty file, not a Linux shared object"),
        (b"not a library\n", "a text file, not a Linux shared object"),
        (b"\xcf\xfa\xed\xfe" + bytes(60), "a Mach-O file"),
        (b"\xca\xfe\xba\xbe" + bytes(60), "a Mach-O universal file"),
        (b"MZ\x90\0" + bytes(60), "a PE file"),
        (b"!<arch>\nfoo.o/", "a static archive"),
        (b"PK\x03\x04" + bytes(60), "a zip archive"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer, not the file itself"),
        (b"/* GNU ld script */ INPUT(-lc)", "a linker script"),
        (bytes(range(128, 192)), "not an ELF file"),
        (GOOD[:40], "truncated inside the ELF header"),
        (GOOD[:-100], "truncated"),
        (patched(4, "B", 1), "a 32-bit ELF file"),
        (patched(5, "B", 2), "a big-endian ELF file"),
        (patched(16, "<H", ET_REL), "an object file or core dump"),
        (patched(18, "<H", 243), "built for RISCV"),
        (patched(18, "<H", 60_000), "built for machine number 60000"),
        (patched(64 + 56, "<I", 0), "it has no dynamic section"),
    ],
)
def test_bad_input_is_named(data: bytes, problem: str, tmp_path: Path) -> None:
    with pytest.raises(NotElfError) as in_memory:
        ElfFile.from_bytes(data, "bad.so").facts()
    assert problem in str(in_memory.value)
    assert str(in_memory.value).startswith("bad.so: ")
    path = tmp_path / "bad.so"
    path.write_bytes(data)
    with pytest.raises(NotElfError) as on_disk:
        ElfFile.open(path).facts()
    assert str(on_disk.value).startswith(f"{path}: ")
    assert problem in str(on_disk.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file or directory"):
        ElfFile.open(tmp_path / "absent.so")


@pytest.mark.parametrize("size", [*range(0, 64, 9), 65, 120, 200, 400, 700])
def test_a_truncated_file(size: int) -> None:
    whole = (SAMPLES / "symbol_version" / "symbol_version.so").read_bytes()
    with pytest.raises(NotElfError):
        ElfFile.from_bytes(whole[:size], "cut.so").facts()


@pytest.mark.parametrize("seed", range(8))
def test_random_damage_raises_nothing_but_our_errors(seed: int) -> None:
    chance = random.Random(seed)
    rich = Elf(
        soname="librich.so",
        needed=("liba.so",),
        runpath="$ORIGIN",
        build_id=bytes(20),
        defined=(*exports("a", "b"), Defined(name="v", version="V_1")),
        undefined=(*uses("x"), Undefined(name="y", version=("liba.so", "A_1"), relocation="plt")),
        hash="gnu" if seed % 2 else "sysv",
    ).build()
    refused: list[str] = []
    for _ in range(150):
        data = bytearray(rich)
        for _ in range(chance.randint(1, 12)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        try:
            ElfFile.from_bytes(bytes(data), "damaged.so").facts()
        except AbiscanError as error:
            refused.append(str(error))
    assert len(refused) > 20  # the damage is real
    assert all(text.startswith("damaged.so: ") for text in refused)
