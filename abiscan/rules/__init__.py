"""The rules, one module each. A new rule needs its module, a line here, and a folder of cases in the tests."""

from __future__ import annotations

from typing import Final

from abiscan.findings import Documented, Rule
from abiscan.rules import (
    abi3_violation,
    architecture_mismatch,
    bad_schema_string,
    compression_too_new,
    copied_data_grown,
    cpu_build,
    cpu_too_old,
    cuda_runtime_mismatch,
    custom_class_conflict,
    cxx11_abi_mismatch,
    declared_requirement_wrong,
    dispatch_key_drift,
    dispatch_strategy_changed,
    duplicate_def,
    duplicate_fallback,
    duplicate_library,
    impl_without_def,
    initialiser_ends_process,
    kernel_override,
    kernel_schema_mismatch,
    kernel_signature_mismatch,
    layout_drift,
    library_block_misuse,
    lost_autograd,
    lost_torch_base,
    missing_kernel,
    missing_library,
    missing_operator_lookup,
    missing_torch_name,
    no_kernel_image,
    platform_tag_wrong,
    ptx_too_new,
    pybind11_internals_mismatch,
    python_abi_mismatch,
    refused_by_loader,
    refused_by_package,
    registry_conflict,
    rejected_torch_call,
    schema_conflict,
    stable_abi,
    stable_call_mismatch,
    stable_type_unsupported,
    symbol_version_not_found,
    undefined_symbol,
    unexpanded_namespace,
    unread_registration,
    variant_property_wrong,
    vtable_drift,
)
from abiscan.rules.of_models import MODEL_RULES

RULES: Final[tuple[Rule, ...]] = (
    architecture_mismatch.RULE,
    missing_library.RULE,
    cuda_runtime_mismatch.RULE,
    refused_by_loader.RULE,
    symbol_version_not_found.RULE,
    cxx11_abi_mismatch.RULE,
    python_abi_mismatch.RULE,
    undefined_symbol.RULE,
    copied_data_grown.RULE,
    layout_drift.RULE,
    vtable_drift.RULE,
    pybind11_internals_mismatch.RULE,
    schema_conflict.RULE,
    duplicate_library.RULE,
    duplicate_def.RULE,
    bad_schema_string.RULE,
    cpu_too_old.RULE,
    initialiser_ends_process.RULE,
    library_block_misuse.RULE,
    kernel_signature_mismatch.RULE,
    kernel_schema_mismatch.RULE,
    duplicate_fallback.RULE,
    custom_class_conflict.RULE,
    registry_conflict.RULE,
    impl_without_def.RULE,
    kernel_override.RULE,
    dispatch_key_drift.RULE,
    dispatch_strategy_changed.RULE,
    missing_kernel.RULE,
    missing_operator_lookup.RULE,
    lost_autograd.RULE,
    cpu_build.RULE,
    unexpanded_namespace.RULE,
    stable_call_mismatch.RULE,
    stable_type_unsupported.RULE,
    stable_abi.RULE,
    no_kernel_image.RULE,
    ptx_too_new.RULE,
    compression_too_new.RULE,
    unread_registration.RULE,
    abi3_violation.RULE,
    platform_tag_wrong.RULE,
    declared_requirement_wrong.RULE,
    variant_property_wrong.RULE,
)
"""In the order in which a load would run into the problems."""

SELECTABLE: Final[tuple[Rule, ...]] = (
    *RULES,
    missing_torch_name.RULE,
    rejected_torch_call.RULE,
    refused_by_package.RULE,
    lost_torch_base.RULE,
)
"""Those about the Python code of packages as well, which find nothing in an extension."""

EVERY_RULE: Final[tuple[Documented, ...]] = (*SELECTABLE, *MODEL_RULES)
"""Those about saved models as well, which check no library."""


def by_name(name: str) -> Rule | None:
    """Return the rule called ``name``."""
    # Not the rules of models: --select and --ignore are about libraries.
    return next((rule for rule in SELECTABLE if rule.name == name), None)
