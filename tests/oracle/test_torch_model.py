"""What the reading of Python code takes modules of torch to say of their build, compared with the real ones."""

from __future__ import annotations

import pytest

from abiscan.inputs import interpreter
from abiscan.python.package.installed import Surroundings, installed_in
from abiscan.python.package.model import Raised
from tests import live_torch
from tests.unit.python.packages import FakeWorld, reading_of

HOOKS = (
    "current_allocated_memory",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "recommended_max_memory",
    "seed",
    "synchronize",
)
EXPRESSIONS = (
    "torch.torch_version.__version__",
    "torch.__version__ == torch.torch_version.__version__",
    "torch.version.__version__",
    "torch.version.cuda",
    "torch.version.hip",
    "torch.version.xpu",
    "torch.version.debug",
    "torch.backends.cuda.is_built()",
    "torch.backends.cudnn.is_available()",
    "torch.backends.cudnn.version()",
    "torch._C._has_cuda",
    "torch._C._has_cudnn",
    "torch._C._has_magma",
    "torch._C._has_mps",
    "torch._C._GLIBCXX_USE_CXX11_ABI",
    "torch.backends.mps.is_available()",
    "torch.backends.mps.is_built()",
    "torch.mps.is_available()",
    "torch.mps.device_count()",
    *(f"text_of_error(torch.mps.{name})" for name in HOOKS),
    "torch.cuda.is_available()",
    "torch.cuda.device_count()",
    "torch.cuda.get_arch_list()",
    "torch.cuda._is_compiled()",
    "torch.cuda.has_magma",
    "torch.distributed.is_available()",
    "torch.distributed.is_initialized()",
    "torch.distributed.is_gloo_available()",
    "torch.distributed.is_mpi_available()",
    "torch.distributed.is_nccl_available()",
    "torch.distributed.rpc.is_available()",
    "torch.jit.is_scripting()",
    "torch.jit.is_tracing()",
    "torch.onnx.is_in_onnx_export()",
    "torch.utils._triton.has_triton()",
    "torch.utils._triton.has_triton_package()",
    "torch.utils.cpp_extension.IS_WINDOWS",
    "torch.utils.cpp_extension.IS_MACOS",
    "torch.utils.cpp_extension.IS_LINUX",
    "torch.utils.cpp_extension.IS_HIP_EXTENSION",
    "torch.utils.cpp_extension.TORCH_LIB_PATH",
)
MODULES = ("torch_version", "mps", "backends.mps", "distributed.rpc", "onnx", "utils._triton", "utils.cpp_extension")
IMPORTS = "import torch, " + ", ".join(f"torch.{module}" for module in MODULES) + "\n"
IMPORTS += """def text_of_error(function):
    try:
        function()
    except RuntimeError as error:
        return str(error)
"""


@pytest.mark.skipif((live_torch.build() or "") != "2.13.0+cpu", reason="needs torch 2.13.0+cpu")
def test_what_modules_of_torch_say_of_a_build_for_cpus() -> None:
    texts = f"'\\n'.join([{', '.join(f'repr({expression})' for expression in EXPRESSIONS)}])"
    real = live_torch.run(f"{IMPORTS}print({texts})", check=True).stdout.splitlines()

    torch = interpreter.installed_torch()
    assert torch is not None
    around = Surroundings(torch_folder=torch, installed=installed_in((torch.parent,)))
    source = f"{IMPORTS}raise ValueError({texts})"
    reading = reading_of({"pkg/__init__.py": source}, FakeWorld(torch_version="2.13.0+cpu", cuda=None), around)
    raised = reading.imports[0].raised
    assert isinstance(raised, Raised)
    assert raised.message is not None
    assert dict(zip(EXPRESSIONS, raised.message.splitlines(), strict=True)) == dict(zip(EXPRESSIONS, real, strict=True))
