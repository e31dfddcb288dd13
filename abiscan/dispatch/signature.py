"""The C++ type of a kernel, as the dispatcher keeps and prints it (``ATen/core/dispatch/CppSignature.h``).

Types are mangled function types, ``FN2at6TensorERKS0_E``, as ``typeid`` names them. torch compares these names and
nothing else. A leading ``DispatchKeySet`` is gone before ``typeid`` is asked, so it is in no such name.
"""

from __future__ import annotations

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


def printed(mangled: str) -> str:
    """The type as torch prints it: ``at::Tensor (at::Tensor const&)``."""
    # The demangler of the C++ runtime, which torch asks, keeps nested templates apart.
    text = demangle_type(mangled)
    while ">>" in text:
        text = text.replace(">>", "> >")
    return text


def takes_symint(mangled: str) -> bool:
    """Whether the kernel takes a ``SymInt``; torch 1.13 and newer keep such kernels apart from the others."""
    parameters = Signature.of(demangle_type(mangled)).parameters
    return parameters is not None and not _SYMINT_TYPES.isdisjoint(parameters)
