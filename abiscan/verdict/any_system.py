"""What the processes that import packages share on all systems: loads that were tried, the Python, operators."""

from __future__ import annotations

import functools
from typing import Final

from msgspec import Struct

from abiscan.errors import InputError
from abiscan.inputs.package_files import Package
from abiscan.inputs.sources import Target
from abiscan.linkage.model import NO_SUCH_FILE
from abiscan.python.package.model import PROCESS_ENDS, Answer, LoadedBy, Raised
from abiscan.regex import regex
from abiscan.torches import embedded_operators, pythons
from abiscan.torches.torch import Torch

_STABLE_ABI: Final = regex(r"-cp3([0-9]+)-abi3-[^-]+\.whl$")


class LoadAttempt(Struct, frozen=True, kw_only=True):
    """A load that was tried.

    :ivar words: what went wrong; None if nothing did
    :ivar aborts: whether the load ends the process
    :ivar exact: whether all of the words are known
    :ivar lacking: the external libraries that are lacking
    :ivar assumed: whether a package that is required, and not installed, may bring those
    :ivar unreadable: whether the file is damaged, or not for ``ld.so``, or what its module does is not known
    :ivar lacks_library: whether a library is not there, and not a symbol
    :ivar needs: the libraries that are neither of torch, the package nor the system; if they are assumed to be there,
        the outcome of the load depends on that condition
    :ivar raised: what the module raises once it is loaded
    """

    path: str
    words: str | None
    aborts: bool = False
    exact: bool = True
    lacking: tuple[str, ...] = ()
    assumed: bool = False
    unreadable: bool = False
    lacks_library: bool = False
    needs: tuple[str, ...] = ()
    raised: Raised | None = None

    @property
    def is_known(self) -> bool:
        """Whether the outcome is known."""
        return not self.unreadable and (self.words is not None or self.assumed or not self.lacking)

    @property
    def problem(self) -> str | None:
        """What the load says on this machine; None if it succeeds."""
        if self.words is None and self.lacking:
            return f"{self.lacking[0]}: {NO_SUCH_FILE}"
        return self.words


def raised_by(attempt: LoadAttempt, loader: LoadedBy, *, of_loader: str | None = None) -> Raised:
    """Return what the system's loader raises in Python where a load fails.

    :param of_loader: the exception that ``ctypes`` raises, if it is another one than ``OSError``
    """
    if attempt.aborts:
        return Raised(exception=PROCESS_ENDS, message=attempt.words, at=None)
    if loader is LoadedBy.IMPORT:
        return attempt.raised or Raised(exception="ImportError", message=attempt.words, at=None)
    return Raised(exception=of_loader or "OSError", message=attempt.words, at=None)


def importing_python(torch: Torch, target: Target) -> tuple[int, int] | Answer:
    """Return the Python that imports the package: that of the torch, else the one that the wheel is for."""
    if torch.interpreter is not None:
        return torch.interpreter.tag.major, torch.interpreter.tag.minor
    if target.metadata is None or target.metadata.python is None:
        return Answer.UNKNOWN
    major, _, minor = target.metadata.python.partition(".")
    return int(major), int(minor)


def possible_pythons(
    python: tuple[int, int] | Answer, target: Target, release: str | None
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Return the oldest and the newest Python that may import the package, each None if nothing tells.

    Where it is not known, they are what the name of its wheel (``cp39-abi3``) and its metadata admit, of those that
    the torch has wheels for.
    """
    if not isinstance(python, Answer):
        return python, python
    metadata = target.metadata
    stable = _STABLE_ABI.search(metadata.wheel) if metadata is not None else None
    least = (3, int(stable[1])) if stable is not None else None
    required = metadata.pythons if metadata is not None else ""
    admitted = [python for python in pythons.admitted(release, required) if least is None or python >= least]
    return (admitted[0], admitted[-1]) if admitted else (least, pythons.newest(release))


@functools.cache
def operators_of_any_release() -> frozenset[str]:
    """Return the operators in the dispatcher of any embedded torch, without overloads."""
    return frozenset(name.partition(".")[0] for name in embedded_operators.table().all_names)


def with_bases(names: frozenset[str]) -> frozenset[str]:
    """Return operators with and without their overloads."""
    return names | {name.partition(".")[0] for name in names}


def refused_load(package: Package, path: str, build: str | None) -> str | None:
    """Return what ``torch.load`` says of a file of a package by default; None if it loads it, or that is not known.

    :param build: the version of the torch
    """
    from abiscan.models.compatibility import refused_pickle  # few packages load something as they are imported
    from abiscan.models.loaders import loaders_of
    from abiscan.models.model import ModelFormat, ModelLayout, SavedModel
    from abiscan.models.reading import read_globals

    loaders = loaders_of(build)
    if loaders is None or not loaders.weights_only or path not in package.members:
        return None
    try:
        names = read_globals(package.read(path), path)
    except InputError:
        return None
    model = SavedModel(format=ModelFormat.PICKLE, layout=ModelLayout.ZIP, globals=names)
    refusal = refused_pickle(model, loaders, f"torch {build}")
    return refusal.message if refusal else None
