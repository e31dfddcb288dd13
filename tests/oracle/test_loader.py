"""The model of ``ld.so`` against the ``ld.so`` of this machine: the same built files, really loaded."""

from __future__ import annotations

import json
import os
import platform
import random
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs import system
from abiscan.inputs.files import Files
from abiscan.linkage.host import Host
from abiscan.linkage.model import Process, Resolution
from abiscan.linkage.resolve import relocation_order, resolve_load
from abiscan.linkage.scope import Loader, SearchPath
from tests.elf_builder import EM_AARCH64, EM_X86_64, Defined, Elf, Undefined, exports, uses

_GLIBC: Final = tuple(map(int, re.findall(r"[0-9]+", platform.libc_ver()[1])))

pytestmark = pytest.mark.skipif(
    system.own_machine() is None or _GLIBC < (2, 35), reason="needs Linux with glibc 2.35, whose order is modelled"
)

_CHILD: Final = """
import ctypes, json, os, re, sys
told = []
for path in json.load(sys.stdin):
    try:
        ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
        told.append(None)
    except OSError as error:
        told.append(str(error))
with open("/proc/self/maps") as maps:
    mapped = sorted({line.split(maxsplit=5)[5].strip() for line in maps if ".so" in line})
print(json.dumps([told, mapped]))
"""


def really_load(paths: Sequence[Path], **environment: str) -> tuple[list[str | None], list[str], str]:
    """Open the files, one after the other, in one process: what ``ld.so`` said, what is mapped, the debug output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD],
        input=json.dumps(list(map(str, paths))),
        env={**kept, "LC_ALL": "C", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    told, mapped = json.loads(done.stdout)
    return told, mapped, done.stderr


def model(path: Path, environment: tuple[str, ...] = ()) -> Resolution:
    machine = system.own_machine()
    assert machine is not None
    search = SearchPath(environment=environment, host=Host(machine))
    process = Process(has_python=True)
    return resolve_load(process, Loader(Files(), search, machine).open(process, str(path)))


def elf(**fields: Any) -> Elf:
    machine = EM_X86_64 if system.own_machine() is Machine.X86_64 else EM_AARCH64
    return Elf(machine=machine, **{"runpath": "$ORIGIN", **fields})


def said(text: str | None) -> tuple[str | None, str] | None:
    """The base name and the rest of an error; a library that was not found is no path and stays in the rest."""
    if text is None:
        return None
    found = re.fullmatch(r"(/[^:]*): (.*)", text)
    return (Path(found[1]).name, found[2]) if found else (None, text)


def predicted(resolution: Resolution) -> tuple[str | None, str] | None:
    return (resolution.error.object, resolution.error.message) if resolution.error else None


def graphs(folder: Path, *, count: int, broken: bool) -> list[Path]:
    """Libraries that need each other at random, cycles and all; with ``broken``, some lack a symbol.

    None needs the one that is opened.
    """
    roots = []
    for number in range(count):
        chance = random.Random(number)
        names = [f"lib{number}_{letter}.so" for letter in "abcdefgh"[: chance.randint(2, 8)]]
        for name in names:
            needed = tuple(chance.sample(names[1:], chance.randint(0, min(3, len(names) - 1))))
            missing = uses(f"missing_in_{name[:-3]}") if broken and chance.random() < 0.6 else ()
            elf(needed=needed, undefined=missing).write(folder / name)
        roots.append(folder / names[0])
    return roots


def test_relocation_order(tmp_path: Path) -> None:
    roots = graphs(tmp_path, count=60, broken=False)
    told, _, log = really_load(roots, LD_DEBUG="reloc")
    assert told == [None] * 60
    relocated = [Path(path).name for path in re.findall(r"relocation processing: (\S+)", log)]
    for number, root in enumerate(roots):
        real = [name for name in relocated if name.startswith(f"lib{number}_")]
        assert [module.name for module in relocation_order(model(root).closure)] == real


def test_first_undefined_symbol(tmp_path: Path) -> None:
    roots = graphs(tmp_path, count=60, broken=True)
    told, _, _ = really_load(roots)
    assert [predicted(model(root)) for root in roots] == [said(text) for text in told]
    assert 0 < told.count(None) < 30  # some load, most do not


CASES: Final[Mapping[str, dict[str, Elf]]] = {
    "the relocations of data come before those of calls": {
        "ext.so": elf(undefined=(Undefined(name="call", relocation="plt"), Undefined(name="data"))),
    },
    "weak references may stay undefined": {"ext.so": elf(undefined=(Undefined(name="f", weak=True),))},
    "a version that is not there": {
        "ext.so": elf(
            needed=("libversion_a.so",), undefined=(Undefined(name="f", version=("libversion_a.so", "V_2")),)
        ),
        "libversion_a.so": elf(soname="libversion_a.so", defined=(Defined(name="f", version="V_1"),)),
    },
    "a weak need of a version": {
        "ext.so": elf(needed=("libweak_a.so",), version_needs=(("libweak_a.so", "V_2", True),)),
        "libweak_a.so": elf(soname="libweak_a.so", defined=(Defined(name="f", version="V_1"),)),
    },
    "a version wanted of a library without versions": {
        "ext.so": elf(needed=("libplain_a.so",), undefined=(Undefined(name="f", version=("libplain_a.so", "V_2")),)),
        # It has a version table, as every library that needs libc: without one, ld.so trips over an assertion.
        "libplain_a.so": elf(
            soname="libplain_a.so",
            needed=("libc.so.6",),
            defined=exports("f"),
            version_needs=(("libc.so.6", "GLIBC_2.17", True),),
        ),
    },
    "packed relocations without the version that says so": {
        "ext.so": elf(needed=("libc.so.6",), version_needs=(("libc.so.6", "GLIBC_2.17", True),), relr=()),
    },
    "packed relocations in a library without libc": {
        "ext.so": elf(needed=("librelr_a.so",), version_needs=(("librelr_a.so", "V_1", True),), relr=()),
        "librelr_a.so": elf(soname="librelr_a.so", defined=(Defined(name="f", version="V_1"),)),
    },
    "packed relocations without versions": {"ext.so": elf(needed=("libc.so.6",), relr=())},
    "a version wanted of a library with a base version only": {
        "ext.so": elf(needed=("libbase_a.so",), undefined=(Undefined(name="f", version=("libbase_a.so", "V_2")),)),
        "libbase_a.so": elf(soname="libbase_a.so", defined=exports("f"), version_definitions=()),
    },
    "a symbol of another version": {
        "ext.so": elf(needed=("libother_a.so",), undefined=(Undefined(name="f", version=("libother_a.so", "V_1")),)),
        "libother_a.so": elf(
            soname="libother_a.so", defined=(Defined(name="f", version="V_2"),), version_definitions=("V_1",)
        ),
    },
    "a symbol of the base version": {
        "ext.so": elf(needed=("libbased_a.so",), undefined=(Undefined(name="f", version=("libbased_a.so", "V_1")),)),
        "libbased_a.so": elf(soname="libbased_a.so", defined=exports("f"), version_definitions=("V_1",)),
    },
    "a hidden symbol of the base version": {
        "ext.so": elf(needed=("libhid_a.so",), undefined=(Undefined(name="f", version=("libhid_a.so", "V_1")),)),
        "libhid_a.so": elf(
            soname="libhid_a.so", defined=(Defined(name="f", hidden=True),), version_definitions=("V_1",)
        ),
    },
    "a hidden version, wanted": {
        "ext.so": elf(needed=("libold_a.so",), undefined=(Undefined(name="f", version=("libold_a.so", "V_1")),)),
        "libold_a.so": elf(
            soname="libold_a.so",
            defined=(Defined(name="f", version="V_1", hidden=True), Defined(name="f", version="V_2")),
        ),
    },
    "no version wanted, the oldest is hidden": {
        "ext.so": elf(needed=("liboldest_a.so",), undefined=uses("f")),
        "liboldest_a.so": elf(soname="liboldest_a.so", defined=(Defined(name="f", version="V_1", hidden=True),)),
    },
    "no version wanted, a later one is hidden": {
        "ext.so": elf(needed=("liblater_a.so",), undefined=uses("f")),
        "liblater_a.so": elf(
            soname="liblater_a.so",
            defined=(Defined(name="f", version="V_2", hidden=True),),
            version_definitions=("V_1", "V_2"),
        ),
    },
    "no version wanted, two defaults": {
        "ext.so": elf(needed=("libtwo_a.so",), undefined=uses("f")),
        "libtwo_a.so": elf(
            soname="libtwo_a.so",
            defined=(Defined(name="f", version="V_2"), Defined(name="f", version="V_3")),
            version_definitions=("V_1", "V_2", "V_3"),
        ),
    },
    "versions before symbols": {
        "ext.so": elf(needed=("libfirst_a.so", "libfirst_b.so"), undefined=uses("f")),
        "libfirst_a.so": elf(soname="libfirst_a.so", undefined=uses("g")),
        "libfirst_b.so": elf(needed=("libfirst_c.so",), version_needs=(("libfirst_c.so", "V_2", False),)),
        "libfirst_c.so": elf(soname="libfirst_c.so", defined=(Defined(name="f", version="V_1"),)),
    },
    "a symbol of hidden visibility": {
        "ext.so": elf(needed=("libvis_a.so",), undefined=uses("f")),
        "libvis_a.so": elf(defined=(Defined(name="f", visibility=2),)),
    },
    "a protected symbol": {
        "ext.so": elf(needed=("libprot_a.so",), undefined=uses("f")),
        "libprot_a.so": elf(defined=(Defined(name="f", visibility=3),)),
    },
    "a symbol at address 0": {
        "ext.so": elf(needed=("libnull_a.so",), undefined=uses("f")),
        "libnull_a.so": elf(defined=(Defined(name="f", value=0),)),
    },
    "a table of the older kind": {
        "ext.so": elf(needed=("libsysv_a.so",), undefined=uses("f", "gone")),
        "libsysv_a.so": elf(defined=exports("f"), hash="sysv"),
    },
    "an object that brings its own soname twice": {
        "ext.so": elf(needed=("libalias_a.so", "libalias.so"), undefined=uses("f")),
        "libalias_a.so": elf(soname="libalias.so"),
        "libalias.so": elf(defined=exports("f")),
    },
    "RPATH is inherited": {
        "ext.so": elf(runpath=None, rpath="$ORIGIN/r", needed=("librp_a.so",)),
        "r/librp_a.so": elf(runpath=None, needed=("librp_b.so",)),
        "r/librp_b.so": elf(undefined=uses("found_by_rpath")),
    },
    "RPATH beside RUNPATH is ignored": {
        "ext.so": elf(runpath="$ORIGIN/new", rpath="$ORIGIN/old", needed=("libboth_a.so",)),
        "old/libboth_a.so": elf(undefined=uses("found_by_rpath")),
        "new/libboth_a.so": elf(undefined=uses("found_by_runpath")),
    },
    "RPATH beside RUNPATH is not inherited": {
        "ext.so": elf(runpath="$ORIGIN/new", rpath="$ORIGIN/old", needed=("libinh_a.so",)),
        "new/libinh_a.so": elf(runpath=None, rpath="$ORIGIN/../third", needed=("libinh_b.so",)),
        "old/libinh_b.so": elf(undefined=uses("found_by_rpath_of_ext")),
        "third/libinh_b.so": elf(runpath=None, needed=("libinh_c.so",), undefined=uses("found_by_rpath_of_a")),
        "third/libinh_c.so": elf(undefined=uses("inherited")),
    },
    "RPATH with an origin of its own": {
        "ext.so": elf(runpath=None, rpath="${ORIGIN}/r", needed=("libor_a.so",)),
        "r/libor_a.so": elf(runpath=None, rpath="$ORIGIN/deep", needed=("libor_b.so", "libor_c.so")),
        "r/deep/libor_b.so": elf(undefined=uses("deep")),
        "r/libor_b.so": elf(undefined=uses("shallow")),
        "r/libor_c.so": elf(undefined=uses("inherited")),
    },
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_loader_says(case: str, tmp_path: Path) -> None:
    for name, built in CASES[case].items():
        built.write(tmp_path / name)
    (text,), _, _ = really_load([tmp_path / "ext.so"])
    # What follows the path of the object that needs a version is the path of the file, on both sides.
    assert predicted(model(tmp_path / "ext.so")) == said(text)


def test_the_environment_comes_between_rpath_and_runpath(tmp_path: Path) -> None:
    elf(runpath="$ORIGIN/own", needed=("libenv_a.so",)).write(tmp_path / "runpath.so")
    elf(runpath=None, rpath="$ORIGIN/own", needed=("libenv_b.so",)).write(tmp_path / "rpath.so")
    for folder in ("own", "env"):
        for letter in "ab":
            elf().write(tmp_path / folder / f"libenv_{letter}.so")
    roots = [tmp_path / "runpath.so", tmp_path / "rpath.so"]
    told, mapped, _ = really_load(roots, LD_LIBRARY_PATH=str(tmp_path / "env"))
    assert told == [None, None]
    modules = {module.path for root in roots for module in model(root, (str(tmp_path / "env"),)).closure.modules}
    assert modules == {path for path in mapped if path.startswith(str(tmp_path))}


def test_a_missing_library_is_said_as_such(tmp_path: Path) -> None:
    elf(needed=("libabsent_a.so",)).write(tmp_path / "ext.so")
    (text,), _, _ = really_load([tmp_path / "ext.so"])
    (missing,) = model(tmp_path / "ext.so").closure.missing
    assert text == f"{missing.name}: cannot open shared object file: No such file or directory"


def test_a_file_for_another_machine_is_passed_over(tmp_path: Path) -> None:
    foreign = EM_AARCH64 if system.own_machine() is Machine.X86_64 else EM_X86_64
    elf(runpath="$ORIGIN/foreign:$ORIGIN/own", needed=("libmachine_a.so",)).write(tmp_path / "ext.so")
    Elf(machine=foreign).write(tmp_path / "foreign" / "libmachine_a.so")
    elf(undefined=uses("f")).write(tmp_path / "own" / "libmachine_a.so")
    (text,), _, _ = really_load([tmp_path / "ext.so"])
    assert predicted(model(tmp_path / "ext.so")) == said(text) == ("libmachine_a.so", "undefined symbol: f")


@pytest.mark.skipif(_GLIBC < (2, 36), reason="needs glibc 2.36, which reads packed relocations")
@pytest.mark.parametrize(
    ("words", "signal"),
    [
        # The file is a page that can be written. An even word is a place; the bits of an odd one are the 63 after it.
        *(((4088,), 0), ((4080, 0b11), 0), ((0, 0b11), 0), ((0, 1, 0b11), 0), ((64, 4080, 0b11), 0)),
        *(((3592, 1 << 62 | 1), 0), ((3072, 1, 1, 0b11), 0), ((3072, 1, 1, 1), 0)),
        # Nothing is mapped there; what is next to the file differs from process to process.
        *(((1 << 40,), 11), ((64, 1 << 40, 0b11), 11), ((1 << 40, 64), 11)),
    ],
)
def test_places_of_packed_relocations(words: tuple[int, ...], signal: int, tmp_path: Path) -> None:
    needs = (("libc.so.6", "GLIBC_ABI_DT_RELR", False),)
    path = elf(needed=("libc.so.6",), version_needs=needs, relr=words, size=4096).write(tmp_path / "x.so")
    command = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(path)!r})"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    error = model(path).error
    assert (-done.returncode, error.signal if error else 0) == (signal, signal), done.stderr
