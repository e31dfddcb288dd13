"""Put a release of torch into the package: everything that is kept of it, in all data files.

    make release VERSION=2.16.0                            # the builds on the package index, for both machines
    make release VERSION="2.16.0 2.16.0+cpu" INDEX=URL     # another build, from the index that has it
    python -m tools.release 2.16.0 --wheels folder         # wheels that are there already
    python -m tools.release --remove 2.16.0                # take a release out again

Each wheel is fetched once with pip, unpacked as far as it is read, and deleted; all readers run over the unpacked
files. What the package has of other releases stays as it is, so nothing else is fetched; what is new is put into files
of its own (``tools.blocks``). The same wheels give the same bytes.

Needs clang 18 or newer for the layouts of classes, and for aarch64 the headers of its C++ library (Debian:
``libstdc++-12-dev-arm64-cross``). For the classes of ``c10/cuda``, the headers of CUDA are downloaded in the version
that the wheel requires. What only a running torch says is asked of it (``tools.ask_torch``), which needs gcc and Python
3.11.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from packaging.version import Version

from abiscan import release_data
from abiscan.binary.elf import Machine
from abiscan.inputs import system
from abiscan.models import loaders
from abiscan.torches import (
    embedded,
    embedded_declarations,
    embedded_names,
    embedded_operators,
    layout_changes,
    layouts,
)
from abiscan.torches.clang import ClangProgram
from tools import (
    ask_torch,
    build_python_data,
    build_stable_data,
    data_files,
    record_companions,
    record_loaders,
    record_names,
    record_torchscript,
    torch_images,
)
from tools.blocks import DATA
from tools.cuda_headers import cuda_headers
from tools.data_files import PACKAGE, Build, ClassLayouts, Headers, minor_of
from tools.read_release import read_build, read_include, read_layouts, unpack
from tools.wheels import download, python_of

DISPATCH: Final = PACKAGE / "dispatch/data"
ATEN: Final = PACKAGE / "emulation/data/aten.txt"
KINDS: Final = (
    *("images", "exports", "operators", "headers", "layouts", "declarations", "names", "python"),
    *data_files.MARKS_OF_BUILDS,
)
"""The kinds of data in blocks: folders of the data on torch."""

OUTPUTS: Final = (
    *(DATA / name for name in (*KINDS, "architectures.txt")),
    *(DISPATCH / "keys.txt", DISPATCH / "tags.txt", ATEN, ask_torch.ACCEPTANCE, ask_torch.STABLE_TYPES),
    *(build_python_data.OUTPUT, build_stable_data.OUTPUT, record_torchscript.OUTPUT, loaders.PATH),
    *(*record_companions.PINS.values(), record_companions.OUTPUT),
)
"""All folders and files that depend on releases of torch."""

_T = TypeVar("_T")


class Found:
    """What was read of the wheels of some releases."""

    def __init__(self) -> None:
        self.builds: list[Build] = []
        self.headers: dict[str, Headers] = {}
        self.layouts: dict[tuple[str, str], ClassLayouts] = {}
        self.images: list[torch_images.ImageBuild] = []
        self.stable: dict[str, build_stable_data.Headers] = {}
        self.said: dict[str, ask_torch.Said] = {}
        self.names: dict[str, record_names.Names] = {}
        self.loaders: dict[str, dict[str, Any]] = {}
        self.torchscript: dict[str, set[str]] = {}

    def read(self, package: Path, machine: Machine, compiler: ClangProgram, cuda: Path | None) -> None:
        """Run all readers over one unpacked torch. Its headers are read for one machine; they are the same for all.

        It runs, too, if it is for this machine and this Python.

        :param cuda: the headers of its CUDA; without them, the classes of ``c10/cuda`` cannot be laid out
        """
        build = _timed("libraries", lambda: read_build(package))
        self.builds.append(build)
        release = Version(build.description["build"]).public
        if release not in self.headers:
            self.headers[release] = _timed("headers", lambda: read_include(package))
            self.stable[release] = build_stable_data.read(package)
            self.loaders[release] = record_loaders.read_folder(package)
        if machine is Machine.X86_64 and release not in self.names:
            self.names[release] = _timed("names", lambda: record_names.read_folder(package))
            self.torchscript[release] = record_torchscript.read_folder(package)
        if release not in self.said and _runs_here(release, machine):
            keys = build.operators.keys.values()
            self.said[release] = _timed("running it", lambda: ask_torch.ask(package, release, keys=keys))
        if cuda is not None or not ((release, machine.value) in self.layouts or _has_cuda(release, machine)):
            classes = _timed("layouts", lambda: read_layouts(package, machine, compiler, cuda))
            self.layouts[release, machine.value] = classes
        for gap in build.operators.gaps:
            print(f"  gap: {gap}")


def _runs_here(release: str, machine: Machine) -> bool:
    return machine is system.own_machine() and python_of(release) == ask_torch.THIS_PYTHON


def _has_cuda(release: str, machine: Machine) -> bool:
    """Whether a build with CUDA is embedded, so that the layouts of the release have the classes of ``c10/cuda``."""
    builds = embedded.builds_named(release, machine)
    return any("libtorch_cuda.so" in embedded.libraries(full, machine) for full in builds)


def _timed(what: str, read: Callable[[], _T]) -> _T:
    start = time.monotonic()
    result = read()
    print(f"  {what}: {time.monotonic() - start:.0f} s", flush=True)
    return result


def packages(versions: Iterable[str], wheels: Path | None, work: Path) -> Iterator[tuple[Path, Machine, Path | None]]:
    """Each build of some releases, unpacked, with the headers of its CUDA; deleted when the next one is asked for.

    :param wheels: a folder of wheels that need not be fetched
    """
    for version in versions:
        for machine in (Machine.AARCH64, Machine.X86_64):
            with tempfile.TemporaryDirectory(dir=work) as scratch:
                name = f"torch-{version}-*_{machine.value}.whl"
                kept = next(iter(sorted(wheels.glob(name))), None) if wheels else None
                wheel = kept or download(
                    f"torch==={version}", Path(scratch), python=python_of(version), machine=machine
                )
                if wheel is None:
                    print(f"torch {version}: no wheel for {machine.value}", flush=True)
                    continue
                print(f"torch {version} for {machine.value}", flush=True)
                package = unpack(wheel, Path(scratch), whole=_runs_here(version, machine))
                cuda = cuda_headers(wheel, Path(scratch, "cuda"))
                if kept is None:
                    wheel.unlink()
                yield package, machine, cuda


def put(found: Found, builds: Collection[str] = (), releases: Collection[str] = ()) -> None:
    """Put what was read into the data files, and take some builds and some releases out of them."""
    on_machines = [f"{release} {machine.value}" for release in releases for machine in Machine]
    read = {f"{release} {machine}": classes for (release, machine), classes in found.layouts.items()}
    torch_images.put(DATA / "images", found.images, releases)
    data_files.put_exports(DATA / "exports", found.builds, builds)
    data_files.put_operators(DATA / "operators", found.builds, builds)
    data_files.put_marks(DATA, found.builds, builds)
    data_files.put_headers(DATA / "headers", found.headers, releases)
    data_files.put_layouts(DATA / "layouts", read, on_machines)
    record_names.put(DATA / "names", found.names, releases)
    ask_torch.put(found.said, releases)
    _forget()
    data_files.put_declarations(DATA / "declarations", found.headers, releases)
    # Of releases that stay, a minor version or an operator may be known that those which go had alone.
    minors = {minor_of(str(version)) for version in embedded.versions()}
    operators = {str(name) for name in embedded_operators.table().all_names} if releases else None
    _rewrite(DATA / "architectures.txt", lambda text: data_files.architectures(text, found.builds, builds))
    _rewrite(DISPATCH / "keys.txt", lambda text: data_files.keys(text, found.builds, minors))
    _rewrite(DISPATCH / "tags.txt", lambda text: data_files.tags(text, found.headers, minors))
    _rewrite(ATEN, lambda text: data_files.aten(text, found.headers, operators))
    _rewrite(record_torchscript.OUTPUT, lambda text: record_torchscript.rewritten(text, found.torchscript, releases))
    _rewrite(loaders.PATH, lambda text: record_loaders.rewritten(json.loads(text), found.loaders, releases))
    build_python_data.write()
    record_companions.write()
    build_stable_data.write(found.stable)


def next_edition() -> None:
    """Raise the version of the data, which is that of ``abiscan-data``."""
    version = release_data.own_version()
    _rewrite(DATA / release_data.VERSION_FILE, lambda _: f"{version._replace(edition=version.edition + 1)}\n")


def _forget() -> None:
    """Read the data files again that were read before."""
    for module in (embedded, embedded_declarations, embedded_names, embedded_operators, layouts, layout_changes):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def remove(versions: Iterable[str]) -> None:
    """Take releases out of the data files; with a local tag, one of their builds."""
    wanted = set(versions)
    known = [(version, f"{full} {machine.value}", full) for version, machine, full in embedded.builds()]
    gone = {build for version, build, full in known if {str(version), full} & wanted}
    left = {version for version, build, _ in known if build not in gone}
    put(Found(), gone, {str(version) for version in embedded.versions() if version not in left})


def _rewrite(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text("utf-8")), "utf-8")


def use_index(url: str) -> None:
    """Let pip look on another index, too."""
    os.environ["PIP_EXTRA_INDEX_URL"] = " ".join(filter(None, (os.environ.get("PIP_EXTRA_INDEX_URL"), url)))


def drift(version: str) -> None:
    """Print what differs from the release before."""
    release = Version(version)
    before = [known for known in embedded.versions() if known < release]
    if before:
        command = [sys.executable, "-m", "abiscan", "diff", str(before[-1]), release.public]
        subprocess.run(command, check=False)


def main() -> int:
    """Read the wheels, write the data files, and print what changed in torch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "versions", nargs="+", metavar="VERSION", help="releases; with a local tag, one of their builds"
    )
    parser.add_argument("--remove", action="store_true", help="take the releases out of the package instead")
    parser.add_argument("--wheels", type=Path, help="a folder of wheels that need not be fetched")
    parser.add_argument("--index", metavar="URL", help="where pip looks, too")
    parser.add_argument("--work", type=Path, help="where wheels are unpacked: several GB")
    parser.add_argument("--clang", default=shutil.which("clang++-19") or "clang++", help="the compiler")
    arguments = parser.parse_args()
    if arguments.index:
        use_index(arguments.index)
    if arguments.remove:
        remove(arguments.versions)
        return 0
    if shutil.which(arguments.clang) is None:
        raise SystemExit(f"{arguments.clang}: not found; install clang 18 or newer, or name it with --clang")
    found = Found()
    with tempfile.TemporaryDirectory(dir=arguments.work) as work:
        compiler = ClangProgram(arguments.clang, lambda left_out: print("  left out:", *left_out, flush=True))
        for package, machine, cuda in packages(arguments.versions, arguments.wheels, Path(work)):
            found.read(package, machine, compiler, cuda)
        for version in arguments.versions:
            found.images += torch_images.read(version, Path(work))
    if not found.builds:
        raise SystemExit(f"there is no wheel of torch {' or '.join(arguments.versions)}")
    put(found)
    next_edition()
    drift(arguments.versions[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
