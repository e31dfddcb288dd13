"""What users' scripts rely on is still there: see ``docs/stability.md``.

pytest tests/test_stability.py --update-golden     # adds what is new; a line that is no longer true stays, and fails
"""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import abiscan
from abiscan.cli import main as program
from abiscan.rules import EVERY_RULE
from tools.schemas import FOLDER

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT: Final = Path(__file__).resolve().parent.parent
SURFACE: Final = ROOT / "tests" / "data" / "surface.txt"


def surface() -> Iterator[str]:
    """Yield a line for each thing that a script can name."""
    context = click.Context(program)
    for name in program.list_commands(context):
        command = program.get_command(context, name)
        assert command is not None
        yield from _of_command(name, command)
    yield from (f"rule {rule.name}" for rule in EVERY_RULE)
    for path in sorted(FOLDER.glob("*.json")):
        yield from (f"json {path.stem} {field}" for field in _fields_of(json.loads(path.read_text())))
    yield from _of_api()


def _of_command(name: str, command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        spellings = [*parameter.opts, *parameter.secondary_opts]
        choices = getattr(parameter.type, "choices", ())
        for spelling in spellings if isinstance(parameter, click.Option) else [f"argument {parameter.name}"]:
            yield f"command {name} {spelling}"
            yield from (f"command {name} {spelling} {choice}" for choice in choices)


def _fields_of(schema: Mapping[str, Any]) -> Iterator[str]:
    definitions = schema.get("$defs", {})
    for name, definition in (*definitions.items(), ("", schema)):
        yield from (f"{name}.{field}" for field in definition.get("properties", {}))


def _of_api() -> Iterator[str]:
    for name in abiscan.__all__:
        value = getattr(abiscan, name)
        yield f"api {name}"
        if inspect.isclass(value):
            yield from (f"api {name}.{member}" for member in _members_of(value))
        elif callable(value):
            yield from (f"api {name}({parameter})" for parameter in inspect.signature(value).parameters)


def _members_of(kind: type) -> Iterator[str]:
    """Yield what abiscan itself gives a class; what Python adds differs from version to version."""
    yield from getattr(kind, "__struct_fields__", ())
    own = [base for base in kind.__mro__ if base.__module__.startswith("abiscan")]
    yield from {name for base in own for name in vars(base) if not name.startswith("_")}


def test_the_page_for_adoption_lists_the_dependencies() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    required = [Requirement(text).name for text in project["dependencies"]]
    page = (ROOT / "docs" / "adoption.md").read_text()
    assert re.findall(r"^\| ([a-z0-9.-]+) \| [^|]+ \| [^|]+ \| [^|]+ \|$", page, re.MULTILINE)[1:] == required


def test_the_page_for_adoption_names_what_the_dependencies_need() -> None:
    found, left = set[str](), ["abiscan"]
    while left:
        needed = map(Requirement, importlib.metadata.requires(left.pop()) or ())
        here = [one for one in needed if one.marker is None or one.marker.evaluate({"extra": ""})]
        names = {canonicalize_name(one.name) for one in here}
        left += names - found
        found |= names
    page = (ROOT / "docs" / "adoption.md").read_text()
    assert found - {canonicalize_name(word) for word in re.findall(r"[\w.-]*\w", page)} == set()


def test_the_changelog_has_this_version_below_what_is_unreleased() -> None:
    headings = re.findall(r"^## (\S+)(?: - \d{4}-\d\d-\d\d)?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", abiscan.__version__]


def test_nothing_that_scripts_rely_on_is_gone(request: pytest.FixtureRequest) -> None:
    now = set(surface())
    recorded = set(SURFACE.read_text().splitlines()) if SURFACE.exists() else set()
    if request.config.getoption("--update-golden"):
        SURFACE.write_text("".join(f"{line}\n" for line in sorted(recorded | now)))
    assert sorted(recorded - now) == []
    assert recorded, "pytest tests/test_stability.py --update-golden writes the list"
