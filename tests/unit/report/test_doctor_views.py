"""The state of an environment as text, HTML and SARIF."""

from __future__ import annotations

import io
import json
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import msgspec.structs
import pytest
from rich.console import Console

from abiscan.findings import Effect, Evidence, Finding
from abiscan.report import doctor_html, doctor_sarif, doctor_text
from abiscan.results.changes import PackageChange
from abiscan.results.doctor import (
    Ailment,
    Diagnosis,
    DistributionState,
    EnvironmentState,
    ImportTrial,
    ModuleState,
    Origin,
    ProblemKind,
    Remedy,
    TorchHealth,
)
from abiscan.results.package import PackageVerdict

SCHEMA = Path(__file__).resolve().parents[2] / "data" / "schemas" / "sarif-2.1.0-rtm.5.json"
COMMAND = "abiscan pip install vision==2"


def distribution(name: str, verdict: PackageVerdict, **fields: object) -> DistributionState:
    fields = {"modules": (), **fields}
    return DistributionState(name=name, version="1.0", origin=Origin.INDEX, verdict=verdict, **fields)  # type: ignore[arg-type]


def ailment(subject: str, because_of: str | None = None) -> Ailment:
    return Ailment(
        subject=subject,
        trouble=ProblemKind.BROKEN,
        effect=Effect.LOAD_FAILS,
        message="undefined symbol: <b>",
        extensions=("vision/_C.so",),
        commands=(COMMAND,),
        because_of=because_of,
    )


MODULES = (
    ModuleState(name="metrics", verdict=PackageVerdict.IMPORT_FAILS),
    ModuleState(name="fabric", verdict=PackageVerdict.WORKS),
)
DIAGNOSIS = Diagnosis(
    chosen="/venv (--python)",
    environment=EnvironmentState(python="3.11.7", executable="/venv/bin/python", root="/venv", others=3),
    torch=TorchHealth(version="2.13.0+cpu", imports=True),
    distributions=(
        distribution("good", PackageVerdict.WORKS, uses_torch=False, modules=MODULES),
        distribution("metrics", PackageVerdict.IMPORT_FAILS, error="OSError", cause="vision", modules=MODULES),
        distribution("vision", PackageVerdict.IMPORT_FAILS, error="ImportError: <script>"),
    ),
    process=(
        Finding(
            rule="openmp-runtimes",
            effect=Effect.NOTE,
            message="there are several OpenMP runtimes",
            evidence=(Evidence(subject="libomp.so"),),
            says="OMP: Error #15",
            fix="install one",
        ),
    ),
    ailments=(ailment("vision==1.0"), ailment("metrics==1.0", "vision")),
    way_out=(
        Remedy(
            remedies=("vision",),
            command=COMMAND,
            changes=(PackageChange(name="vision", before="1.0", after="2", requested=True),),
        ),
    ),
)


class Page(HTMLParser):
    """The elements that are open, and the text of the rows of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["th"]:
            self.text.append(data)


def test_a_page_names_what_fails_for_itself_first_and_each_command_once() -> None:
    text = doctor_html.render_page(DIAGNOSIS)
    page = Page()
    page.feed(text)
    assert (page.open, page.text) == ([], ["vision==1.0", "metrics==1.0", "good==1.0"])
    assert (text.count(f"<code>{COMMAND}</code>"), "ImportError: &lt;script&gt;" in text) == (1, True)
    assert "2 distributions use torch and require 1 other: 1 works, 2 fail &mdash; torch 2.13.0+cpu</p>" in text
    others = "3 other distributions do not use torch and were not examined"
    assert others in text
    assert "<td>import metrics<br>fails for vision<br>OSError</td>" in text
    written = io.StringIO()
    doctor_text.render_diagnosis(DIAGNOSIS, Console(file=written, width=120))
    assert "metrics==1.0 (import metrics) fails for the same reason" in written.getvalue()
    assert written.getvalue().splitlines()[2] == others
    assert "in part:\n  good==1.0 works but for metrics" in written.getvalue()


def test_lines_end_with_their_text_where_no_terminal_is() -> None:
    written = io.StringIO()
    doctor_text.render_diagnosis(DIAGNOSIS, Console(file=written, width=100_000))
    assert [line for line in written.getvalue().splitlines() if line != line.rstrip()] == []


def test_texts_are_lines_however_narrow_the_terminal_is() -> None:
    long = "word " * 30
    (process,) = DIAGNOSIS.process
    diagnosis = msgspec.structs.replace(
        DIAGNOSIS, process=(msgspec.structs.replace(process, message=f"a {long}", says=f"b {long}", fix=f"c {long}"),)
    )
    written = io.StringIO()
    doctor_text.render_diagnosis(diagnosis, Console(file=written, width=40))
    lines = [line.strip() for line in written.getvalue().splitlines()]
    assert [letter for letter in "abc" if not any(line.endswith(f"{letter} {long}".strip()) for line in lines)] == []


def test_what_was_looked_for_in_vain_is_what_has_no_command_and_no_other_reason() -> None:
    ailments = (
        *DIAGNOSIS.ailments,
        msgspec.structs.replace(ailment("lost==1.0"), commands=()),
        msgspec.structs.replace(ailment("kept==1.0"), commands=(), stays="it is a pin"),
        msgspec.structs.replace(ailment("follows==1.0", "lost"), commands=()),
        msgspec.structs.replace(ailment("unread==1.0"), commands=(), effect=None),
    )
    texts = []
    for unreachable in (None, "http://index"):
        written = io.StringIO()
        diagnosis = msgspec.structs.replace(DIAGNOSIS, ailments=ailments, unreachable=unreachable)
        doctor_text.render_diagnosis(diagnosis, Console(file=written, width=120))
        texts.append([line for line in written.getvalue().splitlines() if "look" in line])
    stays = "did not look for other versions of kept==1.0: it is a pin"
    nothing = "found no versions on the index that work together: looked for other versions of lost==1.0"
    unread = "did not look for versions that work, since an index cannot be read: http://index"
    assert texts == [[stays, nothing], [stays, unread]]


@pytest.mark.parametrize(
    ("unreachable", "last"),
    [
        (None, "no command is proposed: abiscan fit lost looks for versions of one package to the end"),
        ("http://index", "no command is proposed: run abiscan doctor again once the index can be read"),
    ],
)
def test_the_last_line_says_what_to_do_where_there_is_no_command(unreachable: str | None, last: str) -> None:
    stopped = "the search was stopped"
    ailments = (
        msgspec.structs.replace(ailment("follows==1.0", "lost"), commands=()),
        msgspec.structs.replace(ailment("lost==1.0"), commands=(), stays=stopped),
    )
    written = io.StringIO()
    diagnosis = msgspec.structs.replace(DIAGNOSIS, ailments=ailments, way_out=(), unreachable=unreachable)
    doctor_text.render_diagnosis(diagnosis, Console(file=written, width=120))
    assert written.getvalue().splitlines()[-1] == last


def test_a_page_of_a_torch_without_a_version() -> None:
    broken = msgspec.structs.replace(DIAGNOSIS, torch=TorchHealth(version=None, imports=False, error="OSError: <x>"))
    page = doctor_html.render_page(broken)
    assert "torch (unknown version)</p>" in page
    assert "torch itself cannot be imported</span> <code>OSError: &lt;x&gt;</code>" in page


def test_a_page_says_what_was_not_checked_and_why_nothing_is_proposed() -> None:
    broken, *_ = DIAGNOSIS.ailments
    unread = msgspec.structs.replace(broken, effect=None, cause="was built for <torch>", stays="it is a pin")
    healthy = msgspec.structs.replace(DIAGNOSIS, ailments=(), process=(), distributions=())
    page = doctor_html.render_page(msgspec.structs.replace(DIAGNOSIS, ailments=(broken, unread), unreachable="a <b>"))
    lines = [
        "<strong>error</strong> vision==1.0: undefined symbol: &lt;b&gt;",
        "<strong>unknown</strong> vision==1.0 was built for &lt;torch&gt;: undefined symbol: &lt;b&gt;<br>it is a pin",
        "<strong>note[openmp-runtimes]</strong> there are several OpenMP runtimes<br><code>OMP: Error #15</code>",
        "<p>no other versions were looked for: a &lt;b&gt;</p>",
        "<br>would change 1 package:<br>  - vision 1.0<br>  + vision 2              asked for</span>",
    ]
    assert [line for line in lines if line not in page] == []
    page = doctor_html.render_page(healthy)
    assert [line for line in ("What to type", "Causes", "Every process", "<table") if line in page] == []


def test_sarif_has_a_result_for_each_cause() -> None:
    log = json.loads(doctor_sarif.render_sarif(DIAGNOSIS))
    jsonschema.validate(log, json.loads(SCHEMA.read_text("utf-8")), cls=jsonschema.Draft7Validator)
    (run,) = log["runs"]
    assert [(item["ruleId"], item["level"]) for item in run["results"]] == [
        ("broken", "error"),
        ("openmp-runtimes", "note"),
    ]
    assert "for the same reason: metrics==1.0" in run["results"][0]["message"]["text"]
    (location,) = run["results"][0]["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"].rstrip("/").endswith("/venv")
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[item["ruleIndex"]]["id"] == item["ruleId"] for item in run["results"])


def test_imports_that_were_tried_and_came_to_something_else() -> None:
    modules = (
        ModuleState(name="untried", verdict=PackageVerdict.WORKS),
        ModuleState(
            name="right", verdict=PackageVerdict.IMPORT_FAILS, imported=ImportTrial(works=False, error="OSError")
        ),
        ModuleState(name="endless", verdict=PackageVerdict.WORKS, imported=ImportTrial(works=None)),
        ModuleState(name="wrong", verdict=PackageVerdict.WORKS, imported=ImportTrial(works=False)),
        ModuleState(name="better", verdict=PackageVerdict.IMPORT_FAILS, error="E", imported=ImportTrial(works=True)),
    )
    state = distribution("vision", PackageVerdict.IMPORT_FAILS, modules=modules)
    written = io.StringIO()
    diagnosis = msgspec.structs.replace(DIAGNOSIS, distributions=(state,))
    doctor_text.render_diagnosis(diagnosis, Console(file=written, width=120))
    lines = written.getvalue().splitlines()
    report = "  (names of packages and their files, nothing else): abiscan --trace FILE check vision"
    different = "  the prediction was different ({}): please report it, with the file that this writes"
    first = next(number for number, line in enumerate(lines) if "right: fails: OSError" in line)
    assert [line.removeprefix("  ") for line in lines[first : first + 8]] == [
        *("right: fails: OSError", "endless: unknown", "wrong: fails", different.format("works"), report),
        *("better: works", different.format("E"), report),
    ]
