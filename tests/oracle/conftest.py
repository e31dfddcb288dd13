"""What several files compare something with, read once in a process."""

from __future__ import annotations

import pytest

from abiscan.dispatch.operators import Operators
from abiscan.inputs import interpreter
from abiscan.inputs.files import Files
from abiscan.torches import from_libs


@pytest.fixture(scope="session")
def static() -> Operators:
    """What the libraries of the installed torch register, read from their bytes: it takes seconds."""
    package = interpreter.installed_torch()
    if package is None:
        pytest.skip("needs torch")
    files = Files()
    return from_libs.read_operators(from_libs.from_path(package, files), files)
