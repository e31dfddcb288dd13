"""The data in the package, against the torch that is installed, and against what other builds were recorded to have.

``symm_mem_dumps.json.gz`` has the text of ``torch._C._dispatch_dump`` of the operators of ``symm_mem`` in two builds
with CUDA, imported with stand-ins for its libraries: ``libtorch_nvshmem.so`` has a part of their kernels.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from packaging.version import Version

from abiscan.binary.elf import Machine
from abiscan.binary.symbols import SymbolTable
from abiscan.dispatch.keys import keys_of
from abiscan.dispatch.tags import tags_of
from abiscan.inputs import interpreter
from abiscan.inputs.files import Files
from abiscan.inputs.libraries import Libraries
from abiscan.torches import embedded, embedded_assertions, embedded_operators, from_libs
from abiscan.torches.model import TorchRelease
from tests import live_torch
from tests.oracle.dispatcher_digests import kernels_in

RECORDED = "2.13.0"

SYMM_MEM = json.loads(gzip.decompress(Path(__file__).with_name("symm_mem_dumps.json.gz").read_bytes()))


@pytest.fixture(scope="module")
def installed() -> tuple[TorchRelease, Files]:
    package = interpreter.installed_torch()
    if package is None:
        pytest.skip("needs torch")
    files = Files()
    release = from_libs.from_path(Path(package), files)
    if release.version != RECORDED or release.machine is not Machine.X86_64:
        pytest.skip(f"needs torch {RECORDED} for x86_64")
    if release.build not in {build for _, machine, build in embedded.builds() if machine is release.machine}:
        pytest.skip(f"needs an embedded torch {release.build}")
    return release, files


def ask_torch(expression: str) -> dict[str, int]:
    done = live_torch.run(f"import json, torch; print(json.dumps({expression}))", check=True)
    answer: dict[str, int] = json.loads(done.stdout)
    return answer


def test_the_exports_are_those_of_the_wheel(installed: tuple[TorchRelease, Files]) -> None:
    release, files = installed
    known = Files()
    assert release.build is not None
    embedded_release = embedded.release(release.build, Machine.X86_64, known)
    exports = embedded.exports(release.build, Machine.X86_64)
    theirs, ours = Libraries(release.own_libraries, files), Libraries(embedded_release.own_libraries, known)
    assert set(ours) == set(theirs)
    for name, facts in theirs.items():
        assert isinstance(facts.symbols, SymbolTable)
        assert exports[name] == set(facts.symbols), name
        assert set(ours[name].symbols.starting_with("_ZN3c10")) == set(facts.symbols.starting_with("_ZN3c10")), name
        assert (ours[name].soname, ours[name].needed) == (facts.soname, facts.needed)


@pytest.mark.usefixtures("installed")
def test_dispatch_keys_are_numbered_as_torch_does() -> None:
    # Several names can share a number: marks of ranges, and names kept for older code.
    live = ask_torch("{name: int(key) for name, key in torch._C.DispatchKey.__members__.items()}")
    by_number: dict[int, set[str]] = {}
    for name, number in live.items():
        by_number.setdefault(number, set()).add(name)
    ours = {number: name for number, name in keys_of(Version(RECORDED)).names.items() if number in by_number}
    assert len(ours) > 40
    assert {number: name for number, name in ours.items() if name not in by_number[number]} == {}


@pytest.mark.usefixtures("installed")
def test_tags_are_numbered_as_torch_does() -> None:
    live = ask_torch("{name: int(tag) for name, tag in torch.Tag.__members__.items()}")
    tags = tags_of(Version(RECORDED))
    assert {name: tags.name(number) for name, number in live.items()} == {name: name for name in live}


@pytest.mark.parametrize(("build", "of_nvshmem"), [("2.9.1+cu128", 7), ("2.15.0+cu132", 12)])
def test_the_kernels_of_libtorch_nvshmem_are_those_of_a_real_torch(build: str, of_nvshmem: int) -> None:
    recorded = set(kernels_in(SYMM_MEM[build]))
    assert sum((file or "").endswith("/nvshmem_extension.cu") for _, _, file, _, _ in recorded) == of_nvshmem
    found = embedded_operators.operators(build, Machine.X86_64)
    assert {
        (kernel.operator, kernel.key, kernel.file, kernel.line, kernel.schema)
        for kernel in found.kernels
        if kernel.operator.startswith("symm_mem::")
    } == recorded


def test_the_places_of_assertions_are_known_for_every_build_that_has_them() -> None:
    for release, machine, build in embedded.builds():
        places = embedded_assertions.assertions(build, machine)
        # The check of C++ types is an assertion in 1.6 and 1.7 only; before, there was no torch/library.h.
        expected = {"L2", "L9"} if release.minor_version > (1, 7) else {"L2", "L9", "K1"}
        assert places.keys() == (expected if release.minor_version >= (1, 6) else set()), (build, machine)


def test_the_places_of_assertions_are_those_of_the_installed_torch(installed: tuple[TorchRelease, Files]) -> None:
    release, files = installed
    assert release.build is not None
    assert from_libs.read_assertions(release, files) == embedded_assertions.assertions(release.build, release.machine)
