"""A torch that is none of the embedded releases may have the files of one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs.files import Files
from abiscan.torches import embedded_operators
from abiscan.torches.from_libs import from_path
from abiscan.torches.torch import match_embedded
from tests.fakes import torch_package


@pytest.mark.parametrize(
    ("build", "same_as"),
    [
        ("9.9.0a0+gitabc", "2.13.0+cpu"),  # built by somebody, from the files of a release
        (None, "2.13.0+cpu"),
        ("2.6.0+cu126", None),  # its release is embedded: it is taken at its word
    ],
)
def test_files_are_compared_unless_the_release_is_known(
    build: str | None, same_as: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(_: Mapping[str, str], machine: Machine) -> str | None:
        return "2.13.0+cpu" if machine is Machine.X86_64 else None

    monkeypatch.setattr(embedded_operators, "find_build", find)
    files = Files()
    found = match_embedded(from_path(torch_package(tmp_path, build=build), files), files)
    assert (found.build, found.same_as) == (build, same_as)
