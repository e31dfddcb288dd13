"""Reading torch's headers of the stable ABI: what a target version gates, and what it makes headers take."""

from __future__ import annotations

import datetime as dt

import pytest

from abiscan.inputs.version import TorchVersion
from abiscan.torches.shims import is_deprecated, promised_until
from tools.build_stable_data import gates, taken_by_themselves, wrappers

DECLARATIONS = """
AOTI_TORCH_EXPORT int aoti_torch_warn(const char* message);
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
AOTI_TORCH_EXPORT int torch_new_stable_ivalue(StableIValue** ret);
#ifdef USE_CUDA
AOTI_TORCH_EXPORT int torch_cuda_something(
    int device);
#endif
#endif
"""
USES = """
namespace torch::stable {
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_10_0
// A wrapper of its own: whoever calls it needs the function.
inline Tensor from_blob(void* data) { return torch_from_blob(data); }
#endif
template <typename T> struct FromImpl<std::optional<T>> {
  static StableIValue call(const T& value) {
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
    torch_new_stable_ivalue(&pointer);
#else
    pointer = new StableIValue(value);
#endif
    switch (value) {
      case 1: return aoti_torch_dtype_uint8();
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_11_0
      case 2: return torch_dtype_float8_e8m0fnu();
#endif
    }
  }
};
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_13_0
#define CHECK(call) if (call) throw std::runtime_error(torch_exception_get_what());
#else
#define CHECK(call) if (call) throw std::runtime_error("");
#endif
inline void looked_up() { TORCH_DYNAMIC_VERSION_CALL_2_13_0(torch_exception_get_more, nothing); }
#if TORCH_FEATURE_VERSION >= TORCH_VERSION_2_12_0
class Library {
  void def(Tags tags) { torch_library_def_with_tags(tags); }
};
#endif
}
"""
OPERATORS = """
/// Stable version of the permute op.
///
/// Minimum compatible version: PyTorch 2.10.
/// Build time minimum version: PyTorch 2.14.
inline torch::stable::Tensor permute(const Tensor& self, IntHeaderOnlyArrayRef dims) {
  torch_call_dispatcher("aten::permute", "", stack.data(), TORCH_ABI_VERSION);
}

inline Tensor fill_(const Tensor& self, double value) {
  aoti_torch_aten_fill__Scalar(self.get(), value);
}
"""


def test_gates_are_the_innermost_target_versions() -> None:
    assert dict(gates(DECLARATIONS)) == {"torch_new_stable_ivalue": "2.13", "torch_cuda_something": "2.13"}


def test_headers_take_what_stands_in_a_condition_with_an_alternative() -> None:
    assert set(taken_by_themselves(USES)) == {
        ("torch_new_stable_ivalue", "2.13"),
        ("torch_dtype_float8_e8m0fnu", "2.11"),
        ("torch_exception_get_what", "2.13"),
        ("torch_exception_get_more", "2.13"),
    }


def test_wrappers_are_known_by_what_they_call() -> None:
    names = {"fill__Scalar": "aten::fill_.Scalar"}
    assert wrappers(OPERATORS, names) == {"aten::permute": ("permute", "2.10"), "aten::fill_.Scalar": ("fill_", None)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aoti_torch_addmm_out", True),  # in torch/csrc/inductor/aoti_torch/c/shim_deprecated.h of 2.13
        ("aoti_torch__scaled_mm_v2", True),
        ("aoti_torch_copy_", False),  # in shim.h beside it
        ("aoti_torch_library_impl", False),
    ],
)
def test_functions_that_are_deprecated(name: str, expected: bool) -> None:
    assert is_deprecated(name) is expected


def test_until_when_torch_promises_what_was_new_in_a_release() -> None:
    """Two years from its release (docs/source/notes/libtorch_stable_abi.md); 2.9 is of 15 October 2025."""
    assert promised_until(TorchVersion("2.9.0")) == dt.date(2027, 10, 15)
    assert promised_until(TorchVersion("2.99.0")) is None
