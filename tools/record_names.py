"""The Python names of each release, for ``abiscan/torches/data/names``: read from the files of its wheel.

    python -m tools.record_names 2.14.1 2.15.0     # read in place, on the package index: 20 MB of each wheel
    python -m tools.record_names --all             # every embedded release

``tools.release`` calls it for the wheel that it has unpacked. Nothing is run. What the sources bind by a computed name,
and what compiled code makes, is open; ``tests/oracle/test_torch_names.py`` compares that with a running torch. The
names of the modules of torch's own tests are left out: they are open, too.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import functools
import hashlib
import itertools
import multiprocessing
import sys
import tempfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import structs
from packaging.requirements import Requirement

from abiscan.binary.elf import ElfFile
from abiscan.index.client import Index, settings_of_pip
from abiscan.index.system import System
from abiscan.inputs.files import Wheel
from abiscan.python.language.module_names import ModuleNames, names_of
from abiscan.python.torch_api.torch_classes import CLASSES, read_class
from abiscan.python.torch_api.torch_names import CLASS, FUNCTIONS, marks_of
from abiscan.regex import regex
from abiscan.torches import embedded, embedded_names, release_sets
from tools.blocks import DATA, MARKS
from tools.wheels import python_of

LIBRARY: Final = "torch/lib/libtorch_python.so"
_TESTS: Final = "torch.testing._internal"
_PLATFORM: Final = "manylinux_2_28_x86_64"
# A linker lets one text begin inside of another if both end alike: what precedes does not matter.
_TEXT: Final = regex(rb"[A-Za-z_][A-Za-z0-9_]{1,79}(?=\0)")
_MANGLED: Final = regex(r"_Z|N[KVRO]*\d+\w+E$|[A-Z][A-Za-z]?\d+\w+E$")
Names = dict[str, set[str]]
"""The marks of each module, and of each class, of one release."""


def read(files: Mapping[str, bytes], library: ElfFile, members: Iterable[str]) -> Names:
    """Return the names of a release.

    :param files: its Python files and stubs, by their paths in the wheel
    :param members: the paths of all its files
    """
    sources = {_module(path): (data, path.endswith("__init__.py")) for path, data in files.items() if _is_source(path)}
    known = {module: _read_module(module, *source) for module, source in sorted(sources.items())}
    names = {module: {".", "?", "+"} for module in _without_source(members)}
    names |= {module: marks_of(_with_functions_alone(of_module, known)) for module, of_module in known.items()}
    names[release_sets.PATCHED] = set().union(*(of_module.patched for of_module in known.values()))
    names[embedded_names.SOURCES] = {
        embedded_names.digest_of((path, len(data), zlib.crc32(data)) for path, data in files.items())
    }
    stubs = {path: ast.parse(data) for path, data in files.items() if path.startswith("torch/_C/")}
    declared = {name for tree in stubs.values() for name in _declared(tree)}
    names |= embedded_names.by_ending(text for text in declared | _texts_in(library) if text.isidentifier())
    functions = stubs.get("torch/_C/_VariableFunctions.pyi")
    if functions is not None:
        names[FUNCTIONS] = {".", *(node.name for node in functions.body if isinstance(node, ast.FunctionDef))}
    names[release_sets.UNLOADED] = known.keys() - _reached(known, sources)
    for loaded in _loaded(known):
        parent, _, name = loaded.rpartition(".")
        if parent in names:
            names[parent].add(name)
            names[parent].discard(f"{name}?")
    for name in CLASSES:
        of_class = read_class(name, functools.partial(_parsed, sources))
        if of_class is not None:
            names[f"{CLASS}{name}"] = marks_of(of_class)
    return names


def _texts_in(library: ElfFile) -> frozenset[str]:
    """Return the identifiers among the texts in a library, without the names of C++."""
    texts = {match[0].decode("ascii") for match in library.search_data(_TEXT)}
    return frozenset(text for text in texts if not _MANGLED.match(text))


def _with_functions_alone(names: ModuleNames, known: Mapping[str, ModuleNames]) -> ModuleNames:
    """The names of a module; of what it imports, only what may be called with known parameters, for packages."""
    imported = {name: origin for name, origin in names.imported.items() if _is_function(origin, known)}
    return structs.replace(names, imported=imported if names.is_package else {})


def _is_function(name: str, known: Mapping[str, ModuleNames]) -> bool:
    """Whether a dotted name is one of a function or class whose parameters are known, or leads to one."""
    for _ in known:
        module, _, function = name.rpartition(".")
        of_module = known.get(module)
        if of_module is None or not of_module.signatures.keys().isdisjoint((function, f"{function}.__init__")):
            return of_module is not None
        name = of_module.imported.get(function, "")
    return False


def _without_source(members: Iterable[str]) -> Iterator[str]:
    """The modules that are compiled, or folders."""
    for path in members:
        if path.startswith("torch/") and path.endswith((".py", ".so")) and not path.startswith("torch/lib/"):
            folders = path.split("/")[:-1]
            yield from (".".join(folders[:count]) for count in range(2, len(folders) + 1))
            if path.endswith(".so"):
                yield path.partition(".")[0].replace("/", ".")


def _is_source(path: str) -> bool:
    return path.startswith("torch/") and path.endswith(".py")


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _parsed(sources: Mapping[str, tuple[bytes, bool]], module: str) -> tuple[ast.Module, bool] | None:
    """The syntax tree of a module, and whether it is a package."""
    source, is_package = sources.get(module, (None, False))
    return None if source is None else (ast.parse(source), is_package)


def _is_test(module: str) -> bool:
    return module.startswith(_TESTS)


def _read_module(module: str, source: bytes, is_package: bool) -> ModuleNames:  # noqa: FBT001
    if _is_test(module) and not is_package:
        return ModuleNames(is_open=True, makes_modules=True)
    return _cached(module, hashlib.sha256(source).digest(), is_package, _Bytes(source))


class _Bytes:
    """A source, that does not count as an argument: its hash does."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Bytes)

    def __hash__(self) -> int:
        return 0


@functools.cache
def _cached(module: str, _digest: bytes, is_package: bool, source: _Bytes) -> ModuleNames:  # noqa: FBT001
    return names_of(source.data, module, is_package=is_package)


# ---- what is compiled


def _declared(tree: ast.Module) -> Iterator[str]:
    """The names that a stub declares, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


# ---- submodules, and classes


def _loaded(known: Mapping[str, ModuleNames]) -> set[str]:
    """The modules that ``import torch`` surely imports, by the imports that stand outside of conditions."""
    return _closure(known, lambda module: known[module].loads)


def _reached(known: Mapping[str, ModuleNames], sources: Mapping[str, tuple[bytes, bool]]) -> set[str]:
    """The modules that may be imported by what ``import torch`` imports, or by any function there.

    What is called while a package is imported is not known, so all functions count.
    """

    def imports(module: str) -> set[str]:
        # Of torch's own tests, only those are parsed that something else imports.
        source, is_package = sources[module]
        own = names_of(source, module, is_package=is_package) if _is_test(module) else known[module]
        return own.imports

    return _closure(known, imports)


def _closure(known: Collection[str], imports: Callable[[str], Iterable[str]]) -> set[str]:
    """The modules that ``import torch`` imports, by what each of them does; a module needs those around it."""
    closure: set[str] = set()
    waiting = ["torch"]
    while waiting:
        for module in itertools.accumulate(waiting.pop().split("."), "{}.{}".format):
            if module in known and module not in closure:
                closure.add(module)
                waiting.extend(imports(module))
    return closure


# ---- the data


def put(folder: Path, read: Mapping[str, Names], without: Collection[str] = ()) -> None:
    """Put the names of releases into the data.

    :param without: releases to leave out
    """
    content = {
        release: [(module, mark) for module, marks in names.items() for mark in marks]
        for release, names in read.items()
    }
    MARKS.put(folder, content, without)


# ---- from where they are read


def read_folder(package: Path) -> Names:
    """Return the names of an unpacked torch."""
    root = package.parent
    paths = [path for suffix in ("*.py", "*.pyi") for path in sorted(package.rglob(suffix))]
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    members = [path.relative_to(root).as_posix() for path in package.rglob("*") if path.is_file()]
    return read(files, ElfFile.open(root / LIBRARY), members)


def read_remote(version: str) -> Names:
    """Return the names of a release, read from its wheel on the package index, in place."""
    major, minor = python_of(version).split(".")
    system = System.of((int(major), int(minor)), _PLATFORM)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(Index(settings_of_pip(sys.executable), system, Path(folder))) as index,
    ):
        candidate = index.candidates(Requirement(f"torch==={version}"))[0]
        wheel = Wheel(Path(candidate.wheel), index.wheel(candidate).stream())
        paths = [path for path in wheel.list_members() if path.startswith("torch/") and path.endswith((".py", ".pyi"))]
        wheel.announce_reads([*paths, LIBRARY])
        files = {path: wheel.read_content(path) for path in paths}
        return read(files, wheel.find_member(LIBRARY).open_elf(), wheel.list_members())


def _read_all(versions: Iterable[str], jobs: int) -> dict[str, Names]:
    versions = list(versions)
    found = {}
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        size = max(1, min(8, len(versions) // jobs))  # neighbours share most files
        for version, names in zip(versions, pool.imap(read_remote, versions, size), strict=True):
            print(f"torch {version}: {len(names)} modules", flush=True)
            found[version] = names
    return found


def main() -> int:
    """Read, and put the names into the data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", metavar="VERSION", help="releases to read")
    parser.add_argument("--all", action="store_true", help="every embedded release")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    versions = [str(version) for version in embedded.versions()] if arguments.all else arguments.versions
    if not versions:
        parser.error("name a release, or --all")
    put(DATA / "names", _read_all(versions, arguments.jobs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
