"""What the Python code of a package for Windows or macOS finds on one torch: see ``abiscan.verdict.world``.

What the package's libraries register is not read there. So an operator of theirs counts as present, unless none of the
libraries that are in the process can have defined it.
"""

from __future__ import annotations

import copy
import functools
import posixpath
import re
from typing import Final

from abiscan.binary.elf import Machine
from abiscan.binary.image import ImageSystem
from abiscan.cpu.processors import Cpu
from abiscan.dispatch import torchscript
from abiscan.inputs.image_files import ImageFile, main_image
from abiscan.inputs.package_files import Package
from abiscan.inputs.sources import Target
from abiscan.inputs.version import TorchVersion, number_of
from abiscan.linkage.image_errors import error_text
from abiscan.linkage.images import load_image
from abiscan.python.package.model import Answer, LoadedBy, NoResult, Raised
from abiscan.python.package.systems import MACOS, WINDOWS, PythonSystem
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.torches import embedded, embedded_operators, embedded_python
from abiscan.torches.torch import Torch
from abiscan.torches.torch_images import TorchImages
from abiscan.verdict.any_system import (
    LoadAttempt,
    importing_python,
    possible_pythons,
    raised_by,
    refused_load,
    with_bases,
)
from abiscan.verdict.images import machine_of

SYSTEMS: Final = {ImageSystem.WINDOWS: WINDOWS, ImageSystem.MACOS: MACOS}
"""The systems of images, as Python code sees them."""

_ATEN: Final = "aten"


class ImageWorld:
    """The process into which a package for Windows or macOS is imported. See ``abiscan.python.package.model.World``.

    :raises InputError: the torch does not exist for its system and machine
    """

    missing_requirements: tuple[str, ...] = ()
    """None: what is on that machine is not known."""
    is_exact = False
    """The texts have folders in them, and are in the language of the user."""

    def __init__(self, torch: Torch, target: Target, package: Package) -> None:
        self._target = target
        first = main_image(target.images)
        self._system = SYSTEMS[first.system]
        self._torch = torch.images(first.system, machine_of(first, torch))
        self.build = self._torch.build
        self.release_number = number_of(self.build) if self.build else None
        self.cpu: Cpu | None = None
        self.gpus: tuple[tuple[int, int], ...] = ()
        self.torch_version: str | Answer = self.build or Answer.UNKNOWN
        self.cuda = _find_cuda(self._torch, self._system)
        self.cxx11_abi: bool | Answer = Answer.UNKNOWN
        self.torch_names: TorchNames | None = None
        self.python = importing_python(torch, target)
        self.oldest_python, self.newest_python = possible_pythons(self.python, target, self.release_number)
        self.machine = self._system.machine(self._torch.machine.value)
        self.unread = (
            f"registrations, layouts and code for GPUs are not read in files for {first.system.value}: libraries that "
            "load are assumed to define their operators"
        )
        self.attempts: dict[str, LoadAttempt] = {}
        """What came of each load, by path."""
        self._package = package
        self._files = {posixpath.relpath(file.location, package.root): file for file in target.images}
        self._loaded: frozenset[str] = frozenset()

    def fresh(self) -> ImageWorld:
        """Return the same world, with nothing of the package loaded yet."""
        world = copy.copy(self)
        world.attempts, world._loaded = {}, frozenset()
        return world

    def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
        """Return what loading a library of the package raises; see ``World.load``."""
        if path is None:
            return Answer.UNKNOWN
        attempt = self.attempts[path] = self._make_attempt(path, loader)
        if attempt.words is None:
            return Answer.UNKNOWN if attempt.unreadable else None
        missing = attempt.lacks_library and loader is not LoadedBy.IMPORT and self._system.is_windows
        kind = "FileNotFoundError" if missing else None
        return raised_by(attempt, loader, of_loader=kind)

    def _make_attempt(self, path: str, loader: LoadedBy) -> LoadAttempt:
        file = self._files.get(path)
        if file is None or self._torch.machine not in file.images:
            return LoadAttempt(path=path, words=None, unreadable=True)
        result = load_image(file, self._torch, self._target.images)
        if result.fails:
            words = error_text(file, result, imported=loader is LoadedBy.IMPORT)
            return LoadAttempt(path=path, words=words, exact=False, lacks_library=bool(result.libraries))
        if result.undecided:
            return LoadAttempt(path=path, words=None, unreadable=True)
        # What a library brings along is in the process, too.
        along = {inside for inside, file in self._files.items() if file.path in result.along}
        self._loaded |= {path} | along
        return LoadAttempt(path=path, words=None)

    def lacking_torch(self, path: str) -> None:
        """Say nothing of a process without torch: where it finds libraries is not known."""

    def has(self, path: str) -> bool:
        """Whether a library of the package is in the process."""
        return path in self._loaded

    def operators_of(self, path: str) -> tuple[str, ...]:  # noqa: ARG002 - the same for all
        """Return none: what a library registers is not read."""
        return ()

    def operator(self, name: str) -> bool | Answer:
        """Tell whether an operator is there; see ``World.operator``. Torch is assumed to have those of Linux."""
        if name in _of_torch(self.release_number):
            return True
        # Nothing is read of what libraries register, so a no needs evidence: an operator of torch that this release
        # lacks, or a namespace that only libraries mention which failed to load.
        namespace = name.partition("::")[0]
        if namespace == _ATEN:
            version = TorchVersion.parse(self.release_number or "")
            known = bool(_of_torch(self.release_number)) and not torchscript.may_have(name, version)
            return False if known else Answer.UNKNOWN
        if namespace in _operator_namespaces(self.release_number):
            return Answer.UNKNOWN
        failed = [path for path, attempt in self.attempts.items() if attempt.words is not None]
        if not failed or any(self._mentions(path, namespace) for path in self._loaded):
            return Answer.UNKNOWN
        return False if any(self._mentions(path, namespace) for path in failed) else Answer.EITHER

    def call(self, operator: str) -> int | bool | str | NoResult | None:
        """Refuse to say what an operator returns: its code is not read."""
        return NoResult(reason=f"{operator} is not read in files for {self._torch.system.value}")

    def refused_load(self, path: str) -> str | None:
        """Return what ``torch.load`` says of a file of the package; see ``World.refused_load``."""
        return refused_load(self._package, path, self.release_number)

    def _mentions(self, path: str, namespace: str) -> bool:
        """Whether a library has a namespace among its texts, so that it may define operators in it."""
        file = self._files.get(path)
        return file is not None and _mentions(file, namespace)


@functools.lru_cache(maxsize=64)
def _mentions(file: ImageFile, namespace: str) -> bool:
    name = re.escape(namespace.encode())
    return re.search(rb"\0" + name + rb"\0|\b" + name + rb"::", file.source.read_head(file.source.size)) is not None


@functools.lru_cache(maxsize=16)
def _of_torch(release: str | None) -> frozenset[str]:
    """Return the operators that a release has on Linux, with and without overloads; none if they are not embedded."""
    version = TorchVersion.parse(release or "")
    if version is None or version not in embedded.versions(Machine.X86_64):
        return frozenset()
    names = embedded_operators.names(str(version), Machine.X86_64)
    return with_bases(names | (embedded_python.definitions(version) or frozenset()))


@functools.lru_cache(maxsize=16)
def _operator_namespaces(release: str | None) -> frozenset[str]:
    return frozenset(name.partition("::")[0] for name in _of_torch(release)) | embedded_python.namespaces()


def _find_cuda(torch: TorchImages, system: PythonSystem) -> str | Answer | None:
    """Return ``torch.version.cuda``: there is none on macOS."""
    version = TorchVersion.parse(torch.build or "")
    if system is MACOS:
        return None
    if version is None:
        return Answer.UNKNOWN
    return version.cuda or (None if (version.local or "").startswith("cpu") else Answer.UNKNOWN)
