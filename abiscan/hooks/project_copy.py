"""A copy of a project, in which its tool only locks.

The project itself is not touched before that lock was examined, so nothing has to be restored, whatever ends this
process.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from abiscan.errors import InputError, UnclearPlanError
from abiscan.hooks.install import InstallerError
from abiscan.hooks.project_tool import ProjectCommand, ProjectTool
from abiscan.inputs import observed_fs, programs

if TYPE_CHECKING:
    import subprocess

_LARGEST_COPIED: Final = 4 << 20
_MOST_FILES: Final = 50_000
_NOT_COPIED: Final = frozenset(
    {".venv", ".pixi", "__pypackages__", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
)
_LEFT_OUT: Final = ("RUST_LOG", "UV_FROZEN", "UV_LOCKED", "UV_NO_SYNC")


class ProjectCopy:
    """A copy of a project.

    :param root: the folder of the project
    :param folder: an empty folder for the copy
    """

    def __init__(self, tool: ProjectTool, root: Path, folder: Path) -> None:
        self._tool = tool
        self._program = tool.executable
        self._source = root
        self._files = 0
        self._written = {tool.lock, *tool.manifests}
        # What a path such as ../other leads to is next to the copy, too.
        above = folder / "above"
        above.mkdir()
        self.root = above / root.name
        for entry in os.scandir(root.parent):
            if entry.name != root.name:
                (above / entry.name).symlink_to(entry.path)
        self._copy(root, self.root)

    @property
    def lock(self) -> Path:
        """The lock in the copy."""
        return self.root / self._tool.lock

    def _copy(self, source: Path, target: Path) -> None:
        target.mkdir()
        with os.scandir(source) as entries:
            for entry in entries:
                if entry.name in _NOT_COPIED:
                    continue
                self._files += 1
                if self._files > _MOST_FILES:
                    problem = f"has more than {_MOST_FILES:,} files, which would have to be copied to lock it"
                    raise UnclearPlanError(str(self._source), problem)
                place = target / entry.name
                # What a link leads to is copied, too: the tool would write through the link.
                if entry.is_file() and (entry.name in self._written or entry.stat().st_size <= _LARGEST_COPIED):
                    shutil.copyfile(entry.path, place)
                elif entry.is_symlink():
                    place.symlink_to(Path(entry.path).readlink())
                elif entry.is_dir() and entry.name != ".git":
                    self._copy(Path(entry.path), place)
                elif entry.is_file() or entry.is_dir():  # too large to copy, and nothing that is written to
                    place.symlink_to(entry.path)

    def run(self, command: ProjectCommand) -> None:
        """Have the tool lock as a command would, without installing anything.

        :raises InstallerError: the tool fails
        """
        kind, is_locked = command.kind, observed_fs.is_file(self.lock)
        inside = command.folder.absolute()
        folder = self.root / inside.relative_to(self._source) if inside.is_relative_to(self._source) else self.root
        if is_locked and kind.fresh is not None and (not kind.fresh or self._start(kind.fresh, folder).returncode == 0):
            return
        words = kind.again if is_locked and kind.again else kind.lock
        # A lock that some tools make for a command has what it chooses, and no more.
        chosen = command.choosing if kind.again and not is_locked else ()
        self._run([*words, *command.changes, *chosen, *command.resolving], folder)

    def add(self, pins: Sequence[str], resolving: Sequence[str], *, of_index: bool) -> bool:
        """Have the tool require these versions; return whether that can be locked."""
        try:
            self._run([*self._tool.add, *(self._tool.of_index if of_index else ()), *pins, *resolving], self.root)
        except InstallerError:
            return False
        return True

    def find_python(self, command: ProjectCommand) -> str | None:
        """Return the Python that the tool installs the project for; None if that is not known."""
        if self._tool.python is None:
            return None
        options = [value for name, value in pairwise(command.resolving) if name in ("-p", "--python")]
        folder = self._source if self._tool.knows_folder else self.root
        done = self._start([*self._tool.python, *options[-1:]], folder)
        executable = done.stdout.strip()
        return executable if not done.returncode and observed_fs.is_file(Path(executable)) else None

    def _run(self, words: Sequence[str], folder: Path) -> None:
        done = self._start(words, folder)
        if done.returncode:
            text = (done.stderr or done.stdout).replace(str(self.root), str(self._source))
            raise InstallerError(done.returncode, text)
        if not observed_fs.is_file(self.lock):
            raise InputError(self._tool.program, f"has written no {self._tool.lock}")

    def _start(self, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
        variables = resolving_variables() | (self._tool.variables if folder != self._source else {})
        return programs.run_program([self._program, *words], env=variables, cwd=folder, capture_output=True)


def resolving_variables() -> dict[str, str]:
    """Return the environment of a tool that only resolves."""
    return {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
