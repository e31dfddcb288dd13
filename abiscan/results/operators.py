"""The result of ``abiscan ops TARGET``: what an extension registers. Its JSON Schema is ``schema/ops-v1.json``."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator
from typing import TypeVar

import msgspec.structs
from msgspec import Struct

from abiscan.binary.mangling import demangle_type
from abiscan.cpu.needs import CpuAtLoad
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
from abiscan.results.cpu import CpuNeeds, CpuReach
from abiscan.results.document import Document, give_shape
from abiscan.results.selection import Selection

_Keyed = TypeVar("_Keyed", Library, RegisteredKernel, RegisteredFallback)


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
    def _contents(self) -> _Extension | dict[str, object]:
        """What the JSON document has."""
        cpus = self.cpus or itertools.repeat(None)
        # One object for one library, a list for a package: scripts for the former are older than the list.
        extensions = [
            _Extension(inventory=inventory, gpu=gpu, reaches=reaches)
            for (inventory, gpu), reaches in zip(self.with_gpus, cpus, strict=False)
        ]
        return extensions[0] if self.single else {"target": self.target, "results": extensions}


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


@give_shape(
    "stage=gap.stage reason=gap.reason address symbol=gap.symbol started called=gap.called lost",
    address=lambda code: _find_hexadecimal(code.gap.address),
    started=lambda code: _find_hexadecimal(code.gap.started),
    lost=lambda code: dict(code.gap.lost),
)
class CodeGap(Struct, frozen=True, kw_only=True):
    """A gap in code: where it is, and what it cost."""

    gap: Gap


@give_shape("*kernel gpu_targets")
class _GpuKernel(Struct, frozen=True, kw_only=True):
    """A kernel, with the GPUs that its code is for."""

    kernel: RegisteredKernel
    gpu_targets: tuple[str, ...] | None


@give_shape(
    "path=inventory.path built_for=inventory.built_for libraries operators kernels fallbacks classes=registered.classes"
    " registries=registered.registries lookups=registered.lookups gpu cpu gaps",
    gaps=lambda extension: [CodeGap(gap=gap) for gap in extension.inventory.gaps],
)
class _Extension(Struct, frozen=True, kw_only=True):
    """What one extension registers, with the names of what its code has as numbers.

    ``reaches`` has what its operators may use of the processor, None if that was not asked.
    """

    inventory: Inventory
    gpu: ExtensionGpu | None
    reaches: dict[str, CpuReach] | None

    @property
    def registered(self) -> Registrations:
        """What it registers, as its code has it."""
        return self.inventory.registrations

    @property
    def libraries(self) -> list[Library]:
        """The libraries that it opens."""
        return [self._name_key(library) for library in self.registered.libraries]

    @property
    def operators(self) -> list[RegisteredOperator]:
        """The operators that it defines."""
        inventory = self.inventory
        newest = inventory.built_for[-1] if inventory.built_for else None
        return [
            msgspec.structs.replace(
                operator, schema=full_schema(operator, newest), tags=tuple(map(inventory.tags.name, operator.tags))
            )
            for operator in self.registered.operators
        ]

    @property
    def kernels(self) -> list[_GpuKernel]:
        """The kernels that it registers."""
        gpu = self.gpu
        return [
            _GpuKernel(kernel=self._name_key(kernel), gpu_targets=gpu.targets(kernel) if gpu else None)
            for kernel in self.registered.kernels
        ]

    @property
    def fallbacks(self) -> list[RegisteredFallback]:
        """The fallbacks that it registers."""
        return [self._name_key(fallback) for fallback in self.registered.fallbacks]

    @property
    def cpu(self) -> CpuNeeds:
        """What it needs of the processor."""
        at_load = {posixpath.basename(self.inventory.path): CpuAtLoad(uses=self.registered.cpu)}
        return CpuNeeds(machine=self.inventory.machine, files=at_load, operators=self.reaches)

    def _name_key(self, record: _Keyed) -> _Keyed:
        return msgspec.structs.replace(record, dispatch_key=key_name(record.dispatch_key, self.inventory.keys))


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
