"""The commands of uv that lock a project and install from the lock: what they would make of it.

uv runs in a copy of the project, in which it only locks. The project itself is not touched before that lock was
examined, so nothing has to be restored, whatever ends this process.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from pathlib import Path
from typing import Final

from msgspec import Struct

from abiscan.errors import InputError, UnclearPlanError
from abiscan.hooks.install import InstallerError
from abiscan.inputs import observed_fs, programs
from abiscan.locks.model import ProjectPart

LOCK: Final = "uv.lock"
_PROJECT: Final = "pyproject.toml"
_COMMANDS: Final = frozenset({"sync", "add", "remove", "lock", "run"})
_LARGEST_COPIED: Final = 4 << 20
_MOST_FILES: Final = 50_000
_NOT_COPIED: Final = frozenset({".venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"})

# As ``uv COMMAND --help`` of 0.13 has them; what is in none of these sets is not understood.
RESOLVING_VALUES: Final = frozenset(
    {
        *("--index", "--default-index", "-i", "--index-url", "--extra-index-url", "-f", "--find-links"),
        *("--index-strategy", "--keyring-provider", "-P", "--upgrade-package", "--upgrade-group", "--resolution"),
        *("--prerelease", "--prerelease-package", "--fork-strategy", "--exclude-newer", "--exclude-newer-package"),
        *("--no-sources-package", "-C", "--config-setting", "--config-settings-package", "--refresh-package"),
        *("--no-build-isolation-package", "--no-build-package", "--no-binary-package", "--cache-dir", "-p", "--python"),
        *("--color", "--allow-insecure-host", "--config-file", "--link-mode"),
    }
)
RESOLVING_FLAGS: Final = frozenset(
    {
        *("--no-index", "-U", "--upgrade", "--no-sources", "--no-build-isolation", "--no-build", "--no-binary"),
        *("--require-build-hashes", "--no-require-build-hashes", "-n", "--no-cache", "--refresh", "--managed-python"),
        *("--no-managed-python", "--no-python-downloads", "-q", "--quiet", "-v", "--verbose", "--system-certs"),
        *("--native-tls", "--offline", "--no-progress", "--no-config", "--preview", "--no-preview"),
    }
)
_PLACES: Final = frozenset({"--directory", "--project"})
_CHOOSING_VALUES: Final = frozenset({"--extra", "--group", "--no-extra", "--no-group", "--only-group", "--package"})
_CHOOSING_FLAGS: Final = frozenset(
    {"--all-extras", "--no-dev", "--dev", "--only-dev", "--no-default-groups", "--all-groups", "--all-packages"}
)
_INSTALLING_VALUES: Final = frozenset(
    {"--no-install-package", "--reinstall-package", "--no-editable-package", "--output-format", "--env-file"}
)
_INSTALLING_FLAGS: Final = frozenset(
    {
        *("--no-editable", "--inexact", "--exact", "--active", "--no-install-project", "--no-install-workspace"),
        *("--no-install-local", "--reinstall", "--compile-bytecode", "--no-compile-bytecode", "--no-env-file"),
        *("--locked", "--check", "--check-exists", "-m", "--module"),
    }
)
_ADDING_VALUES: Final = frozenset(
    {
        *("-r", "--requirements", "-c", "--constraints", "--marker", "--optional", "--bounds", "--rev", "--tag"),
        *("--branch", "-m"),
    }
)
_ADDING_FLAGS: Final = frozenset({"--editable", "--raw", "--lfs", "--workspace", "--no-workspace"})
_HARMLESS: Final = frozenset({"-h", "--help", "-V", "--version", "--dry-run", "--no-sync"})
"""With one of these, nothing is installed, or only shown."""
_OF_SCRIPT: Final = b"# /// script"


class UvCommand(Struct, frozen=True, kw_only=True):
    """A command of uv for a project.

    :ivar name: ``sync``, ``add``, ``remove``, ``lock`` or ``run``
    :ivar changes: the words after it that say what changes in the project, for those that change it
    :ivar resolving: the options that decide on the lock
    :ivar part: what of the project is installed
    :ivar all_extras: whether that is all extras
    :ivar all_groups: whether that is all groups
    :ivar folder: the folder that it is about
    :ivar frozen: whether the lock stays as it is
    :ivar harmless: whether it installs nothing, and writes no lock
    """

    name: str
    changes: tuple[str, ...]
    resolving: tuple[str, ...]
    part: ProjectPart
    all_extras: bool
    all_groups: bool
    folder: Path
    frozen: bool
    harmless: bool


def read_uv_command(words: Sequence[str]) -> UvCommand | None:
    """Return the command for a project that these words are; None if they are another command.

    :raises UnclearPlanError: they have an option that is not understood
    """
    name, pairs, rest = _split(words)
    if name is None:
        return None
    options = [option for option, _ in pairs]
    values = {option: [value for known, value in pairs if known == option and value] for option in options}
    resolving = [
        word
        for option, value in pairs
        if option in RESOLVING_VALUES | RESOLVING_FLAGS
        for word in ((option, value) if value is not None else (option,))
    ]
    changes: list[str] = []
    if name in ("add", "remove"):
        own = _ADDING_VALUES | _ADDING_FLAGS | {"--group", "--extra", "--dev", "--package"}
        for option, value in pairs:
            if option in own:
                changes += [option] if value is None else [option, value]
        changes += rest
        # Read once, a pipe is empty when uv itself reads it.
        files = [*values.get("-r", ()), *values.get("--requirements", ())]
        if any(file == "-" or file.startswith(("/dev/", "/proc/")) for file in files):
            raise UnclearPlanError("uv", "requirements from a pipe are not checked")
    elif name == "run" and rest:
        _require_project_command(rest)
    groups = (*values.get("--group", ()), *values.get("--only-group", ()))
    part = ProjectPart(
        extras=(*(values.get("--extra", ()) if name not in ("add", "remove") else ()), *values.get("--optional", ())),
        groups=groups if name != "remove" else (),
        dev=not {"--no-dev", "--no-default-groups"} & set(options),
    )
    frozen = "--frozen" in options or bool(os.environ.get("UV_FROZEN"))
    nothing = bool(_HARMLESS & set(options)) or (frozen and name in ("add", "remove", "lock"))
    if name in ("add", "remove", "lock") and "--no-sync" in options:  # the lock is written all the same
        nothing = bool((_HARMLESS - {"--no-sync"}) & set(options))
    folder = Path(*[value for option, value in pairs if option in _PLACES and value])
    return UvCommand(
        name=name,
        changes=tuple(changes),
        resolving=tuple(resolving),
        part=part,
        all_extras="--all-extras" in options,
        all_groups="--all-groups" in options,
        folder=folder,
        frozen=frozen,
        harmless=nothing,
    )


def _split(words: Sequence[str]) -> tuple[str | None, list[tuple[str, str | None]], list[str]]:
    """Return the command, the options with their values, and the other words."""
    name: str | None = None
    pairs: list[tuple[str, str | None]] = []
    rest: list[str] = []
    remainder = iter(words)
    for word in remainder:
        if name == "run" and rest:
            rest.append(word)
        elif word == "--":
            rest += remainder
        elif not word.startswith("-") or word == "-":
            if name is None:
                if word not in _COMMANDS:
                    return None, [], []
                name = word
            else:
                rest.append(word)
        else:
            pairs.append(_read_option(word, remainder, name))
    return name, pairs, rest


def _read_option(word: str, remainder: Iterator[str], name: str | None) -> tuple[str, str | None]:
    adds = name in ("add", "remove")
    values = RESOLVING_VALUES | _PLACES | _CHOOSING_VALUES | _INSTALLING_VALUES | (_ADDING_VALUES if adds else set())
    flags = RESOLVING_FLAGS | _CHOOSING_FLAGS | _INSTALLING_FLAGS | _HARMLESS | {"--frozen"}
    return _take_option(word, remainder, values, flags | _ADDING_FLAGS if adds else flags)


def list_options(
    words: Sequence[str], values: AbstractSet[str], flags: AbstractSet[str]
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Return the options among words with their values, and the other words.

    :param values: the options that take a value
    :param flags: those that take none
    :raises UnclearPlanError: there is another one
    """
    pairs: list[tuple[str, str | None]] = []
    rest: list[str] = []
    remainder = iter(words)
    for word in remainder:
        if word.startswith("-") and word != "-":
            pairs.append(_take_option(word, remainder, values, flags))
        else:
            rest.append(word)
    return pairs, rest


def _take_option(
    word: str, remainder: Iterator[str], values: AbstractSet[str], flags: AbstractSet[str]
) -> tuple[str, str | None]:
    option, equals, value = word.partition("=")
    if not word.startswith("--") and len(word) > 2:  # -pVALUE, -qq
        option, equals, value = word[:2], "=", word[2:].removeprefix("=")
        if set(word[1:]) <= set("qv"):
            return option, None
    if option in values:
        return option, value if equals else next(remainder, None)
    if option in flags and (not equals or option in ("-q", "-v")):
        return option, None
    raise UnclearPlanError("uv", f"what it would do with {word} is not understood")


def _require_project_command(rest: Sequence[str]) -> None:
    """Reject a script that has requirements of its own, which no lock of a project has.

    :raises UnclearPlanError: it has
    """
    path = Path(rest[0])
    if rest[0].startswith(("http://", "https://")) or rest[0] == "-":
        raise UnclearPlanError("uv", f"what {rest[0]} requires is not known")
    if observed_fs.is_file(path) and _OF_SCRIPT in observed_fs.read_file(path)[: 1 << 16]:
        raise UnclearPlanError("uv", f"{rest[0]} has requirements of its own, which are not checked")


def find_root(folder: Path) -> Path | None:
    """Return the folder of the project that a folder is in, or of its workspace: where the lock is; None without."""
    start = folder.absolute()
    above = [path for path in (start, *start.parents) if observed_fs.is_file(path / _PROJECT)]
    locked = next((path for path in above if observed_fs.is_file(path / LOCK)), None)
    workspace = next((path for path in above if b"[tool.uv.workspace]" in observed_fs.read_file(path / _PROJECT)), None)
    return locked or workspace or next(iter(above), None)


class ProjectCopy:
    """A copy of a project, in which uv may lock.

    :param root: the folder of the project
    :param folder: an empty folder for the copy
    :param uv: the path of uv
    """

    def __init__(self, root: Path, folder: Path, uv: str) -> None:
        self._uv = uv
        self._source = root
        self._files = 0
        # What a path such as ../other leads to lies beside the copy, too.
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
        return self.root / LOCK

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
                is_written = entry.name in (LOCK, _PROJECT)
                # What a link leads to is copied, too: uv would write through the link.
                if entry.is_file() and (is_written or entry.stat().st_size <= _LARGEST_COPIED):
                    shutil.copyfile(entry.path, place)
                elif entry.is_symlink():
                    place.symlink_to(Path(entry.path).readlink())
                elif entry.is_dir() and entry.name != ".git":
                    self._copy(Path(entry.path), place)
                elif entry.is_file() or entry.is_dir():  # too large to copy, and nothing that uv writes to
                    place.symlink_to(entry.path)

    def run(self, command: UvCommand) -> None:
        """Have uv lock as a command would, without installing anything.

        :raises InstallerError: uv fails
        """
        words = ["lock"] if command.name not in ("add", "remove") else [command.name, "--no-sync", *command.changes]
        inside = command.folder.absolute()
        folder = self.root / inside.relative_to(self._source) if inside.is_relative_to(self._source) else self.root
        self._run([*words, *command.resolving], folder)

    def add(self, pins: Sequence[str], resolving: Sequence[str]) -> bool:
        """Have uv require these versions; return whether that can be locked."""
        try:
            self._run(["add", "--no-sync", *pins, *resolving], self.root)
        except InstallerError:
            return False
        return True

    def find_python(self, command: UvCommand) -> str | None:
        """Return the Python that uv installs the project for; None if it has yet to be installed."""
        options = [value for name, value in pairwise(command.resolving) if name in ("-p", "--python")]
        variables = uv_variables() | {"VIRTUAL_ENV": ""}
        done = programs.run_program(
            [self._uv, "python", "find", *options[-1:]], env=variables, cwd=self.root, capture_output=True
        )
        return done.stdout.strip() or None if not done.returncode else None

    def _run(self, words: Sequence[str], folder: Path) -> None:
        done = programs.run_program([self._uv, *words], env=uv_variables(), cwd=folder, capture_output=True)
        if done.returncode:
            raise InstallerError(done.returncode, done.stderr.replace(str(self.root), str(self._source)))
        if not observed_fs.is_file(self.lock):
            raise InputError("uv", f"has written no {LOCK}")


def uv_variables() -> dict[str, str]:
    """Return the environment of a uv that only resolves, without what would lead it away from a copy."""
    left_out = (
        "RUST_LOG",
        "UV_PROJECT",
        "UV_WORKING_DIR",
        "UV_WORKING_DIRECTORY",
        "UV_FROZEN",
        "UV_LOCKED",
        "UV_NO_SYNC",
    )
    return {name: value for name, value in os.environ.items() if name not in left_out}
