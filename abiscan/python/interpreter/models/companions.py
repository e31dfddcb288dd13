"""Packages next to torch: the names that Triton, torchvision, torchaudio, torchtext and numpy lack in the version that
is installed, that goes with the torch, or that is required, and those that packages import without requiring them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from abiscan import release_data
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.values import NotKnown, PythonError, Thrown
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, World
from abiscan.python.torch_api.torch_names import COMPANIONS, TorchNames

REQUIRED_BY_TORCH: Final = frozenset({"triton"})
"""Those that builds of torch require."""
_REQUIRING_TORCH: Final = frozenset({"torchaudio", "torchtext", "torchvision"})
"""Those whose versions each require a release of torch, and may not load with another one."""
_FOLLOWING_TORCH: Final = REQUIRED_BY_TORCH | _REQUIRING_TORCH


class CompanionModule(NotKnown, frozen=True):
    """A module of such a package: not known but for the names that it lacks."""

    def get_attribute(self, machine: object, name: str) -> object:
        """Return a name of the module; raises if it certainly lacks it."""
        assert isinstance(machine, PythonMachine)
        if name == "__version__" and self.name in _REQUIRING_TORCH:
            return _version(machine, self.name) or self.part(".__version__")
        if surely_lacks(machine, self.name, name):
            text: object = f"module '{self.name}' has no attribute '{name}'"
            # numpy says of many what to use instead.
            raise _lacks(machine, AttributeError, NotKnown(str(text)) if self.name == "numpy" else text, self.name)
        return as_module(machine, f"{self.name}.{name}") or self.part(f".{name}")


def names_of(world: World, library: PythonCode, package: str) -> Sequence[TorchNames]:
    """Return the names of the versions of a package that may be there; none if that is not known.

    :param library: the code that requires it
    """
    names, version = world.torch_names, library.surroundings.version(package)
    if names is None or names.companions is None or version is None:
        return ()
    specifier = library.required_version(package)
    wanted = specifier if version is Answer.UNKNOWN else f"=={version}"
    if version is Answer.UNKNOWN and package in _FOLLOWING_TORCH:
        goes_with = names.companions().required(package, world.machine)
        if package in _REQUIRING_TORCH:
            # Who uses a torch that the code does not allow has what requires that torch, and is not allowed either.
            wanted = ",".join(filter(None, (goes_with, None if _excludes(library, names.release) else specifier)))
        elif isinstance(world.cuda, str):
            wanted = goes_with or specifier
    return names.companions().matching(package, wanted) if wanted else ()


def _excludes(library: PythonCode, release: str | None) -> bool:
    """Whether the metadata of the code do not allow a release of torch."""
    specifier = library.required_version("torch")
    if not specifier or release is None:
        return False
    try:
        return release not in SpecifierSet(specifier)
    except InvalidSpecifier:
        return False


def _version(machine: PythonMachine, package: str) -> str | None:
    """Return the version of such a package that is there; None if it is not known."""
    installed = machine.library.surroundings.version(package)
    if not isinstance(installed, Answer):
        return installed

    def ask(world: World) -> str | None:
        names, torch = world.torch_names, world.torch_version
        if names is None or names.companions is None or isinstance(torch, Answer):
            return None
        # Each is built with its torch, for the same CUDA, and says so likewise.
        required, label = names.companions().required(package, world.machine), torch.partition("+")[1:]
        return required.removeprefix("==") + "".join(label) if required else None

    answer = machine.world.tells(f"the version of {package} that goes with it", ask)
    return answer if isinstance(answer, str) else None


def comes_with_torch(machine: PythonMachine, package: str) -> bool:
    """Whether the build of torch requires a package, and nothing shows that it is not installed."""
    answer = package in REQUIRED_BY_TORCH and machine.world.tells(
        f"whether it requires {package}",
        lambda world: (
            isinstance(world.cuda, str)
            and world.torch_names is not None
            and world.torch_names.companions is not None
            and world.torch_names.companions().required(package, world.machine) is not None
        ),
    )
    return answer is True


def surely_lacks(machine: PythonMachine, module: str, name: str) -> bool:
    """Whether each version of a package that may be there lacks a name of a module, and no code may have set it."""
    return _all_say(machine, f"{module} lacks {name}", module, lambda names: names.lacks(module, name)) and not (
        machine.library.may_set(name) or machine.library.may_make_module(f"{module}.{name}")
    )


def lacks_module(machine: PythonMachine, name: str) -> bool:
    """Whether each version of a package that may be there lacks a module."""
    return _all_say(machine, f"there is no {name}", name, lambda names: names.has_module(name) is False) and not (
        machine.library.may_make_module(name)
    )


def misses(machine: PythonMachine, file: str) -> bool:
    """Whether a source seems to use, as it is imported, a name that such a package lacks."""
    library = machine.library
    return any(
        _misses_part(machine, file, package)
        for package in COMPANIONS
        if _is_told_of(library, package) and library.companion_uses(file, package)
    )


def _misses_part(machine: PythonMachine, file: str, package: str) -> bool:
    # Of most names, what a package has is known at once; where a source uses them takes a look at its text.
    library = machine.library
    return bool(
        machine.world.tells(
            f"whether it lacks a name of {package} that {file} uses outside of functions",
            lambda world: may_miss(library, file, names_of(world, library, package)),
        )
    )


def may_miss(library: PythonCode, file: str, versions: Sequence[TorchNames]) -> bool:
    """Whether a source seems to use, as it is imported, a name that each of some versions of such a package lacks."""
    return bool(versions) and any(
        all(names.first_lacking(use) is not None for names in versions) and library.uses_at_import(file, use)
        for use in library.companion_uses(file, versions[0].top)
    )


def as_module(machine: PythonMachine, name: str) -> CompanionModule | None:
    """Return a module of such a package; None if it may be something else."""
    is_there = _all_say(machine, f"{name} is a module", name, lambda names: names.source.is_module(name))
    return CompanionModule(name) if is_there else None


def absent_module(machine: PythonMachine, name: str) -> Thrown | None:
    """Return what the import of a module raises that such a package lacks; None for any other."""
    if not lacks_module(machine, name):
        return None
    absent = name
    while lacks_module(machine, absent.rpartition(".")[0]):
        absent = absent.rpartition(".")[0]
    return _lacks(machine, ModuleNotFoundError, f"No module named '{absent}'", absent)


def cannot_import(machine: PythonMachine, module: str, name: str) -> Thrown | None:
    """Return what ``from MODULE import NAME`` raises for a name that such a package lacks; None for any other."""
    if not surely_lacks(machine, module, name):
        return None
    source = machine.library.surroundings.source(module)
    text = f"cannot import name '{name}' from '{module}' ({source or '…'})"
    return _lacks(machine, ImportError, text if source else NotKnown(text), module)


def _all_say(machine: PythonMachine, text: str, name: str, ask: Callable[[TorchNames], bool]) -> bool:
    """Whether something holds in each version of a package that may be there."""
    package = name.partition(".")[0]
    if package not in COMPANIONS or not _is_told_of(machine.library, package):
        return False

    def answer(world: World) -> bool:
        names = names_of(world, machine.library, package)
        return bool(names) and all(map(ask, names))

    return machine.world.tells(f"whether {text}", answer) is True


def _is_told_of(library: PythonCode, package: str) -> bool:
    """Whether anything tells which version of such a package is there."""
    if library.locate(package) is not None:
        return False
    version = library.surroundings.version(package)
    if version is Answer.UNKNOWN:
        return package in _FOLLOWING_TORCH or bool(library.required_version(package))
    return version is not None


def _lacks(machine: PythonMachine, cls: type[BaseException], text: object, name: str) -> Thrown:
    attributes: dict[str, object] = {} if cls is AttributeError else {"name": name}
    top = name.partition(".")[0]
    # Where the version is known, so are its names: it is no mistake of this reading.
    installed = isinstance(machine.library.surroundings.version(top), str) and machine.library.surroundings.is_final
    failure = PythonError(cls, (text,), attributes, of_torch=top in _FOLLOWING_TORCH)
    failure.of_other = top if installed and not failure.of_torch else None
    return Thrown(failure)


@functools.cache
def distributions_requiring() -> dict[str, frozenset[str]]:
    """Return each of these packages, with distributions whose metadata require it, and that so bring it."""
    text = release_data.folder("torches").joinpath("requiring.txt").read_text("utf-8")
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {package: frozenset(names) for package, *names in lines}


def need_module(machine: PythonMachine, name: str) -> None:
    """Note that such a package has to be there, where its module is imported and nothing that is known brings it."""
    brought_by = distributions_requiring().get(name)
    if brought_by is not None and brought_by.isdisjoint(machine.library.required):
        machine.need("requirement", name, f"the package imports {name} and does not require it")
