"""What uv would install, from the output of ``uv pip install --dry-run``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from abiscan.errors import InputError
from abiscan.hooks.arguments import index_options
from abiscan.hooks.install import InstallerError, Plan, Planned
from abiscan.hooks.pip import versions
from abiscan.inputs import disk, programs

# " + torchaudio==2.8.0", " + pkg==1.0 (from file:///…/pkg-1.0-….whl)", as uv prints changes without colour.
_ADDED: Final = re.compile(r"^ [+~] (?P<name>[\w.-]+)==(?P<version>\S+)(?: \(from (?P<url>.+)\))?$", re.MULTILINE)
_PYTHON_OPTIONS: Final = ("--python", "-p")
# The options that uv names differently from pip.
_INDEX_NAMES: Final = {"--default-index": "--index-url", "--index": "--extra-index-url"}


@dataclass(frozen=True, slots=True)
class Uv:
    """The uv on the search path."""

    @property
    def executable(self) -> str:
        """Its path.

        :raises InputError: there is none
        """
        path = disk.which("uv")
        if path is None:
            raise InputError("uv", "is not installed", "see https://docs.astral.sh/uv, or use abiscan pip install")
        return path

    @property
    def downloads_to_plan(self) -> bool:
        """No: metadata are enough for it."""
        return False

    def plan(self, arguments: Sequence[str], *, silent: bool = False) -> Plan:
        """What uv would install. It reports no addresses, except of files that the user passes by path or URL.

        :raises InstallerError: uv cannot find the packages, or cannot resolve their requirements
        :raises InputError: there is no uv, or no interpreter that it would install for
        """
        other_arguments = [word for word in arguments if word != "--dry-run"]  # uv accepts it only once
        command = [self.executable, "pip", "install", "--dry-run", "--color", "never", *other_arguments]
        process = programs.run(command, capture_output=True)
        if process.returncode:
            raise InstallerError(process.returncode, "" if silent else process.stderr)
        return Plan(
            python=self.python(arguments),
            packages=tuple(
                Planned(
                    name=match["name"],
                    version=match["version"],
                    url=match["url"],
                    wheel=match["url"] is None or match["url"].partition("#")[0].endswith(".whl"),
                    requires=(),
                )
                for match in _ADDED.finditer(process.stderr)
            ),
        )

    def index_options(self, arguments: Sequence[str]) -> list[str]:
        """The arguments that say where packages come from, as pip spells them."""
        words = []
        for word in arguments:
            name, equals, value = word.partition("=")
            words.append(_INDEX_NAMES.get(name, name) + equals + value)
        return index_options(words)

    def versions(self, name: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """The versions of a package on the index, newest first, as pip says, since uv has no command for that."""
        return versions(self.python(arguments), name, self.index_options(arguments))

    def upgrading(self, names: Iterable[str]) -> list[str]:
        """The options that make it replace these packages."""
        return [word for name in names for word in ("--upgrade-package", name)]

    def command(self, words: Sequence[str]) -> str:
        """The command that runs it through abiscan, ready to type."""
        return shlex.join(["abiscan", "uv", "pip", *words])

    def python(self, arguments: Sequence[str]) -> str:
        """The interpreter that it would install for.

        :raises InputError: there is no uv, or no such interpreter
        """
        pythons = [after for word, after in pairwise(arguments) if word in _PYTHON_OPTIONS]
        pythons += [word.partition("=")[2] for word in arguments if word.startswith("--python=")]
        system = ["--system"] if "--system" in arguments else []
        command = [self.executable, "python", "find", *system, *pythons[-1:]]
        process = programs.run(command, capture_output=True)
        if process.returncode:
            raise InputError("uv", f"finds no Python: {process.stderr.strip()}", "create an environment with uv venv")
        return process.stdout.strip()
