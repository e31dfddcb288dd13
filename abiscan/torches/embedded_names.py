"""The Python names of the embedded releases of torch.

``data/names`` is made by ``tools/record_names.py`` from the wheels of the releases. Its keys are modules and classes,
and a mark says what is known of one: see ``marks``.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable
from typing import Final

from abiscan.inputs.version import TorchVersion
from abiscan.python.torch_api.compiled_names import ADDED_SINCE
from abiscan.python.torch_api.operator_calls import OperatorsOfTorch
from abiscan.python.torch_api.torch_classes import CLASSES
from abiscan.python.torch_api.torch_names import CLASS, Companions, NameSource, TorchNames, is_core
from abiscan.torches.marks import MarkTable
from abiscan.torches.release_names import ReleaseNames
from abiscan.torches.release_sets import COMPILED, ReleaseSets

SOURCES: Final = "=sources"
"""The entry that has the digest of all Python files of a release: see ``digest_of``."""
_VERSION_FILE: Final = "torch/version.py"


@functools.lru_cache(maxsize=4)
def names(release: str) -> TorchNames | None:
    """Return the names of an embedded release (``2.13.0``); None if it is not embedded."""
    if release not in table().numbers:
        return None
    return TorchNames(
        source_of(release),
        was_there,
        was_compiled,
        is_written,
        signatures_of,
        release=release,
        attributes_elsewhere=functools.partial(_attributes_elsewhere, release),
        companions=functools.partial(companions_of, release),
        operators=functools.partial(_operators_of, release),
    )


def _operators_of(release: str) -> OperatorsOfTorch:
    from abiscan.torches.operator_overloads import ReleaseOperators  # few packages name any of them

    return ReleaseOperators(release)


def _attributes_elsewhere(release: str, cls: str) -> tuple[str, ...]:
    column = table().numbers[release]
    marks = table().marks_of(f"{CLASS}{cls}").items()
    return tuple(name for name, releases in marks if name.isidentifier() and not releases >> column & 1)


def companions_of(release: str | None) -> Companions:
    """Return what is known of the packages that come with a release, embedded or not."""
    from abiscan.torches.companion_names import CompanionsOf  # few packages use any of them

    return CompanionsOf(release)


def releases() -> tuple[str, ...]:
    """Return the numbers of all releases in the data, oldest first."""
    return tuple(sorted(table().columns, key=TorchVersion))


def source_of(release: str) -> NameSource:
    """Return what the table says of an embedded release."""
    return ReleaseNames(table(), _sets_of(table()), table().numbers[release])


def was_there(name: str) -> bool:
    """Whether some embedded release certainly has a name; quicker than its history."""
    owner, _, last = name.rpartition(".")
    if owner in CLASSES:
        return bool(table().marks_of(f"{CLASS}{owner}").keys() & {last, f"{last}?"})
    marks = table().marks_of(owner)
    if last in marks or table().marks_of(name) or (owner == "torch" and last in ADDED_SINCE):
        return True
    # Of the stars, only those of what is compiled bring names for certain.
    stars = (mark[1:] for mark in marks if mark[0] == "*" and is_core(mark[1:]))
    return any(was_there(f"{star}.{last}") for star in stars)


def was_compiled(name: str) -> bool:
    """Whether the library of some embedded release has the last part of a name as a text: a class of it, or ``torch``,
    may have had that name. A plain word may be a text for any reason, so it does not count.
    """
    owner, _, last = name.rpartition(".")
    may_be_compiled = owner == "torch" or owner in CLASSES
    return may_be_compiled and "_" in last and bool(table().columns_with(f"{COMPILED}{last[-2:]}", last))


def is_written(name: str) -> bool:
    """Whether a name is that of a module in Python of some embedded release, and of nothing that is compiled."""
    return _sets_of(table()).is_written(name)


def signatures_of(module: str, function: str) -> frozenset[str]:
    """Return the parameters that a function of a module has in any embedded release."""
    return _signatures_in(module).get(function, frozenset())


@functools.lru_cache(maxsize=1024)
def _signatures_in(module: str) -> dict[str, frozenset[str]]:
    by_function: dict[str, set[str]] = {}
    for mark in table().marks_of(module):
        function, parenthesis, parameters = mark.partition("(")
        if parenthesis:
            by_function.setdefault(function, set()).add(parameters)
    return {function: frozenset(texts) for function, texts in by_function.items()}


def digest_of(files: Iterable[tuple[str, int, int]]) -> str:
    """Return what tells the Python files of a release from those of others.

    The builds of a release differ in ``torch/version.py`` alone, which is left out.

    :param files: for each file its path from the folder of packages, its size, and its CRC-32 as in a zip archive
    """
    lines = sorted(f"{path} {size} {checksum:08x}\n" for path, size, checksum in files if path != _VERSION_FILE)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def release_with(digest: str) -> str | None:
    """Return the embedded release whose Python files have a digest; None if no release has it."""
    bits = table().marks_of(SOURCES).get(digest, 0)
    return table().columns[bits.bit_length() - 1] if bits else None


def by_ending(texts: Iterable[str]) -> dict[str, set[str]]:
    """Group texts by their last two characters, as entries for the names that compiled code may give.

    The name may be the end of a text. So that one of a single character need not be looked for in all of them, it is an
    entry of its own.
    """
    entries: dict[str, set[str]] = {}
    for text in texts:
        entries.setdefault(f"{COMPILED}{text[-2:]}", set()).add(text)
        entries.setdefault(f"{COMPILED}{text[-1]}", set()).add(text[-1])
    return entries


@functools.lru_cache(maxsize=2)
def _sets_of(names: MarkTable) -> ReleaseSets:
    return ReleaseSets(names)


@functools.cache
def table() -> MarkTable:
    """Return the data, opened on first use."""
    return MarkTable.of("names")
