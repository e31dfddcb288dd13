"""A state of the dispatcher from what a running torch says of its operators, without their C++ types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from abiscan.dispatch.state import OperatorEntry, State, StoredKernel

_SILENT: Final = ("Meta", "MTIA")
_KERNEL: Final = re.compile(
    r"(?P<key>\w+?)(?:\[alias\])?(?: \(inactive\))?: (?P<debug>.*) :: (?P<inferred>.*?) \[ (?:boxed |unboxed )*\]"
)


def state_of_dumps(
    dumps: Mapping[str, str],
    *,
    libraries: Mapping[str, str] | None = None,
    fallbacks: Mapping[str, str] | None = None,
    classes: frozenset[str] | None = None,
) -> State:
    """A state from what ``torch._C._dispatch_dump`` (1.7 and newer) says of each operator, C++ types left out."""
    operators = {name.removesuffix("."): _entry_of_dump(dump) for name, dump in dumps.items()}
    # What import torch replaces itself, out of sight: 2.15 does, and so never warns afterwards.
    warned = any(
        len(kernels) > 1 and key not in _SILENT
        for entry in operators.values()
        for key, kernels in entry.kernels.items()
    )
    return State(
        operators=operators,
        warned=warned,
        libraries=libraries or {},
        fallbacks=fallbacks or {},
        classes=classes,
    )


def _entry_of_dump(dump: str) -> OperatorEntry:
    schema: str | None = None
    debug = ""
    kernels: dict[str | None, tuple[StoredKernel, ...]] = {}
    for line in dump.splitlines():
        head, _, rest = line.partition(": ")
        if head == "schema":
            schema = None if rest == "(none)" else rest
        elif head == "debug":
            debug = rest
        elif matched := _KERNEL.fullmatch(line):
            key = None if matched["key"] == "catchall" else matched["key"]
            inferred = None if matched["inferred"] == "(none)" else matched["inferred"]
            kernels[key] = (*kernels.get(key, ()), StoredKernel(debug=matched["debug"], inferred=inferred))
    return OperatorEntry(schema=schema, debug=debug, kernels=kernels, signatures_known=False)


_FALLBACK: Final = re.compile(r"(?P<key>\w+): (?:fallthrough )?(?P<debug>.*) \[backend fallback\]")


def fallbacks_of_table(table: str) -> dict[str, str]:
    """Where the fallbacks were registered, out of ``torch._C._dispatch_dump_table`` of an operator without kernels."""
    found = (_FALLBACK.fullmatch(line) for line in table.splitlines())
    return {matched["key"]: matched["debug"] for matched in found if matched}
