"""What pip is configured to do, in its own words: ``pip config list``."""

from __future__ import annotations

import ast
import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Final

from abiscan.errors import InputError
from abiscan.inputs import packages, programs

_PIP_SECONDS: Final = 60
_SECTIONS: Final = ("global", "install", ":env:")  # the later ones have precedence

_asked: ContextVar[dict[str | None, Mapping[str, str]] | None] = ContextVar("asked", default=None)


@contextlib.contextmanager
def configuration_read_once() -> Iterator[None]:
    """Have the work of one command ask each pip only once: it takes as long to answer as to start."""
    token = _asked.set({})
    try:
        yield
    finally:
        _asked.reset(token)


def read_configuration(python: str | None) -> Mapping[str, str]:
    """Return the configuration of the pip of an interpreter; nothing if it does not answer."""
    asked = _asked.get()
    if asked is None:
        return _ask_pip(python)
    if python not in asked:
        asked[python] = _ask_pip(python)
    return asked[python]


def _ask_pip(python: str | None) -> dict[str, str]:
    try:
        command = [*packages.pip_command(python), "config", "list"]
        done = programs.run_program(command, capture_output=True, timeout=_PIP_SECONDS, check=True)
    except (InputError, OSError, subprocess.SubprocessError):
        return {}
    values: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    # pip prints each value as Python does, with quotes.
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.rpartition(".")
        if section in values:
            try:
                values[section][key] = str(ast.literal_eval(value))
            except (ValueError, SyntaxError):
                continue
    # Later sections override earlier ones: the environment, then the command, then all commands.
    return {key: value for section in _SECTIONS for key, value in values[section].items()}
