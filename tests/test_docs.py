"""What README and documentation print is what abiscan prints.

Fences marked ``console`` are run, and what stands below a command is compared with its output; ``sh`` and ``text`` are
for what needs more than the package and the samples. ``pycon`` is run as doctest. The README is read in the root of the
repository, the pages of ``docs`` in ``sample_binaries``.

    pytest tests/test_docs.py --update-golden     # rewrites the output in the pages
"""

from __future__ import annotations

import doctest
import inspect
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import click.testing
import pytest

import abiscan
from abiscan.cli import main
from abiscan.rules import EVERY_RULE
from tests.fakes import SAMPLES
from tests.oracle.corpus import needs_corpus, wheel
from tools import gen_docs

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
PAGES: Final = [README, *sorted(DOCS.rglob("*.md"))]
FENCE: Final = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
HEAD: Final = re.compile(r"(?P<command>.*) \| head -n (?P<lines>\d+)")
GREP: Final = re.compile(r"(?P<command>.*) 2>&1 \| grep -E '(?P<pattern>.*)'")
EFFORT: Final = re.compile(r"abiscan: \d+\.\d s; looked at ")  # never the same
LINK: Final = re.compile(r"\]\((?!https?:|#)(?P<path>[^)#]+)(?:#[^)]*)?\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fences(page: Path, kind: str) -> list[str]:
    return [found["body"] for found in FENCE.finditer(page.read_text("utf-8")) if found["kind"] == kind]


RUN: Final = [page for page in PAGES if fences(page, "console")]


class Shell:
    """Runs the commands of one page, in the order of the page."""

    def __init__(self) -> None:
        self.exit_code = 0

    def output(self, line: str) -> str:
        """What a command line prints, without spaces at the ends of lines."""
        if line == "echo $?":
            return f"{self.exit_code}\n"
        shortened, searched = HEAD.fullmatch(line), GREP.fullmatch(line)
        command = shortened or searched
        program, *words = shlex.split(command["command"] if command else line)
        assert program == "abiscan", f"not a command that this test can run: {line}"
        # Both streams in one, in the order of what was written.
        result = click.testing.CliRunner().invoke(main, words, prog_name="abiscan")
        assert result.exception is None or isinstance(result.exception, SystemExit), (line, result.exception)
        self.exit_code = result.exit_code
        printed = [text.rstrip() for text in result.output.splitlines() if not EFFORT.match(text)]
        if searched:
            printed = [text for text in printed if re.search(searched["pattern"], text)]
        return "".join(f"{text}\n" for text in printed[: int(shortened["lines"]) if shortened else None])

    def session(self, body: str) -> str:
        """A block as it is after running it: its commands, each with what it prints now."""
        lines = [line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")]
        assert body.startswith("$ "), f"a block begins with a command: {body}"
        return "".join(f"$ {line}\n{self.output(line)}" for line in lines)


WITH_CORPUS: Final = {DOCS / "real-wheel.md": "torchvision-0.20.1"}
"""The pages that are read where a released wheel is."""

COMMAND: Final = re.compile(
    r"^(?:- run: )?(?:pipx run |uvx |\.venv/bin/|[A-Z_]+=\S+ )*(?P<command>abiscan .*?)(?: +#.*)?$"
)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=needs_corpus if page in WITH_CORPUS else ()) for page in RUN],
    ids=list(map(name_of, RUN)),
)
def test_commands_print_what_the_page_says(
    page: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = wheel(WITH_CORPUS[page]).parent if page in WITH_CORPUS else None
    monkeypatch.chdir(corpus or (ROOT if page == README else SAMPLES))
    monkeypatch.setenv("COLUMNS", str(gen_docs.HELP_WIDTH))
    shell = Shell()
    written = page.read_text("utf-8")

    def run(found: re.Match[str]) -> str:
        return f"```console\n{shell.session(found['body'])}```" if found["kind"] == "console" else found[0]

    fresh = FENCE.sub(run, written)
    if request.config.getoption("--update-golden"):
        page.write_text(fresh, encoding="utf-8")
        written = fresh
    assert written == fresh


NOT_ONE: Final = re.compile(r"…|\| source$")


def shell_lines(page: Path) -> Iterator[str]:
    """The commands of abiscan in blocks that are not run: of shells, workflows and other programs."""
    for kind in ("sh", "yaml", "toml"):
        for body in fences(page, kind):
            for line in body.splitlines():
                quoted = re.search(r'command = "(abiscan .*)"', line)
                if (found := COMMAND.match(quoted[1] if quoted else line.strip())) and not NOT_ONE.search(line):
                    yield found["command"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_other_commands_are_such(page: Path) -> None:
    """What is not run because of what it needs has the arguments that the command takes."""
    for line in shell_lines(page):
        words = shlex.split(re.sub(r"\$\(.*\)", "x", line))[1:]
        name = next(word for word in words if word in gen_docs.commands())
        context = click.Context(main, info_name="abiscan")
        command = main.get_command(context, name)
        assert command is not None
        known = {option for parameter in command.params for option in parameter.opts}
        own = words[words.index(name) + 1 :]
        if name not in ("pip", "uv"):  # whose arguments are those of another program
            assert [word for word in own if word.startswith("-") and word.partition("=")[0] not in known] == [], line


def test_there_are_such_commands() -> None:
    lines = [line for page in PAGES for line in shell_lines(page)]
    assert len(lines) > 25
    assert "abiscan check {wheel} --torch declared" in lines


def test_every_command_is_run_somewhere() -> None:
    lines = [line for page in RUN for body in fences(page, "console") for line in body.splitlines()]
    words = [line.split()[2:] for line in lines if line.startswith("$ abiscan ")]
    run = {next(word for word in line if word in gen_docs.commands()) for line in words}
    # The others change an environment, a wheel or a file, or look at what is installed or on an index.
    assert run == set(gen_docs.commands()) - {"cache", "doctor", "fit", "pip", "stamp", "survey", "uv"}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_prompt_stands_only_in_a_block_that_is_run(page: Path) -> None:
    others = [found["body"] for found in FENCE.finditer(page.read_text("utf-8")) if found["kind"] != "console"]
    assert not [line for body in others for line in body.splitlines() if line.startswith("$ ")]
    assert not [line for line in page.read_text("utf-8").splitlines() if line.startswith("    $ ")]


@pytest.mark.parametrize("page", [page for page in PAGES if fences(page, "pycon")], ids=name_of)
def test_python_examples(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SAMPLES)
    examples = "\n".join(fences(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(examples, {}, page.name, str(page), 0)
    assert test.examples
    report: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags).run(test, out=report.append)
    assert not report, "".join(report)


def test_the_whole_api_is_documented_and_every_function_called() -> None:
    page = DOCS / "api.md"
    examples = "".join(fences(page, "pycon"))
    functions = [name for name in abiscan.__all__ if inspect.isfunction(getattr(abiscan, name))]
    assert len(functions) > 5
    assert [name for name in functions if f"abiscan.{name}(" not in examples] == []
    assert [name for name in abiscan.__all__ if name not in page.read_text("utf-8")] == []


def test_the_index_says_which_releases_there_are() -> None:
    releases = abiscan.releases()
    said = f"{len(releases)} releases, {releases[0]} to {releases[-1]},"
    assert said in " ".join(DOCS.joinpath("index.md").read_text("utf-8").split())


def test_generated_parts_are_up_to_date() -> None:
    assert [name_of(page) for page in gen_docs.stale()] == []
    assert gen_docs.left_over() == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    links = [found["path"] for found in LINK.finditer(FENCE.sub("", page.read_text("utf-8")))]
    assert [link for link in links if not page.parent.joinpath(link).exists()] == []


def test_the_readme_is_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 120


def test_every_command_and_every_rule_has_a_page_with_a_list_of_them() -> None:
    commands = DOCS.joinpath("commands/index.md").read_text("utf-8")
    for command in gen_docs.commands():
        assert f"({command}.md)" in commands
        assert DOCS.joinpath(f"commands/{command}.md").is_file()
    for rule in EVERY_RULE:
        assert DOCS.joinpath(f"rules/{rule.name}.md").is_file()


def test_schemas_are_linked_from_their_commands() -> None:
    for schema in Path(abiscan.__file__).parent.glob("results/schema/*.json"):
        command = schema.name.partition("-")[0]
        assert f"results/schema/{schema.name})" in DOCS.joinpath(f"commands/{command}.md").read_text("utf-8")
        assert json.loads(schema.read_text("utf-8"))["$schema"].endswith("2020-12/schema")


def paths_in(page: Path) -> Iterator[str]:
    """Modules of the package that a page names as ``room/module``."""
    rooms = "|".join(room for layer in gen_docs.rooms() for room in layer)
    yield from re.findall(rf"`((?:{rooms})/[\w/]+)`", page.read_text("utf-8"))


def test_the_modules_of_the_design_exist() -> None:
    named = list(paths_in(DOCS / "design.md"))
    assert len(named) > 20
    package = Path(abiscan.__file__).parent
    assert [name for name in named if not ((package / name).is_dir() or (package / f"{name}.py").is_file())] == []
