"""Make ``abiscan/torches/data/layouts.bin``: the layouts and virtual functions of torch's classes, release by release.

The headers in the wheel of each release are compiled (not linked, not run) by clang, which says how it lays out each
class; with the ``std::string`` that the libraries in the same wheel use. What was read stays in the work folder as one
file per release and machine, so a second run only reads what is new; the output depends on those files alone, byte for
byte.

    python -m tools.build_layout_data                       # reads what is missing, from wheels fetched with pip
    python -m tools.build_layout_data 2.15.0                # reads one release anew
    python -m tools.build_layout_data --unpacked FOLDER     # takes them from there, unpacked

Needs clang 18 or newer (``--clang``), and for aarch64 the headers of its C and C++ library (Debian:
``libstdc++-12-dev-arm64-cross``). Headers of CUDA, if given (``--cuda``, a folder with ``cuda_runtime_api.h``), add the
classes of ``c10/cuda``. Headers that include what is not at hand are left out; the count is printed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

from packaging.version import Version

from abiscan.binary.elf import ElfFile, Machine
from abiscan.torches import layouts
from tools.build_release_data import VERSIONS, python_of
from tools.wheels import download

OUTPUT: Final = Path(layouts.__file__).with_name("data") / "layouts.bin"

HEADERS: Final = (
    *("torch/library.h", "torch/script.h", "torch/custom_class.h", "torch/nn/module.h"),
    *("ATen/ATen.h", "ATen/*Impl.h", "ATen/*Allocator.h", "ATen/*Hooks*.h", "ATen/detail/*.h", "ATen/quantized/*.h"),
    *("ATen/core/*.h", "ATen/core/boxing/*.h", "ATen/core/dispatch/*.h", "ATen/core/op_registration/*.h"),
    *("ATen/native/DispatchStub.h", "c10/core/*.h", "c10/core/impl/*.h", "c10/util/*.h"),
    *("torch/csrc/autograd/*.h", "torch/csrc/autograd/functions/*.h"),
    *("torch/csrc/jit/api/*.h", "torch/csrc/jit/ir/*.h", "torch/csrc/jit/runtime/*.h", "torch/csrc/jit/passes/*.h"),
    *("torch/csrc/jit/*.h", "torch/csrc/jit/script/*.h"),  # up to 1.4
    "torch/csrc/distributed/c10d/*.hpp",
)
"""What extensions include, and what they include to add a backend."""

CUDA_HEADERS: Final = ("c10/cuda/*.h", "c10/cuda/impl/*.h", "ATen/cuda/CUDAEvent.h", "ATen/cuda/CUDAGeneratorImpl.h")

_DIRECTIVE: Final = re.compile(r"^\s*#\s*(\w+)", re.MULTILINE)
_SUFFIXES: Final = (".h", ".hpp", ".inc", ".def")
_UNUSABLE: Final = re.compile(r"[Pp]ython|pybind|[Ww]in32|WinSock|CPUFixedAllocator|onnx")
"""Headers that need what a wheel has not, and a broken one: known, to save a run of the compiler each."""

_OURS: Final = re.compile(r"(?:at|c10|c10d|caffe2|torch)::")
_UNWANTED: Final = re.compile(
    r"lambda|\(anonymous|\(unnamed|^at::_ops::|^at::meta::|structured_|^torch::autograd::generated::|^torch::enumtype::"
    r"|^torch::nn::(?!Module$)|^torch::optim::|^torch::data::|^c10::guts::|^c10::impl::detail::|TypePtr_?<|::arg_type"
)
"""Classes that no extension shares: one per operator, per module, per function template."""

_ANONYMOUS: Final = re.compile(r"\((?:anonymous|unnamed)[^)]*\)")
_KEYWORDS: Final = re.compile(r"\b(?:class|struct|union|enum) (?=[\w(:])")
_ROW: Final = re.compile(r"\s*(\d+)(?::(\S+))? \|( *)(.*)")
_SIZES: Final = re.compile(r"\[sizeof=(\d+).* align=(\d+)")
_BASE: Final = re.compile(r"(.*) \((?:primary |virtual |primary virtual )?base\)$")
_INDENT: Final = 3  # of the members of a class in a dump
_LONGEST: Final = 160  # characters; longer ones are templates that no two objects share
_SLOT: Final = re.compile(r" +\d+ \| (.*)")
_NO_SLOT: Final = re.compile(r"^(?:offset_to_top|vcall_offset|vbase_offset) \(| RTTI$")
_PROBED: Final = re.compile(r"::probe\(\) \[T = (.*)\]$")
_DESTRUCTOR: Final = re.compile(r"^Probe<.*::~Probe\(\)")
_PROBE: Final = """
template <class T, bool = __is_final(T)> struct Probe : T { virtual void probe(); void call() { probe(); } };
template <class T> struct Probe<T, true> { void call() {} };
"""
"""To call a virtual function of a class derived from ``T``, the compiler needs the slots of ``T``."""


class Toolchain(NamedTuple):
    """What reads the headers: a clang, and a folder with CUDA's or None."""

    clang: str
    cuda: Path | None


class Row(NamedTuple):
    """A class as clang lays it out: ``bases`` are (name, offset), ``fields`` (name, offset, type, size or None)."""

    size: int
    align: int
    bases: tuple[tuple[str, int], ...]
    fields: tuple[tuple[str, int, str, int | None], ...]


def read(include: Path, version: str, machine: Machine, *, cxx11: bool, tools: Toolchain) -> dict[str, Any]:
    """The layouts and virtual functions that the headers in a folder declare.

    :param cxx11: which ``std::string`` the release was built with
    :return: what ``merge`` takes
    """
    with tempfile.TemporaryDirectory() as scratch:
        if not (include / "ATen/ATen.h").exists():
            raise SystemExit(f"{include}: no headers of torch")
        compiler = _Compiler(include, machine, tools, Path(scratch), cxx11=cxx11)
        rows, polymorphic = parse_records(compiler.records())
        vtables = parse_vtables(compiler.vtables(sorted(polymorphic)))
    print(f"  {len(rows)} classes, {len(vtables)} with virtual functions", flush=True)
    return {"version": version, "machine": machine.value, "cxx11": cxx11, "records": rows, "vtables": vtables}


class _Compiler:
    """One release's headers, compiled."""

    def __init__(self, include: Path, machine: Machine, tools: Toolchain, scratch: Path, *, cxx11: bool) -> None:
        self.folders = (include, include / "torch/csrc/api/include")
        self.scratch = scratch
        folders = [*self.folders, *((tools.cuda,) if tools.cuda else ())]
        self.command = [
            *(tools.clang, f"--target={machine.value}-linux-gnu", f"-std={_standard(include)}", "-w"),
            *("-ferror-limit=0", "-fno-access-control", f"-D_GLIBCXX_USE_CXX11_ABI={int(cxx11)}"),
            *(f"-I{folder}" for folder in folders),
        ]
        self.patterns = [*HEADERS, *(CUDA_HEADERS if tools.cuda else ())]

    def records(self) -> str:
        """Clang's dump of every class; keeps the parsed headers for ``vtables``."""
        dump, pch = self.scratch / "records", self.scratch / "probe.pch"
        flags = ["-x", "c++-header", "-Xclang", "-fdump-record-layouts-complete", "-o", str(pch)]
        headers = self._at_hand()
        while True:
            with dump.open("w") as stream:
                done = self._run([*flags, str(self._write("probe.h", headers))], stdout=stream)
            if done.returncode == 0:
                break
            headers = self._without(headers, done.stderr)
        print(f"  {len(headers)} headers", flush=True)
        return dump.read_text("utf-8")

    def vtables(self, classes: list[str]) -> list[str]:
        """The lines of clang's dump of the virtual functions of ``classes``; after ``records``."""
        calls = [f"void call{number}(Probe<{name}>* it) {{ it->call(); }}" for number, name in enumerate(classes)]
        flags = ["-include-pch", str(self.scratch / "probe.pch"), "-Xclang", "-fdump-vtable-layouts"]
        source = self.scratch / "vtables.cc"
        while True:
            source.write_text(_PROBE + '#line 1 "calls"\n' + "\n".join(calls))
            done = self._run([*flags, "-Xclang", "-emit-llvm-only", "-c", str(source)], stdout=subprocess.PIPE)
            if done.returncode == 0:
                return str(done.stdout).splitlines()
            # A class that cannot be derived from has no virtual functions that an extension overrides.
            bad = {int(number) - 1 for number in re.findall(r"^calls:(\d+):", done.stderr, re.MULTILINE)}
            if not bad:
                raise SystemExit(f"clang failed: {done.stderr[:2000]}")
            calls = [call for number, call in enumerate(calls) if number not in bad]

    def _at_hand(self) -> list[str]:
        """The headers that are meant to be included and include nothing that is not at hand."""
        headers = [
            str(path.relative_to(folder))
            for pattern in self.patterns
            for folder in self.folders
            for path in sorted(folder.glob(pattern))
            if _is_guarded(path) and not _UNUSABLE.search(path.name)
        ]
        headers = list(dict.fromkeys(headers))
        while (done := self._run(["-M", str(self._write("probe.h", headers))], stdout=subprocess.DEVNULL)).returncode:
            headers = self._without(headers, done.stderr)
        return headers

    def _without(self, headers: list[str], errors: str) -> list[str]:
        """The headers less those that clang complains of.

        :raises SystemExit: it complains of what everything else needs
        """
        bad = {int(line) - 1 for line in re.findall(r"probe\.h:(\d+):", errors)}
        if not bad or any(headers[number] in ("torch/library.h", "ATen/ATen.h") for number in bad):
            raise SystemExit(f"clang failed: {errors[:2000]}")
        print("  left out:", *(headers[number] for number in sorted(bad)), flush=True)
        return [header for number, header in enumerate(headers) if number not in bad]

    def _write(self, name: str, headers: Iterable[str]) -> Path:
        path = self.scratch / name
        path.write_text("".join(f"#include <{header}>\n" for header in headers))
        return path

    def _run(self, flags: list[str], stdout: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self.command, *flags], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)


def _is_guarded(header: Path) -> bool:
    """Whether a header may be included on its own; others (``…_inl.h``) belong to one that includes them."""
    text = header.read_text("utf-8", "replace")
    first = _DIRECTIVE.search(text)
    return "#pragma once" in text or (first is not None and first[1] == "ifndef")


def _standard(include: Path) -> str:
    """The C++ that a release asks for; the oldest say nothing, and are of the time of C++14."""
    found = re.search(r"C\+\+(\d\d) or later", (include / "ATen/ATen.h").read_text("utf-8"))
    return f"gnu++{found[1] if found else 14}"


def parse_records(dump: str) -> tuple[dict[str, Row], set[str]]:
    """The classes in clang's dump of record layouts, and which of them have virtual functions."""
    sizes: dict[str, int] = {}  # of every class, as clang spells it
    wanted: dict[str, str] = {}
    for block in dump.split("*** Dumping AST Record Layout\n")[1:]:
        spelled = block[block.index("| ") + 2 : block.index("\n")].removesuffix(" (empty)")
        name = _plain(spelled) if _OURS.search(spelled) else ""
        if found := _SIZES.search(block, block.rfind("[sizeof=")):
            sizes[spelled] = int(found[1])
            if name and _OURS.match(name) and len(name) <= _LONGEST and not _UNWANTED.search(name):
                wanted[name] = block
    rows: dict[str, Row] = {}
    polymorphic: set[str] = set()
    for name, block in wanted.items():
        row, virtual = _members(block, sizes)
        if row.bases or row.fields or virtual:
            rows[name] = row
        if virtual and "<" not in name:
            polymorphic.add(name)
    return rows, polymorphic


def _members(block: str, sizes: dict[str, int]) -> tuple[Row, bool]:
    """The direct bases and named fields of a class, and whether it is virtual."""
    bases: list[tuple[str, int]] = []
    fields: list[tuple[str, int, str, int | None]] = []
    virtual = False
    for line in block.splitlines()[1:]:
        if (found := _ROW.match(line)) is None:
            continue
        at, bits, indent, text = int(found[1]), found[2], len(found[3]), found[4].removesuffix(" (empty)")
        virtual = virtual or text.endswith(" vtable pointer)")
        if indent != _INDENT or text.endswith(" vtable pointer)"):
            continue
        if base := _BASE.match(text):
            bases.append((_plain(base[1]), at))
            continue
        type_, _, name = text.rpartition(" ")
        if name:
            fields.append((name, at, _plain(type_) + (f" : {bits}" if bits else ""), sizes.get(type_)))
    found = _SIZES.search(block, block.rfind("[sizeof="))
    assert found is not None
    return Row(int(found[1]), int(found[2]), tuple(bases), tuple(fields)), virtual


def _plain(type_: str) -> str:
    """A type as people write it, without keywords, places in files and the mark of an empty class."""
    text = _KEYWORDS.sub("", _ANONYMOUS.sub("(anonymous)", type_.removesuffix(" (empty)")))
    return text.replace("_Bool", "bool")


def parse_vtables(lines: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The virtual functions of each probed class, slot by slot, in clang's dump of virtual tables.

    Destructors are ``~ [complete]`` and ``~ [deleting]``; only the primary table is read.
    """
    tables: dict[str, tuple[str, ...]] = {}
    slots: list[str] = []
    reading = False
    for line in lines:
        if line.startswith("Vtable for 'Probe'"):
            slots, reading = [], True
        elif reading and (found := _SLOT.match(line)):
            if _NO_SLOT.search(found[1]):
                continue
            if probe := _PROBED.search(found[1]):
                tables[_plain(probe[1])] = tuple(slots)
                reading = False  # what follows are the tables of a second base
            else:
                slots.append(_DESTRUCTOR.sub("~", _plain(found[1])))
    return tables


def merge(records: Iterable[dict[str, Any]]) -> bytes:
    """The data file of several releases, oldest first."""
    ordered = sorted(records, key=lambda record: (Version(record["version"]), record["machine"]))
    rows: dict[str, dict[Any, int]] = {}
    vtables: dict[str, dict[Any, int]] = {}
    for column, record in enumerate(ordered):
        for into, found in ((rows, record["records"]), (vtables, record["vtables"])):
            for name, value in found.items():
                variants = into.setdefault(name, {})
                variants[_frozen(value)] = variants.get(_frozen(value), 0) | 1 << column
    builds = [(record["version"], record["machine"]) for record in ordered]
    return layouts.pack(builds, {name: (rows.get(name, {}), vtables.get(name, {})) for name in {*rows, *vtables}})


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def fetch(version: str, machine: Machine, folder: Path, unpacked: Path | None) -> tuple[Path, Path] | None:
    """The folder of headers and the libc10.so of a release; None if it has no wheel for the machine.

    :param unpacked: where releases lie unpacked; those that do not are fetched
    """
    kept = unpacked / f"{version}-{machine.value}" if unpacked else None
    if kept is not None and (kept / "done").exists():
        if not (kept / "include.tar.gz").exists():
            return None
        with tarfile.open(kept / "include.tar.gz") as archive:
            archive.extractall(folder, (file for file in archive if Path(file.name).suffix in _SUFFIXES), filter="data")
        return folder / "torch/include", kept / "torch/lib/libc10.so"
    path = download(f"torch=={version}", folder, python=python_of(version), machine=machine)
    if path is None:
        return None
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if name.startswith("torch/include/") or name == "torch/lib/libc10.so":
                wheel.extract(name, folder)
    path.unlink()
    return folder / "torch/include", folder / "torch/lib/libc10.so"


def uses_cxx11_strings(libc10: Path) -> bool:
    """Which ``std::string`` a torch was built with, by what its constructors of ``c10::Error`` take."""
    names = ElfFile.open(libc10).facts().symbols.starting_with("_ZN3c105ErrorC2")
    return any("7__cxx11" in name for name in names)


def main() -> int:
    """Read what is missing, then write the data file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="releases to read anew")
    parser.add_argument("--work", type=Path, default=Path("corpus/layouts"), help="where what was read stays")
    parser.add_argument("--unpacked", type=Path, help="where releases lie unpacked")
    parser.add_argument("--clang", default=shutil.which("clang++-19") or "clang++", help="the compiler")
    parser.add_argument("--cuda", type=Path, help="where cuda_runtime_api.h lies")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    tools = Toolchain(arguments.clang, arguments.cuda)
    records = []
    # The headers of two builds of a release differ in nothing that extensions share.
    for version in dict.fromkeys(Version(each).public for each in (*VERSIONS, *arguments.versions)):
        for machine in Machine:
            path = arguments.work / f"{version}-{machine.value}.json.xz"
            if not path.exists() or version in arguments.versions:
                _read_release(version, machine, path, arguments.unpacked, tools)
            records.append(json.loads(lzma.decompress(path.read_bytes())))
    merged = merge([record for record in records if record])
    OUTPUT.write_bytes(merged)
    print(f"{OUTPUT.name}: {sum(map(bool, records))} releases and machines, {len(merged) / 1e6:.2f} MB")
    return 0


def _read_release(version: str, machine: Machine, path: Path, unpacked: Path | None, tools: Toolchain) -> None:
    print(f"reading torch {version} for {machine.value}", flush=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        found = fetch(version, machine, Path(scratch), unpacked)
        data = None
        if found is not None:
            include, libc10 = found
            data = read(include, version, machine, cxx11=uses_cxx11_strings(libc10), tools=tools)
    part = path.with_suffix(".part")
    part.write_bytes(lzma.compress(json.dumps(data).encode(), preset=3))
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())
