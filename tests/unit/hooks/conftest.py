"""Environments made up for the hooks: real ones for pip, with a torch that has nothing in it."""

from __future__ import annotations

import shutil
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import install, site_of, torch_package


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with torch 9.9.0 and no pip."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    torch_package(site_of(folder))
    (site_of(folder) / "torch" / "__init__.py").touch()
    install(site_of(folder), "torch", {}, version="9.9.0", requires="")
    return folder


@pytest.fixture
def python(environment: Path) -> Iterator[str]:
    """Its Python. What a test installs is gone after the test."""
    before = set(site_of(environment).iterdir())
    yield str(environment / "bin" / "python")
    for path in set(site_of(environment).iterdir()) - before:
        shutil.rmtree(path)
