"""The programs that abiscan starts: nothing else starts one.

The current folder may be a stranger's repository. So a program that is named without a folder is not looked for there,
and a Python does not look there for modules. Programs start in the current folder nevertheless: pip takes its relative
paths from there, and a version manager, such as pyenv, the Python.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from abiscan.inputs import observed_fs

if TYPE_CHECKING:
    import subprocess

_START: Final = str(Path(__file__).absolute().with_name("start_python.py"))
_SECONDS: Final = 60


def python_command(executable: str, *words: str) -> list[str]:
    """Return the command for ``python -c CODE`` or ``python -m MODULE``, without the current folder in its
    ``sys.path``.

    :param words: ``-c`` or ``-m``, what it takes, and arguments
    """
    return [executable, _START, *words]


def run_program(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, check: bool = False, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program, as ``subprocess.run`` does, with text for what it reads and writes.

    :param env: its environment variables; those of this process for None
    :raises OSError: it cannot be started
    :raises subprocess.SubprocessError: it takes longer than ``timeout``, or fails and ``check`` is set
    """
    import subprocess

    variables = _list_variables(os.environ if env is None else env)
    return subprocess.run(_locate_program(command), env=variables, check=check, text=True, **options)  # noqa: S603


def start_program(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program, with pipes to its stdin and from its stdout.

    :raises OSError: it cannot be started
    """
    import subprocess

    variables, pipe = _list_variables(os.environ), subprocess.PIPE
    return subprocess.Popen(_locate_program(command), env=variables, stdin=pipe, stdout=pipe)  # noqa: S603


def ask_python(executable: str, code: str, *, seconds: int = _SECONDS) -> str:
    """Return what a Python prints that runs some code.

    :param seconds: how long it may take
    :raises OSError: it cannot be started
    :raises subprocess.SubprocessError: it fails, or takes longer
    """
    import subprocess

    command, nothing = python_command(executable, "-c", code), subprocess.DEVNULL
    return run_program(
        command, stdin=nothing, stdout=subprocess.PIPE, stderr=nothing, timeout=seconds, check=True
    ).stdout


def replace_process(command: Sequence[str]) -> NoReturn:
    """Let a program take the place of this process: its exit code, its terminal, its signals.

    :raises OSError: it cannot be started
    """
    program = _locate_program(command)
    os.environ.update(_list_variables(os.environ))
    if os.name == "nt":  # there, the shell would not wait for a program that replaces this one
        import subprocess

        sys.exit(subprocess.call(program))  # noqa: S603 - the command of the user
    os.execvp(program[0], program)  # noqa: S606


def _locate_program(command: Sequence[str]) -> list[str]:
    """Return the command, with the absolute path of its program."""
    name = command[0]
    path = name if os.path.dirname(name) else observed_fs.find_program(name)  # noqa: PTH120 - ./python has one
    if path is None:
        raise FileNotFoundError(name)
    return [os.path.abspath(path), *command[1:]]  # noqa: PTH100 - a virtual environment has a link to its Python


def _list_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables, but the current folder is not in ``PYTHONPATH``, where an empty entry means it."""
    folders = (variables.get("PYTHONPATH") or os.sep).split(os.pathsep)
    # An empty variable is no entry at all, while an empty entry is the current folder (Modules/getpath.py).
    if all(map(os.path.isabs, folders)):
        return dict(variables)
    named = [folder for folder in folders if os.path.normpath(folder) != os.curdir]
    return {**variables, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, named))}
