"""The command line of pip or uv: which command it is, and with which options, however they are written.

Options may stand before the command, be abbreviated (pip), or share a dash. ``read_command_line`` brings them into
one form, so that nobody else has to know these ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct


class Syntax(Struct, frozen=True, kw_only=True):
    """Which options an installer has.

    ``values`` take a value, ``flags`` do not. ``abbreviates`` says whether the beginning of a long option is enough.
    ``groups`` are the commands that have commands of their own: ``uv pip install``.
    """

    values: frozenset[str]
    flags: frozenset[str]
    abbreviates: bool
    groups: frozenset[str]

    def complete_option(self, option: str) -> str:
        """Return the full name of a long option; the option itself if it is unknown, or may be the beginning of
        several.
        """
        if not self.abbreviates or option in self.values | self.flags:
            return option
        # optparse, which pip parses with, takes a prefix that only one option has.
        meant = [name for name in self.values | self.flags if name.startswith(option)]
        return meant[0] if len(meant) == 1 else option


# As ``pip install --help`` of 23.2, 24.3 and 26.3 has them.
PIP: Final = Syntax(
    values=frozenset(
        {
            *("--abi", "--all-releases", "--build-constraint", "--cache-dir", "--cert", "--client-cert"),
            *("--config-settings", "--constraint", "--default-timeout", "--editable", "--exists-action"),
            *("--extra-index-url", "--find-links", "--global-option", "--group", "--implementation", "--index-url"),
            *("--install-option", "--keyring-provider", "--local-log", "--log", "--log-file", "--no-binary"),
            *("--only-binary", "--only-final", "--platform", "--prefix", "--progress-bar", "--proxy", "--pypi-url"),
            *("--python", "--python-version", "--refresh-package", "--report", "--requirement"),
            *("--requirements-from-script", "--resume-retries", "--retries", "--root", "--root-user-action"),
            *("--source", "--source-dir", "--source-directory", "--src", "--target", "--timeout", "--trusted-host"),
            *("--upgrade-strategy", "--uploaded-prior-to", "--use-deprecated", "--use-feature", "-C", "-c", "-e"),
            *("-f", "-i", "-r", "-t"),
        }
    ),
    flags=frozenset(
        {
            *("--break-system-packages", "--check-build-dependencies", "--compile", "--debug"),
            *("--disable-pip-version-check", "--dry-run", "--force-reinstall", "--help", "--ignore-installed"),
            *("--ignore-requires-python", "--isolated", "--no-build-isolation", "--no-cache-dir", "--no-clean"),
            *("--no-color", "--no-compile", "--no-dependencies", "--no-deps", "--no-index", "--no-input"),
            *("--no-proxy-env", "--no-python-version-warning", "--no-require-hashes", "--no-use-pep517", "--no-user"),
            *("--no-warn-conflicts", "--no-warn-script-location", "--only-dependencies", "--only-deps", "--pre"),
            *("--prefer-binary", "--quiet", "--require-hashes", "--require-venv", "--require-virtualenv"),
            *("--upgrade", "--use-pep517", "--user", "--verbose", "--version", "-I", "-U", "-V", "-h", "-q", "-v"),
        }
    ),
    abbreviates=True,
    groups=frozenset(),
)

# As ``uv pip install --help`` of 0.2, 0.4, 0.7 and 0.13 has them, and those that it hides.
UV: Final = Syntax(
    values=frozenset(
        {
            *("--allow-insecure-host", "--build-constraint", "--build-constraints", "--cache-dir", "--cert"),
            *("--client-cert", "--color", "--config-file", "--config-setting", "--config-settings"),
            *("--config-settings-package", "--constraint", "--constraints", "--default-index", "--directory"),
            *("--editable", "--exclude-newer", "--exclude-newer-package", "--excludes", "--extra"),
            *("--extra-index-url", "--find-links", "--fork-strategy", "--group", "--index", "--index-strategy"),
            *("--index-url", "--keyring-provider", "--link-mode", "--no-binary", "--no-build-isolation-package"),
            *("--no-build-package", "--no-editable-package", "--no-sources-package", "--only-binary"),
            *("--output-format", "--override", "--overrides", "--prefix", "--prerelease", "--prerelease-package"),
            *("--preview-features", "--project", "--python", "--python-fetch", "--python-platform"),
            *("--python-preference", "--python-version", "--refresh-package", "--reinstall-package", "--requirement"),
            *("--requirements", "--resolution", "--target", "--torch-backend", "--trusted-host", "--upgrade-group"),
            *("--upgrade-package", "-C", "-P", "-b", "-c", "-e", "-f", "-i", "-p", "-r", "-t"),
        }
    ),
    flags=frozenset(
        {
            *("--all-extras", "--break-system-packages", "--build", "--build-isolation", "--check", "--compile"),
            *("--compile-bytecode", "--deps", "--disable-pip-version-check", "--dry-run", "--exact"),
            *("--force-reinstall", "--help", "--inexact", "--isolated", "--legacy-setup-py", "--managed-python"),
            *("--native-tls", "--no-break-system-packages", "--no-build", "--no-build-isolation", "--no-cache"),
            *("--no-cache-dir", "--no-color", "--no-compile", "--no-compile-bytecode", "--no-config", "--no-deps"),
            *("--no-editable", "--no-index", "--no-managed-python", "--no-native-tls", "--no-offline"),
            *("--no-preview", "--no-progress", "--no-python-downloads", "--no-refresh", "--no-reinstall"),
            *("--no-require-hashes", "--no-sources", "--no-strict", "--no-system", "--no-system-certs"),
            *("--no-upgrade", "--no-verify-hashes", "--offline", "--pre", "--preview", "--quiet", "--refresh"),
            *("--reinstall", "--require-build-hashes", "--require-hashes", "--show-settings", "--strict", "--system"),
            *("--system-certs", "--upgrade", "--user", "--verbose", "--verify-hashes", "--version", "-U", "-V", "-h"),
            *("-n", "-q", "-v"),
        }
    ),
    abbreviates=False,
    groups=frozenset({"pip"}),
)


class CommandLine(Struct, frozen=True, kw_only=True):
    """A command line in one form: options by their full names, one to a word, each followed by its value if it has one.

    ``command`` has the words of the command, as ``("pip", "install")``; ``arguments`` are all other words, those before
    the command too. ``doubt`` is an unknown option before the command, whose value might be taken for the command; None
    if there is none.
    """

    command: tuple[str, ...]
    arguments: tuple[str, ...]
    doubt: str | None = None


def read_command_line(words: Sequence[str], syntax: Syntax) -> CommandLine:
    """Return the command line that these words are."""
    command: list[str] = []
    arguments: list[str] = []
    doubt: str | None = None
    for part in _options_and_words(words, syntax):
        # Options may stand between the words of a command, too: ``uv --quiet pip --offline install``.
        complete = bool(command) and command[-1] not in syntax.groups
        if not is_option(part[0]) and not complete:
            command += part
            continue
        arguments += part
        # ``--new-option install`` could be an option with the value "install", or a flag before the command.
        if not complete and len(part) == 1 and part[0] not in syntax.flags and "=" not in part[0]:
            doubt = doubt or part[0]
    return CommandLine(command=tuple(command), arguments=tuple(arguments), doubt=doubt)


def is_option(word: str) -> bool:
    """Whether a word is an option, and not a package; ``-`` alone is neither, but means the standard input."""
    return word.startswith("-") and word != "-"


def _options_and_words(words: Sequence[str], syntax: Syntax) -> Iterator[tuple[str, ...]]:
    """Yield the options, each with its value, and the other words."""
    remainder = iter(words)
    for word in remainder:
        if word == "--":  # no option follows; nor is there a package whose name begins with a dash
            yield from ((item,) for item in remainder)
        elif word.startswith("--"):
            name, equals, value = word.partition("=")
            name = syntax.complete_option(name)
            # A value that looks like an option stays attached: as a word of its own, it would be taken for one.
            if name not in syntax.values or is_option(value):
                yield (f"{name}{equals}{value}",)
            else:
                yield from _with_value(name, value if equals else next(remainder, None))
        elif is_option(word):
            yield from _split_short(word, remainder, syntax)
        else:
            yield (word,)


def _split_short(word: str, remainder: Iterator[str], syntax: Syntax) -> Iterator[tuple[str, ...]]:
    """Yield the options that share a dash: ``-qU``, ``-qr FILE``, ``-rFILE``."""
    for place in range(1, len(word)):
        option, attached = f"-{word[place]}", word[place + 1 :]
        if option in syntax.values:
            value = attached if syntax.abbreviates else attached.removeprefix("=")  # uv accepts -p=VALUE, too
            yield from _with_value(option, value or next(remainder, None))
            return
        yield (option,)


def _with_value(option: str, value: str | None) -> Iterator[tuple[str, ...]]:
    yield (option,) if value is None else (option, value)
