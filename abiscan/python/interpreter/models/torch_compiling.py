"""``torch.utils.cpp_extension.load`` and ``load_inline``: they compile, on the machine that imports the package.

See torch/utils/cpp_extension.py, ``_write_ninja_file_and_build_library``.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Final

from abiscan.inputs.version import MinorVersion
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.models.namespace import Args, Kwargs, take_argument
from abiscan.python.interpreter.operators import error_of_target
from abiscan.python.interpreter.values import NotKnown, PythonError, TextWithHoles, Thrown, Why
from abiscan.python.package.model import World
from abiscan.python.torch_api.torch_texts import NO_CUDA_HOME, NO_NINJA, release_of
from abiscan.words import listed

_LOOKS_AT_BUILD: Final[MinorVersion] = (2, 2)
"""Since then, a build without CUDA does not look for its compiler."""
_CUDA_SOURCES: Final = (".cu", ".cuh")


def load(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Compile source files, those in CUDA with its compiler, and load the library."""
    sources = take_argument(args, kwargs, 1, "sources")
    files = list(sources) if isinstance(sources, (list, tuple)) else [sources]
    known = [str(file) for file in files if isinstance(file, (str, PurePath))]
    return _compile(machine, args, kwargs, in_cuda=_uses_cuda(kwargs, in_cuda=any(map(_is_in_cuda, known))))


def load_inline(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Compile texts, and load the library."""
    texts = take_argument(args, kwargs, 2, "cuda_sources")
    return _compile(
        machine, args, kwargs, in_cuda=_uses_cuda(kwargs, in_cuda=isinstance(texts, (str, list, tuple)) and bool(texts))
    )


def _is_in_cuda(path: str) -> bool:
    return path.endswith(_CUDA_SOURCES)


def _uses_cuda(kwargs: Kwargs, *, in_cuda: bool) -> bool:
    wanted = kwargs.get("with_cuda")
    return wanted if isinstance(wanted, bool) else in_cuda


def _compile(machine: PythonMachine, args: Args, kwargs: Kwargs, *, in_cuda: bool) -> object:
    name = take_argument(args, kwargs, 0, "name")
    name = name if isinstance(name, str) else "?"
    has_tool = machine.library.surroundings.has_tool
    if has_tool("ninja") is False:
        raise Thrown(error_of_target(machine, NO_NINJA))
    for_no_cuda = machine.world.tells("its build looks for no compiler of CUDA", _looks_for_no_cuda)
    if in_cuda and (for_no_cuda or has_tool("CUDA") is False):
        raise Thrown(error_of_target(machine, NO_CUDA_HOME))
    if has_tool("c++") is False:
        error = f"Error building extension '{name}'"
        raise Thrown(PythonError(RuntimeError, (TextWithHoles(error, parts=(error, "")),), of_torch=True))
    tools = ["ninja", "a C++ compiler", *(["the compiler of CUDA"] if in_cuda else [])]
    missing = [tool for tool in tools if has_tool(_TOOLS[tool]) is not True]
    # Code that goes on without the extension needs none of these.
    if missing and not (machine.catches(RuntimeError) and machine.catches(OSError)):
        machine.need("compiler", name, f"{name}, which the import compiles, finds {listed(missing)}")
    return NotKnown(f"torch.utils.cpp_extension.load({name})", Why.ENVIRONMENT)


_TOOLS: Final = {"ninja": "ninja", "a C++ compiler": "c++", "the compiler of CUDA": "CUDA"}
"""What tools are called here, by what people call them."""


def _looks_for_no_cuda(world: World) -> bool:
    release = release_of(world.torch_version)
    is_for_rocm = "+rocm" in str(world.torch_version)
    return world.cuda is None and not is_for_rocm and release is not None and release >= _LOOKS_AT_BUILD
