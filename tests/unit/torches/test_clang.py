"""Headers that clang lays out: the expected sizes, offsets and slots follow from the Itanium C++ ABI, 2.4 and 2.5."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from abiscan.binary.elf import Machine
from abiscan.torches import clang
from abiscan.torches.clang import ClangError, ClangLibrary, ClangProgram, Include

LIBRARY = """#pragma once
namespace at { struct Plain { int number; char letter; double real; }; }
namespace other { struct NotTorch { int x; virtual void f(); }; }
"""
ATEN = """#pragma once
#include <torch/library.h>
// C++17 or later
extern "C++" { namespace c10 {
struct Base { virtual void first(); virtual int second(int number) const; virtual ~Base(); int member;
  void plain(int); static int counted(); template <class T> T made(); };
struct Side { virtual void side(); };
struct Derived : Base, Side {
  int second(int) const override;
  void side() override;
  virtual void second(int);
  virtual operator bool() const;
  virtual void tied() &;
};
struct Implicit : Base { };
struct Nested { struct Inner { char c; virtual void g(); }; };
template <class T> struct Made { virtual void take(T value); virtual ~Made(); };
struct OfMade : Made<int> { virtual void more(); };
struct NoTable : at::Plain { short more; };
} }
"""
CLASSES = (
    *(f"c10::{name}" for name in ("Base", "Side", "Derived", "Implicit", "Nested::Inner", "OfMade", "NoTable")),
    *("at::Plain", "other::NotTorch"),
)
DESTRUCTOR = ["~ [complete]", "~ [deleting]"]


@pytest.fixture
def include(tmp_path: Path) -> Include:
    for name, text in {"torch/library.h": LIBRARY, "ATen/ATen.h": ATEN}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return Include(folder=tmp_path, machine=Machine.X86_64, cxx11=True)


def asked(
    include: Include,
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *headers: str,
    classes: Sequence[str] = CLASSES,
) -> dict[str, Any]:
    """The slots that ``torches.libclang`` writes, called in this process."""
    pytest.importorskip("clang.cindex")
    from abiscan.torches import libclang

    question = {"flags": include.flags, "headers": headers or clang.NEEDED, "classes": classes}
    monkeypatch.setattr(libclang, "_FLAGS", ("-x", "c++"))  # without the dump, which it prints as the process ends
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(question)))
    libclang.main()
    found: dict[str, Any] = json.loads((folder / clang.VTABLES).read_text())
    return found


def test_the_slots_of_virtual_tables(include: Include, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """2.5.2: those of the primary base, then one for each virtual function that overrides none of them."""
    found = asked(include, monkeypatch, tmp_path)
    assert found == {
        "c10::Base": ["c10::Base::first()", "c10::Base::second(int)", *DESTRUCTOR],
        "c10::Side": ["c10::Side::side()"],
        "c10::Derived": [
            "c10::Base::first()",
            "c10::Derived::second(int)",
            *DESTRUCTOR,
            "c10::Derived::side()",
            "c10::Derived::second(int)",
            "c10::Derived::operator bool()",
            "c10::Derived::tied()",
        ],
        "c10::Implicit": ["c10::Base::first()", "c10::Base::second(int)", *DESTRUCTOR],
        "c10::Nested::Inner": ["c10::Nested::Inner::g()"],
    }


MORE = """#pragma once
#include <ATen/ATen.h>
struct Outside { virtual void out(); };
namespace c10 {
struct One { virtual void one(); };
struct Gone { virtual ~Gone(); };
struct Implied : One, Gone { virtual void own(); };
struct Declared : One, Gone { ~Declared() override; virtual void own(); };
struct Overloaded {
  virtual void tied() &;
  virtual void tied() &&;
  virtual operator bool() const;
  virtual operator int() const;
  virtual void f(int);
  virtual void f(long);
  virtual void f(int) const;
};
struct Overriding : Overloaded { void tied() && override; operator int() const override; void f(int) const override; };
struct Second : at::Plain, One { virtual void two(); };
struct Forward;
struct NoneOfIts : at::Plain { void f(); static void g(); };
}
namespace at { namespace detail { struct Deep { virtual void deep(); struct Deeper { virtual void deeper(); }; }; } }
"""


def test_virtual_functions_that_override_some_and_those_that_do_not(
    include: Include, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """[class.virtual]: a function overrides one of the same name, parameters, cv- and ref-qualifiers.

    2.5.2 of the ABI: an implicitly defined virtual destructor comes after the functions that are declared.
    """
    (tmp_path / "torch/more.h").write_text(MORE)
    names = ("Implied", "Declared", "Overloaded", "Overriding", "Second", "Forward", "NoneOfIts")
    classes = [*(f"c10::{name}" for name in names), "at::detail::Deep", "at::detail::Deep::Deeper", "Outside"]
    found = asked(include, monkeypatch, tmp_path, *clang.NEEDED, "torch/more.h", classes=classes)

    def overloaded(*own: int) -> list[str]:
        functions = ("tied()", "tied()", "operator bool()", "operator int()", "f(int)", "f(long)", "f(int)")
        return [f"c10::{'Overriding' if at in own else 'Overloaded'}::{text}" for at, text in enumerate(functions)]

    assert found == {
        "c10::Implied": ["c10::One::one()", "c10::Implied::own()", *DESTRUCTOR],
        "c10::Declared": ["c10::One::one()", *DESTRUCTOR, "c10::Declared::own()"],
        "c10::Overloaded": overloaded(),
        "c10::Overriding": overloaded(1, 3, 6),
        "c10::Second": ["c10::One::one()", "c10::Second::two()"],
        "at::detail::Deep": ["at::detail::Deep::deep()"],
        "at::detail::Deep::Deeper": ["at::detail::Deep::Deeper::deeper()"],
    }


def test_the_newest_gcc_lends_its_headers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("clang.cindex")
    from abiscan.torches import libclang

    monkeypatch.setattr(libclang, "_BUILTIN", str(tmp_path))
    assert list(libclang._builtin_flags()) == []
    for number in ("9", "12", "10", "11.2"):
        (tmp_path / "x86_64-linux-gnu" / number / "include").mkdir(parents=True)
    assert list(libclang._builtin_flags()) == [f"-idirafter{tmp_path}/x86_64-linux-gnu/12/include"]


def test_a_header_that_does_not_compile_is_left_out(
    include: Include, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "torch/inner.h").write_text("#pragma once\nnamespace c10 { Unknown broken; }\n")
    (tmp_path / "torch/bad.h").write_text("#pragma once\n#include <torch/inner.h>\n")
    assert "c10::Base" in asked(include, monkeypatch, tmp_path, *clang.NEEDED, "torch/bad.h")
    (tmp_path / "torch/library.h").write_text("#pragma once\n#include <torch/inner.h>\n")
    with pytest.raises(SystemExit, match="unknown type name"):
        asked(include, monkeypatch, tmp_path)


def test_the_header_to_blame_is_the_one_that_was_asked_for(
    include: Include, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first one that includes a broken header, if several do: the second then finds it empty (``#pragma once``)."""
    (tmp_path / "torch/broken.h").write_text("#pragma once\nnamespace c10 { Unknown broken; }\n")
    for name, text in {
        "good.h": "namespace c10 { struct Side2 { virtual void two(); }; }",
        "deep.h": "#include <torch/middle.h>\nnamespace c10 { struct Deep { virtual void deep(); }; }",
        "middle.h": "\n\n#include <torch/broken.h>",
        "last.h": "namespace c10 { struct Last { virtual void last(); }; }",
    }.items():
        (tmp_path / "torch" / name).write_text(f"#pragma once\n{text}\n")
    classes = ["c10::Side2", "c10::Deep", "c10::Last"]
    headers = (*clang.NEEDED, "torch/good.h", "torch/deep.h", "torch/last.h")
    found = asked(include, monkeypatch, tmp_path, *headers, classes=classes)
    assert found == {"c10::Side2": ["c10::Side2::two()"], "c10::Last": ["c10::Last::last()"]}


def test_an_error_without_a_place_is_the_fault_of_no_header(
    include: Include, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flags = include.flags
    # That there are too many errors, clang says of no line: the header that has them is still left out.
    monkeypatch.setattr(Include, "flags", [flag.replace("limit=0", "limit=1") for flag in flags])
    (tmp_path / "torch/bad.h").write_text("#pragma once\nUnknown one;\nUnknown two;\n")
    assert "c10::Base" in asked(include, monkeypatch, tmp_path, *clang.NEEDED, "torch/bad.h")
    # Without a header to leave out, nothing can be laid out.
    monkeypatch.setattr(Include, "flags", [*flags, "-D=3"])
    with pytest.raises(SystemExit, match="macro name must be an identifier"):
        asked(include, monkeypatch, tmp_path)


COMPILERS = [
    pytest.param(ClangLibrary(), id="library"),
    *(pytest.param(ClangProgram(path), id="program") for n in range(18, 41) if (path := shutil.which(f"clang++-{n}"))),
]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_sizes_and_offsets(include: Include, compiler: clang.Clang) -> None:
    if isinstance(compiler, ClangLibrary):
        pytest.importorskip("clang.cindex")
    records, tables = compiler.classes(include, clang.NEEDED, ["at::Plain", "c10::Base", "c10::NoTable"])
    size, align, bases, fields = records["at::Plain"]
    assert (size, align, [*bases]) == (16, 8, [])
    assert [tuple(field)[:2] for field in fields] == [("number", 0), ("letter", 4), ("real", 8)]
    assert records["c10::Base"][:2] == (16, 8)  # 2.4: the virtual pointer is first
    assert [tuple(field)[:2] for field in records["c10::Base"][3]][-1] == ("member", 8)
    assert records["c10::NoTable"][0] == 24
    assert "c10::Base" in tables
    assert "at::Plain" not in tables


@pytest.mark.parametrize("compiler", COMPILERS)
def test_what_everything_needs_must_compile(include: Include, compiler: clang.Clang) -> None:
    if isinstance(compiler, ClangLibrary):
        pytest.importorskip("clang.cindex")
    bad = include.folder / "torch/bad.h"
    bad.write_text("#pragma once\nnamespace c10 { Unknown broken; }\n")
    records, _ = compiler.classes(include, [*clang.NEEDED, "torch/bad.h"], ["c10::Base"])  # without the bad one
    assert "c10::Base" in records
    (include.folder / "ATen/ATen.h").write_text("#pragma once\nnamespace at { Unknown broken; }\n")
    with pytest.raises(ClangError, match="unknown type name 'Unknown'"):
        compiler.classes(include, clang.NEEDED, [])


def test_what_the_compiler_is_told(include: Include, tmp_path: Path) -> None:
    flags = include.flags
    assert "--target=x86_64-linux-gnu" in flags
    assert "-std=gnu++17" in flags  # as ATen.h asks for
    assert "-D_GLIBCXX_USE_CXX11_ABI=1" in flags
    assert f"-I{tmp_path}/torch/csrc/api/include" in flags
    (tmp_path / "ATen/ATen.h").write_text("")
    old = Include(folder=tmp_path, machine=Machine.AARCH64, cxx11=False, more_folders=(tmp_path / "more",))
    assert {"--target=aarch64-linux-gnu", "-std=gnu++14", "-D_GLIBCXX_USE_CXX11_ABI=0"} <= {*old.flags}
    assert old.flags[-1] == f"-I{tmp_path}/more"


def test_headers_that_may_be_included_on_their_own(include: Include, tmp_path: Path) -> None:
    texts = {
        "c10/A.h": "#pragma once\n",
        "c10/B.h": "// text\n#ifndef B\n#define B\n#endif\n",
        "c10/B_inl.h": "int unguarded();\n",
        "c10/If.h": "#if 1\n#endif\n",
        "c10/PythonThing.h": "#pragma once\n",
        "torch/csrc/api/include/c10/A.h": "#pragma once\n",
        "torch/csrc/api/include/torch/all.h": "#pragma once\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert include.headers(["c10/*.h", "torch/all.h"]) == ["c10/A.h", "c10/B.h", "torch/all.h"]


@pytest.mark.parametrize(("number", "is_usable"), [(17, False), (18, True), (23, True)])
def test_a_clang_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_usable: bool) -> None:
    """18 is the oldest whose dumps can be read; of several, the newest is taken."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin-without-clang{os.pathsep}/bin")
    program = tmp_path / "clang++"
    program.write_text(f"#!/bin/sh\necho 'Debian clang version {number}.1.0 (1)'\n")
    program.chmod(0o755)
    monkeypatch.setattr(clang, "NEWEST", 17)  # none under its number
    found = clang.find_clang()
    assert (found is not None) is is_usable
    if found is not None:
        assert found.name == "clang++"


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((18,), "clang++-18"),
        ((19,), "clang++-19"),
        ((40,), "clang++-40"),
        ((18, 19, 21), "clang++-21"),
        ((17,), None),
        ((17, 18), "clang++-18"),
        ((41,), None),  # not looked for under its number
    ],
)
def test_the_newest_clang_of_the_machine(
    numbers: Sequence[int], expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin-without-clang")
    for number in numbers:
        program(tmp_path / f"clang++-{number}", f"echo 'clang version {number}.0.1'")
    found = clang.find_clang()
    assert (found.name if found is not None else None) == expected


DUMP = """
*** Dumping AST Record Layout
         0 | struct c10::{0}
         0 |   ({0} vtable pointer)
           | [sizeof=8, dsize=8, align=8,
           |  nvsize=8, nvalign=8]
"""
FAKE = """#!{python}
import pathlib, re, sys
lines = pathlib.Path(sys.argv[-1]).read_text().splitlines()
bad = {bad!r}
if "-emit-llvm-only" in sys.argv:
    calls = lines[lines.index('#line 1 "calls"') + 1:]
    names = [re.search("<(.*?)>", line)[1] for line in calls]
    errors = [f"calls:{{at}}:9: error: no" for at, name in enumerate(names, 1) if name in bad]
    for name in names:
        print("Vtable for 'Probe' (4 entries).", f"   2 | void {{name}}::only()", sep="\\n")
        print(f"   3 | void Probe<{{name}}>::probe() [T = {{name}}]")
else:
    errors = [f"./probe.h:{{at}}:10: error: no" for at, line in enumerate(lines, 1) if line[10:-1] in bad]
    print({dump!r})
sys.exit("\\n".join(errors) or 0)
"""
"""A compiler that complains of some classes and headers, each time that it comes to them."""


def compiler(path: Path, *bad: str) -> Path:
    path.write_text(FAKE.format(python=sys.executable, bad=bad, dump="".join(DUMP.format(name) for name in "ABC")))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("bad", [(), ("c10::A",), ("c10::B",), ("c10::C",), ("c10::A", "c10::B"), ("c10::A", "c10::C")])
def test_classes_that_cannot_be_derived_from_have_no_slots(
    bad: Sequence[str], include: Include, tmp_path: Path
) -> None:
    """Those that clang complains of are left out, not the others; its lines count from 1."""
    records, tables = ClangProgram(str(compiler(tmp_path / "clang++", *bad))).classes(include, clang.NEEDED)
    names = {"c10::A", "c10::B", "c10::C"}
    assert records.keys() == names
    assert tables == {name: (f"void {name}::only()",) for name in names.difference(bad)}


def test_an_error_that_is_about_no_class(include: Include, tmp_path: Path) -> None:
    script = 'case "$*" in *-emit-llvm-only*) echo "error: no space left" >&2; exit 1;; esac'
    program(tmp_path / "clang++", script)
    with pytest.raises(ClangError, match="error: no space left"):
        ClangProgram(str(tmp_path / "clang++")).classes(include, clang.NEEDED)


@pytest.mark.parametrize(
    "bad", [("torch/a.h",), ("torch/c.h",), ("torch/a.h", "torch/b.h"), ("torch/a.h", "torch/c.h")]
)
def test_headers_that_do_not_compile_are_left_out_and_told(
    bad: Sequence[str], include: Include, tmp_path: Path
) -> None:
    told: list[Sequence[str]] = []
    one = ClangProgram(str(compiler(tmp_path / "clang++", *bad)), told.append)
    assert one.classes(include, [*clang.NEEDED, "torch/a.h", "torch/b.h", "torch/c.h"]).records
    assert told == [[*bad]]


@pytest.mark.parametrize("script", ["echo 'clang version 19.1.7'; exit 1", "echo gcc 19.1", "exec 2>&1; exit 3"])
def test_a_program_that_is_no_working_clang(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin-without-clang")
    program = tmp_path / "clang++"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert clang.find_clang() is None
    program.unlink()
    assert clang.find_clang() is None
