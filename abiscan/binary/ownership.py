"""Which project a symbol or a library belongs to, by its name alone.

This matters when a library was not found: it may define any symbol that is not torch's or Python's. It may also define
those of the C++ runtime, if that is linked into it.
"""

from __future__ import annotations

import functools
from typing import Final

from msgspec import Struct

from abiscan.regex import regex

# The namespaces of torch, as source names of the Itanium C++ ABI (<length><name>).
_TORCH_NAMESPACE: Final = r"(?:2at|3c10|5torch|6caffe2|4c10d|10onnx_torch)"

# An encoding, or a special name (vtable, typeinfo, guard, thunk, TLS wrapper ...), of something nested in a namespace:
# N, its cv- and ref-qualifiers, the name.
_SPECIAL: Final = r"_Z(?:T[VTISHW]|GV|GR|Th?n?[0-9]*_?|Tv?n?[0-9]*_n?[0-9]+_)?"
_TORCH_SYMBOL: Final = regex(
    rf"{_SPECIAL}N[rVK]*[RO]?{_TORCH_NAMESPACE}"  # at::…, c10::…, torch::…
    rf"|{_SPECIAL}(?:N[rVK]*[RO]?)?St.*N[rVK]*{_TORCH_NAMESPACE}"  # a template of std over torch's types
    rf"|{_SPECIAL}N[rVK]*[RO]?8pybind11.*N[rVK]*{_TORCH_NAMESPACE}"  # pybind11's converters for them
    r"|_Z[0-9]+(?:THP|THC|THD)"  # C++ functions of libtorch_python: THPVariable_Wrap(at::Tensor)
    r"|THP|THC|aoti_torch_|torch_"  # C functions: Python bindings and the stable ABI
)
# Further names that are torch's if torch exports them: those of its flags, its C libraries up to 1.10, and of classes
# and namespaces that are its own. Names of other projects that are linked into torch (cuDNN, NCCL, MKL, fmt) may come
# from those projects.
_LIKE_TORCH: Final = regex(
    r"FLAGS_(?:torch|caffe2|c10)_|TH[A-Z]\w*_|(?:c10|caffe2|libshm)_"
    rf"|{_SPECIAL}(?:N[rVK]*[RO]?)?[0-9]+(?:FLAGS_(?:torch|caffe2|c10)_|pytorch_|PyTorch|at_cuda_detail|TH[A-Z]"
    r"|Packed(?:Linear|Conv|EmbeddingBag)|Linear(?:Packed|Unpacked)|Conv[123]dPacked)"
    rf"|{_SPECIAL}N[rVK]*[RO]?(?:3sdp|2ao|3nom|7nvfuser)"
)
# Each symbol that is_torch_symbol accepts contains one of these, and so does each name that is_torch_library accepts.
_TORCH_WORDS: Final = (
    *(b"2at", b"3c10", b"5torch", b"6caffe2", b"4c10d", b"onnx_torch", b"THP", b"THC", b"THD", b"torch_"),
    *(b"libtorch", b"libc10", b"libcaffe2", b"libshm.", b"libjitbackend_test", b"libbackend_with_compiler"),
)
_PYTHON_SYMBOL: Final = regex(r"_?Py[A-Z_]")
_CXX_SYMBOL: Final = regex(rf"{_SPECIAL}(?:N[rVK]*[RO]?)?S[tabsiod]|__cxa_|__gxx_|_Zna|_Znw|_Zda|_Zdl")

_CXX_LIBRARY: Final = regex(r"lib(stdc\+\+|c\+\+|c\+\+abi|supc\+\+)\.so")

_TORCH_LIBRARY: Final = regex(
    r"lib(torch|torch_(cpu|cuda|hip|xpu|python|global_deps|nvshmem|cuda_\w+|hip_\w+|xpu_\w+)"
    r"|c10(_cuda|_hip|_xpu)?|caffe2(_\w+)?|shm|torchbind_test|jitbackend_test|backend_with_compiler)\.so"
    r"(\.[0-9.]+)?"  # a distribution's have a version: libtorch_cpu.so.1.13
)

# The libraries that PEP 600 lets every wheel take from the system, and the loader itself.
_SYSTEM_LIBRARY: Final = regex(
    r"ld-linux-[\w-]+\.so\.\d+"
    r"|lib(c|m|dl|rt|util|nsl|pthread|resolv|anl|crypt|gcc_s|stdc\+\+|atomic|z|expat|X11|Xext|Xrender|ICE|SM|GL|EGL"
    r"|gobject-2\.0|gthread-2\.0|glib-2\.0|mvec)\.so\.\d+"
)

# What modules of Python's standard library need that ``import torch`` imports; a Python may contain them instead.
_PYTHON_LIBRARY: Final = regex(r"lib(z|bz2|lzma|ffi|crypto|ssl|uuid)\.so\.[0-9.]+")

_GPU_LIBRARY: Final = regex(
    r"lib(cudart|cublas|cublasLt|cudnn|cufft|cufftw|cupti|curand|cusolver|cusolverMg|cusparse|nccl|nvJitLink|nvrtc"
    r"|nvToolsExt|amdhip64|hiprtc|hipblas|hipblaslt|hipfft|hiprand|hipsolver|hipsparse|MIOpen|rccl|rocblas|rocfft"
    r"|rocrand|rocsolver|rocsparse|roctx64)\.so\.([0-9.]+)"
)

_GPU_VENDOR: Final = regex(
    r"lib(?:cu(?:blas|da|dnn|fft|file|pti|rand|solver|sparse)|hip|MIOpen|n(?:ccl|pp|v(?:Jit|Tools|jpeg|rtc))|rccl|roc(?:blas|fft|rand|solver|sparse|tx))"
    r"\w*[-.]([0-9a-f]{8}\.)?so\b.*"
)
_CUDA_RUNTIME: Final = regex(r"libcudart(?:-[0-9a-f]+)?\.so\.([0-9.]+)")


# The same names are looked up for each of many torches.
_remembered: Final = functools.lru_cache(maxsize=1 << 16)


@_remembered
def is_torch_symbol(name: str) -> bool:
    """Whether a symbol of this (mangled) name belongs to torch."""
    return _TORCH_SYMBOL.match(name) is not None


@_remembered
def is_like_torch_symbol(name: str) -> bool:
    """Whether a symbol of this (mangled) name belongs to torch if any release of torch exports it."""
    return _LIKE_TORCH.match(name) is not None


def may_name_torch(strings: bytes) -> bool:
    """Return whether a string table may name a symbol or a library of torch.

    If not, the object has nothing to do with torch, and its symbols need not be decoded.
    """
    return any(word in strings for word in _TORCH_WORDS)


@_remembered
def is_python_symbol(name: str) -> bool:
    """Whether the symbol belongs to the C API of Python."""
    return _PYTHON_SYMBOL.match(name) is not None


@_remembered
def is_cxx_symbol(name: str) -> bool:
    """Whether the symbol belongs to the C++ runtime library."""
    return _CXX_SYMBOL.match(name) is not None


def is_cxx_library(name: str) -> bool:
    """Whether ``name`` is a C++ runtime library."""
    return _CXX_LIBRARY.match(name) is not None


@_remembered
def is_torch_library(name: str) -> bool:
    """Whether ``name`` is a library of torch itself (not one of an extension with a similar name)."""
    return _TORCH_LIBRARY.fullmatch(name) is not None


def without_version(name: str) -> str:
    """Return the name of a library as linkers look for it: ``libtorch_cpu.so`` of ``libtorch_cpu.so.1.13``."""
    stem, extension, _ = name.partition(".so")
    return stem + extension


@_remembered
def is_system_library(name: str) -> bool:
    """Whether every Linux system has the library."""
    return _SYSTEM_LIBRARY.fullmatch(name) is not None


@_remembered
def may_be_with_python(name: str) -> bool:
    """Whether Python may have loaded the library by the time that torch is imported."""
    return _PYTHON_LIBRARY.fullmatch(name) is not None


class GpuLibrary(Struct, frozen=True, kw_only=True):
    """A library of CUDA or ROCm: ``cudart`` of version ``12``."""

    stem: str
    version: str


@_remembered
def gpu_library(name: str) -> GpuLibrary | None:
    """Return which library of CUDA or ROCm ``name`` is; None if it is another library, or its name has no version.

    A copy that a wheel has renamed (``libcudart-80664282.so.10.2``) is another library: nobody else finds it.
    """
    match = _GPU_LIBRARY.fullmatch(name)
    return GpuLibrary(stem=match[1], version=match[2]) if match else None


@_remembered
def is_of_gpu_vendor(name: str) -> bool:
    """Whether a library is NVIDIA's or AMD's own, or a copy of one that a wheel has renamed."""
    return _GPU_VENDOR.fullmatch(name) is not None


@_remembered
def cuda_runtime(name: str) -> str | None:
    """Return the version of a CUDA runtime library (``11.0``), also of a copy that a wheel has renamed."""
    match = _CUDA_RUNTIME.fullmatch(name)
    return match[1] if match else None
