"""The results of ``abiscan ops --torch``: what a torch itself registers. Their JSON is that of ``operators``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec.structs
from msgspec import UNSET, Meta

from abiscan.binary.mangling import demangle_type
from abiscan.dispatch.operators import Operators
from abiscan.gaps import Gap
from abiscan.inputs.version import TorchVersion
from abiscan.registrations import Phase
from abiscan.results.document import Document, JsonObject
from abiscan.results.operators import FallbackJson, InventoryJson, KernelJson, OperatorJson, gap_json
from abiscan.results.selection import Selection
from abiscan.torches.api_version import format_schema
from abiscan.torches.model import TorchRelease


class TorchOperators(Document, frozen=True, kw_only=True):
    """The operators in a torch's dispatcher."""

    release: TorchRelease
    operators: Operators

    def _contents(self) -> InventoryJson:
        """Return what the document has: the fields of an extension's, where it has no values of its own."""
        operators, phase = self.operators, Phase.STATIC_INIT  # by when all of a torch is registered
        return InventoryJson(
            path=self.release.package,
            built_for=[TorchVersion(self.release.version)] if self.release.version else [],
            libraries=(),
            operators=[
                OperatorJson.of(
                    operator, schema=format_schema(operator.schema), inferred=False, jit_only=False, phase=phase
                )
                for operator in operators.operators.values()
            ],
            kernels=[
                KernelJson.of(
                    kernel,
                    dispatch_key=kernel.key,
                    signature=kernel.signature and demangle_type(kernel.signature),
                    inferred_schema=kernel.schema,
                    boxed=kernel.signature is None,
                    phase=phase,
                    gpu_targets=UNSET,
                )
                for kernel in operators.kernels
            ],
            fallbacks=[
                FallbackJson.of(fallback, dispatch_key=fallback.key, phase=phase) for fallback in operators.fallbacks
            ],
            classes=(),
            registries=(),
            lookups=(),
            gaps=[gap_json(Gap(stage="emulation", reason=reason)) for reason in operators.gaps],
        )

    def only(self, selection: Selection) -> TorchOperators:
        """Return the operators that are selected, with their kernels; gaps are kept."""
        if not selection:
            return self
        result = self.operators
        operators = msgspec.structs.replace(
            result,
            operators={name: operator for name, operator in result.operators.items() if selection.admits(name)},
            kernels=tuple(kernel for kernel in result.kernels if selection.admits(kernel.operator)),
            fallbacks=(),
        )
        return msgspec.structs.replace(self, operators=operators)


class TorchApiVersionsJson(JsonObject, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The document of ``abiscan ops --torch SPEC --api-version``.

    :ivar torch: the full version, None if unknown
    :ivar api_versions: by operator: a fingerprint of its schema and one of its dispatch
    :ivar gaps: what could not be read of this torch
    """

    torch: str | None
    api_versions: Mapping[str, Annotated[str, Meta(pattern="^[0-9a-f]+-[0-9a-f]+$")]]
    gaps: Sequence[str]


class TorchApiVersions(Document, frozen=True, kw_only=True):
    """The interface version of each operator of a torch, by name."""

    release: TorchRelease
    versions: Mapping[str, str]
    gaps: tuple[str, ...]

    def _contents(self) -> TorchApiVersionsJson:
        return TorchApiVersionsJson.of(self, torch=self.release.build, api_versions=self.versions)

    def only(self, selection: Selection) -> TorchApiVersions:
        """Return the versions of the operators that are selected."""
        versions = {name: version for name, version in self.versions.items() if selection.admits(name)}
        return msgspec.structs.replace(self, versions=versions)
