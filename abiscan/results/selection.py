"""Which operators a user wants to see of thousands."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from msgspec import Struct


class Selection(Struct, frozen=True, kw_only=True):
    """Operators by shell patterns for their names, and by their namespaces.

    A pattern without a namespace is for all namespaces, and one without an overload for all overloads.
    """

    patterns: Sequence[str] = ()
    namespaces: Sequence[str] = ()

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self.patterns or self.namespaces)

    def admits(self, operator: str) -> bool:
        """Whether to show an operator: ``aten::add.Tensor``."""
        namespace, _, name = operator.rpartition("::")
        if self.namespaces and namespace not in self.namespaces:
            return False
        # With and without namespace, with and without overload: ``add``, ``add.Tensor``, ``aten::add``.
        spellings = {operator, name, operator.partition(".")[0], name.partition(".")[0]}
        return not self.patterns or any(
            fnmatch.fnmatchcase(spelling, pattern) for pattern in self.patterns for spelling in spellings
        )

    def admits_library(self, namespace: str | None) -> bool:
        """Whether to show a ``TORCH_LIBRARY`` block: with patterns, the operators alone are wanted."""
        return namespace in self.namespaces and not self.patterns
