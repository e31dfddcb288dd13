"""The results of ``abiscan ops --torch``: what a torch itself registers. Their JSON is that of ``operators``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec.structs

from abiscan.binary.mangling import demangle_type
from abiscan.dispatch.operators import Fallback, Kernel, Operator, Operators
from abiscan.gaps import Gap
from abiscan.registrations import Phase
from abiscan.results.document import Document, give_shape
from abiscan.results.operators import CodeGap
from abiscan.results.selection import Selection
from abiscan.torches.api_version import format_schema
from abiscan.torches.model import TorchRelease


@give_shape(
    "path=release.package built_for libraries operators kernels=operators.kernels fallbacks=operators.fallbacks"
    " classes registries lookups gaps",
    built_for=lambda torch: [torch.release.version] if torch.release.version else [],
    operators=lambda torch: tuple(torch.operators.operators.values()),
    libraries=lambda _: (),
    classes=lambda _: (),
    registries=lambda _: (),
    lookups=lambda _: (),
    gaps=lambda torch: [CodeGap(gap=Gap(stage="emulation", reason=reason)) for reason in torch.operators.gaps],
)
class TorchOperators(Document, frozen=True, kw_only=True):
    """The operators in a torch's dispatcher."""

    release: TorchRelease
    operators: Operators

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


def _in_static_init(_: Any) -> str:
    # The document of a torch has the fields of an extension's, where it has no values of its own.
    return Phase.STATIC_INIT.value  # by when all of a torch is registered


give_shape(
    "name schema inferred jit_only tags file line phase",
    schema=lambda operator: format_schema(operator.schema),
    inferred=lambda _: False,
    jit_only=lambda _: False,
    phase=_in_static_init,
)(Operator)
give_shape(
    "operator dispatch_key=key signature inferred_schema=schema boxed fallthrough file line phase",
    signature=lambda kernel: kernel.signature and demangle_type(kernel.signature),
    boxed=lambda kernel: kernel.signature is None,
    phase=_in_static_init,
)(Kernel)
give_shape("dispatch_key=key fallthrough file line phase", phase=_in_static_init)(Fallback)


@give_shape("torch=release.build api_versions=versions gaps")
class TorchApiVersions(Document, frozen=True, kw_only=True):
    """The interface version of each operator of a torch, by name."""

    release: TorchRelease
    versions: Mapping[str, str]
    gaps: tuple[str, ...]

    def only(self, selection: Selection) -> TorchApiVersions:
        """Return the versions of the operators that are selected."""
        versions = {name: version for name, version in self.versions.items() if selection.admits(name)}
        return msgspec.structs.replace(self, versions=versions)
