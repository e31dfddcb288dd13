"""What happens when an operator is called with a tensor of one backend, or looked up by name.

Only the last step is checked: whether there is a kernel for the backend's own key. The steps before it - autograd,
BackendSelect, autocast - pass the call on. A composite kernel that allocates the result and calls another operator to
do the work is followed to that operator (``delegates``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from abiscan.dispatch.messages import Message, word_message
from abiscan.dispatch.operators import Kernel, Operator
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.dispatch.table import AUTOGRAD, NON_FUNCTIONAL, UNDEFINED, DispatchTable, EntrySource
from abiscan.inputs.version import MinorVersion
from abiscan.regex import regex

BACKEND_SELECT: Final = "BackendSelect"
PRIVATE_USE: Final = "PrivateUse1"
_GENERATED: Final = "VariableType"  # in torch/csrc/autograd/generated
_NAMES_ALL: Final = (1, 7)
_TENSOR_ARGUMENT: Final = regex(r"\bTensor\b")


class Failure(Struct, frozen=True, kw_only=True):
    """A call that raises.

    :ivar operator: the operator
    :ivar key: the key without a kernel: the backend's, or ``Undefined``
    """

    operator: str
    key: str


def takes_backend(table: DispatchTable, operator: Operator) -> bool:
    """Whether a call can be for a backend: because of a tensor, or the device argument of a factory function."""
    arguments = (operator.schema or "").partition(" -> ")[0]
    if operator.schema is None or _TENSOR_ARGUMENT.search(arguments):
        return True
    return table.source(operator.name, BACKEND_SELECT) is EntrySource.KERNEL


def find_failure(table: DispatchTable, operator: str, backend: str) -> Failure | None:
    """Find out why a call with only a tensor of ``backend`` raises; return None if there is a kernel."""
    entry = table.entry(operator, backend)
    if entry.is_fallthrough:  # no other key is left
        undefined = table.entry(operator, UNDEFINED)
        return Failure(operator=operator, key=UNDEFINED) if undefined.source is EntrySource.MISSING else None
    if entry.source is not EntrySource.MISSING or is_done_by_autograd(table, operator, backend):
        return None
    return Failure(operator=operator, key=backend)


def is_done_by_autograd(table: DispatchTable, operator: str, backend: str) -> bool:
    """Whether the autograd kernel does the work: no backend has a kernel to which it could pass the call on.

    The kernels that torch generates from derivative formulas always pass it on.
    """
    if not table.backend_keys.isdisjoint(table.kernels.get(operator, {})):
        return False
    # The autograd key that runs before the backend's kernels: its own, or AutogradOther.
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
    """Word the message of torch: the reason and the available backends.

    The row of the table that 1.7 on appends is left out.

    :param backend_name: the backend's own name, if it has renamed PrivateUse1
    """
    key = table.printed_key(failed.key)
    if backend_name and key.endswith(PRIVATE_USE):
        key = key.removesuffix(PRIVATE_USE) + backend_name
    check = "K7" if failed.key == UNDEFINED else "K6"
    raised = word_message(
        check, table.release, name=failed.operator, key=key, keys=_available_keys(table, failed.operator), table=""
    )
    return replace(raised, text=raised.text.rstrip())


def _available_keys(table: DispatchTable, operator: str) -> str:
    """List the keys that have an entry. Up to 1.6, torch names only those with a kernel for this operator."""
    names_all = table.release >= _NAMES_ALL
    keys = [
        table.printed_key(key)
        for key, source in table.sources(operator).items()
        if key != UNDEFINED and (source is not EntrySource.MISSING if names_all else source is EntrySource.KERNEL)
    ]
    return f"[{', '.join(keys)}]"


def lookup_message(release: MinorVersion, operator: str, *, implemented: bool) -> Message:
    """Word the message of torch when an operator that it does not have is looked up (``findSchemaOrThrow``).

    :param implemented: whether a kernel is registered for it anyway
    """
    name = operator if "." in operator.rpartition("::")[2] else f"{operator}."
    return word_message("S2" if implemented else "S1", release, name=name)


def find_delegates(table: DispatchTable, backend: str, names: Iterable[str]) -> dict[str, str]:
    """Find the operators among ``names`` whose composite kernel delegates to another operator, with that operator.

    These are torch's structured operators: the kernel of ``tanh`` and of ``tanh_`` for every backend allocates the
    result and calls ``tanh.out``, which each backend must have.
    """
    operators = table.operators.operators
    by_base: dict[str, list[str]] = {}
    for name in operators:
        by_base.setdefault(_base_name(name), []).append(name)
    delegated = {}
    for name in names:
        kernel = table.entry(name, backend).registration
        if not isinstance(kernel, Kernel) or kernel.key != NON_FUNCTIONAL or name not in operators:
            continue
        # Parsing takes much longer than the rest, so only the few that it depends on are parsed.
        out_variants = (
            variant for variant in by_base[_base_name(name)] if variant != name and _has_out(operators[variant])
        )
        inputs = _inputs_of(operators[name].schema)
        same = (
            variant
            for variant in out_variants
            if inputs is not None and _inputs_of(operators[variant].schema) == inputs
        )
        if (callee := next(same, None)) is not None:
            delegated[name] = callee
    return delegated


def _base_name(name: str) -> str:
    """Strip a name of its overload, and of the trailing underscore of an in-place operator."""
    return name.partition(".")[0].removesuffix("_")


def _has_out(operator: Operator) -> bool:
    """Tell whether an operator writes to an argument after the ``*``, as out variants do."""
    return operator.schema is not None and "!" in operator.schema.partition("*, ")[2].partition(" -> ")[0]


# Most schemas are the same in the release that an extension was built for.
@functools.lru_cache(maxsize=4096)
def _inputs_of(schema: str | None) -> tuple[tuple[str, str], ...] | None:
    """Return the arguments that are not outputs, by name and type; None if the schema cannot be parsed."""
    if schema is None:
        return None
    try:
        parsed = FunctionSchema.parse(schema)
    except SchemaError:
        return None
    return tuple((argument.name, str(argument.type)) for argument in parsed.arguments if not argument.is_out)
