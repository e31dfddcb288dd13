"""The rules, one module each. Adding one takes its module, a line here, and a folder of cases in the tests."""

from __future__ import annotations

from typing import Final

from abiscan.findings import Rule
from abiscan.rules import (
    architecture_mismatch,
    cxx11_abi_mismatch,
    missing_library,
    pybind11_internals_mismatch,
    python_abi_mismatch,
    symbol_version_not_found,
    undefined_symbol,
)

RULES: Final[tuple[Rule, ...]] = (
    architecture_mismatch.RULE,
    missing_library.RULE,
    symbol_version_not_found.RULE,
    cxx11_abi_mismatch.RULE,
    python_abi_mismatch.RULE,
    undefined_symbol.RULE,
    pybind11_internals_mismatch.RULE,
)
"""In the order in which a load would meet what they find."""


def by_name(name: str) -> Rule | None:
    """The rule called ``name``."""
    return next((rule for rule in RULES if rule.name == name), None)
