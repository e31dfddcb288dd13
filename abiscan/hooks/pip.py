"""What pip would install, from ``pip install --dry-run --report``."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from packaging.version import Version

from abiscan.errors import InputError, UnclearPlanError
from abiscan.hooks import arguments as arguments_of
from abiscan.hooks.install import InstallerError
from abiscan.hooks.pins import Pins, add_options
from abiscan.hooks.plan import Plan, Planned
from abiscan.inputs import interpreter, packages, programs
from abiscan.inputs.addresses import format_command
from abiscan.inputs.kinds import is_wheel_name
from abiscan.inputs.requirements_file import has_password
from abiscan.regex import regex

_PLANS_WITH_METADATA: Final = Version("25.1")
_REPORT_VERSION: Final = "1"
# What pip itself accepts; they are printed, so they had better be nothing else.
_NAME: Final = regex(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?", re.ASCII)
_VERSION: Final = regex(r"[\w.+!-]+", re.ASCII)
_VERSIONS: Final = regex(r"^Available versions: (.+)$", re.MULTILINE)


class Pip(Struct, frozen=True):
    """The pip of an interpreter; of the running one for None.

    ``named`` is the interpreter as the user named it with ``--python``, None if it was found without.
    """

    python: str | None
    named: str | None = None

    @property
    def downloads_to_plan(self) -> bool:
        """Whether it is older than 25.1, from which on metadata are enough for it."""
        pip = packages.find_installed("pip", interpreter.search_path(self.python)) or packages.find_installed(
            "pip", sys.path
        )
        return pip is None or Version(pip.version) < _PLANS_WITH_METADATA

    def plan_install(self, arguments: Sequence[str], *, silent: bool = False) -> Plan:
        """Return what pip would install.

        :raises InstallerError: pip cannot find the packages, or cannot resolve their requirements
        :raises UnclearPlanError: pip writes no report, or one that cannot be read
        """
        words = arguments_of.drop_options(arguments, "--report")
        # To resolve takes pip longest: what it prints is kept for users who ask for no more than a plan. A report that
        # they want may go to the standard output as well.
        is_quiet = silent or not arguments_of.has_option(arguments, "--dry-run") or words != list(arguments)
        with tempfile.TemporaryDirectory(prefix="abiscan-") as folder:
            # The report is a stable format of pip ("Installation Report", version 1), unlike what it prints.
            report, log = Path(folder, "report.json"), Path(folder, "pip.log")
            quietly = ["-qq"] if is_quiet else []
            process = self._run_dry("0" if silent else "1", *quietly, "--report", str(report), *words)
            text = report.read_text("utf-8", "surrogateescape") if report.is_file() else None
            notice = "" if silent else process.stderr
            # It says that there is no such version, or that versions conflict, where it could not read an index. Only
            # its log tells, which takes a third of the time of a plan to write: so it fails once more, with one.
            if process.returncode and not silent:
                self._run_dry("0", "-qq", "--log", str(log), *words)
                if unread := packages.explain_unfetched(log, notice):
                    notice += f"abiscan: an index cannot be read: {unread}; nothing was planned\n"
        if process.returncode:
            raise InstallerError(process.returncode, notice)
        if text is None:
            raise UnclearPlanError("pip", "does not report what it would install")
        try:
            document = json.loads(text)
            if document["version"] != _REPORT_VERSION:
                problem = f"writes reports of version {document['version']!r}, which abiscan does not know"
                raise UnclearPlanError("pip", problem, "update abiscan, or use --force to install without a check")
            planned = tuple(map(_parse_entry, document["install"]))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            problem = f"its report of what it would install cannot be read: {type(error).__name__}: {error}"
            raise UnclearPlanError("pip", problem) from error
        output = None if is_quiet else (process.stdout, process.stderr)
        return Plan(python=self.python, packages=planned, output=output)

    def _run_dry(self, retries: str, *words: str) -> subprocess.CompletedProcess[str]:
        return programs.run_program(
            [*packages.pip_command(self.python), "install", "--dry-run", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            errors="backslashreplace",
            env=_impatient_variables(retries),
        )

    def index_options(self, arguments: Sequence[str]) -> list[str]:
        """Return the arguments that say where packages come from."""
        return arguments_of.index_options(arguments)

    def list_versions(self, name: str, arguments: Sequence[str]) -> tuple[str, ...]:
        """Return the versions of a package on the index, newest first; empty if unknown."""
        return list_versions(self.python, name, self.index_options(arguments))

    def upgrade_options(self, names: Iterable[str]) -> list[str]:  # noqa: ARG002 - pip replaces what is named, and no more
        """Return the options that make it replace these packages."""
        return ["--upgrade", "--upgrade-strategy", "only-if-needed"]

    def pin_files(self, words: Sequence[str], arguments: Sequence[str], pins: Pins) -> list[str]:
        """Return the command line with which it installs the files that were checked, and asks no index.

        An index is asked after all if something is built, for which pip looks for further packages, or if pip would
        not know its password otherwise: then, only the versions are fixed.
        """
        versions = pins.versions(others=arguments_of.upgrades(arguments))
        options = ["--constraint", str(pins.write_file(versions))]
        if pins.all_wheels and not self._needs_index(arguments):
            page = pins.write_file(pins.page(), ".plan.html")
            # In a file of requirements, the last one: of equal files on two pages, pip takes that of the last page.
            options += ["--requirement", str(pins.write_file(f"--no-index\n--find-links {page.as_uri()}\n"))]
        return add_options(pins.hash_addresses(words), options)

    def _needs_index(self, arguments: Sequence[str]) -> bool:
        """Whether the index has to be asked: it has a password, or is to tell when files were uploaded."""
        from abiscan.hooks.fitting import settings_of  # whoever asks no index does not wait for this import

        urls = settings_of(self.python, self.index_options(arguments)).index_urls
        return (
            any("@" in urllib.parse.urlsplit(url).netloc for url in urls)
            or any(map(has_password, arguments_of.files(arguments)))
            or arguments_of.has_option(arguments, "--keyring-provider", "--uploaded-prior-to")
        )

    def format_command(self, words: Sequence[str]) -> str:
        """Return the command that runs it through abiscan, ready to type."""
        return format_command(["abiscan", "pip", *(["--python", self.named] if self.named else []), *words])


def list_versions(python: str | None, name: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return the versions of a package that have a file for an interpreter, newest first; empty if pip does not say.

    :param options: where packages come from: ``index_options``
    """
    try:
        command = [*packages.pip_command(python), "index", "versions", *options, name]
    except InputError:  # there is no pip
        return ()
    process = programs.run_program(command, capture_output=True, env=_impatient_variables("0"))
    match = _VERSIONS.search(process.stdout)
    return tuple(match[1].split(", ")) if match and not process.returncode else ()


def _impatient_variables(retries: str) -> dict[str, str]:
    """Return an environment in which pip gives up early if there is no network: users wait for an answer, not for
    packages.
    """
    return {"PIP_RETRIES": retries, **os.environ}


def _parse_entry(entry: Any) -> Planned:
    metadata, origin = entry["metadata"], entry["download_info"]
    url = origin["url"]
    # Names and versions come from the metadata of a package that nobody has checked yet.
    for value, pattern in ((metadata["name"], _NAME), (metadata["version"], _VERSION)):
        if not pattern.fullmatch(value):
            raise ValueError(repr(value))
    # Direct URL data structure (packaging specifications): ``archive_info`` for a file, ``dir_info`` or ``vcs_info``
    # for what has to be built.
    hashes = origin.get("archive_info", {}).get("hashes", {})
    wheel = "archive_info" in origin and is_wheel_name(urllib.parse.urlsplit(url).path)
    return Planned(
        name=metadata["name"],
        version=metadata["version"],
        url=f"{url}#sha256={hashes['sha256']}" if "sha256" in hashes else url,
        wheel=wheel,
        requires=tuple(metadata.get("requires_dist", ())),
        requested=bool(entry.get("requested")),
        direct=bool(entry.get("is_direct")),
    )
