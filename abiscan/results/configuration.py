"""The configuration of a project: the table ``[tool.abiscan]`` in its own ``pyproject.toml``."""

from __future__ import annotations

import contextlib
import datetime as dt
import fnmatch
import gc
import os
import posixpath
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec.structs
from msgspec import Struct

from abiscan.errors import InputError
from abiscan.findings import Effect, Finding
from abiscan.inputs import observed_fs
from abiscan.results.check import Report
from abiscan.results.suppressions import Suppression
from abiscan.words import did_you_mean

_FIELDS: Final = {"rule", "target", "reason", "until"}
_EXAMPLE: Final = '{rule = "undefined-symbol", target = "*/_C.so", reason = "why", until = 2027-01-31}'
_NAMES: Final = {"targets": "targets", "torch": "torches", "gpu": "gpus", "cpu": "cpus", "system": "systems"}
"""The settings that are a name or a list of names, with their fields."""


class Configuration(Struct, frozen=True, kw_only=True):
    """The settings of a file: what a plain ``abiscan check`` does in its project; none without a file.

    :ivar targets: paths and patterns relative to the folder of the file, or names of packages
    :ivar fail_on: None if the file does not say
    :ivar torches: as for ``--torch``; the next three are for ``--gpu``, ``--cpu`` and ``--system``
    :ivar ignored: the rules that are skipped for files, by a pattern for their paths
    :ivar suppressions: those that the user accepts, expired ones included
    """

    file: Path | None = None
    targets: tuple[str, ...] = ()
    torches: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    cpus: tuple[str, ...] = ()
    systems: tuple[str, ...] = ()
    fail_on: Effect | None = None
    ignored: Mapping[str, Sequence[str]] = {}
    suppressions: tuple[Suppression, ...] = ()

    def list_targets(self) -> list[str]:
        """Return the targets, as a user would name them from the current folder.

        :raises InputError: there is nothing to a pattern
        """
        return [name for target in self.targets for name in self._expand(target)]

    def _expand(self, target: str) -> list[str]:
        folder = self.file.parent if self.file else Path()
        is_pattern = any(character in target for character in "*?[")
        paths = sorted(folder.glob(target)) if is_pattern else [folder / target]
        expanded = [os.path.relpath(path) for path in paths if is_pattern or observed_fs.path_exists(path)]
        if not expanded and (is_pattern or "/" in target):
            problem = f"targets of [tool.abiscan]: there is no {target} in {folder}"
            raise InputError(str(self.file), problem, "build it first, or correct the path")
        return expanded or [target]

    def replaced(self, **named: Sequence[str] | Effect | None) -> Configuration:
        """Return the settings where what the command line names, if it does, stands in for what the file says."""
        return msgspec.structs.replace(self, **{field: value for field, value in named.items() if value})

    def names_left_in(self, replaced: Configuration) -> list[str]:
        """Return the names of the settings that the command line has not replaced."""
        fields = {**_NAMES, "fail-on": "fail_on", "per-file-ignores": "ignored"}
        return [
            name
            for name, field in fields.items()
            if (value := getattr(self, field)) and getattr(replaced, field) is value
        ]

    def leave_out(self, report: Report) -> Report:
        """Return the report without the findings of rules that are skipped for their file."""
        if not self.ignored:
            return report
        results = [
            msgspec.structs.replace(result, findings=self._kept(result.findings, result.path, result.target))
            for result in report.results
        ]
        packages = [
            msgspec.structs.replace(package, own_findings=self._kept(package.own_findings, package.target))
            for package in report.packages
        ]
        return msgspec.structs.replace(report, results=tuple(results), packages=tuple(packages)).filled()

    def _kept(self, findings: Iterable[Finding], *paths: str) -> tuple[Finding, ...]:
        names = {*paths, *map(posixpath.basename, paths)}
        skipped = {
            rule
            for pattern, rules in self.ignored.items()
            if any(fnmatch.fnmatchcase(name, pattern) for name in names)
            for rule in rules
        }
        return tuple(finding for finding in findings if finding.rule not in skipped)


def find_configuration(folder: Path, targets: Iterable[str] = ()) -> tuple[Path | None, Path | None]:
    """Find the nearest ``pyproject.toml`` in a folder or above it that has a table ``[tool.abiscan]``.

    :param targets: what is checked: a file inside of one of them is the target's own, and has no say
    :return: that file, and a nearer one that is passed over
    """
    # A stranger's repository could otherwise accept its own findings. By os.path: pathlib raises on links in circles.
    inside = [os.path.realpath(target) for target in targets if os.path.isdir(target)]  # noqa: PTH112
    passed_over = None
    for place in (folder, *folder.parents):
        file = place / "pyproject.toml"
        if observed_fs.is_file(file):
            here = os.path.realpath(place)
            if any(here == root or here.startswith(os.path.join(root, "")) for root in inside):  # noqa: PTH118
                passed_over = passed_over or (file if b"tool.abiscan" in _read_bytes(file) else None)
                continue
            tools = _read_table(file).get("tool")
            if isinstance(tools, dict) and "abiscan" in tools:
                return file, passed_over
    return None, passed_over


def read_configuration(file: Path, rules: Collection[str]) -> Configuration:
    """Return the settings in a ``pyproject.toml``.

    :param rules: the names of all rules
    :raises InputError: one is invalid: a suppression without a reason, an unknown rule, a setting that there is not
    """
    table = _read_table(file)["tool"]["abiscan"]
    if not isinstance(table, dict):
        raise InputError(str(file), "[tool.abiscan] is not a table", f"write: suppress = [{_EXAMPLE}]")
    settings = (*_NAMES, "fail-on", "per-file-ignores", "suppress")
    if unknown := sorted(set(table) - set(settings)):
        hint = did_you_mean(unknown[0], settings) or f"settings: {', '.join(settings)}"
        raise InputError(str(file), f"[tool.abiscan] has no setting {unknown[0]}", hint)
    entries = table.get("suppress", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(str(file), "[tool.abiscan] suppress is not a list of tables", f"write: [{_EXAMPLE}]")
    return Configuration(
        file=file,
        **{field: _read_names(file, setting, table.get(setting, [])) for setting, field in _NAMES.items()},
        fail_on=_read_effect(file, table["fail-on"]) if "fail-on" in table else None,
        ignored=_read_ignored(file, table.get("per-file-ignores", {}), rules),
        suppressions=tuple(_make_suppression(file, number, entry, rules) for number, entry in enumerate(entries, 1)),
    )


def _read_names(file: Path, setting: str, value: object) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
        problem = f"[tool.abiscan] {setting} is neither a name nor a list of names"
        raise InputError(str(file), problem, f'write: {setting} = ["…"]')
    return tuple(names)


def _read_effect(file: Path, value: object) -> Effect:
    effects = [effect.value for effect in Effect]
    if value not in effects:
        raise InputError(
            str(file), f"[tool.abiscan] fail-on: {value} is not an effect", f"effects: {', '.join(effects)}"
        )
    return Effect(value)


def _read_ignored(file: Path, table: object, rules: Collection[str]) -> Mapping[str, Sequence[str]]:
    setting = "per-file-ignores"
    if not isinstance(table, dict):
        problem = f"[tool.abiscan] {setting} is no table of files"
        raise InputError(str(file), problem, f'write: {setting} = {{"*/_C.so" = ["missing-library"]}}')
    ignored = {pattern: _read_names(file, f"{setting} of {pattern}", names) for pattern, names in table.items()}
    for rule in (rule for names in ignored.values() for rule in names):
        if rule not in rules:
            hint = did_you_mean(rule, rules) or f"rules: {', '.join(sorted(rules))}"
            raise InputError(str(file), f"[tool.abiscan] {setting}: there is no rule {rule}", hint)
    return ignored


def _read_bytes(file: Path) -> bytes:
    try:
        return observed_fs.read_file(file)
    except OSError:
        return b""


def _read_table(file: Path) -> dict[str, Any]:
    # Imported only if there is a file: most runs read none.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        text = observed_fs.read_file(file).decode("utf-8")
        with _collector_paused():
            return tomllib.loads(text)
    except OSError as error:
        raise InputError(str(file), f"cannot be read: {error.strerror or error}") from error
    except RecursionError as error:
        raise InputError(str(file), "not TOML: arrays or tables are nested too deeply") from error
    except ValueError as error:
        raise InputError(str(file), f"not TOML: {error}") from error


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Run no cyclic garbage collection meanwhile.

    tomllib recurses in Python until nothing more can be called. A finalizer that a collection runs there fails, and
    Python prints its traceback, although the error itself is handled.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _make_suppression(file: Path, number: int, entry: Mapping[str, Any], rules: Collection[str]) -> Suppression:
    subject = f"{file}: suppression {number} of [tool.abiscan]"
    if unknown := sorted(set(entry) - _FIELDS):
        raise InputError(subject, f"unknown field {unknown[0]}", f"write: {_EXAMPLE}")
    for field in ("rule", "target", "reason"):
        value = entry.get(field)
        if not isinstance(value, str) or not value.strip():
            raise InputError(subject, f"{field} is missing", f"write: {_EXAMPLE}")
    if entry["rule"] not in rules:
        raise InputError(subject, f"there is no rule {entry['rule']}", f"rules: {', '.join(sorted(rules))}")
    until = entry.get("until")
    # TOML has dates and times, and a datetime is a date to Python.
    if not isinstance(until, dt.date) or isinstance(until, dt.datetime):
        raise InputError(subject, "until, the expiry date, is missing", f"write: {_EXAMPLE}")
    reason = entry["reason"].strip()
    return Suppression(rule=entry["rule"], target=entry["target"], reason=reason, until=until, source=str(file))
