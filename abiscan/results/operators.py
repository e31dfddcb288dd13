"""The result of ``abiscan ops TARGET``: what an extension registers. Its JSON Schema is ``schema/ops-v1.json``."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec.structs
from msgspec import Struct

from abiscan.binary.mangling import demangle_type
from abiscan.cpu.needs import CpuAtLoad, CpuNeeds, CpuReach
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.extension.gpu import ExtensionGpu
from abiscan.extension.inventory import Inventory
from abiscan.gpu.model import Entry
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import (
    Library,
    RegisteredFallback,
    RegisteredKernel,
    RegisteredOperator,
    Registration,
    RegistrationGap,
    Registrations,
)
from abiscan.results.cpu import cpu_document
from abiscan.results.document import rendered
from abiscan.results.selection import Selection


class ExtensionOperators(Struct, frozen=True, kw_only=True):
    """What the extensions of a target register.

    ``single`` means that the target is one shared object, so the document is not a list. ``gpus`` have the code for
    GPUs of each extension, None for one without. ``cpus`` have what the operators of each may use of the processor;
    empty if that was not asked.
    """

    target: str
    inventories: tuple[Inventory, ...]
    single: bool
    gpus: tuple[ExtensionGpu | None, ...] = ()
    cpus: tuple[dict[str, CpuReach], ...] = ()

    def only(self, selection: Selection) -> ExtensionOperators:
        """The operators that are selected, with their kernels and lookups; gaps are kept."""
        inventories = (
            msgspec.structs.replace(inventory, registrations=_only(inventory.registrations, selection))
            for inventory in self.inventories
        )
        cpus = ({name: reach for name, reach in of.items() if selection.admits(name)} for of in self.cpus)
        return msgspec.structs.replace(self, inventories=tuple(inventories), cpus=tuple(cpus)) if selection else self

    @property
    def with_gpus(self) -> Iterator[tuple[Inventory, ExtensionGpu | None]]:
        """Each extension, with its code for GPUs."""
        return zip(self.inventories, self.gpus or itertools.repeat(None), strict=False)

    def to_json(self) -> str:
        """The JSON document, version 1."""
        cpus = self.cpus or itertools.repeat(None)
        documents = [
            _inventory(inventory, gpu, cpu) for (inventory, gpu), cpu in zip(self.with_gpus, cpus, strict=False)
        ]
        return rendered(documents[0] if self.single else {"target": self.target, "results": documents})


def _only(registered: Registrations, selection: Selection) -> Registrations:
    return msgspec.structs.replace(
        registered,
        in_order=tuple(record for record in registered.in_order if _is_selected(record, selection)),
        lookups=tuple(lookup for lookup in registered.lookups if selection.admits(lookup.operator)),
    )


def _is_selected(record: Registration, selection: Selection) -> bool:
    match record:
        case Library():
            return selection.admits_library(record.namespace)
        case RegisteredOperator():
            return selection.admits(record.name)
        case RegisteredKernel():
            return selection.admits(record.operator)
    return False


def key_name(key: int | str | None, keys: DispatchKeys) -> str | None:
    """A dispatch key by its name; None for "no key"."""
    return keys.name(key) if isinstance(key, int) else key


def full_schema(operator: RegisteredOperator, built_for: TorchVersion | None) -> str | None:
    """The schema as torch prints it: with its namespace, even if the source omits it.

    A text that torch rejects is returned unchanged.

    :param built_for: the release that prints it; None for the newest
    """
    if operator.schema is None:
        return None
    _, opening, rest = operator.schema.partition("(")
    text = f"{operator.name}{opening}{rest}"
    try:
        schema = FunctionSchema.parse(text)
    except SchemaError:
        return text
    return schema.printed_by(built_for.minor_version) if built_for else str(schema)


def _inventory(inventory: Inventory, gpu: ExtensionGpu | None, operators: dict[str, CpuReach] | None) -> dict[str, Any]:
    registrations = inventory.registrations
    return {
        "path": inventory.path,
        "built_for": [str(version) for version in inventory.built_for],
        "libraries": [_library(library, inventory) for library in registrations.libraries],
        "operators": [_operator(operator, inventory) for operator in registrations.operators],
        "kernels": [
            {**_kernel(kernel, inventory), "gpu_targets": _targets(kernel, gpu)} for kernel in registrations.kernels
        ],
        "fallbacks": [_fallback(fallback, inventory) for fallback in registrations.fallbacks],
        "classes": [
            {"name": custom_class.name, "methods": list(custom_class.methods), "phase": custom_class.phase.value}
            for custom_class in registrations.classes
        ],
        "registries": [
            {"registry": entry.what, "key": entry.key, "phase": entry.phase.value} for entry in registrations.registries
        ],
        "lookups": [{"operator": lookup.operator, "schema_known": None} for lookup in registrations.lookups],
        "gpu": _gpu(gpu) if gpu else None,
        "cpu": cpu_document(_cpu(inventory, operators)),
        "gaps": [gap_row(gap) for gap in inventory.gaps],
    }


def _cpu(inventory: Inventory, operators: dict[str, CpuReach] | None) -> CpuNeeds:
    """What the initialisers and the operators of an extension need of the processor."""
    files = {posixpath.basename(inventory.path): CpuAtLoad(uses=inventory.registrations.cpu)}
    return CpuNeeds(machine=inventory.machine, files=files, operators=operators)


def _targets(kernel: RegisteredKernel, gpu: ExtensionGpu | None) -> list[str] | None:
    targets = gpu.targets(kernel) if gpu else None
    return None if targets is None else list(targets)


def _gpu(gpu: ExtensionGpu) -> dict[str, Any]:
    return {
        "containers": [
            {"relocatable": container.relocatable, "entries": list(map(_entry, container.entries))}
            for container in gpu.code.containers
        ],
        "toolkit": ".".join(map(str, gpu.code.toolkit)) if gpu.code.toolkit else None,
        "runtime": gpu.runtime,
        "driver": str(gpu.driver) if gpu.driver else None,
        "gaps": [{"stage": "gpu", "reason": reason} for reason in gpu.gaps],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "kind": entry.kind.value,
        "target": entry.target,
        "ptx_isa": ".".join(map(str, entry.ptx_isa)) if entry.ptx_isa else None,
        "compression": entry.compression.value,
        "size": entry.size,
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


def _operator(operator: RegisteredOperator, inventory: Inventory) -> dict[str, Any]:
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


def _kernel(kernel: RegisteredKernel, inventory: Inventory) -> dict[str, Any]:
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


def _fallback(fallback: RegisteredFallback, inventory: Inventory) -> dict[str, Any]:
    return fallback_row(
        key=key_name(fallback.dispatch_key, inventory.keys),
        fallthrough=fallback.fallthrough,
        file=fallback.file,
        line=fallback.line,
        phase=fallback.phase.value,
    )


def operator_row(
    *,
    name: str,
    schema: str | None,
    inferred: bool,
    jit_only: bool,
    tags: Sequence[str],
    file: str | None,
    line: int | None,
    phase: str,
) -> dict[str, Any]:
    """An operator; ``schema`` as torch prints it."""
    return {
        "name": name,
        "schema": schema,
        "inferred": inferred,
        "jit_only": jit_only,
        "tags": list(tags),
        "file": file,
        "line": line,
        "phase": phase,
    }


def kernel_row(
    *,
    operator: str,
    key: str | None,
    signature: str | None,
    inferred_schema: str | None,
    boxed: bool,
    fallthrough: bool,
    file: str | None,
    line: int | None,
    phase: str,
) -> dict[str, Any]:
    """A kernel; ``signature`` is its C++ type, mangled."""
    return {
        "operator": operator,
        "dispatch_key": key,
        "signature": demangle_type(signature) if signature else None,
        "inferred_schema": inferred_schema,
        "boxed": boxed,
        "fallthrough": fallthrough,
        "file": file,
        "line": line,
        "phase": phase,
    }


def fallback_row(
    *, key: str | None, fallthrough: bool, file: str | None, line: int | None, phase: str
) -> dict[str, Any]:
    """A fallback."""
    return {"dispatch_key": key, "fallthrough": fallthrough, "file": file, "line": line, "phase": phase}


def gap_row(gap: RegistrationGap) -> dict[str, Any]:
    """A gap; addresses in hexadecimal."""
    return {
        "stage": gap.stage,
        "reason": gap.reason,
        "address": None if gap.address is None else f"{gap.address:#x}",
        "symbol": gap.symbol,
        "started": None if gap.started is None else f"{gap.started:#x}",
        "called": gap.called,
        "lost": dict(gap.lost),
    }
