"""Headers that clang lays out: the expected sizes, offsets and slots follow from the Itanium C++ ABI, 2.4 and 2.5."""

from __future__ import annotations

import io
import json
import os
import shutil
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
    old = Include(folder=tmp_path, machine=Machine.AARCH64, cxx11=False, further=(tmp_path / "more",))
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
    found = clang.find()
    assert (found is not None) is is_usable
    if found is not None:
        assert found.name == "clang++"


@pytest.mark.parametrize("script", ["echo 'clang version 19.1.7'; exit 1", "echo gcc 19.1", "exec 2>&1; exit 3"])
def test_a_program_that_is_no_working_clang(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin-without-clang")
    program = tmp_path / "clang++"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    assert clang.find() is None
    program.unlink()
    assert clang.find() is None
