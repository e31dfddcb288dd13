"""The C++ type of a kernel, printed and classified as by the dispatcher (``ATen/core/dispatch/CppSignature.h``).

Types are mangled function types, ``FN2at6TensorERKS0_E``, as ``typeid`` names them. torch compares only these names. A
leading ``DispatchKeySet`` is removed before ``typeid`` is called, so no such name contains it.
"""

from __future__ import annotations

import functools
from typing import Final

from abiscan.binary.mangling import Signature, demangle_type

# has_symint in ATen/core/boxing/KernelFunction.h: whole types, so a reference to one does not count.
_SYMINT_TYPES: Final = frozenset(
    {
        "c10::SymInt",
        "c10::ArrayRef<c10::SymInt>",
        "c10::OptionalArrayRef<c10::SymInt>",
        "c10::optional<c10::SymInt>",
        "std::optional<c10::SymInt>",
    }
)


def printed_type(mangled: str) -> str:
    """Return the type as torch prints it: ``at::Tensor (at::Tensor const&)``."""
    # torch uses the demangler of the C++ runtime, which puts a space between closing brackets of templates.
    text = demangle_type(mangled)
    while ">>" in text:
        text = text.replace(">>", "> >")
    return text


@functools.lru_cache(maxsize=4096)  # torch's thousands of kernels have hundreds of types
def takes_symint(mangled: str) -> bool:
    """Whether the kernel takes a ``SymInt``; torch 1.13 and newer keep such kernels apart from the others."""
    parameters = Signature.of(demangle_type(mangled)).parameters
    return parameters is not None and not _SYMINT_TYPES.isdisjoint(parameters)
