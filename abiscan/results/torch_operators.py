"""The results of ``abiscan ops --torch``: what a torch itself registers. Their JSON is that of ``operators``."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec.structs
from msgspec import Struct

from abiscan.dispatch.operators import Operators
from abiscan.registrations import Phase, RegistrationGap
from abiscan.results.document import rendered
from abiscan.results.operators import fallback_row, gap_row, kernel_row, operator_row
from abiscan.results.selection import Selection
from abiscan.torches.api_version import printed
from abiscan.torches.model import TorchRelease


class TorchOperators(Struct, frozen=True, kw_only=True):
    """The operators in a torch's dispatcher."""

    release: TorchRelease
    operators: Operators

    def only(self, selection: Selection) -> TorchOperators:
        """The operators that are selected, with their kernels; gaps are kept."""
        if not selection:
            return self
        found = self.operators
        operators = msgspec.structs.replace(
            found,
            operators={name: operator for name, operator in found.operators.items() if selection.admits(name)},
            kernels=tuple(kernel for kernel in found.kernels if selection.admits(kernel.operator)),
            fallbacks=(),
        )
        return msgspec.structs.replace(self, operators=operators)

    def to_json(self) -> str:
        """The JSON document, version 1."""
        phase = Phase.STATIC_INIT.value
        return rendered(
            {
                "path": self.release.package,
                "built_for": [self.release.version] if self.release.version else [],
                "libraries": [],
                "operators": [
                    operator_row(
                        name=operator.name,
                        schema=printed(operator.schema),
                        inferred=False,
                        jit_only=False,
                        tags=operator.tags,
                        file=operator.file,
                        line=operator.line,
                        phase=phase,
                    )
                    for operator in self.operators.operators.values()
                ],
                "kernels": [
                    kernel_row(
                        operator=kernel.operator,
                        key=kernel.key,
                        signature=kernel.signature,
                        inferred_schema=kernel.schema,
                        boxed=kernel.signature is None,
                        fallthrough=kernel.fallthrough,
                        file=kernel.file,
                        line=kernel.line,
                        phase=phase,
                    )
                    for kernel in self.operators.kernels
                ],
                "fallbacks": [
                    fallback_row(
                        key=fallback.key,
                        fallthrough=fallback.fallthrough,
                        file=fallback.file,
                        line=fallback.line,
                        phase=phase,
                    )
                    for fallback in self.operators.fallbacks
                ],
                "classes": [],
                "registries": [],
                "lookups": [],
                "gaps": [gap_row(RegistrationGap(stage="emulation", reason=gap)) for gap in self.operators.gaps],
            }
        )


class TorchApiVersions(Struct, frozen=True, kw_only=True):
    """The interface version of each operator of a torch, by name."""

    release: TorchRelease
    versions: Mapping[str, str]
    gaps: tuple[str, ...]

    def only(self, selection: Selection) -> TorchApiVersions:
        """The versions of the operators that are selected."""
        versions = {name: version for name, version in self.versions.items() if selection.admits(name)}
        return msgspec.structs.replace(self, versions=versions)

    def to_json(self) -> str:
        """The JSON document, version 1."""
        return rendered({"torch": self.release.build, "api_versions": self.versions, "gaps": self.gaps})
