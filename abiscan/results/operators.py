"""The result of ``abiscan ops TARGET``: what an extension registers. Its JSON Schema is ``schema/ops-v1.json``."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator
from typing import Any

import msgspec.structs

from abiscan.binary.mangling import demangle_type
from abiscan.cpu.needs import CpuAtLoad, CpuNeeds, CpuReach
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.extension.gpu import ExtensionGpu
from abiscan.extension.inventory import Inventory
from abiscan.gaps import Gap
from abiscan.gpu.model import Container, Entry
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import (
    CustomClass,
    Library,
    Lookup,
    RegisteredFallback,
    RegisteredKernel,
    RegisteredOperator,
    Registration,
    Registrations,
    Registry,
)
from abiscan.results.cpu import cpu_document
from abiscan.results.document import Document, encode_plain, give_shape
from abiscan.results.selection import Selection


@give_shape("*_contents")
class ExtensionOperators(Document, frozen=True, kw_only=True):
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
        """Return the operators that are selected, with their kernels and lookups; gaps are kept."""
        inventories = (
            msgspec.structs.replace(inventory, registrations=_select_registrations(inventory.registrations, selection))
            for inventory in self.inventories
        )
        cpus = ({name: reach for name, reach in of.items() if selection.admits(name)} for of in self.cpus)
        return msgspec.structs.replace(self, inventories=tuple(inventories), cpus=tuple(cpus)) if selection else self

    @property
    def with_gpus(self) -> Iterator[tuple[Inventory, ExtensionGpu | None]]:
        """Each extension, with its code for GPUs."""
        return zip(self.inventories, self.gpus or itertools.repeat(None), strict=False)

    @property
    def _contents(self) -> dict[str, Any]:
        """What the JSON document has."""
        cpus = self.cpus or itertools.repeat(None)
        # One object for one library, a list for a package: scripts for the former are older than the list.
        documents = [
            _encode_inventory(inventory, gpu, cpu) for (inventory, gpu), cpu in zip(self.with_gpus, cpus, strict=False)
        ]
        return documents[0] if self.single else {"target": self.target, "results": documents}


def _select_registrations(registered: Registrations, selection: Selection) -> Registrations:
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
    """Return a dispatch key by its name; None for "no key"."""
    return keys.name(key) if isinstance(key, int) else key


def full_schema(operator: RegisteredOperator, built_for: TorchVersion | None) -> str | None:
    """Return the schema as torch prints it: with its namespace, even if the source omits it.

    A text that torch rejects is returned unchanged.

    :param built_for: the release that prints it; None for the newest
    """
    if operator.schema is None:
        return None
    # ``m.def("add(…)")`` in TORCH_LIBRARY(ns, m) is ns::add, and the name of the record has both.
    _, opening, remainder = operator.schema.partition("(")
    text = f"{operator.name}{opening}{remainder}"
    try:
        schema = FunctionSchema.parse(text)
    except SchemaError:
        return text
    return schema.printed_by(built_for.minor_version) if built_for else str(schema)


def _encode_inventory(
    inventory: Inventory, gpu: ExtensionGpu | None, operators: dict[str, CpuReach] | None
) -> dict[str, Any]:
    registrations, keys = inventory.registrations, inventory.keys
    newest = inventory.built_for[-1] if inventory.built_for else None
    cpu_at_load = {posixpath.basename(inventory.path): CpuAtLoad(uses=registrations.cpu)}
    return {
        "path": inventory.path,
        "built_for": inventory.built_for,
        "libraries": [{**encode_plain(library), **_encode_key(library, keys)} for library in registrations.libraries],
        "operators": [
            {
                **encode_plain(operator),
                "schema": full_schema(operator, newest),
                "tags": [inventory.tags.name(number) for number in operator.tags],
            }
            for operator in registrations.operators
        ],
        "kernels": [
            {**encode_plain(kernel), **_encode_key(kernel, keys), "gpu_targets": gpu and gpu.targets(kernel)}
            for kernel in registrations.kernels
        ],
        "fallbacks": [
            {**encode_plain(fallback), **_encode_key(fallback, keys)} for fallback in registrations.fallbacks
        ],
        "classes": registrations.classes,
        "registries": registrations.registries,
        "lookups": registrations.lookups,
        "gpu": gpu,
        "cpu": cpu_document(CpuNeeds(machine=inventory.machine, files=cpu_at_load, operators=operators)),
        "gaps": list(map(gap_document, inventory.gaps)),
    }


def gap_document(gap: Gap) -> dict[str, object]:
    """Return the JSON object of a gap in code: where it is, and what it cost."""
    return {
        "stage": gap.stage,
        "reason": gap.reason,
        "address": _find_hexadecimal(gap.address),
        "symbol": gap.symbol,
        "started": _find_hexadecimal(gap.started),
        "called": gap.called,
        "lost": dict(gap.lost),
    }


def _encode_key(
    registered: Library | RegisteredKernel | RegisteredFallback, keys: DispatchKeys
) -> dict[str, str | None]:
    return {"dispatch_key": key_name(registered.dispatch_key, keys)}


def _find_version(numbers: tuple[int, int] | None) -> str | None:
    return ".".join(map(str, numbers)) if numbers else None


def _find_hexadecimal(address: int | None) -> str | None:
    return None if address is None else f"{address:#x}"


give_shape("kind namespace dispatch_key file line phase")(Library)
give_shape("name schema inferred jit_only tags file line phase")(RegisteredOperator)
give_shape(
    "operator dispatch_key signature inferred_schema boxed fallthrough file line phase",
    signature=lambda kernel: demangle_type(kernel.signature) if kernel.signature else None,
)(RegisteredKernel)
give_shape("dispatch_key fallthrough file line phase")(RegisteredFallback)
give_shape("name methods phase")(CustomClass)
give_shape("registry=what key phase")(Registry)
give_shape("operator schema_known", schema_known=lambda _: None)(Lookup)
give_shape(
    "containers=code.containers toolkit runtime driver gaps",
    toolkit=lambda gpu: _find_version(gpu.code.toolkit),
    driver=lambda gpu: gpu.driver and str(gpu.driver),
    gaps=lambda gpu: [{"stage": "gpu", "reason": reason} for reason in gpu.gaps],
)(ExtensionGpu)
give_shape("relocatable entries")(Container)
give_shape("kind target ptx_isa compression size", ptx_isa=lambda entry: _find_version(entry.ptx_isa))(Entry)
