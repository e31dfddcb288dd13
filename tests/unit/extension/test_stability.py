from __future__ import annotations

from importlib import resources

import pytest

from abiscan.binary.elf import Machine
from abiscan.emulation.aten import operators_behind
from abiscan.extension.counterparts import Means, find_counterpart
from abiscan.extension.stability import Tie, describe_stability
from abiscan.inputs.version import TorchVersion
from abiscan.torches import shims
from tests.world import shared_object

CHECK_FAIL = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


def test_c_functions_alone_are_stable_and_the_newest_decides() -> None:
    # torch_from_blob is new in 2.11, torch_library_impl in 2.10 (torch/csrc/stable/c/shim.h).
    found = describe_stability(shared_object(references=["torch_from_blob", "torch_library_impl", "malloc"]))
    assert found.state is Tie.STABLE
    assert found.minimum == TorchVersion("2.11.0")
    assert found.deciding == ("torch_from_blob",)
    assert found.target_at_least == TorchVersion("2.11.0")
    assert found.after_port is None


def test_one_symbol_of_cpp_makes_it_mixed() -> None:
    found = describe_stability(shared_object(references=["torch_library_impl", CHECK_FAIL]))
    assert found.state is Tie.MIXED
    assert [each.symbol for each in found.counterparts] == [CHECK_FAIL]


def test_symbols_of_cpp_alone_tie() -> None:
    assert describe_stability(shared_object(references=[CHECK_FAIL])).state is Tie.TIED


def test_what_a_library_of_the_package_defines_does_not_tie() -> None:
    name = "_ZN3c104HalfEv"
    found = describe_stability(shared_object(references=[name, "torch_library_impl"]), [shared_object(defines=[name])])
    assert found.state is Tie.STABLE


def test_a_removed_function_is_not_stable_for_the_newest_torch() -> None:
    # Exported by 2.6.0 to 2.7.1 alone.
    found = describe_stability(shared_object(references=["aoti_torch_cpu__qconv2d_pointwise_tensor"]))
    assert found.removed == ("aoti_torch_cpu__qconv2d_pointwise_tensor",)
    assert found.minimum is None


def test_a_function_that_shim_function_versions_txt_forgets() -> None:
    # No gate in the header, but exported from 2.10 on.
    assert shims.exported_since("aoti_torch_tensor_to_ivalue", Machine.X86_64) == TorchVersion("2.10.0")


def test_a_function_of_cuda_counts_where_there_is_cuda() -> None:
    assert shims.exported_since("torch_get_current_cuda_blas_handle", Machine.X86_64) == TorchVersion("2.10.0")


def test_a_library_that_nothing_is_taken_from() -> None:
    facts = shared_object(
        needed=["libtorch.so", "libtorch_cpu.so", "libc10_cuda.so", "libc.so.6"], references=["torch_library_impl"]
    )
    assert describe_stability(facts).unused == ("libc10_cuda.so",)


def test_the_cuda_that_it_is_linked_with() -> None:
    found = describe_stability(shared_object(needed=["libcudart.so.12"], references=["torch_library_impl"]))
    assert found.cuda == "12"
    assert TorchVersion("2.10.0") in found.cuda_releases
    assert TorchVersion("2.11.0") not in found.cuda_releases  # the index has it for CUDA 13


@pytest.mark.parametrize(
    ("symbol", "means", "what"),
    [
        ("_ZN2at4_ops3pad4callERKNS_6TensorE", Means.WRAPPER, "torch::stable::pad"),
        ("_ZN2at4_ops3cat4callERKNS_6TensorE", Means.OPERATOR, "aten::cat through torch_call_dispatcher"),
        (CHECK_FAIL, Means.HEADER_ONLY, "STD_TORCH_CHECK"),
        # at::autocast::cached_cast(c10::ScalarType, at::Tensor const&, c10::DeviceType): its parameters are no kind.
        (
            "_ZN2at8autocast11cached_castEN3c1010ScalarTypeERKNS_6TensorENS1_10DeviceTypeE",
            Means.OWN_CODE,
            "torch.library.register_autocast in Python",
        ),
        # c10::operator<<(std::ostream&, c10::SymInt const&)
        ("_ZN3c10lsERSoRKNS_6SymIntE", Means.VANISHES, "int64_t sizes of torch::stable::Tensor"),
    ],
)
def test_counterparts(symbol: str, means: Means, what: str | None) -> None:
    found = find_counterpart(symbol, Machine.X86_64)
    assert (found.means, found.what) == (means, what)


@pytest.mark.parametrize(
    "symbol", ["_ZN2at4_ops14__and___Tensor4callERKNS_6TensorES4_", "_ZN2at4_ops3cat4callERKNS_6TensorE"]
)
def test_a_call_by_name_takes_the_release_that_has_such_calls(symbol: str) -> None:
    # Tensors cross the ABI before; torch_call_dispatcher is new in 2.10 (torch/csrc/stable/c/shim.h).
    assert find_counterpart(symbol, Machine.X86_64).since == TorchVersion("2.10.0")


def test_a_symbol_of_no_known_kind_is_said_to_be_unsorted() -> None:
    found = find_counterpart("_ZN5torch7unknown3fooEv", Machine.X86_64)
    assert found.group == "not sorted"
    assert not found.is_named


def test_every_operator_of_the_newest_torch_is_mapped() -> None:
    names = resources.files("abiscan.emulation").joinpath("data/aten.txt").read_text("utf-8").splitlines()
    for name in names[::40]:
        struct = name.removeprefix("aten::").replace(".", "_")
        symbol = f"_ZN2at4_ops{len(struct)}{struct}4callEv"
        if operators_behind(symbol):
            assert find_counterpart(symbol, Machine.X86_64).means is not None, name
