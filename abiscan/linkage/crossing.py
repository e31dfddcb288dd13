"""The kernels and calls of an extension through the stable ABI whose values do not cross it in one torch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.dispatch.stable import Uncrossable, uncrossable_of_call, uncrossable_of_kernel
from abiscan.inputs.version import MinorVersion
from abiscan.linkage.registering import Registering


def uncrossable_kernels(registering: Registering) -> dict[str, Uncrossable]:
    """Find the extension's own kernels that cannot be called through the stable ABI.

    :returns: the first value that cannot cross it, by operator
    """
    names = (kernel.operator for kernel in registering.own.kernels if kernel.stable)
    return _find_uncrossable(registering, names, uncrossable_of_kernel)


def uncrossable_calls(registering: Registering) -> dict[str, Uncrossable]:
    """Find the extension's calls by name whose values cannot cross the stable ABI.

    Only calls that raise whatever their arguments are count.

    :returns: the first value that cannot cross it, by operator
    """
    names = (lookup.operator for lookup in registering.own.lookups if lookup.is_stable_call)
    values = _find_uncrossable(registering, names, uncrossable_of_call)
    return {name: value for name, value in values.items() if value.always}


def _find_uncrossable(
    registering: Registering,
    names: Iterable[str],
    first_of: Callable[[FunctionSchema, MinorVersion], Uncrossable | None],
) -> dict[str, Uncrossable]:
    schemas, release = _schemas_by_operator(registering), registering.release
    return {
        name: value
        for name in dict.fromkeys(names)
        if (schema := _parse_schema(schemas.get(name), release)) and (value := first_of(schema, release))
    }


def _schemas_by_operator(registering: Registering) -> dict[str, str | None]:
    """Map each operator to its schema; a definition of the load hides torch's own."""
    loaded = (registering.own, *registering.bundled.values())
    defined = {operator.name: operator.schema for registrations in loaded for operator in registrations.operators}
    of_torch = registering.operators.operators if registering.operators else {}
    return {**{name: operator.schema for name, operator in of_torch.items()}, **defined}


def _parse_schema(schema: str | None, release: MinorVersion) -> FunctionSchema | None:
    """Parse a schema as a release does; return None if there is none, or that release rejects it."""
    try:
        return FunctionSchema.parse(schema, release=release) if schema else None
    except SchemaError:
        return None
