"""Versions by releases: what the table says of each wheel is what its symbols say.

Which releases export a symbol is read off the libraries of torch: ``nm -D``, as in the tests of ``fit``.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import click.testing
import pytest
from rich.console import Console

import abiscan
from abiscan.cli import main
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.session import Session
from abiscan.report import versions_text
from abiscan.results.package import PackageVerdict
from abiscan.results.versions import VersionRow, VersionTable
from tests.elf_builder import uses
from tests.fakes import extension, package_wheel
from tests.schemas import validate

pytestmark = pytest.mark.slow

FROM_2_13, UNTIL_2_9 = "torch_from_blob", "_ZNK2at7Dimname5unifyES0_"
TORCHES = ("2.8.0", "2.9.1", "2.13.0")
WORKS, FAILS, NONE = PackageVerdict.WORKS, PackageVerdict.IMPORT_FAILS, None


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    code = {"nail/__init__.py": "import torch\ntorch.ops.load_library(__path__[0] + '/_C.so')\n"}
    for version, symbol in (("1.0", UNTIL_2_9), ("1.1", UNTIL_2_9), ("2.0", FROM_2_13)):
        objects = {"nail/_C.so": extension(undefined=uses(symbol))}
        package_wheel(tmp_path / "wheels", "nail", objects, version=version, files=code)
    package_wheel(tmp_path / "wheels", "nail", {}, version="0.9", files={"nail/__init__.py": ""})
    return tmp_path / "wheels"


def table(wheels: Path, cache: Path, versions: str = "all") -> VersionTable:
    options = IndexOptions(no_index=True, find_links=(str(wheels),))
    return abiscan.version_table("nail", versions, TORCHES, session=Session(folder=cache, index=options))


def test_each_version_has_the_verdicts_that_its_symbols_decide(wheels: Path, tmp_path: Path) -> None:
    answers = {row.version: row.verdicts for row in table(wheels, tmp_path).rows}
    assert answers == {
        "2.0": (FAILS, FAILS, WORKS),
        "1.1": (WORKS, WORKS, FAILS),
        "1.0": (WORKS, WORKS, FAILS),
        "0.9": (),
    }
    assert [row.version for row in table(wheels, tmp_path, ">=1.1").rows] == ["2.0", "1.1"]


def test_what_has_no_compiled_code_is_not_judged(wheels: Path, tmp_path: Path) -> None:
    reasons = {row.version: row.reason for row in table(wheels, tmp_path).rows if not row.verdicts}
    assert list(reasons) == ["0.9"]
    assert reasons["0.9"] == "nothing in it uses torch"


def test_neighbours_with_the_same_answers_are_one() -> None:
    rows = (
        VersionRow(version="3.0", verdicts=(FAILS, FAILS, WORKS, NONE)),
        VersionRow(version="2.1", verdicts=(WORKS, WORKS, FAILS, NONE)),
        VersionRow(version="2.0", verdicts=(WORKS, WORKS, FAILS, NONE)),
        VersionRow(version="1.0", reason="has no wheel"),
    )
    merged = VersionTable(package="nail", system="", releases=("2.6", "2.7", "2.8", "2.9"), rows=rows)
    assert [str(span) for span, _ in merged.columns] == ["2.6 - 2.7", "2.8", "2.9"]
    assert [(str(span), marks) for span, marks in merged.merged()] == [
        ("3.0", ("✗", "✓", "·")),
        ("2.1 - 2.0", ("✓", "✗", "·")),
    ]
    assert versions_text.render_markdown(merged).splitlines()[:4] == [
        "| nail | torch 2.6 - 2.7 | torch 2.8 | torch 2.9 |",
        "|---|:-:|:-:|:-:|",
        "| 3.0 | ✗ | ✓ | · |",
        "| 2.1 - 2.0 | ✓ | ✗ | · |",
    ]
    assert versions_text.render_markdown(merged).splitlines()[-1] == "- 1.0: has no wheel"
    assert "<h2>Not checked</h2><ul><li>1.0: has no wheel</li></ul>" in versions_text.render_page(merged)
    checked = VersionTable(package="nail", system="", releases=merged.releases, rows=rows[:-1])
    assert "Not checked" not in versions_text.render_page(checked)


def test_a_narrow_terminal_gets_several_tables() -> None:
    releases = tuple(f"2.{number}.0" for number in range(12))
    verdicts = tuple(WORKS if number % 2 else FAILS for number in range(12))
    rows = (VersionRow(version="1.0", verdicts=verdicts),)
    stream = io.StringIO()
    versions_text.render_table(
        VersionTable(package="nail", system="Linux", releases=releases, rows=rows), Console(file=stream, width=40)
    )
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines[1:-1])) <= 40
    assert " ".join(lines).count("✓") == 6 + 1  # and in the legend


def run(*words: str) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, ["matrix", *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def test_the_command(wheels: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ["nail", "--versions", ">=1", "--no-index", "-f", str(wheels), "--torch", "2.9.1", "--torch", "2.13.0"]
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert [line.split() for line in result.stdout.splitlines()[2:4]] == [
        ["2.0", "✗", "✓"],
        ["1.1", "-", "1.0", "✓", "✗"],
    ]
    assert re.search(r"^\d+\.\d MB read$", result.stderr, re.MULTILINE)
    as_json = run(*words, "--format", "json")
    assert "MB read" not in as_json.stderr
    document = json.loads(as_json.stdout)
    validate(document, "matrix-versions")
    assert document["versions"]["1.0"] == {"2.9.1": "works", "2.13.0": "import-fails"}
    page = run(*words, "--format", "html").stdout
    assert '<td class="loads" data-verdict="loads">✓</td>' in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nail", "other", "--versions", "all"], "takes the name of one package"),
        (["nail", "--versions", "newest"], "is not a package with a version specifier"),
        (["nail", "--versions", ">=3"], "no version on the index satisfies it"),
    ],
)
def test_wrong_usage_is_2(
    words: list[str], said: str, wheels: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = run(*words, "--no-index", "-f", str(wheels))
    assert (result.exit_code, said in " ".join(result.output.split())) == (2, True), result.output
