"""What replaces a symbol of torch's C++ interface in the stable ABI.

Operators are mapped exactly: by the wrappers in torch's headers, and by whether the types of their schema cross. All
other symbols are sorted by their names, with the table in ``torches/data/counterparts.txt``.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import Final

from msgspec import Struct

from abiscan import release_data
from abiscan.binary.elf import Machine
from abiscan.binary.mangling import demangle
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.dispatch.stable import uncrossable_of_call
from abiscan.emulation.aten import operators_behind
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex
from abiscan.torches import embedded, embedded_operators, shims

_CALLS_BY_NAME: Final = TorchVersion("2.10.0")  # torch_call_dispatcher
_SHIM_OF_EVERY_BACKEND: Final = "aoti_torch_aten_"
_SHIM_OF_CPU: Final = "aoti_torch_cpu_"
_OPERATORS: Final = "operators"
UNSORTED: Final = "not sorted"


class Means(enum.Enum):
    """How a symbol is replaced, what is least work first."""

    VANISHES = "vanishes"
    """Nothing to do: it came with a class that the port no longer uses."""

    HEADER_ONLY = "header-only"
    """A header of ``torch/headeronly`` has it."""

    WRAPPER = "wrapper"
    """A function of ``torch::stable`` does the same."""

    SHIM = "shim"
    """A C function does the same."""

    OPERATOR = "operator"
    """The operator is called by its name."""

    OWN_CODE = "own-code"
    """The extension needs code of its own, in C++, CUDA or Python."""

    NOTHING = "nothing"
    """The stable ABI has nothing for it."""


class Counterpart(Struct, frozen=True, kw_only=True):
    """What replaces a symbol.

    :ivar symbol: the mangled name
    :ivar group: the kind of function that it is
    :ivar means: how it is replaced, None if unknown
    :ivar what: what replaces it, None if nothing or unknown
    :ivar since: the release that has that first, None if unknown
    :ivar headers: the first release whose headers have it, where it runs on older ones as well
    """

    symbol: str
    group: str
    means: Means | None
    what: str | None
    since: TorchVersion | None
    headers: TorchVersion | None = None

    @property
    def is_named(self) -> bool:
        """Whether anything replaces it."""
        return self.what is not None


class _Pattern(Struct, frozen=True, kw_only=True):
    names: re.Pattern[str]
    group: str
    means: Means
    what: str | None
    since: TorchVersion | None


def find_counterpart(symbol: str, machine: Machine) -> Counterpart:
    """Find what replaces a mangled name of torch."""
    operators = operators_behind(symbol)
    if operators:
        return _counterpart_of_operator(symbol, operators[0], machine)
    name = demangle(symbol)
    parameters = _parameters_at(name)
    # The first pattern that matches decides, so the order of the file matters.
    for pattern in _read_patterns():
        match = pattern.names.search(name)
        if match and match.start() < parameters:  # what only its parameters are is no kind of function
            return Counterpart(
                symbol=symbol, group=pattern.group, means=pattern.means, what=pattern.what, since=pattern.since
            )
    return Counterpart(symbol=symbol, group=UNSORTED, means=None, what=None, since=None)


def _counterpart_of_operator(symbol: str, operator: str, machine: Machine) -> Counterpart:
    """Find what replaces an operator: a wrapper, a C function, or a call by name, in this order."""

    def make_counterpart(
        means: Means, subject: str | None, since: TorchVersion | None, group: str = _OPERATORS
    ) -> Counterpart:
        return Counterpart(symbol=symbol, group=group, means=means, what=subject, since=since)

    if wrapper := shims.find_wrapper(operator):
        return Counterpart(
            symbol=symbol,
            group=_OPERATORS,
            means=Means.WRAPPER,
            what=f"torch::stable::{wrapper.name}",
            since=wrapper.since,
            headers=wrapper.headers,
        )
    flat = operator.removeprefix("aten::").replace(".", "_")
    if since := shims.exported_since(f"{_SHIM_OF_EVERY_BACKEND}{flat}", machine):
        return make_counterpart(Means.SHIM, f"{_SHIM_OF_EVERY_BACKEND}{flat}", since)
    # The schema of the newest release: a port is written for it.
    newest = embedded.versions(machine)[-1]
    registered = embedded_operators.operators(str(newest), machine, [operator]).operators.get(operator)
    if registered is None or registered.schema is None:
        return make_counterpart(Means.NOTHING, None, None, f"operators that torch {newest} does not have")
    try:
        schema = FunctionSchema.parse(registered.schema, release=newest.minor_version)
    except SchemaError:
        return make_counterpart(Means.NOTHING, None, None, UNSORTED)
    # A call by name can pass whatever crosses the ABI; what does not, only a C function of a backend can take.
    crossing = uncrossable_of_call(schema, newest.minor_version)
    if crossing is None or not crossing.always:
        since = next(
            (
                version
                for version in embedded.versions(machine)
                if version >= _CALLS_BY_NAME and not _always_fails(schema, version)
            ),
            newest,
        )
        return make_counterpart(Means.OPERATOR, f"{operator} through torch_call_dispatcher", since)
    if since := shims.exported_since(f"{_SHIM_OF_CPU}{flat}", machine):
        return make_counterpart(Means.SHIM, f"{_SHIM_OF_CPU}{flat} and its like for other backends", since)
    return make_counterpart(Means.NOTHING, None, None, f"operators with a {crossing.type} that does not cross")


def _parameters_at(name: str) -> int:
    """Find where the parameters of a demangled name begin, outside of template arguments."""
    operator = re.search(r"\boperator(\(\)|[^\w(]+)", name)
    depth = 0
    # Invariant: ``depth`` is the number of open template brackets; those of operator<, operator>> and the like are
    # skipped.
    for position in range(operator.end() if operator else 0, len(name)):
        character = name[position]
        if character == "(" and not depth and not name.startswith("(anonymous", position):
            return position
        depth += (character == "<") - (character == ">")
    return len(name)


def _always_fails(schema: FunctionSchema, version: TorchVersion) -> bool:
    """Tell whether every call of an operator by name fails in a release."""
    crossing = uncrossable_of_call(schema, version.minor_version)
    return crossing is not None and crossing.always


@functools.cache
def _read_patterns() -> tuple[_Pattern, ...]:
    """Read the patterns of names, in the order in which they are tried."""
    text = release_data.folder("torches").joinpath("counterparts.txt").read_text("utf-8")
    lines = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return tuple(
        _Pattern(
            names=regex(names),
            group=group,
            means=Means(means),
            what=subject or None,
            since=TorchVersion(f"{since}.0") if since else None,
        )
        for names, group, means, subject, since in lines
    )
