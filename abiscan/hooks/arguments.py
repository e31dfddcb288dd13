"""The arguments of ``pip install`` and ``uv pip install``, in the form that ``read_command_line`` gives them: which are
options, and which name packages."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from abiscan.errors import InputError
from abiscan.hooks.command_line import PIP, UV, is_option
from abiscan.inputs import programs
from abiscan.inputs.kinds import is_wheel_name

_INDEX_VALUES: Final = {
    *("-i", "--index-url", "--pypi-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--cert"),
    *("--client-cert", "--proxy", "--timeout", "--default-timeout", "--retries", "--cache-dir", "--keyring-provider"),
}
_INDEX_FLAGS: Final = {"--no-index", "--no-cache-dir", "--no-input", "--isolated"}
_FILE_VALUES: Final = {"-r", "--requirement", "--requirements", "-c", "--constraint", "--constraints", "--override"}
_READ: Final = {
    *(*_FILE_VALUES, "--overrides", "--excludes", "--build-constraint", "--build-constraints", "-b"),
    "--requirements-from-script",
}
_READ_VARIABLES: Final = (
    *("PIP_REQUIREMENT", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT"),
    *("UV_CONSTRAINT", "UV_OVERRIDE", "UV_EXCLUDE", "UV_BUILD_CONSTRAINT"),
)
_REQUIREMENTS: Final = {"-r", "--requirement", "--requirements"}
_VALUES: Final = PIP.values | UV.values
_NO_DEPENDENCIES: Final = {"--no-deps", "--no-dependencies"}
# They make an installer ignore what is installed, torch included.
_REINSTALL: Final = {"--force-reinstall", "-I", "--ignore-installed", "--reinstall", "-U", "--upgrade", "--exact"}


class InstallArgument(Struct, frozen=True, kw_only=True):
    """One argument: the words of an option with its value, or one requirement."""

    words: tuple[str, ...]

    @property
    def option(self) -> str | None:
        """The name of the option; None for a requirement."""
        return self.words[0].partition("=")[0] if is_option(self.words[0]) else None

    @property
    def value(self) -> str | None:
        """The value of an option; None if it has none."""
        return self.words[1] if len(self.words) == 2 else None

    @property
    def package(self) -> str | None:
        """The canonical name of the package that a requirement is for; None if it does not say: a path, a URL."""
        requirement = self.requirement
        return canonicalize_name(requirement.name) if requirement else None

    @property
    def requirement(self) -> Requirement | None:
        """It as a requirement, if it is one."""
        if self.option is not None:
            return None
        try:
            return Requirement(self.words[0])
        except (InvalidRequirement, RecursionError):
            return None


def parse_arguments(words: Iterable[str]) -> Iterator[InstallArgument]:
    """Yield the arguments in a command line."""
    remainder = iter(words)
    for word in remainder:
        # ``command_line.read`` has made two words of ``--option=value`` already, so an option and its value alternate.
        value = next(remainder, None) if word in _VALUES else None
        yield InstallArgument(words=(word,) if value is None else (word, value))


def index_options(words: Sequence[str]) -> list[str]:
    """Return the options that say where packages come from."""
    return _words_of(
        argument
        for argument in parse_arguments(words)
        if argument.option in _INDEX_FLAGS or (argument.option in _INDEX_VALUES and argument.value is not None)
    )


def without_files(words: Sequence[str]) -> list[str]:
    """Return the arguments without files of requirements and constraints."""
    return _words_of(argument for argument in parse_arguments(words) if argument.option not in _FILE_VALUES)


def drop_options(words: Sequence[str], *options: str) -> list[str]:
    """Return the arguments without some options and their values."""
    return _words_of(argument for argument in parse_arguments(words) if argument.option not in options)


def has_option(words: Sequence[str], *options: str) -> bool:
    """Whether one of these options is among the arguments."""
    return any(argument.option in options for argument in parse_arguments(words))


def option_values(words: Sequence[str], *options: str) -> list[str]:
    """Return the values of these options, in the order in which they are given."""
    return [
        argument.value
        for argument in parse_arguments(words)
        if argument.option in options and argument.value is not None
    ]


def files_of_requirements(words: Sequence[str]) -> list[Path]:
    """Return the files of requirements."""
    return [Path("/dev/stdin" if name == "-" else name) for name in option_values(words, *_REQUIREMENTS)]


def keep_contents(words: Sequence[str], *, stdin: bool) -> list[str]:
    """Return the arguments, with files that the installer can read more than once; also in its environment variables.

    :param stdin: whether ``-`` is its standard input
    :raises InputError: one cannot be read
    """

    def keep(name: str) -> str:
        try:
            return programs.keep_content(name, stdin=stdin)
        except OSError as error:
            raise InputError(name, f"cannot be read: {error.strerror}") from error

    for variable in _READ_VARIABLES:
        if names := os.environ.get(variable, "").split():
            os.environ[variable] = " ".join(map(keep, names))
    return [
        word
        for argument in parse_arguments(words)
        for word in (
            (argument.words[0], keep(argument.value))
            if argument.option in _READ and argument.value is not None
            else argument.words
        )
    ]


def files(words: Sequence[str]) -> list[Path]:
    """Return the files of requirements and of constraints."""
    return list(map(Path, option_values(words, *_FILE_VALUES)))


def upgrades(words: Sequence[str]) -> bool:
    """Whether packages may be replaced that satisfy what is asked for."""
    return has_option(words, *_REINSTALL, "-P", "--upgrade-package", "--reinstall-package")


def free_versions(words: Sequence[str], free: Collection[str], urls: Mapping[str, str]) -> list[str]:
    """Return the arguments with which to ask what an installer could choose.

    What is installed counts, dependencies count, and the packages in ``free`` may have any version.

    :param free: canonical names
    :param urls: what paths and URLs among the arguments stand for: their package, by ``file://`` address or URL
    """
    kept: list[str] = []
    for argument in parse_arguments(words):
        package = argument.package or urls.get(_file_address(argument.words[0]))
        # With these, the proposal would not say what goes together: nothing that is installed would count.
        if argument.option in _NO_DEPENDENCIES | _REINSTALL:
            continue
        # Extras stay: they decide what else the package requires.
        if package in free:
            requirement = argument.requirement
            extras = f"[{','.join(sorted(requirement.extras))}]" if requirement and requirement.extras else ""
            kept.append(f"{package}{extras}")
        else:
            kept += argument.words
    return kept + [name for name in free if name not in _named_packages(kept)]


def pin_versions(words: Sequence[str], pins: Mapping[str, str], urls: Mapping[str, str]) -> list[str]:
    """Return the arguments with these versions of these packages: in place if they are named there, otherwise at the
    end.

    :param pins: version by canonical name
    :param urls: as for ``free_versions``
    """
    kept: list[str] = []
    for argument in parse_arguments(words):
        requirement, package = argument.requirement, argument.package or urls.get(_file_address(argument.words[0]))
        if package is not None and package in pins:
            extras = f"[{','.join(sorted(requirement.extras))}]" if requirement and requirement.extras else ""
            kept.append(f"{requirement.name if requirement else package}{extras}=={pins[package]}")
        else:
            kept += argument.words
    named = _named_packages(kept)
    return kept + [f"{name}=={version}" for name, version in pins.items() if name not in named]


def ignores_dependencies(words: Sequence[str]) -> bool:
    """Whether the user wants no dependencies."""
    return has_option(words, *_NO_DEPENDENCIES)


def names_package(words: Sequence[str], package: str) -> bool:
    """Whether the arguments name a package."""
    return package in _named_packages(words)


def _named_packages(words: Sequence[str]) -> set[str | None]:
    return {argument.package for argument in parse_arguments(words)}


def _file_address(word: str) -> str:
    """Return a path as a ``file://`` address, a URL without its fragment."""
    if "://" in word:
        return word.partition("#")[0]
    path = Path(word)
    return path.absolute().as_uri() if is_wheel_name(path.name) else word


def _words_of(arguments: Iterable[InstallArgument]) -> list[str]:
    return [word for argument in arguments for word in argument.words]
