"""Packages that are not required, and with which an import fails because of what torch has.

A package that registers all that a module of torch has may register the same of another package next to it: where both
have it, the import fails. Only the modules that list names of torch are looked at, with one such package at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Final

from msgspec import Struct

from abiscan.python.importing.runs import WITH_LARGE_BODIES, Runs
from abiscan.python.interpreter.imports import PythonInterpreter
from abiscan.python.interpreter.machine import Exhausted, ProcessEnded
from abiscan.python.interpreter.values import Thrown
from abiscan.python.package.model import Raised
from abiscan.python.package.sources import is_for_users
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
    signs = {file for sign in _SIGNS for file in library.sources_with(sign)}
    named = (file for file in library.sources if file in signs and is_for_users(file))
    files = [file for file in named if _lists_names(library.source(file))]
    modules = [file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in files[:_MOST_SOURCES]]
    without = {module: run for module in modules if (run := large.run(module)).raised is None}
    packages = {module: list(dict.fromkeys(run.trace.left_out))[:_MOST_PACKAGES] for module, run in without.items()}
    # All modules are imported in one process with each package. Those that fail there are then imported alone.
    failing = {
        package: _failing_with(
            large, package, tuple(module for module in modules if package in packages.get(module, ()))
        )
        for package in dict.fromkeys(chain.from_iterable(packages.values()))
    }
    for module, run_without in without.items():
        for package in packages[module]:
            if module not in failing[package]:
                continue
            run = large.run(module, run_without.choices, with_module=package)
            is_known = not run.trace.gaps and run.trace.decisions.keys() <= run_without.trace.decisions.keys()
            if isinstance(run.raised, Raised) and is_known and run.raised.exception not in _NOT_THERE:
                yield Conflict(package=package, module=module, raised=run.raised)


def _failing_with(runs: Runs, package: str, modules: tuple[str, ...]) -> frozenset[str]:
    """Return the modules that cannot be imported one after the other if a package is there, or may not be."""

    def work(machine: PythonInterpreter) -> frozenset[str]:
        machine.with_module = package
        waiting, failing = [*modules], set[str]()
        with suppress(Exhausted):
            while waiting:
                try:
                    machine.import_module(waiting[0])
                except Thrown as error:
                    failing |= {waiting[0]} if error.failure.name() not in _NOT_THERE else set()
                except (ProcessEnded, RecursionError):
                    failing.add(waiting[0])
                waiting.pop(0)
        return frozenset({*failing, *waiting})

    try:
        return runs.run_cached(("import with", package, modules), work)
    except Exhausted:
        return frozenset()


def _lists_names(source: bytes) -> bool:
    return any(sign in source for sign in _SIGNS) and _LISTS.search(source) is not None
