"""The kernels and calls of an extension through the stable ABI whose values do not cross it in one torch."""

from __future__ import annotations

from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.dispatch.stable import Uncrossable, of_call, of_kernel
from abiscan.inputs.version import MinorVersion
from abiscan.linkage.registering import Registering


def uncrossable_kernels(registering: Registering) -> dict[str, Uncrossable]:
    """What the extension's own kernels cannot get or return, by operator."""
    schemas, release = _schemas(registering), registering.release
    names = dict.fromkeys(kernel.operator for kernel in registering.own.kernels if kernel.stable)
    return {
        name: value
        for name in names
        if (schema := _parsed(schemas.get(name), release)) and (value := of_kernel(schema, release))
    }


def uncrossable_calls(registering: Registering) -> dict[str, Uncrossable]:
    """What the extension's calls by name cannot pass or get back, by operator; only where every call raises."""
    schemas, release = _schemas(registering), registering.release
    names = dict.fromkeys(lookup.operator for lookup in registering.own.lookups if lookup.is_stable_call)
    return {
        name: value
        for name in names
        if (schema := _parsed(schemas.get(name), release)) and (value := of_call(schema, release)) and value.always
    }


def _schemas(registering: Registering) -> dict[str, str | None]:
    loaded = (registering.own, *registering.bundled.values())
    defined = {operator.name: operator.schema for each in loaded for operator in each.operators}
    of_torch = registering.operators.operators if registering.operators else {}
    return {**{name: operator.schema for name, operator in of_torch.items()}, **defined}


def _parsed(schema: str | None, release: MinorVersion) -> FunctionSchema | None:
    try:
        return FunctionSchema.parse(schema, release=release) if schema else None
    except SchemaError:
        return None
