"""What a load added to torch's dispatcher, from the text of ``torch._C._dispatch_dump``, and what abiscan recovers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from typing import Any, Final

from abiscan.dispatch.keys import DispatchKeys
from abiscan.emulation.model import Phase, Registrations
from abiscan.inputs.version import TorchVersion
from abiscan.results.operators import full_schema, key_name

LOADING: Final = frozenset({Phase.STATIC_INIT})
"""When a library that is no Python module registers."""

Kernel = tuple[str, str, str | None, int | None, str | None]
"""Operator, dispatch key, file, line, inferred schema."""

# A line of the dump: key, [alias], where registered, :: inferred schema [ flags ].
_LINE = re.compile(
    r"(?P<key>\w+)(\[alias\])?( \(inactive\))?: (fallthrough )?registered "
    r"(at (?P<file>.*?):(?P<line>\d+)|by RegisterOperators)( :: (?P<schema>.*?))? \[ .* \]"
)


def kernels(truth: dict[str, Any]) -> Counter[Kernel]:
    """The kernels that a load added, to new operators and to those that were there before."""
    found: Counter[Kernel] = Counter()
    for operator, dump in truth["new_op_dumps"].items():
        found.update(kernel for line in dump.splitlines() if (kernel := _parse(operator, line)))
    for operator, change in truth["changed_ops"].items():
        # A line that only became inactive, or active again, is in both lists.
        removed = Counter(_parse(operator, line) for line in change["removed"])
        added = Counter(kernel for line in change["added"] if (kernel := _parse(operator, line)))
        for kernel, count in added.items():
            if count > removed[kernel]:
                found[kernel] += count - removed[kernel]
    return found


def schemas(truth: dict[str, Any]) -> set[tuple[str, str]]:
    """The operators that a load defined, with their schemas as torch prints them."""
    return {
        (operator, line.removeprefix("schema: "))
        for operator, dump in truth["new_op_dumps"].items()
        for line in dump.splitlines()
        if line.startswith("schema: ") and line != "schema: (none)"
    }


def recovered_kernels(found: Registrations, keys: DispatchKeys, phases: Collection[Phase] = LOADING) -> Counter[Kernel]:
    """The kernels that abiscan finds in a file, as the torch with these keys reads them."""
    return Counter(
        (
            kernel.operator,
            key_name(kernel.dispatch_key, keys) or "CompositeImplicitAutograd",  # what torch makes of no key
            kernel.file,
            kernel.line,
            kernel.inferred_schema,
        )
        for kernel in found.kernels
        if kernel.phase in phases
    )


def recovered_schemas(
    found: Registrations, release: TorchVersion, phases: Collection[Phase] = LOADING
) -> set[tuple[str, str | None]]:
    """The operators that abiscan finds in a file, with their schemas as a release prints them."""
    return {
        (operator.name, full_schema(operator, release))
        for operator in found.operators
        if operator.phase in phases and not operator.jit_only
    }


def _parse(operator: str, line: str) -> Kernel | None:
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    schema = None if match["schema"] in (None, "(none)") else match["schema"]
    return operator, match["key"], match["file"], int(match["line"]) if match["line"] else None, schema
