"""Which ``std::string`` a build of torch has: by its version (release notes of 2.6 and 2.7), and by its symbols."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.binary.elf import Machine, SharedObject
from abiscan.inputs.files import DiskFile, read_facts
from abiscan.inputs.version import TorchVersion
from abiscan.torches.string_abi import of_build, of_names, uses_cxx11_strings
from tests.elf_builder import Elf, exports

# c10::Error::Error(c10::SourceLocation, std::string), with each of the strings (Itanium C++ ABI: Ss is the one
# without an inline namespace).
OLD = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
NEW = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
WITHOUT = "_ZN2at15get_num_threadsEv"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.5.1+cpu", False),
        ("2.5.1+cu124", False),
        ("2.5.1+cpu.cxx11.abi", True),
        ("2.5.1+rocm6.2", None),
        ("2.5.1", None),
        ("2.6.0+cu126", True),
        ("2.6.0+cu124", False),
        ("2.7.0", True),
        ("2.7.0+cpu", True),
    ],
)
def test_the_string_of_a_build(version: str, expected: bool | None) -> None:
    assert of_build(TorchVersion(version), Machine.X86_64) is expected
    assert of_build(TorchVersion(version), Machine.AARCH64) is None


def libraries(folder: Path, **names: tuple[str, ...]) -> dict[str, SharedObject]:
    """Libraries with these exports, by name: ``c10=(OLD,)``."""
    found = {}
    for name, exported in names.items():
        path = folder / f"lib{name}.so"
        Elf(soname=path.name, defined=exports(*exported)).write(path)
        found[path.name] = read_facts(DiskFile(path))
    return found


def test_the_string_is_seen_from_the_constructors_of_the_error(tmp_path: Path) -> None:
    assert uses_cxx11_strings(libraries(tmp_path, c10=(OLD,))) is False
    assert uses_cxx11_strings(libraries(tmp_path, c10=(NEW,))) is True
    # A constructor without a string beside it says nothing about strings.
    assert uses_cxx11_strings(libraries(tmp_path, c10=("_ZN3c105ErrorC2ERKS0_", NEW))) is True
    assert uses_cxx11_strings(libraries(tmp_path, c10=("_ZN3c105ErrorC2ERKS0_", OLD))) is False


def test_the_string_is_unknown_without_such_a_constructor(tmp_path: Path) -> None:
    assert uses_cxx11_strings({}) is None
    assert uses_cxx11_strings(libraries(tmp_path, c10=(WITHOUT,), torch_cpu=(WITHOUT,))) is None
    assert uses_cxx11_strings(libraries(tmp_path, torch_python=(NEW,))) is None  # what is exported there is Python's


def test_a_torch_of_fewer_libraries(tmp_path: Path) -> None:
    """A static libc10 is part of libtorch_cpu.so, or of libtorch.so where this is the only one."""
    assert uses_cxx11_strings(libraries(tmp_path, torch_cpu=(NEW,))) is True
    assert uses_cxx11_strings(libraries(tmp_path, torch=(OLD,))) is False
    assert uses_cxx11_strings(libraries(tmp_path, c10=(WITHOUT,), torch_cpu=(WITHOUT,), torch=(NEW,))) is True


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), None),
        ((WITHOUT,), None),
        ((WITHOUT, OLD), False),
        ((WITHOUT, NEW), True),
        # A symbol of another library says nothing about torch.
        (("_ZN5other4funcENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",), None),
        (("_ZN5other4funcENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE", OLD), False),
    ],
)
def test_the_string_in_some_symbols(names: tuple[str, ...], expected: bool | None) -> None:
    assert of_names(names) is expected
