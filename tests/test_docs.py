"""What README and documentation print is what abiscan prints.

Every block is run, in real processes on the made-up machine of ``tests/workshop.py``: ``console`` is compared with the
output, ``sh`` must be what the programs take, ``pycon`` is doctest. What cannot be run is in a table, with the reason.

    pytest tests/test_docs.py --update-golden     # rewrites the output in the pages
"""

from __future__ import annotations

import doctest
import inspect
import json
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import pytest

import abiscan
from abiscan.cli import main
from abiscan.hooks import guard
from abiscan.rules import EVERY_RULE
from tests.fakes import SAMPLES
from tests.index_server import serving
from tests.oracle.corpus import needs_corpus, wheel
from tests.workshop import Workshop, furnish
from tools import gen_docs

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
README: Final = ROOT / "README.md"
PAGES: Final = [README, *sorted(DOCS.rglob("*.md"))]
FENCE: Final = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
VARYING: Final = re.compile(
    r"(?m)^abiscan: \d+\.\d s; looked at (?P<effort>.*)$|^(?P<cache>/home/me/.cache/abiscan): .* (?P<limit>\(limit .*)$"
)
"""What is never the same: time, and the size of compressed data."""
GENERATED: Final = re.compile(r"<!-- generated: (?P<name>\S+) -->.*?<!-- end: (?P=name) -->", re.DOTALL)
LINK: Final = re.compile(r"\]\((?!https?:|#)(?P<path>[^)#]+)(?:#[^)]*)?\)")


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def fences(page: Path, kind: str) -> list[str]:
    return [found["body"] for found in FENCE.finditer(page.read_text("utf-8")) if found["kind"] == kind]


RUN: Final = [page for page in PAGES if fences(page, "console")]


INSTALLS: Final = "installs from the package index"
RELEASED: Final = "reads released wheels of flash-attn"
OUTSIDE: Final = "a program that is not part of abiscan"
OF_PROJECTS: Final = "needs a project and its tool; tests/commands/test_projects.py has both"

NOT_RUN: Final = {
    "docs/commands/fit.md: abiscan fit uv.lock": "needs a lock; tests/unit/environments/test_locked.py has some",
    "docs/commands/ops.md: abiscan ops --live": "imports torch; tests/oracle/test_live.py does",
    "docs/commands/pdm.md: abiscan pdm": OF_PROJECTS,
    "docs/commands/pixi.md: abiscan pixi": OF_PROJECTS,
    "docs/commands/poetry.md: abiscan poetry": OF_PROJECTS,
    "docs/commands/releases.md: abiscan releases --update": INSTALLS,
    "docs/commands/stamp.md: python -m build": OUTSIDE,
    "docs/commands/survey.md: dask": OUTSIDE,
    "docs/commands/survey.md: abiscan survey wheels/": "several machines; tests/unit/pipelines/test_survey.py has one",
    "docs/commands/survey.md: jq": OUTSIDE,
    "docs/gpu.md: abiscan check vllm --gpu native": "needs a GPU",
    "docs/install.md: apk add": OUTSIDE,
    "docs/install.md: pip install": INSTALLS,
    "docs/install.md: pipx install": INSTALLS,
    "docs/install.md: ABISCAN_NATIVE=0 pip install": INSTALLS,
    "docs/install.md: ABISCAN_NATIVE=1 pip install": INSTALLS,
    "docs/install.md: make": INSTALLS,
    "docs/install.md: python3 -m venv": INSTALLS,
    "docs/install.md: _ABISCAN_COMPLETE=fish_source": OUTSIDE,
    "docs/undefined-symbol.md: abiscan fit flash-attn": RELEASED,
    "docs/undefined-symbol.md: abiscan matrix flash_attn": RELEASED,
    "docs/which-wheel.md: abiscan fit flash-attn --torch 2.8.0 --find-links https": RELEASED,
    "docs/projects.md: ": "needs a project and an index; tests/commands/test_projects.py has both",
}
"""The lines of shells that are not run, by page and beginning, and why."""

SHOWN: Final = {
    "docs/commands/fit.md: with torch 2.8.0": "what the released wheels of torchaudio and torchcodec are like",
    "docs/commands/guard.md: ImportError: pkg": "compared below",
    "docs/commands/survey.md: # names.txt": "a file, which the survey reads",
    "docs/cpu.md: libfaiss.so: fails": "what a released library of faiss is like",
    "docs/cpu.md: _C.so on sandybridge": "the message of a finding without the rest",
    'docs/cpu.md: {"load"': "the released faiss, and an operator made up",
    "docs/design.md: target": "a picture",
    "docs/models.md: detector.pt on torch": "what the released torchvision is like",
    'docs/models.md: {"kind"': "compared below",
    "docs/projects.md: abiscan: torchvision 0.28.0": "what the released torchvision is like",
    "docs/undefined-symbol.md: ImportError": "what Python says of a released flash-attn",
    "docs/variants.md: error[variant-property-wrong]": "a finding without the rest",
    "docs/variants.md: dist/pkg-1.0": "what a wheel with code for GPUs is like",
}
"""The blocks of text that nothing prints here, by page and beginning, and why."""

WITH_CORPUS: Final = {DOCS / "real-wheel.md": "torchvision-0.20.1"}
"""The pages that are read where a released wheel is."""

MARKS: Final = {
    **dict.fromkeys(WITH_CORPUS, needs_corpus),
    DOCS / "commands" / "doctor.md": pytest.mark.slow,
    DOCS / "commands" / "pip.md": pytest.mark.slow,
}

IN_REPOSITORY: Final = (README, DOCS / "install.md")
"""The pages that are read in the root of the repository."""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    wheels = tmp_path_factory.mktemp("index")
    with serving(wheels) as index:
        made = furnish(tmp_path_factory.mktemp("workshop"), index)
        (names,) = parts(DOCS / "commands" / "survey.md", "text")
        made.samples.joinpath("names.txt").write_text(names, "utf-8")
        yield made


def session(body: str, workshop: Workshop, folder: Path) -> str:
    """A block as it is after running it: its commands, each with what it prints now."""
    assert body.startswith("$ "), f"a block begins with a command: {body}"
    code, blocks = 0, list[str]()
    for line in (line.removeprefix("$ ") for line in body.splitlines() if line.startswith("$ ")):
        if line == "echo $?":
            printed = f"{code}\n"
        else:
            code, printed = workshop.run(line, folder)
        blocks += [f"$ {line}", *(text.rstrip() for text in printed.splitlines())]
    return "".join(f"{line}\n" for line in blocks)


def without_varying(text: str) -> str:
    return VARYING.sub(lambda match: "".join(filter(None, match.groups())), text)


def parts(page: Path, kind: str) -> Iterator[str]:
    """The blocks of a kind that were written by hand."""
    text = GENERATED.sub("", page.read_text("utf-8"))
    return (found["body"] for found in FENCE.finditer(text) if found["kind"] == kind)


COMMAND: Final = re.compile(
    r"^(?:- run: )?(?:pipx run |uvx |\.venv/bin/|[A-Z_]+=\S+ )*(?P<command>abiscan .*?)(?: +#.*)?$"
)


def keys_of(page: Path, text: str, table: Iterable[str]) -> list[str]:
    """The keys of a table that a line or a block of a page begins with."""
    return [key for key in table if f"{name_of(page)}: {text}".startswith(key)]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=MARKS.get(page, ()), id=name_of(page)) for page in RUN],
)
def test_commands_print_what_the_page_says(page: Path, request: pytest.FixtureRequest, workshop: Workshop) -> None:
    folder = workshop.repository if page in IN_REPOSITORY else workshop.samples
    folder = wheel(WITH_CORPUS[page]).parent if page in WITH_CORPUS else folder
    written = page.read_text("utf-8")

    def run(found: re.Match[str]) -> str:
        if found["kind"] != "console":
            return found[0]
        fresh = f"```console\n{session(found['body'], workshop, folder)}```"
        return found[0] if without_varying(fresh) == without_varying(found[0]) else fresh

    fresh = FENCE.sub(run, written)
    if request.config.getoption("--update-golden"):
        page.write_text(fresh, encoding="utf-8")
        written = fresh
    assert written == fresh


SHELL_LINES: Final = [(page, line) for page in PAGES for body in parts(page, "sh") for line in body.splitlines()]


def each_once(lines: Iterable[tuple[Path, str]]) -> Iterator[tuple[Path, str]]:
    """Each command on the first of the pages that have it."""
    seen: set[str] = set()
    for page, line in lines:
        command = line.partition(" #")[0].rstrip()
        if command not in seen:
            seen.add(command)
            yield page, line


def shape(line: str) -> tuple[str, ...]:
    """The command of abiscan in a line, and its options; a line without one is its own."""
    found = re.search(r"abiscan [^#]*", line)
    words = found[0].split()[1:] if found else [line]
    return (words[0], *sorted({word.partition("=")[0] for word in words[1:] if word.startswith("-")}))


def with_marks(lines: Iterable[tuple[Path, str]]) -> Iterator[Any]:
    """Each line; long if one before it, or a session, has the same command with the same options, or more."""
    sessions = (line for page in RUN for body in fences(page, "console") for line in body.splitlines())
    seen = [shape(line) for line in sessions if line.startswith("$ ")]
    for page, line in lines:
        command, *options = shape(line)
        marks = [pytest.mark.long] * any(command == other and {*options} <= {*more} for other, *more in seen)
        seen.append(shape(line))
        yield pytest.param(page, line, id=f"{name_of(page)}: {line}", marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "line"),
    [*with_marks((page, line) for page, line in each_once(SHELL_LINES) if not keys_of(page, line, NOT_RUN))],
)
def test_shell_lines_are_understood(page: Path, line: str, workshop: Workshop) -> None:
    code, printed = workshop.run(line, workshop.repository if page in IN_REPOSITORY else workshop.samples)
    assert code in (0, 1, 3), printed
    assert "internal error" not in printed


def test_the_tables_have_what_is_not_run_and_nothing_else() -> None:
    assert {key for page, line in SHELL_LINES for key in keys_of(page, line, NOT_RUN)} == NOT_RUN.keys()
    used = [keys_of(page, body, SHOWN) for page in PAGES for body in parts(page, "text")]
    assert sorted(used) == sorted([key] for key in SHOWN)


def test_the_line_of_the_guard() -> None:
    stamp = {"package": "pkg", "package_version": "1.0", "built_for": "2.6.0+cu124"}
    (said,) = parts(DOCS / "commands" / "guard.md", "text")
    assert said == f"ImportError: {guard._format_line(stamp, '2.13.0+cpu', '')}\n"


def test_the_json_of_a_model(workshop: Workshop) -> None:
    (excerpt,) = [body for body in parts(DOCS / "models.md", "text") if '"kind"' in body]
    said = json.loads(excerpt.replace(", …}", "}"))
    _, printed = workshop.run("abiscan check detector.pt --torch 2.13.0 --format json", workshop.samples)
    model = json.loads(printed)["packages"][0]
    assert said["operators"][0] in [{name: each[name] for name in said["operators"][0]} for each in model["operators"]]
    assert [said.pop("operators")[0]["name"]] == ["torchvision::nms"]
    assert {name: model[name] for name in said} == said


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
        if name not in ("pip", "uv", "poetry", "pdm", "pixi"):  # whose arguments are those of another program
            assert [word for word in own if word.startswith("-") and word.partition("=")[0] not in known] == [], line


def test_there_are_such_commands() -> None:
    lines = [line for page in PAGES for line in shell_lines(page)]
    assert len(lines) > 25
    assert "abiscan check {wheel} --torch declared" in lines


def test_every_command_is_run_somewhere() -> None:
    lines = [line for page in RUN for body in fences(page, "console") for line in body.splitlines()]
    words = [line.split()[2:] for line in lines if line.startswith("$ abiscan ")]
    run = {next(word for word in line if word in gen_docs.commands()) for line in words}
    # The others change a wheel or an environment; their lines are run without being compared.
    assert run == set(gen_docs.commands()) - {"stamp", "uv", "poetry", "pdm", "pixi"}


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
    rooms = "|".join(room for layer in gen_docs.rooms("abiscan") for room in layer)
    yield from re.findall(rf"`((?:{rooms})/[\w/]+)`", page.read_text("utf-8"))


def test_the_modules_of_the_design_exist() -> None:
    named = list(paths_in(DOCS / "design.md"))
    assert len(named) > 20
    package = Path(abiscan.__file__).parent
    assert [name for name in named if not ((package / name).is_dir() or (package / f"{name}.py").is_file())] == []
