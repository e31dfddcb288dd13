"""The tools that torch compiles with at run time, as far as this machine has them: see torch/utils/cpp_extension.py."""

from __future__ import annotations

from typing import Final

from abiscan.inputs import observed_fs

_CUDA: Final = "/usr/local/cuda"


def has_tool(name: str) -> bool:
    """Whether torch finds a tool: ``ninja``, ``c++``, or ``CUDA`` for its compiler.

    :param name: of the tool
    """
    match name:
        case "CUDA":
            # _find_cuda_home
            return bool(
                observed_fs.read_variable("CUDA_HOME")
                or observed_fs.read_variable("CUDA_PATH")
                or observed_fs.find_program("nvcc")
                or observed_fs.path_exists(_CUDA)
            )
        case "c++":
            return bool(observed_fs.read_variable("CXX") or observed_fs.find_program(name))
    return observed_fs.find_program(name) is not None
