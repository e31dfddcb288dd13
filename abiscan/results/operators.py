"""The result of ``abiscan ops TARGET``: what an extension registers. Its JSON Schema is ``schema/ops-v1.json``."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final, TypeAlias

import msgspec.structs
from msgspec import UNSET, Meta, UnsetType

from abiscan.binary.mangling import demangle_type
from abiscan.cpu.needs import CpuAtLoad, CpuNeeds, CpuReach
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.extension.gpu import ExtensionGpu
from abiscan.extension.inventory import Inventory
from abiscan.gaps import Gap
from abiscan.gpu.model import CodeKind, Compression
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import (
    Library,
    LibraryKind,
    Phase,
    RegisteredKernel,
    RegisteredOperator,
    Registration,
    Registrations,
)
from abiscan.results.cpus import CpuJson, cpu_json
from abiscan.results.document import Document, JsonObject
from abiscan.results.fields import Count, OperatorName, Several
from abiscan.results.gpus import GpuGapJson
from abiscan.results.selection import Selection

_Key: TypeAlias = Annotated[str | None, Meta(description="by its name in the torch that the extension was built for")]
_File: TypeAlias = Annotated[str | None, Meta(description="the source file, as the compiler recorded it")]
_Address: TypeAlias = Annotated[str, Meta(pattern="^0x[0-9a-f]+$")]


_KINDS: Final = ("library", "class", "method", "operator", "kernel", "fallback", "registry")
_Registered: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": _KINDS})]


class LibraryBlockJson(JsonObject, frozen=True, kw_only=True):
    """A ``TORCH_LIBRARY`` block.

    :ivar namespace: None for the wildcard _
    """

    kind: LibraryKind
    namespace: str | None
    dispatch_key: _Key
    file: _File
    line: Count | None
    phase: Phase


class OperatorJson(JsonObject, frozen=True, kw_only=True):
    """An operator that is defined.

    :ivar inferred: torch makes the schema from the C++ function
    :ivar jit_only: in TorchScript's registry, not in the dispatcher
    """

    name: OperatorName
    schema: str | None
    inferred: bool
    jit_only: bool
    tags: Sequence[str]
    file: _File
    line: Count | None
    phase: Phase


class KernelJson(JsonObject, frozen=True, kw_only=True):
    """A kernel of an operator.

    :ivar signature: C++ function type, demangled
    :ivar gpu_targets: what the GPU kernels that it launches have code for (sm_90a, compute_80, gfx942); None if none is
        known to be launched
    """

    operator: OperatorName
    dispatch_key: _Key
    signature: str | None
    inferred_schema: str | None
    boxed: bool
    fallthrough: bool
    file: _File
    line: Count | None
    phase: Phase
    gpu_targets: Sequence[str] | UnsetType | None = UNSET


class FallbackJson(JsonObject, frozen=True, kw_only=True):
    """A kernel for all operators without one of their own."""

    dispatch_key: _Key
    fallthrough: bool
    file: _File
    line: Count | None
    phase: Phase


class ClassJson(JsonObject, frozen=True, kw_only=True):
    """A custom class."""

    name: str
    methods: Sequence[str]
    phase: Phase


class RegistryJson(JsonObject, frozen=True, kw_only=True):
    """An entry in another registry of torch."""

    registry: str
    key: str | int | None
    phase: Phase


class LookupJson(JsonObject, frozen=True, kw_only=True):
    """An operator that is looked up by its name."""

    operator: str
    schema_known: bool | None


class GpuEntryJson(JsonObject, frozen=True, kw_only=True):
    """Code for a GPU.

    :ivar target: sm_90a, compute_80, gfx942
    :ivar size: in the file, in bytes
    """

    kind: CodeKind
    target: str
    ptx_isa: Annotated[str, Meta(pattern=r"^[0-9]+\.[0-9]+$")] | None
    compression: Compression
    size: Count


class ContainerJson(JsonObject, frozen=True, kw_only=True):
    """A container of code for GPUs."""

    relocatable: bool
    entries: Sequence[GpuEntryJson]


class GpuCodeJson(JsonObject, frozen=True, kw_only=True):
    """The code for GPUs.

    :ivar containers: in the order of the file
    :ivar toolkit: the newest CUDA that compiled any of it
    :ivar runtime: the major version of the runtime library it needs
    :ivar driver: the first driver of NVIDIA that runs it
    """

    containers: Sequence[ContainerJson]
    toolkit: str | None
    runtime: str | None
    driver: str | None
    gaps: Sequence[GpuGapJson]


class CodeGapJson(JsonObject, frozen=True, kw_only=True):
    """A gap in code: where it is, and what it cost.

    :ivar address: the program counter in the file's own space, or, in an imported function, where that returns to
    :ivar symbol: the exported function at or before the address, mangled
    :ivar started: the function that did not get to its end, say a static initialiser
    :ivar called: the imported function, mangled, that it stopped in, or that was called last and is unknown
    :ivar lost: the calls that register and that it did not get to, counted by what they register
    """

    stage: str
    reason: str
    address: _Address | None
    symbol: str | None
    started: _Address | None
    called: str | None
    lost: Mapping[_Registered, Several]


class InventoryJson(JsonObject, frozen=True, kw_only=True):
    """What one extension registers.

    :ivar path: the extension, relative to the target
    :ivar built_for: releases it may have been built for
    :ivar gpu: the code for GPUs; None if there is none
    """

    path: str
    built_for: Sequence[TorchVersion]
    libraries: Sequence[LibraryBlockJson]
    operators: Sequence[OperatorJson]
    kernels: Sequence[KernelJson]
    fallbacks: Sequence[FallbackJson]
    classes: Sequence[ClassJson]
    registries: Sequence[RegistryJson]
    lookups: Sequence[LookupJson]
    gpu: GpuCodeJson | UnsetType | None = UNSET
    cpu: CpuJson | UnsetType = UNSET
    gaps: Sequence[CodeGapJson]


class InventoriesJson(JsonObject, frozen=True, kw_only=True):
    """What the extensions of a package register."""

    target: str
    results: Sequence[InventoryJson]


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

    def _contents(self) -> InventoryJson | InventoriesJson:
        cpus = self.cpus or itertools.repeat(None)
        # One object for one library, a list for a package: scripts for the former are older than the list.
        results = [
            _inventory_json(inventory, gpu, reaches)
            for (inventory, gpu), reaches in zip(self.with_gpus, cpus, strict=False)
        ]
        return results[0] if self.single else InventoriesJson(target=self.target, results=results)


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


def gap_json(gap: Gap) -> CodeGapJson:
    """Return what documents have of a gap in code."""
    return CodeGapJson.of(
        gap, address=_find_hexadecimal(gap.address), started=_find_hexadecimal(gap.started), lost=dict(gap.lost)
    )


def _inventory_json(
    inventory: Inventory, gpu: ExtensionGpu | None, reaches: dict[str, CpuReach] | None
) -> InventoryJson:
    """Return what one extension registers, with the names of what its code has as numbers.

    :param reaches: what its operators may use of the processor, None if that was not asked
    """
    registered, keys, tags = inventory.registrations, inventory.keys, inventory.tags
    newest = inventory.built_for[-1] if inventory.built_for else None
    at_load = {posixpath.basename(inventory.path): CpuAtLoad(uses=registered.cpu)}
    return InventoryJson.of(
        inventory,
        libraries=[
            LibraryBlockJson.of(library, dispatch_key=key_name(library.dispatch_key, keys))
            for library in registered.libraries
        ],
        operators=[
            OperatorJson.of(operator, schema=full_schema(operator, newest), tags=tuple(map(tags.name, operator.tags)))
            for operator in registered.operators
        ],
        kernels=[
            KernelJson.of(
                kernel,
                dispatch_key=key_name(kernel.dispatch_key, keys),
                signature=demangle_type(kernel.signature) if kernel.signature else None,
                gpu_targets=gpu.targets(kernel) if gpu else None,
            )
            for kernel in registered.kernels
        ],
        fallbacks=[
            FallbackJson.of(fallback, dispatch_key=key_name(fallback.dispatch_key, keys))
            for fallback in registered.fallbacks
        ],
        classes=[ClassJson.of(item) for item in registered.classes],
        registries=[RegistryJson.of(entry, registry=entry.what) for entry in registered.registries],
        lookups=[LookupJson.of(lookup, schema_known=None) for lookup in registered.lookups],
        gpu=gpu and _gpu_json(gpu),
        cpu=cpu_json(CpuNeeds(machine=inventory.machine, files=at_load, operators=reaches)),
        gaps=[gap_json(gap) for gap in inventory.gaps],
    )


def _gpu_json(gpu: ExtensionGpu) -> GpuCodeJson:
    return GpuCodeJson.of(
        gpu,
        containers=[
            ContainerJson.of(
                container,
                entries=[GpuEntryJson.of(entry, ptx_isa=_find_version(entry.ptx_isa)) for entry in container.entries],
            )
            for container in gpu.code.containers
        ],
        toolkit=_find_version(gpu.code.toolkit),
        driver=gpu.driver and str(gpu.driver),
        gaps=[GpuGapJson(stage="gpu", reason=reason) for reason in gpu.gaps],
    )


def _find_version(numbers: tuple[int, int] | None) -> str | None:
    return ".".join(map(str, numbers)) if numbers else None


def _find_hexadecimal(address: int | None) -> str | None:
    return None if address is None else f"{address:#x}"
