"""Which Python environment a command is about, and how to name it to the user."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from msgspec import Struct

from abiscan.errors import InputError
from abiscan.inputs import observed_fs, programs
from abiscan.regex import regex

_PYTHONS: Final = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")  # the last one is of conda
# What marks an environment that was made for one tool: pipx install and run, uv tool install.
_TOOL_MARKERS: Final = ("pipx_metadata.json", "uv-receipt.toml")
# Where uvx and uv run --with keep theirs, in uv's cache, which the user may put anywhere.
_UV_CACHED: Final = regex("(archive|builds|environments)-v[0-9]+")
_CACHE_MARKER: Final = "CACHEDIR.TAG"  # https://bford.info/cachedir


class PythonEnvironment(Struct, frozen=True, kw_only=True):
    """A Python environment.

    ``python`` is its executable, None for the running one; ``origin`` says why it was chosen: ``VIRTUAL_ENV``.
    """

    python: str | None
    origin: str

    @property
    def prefix(self) -> Path:
        """Its folder, or its executable if that is not in the ``bin`` of an environment."""
        if self.python is None:
            return Path(sys.prefix)
        executable = Path(os.path.abspath(self.python))  # noqa: PTH100 - links are how environments share a Python
        # On Windows, that of conda has no folder of its own.
        for folder in (executable.parent.parent, executable.parent):
            if observed_fs.path_exists(folder / "pyvenv.cfg") or observed_fs.path_exists(folder / "conda-meta"):
                return folder
        return executable

    def __str__(self) -> str:
        return f"{self.prefix} ({self.origin})"


def choose_environment(python: str | None = None) -> PythonEnvironment:
    """Return the environment that the user means: the one rule of every command.

    It is that of ``python``, or else the one that is active (``VIRTUAL_ENV``, ``CONDA_PREFIX``), or else the one that
    abiscan is installed in, unless it was made for abiscan alone (pipx, uv tool), or else that of the ``python`` on the
    search path.

    :param python: the path or name of an executable, or the folder of a virtual environment
    :raises InputError: it is a folder without a Python
    """
    if python is not None:
        return PythonEnvironment(python=executable_in(python), origin="--python")
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        # Activating an environment inside of conda's sets both variables; the virtual environment is then the inner
        # one.
        folder = observed_fs.read_variable(variable)
        # The running Python answers without being started again.
        if folder and _is_same_folder(folder, sys.prefix):
            return PythonEnvironment(python=None, origin=variable)
        if folder and (executable := _python_of(folder)):
            return PythonEnvironment(python=executable, origin=variable)
    own = PythonEnvironment(python=None, origin="where abiscan is installed")
    return (_on_search_path() or own) if _is_of_tool(own.prefix) else own


@contextlib.contextmanager
def heard_by(hear: Callable[[PythonEnvironment], None]) -> Iterator[None]:
    """Call a function with each environment that is ``use_environment`` in the meantime."""
    token = _hear.set(hear)
    try:
        yield
    finally:
        _hear.reset(token)


_hear: ContextVar[Callable[[PythonEnvironment], None] | None] = ContextVar("hear", default=None)


def use_environment(python: str | None = None) -> PythonEnvironment:
    """Return the environment that the user means, which an answer depends on; see ``choose_environment``.

    :raises InputError: ``python`` is a folder without a Python
    """
    chosen = choose_environment(python)
    if hear := _hear.get():
        hear(chosen)
    return chosen


def executable_in(python: str) -> str:
    """Return the executable of a Python, which may be given as the folder of its environment.

    :raises InputError: it is a folder without a Python
    """
    if not observed_fs.is_dir(python):
        return python
    executable = _python_of(python)
    if executable is None:
        raise InputError(
            python,
            "is a folder without bin/python or Scripts/python.exe",
            "pass a Python, or the folder of an environment",
        )
    return executable


def refuse_tool_environment(chosen: PythonEnvironment) -> None:
    """Refuse to install into an environment that a tool manager made for one tool, such as abiscan.

    :raises InputError: it is one
    """
    if _is_of_tool(chosen.prefix):
        raise InputError(
            str(chosen.prefix),
            "is the environment of a tool (pipx, uv tool), and the next update of the tool would undo an installation",
            "activate the environment that you mean, or name its Python with --python",
        )


def _is_of_tool(prefix: Path) -> bool:
    if any(observed_fs.path_exists(prefix / marker) for marker in _TOOL_MARKERS):
        return True
    # uv's cache is CACHE/archive-v0/NAME. The marker keeps a folder of the user that happens to have such a name out.
    cache = prefix.parent.parent
    return _UV_CACHED.fullmatch(prefix.parent.name) is not None and observed_fs.path_exists(cache / _CACHE_MARKER)


def _python_of(folder: str) -> str | None:
    for name in _PYTHONS:
        executable = Path(folder, name)
        if observed_fs.is_file(executable):
            return str(executable)
    return None


def _is_same_folder(folder: str, second: str) -> bool:
    return observed_fs.resolve_links(folder) == observed_fs.resolve_links(second)


@functools.lru_cache(maxsize=1)
def _ask_python(executable: str) -> tuple[str, str] | None:
    """Return the real executable and the prefix of a Python, which may be a wrapper that chooses one; None if it
    fails.
    """
    import subprocess

    query = "import sys; print(sys.executable); print(sys.prefix)"
    try:
        path, prefix = programs.ask_python(executable, query).splitlines()
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return path, prefix


def _on_search_path() -> PythonEnvironment | None:
    for name in ("python", "python3"):
        # A shim of pyenv or asdf looks like a Python and is a script, so what is found is asked who it is.
        executable = observed_fs.find_program(name)
        if executable:
            observed_fs.observe_python(executable)
        answer = _ask_python(executable) if executable else None
        if answer is not None:
            path, prefix = answer
            return PythonEnvironment(
                python=None if _is_same_folder(prefix, sys.prefix) else path, origin=f"{name} on the search path"
            )
    return None
