"""What is kept of a wheel of torch, read from its unpacked files: the readers behind ``tools.release``."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec.structs

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import is_torch_library
from abiscan.binary.symbols import SymbolTable
from abiscan.dispatch import tags
from abiscan.emulation.aten import struct_of
from abiscan.inputs.files import Files
from abiscan.inputs.libraries import Libraries
from abiscan.torches import architectures, embedded, from_libs
from abiscan.torches.clang import ClangProgram, Include
from abiscan.torches.headers import assertion_lines
from abiscan.torches.string_abi import uses_cxx11_strings
from abiscan.torches.unlisted_torch_headers import read_headers
from tools import registration_abi
from tools.data_files import MARKS_OF_BUILDS, Build, ClassLayouts, Headers

HEADERS: Final = (
    *("torch/library.h", "torch/script.h", "torch/custom_class.h", "torch/nn/module.h"),
    *("ATen/ATen.h", "ATen/*Impl.h", "ATen/*Allocator.h", "ATen/*Hooks*.h", "ATen/detail/*.h", "ATen/quantized/*.h"),
    *("ATen/core/*.h", "ATen/core/boxing/*.h", "ATen/core/dispatch/*.h", "ATen/core/op_registration/*.h"),
    *("ATen/native/DispatchStub.h", "c10/core/*.h", "c10/core/impl/*.h", "c10/util/*.h"),
    *("torch/csrc/autograd/*.h", "torch/csrc/autograd/functions/*.h"),
    *("torch/csrc/jit/api/*.h", "torch/csrc/jit/ir/*.h", "torch/csrc/jit/runtime/*.h", "torch/csrc/jit/passes/*.h"),
    *("torch/csrc/jit/*.h", "torch/csrc/jit/script/*.h"),  # up to 1.4
    "torch/csrc/distributed/c10d/*.hpp",
)
"""What extensions include, and what they include to add a backend."""

CUDA_HEADERS: Final = ("c10/cuda/*.h", "c10/cuda/impl/*.h", "ATen/cuda/CUDAEvent.h")

_NEEDED: Final = re.compile(r"torch/(?:lib/(?P<library>[^/]+)|include/.+|[^/]+\.so|.+\.pyi?)")
_OPERATOR_HEADERS: Final = ("_ops.h", "ATen/Operators.h")
_STRUCT: Final = re.compile(r"struct TORCH_API (\w+) \{\n  using schema = .*?\n\};", re.DOTALL)
# STATIC_CONSTEXPR_STR_INL_EXCEPT_WIN_CUDA(name, "aten::add"), later static constexpr const char* name = "aten::add";
_TEXT: Final = re.compile(r'\b(name|overload_name)(?:, | = )"([^"]*)"')


def unpack(wheel: Path, folder: Path, *, whole: bool = False) -> Path:
    """Unpack what is read of a wheel: torch's own libraries, its headers and its Python code. Its package folder.

    :param whole: unpack the rest as well, so that Python can import it
    """
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            match = _NEEDED.fullmatch(name)
            if whole or (match and (match["library"] is None or is_torch_library(match["library"]))):
                archive.extract(name, folder)
    return folder / "torch"


def read_build(package: Path) -> Build:
    """What the libraries of a torch export and register."""
    files = Files()
    release = from_libs.from_path(package, files)
    libraries = dict(Libraries(release.own_libraries, files))
    exported = {}
    for name, facts in libraries.items():
        assert isinstance(facts.symbols, SymbolTable)
        exported[name] = sorted(facts.symbols)
    operators = from_libs.read_operators(release, files)
    return Build(
        description=embedded.make_record(release, libraries),
        identities=from_libs.identify_libraries(release, files),
        exports=exported,
        operators=operators,
        marks={kind: make(package, operators) for kind, make in MARKS_OF_BUILDS.items()},
        architectures=architectures.architectures(msgspec.structs.replace(release, build=None), files) or (),
    )


def read_include(package: Path) -> Headers:
    """What the headers of a torch say."""
    include = package / "include"
    texts = {
        path.relative_to(include).as_posix(): path.read_text("utf-8", "replace")
        for path in sorted(include.rglob("*"))
        if path.is_file()
    }
    return Headers(
        assertions=sorted(f"{path}:{line}" for path, text in texts.items() for line in assertion_lines(text)),
        digests=read_headers(texts).digests,
        tags=next((found.names for path in tags.HEADERS if (found := tags.tags_in(texts.get(path, "")))), ()),
        operators=sorted({name for path, text in texts.items() for name in _operators(path, text)}),
    )


def _operators(path: str, text: str) -> Iterator[str]:
    """The full names of the operators whose structs a header defines: see ``abiscan.emulation.aten``."""
    for match in _STRUCT.finditer(text) if path.endswith(_OPERATOR_HEADERS) else ():
        texts = dict(_TEXT.findall(match[0]))
        name = texts["name"] + ("." if texts["overload_name"] else "") + texts["overload_name"]
        if struct_of(name) != match[1]:
            raise SystemExit(f"at::_ops::{match[1]} is the struct of {name}: its name is made up in a new way")
        yield name


def read_layouts(package: Path, machine: Machine, compiler: ClangProgram, cuda: Path | None) -> ClassLayouts:
    """How a compiler lays out the classes in the headers of a torch, and what else registration depends on.

    :param cuda: the headers of its CUDA
    """
    files = Files()
    cxx11 = uses_cxx11_strings(Libraries(from_libs.from_path(package, files).own_libraries, files))
    include = Include(
        folder=package / "include", machine=machine, cxx11=bool(cxx11), more_folders=(cuda,) if cuda is not None else ()
    )
    headers = include.headers([*HEADERS, *(CUDA_HEADERS if cuda else ())])
    read = compiler.classes(include, headers)
    records = registration_abi.joined(read.records, registration_abi.read(include, compiler.path))
    return ClassLayouts(records=records, vtables=read.vtables)
