"""What several files compare something with, read once in a process."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from abiscan import emulation
from abiscan.binary.elf import ElfFile, Machine
from abiscan.dispatch.operators import Operators
from abiscan.emulation import torch_libraries
from abiscan.inputs import interpreter
from abiscan.inputs.files import Files
from abiscan.registrations import TorchRegistrations
from abiscan.torches import from_libs, from_python


@pytest.fixture(autouse=True, scope="session")
def recovered_once() -> Iterator[None]:
    """What the libraries of a torch register is recovered once in a process of tests, wherever they are linked from.

    Whoever patches where the names of the keys are from gets what is recovered with the patch.
    """

    recover_torch = emulation.recover_torch
    known: dict[object, TorchRegistrations] = {}

    def recover_once(files: Mapping[str, ElfFile], machine: Machine) -> TorchRegistrations:
        paths = {name: Path(file.subject).resolve() for name, file in files.items()}
        if not all(path.is_file() for path in paths.values()):  # but in a wheel
            return recover_torch(files, machine)
        versions = ((name, path, path.stat().st_size, path.stat().st_mtime_ns) for name, path in paths.items())
        key = machine, torch_libraries._TorchProcess.keys, *versions
        if key not in known:
            known[key] = recover_torch(files, machine)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(emulation, "recover_torch", recover_once)
        yield


@pytest.fixture(scope="session")
def static() -> Operators:
    """What the libraries of the installed torch register, read from their bytes: it takes seconds."""
    package = interpreter.installed_torch()
    if package is None:
        pytest.skip("needs torch")
    files = Files()
    return from_libs.read_operators(from_libs.from_path(package, files), files)


@pytest.fixture(scope="session")
def running() -> Operators:
    """What the dispatcher of the running torch has: it takes seconds."""
    if interpreter.installed_torch() is None:
        pytest.skip("needs torch")
    return from_python.read_operators(sys.executable)
