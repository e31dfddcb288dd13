"""Clang, which says how it lays out the classes that some headers declare. Nothing of the headers is linked or run.

Either a program of this machine, or ``libclang`` from the package index (``abiscan[layouts]``), for which
``torches.libclang`` runs in a process of its own. Both need the headers of the C++ standard library of the machine.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.inputs import observed_fs, programs
from abiscan.regex import regex
from abiscan.torches.class_dumps import ClassRow, parse_records, parse_vtables

OLDEST: Final = 18
"""The first clang whose dumps can be read, and which compiles the headers of every release."""

NEWEST: Final = 40
"""Up to this version, a clang is looked for under its number."""

VTABLES: Final = "vtables.json"
"""The file in which ``torches.libclang`` answers what clang does not print."""

_SECONDS: Final = 600
_LIMITED: Final = ("/bin/sh", "-c", 'ulimit -v 16777216; exec "$@"', "sh")
"""Before a command: a header can include a file without an end."""

_DIRECTIVE: Final = regex(r"^\s*#\s*(\w+)", re.MULTILINE)
_UNUSABLE: Final = regex(r"[Pp]ython|pybind|[Ww]in32|WinSock|CPUFixedAllocator|onnx")
"""Headers that need what a wheel has not, and a broken one: known, to save a run of the compiler each."""

NEEDED: Final = ("torch/library.h", "ATen/ATen.h")
"""What everything else needs."""

_PROBE: Final = """
template <class T, bool = __is_final(T)> struct Probe : T { virtual void probe(); void call() { probe(); } };
template <class T> struct Probe<T, true> { void call() {} };
"""
"""To call a virtual function of a class derived from ``T``, the compiler needs the slots of ``T``."""


class ClangError(Exception):
    """Clang does not compile the headers, with what it says about them."""


class Include(Struct, frozen=True, kw_only=True):
    """The headers of a torch, as it was compiled.

    :ivar folder: its ``include``
    :ivar cxx11: whether it has the C++11 ``std::string``
    :ivar more_folders: folders of other headers that it needs
    """

    folder: Path
    machine: Machine
    cxx11: bool
    more_folders: tuple[Path, ...] = ()

    @property
    def folders(self) -> tuple[Path, Path]:
        """The folders in which its headers are named."""
        return self.folder, self.folder / "torch/csrc/api/include"

    @property
    def flags(self) -> tuple[str, ...]:
        """What the compiler is told."""
        return (
            *(f"--target={self.machine.value}-linux-gnu", f"-std={self._standard}", "-w", "-ferror-limit=0"),
            *("-fno-access-control", f"-D_GLIBCXX_USE_CXX11_ABI={int(self.cxx11)}"),
            *(f"-I{folder.absolute()}" for folder in (*self.folders, *self.more_folders)),
        )

    @property
    def _standard(self) -> str:
        """The C++ that a release asks for; the oldest say nothing, and are of the time of C++14."""
        # ATen.h refuses an older standard with a message that names the one it needs.
        match = re.search(r"C\+\+(\d\d) or later", (self.folder / "ATen/ATen.h").read_text("utf-8", "replace"))
        return f"gnu++{match[1] if match else 14}"

    def headers(self, patterns: Iterable[str]) -> list[str]:
        """Return the headers that match some patterns and may be included on their own, in this order."""
        result = (
            path.relative_to(folder).as_posix()
            for pattern in patterns
            for folder in self.folders
            for path in sorted(folder.glob(pattern))
            if not _UNUSABLE.search(path.name) and _is_guarded(path)
        )
        return list(dict.fromkeys(result))


class ClangOutput(NamedTuple):
    """The layouts and virtual functions of classes, by name."""

    records: dict[str, ClassRow]
    vtables: dict[str, tuple[str, ...]]


class Clang(Protocol):
    """Something that reads headers."""

    @property
    def name(self) -> str:
        """What people call it."""

    def classes(self, include: Include, headers: Sequence[str], requested: Collection[str]) -> ClangOutput:
        """Return the classes that some headers define.

        :param requested: those that are needed; others may be there as well
        :raises ClangError: the headers do not compile
        """


def find_clang() -> Clang | None:
    """Return the clang of ``abiscan[layouts]``, or else the newest one of this machine; None if there is none."""
    try:
        library = importlib.util.find_spec("clang.cindex")
    except ImportError:
        library = None
    # ``abiscan[layouts]`` comes first: whoever installs it asks for it.
    if library is not None:
        return ClangLibrary()
    for name in (*(f"clang++-{number}" for number in range(NEWEST, OLDEST - 1, -1)), "clang++"):
        program = observed_fs.find_program(name)
        if program is not None and _ask_version(program) >= OLDEST:
            return ClangProgram(program)
    return None


@functools.cache
def _ask_version(program: str) -> int:
    try:
        notice = programs.run_program([program, "--version"], capture_output=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError, ValueError):
        return 0
    match = re.search(r"clang version (\d+)", notice)
    return int(match[1]) if match else 0


class ClangLibrary:
    """``libclang``, in a process of its own: what it prints goes to its standard output."""

    name = "libclang"

    def classes(self, include: Include, headers: Sequence[str], requested: Collection[str]) -> ClangOutput:
        """Return the wanted classes, and what they consist of."""
        # A process of its own, so that headers which crash the compiler, or never end, do not take this one along.
        asked = {"flags": include.flags, "headers": list(headers), "classes": sorted(requested)}
        with tempfile.TemporaryDirectory(prefix="abiscan-") as scratch:
            done = _run_limited(
                programs.python_command(sys.executable, "-m", "abiscan.torches.libclang"),
                Path(scratch),
                input=json.dumps(asked),
            )
            if done.returncode:
                raise ClangError(_first_line(done.stderr))
            slots = json.loads(Path(scratch, VTABLES).read_bytes())
        return ClangOutput(parse_records(done.stdout)[0], {name: tuple(functions) for name, functions in slots.items()})


def _report_nothing(_: Sequence[str]) -> None:
    """Report nothing."""


class ClangProgram(Struct, frozen=True):
    """A clang++ of this machine.

    :ivar report: called with the headers that do not compile, which are left out
    """

    path: str
    report: Callable[[Sequence[str]], None] = _report_nothing

    @property
    def name(self) -> str:
        """Its file name."""
        return Path(self.path).name

    def classes(self, include: Include, headers: Sequence[str], requested: Collection[str] = ()) -> ClangOutput:  # noqa: ARG002
        """Return all classes."""
        with tempfile.TemporaryDirectory(prefix="abiscan-") as scratch:
            run = _Run((self.path, *include.flags), Path(scratch), self.report)
            records, polymorphic = parse_records(run.dump_records(headers))
            return ClangOutput(records, parse_vtables(run.dump_vtables(sorted(polymorphic))))


class _Run(NamedTuple):
    """A clang++ with its flags, and the folder for its files."""

    command: tuple[str, ...]
    scratch: Path
    report: Callable[[Sequence[str]], None]

    def dump_records(self, headers: Sequence[str]) -> str:
        """Return clang's dump of every class; keeps the parsed headers for ``dump_vtables``."""
        # To find what is not at hand, the preprocessor is enough.
        while (done := self._run_clang("-M", str(self._write_probe(headers)))).returncode:
            headers = self._drop_failing(headers, done.stderr)
        flags = ["-x", "c++-header", "-Xclang", "-fdump-record-layouts-complete", "-o", "probe.pch"]
        # A precompiled header: the second run, for virtual tables, need not parse everything again.
        while (done := self._run_clang(*flags, str(self._write_probe(headers)))).returncode:
            headers = self._drop_failing(headers, done.stderr)
        return done.stdout

    def dump_vtables(self, classes: Iterable[str]) -> list[str]:
        """Return the lines of clang's dump of the virtual functions of ``classes``; after ``dump_records``."""
        # clang only prints a virtual table that it lays out, and it lays out the one of a class whose function is
        # called.
        calls = [f"void call{number}(Probe<{name}>* it) {{ it->call(); }}" for number, name in enumerate(classes)]
        flags = ["-include-pch", "probe.pch", "-Xclang", "-fdump-vtable-layouts", "-Xclang", "-emit-llvm-only"]
        source = self.scratch / "vtables.cc"
        while True:
            source.write_text(_PROBE + '#line 1 "calls"\n' + "\n".join(calls))
            done = self._run_clang(*flags, "-c", source.name)
            if done.returncode == 0:
                return done.stdout.splitlines()
            # A class that cannot be derived from has no virtual functions that an extension overrides.
            bad = {int(number) - 1 for number in re.findall(r"^calls:(\d+):", done.stderr, re.MULTILINE)}
            kept = [call for number, call in enumerate(calls) if number not in bad]
            if len(kept) == len(calls):  # it would complain of the same again
                raise ClangError(_first_line(done.stderr))
            calls = kept

    def _write_probe(self, headers: Iterable[str]) -> Path:
        path = self.scratch / "probe.h"
        path.write_text(include_headers(headers))
        return path

    def _drop_failing(self, headers: Sequence[str], errors: str) -> list[str]:
        """Return the headers less those that clang complains of.

        :raises ClangError: it complains of what everything else needs
        """
        # The probe includes one header in each line, so the number of the line says which header brought an error in.
        bad = {int(line) - 1 for line in re.findall(r"probe\.h:(\d+):", errors)}
        if not bad or any(headers[number] in NEEDED for number in bad):
            raise ClangError(_first_line(errors))
        self.report([headers[number] for number in sorted(bad)])
        return [header for number, header in enumerate(headers) if number not in bad]

    def _run_clang(self, *flags: str) -> subprocess.CompletedProcess[str]:
        return _run_limited([*self.command, *flags], self.scratch)


def include_headers(headers: Iterable[str]) -> str:
    """Return a source file that includes some headers, one a line."""
    return "".join(f"#include <{header}>\n" for header in headers)


def _first_line(errors: str) -> str:
    lines = errors.splitlines()
    result = next((line for line in lines if "error:" in line), None) or next(iter(reversed(lines)), "it said nothing")
    return result.strip()


def _run_limited(command: Sequence[str], folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    try:
        return programs.run_program(
            [*_LIMITED, *command],
            cwd=folder,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_SECONDS,
            check=False,
            **options,
        )
    except subprocess.TimeoutExpired as error:
        raise ClangError(f"it did not finish in {_SECONDS} seconds") from error
    except OSError as error:
        raise ClangError(f"it cannot be run: {error.strerror or error}") from error


def _is_guarded(header: Path) -> bool:
    """Whether a header may be included on its own; others (``…_inl.h``) belong to one that includes them."""
    text = header.read_text("utf-8", "replace")
    first = _DIRECTIVE.search(text)
    return "#pragma once" in text or (first is not None and first[1] == "ifndef")
