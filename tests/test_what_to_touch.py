"""CONTRIBUTING.md on where things are: its table is tried in a copy of the package, and its diagram follows imports."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from tests.fakes import extension, package_wheel

ROOT: Final = Path(__file__).resolve().parents[1]
CONTRIBUTING: Final = ROOT.joinpath("CONTRIBUTING.md").read_text("utf-8")
TREE: Final = re.compile(r"^((?:[│ ] )*)(?:[├└] )?([a-z_]+/[a-z_]+|api)  ", re.MULTILINE)
RESULT: Final = '''
"""A result that nobody needs."""

from abiscan.results.document import Document


class Greeting(Document, frozen=True, kw_only=True):
    """A greeting.

    :ivar name: who is greeted
    """

    name: str
'''
COMMAND: Final = '''
"""``abiscan greet``."""

import click

from abiscan.cli.common import write_result
from abiscan.cli.options import report_options
from abiscan.results.greeting import Greeting


@click.command()
@click.argument("name")
@report_options("text", "json")
def greet(*, name, form, output):
    """Greet NAME."""
    write_result(Greeting(name=name), form, output, {"text": lambda stream: stream.write(f"hello {name}\\n")})
'''
OPTION: Final = '@click.option("--alone", is_flag=True, help="Give no verdict on packages.")\n'
SCHEMA: Final = """
import json, tools.schemas as schemas
from abiscan.results.greeting import Greeting
schemas.DOCUMENTS["greet"] = "greet", (Greeting,)
print(json.dumps(schemas.schema("greet")))
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The package, with links to its data."""
    package = tmp_path / "copy" / "abiscan"
    shutil.copytree(ROOT / "abiscan", package, ignore=shutil.ignore_patterns("data", "__pycache__"))
    for data in (ROOT / "abiscan").rglob("data"):
        (package / data.relative_to(ROOT / "abiscan")).symlink_to(data)
    return package


def files_of(what: str) -> list[str]:
    """The files that the table has for a change."""
    row = re.search(rf"^\| {re.escape(what)} \| (.*) \|$", CONTRIBUTING, re.MULTILINE)
    assert row is not None
    return re.findall(r"`([\w/]+\.py)`", row[1])


def change(file: Path, *places: tuple[str, str]) -> None:
    """Put a text before each place, which the file has once."""
    text = file.read_text("utf-8")
    for before, added in places:
        assert text.count(before) == 1, before
        text = text.replace(before, added + before)
    file.write_text(text, "utf-8")


def run(copy: Path, *words: str | Path) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{copy.parent}:{ROOT}", "XDG_CACHE_HOME": str(copy.parent / "cache")}
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=copy.parent, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_new_result_is_in_the_files_of_its_row(copy: Path) -> None:
    result, command, commands = files_of("a new result")
    (copy / result).with_name("greeting.py").write_text(RESULT, "utf-8")
    (copy / command).with_name("greet.py").write_text(COMMAND, "utf-8")
    change(copy / commands, ('"guard", ', '"greet", '))
    greeting = json.loads(run(copy, "-m", "abiscan", "greet", "torch", "--format", "json"))
    assert greeting["name"] == "torch"
    schema = json.loads(run(copy, "-c", SCHEMA))
    jsonschema.validate(greeting, schema, cls=jsonschema.Draft202012Validator)
    assert schema["properties"]["name"]["description"] == "who is greeted"


@pytest.mark.slow
def test_a_new_option_of_check_reaches_the_verdict(copy: Path, tmp_path: Path) -> None:
    command, api, request = files_of("a new option of check")
    change(
        copy / command,
        ("@jobs_option(", OPTION),
        ("    jobs: int,\n", "    alone: bool,\n"),
        ("                        each_file=each_file,\n", "                        alone=alone,\n"),
    )
    text = (copy / api).read_text("utf-8")
    # Of ``check``, the first function of the module.
    for before, added in (
        ("    gpus: Sequence[str] = (),\n", "    alone: bool = False,\n"),
        ("                each_file=each_file,\n", "                alone=alone,\n"),
        ("skip_unsupported, list(gpus)", "alone, "),
    ):
        text = text.replace(before, added + before, 1)
    (copy / api).write_text(text, "utf-8")
    change(
        copy / request,
        ("    hardware: Hardware = Hardware()\n", "    alone: bool = False\n"),
        ("        if self._is_model(source, name):\n", "        if self._request.alone:\n            return None\n"),
    )
    wheel = package_wheel(
        tmp_path, "pkg", {"pkg/_C.so": extension()}, files={"pkg/__init__.py": "from pkg import _C\n"}
    )

    def packages(*words: str) -> list[Any]:
        words = ("check", str(wheel), "--torch", "2.9.1", "--fail-on", "aborts", "--format", "json", *words)
        document: dict[str, list[Any]] = json.loads(run(copy, "-m", "abiscan", *words))
        return document["packages"]

    # One after the other: an answer that is kept belongs to the option, too.
    assert (len(packages()), packages("--alone"), len(packages())) == (1, [], 1)


def test_the_diagram_of_a_check_follows_the_imports_and_fits_on_a_screen() -> None:
    section = CONTRIBUTING.partition("## One check\n")[2].partition("\n## ")[0]
    (diagram,) = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    assert len(diagram.splitlines()) <= 40
    callers: dict[int, str] = {}
    modules = [(len(indent) // 2 + ("├" in line or "└" in line), module) for indent, module, line in entries(diagram)]
    assert len(modules) > 12
    for depth, module in modules:
        source = ROOT / "abiscan" / f"{module}.py"
        assert source.is_file(), module
        callers[depth] = source.read_text("utf-8")
        room, _, name = module.partition("/")
        imported = re.compile(rf"from abiscan\.{room}\.{name} import|from abiscan\.{room} import .*\b{name}\b")
        assert depth == 0 or imported.search(callers[depth - 1]), module


def entries(diagram: str) -> list[tuple[str, str, str]]:
    """The lines that name a module: what is before it, the module, and the line."""
    return [(match[1], match[2], match[0]) for match in TREE.finditer(diagram)]
