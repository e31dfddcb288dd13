"""What all tests share.

Golden files hold what a command prints. After a change that is meant to alter it:

    pytest tests/golden --update-golden     # rewrites them; read the difference before committing it
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest

hypothesis.settings.register_profile("abiscan", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("abiscan")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden files with what is printed now")


@pytest.fixture(autouse=True)
def cache_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own for every test, in subprocesses too."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    for name in ("LD_LIBRARY_PATH", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    return folder


Golden = Callable[[Path, str], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with the golden file at a path, or rewrite the file with ``--update-golden``."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"{path.name} is missing; pytest --update-golden writes it"
        assert text == path.read_text(encoding="utf-8")

    return compare
