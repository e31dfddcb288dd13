"""Packages that are not required, and with which an import fails because of what torch has.

A package that registers all that a module of torch has may register the same of another package next to it: where both
have it, the import fails. Only the modules that list names of torch are looked at, with one such package at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from abiscan.python.model import Raised
from abiscan.python.runs import WITH_LARGE_BODIES, Runs
from abiscan.python.sources import is_for_users
from abiscan.regex import regex

_LISTS: Final = regex(rb"\b(?:dir|vars|getmembers)\(torch\.|\btorch\.[\w.]+\.__dict__")
"""What a source has that lists the names of a module of torch."""
_SIGNS: Final = (b"dir(torch.", b"vars(torch.", b"getmembers(torch.", b".__dict__")
"""One of which it has then: to look for these takes a small part of the time."""
_MOST_SOURCES: Final = 4
_MOST_PACKAGES: Final = 12
"""How many sources, and how many packages for each of them, are looked at."""
_NOT_THERE: Final = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError"})
"""What is raised where such a package lacks what is asked of it, which is not known."""


class Conflict(Struct, frozen=True, kw_only=True):
    """An import that fails if a package is installed.

    :ivar package: its module at the top
    :ivar module: the module that cannot be imported
    """

    package: str
    module: str
    raised: Raised


def conflicts(runs: Runs) -> Iterator[Conflict]:
    """Yield the imports that succeed only without a package which is not required, and fail with it for certain."""
    library, large = runs.library, runs.of(WITH_LARGE_BODIES)
    files = [file for file in library.sources if is_for_users(file) and _lists_names(library.source(file))]
    for file in files[:_MOST_SOURCES]:
        module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        without = large.run(module)
        packages = list(dict.fromkeys(without.trace.left_out)) if without.raised is None else []
        for package in packages[:_MOST_PACKAGES]:
            run = large.run(module, without.choices, with_module=package)
            is_known = not run.trace.gaps and run.trace.decisions.keys() <= without.trace.decisions.keys()
            if isinstance(run.raised, Raised) and is_known and run.raised.exception not in _NOT_THERE:
                yield Conflict(package=package, module=module, raised=run.raised)


def _lists_names(source: bytes) -> bool:
    return any(sign in source for sign in _SIGNS) and _LISTS.search(source) is not None
