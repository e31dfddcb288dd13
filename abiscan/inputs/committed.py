"""Files as a commit of git has them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from abiscan.errors import InputError
from abiscan.inputs import observed_fs, programs


def read_committed(path: Path, commit: str) -> bytes | None:
    """Return a file as a commit has it; None if that has none of its name.

    :param commit: what git takes for one: ``origin/main``, ``HEAD``
    :raises InputError: there is no git, no such commit, or the file is in no repository
    """
    observed_fs.look_once()  # a branch moves
    folder = path.absolute().parent
    known = _run_git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if known.returncode:
        problem = f"is not a commit in the repository of {path}"
        raise InputError(commit, problem, "fetch it: git fetch origin, or fetch-depth: 0 in actions/checkout")
    shown = _run_git(folder, "show", f"{known.stdout.strip()}:./{path.name}")
    return shown.stdout.encode("utf-8", "surrogateescape") if not shown.returncode else None


def _run_git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return programs.run_program(
            ["git", "-C", str(folder), *words], capture_output=True, encoding="utf-8", errors="surrogateescape"
        )
    except OSError as error:
        raise InputError("git", "cannot be run", "install git, or compare two files: abiscan diff OLD NEW") from error
