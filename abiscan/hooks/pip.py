"""What pip would install, from ``pip install --dry-run --report``."""

from __future__ import annotations

import json
import subprocess
import tempfile
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from abiscan.errors import InputError
from abiscan.hooks.install import InstallerError, Plan, Planned
from abiscan.inputs import packages

_REPORT_VERSION: Final = "1"
_INDEX_VALUES: Final = {
    *("-i", "--index-url", "--pypi-url", "--extra-index-url", "-f", "--find-links", "--trusted-host", "--cert"),
    *("--client-cert", "--proxy", "--timeout", "--default-timeout", "--retries", "--cache-dir", "--keyring-provider"),
}
_INDEX_FLAGS: Final = {"--no-index", "--no-cache-dir", "--no-input", "--isolated"}


@dataclass(frozen=True, slots=True)
class Pip:
    """The pip of an interpreter; of the running one for None."""

    python: str | None

    def plan(self, arguments: Sequence[str], *, silent: bool = False) -> Plan:
        """What pip would install. Its errors are shown as usual, unless ``silent``.

        :raises InstallerError: pip cannot find the packages, or cannot resolve their requirements
        :raises InputError: pip is too old to report what it would do
        """
        with tempfile.NamedTemporaryFile(prefix="abiscan-", suffix=".json") as report:
            command = ("install", "--dry-run", "--report", report.name, "-qq")
            process = subprocess.run(  # noqa: S603 - as the user would run it
                [*packages.pip(self.python), *command, *_without_report(arguments)],
                stderr=subprocess.DEVNULL if silent else None,
                check=False,
            )
            text = report.file.read().decode("utf-8")
        if process.returncode:
            raise InstallerError(process.returncode)
        try:
            document = json.loads(text) if text else {"version": _REPORT_VERSION, "install": []}
            if document["version"] != _REPORT_VERSION:
                raise InputError(
                    "pip",
                    f"writes reports of version {document['version']}, which abiscan does not know",
                    "update abiscan",
                )
            planned = tuple(map(_planned, document["install"]))
        except (ValueError, KeyError, TypeError) as error:
            raise InputError("pip", "wrote no readable report", "update pip to 23 or newer") from error
        return Plan(python=self.python, packages=planned)

    def index_options(self, arguments: Sequence[str]) -> list[str]:
        """The arguments that say where packages come from."""
        return index_options(arguments)


def index_options(arguments: Sequence[str]) -> list[str]:
    """The options among pip's arguments that say where packages come from."""
    return [word for option in _options(arguments) for word in option]


def _planned(entry: Any) -> Planned:
    metadata, origin = entry["metadata"], entry["download_info"]
    url = origin["url"]
    hashes = origin.get("archive_info", {}).get("hashes", {})
    wheel = "archive_info" in origin and urllib.parse.urlsplit(url).path.endswith(".whl")
    return Planned(
        name=metadata["name"],
        version=metadata["version"],
        url=f"{url}#sha256={hashes['sha256']}" if "sha256" in hashes else url,
        wheel=wheel,
        requires=tuple(metadata.get("requires_dist", ())),
    )


def _options(arguments: Sequence[str]) -> Iterator[tuple[str, ...]]:
    words = iter(arguments)
    for word in words:
        name, equals, _ = word.partition("=")
        if name in _INDEX_FLAGS or (name in _INDEX_VALUES and equals):
            yield (word,)
        elif word in _INDEX_VALUES and (value := next(words, None)) is not None:
            yield word, value
        elif word[:2] in {"-i", "-f"} and len(word) > 2:
            yield (word,)


def _without_report(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments without the user's own ``--report``, which is left to the real run."""
    words = iter(arguments)
    for word in words:
        if word == "--report":
            next(words, None)
        elif not word.startswith("--report="):
            yield word
