"""The operators of a running torch: those of the Python that is asked."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from abiscan.inputs import environment, interpreter
from abiscan.pipelines.operators import live_operators
from abiscan.torches import from_libs, from_python


@pytest.mark.parametrize("named", [None, "/env/bin/python"])
def test_the_python_that_has_the_torch_is_asked(named: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path | str] = []
    monkeypatch.setattr(environment, "use_environment", lambda python: SimpleNamespace(python=python))
    monkeypatch.setattr(interpreter, "installed_torch", lambda: Path("/own/torch"))
    monkeypatch.setattr(interpreter, "ask_interpreter", lambda _python: (None, Path("/env/torch")))
    monkeypatch.setattr(from_libs, "from_path", lambda package, _files: package)
    monkeypatch.setattr(from_python, "read_operators", asked.append)
    release: object = live_operators(named).release
    assert release == Path("/env/torch" if named else "/own/torch")
    assert asked == [named or sys.executable]
