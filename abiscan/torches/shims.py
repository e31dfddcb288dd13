"""The C functions of torch's stable ABI: since when, until when they are promised, and what else is known about them.

Since which release a function is exported, the embedded releases tell (``embedded``). ``data/stable_abi.txt`` has what
only headers tell; it is made by ``tools/build_stable_data.py``.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from abiscan import release_data
from abiscan.binary.elf import Machine
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex
from abiscan.torches import embedded

_SHIM: Final = regex(r"aoti_torch_|torch_")
_PROMISED_YEARS: Final = 2  # "at least a two year compatibility window" (notes/libtorch_stable_abi.md)


class Wrapper(Struct, frozen=True, kw_only=True):
    """A function of ``torch::stable`` for an operator: the release since which it runs, and whose headers have it."""

    name: str
    since: TorchVersion
    headers: TorchVersion


def is_shim(name: str) -> bool:
    """Whether a symbol is a C function of the stable ABI."""
    return _SHIM.match(name) is not None


def exported_since(name: str, machine: Machine) -> TorchVersion | None:
    """Return the release from which on every release up to the newest exports a function; None if the newest
    does not.
    """
    # From the newest backwards: a function that was away for a release is only promised from its return on.
    since = None
    for release, exports in reversed([*embedded.exported_by_release(name, machine).items()]):
        if not exports:
            break
        since = release
    return since


def gate_version(name: str) -> TorchVersion | None:
    """Return the lowest target version with which headers declare a function; None if they always do."""
    return _make_data().gates.get(name)


def taken_by_headers(name: str) -> bool:
    """Whether headers take a function, instead of an older one, as soon as the target version has it."""
    return name in _make_data().taken_by_headers


def is_deprecated(name: str) -> bool:
    """Whether the function is deprecated."""
    return name in _make_data().deprecated


def find_wrapper(operator: str) -> Wrapper | None:
    """Return the wrapper for an operator such as ``aten::pad``."""
    return _make_data().wrappers.get(operator)


def promised_until(since: TorchVersion) -> dt.date | None:
    """Return until when torch promises to keep what was new in a release; None if its date is unknown."""
    released = _make_data().released.get(f"{since.major}.{since.minor}")
    return released.replace(year=released.year + _PROMISED_YEARS) if released else None


class _Data(Struct, frozen=True, kw_only=True):
    gates: Mapping[str, TorchVersion]
    taken_by_headers: frozenset[str]
    deprecated: frozenset[str]
    wrappers: Mapping[str, Wrapper]
    released: Mapping[str, dt.date]


@functools.cache
def _make_data() -> _Data:
    text = release_data.folder("torches").joinpath("stable_abi.txt").read_text("utf-8")
    lines = [line.split() for line in text.splitlines()]
    return _Data(
        gates={line[1]: TorchVersion(f"{line[2]}.0") for line in lines if line[0] == "gate"},
        taken_by_headers=frozenset(line[1] for line in lines if line[0] == "target"),
        deprecated=frozenset(line[1] for line in lines if line[0] == "deprecated"),
        wrappers={
            line[1]: Wrapper(name=line[2], since=TorchVersion(f"{line[3]}.0"), headers=TorchVersion(f"{line[4]}.0"))
            for line in lines
            if line[0] == "wrapper"
        },
        released={line[1]: dt.date.fromisoformat(line[2]) for line in lines if line[0] == "released"},
    )
