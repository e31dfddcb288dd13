"""What happens when an operator is called with a tensor of one backend, or looked up by name.

Only the end of the way is judged: whether there is a kernel for the backend's own key. What lies before it - autograd,
BackendSelect, autocast - hands the call on. A composite kernel that allocates the result and lets another operator do
the work is followed to that one (``delegates``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from abiscan.dispatch.messages import Message, message
from abiscan.dispatch.operators import Operator
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.dispatch.table import AUTOGRAD, NON_FUNCTIONAL, UNDEFINED, DispatchTable, EntrySource, TableEntry
from abiscan.inputs.version import MinorVersion

BACKEND_SELECT: Final = "BackendSelect"
PRIVATE_USE: Final = "PrivateUse1"
_GENERATED: Final = "VariableType"  # in torch/csrc/autograd/generated
_PRINTS_TABLE: Final = (1, 7)
_TENSOR_ARGUMENT: Final = re.compile(r"\bTensor\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A call that raises. ``key`` is the one without a kernel: the backend's, or ``Undefined``."""

    operator: str
    key: str


def takes_backend(table: DispatchTable, operator: Operator) -> bool:
    """Whether a backend can be meant by a call: by a tensor, or by the device that a factory is given."""
    arguments = (operator.schema or "").partition(" -> ")[0]
    if operator.schema is None or _TENSOR_ARGUMENT.search(arguments):
        return True
    return table.entry(operator.name, BACKEND_SELECT).source is EntrySource.KERNEL


def failure(table: DispatchTable, operator: str, backend: str) -> Failure | None:
    """Why a call with a tensor of ``backend`` alone raises, None where there is a kernel."""
    entry = table.entry(operator, backend)
    if entry.is_fallthrough:  # no other key is left
        undefined = table.entry(operator, UNDEFINED)
        return Failure(operator=operator, key=UNDEFINED) if undefined.source is EntrySource.MISSING else None
    if entry.source is not EntrySource.MISSING or is_done_by_autograd(table, operator, backend):
        return None
    return Failure(operator=operator, key=backend)


def is_done_by_autograd(table: DispatchTable, operator: str, backend: str) -> bool:
    """Whether the kernel for autograd does the work: there is none for any backend that it could hand the call on to.

    The kernels that torch generates from the formulas of derivatives always hand it on.
    """
    if not table.backend_keys.isdisjoint(table.kernels.get(operator, {})):
        return False
    for key in table.aliases.get(AUTOGRAD, ()):
        source, kernel = table.entry(operator, key)
        if (
            backend in table.backends_of(key)
            and source in (EntrySource.KERNEL, EntrySource.AUTOGRAD)
            and kernel is not None
        ):
            return not kernel.fallthrough and _GENERATED not in (kernel.file or "")
    return False


def failure_message(table: DispatchTable, failed: Failure, backend_name: str | None = None) -> Message:
    """What torch says: the reason, which backends there are, and from 1.7 on the whole row of the table.

    :param backend_name: what the backend calls itself, where it has renamed PrivateUse1
    """
    row = table.row(failed.operator)
    key = table.printed(failed.key)
    if backend_name and key.endswith(PRIVATE_USE):
        key = key.removesuffix(PRIVATE_USE) + backend_name
    return message(
        "K7" if failed.key == UNDEFINED else "K6",
        table.release,
        name=failed.operator,
        key=key,
        keys=_available(table, row),
        table=printed_row(table, row) if table.release >= _PRINTS_TABLE else "",
    )


def _available(table: DispatchTable, row: Mapping[str, TableEntry]) -> str:
    """The keys that have an entry. Up to 1.6 torch names only those that have a kernel of this operator."""
    every = table.release >= _PRINTS_TABLE
    keys = [
        table.printed(key)
        for key, entry in row.items()
        if key != UNDEFINED
        and (entry.source is not EntrySource.MISSING if every else entry.source is EntrySource.KERNEL)
    ]
    if not every and any(entry.source is EntrySource.CATCH_ALL for entry in row.values()):
        keys.append("CATCH-ALL")
    return f"[{', '.join(keys)}]"


def printed_row(table: DispatchTable, row: Mapping[str, TableEntry]) -> str:
    """A row of the table as torch prints it, a line for each entry (``dumpComputedTable``)."""
    lines = ((table.printed(key), printed_entry(entry)) for key, entry in row.items())
    return "".join(f"{key}: {text}\n" for key, text in lines if text is not None)


def printed_entry(entry: TableEntry) -> str | None:
    """What torch prints of an entry behind its key; None for what it leaves out: missing ones."""
    if entry.source is EntrySource.MISSING:
        return None
    if entry.registration is None:
        return f"ambiguous_autogradother [{entry.source.value}]"
    file, line = entry.registration.file, entry.registration.line
    place = "registered by RegisterOperators" if file is None else f"registered at {file}:{line}"
    return f"{'fallthrough ' if entry.is_fallthrough else ''}{place} [{entry.source.value}]"


def lookup_message(release: MinorVersion, operator: str, *, implemented: bool) -> Message:
    """What torch says when an operator that it does not have is looked up (``findSchemaOrThrow``).

    :param implemented: whether somebody has registered a kernel for it all the same
    """
    name = operator if "." in operator.rpartition("::")[2] else f"{operator}."
    return message("S2" if implemented else "S1", release, name=name)


def delegates(table: DispatchTable, backend: str, names: Iterable[str]) -> dict[str, str]:
    """The operators among ``names`` whose composite kernel leaves the work to another operator: to which.

    These are torch's structured operators: the kernel of ``tanh`` and of ``tanh_`` for every backend allocates the
    result and calls ``tanh.out``, which each backend must have.
    """
    operators = table.operators.operators
    by_base: dict[str, list[str]] = {}
    for name in operators:
        by_base.setdefault(_base(name), []).append(name)
    found = {}
    for name in names:
        entry = table.entry(name, backend)
        if entry.source is not EntrySource.DEFAULT_BACKEND or entry.registration is None:
            continue
        if entry.registration.key != NON_FUNCTIONAL:
            continue
        own = _inputs(operators[name]) if name in operators else None
        for other in by_base[_base(name)] if own is not None else ():
            if other != name and _has_out(operators[other]) and _inputs(operators[other]) == own:
                found[name] = other
                break
    return found


def _base(name: str) -> str:
    """The name without its overload, and without the mark of an operator that works in place."""
    return name.partition(".")[0].removesuffix("_")


def _has_out(operator: Operator) -> bool:
    return operator.schema is not None and "!" in operator.schema.partition("*, ")[2].partition(" -> ")[0]


def _inputs(operator: Operator) -> list[tuple[str, str]] | None:
    """The arguments that are no outputs, by name and type; None where the schema cannot be read."""
    if operator.schema is None:
        return None
    try:
        schema = FunctionSchema.parse(operator.schema)
    except SchemaError:
        return None
    return [(argument.name, str(argument.type)) for argument in schema.arguments if not argument.is_out]
