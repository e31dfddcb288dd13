"""The operators of the embedded torch releases, by number; nothing needs to be installed.

``data/operators`` is made by ``tools/release.py`` from the libraries of each build; see ``operator_format``.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple, Protocol

import msgspec.structs

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Operators
from abiscan.regex import regex
from abiscan.torches import embedded
from abiscan.torches.embedded_assertions import assertions
from abiscan.torches.operator_table import OperatorTable

_WITH_CUDA: Final = regex(r"libtorch_cuda(_cu)?\.so")


class OperatorSource(Protocol):
    """The operators in the dispatcher of one torch."""

    def look_up(self, names: Collection[str] | None = None) -> Operators:
        """Return the operators that are needed, others may be left out; all for None."""

    def names(self) -> frozenset[str]:
        """Return the names of all operators, with overloads."""

    def has(self, name: str) -> bool:
        """Whether there is an operator, or an overload of it; ``.default`` is the one without a name."""

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of the operators."""


class EmbeddedOperators(NamedTuple):
    """The operators of an embedded release, by its number; every question raises an ``InputError`` if it is none."""

    text: str
    machine: Machine

    def look_up(self, names: Collection[str] | None = None) -> Operators:
        """Return the operators that are needed, and their kernels, without others; all for None."""
        return operators(self.text, self.machine, names)

    def names(self) -> frozenset[str]:
        """Return the names of all operators, with overloads."""
        return names(self.text, self.machine)

    def has(self, name: str) -> bool:
        """Whether there is an operator, or an overload of it."""
        return table().has_operator(_build_number(embedded.build(self.text, self.machine), self.machine), name)

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of the operators."""
        return table().namespaces(_build_number(embedded.build(self.text, self.machine), self.machine))


def operators(text: str, machine: Machine, names: Collection[str] | None = None) -> Operators:
    """Return the operators of an embedded release.

    :param text: its number: ``2.6.0``, ``2.13.0+cu130``
    :param names: only these operators and their kernels, which takes a few milliseconds; None for all
    :raises InputError: it is not embedded
    """
    build = embedded.build(text, machine)
    return _all_operators(build, machine) if names is None else _look_up(build, machine, names)


@functools.lru_cache(maxsize=3)  # those of a torch, of the one that extensions were built for, and of the newest
def _all_operators(build: str, machine: Machine) -> Operators:
    return _look_up(build, machine, None)


def _look_up(build: str, machine: Machine, names: Collection[str] | None) -> Operators:
    operators = table().operators(_build_number(build, machine), names)
    return msgspec.structs.replace(operators, build=build, assertions=assertions(build, machine))


def schemas(text: str, machine: Machine, names: Collection[str]) -> tuple[str | None, ...]:
    """Return the schemas of those of some operators that an embedded release has.

    :raises InputError: it is not embedded
    """
    return table().schemas_in(_build_number(embedded.build(text, machine), machine), names)


def names(text: str, machine: Machine) -> frozenset[str]:
    """Return the names of all operators of an embedded release.

    :raises InputError: it is not embedded
    """
    return table().names(_build_number(embedded.build(text, machine), machine))


def find_build(libraries: Mapping[str, str], machine: Machine, stated: str | None = None) -> str | None:
    """Return the embedded build whose libraries are these, by its full version; None if there is none.

    :param libraries: the result of ``from_libs.identify_libraries`` for a torch
    :param stated: the full version that this torch says it has. For that build, the kernels for CUDA may have been
        compiled again, for another Python
    """
    for build in table().meta if libraries else ():
        if build["machine"] != machine.value:
            continue
        recorded: Mapping[str, str] = build["libraries"]
        if recorded == libraries or (stated == build["build"] and _is_compiled_again(recorded, libraries)):
            return str(build["build"])
    return None


def _is_compiled_again(recorded: Mapping[str, str], libraries: Mapping[str, str]) -> bool:
    """Whether nothing but kernels for CUDA was compiled again: all else is the same file, and they have the same size.

    The wheels of one release share ``libtorch_cpu.so``, but in names that are local to a source, nvcc writes a hash and
    the number of its own process: most bytes are others, and the size is the same if that number has as many digits.
    """
    return libraries.keys() == recorded.keys() and all(
        recorded[name] == identity
        or (_WITH_CUDA.fullmatch(name) is not None and recorded[name].partition(" ")[0] == identity.partition(" ")[0])
        for name, identity in libraries.items()
    )


def _build_number(build: str, machine: Machine) -> int:
    return table().numbers[f"{build} {machine.value}"]


@functools.cache
def table() -> OperatorTable:
    """Return the data, opened on first use."""
    return OperatorTable.of("operators")
