"""The Python names of packages next to torch, for ``abiscan/torches/data/companions``, and which version of Triton,
torchvision, torchaudio and torchtext goes with each torch.

    python -m tools.record_companions                    # those that go with embedded releases of torch
    python -m tools.record_companions numpy==2.4.6       # of each minor version of numpy, one release
    python -m tools.record_companions --requiring NAME   # which distributions require them: those listed, and more

A torch requires its Triton; torchvision, torchaudio and torchtext require their torch. They are read from the sources
in their wheels, as torch is (``tools.record_names``); of all but Triton, one release of each minor version. Most
names of numpy are compiled or computed, so numpy is installed and asked: one that any of the recorded versions lists,
or has in a table of old names, is there if ``hasattr`` says so.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import json
import pkgutil
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

from msgspec import structs
from packaging.requirements import Requirement
from packaging.version import Version

from abiscan.errors import InputError
from abiscan.index.client import Index, settings_of_pip
from abiscan.index.system import System
from abiscan.python.interpreter.models import companions
from abiscan.python.language.module_names import names_of
from abiscan.python.package.sources import normalized
from abiscan.python.torch_api.torch_names import marks_of
from abiscan.regex import regex
from abiscan.torches import companion_names, embedded, release_sets
from tools.blocks import DATA, MARKS
from tools.wheels import download, python_of

PINS: Final = {package: DATA / f"{package}.txt" for package in companion_names.WITH_TORCH}
OUTPUT: Final = DATA / "companions"
REQUIRING: Final = DATA / "requiring.txt"
_NEVER: Final = Version("9999")
_ENDED: Final = {"torchtext": Version("2.4")}
"""The first torch that no version of a package loads with, whatever its metadata allow (pytorch/text#2272)."""
_MAKERS: Final = "fb"
"""The part of the names of Meta's own modules."""
Names = dict[str, set[str]]
"""The marks of each module of one version."""
_PLATFORM: Final = "manylinux_2_28_x86_64"
_PYTHON: Final = (3, 12)
"""For which the newest versions of most distributions are."""
_OLD_NAMES: Final = regex("__(deprecated|expired|former)_")
_TEST_PARTS: Final = ("tests", "testing", "conftest", "setup", "f2py", "distutils", "_pyinstaller", "_configtool")


# ---- Triton, torchvision, torchaudio, torchtext


def read_sources(wheel: Path, package: str) -> Names:
    """Return the names of a package, from its sources; what is compiled is open."""
    with zipfile.ZipFile(wheel) as archive:
        members = [path for path in archive.namelist() if path.startswith(f"{package}/")]
        sources = {path: archive.read(path) for path in members if path.endswith(".py")}
    read = {}
    names: Names = {}
    for path, source in sources.items():
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        of_module = names_of(source, module, is_package=path.endswith("__init__.py"))
        possible = of_module.possible - _in_no_wheel(source)
        read[module] = structs.replace(of_module, possible=possible, signatures={}, imported={}, deprecated=set())
    for path in members:
        folders = path.split("/")[:-1]
        names |= {".".join(folders[:count]): {".", "?", "+"} for count in range(1, len(folders) + 1)}
        if ".so" in path:
            names[path.partition(".")[0].replace("/", ".")] = {".", "?", "+"}
    names |= {module: marks_of(of_module) for module, of_module in read.items()}
    # torchaudio takes functions of its backend by ``setattr(torchaudio, name, …)``.
    if any(b"setattr(%b," % package.encode() in source for source in sources.values()):
        names[package].add("?")
    names[release_sets.PATCHED] = set().union(*(of_module.patched for of_module in read.values()))
    return names


def _in_no_wheel(source: bytes) -> set[str]:
    """Return what a source may import from modules that only their makers have: ``pytorch.vision.fb.io``."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom))
    own = (node for node in nodes if not node.level and _MAKERS in (node.module or "").split("."))
    return {alias.asname or alias.name for node in own for alias in node.names}


@contextlib.contextmanager
def _index_for(torch: str, folder: Path) -> Iterator[Index]:
    """Open the index for the Python whose wheel of a torch is read."""
    major, minor = map(int, python_of(torch).split("."))
    system = System.of((major, minor), _PLATFORM)
    with contextlib.closing(Index(settings_of_pip(sys.executable), system, folder)) as index:
        yield index


def _triton_for(torch: str, folder: Path) -> str:
    """Return the Triton that a release of torch requires, with the machine if it is for one alone; empty for none."""
    with _index_for(torch, folder) as index:
        candidate = index.candidates(Requirement(f"torch==={torch}"))[0]
        requirements = index.requirements(candidate)
    for requirement in requirements:
        if requirement.name == "triton":
            (specifier,) = requirement.specifier
            return specifier.version + (" x86_64" if "platform_machine" in str(requirement.marker) else "")
    return ""


def _version_for(torch: str, folder: Path, package: str) -> str:
    """Return the newest version of a package that requires a release of torch; empty where none says which."""
    if Version(torch) >= _ENDED.get(package, _NEVER):
        return ""
    with _index_for(torch, folder) as index:
        for candidate in index.candidates(Requirement(package)):
            required = (
                [item for item in index.requirements(candidate) if item.name == "torch"] if candidate.wheel else []
            )
            if required and required[0].specifier and torch in required[0].specifier:
                return str(candidate.version)
    return ""


def write() -> None:
    """Write which versions go with each embedded release of torch, and record those that are not."""
    content = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for package in companion_names.WITH_TORCH:
            recorded = companion_names.versions(package) if OUTPUT.exists() else ()
            torches = {pin.split()[0]: torch for torch, pin in _pins_of(package, folder).items() if pin}
            newest = {companion_names.column_of(package, version): version for version in torches}
            for column in newest.keys() - set(recorded):
                version = newest[column]
                wheel = download(f"{package}=={version}", folder, python=python_of(torches[version]))
                if wheel is None:
                    raise SystemExit(f"no wheel of {package} {version}")
                content[f"{column} {package}"] = read_sources(wheel, package)
                wheel.unlink()
    _put(content)


def _pins_of(package: str, folder: Path) -> dict[str, str]:
    """Write and return what goes with each embedded release of torch."""
    path = PINS[package]
    text = path.read_text("utf-8") if path.exists() else ""
    pins = {line.partition(" ")[0]: line.partition(" ")[2] for line in text.splitlines()}
    for torch in map(str, embedded.versions()):
        if torch not in pins:
            pins[torch] = _triton_for(torch, folder) if package == "triton" else _version_for(torch, folder, package)
    path.write_text("".join(f"{torch} {pin}".rstrip() + "\n" for torch, pin in pins.items()), "utf-8")
    return pins


# ---- numpy


def list_names(folder: str, asked: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the names of each public module of the numpy in a folder; run in a process of its own.

    :param asked: names of other versions that modules are asked for, beyond those that they list
    """
    sys.path.insert(0, folder)
    warnings.simplefilter("ignore")
    numpy = importlib.import_module("numpy")
    found = {}
    for module in ["numpy", *_public_modules(numpy.__path__, "numpy.")]:
        with contextlib.suppress(Exception):  # some import what is not installed
            imported = importlib.import_module(module)
            names = {*dir(imported), *_unlisted(imported), *asked.get(module, ())}
            found[module] = sorted(name for name in names if _has(imported, name))
    return found


def _unlisted(module: ModuleType) -> set[str]:
    """Return what ``__getattr__`` of a module may give, going by its tables: numpy's names before they went."""
    tables = (table for name, table in vars(module).items() if _OLD_NAMES.match(name) and isinstance(table, dict))
    return set[str]().union(*tables)


def _public_modules(path: Iterable[str], prefix: str) -> Iterator[str]:
    for module in pkgutil.iter_modules(path, prefix):
        last = module.name.rpartition(".")[2]
        if last not in _TEST_PARTS and not last.startswith("_"):
            yield module.name
            if module.ispkg:
                yield from _public_modules([str(Path(folder, last)) for folder in path], f"{module.name}.")


def _has(module: object, name: str) -> bool:
    try:
        return hasattr(module, name)
    except Exception:  # noqa: BLE001 - numpy raises others for what it took away
        return False


def _ask(folder: Path, asked: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    command = [sys.executable, "-m", "tools.record_companions", "--list", str(folder)]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
    result: dict[str, list[str]] = json.loads(done.stdout)
    return result


def read_numpy(folders: Mapping[str, Path]) -> dict[str, Names]:
    """Return the names of versions of numpy that are installed in folders."""
    listed = [_ask(folder, {}) for folder in folders.values()]
    all_names = {
        module: sorted({*_recorded(module)}.union(*(own.get(module, ()) for own in listed)))
        for module in sorted(set().union(*listed))
    }
    versions = {}
    for version, folder in folders.items():
        files = [path.relative_to(folder).as_posix() for path in sorted(folder.glob("numpy/**/*.py"))]
        modules = {path.removesuffix(".py").removesuffix("/__init__").replace("/", "."): path for path in files}
        packages = {module for module, path in modules.items() if path.endswith("__init__.py")}
        names: Names = {module: {".", "?"} for module in modules}
        names |= {module: {".", *own} for module, own in _ask(folder, all_names).items()}
        for module in names.keys() & packages:
            names[module].add("/")
        versions[version] = names
    return versions


def _recorded(module: str) -> set[str]:
    marks = companion_names.table().marks_of(module) if OUTPUT.exists() else {}
    return {mark for mark in marks if mark.isidentifier()}


def _record_numpy(requirements: Iterable[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        folders = {}
        for requirement in requirements:
            version = ".".join(requirement.partition("==")[2].split(".")[:2])
            folders[version] = Path(folder, version)
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", requirement]
            subprocess.run([*command, "--target", str(folders[version])], check=True)
        _put({f"{version} numpy": names for version, names in read_numpy(folders).items()})


def write_requiring(names: Iterable[str]) -> None:
    """Write which distributions require packages next to torch, going by the metadata of their newest versions."""
    listed = companions.distributions_requiring()
    requiring = {package: set[str]() for package in sorted(listed)}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        system = System.of(_PYTHON, _PLATFORM)
        index = stack.enter_context(contextlib.closing(Index(settings_of_pip(sys.executable), system, Path(folder))))
        for name in sorted({*map(normalized, names)}.union(*listed.values())):
            # What has source code alone has metadata only once it is built: what was known of it stays.
            required = {package for package, distributions in listed.items() if name in distributions}
            with contextlib.suppress(InputError):
                newest = index.candidates(Requirement(name))[0]
                if newest.wheel and not newest.unfit:
                    required = {normalized(item.name) for item in index.requirements(newest)}
            for package in required & requiring.keys():
                requiring[package].add(name)
    lines = (" ".join((package, *sorted(distributions))) for package, distributions in requiring.items())
    head = (
        "# Packages next to torch, and distributions whose metadata require them (tools.record_companions --requiring)"
    )
    REQUIRING.write_text("\n".join((head, *lines, "")), encoding="utf-8")


def _put(content: Mapping[str, Names]) -> None:
    marks = {
        column: [(module, mark) for module, own in names.items() for mark in own] for column, names in content.items()
    }
    MARKS.put(OUTPUT, marks)


def main() -> int:
    """Read, and put the names into the data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("numpy", nargs="*", metavar="numpy==VERSION", help="versions of numpy, instead of the others")
    parser.add_argument("--requiring", nargs="*", metavar="NAME", help="distributions that may require them")
    parser.add_argument("--list", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.list:
        json.dump(list_names(arguments.list, json.load(sys.stdin)), sys.stdout)
    elif arguments.requiring is not None:
        write_requiring(arguments.requiring)
    elif arguments.numpy:
        _record_numpy(arguments.numpy)
    else:
        write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
