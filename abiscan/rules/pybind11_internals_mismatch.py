"""The extension and torch were compiled with incompatible versions of pybind11.

**What it finds.** pybind11 modules share their types through a record whose name encodes the version of its layout,
the compiler and the C++ library: `__pybind11_internals_v11_system_libstdcpp_gxx_abi_1xxx_…__`. The extension uses a
different name than `libtorch_python.so`.

**Why it matters.** It loads. But the two keep separate type registries: a function of the extension that takes or
returns a class that torch binds with pybind11 (`torch._C.Graph`, `torch._C.ScriptModule`, a process group, …) raises
`TypeError: … incompatible function arguments`, and a class derived from one of torch's raises ImportError. Tensors,
devices, dtypes and the like are not affected: torch converts them without pybind11's registry.

**Fix.** Build the extension with the pybind11 headers that this torch ships in `torch/include/pybind11`, and with a
compiler of the same ABI.

**Limits.** Whether the extension exchanges such types is not known, so this is a note.

**Example.** `__pybind11_internals_v4_gcc_libstdcpp_cxxabi1011__` in the extension, and
`__pybind11_internals_v11_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1__` in torch 2.9.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Compare the names of the two registries."""
    load = linkage.load
    python = load.torch_libraries.get("libtorch_python.so")
    own_internals, torch_internals = load.facts.pybind11_internals, python.pybind11_internals if python else None
    # pybind11/detail/internals.h: modules share types if, and only if, they look up the same record by this name.
    if own_internals and torch_internals and own_internals != torch_internals:
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=(
                f"{load.name} and {load.release} use incompatible pybind11 internals: the extension does not "
                "know the classes that torch binds (TypeError: incompatible function arguments)"
            ),
            evidence=(Evidence(subject=own_internals, object=load.name, instead=torch_internals),),
            fix="build the extension with the pybind11 headers in torch/include/pybind11 of this torch",
        )


RULE = rule("pybind11-internals-mismatch", __doc__, find_problems)
