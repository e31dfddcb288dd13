from __future__ import annotations

import pytest

from abiscan.binary.ownership import (
    is_cxx_symbol,
    is_python_symbol,
    is_system_library,
    is_torch_library,
    is_torch_symbol,
    may_name_torch,
)


# Demangled with c++filt.
@pytest.mark.parametrize(
    "name",
    [
        "_ZN2at15get_num_threadsEv",  # at::get_num_threads()
        "_ZNK3c1010TensorImpl5sizesEv",  # c10::TensorImpl::sizes() const
        "_ZTIN5torch8autograd4NodeE",  # typeinfo for torch::autograd::Node
        "_ZTVN3c105ErrorE",  # vtable for c10::Error
        "_ZGVN2at1xE",  # guard variable for at::x
        "_ZNSt6vectorIN2at6TensorESaIS1_EE9push_backERKS1_",  # std::vector<at::Tensor>::push_back
        "_ZN8pybind116detail11type_casterIN2at6TensorEvE4loadEv",  # pybind11's converter of at::Tensor
        "_Z16THPVariable_WrapRKN2at10TensorBaseE",
        "THPVariableClass",
        "aoti_torch_empty_strided",
        "_ZN6caffe28TypeMetaE",
        "_ZN4c10d12ProcessGroupE",
    ],
)
def test_symbols_of_torch(name: str) -> None:
    assert is_torch_symbol(name)


@pytest.mark.parametrize(
    "name",
    [
        "_ZN2aw15get_num_threadsEv",
        "_ZN6vision3nmsERKN2at6TensorE",  # vision::nms(at::Tensor const&): torch's type, not torch's function
        "_ZNSt6vectorIiSaIiEE9push_backERKi",
        "cudaMalloc",
        "malloc",
        "_ZN7torchio4loadEv",
        "",
    ],
)
def test_symbols_of_others(name: str) -> None:
    assert not is_torch_symbol(name)


@pytest.mark.parametrize(
    "name", ["PyModule_Create2", "_Py_NoneStruct", "Py_GetVersion", "_PyObject_New", "PyArg_Parse"]
)
def test_symbols_of_python(name: str) -> None:
    assert is_python_symbol(name)


@pytest.mark.parametrize("name", ["Pyramid", "py_func", "_ZN2PyE", "my_PyList_New"])
def test_symbols_not_of_python(name: str) -> None:
    assert not is_python_symbol(name)


@pytest.mark.parametrize(
    "name",
    [
        "_ZNSt6vectorIiSaIiEE9push_backERKi",
        "_ZSt4cout",
        "_ZTISt9exception",
        "_Znwm",
        "_ZdlPv",
        "__cxa_throw",
        "__gxx_personality_v0",
        "_ZNSs4swapERSs",  # std::string::swap of the old string
    ],
)
def test_symbols_of_the_cxx_library(name: str) -> None:
    assert is_cxx_symbol(name)


@pytest.mark.parametrize("name", ["_ZN2at3addEv", "memcpy", "_Z3fooSt6vectorIiSaIiEE"])
def test_symbols_not_of_the_cxx_library(name: str) -> None:
    assert not is_cxx_symbol(name)


# The contents of torch/lib in released wheels.
@pytest.mark.parametrize(
    "name",
    [
        *("libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libtorch_global_deps.so", "libc10.so", "libshm.so"),
        *("libtorch_cuda.so", "libtorch_cuda_linalg.so", "libc10_cuda.so", "libtorch_hip.so", "libc10_hip.so"),
        *("libtorch_xpu.so", "libc10_xpu.so", "libtorch_nvshmem.so", "libcaffe2_nvrtc.so", "libtorchbind_test.so"),
        *("libtorch_cpu.so.1.13", "libc10.so.1.13"),  # Debian's
    ],
)
def test_libraries_of_torch(name: str) -> None:
    assert is_torch_library(name)


@pytest.mark.parametrize(
    "name",
    [
        *("libtorchaudio.so", "libtorch_spline.so", "libtorchvision.so", "mylibtorch.so"),
        *("libgomp-a34b3233.so.1", "libcudart.so.12", "libc10d_extra.so", "libtorch_cpu_so"),
    ],
)
def test_libraries_of_others(name: str) -> None:
    assert not is_torch_library(name)


# The list of PEP 600 and its policies.
@pytest.mark.parametrize(
    "name", ["libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libz.so.1"]
)
def test_libraries_of_the_system(name: str) -> None:
    assert is_system_library(name)


@pytest.mark.parametrize("name", ["libcudart.so.12", "libc.so", "libcc.so.6", "libgomp.so.1", "libmkl_core.so.2"])
def test_libraries_that_a_system_may_lack(name: str) -> None:
    assert not is_system_library(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "_ZN2at5emptyEv",
            "_ZNK3c106DeviceeqERKS0_",
            "_ZTIN5torch6LibraryE",
            "_ZN6caffe28TypeMetaC1Ev",
            "THPVariableClass",
        ),
        *(
            "_ZSt4swapIN4c10d5StoreEEvv",
            "_ZN10onnx_torch5ModelD1Ev",
            "aoti_torch_cpu",
            "torch_list_size",
            "_Z12THPUtils_foov",
        ),
        *("libtorch.so", "libtorch_cpu.so.1.13", "libc10_cuda.so", "libcaffe2_observers.so", "libshm.so"),
        *("libtorchbind_test.so", "libjitbackend_test.so", "libbackend_with_compiler.so"),
    ],
)
def test_a_string_table_that_names_torch_is_noticed(name: str) -> None:
    assert is_torch_symbol(name) or is_torch_library(name)
    assert may_name_torch(b"\0printf\0" + name.encode() + b"\0")


def test_a_string_table_of_others_is_not() -> None:
    assert not may_name_torch(b"\0printf\0_ZNSt6vectorIiE9push_backEi\0PyInit__multiarray\0libm.so.6\0")
