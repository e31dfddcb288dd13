"""The programs that abiscan starts: nothing else starts one.

The current folder may be a stranger's repository. So a program that is named without a folder is not looked for there,
and a Python does not look there for modules. Programs start in the current folder nevertheless: pip takes its relative
paths from there, and a version manager, such as pyenv, the Python.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from abiscan.inputs import observed_fs, temporary
from abiscan.regex import regex

if TYPE_CHECKING:
    import subprocess

_START: Final = str(Path(__file__).absolute().with_name("start_python.py"))
_SECONDS: Final = 60
_DESCRIPTOR: Final = regex(r"/dev/stdin|/dev/fd/\d+|/proc/[\w-]+/fd/\d+")
_STDIN: Final = "-"

_is_stdin_kept = False  # whether the standard input is a file that every program reads from its beginning


def keep_content(name: str, *, stdin: bool) -> str:
    """Return a name for what a file has, by which several programs can read it, one after the other.

    That of a pipe can be read once, and descriptors of this process, such as that of ``<(…)``, are closed in others. So
    it is read here, into a file without a name that stays open, in a program that takes the place of this process, too.
    Any other name is returned as it is, and so is every name where there is no ``/proc``.

    :param stdin: whether the program reads its standard input for ``-``
    :raises InputError: there is no room for a file
    :raises OSError: the pipe cannot be read
    """
    global _is_stdin_kept  # noqa: PLW0603 - a process has one
    folder = f"/proc/{os.getpid()}/fd"
    if stdin and name == _STDIN:
        if not _is_stdin_kept:
            os.dup2(_copy_content(0), 0)
            _is_stdin_kept = True
        return name
    try:
        mode = os.stat(name).st_mode  # noqa: PTH116 - an empty name is no path
        is_read_once = stat.S_ISFIFO(mode) or (stat.S_ISCHR(mode) and name != os.devnull)
    except (OSError, ValueError):  # it is a URL, or the program says what is wrong
        return name
    if not (is_read_once or _DESCRIPTOR.fullmatch(name)) or not os.path.isdir(folder):  # noqa: PTH112
        return name
    # By the number of this process, which the program that replaces it keeps: programs that are started by others,
    # which close inherited descriptors, can open it nevertheless.
    return f"{folder}/{_copy_content(name)}"


def _copy_content(source: str | int) -> int:
    """Copy what can be read into a new file; its descriptor, which programs inherit."""
    with open(source, "rb", closefd=isinstance(source, str)) as stream:
        content = stream.read()
    try:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.flush()
            number = os.dup(file.fileno())
    except OSError as error:
        raise temporary.unwritable_error(error) from error
    os.set_inheritable(number, True)  # noqa: FBT003 - it takes no keyword
    return number


def _rewind_stdin() -> None:
    if _is_stdin_kept:
        os.lseek(0, 0, os.SEEK_SET)


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

    variables = _safe_variables(os.environ if env is None else env)
    _rewind_stdin()
    return subprocess.run(_locate_program(command), env=variables, check=check, text=True, **options)  # noqa: S603


def start_program(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program, with pipes to its stdin and from its stdout.

    :raises OSError: it cannot be started
    """
    import subprocess

    variables, pipe = _safe_variables(os.environ), subprocess.PIPE
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
    os.environ.update(_safe_variables(os.environ))
    if os.name == "nt":  # there, the shell would not wait for a program that replaces this one
        import subprocess

        sys.exit(subprocess.call(program))  # noqa: S603 - the command of the user
    _rewind_stdin()
    os.execvp(program[0], program)  # noqa: S606


def _locate_program(command: Sequence[str]) -> list[str]:
    """Return the command, with the absolute path of its program."""
    name = command[0]
    path = name if os.path.dirname(name) else observed_fs.find_program(name)  # noqa: PTH120 - ./python has one
    if path is None:
        raise FileNotFoundError(name)
    return [os.path.abspath(path), *command[1:]]  # noqa: PTH100 - a virtual environment has a link to its Python


def _safe_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return environment variables, but the current folder is not in ``PYTHONPATH``, where an empty entry means it."""
    folders = (variables.get("PYTHONPATH") or os.sep).split(os.pathsep)
    # An empty variable is no entry at all, while an empty entry is the current folder (Modules/getpath.py).
    if all(map(os.path.isabs, folders)):
        return dict(variables)
    named = [folder for folder in folders if os.path.normpath(folder) != os.curdir]
    return {**variables, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, named))}
