"""What an extension registers, as JSON version 1. Its JSON Schema is ``schema/ops-v1.json``, beside this module."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from abiscan.emulation import Fallback, Gap, Kernel, Library, Operator
from abiscan.inventory import Inventory
from abiscan.report.ops_model import full_schema, key_name
from abiscan.report.ops_rows import VERSION, fallback_row, kernel_row, operator_row


def render(target: str, inventories: Sequence[Inventory], *, single: bool) -> str:
    """A JSON text that ends in a newline.

    :param single: the target is one shared object: its document stands alone; else each is one of ``results``
    """
    documents = [_inventory(each) for each in inventories]
    document = documents[0] if single else {"target": target, "results": documents}
    return json.dumps({"version": VERSION, **document}, indent=1) + "\n"


def _inventory(inventory: Inventory) -> dict[str, Any]:
    found = inventory.registrations
    return {
        "path": inventory.path,
        "built_for": [str(version) for version in inventory.built_for],
        "libraries": [_library(each, inventory) for each in found.libraries],
        "operators": [_operator(each, inventory) for each in found.operators],
        "kernels": [_kernel(each, inventory) for each in found.kernels],
        "fallbacks": [_fallback(each, inventory) for each in found.fallbacks],
        "classes": [
            {"name": each.name, "methods": list(each.methods), "phase": each.phase.value} for each in found.classes
        ],
        "registries": [
            {"registry": each.what, "key": each.key, "phase": each.phase.value} for each in found.registries
        ],
        "lookups": [{"operator": each.operator, "schema_known": None} for each in found.lookups],
        "gaps": [_gap(each) for each in inventory.gaps],
    }


def _library(library: Library, inventory: Inventory) -> dict[str, Any]:
    return {
        "kind": library.kind.value,
        "namespace": library.namespace,
        "dispatch_key": key_name(library.dispatch_key, inventory.keys),
        "file": library.file,
        "line": library.line,
        "phase": library.phase.value,
    }


def _operator(operator: Operator, inventory: Inventory) -> dict[str, Any]:
    return operator_row(
        name=operator.name,
        schema=full_schema(operator, inventory.built_for[-1] if inventory.built_for else None),
        inferred=operator.inferred,
        jit_only=operator.jit_only,
        tags=[inventory.tags.name(number) for number in operator.tags],
        file=operator.file,
        line=operator.line,
        phase=operator.phase.value,
    )


def _kernel(kernel: Kernel, inventory: Inventory) -> dict[str, Any]:
    return kernel_row(
        operator=kernel.operator,
        key=key_name(kernel.dispatch_key, inventory.keys),
        signature=kernel.signature,
        inferred_schema=kernel.inferred_schema,
        boxed=kernel.boxed,
        fallthrough=kernel.fallthrough,
        file=kernel.file,
        line=kernel.line,
        phase=kernel.phase.value,
    )


def _fallback(fallback: Fallback, inventory: Inventory) -> dict[str, Any]:
    return fallback_row(
        key=key_name(fallback.dispatch_key, inventory.keys),
        fallthrough=fallback.fallthrough,
        file=fallback.file,
        line=fallback.line,
        phase=fallback.phase.value,
    )


def _gap(gap: Gap) -> dict[str, Any]:
    return {
        "stage": gap.stage,
        "reason": gap.reason,
        "address": None if gap.address is None else f"{gap.address:#x}",
        "symbol": gap.symbol,
    }
