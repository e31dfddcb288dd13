"""What users reported in public of packages with a torch, against what abiscan says of them: right, unknown or wrong.

``tests/oracle/reports.jsonl`` has one report a line: where it is, the package and the torch, what was done, what
happened, and what abiscan should answer. A line with "(way out)" has what helped. The wheels are downloaded with pip
into the folder that ``ABISCAN_CORPUS`` names, and stay there.

An answer is right if its verdict is one that the report admits, and if it has the words of what happened. "unknown" and
an error that says why there is no answer are counted apart, and so is one that takes more than five minutes. Anything
else is wrong.

    python -m tools.report_cases                              # all reports: downloads 2 GB, takes minutes
    python -m tools.report_cases pytorch/text#2272            # some of them
    python -m tools.report_cases --cases FOLDER               # what lies in FOLDER instead: cases made small
    python -m tools.report_cases --record result.json         # writes the answers, too

``tests/oracle/small_cases.jsonl`` says what is true of the cases of such a folder: the arguments of each, to be run
there, and what they should answer. ``{python}`` stands for a Python with torch 2.13.0: the one that runs this.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from tools.wheels import download, download_for

_ORACLE: Final = Path(__file__).resolve().parent.parent / "tests" / "oracle"
REPORTS: Final = _ORACLE / "reports.jsonl"
SMALL_CASES: Final = _ORACLE / "small_cases.jsonl"
_SECONDS: Final = 300
TOO_SLOW: Final = "too slow"
"""The verdict where the answer takes longer."""
_Row = TypeVar("_Row", bound="Truth")


class Score(str, Enum):
    """How an answer compares with the truth."""

    RIGHT = "right"
    UNKNOWN = "unknown"
    WRONG = "wrong"


class Truth(Struct, frozen=True, kw_only=True):
    """What abiscan should answer.

    :ivar verdict: those that the facts admit; for a command without one, its exit code
    :ivar says: what the answer must have
    :ivar silent: what it must not have
    """

    verdict: tuple[str, ...]
    says: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()


class Report(Truth, frozen=True, kw_only=True):
    """A public report.

    :ivar report: repository and number
    :ivar package: ``name==version``
    :ivar did: what its user did
    :ivar happened: the exception, in its own words, or what users saw of it
    :ivar platform: the tag of the wheel, where it is not for Linux on x86_64
    :ivar source: whether the index has no wheel, so that abiscan is given the requirement
    """

    report: str
    kind: str
    package: str
    python: str
    torch: str
    did: str
    happened: str
    command: str = "check"
    options: tuple[str, ...] = ()
    platform: str | None = None
    source: bool = False

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.report}: {self.package} on torch {self.torch}"


class SmallCase(Truth, frozen=True, kw_only=True):
    """A case in a folder.

    :ivar case: its folder, below the one that is given
    :ivar arguments: of abiscan, run in that folder; a pattern stands for the file that matches it
    :ivar beside: folders of installed packages, for the Python of the command
    """

    case: str
    arguments: tuple[str, ...]
    beside: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What it is called."""
        return f"{self.case}: abiscan {' '.join(self.arguments)}"


class Answer(Struct, frozen=True, kw_only=True):
    """What abiscan said.

    :ivar verdict: of the package, or of the worst of its files; the exit code of a command that has none
    :ivar text: all that it said
    """

    verdict: str
    text: str


def score(truth: Truth, answer: Answer) -> Score:
    """Compare an answer with the truth."""
    if answer.verdict in truth.verdict:
        said = all(words in answer.text for words in truth.says) and not any(w in answer.text for w in truth.silent)
        return Score.RIGHT if said else Score.WRONG
    return Score.UNKNOWN if answer.verdict in ("unknown", "no answer", TOO_SLOW) else Score.WRONG


def read_answer(code: int, output: str, error: str) -> Answer:
    """Read what a run of abiscan with ``--format json`` printed."""
    document: dict[str, Any] = json.loads(output) if output.startswith("{") else {}
    results = [result["verdict"] for result in document.get("results", ()) if "verdict" in result]
    if packages := document.get("packages"):
        verdict = packages[0]["verdict"]
    elif results:
        verdict = next((worst for worst in ("fails", "corrupts", "unknown") if worst in results), results[0])
    else:
        verdict = "no answer" if code in (2, 3) else str(code)
    return Answer(verdict=verdict, text="\n".join((json.dumps(document, ensure_ascii=False), error)))


def ask(arguments: Sequence[str], folder: Path, beside: Iterable[Path] = ()) -> Answer:
    """Run abiscan in a folder."""
    try:
        process = subprocess.run(
            [sys.executable, "-m", "abiscan", *arguments, "--format", "json"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, beside)), "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(verdict=TOO_SLOW, text="")
    return read_answer(process.returncode, process.stdout, process.stderr)


def ask_report(report: Report, folder: Path) -> Answer:
    """Run abiscan on the wheel of a report, which is downloaded if need be."""
    target = report.package if report.source else str(_wheel(report, folder))
    return ask([report.command, target, "--torch", report.torch, *report.options], folder)


def ask_small(case: SmallCase, folder: Path) -> Answer:
    """Run abiscan on a case of a folder."""
    place = folder / case.case
    arguments = [_resolved(argument, place) for argument in case.arguments]
    return ask(arguments, place, [place / beside for beside in case.beside])


def _resolved(argument: str, folder: Path) -> str:
    if argument == "{python}":
        return sys.executable
    return next((str(path) for path in folder.glob(argument)), argument) if "*" in argument else argument


def _wheel(report: Report, folder: Path) -> Path:
    name, _, version = report.package.partition("==")
    place = folder / "reports" / f"{name}-{version}-{report.python}-{report.platform or 'linux'}"
    place.mkdir(parents=True, exist_ok=True)
    path = next(place.glob("*.whl"), None)
    if path is None and report.platform:
        path = download_for(report.package, place, (report.platform,), python=report.python)
    elif path is None:
        path = download(report.package, place, python=report.python)
    if path is None:
        raise SystemExit(f"{report.name}: there is no wheel")
    return path


def main() -> int:
    """Print what is not right, and the numbers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="*", metavar="REPOSITORY#NUMBER", help="only these reports")
    parser.add_argument("--cases", type=Path, metavar="FOLDER", help="the cases that lie there, made small, instead")
    parser.add_argument("--record", type=Path, metavar="FILE", help="also write the answers, one line each")
    arguments = parser.parse_args()
    corpus = Path(os.environ.get("ABISCAN_CORPUS") or tempfile.mkdtemp(prefix="reports-"))
    counts: Counter[Score] = Counter()
    lines = []
    for name, truth, answer in _answers(arguments.reports, corpus.resolve(), arguments.cases):
        result = score(truth, answer)
        counts[result] += 1
        lines.append(json.dumps({"case": name, "score": result.value, "verdict": answer.verdict}, ensure_ascii=False))
        if result is not Score.RIGHT:
            missing = [words for words in truth.says if words not in answer.text]
            unsaid = f", without {', '.join(missing)}" if missing and answer.verdict in truth.verdict else ""
            print(f"{result.value}: {name}: {answer.verdict}{unsaid}; true is {' or '.join(truth.verdict)}", flush=True)
    print(", ".join(f"{counts[one]} {one.value}" for one in Score))
    if arguments.record:
        arguments.record.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return 1 if counts[Score.WRONG] else 0


def _answers(chosen: Sequence[str], corpus: Path, cases: Path | None) -> Iterator[tuple[str, Truth, Answer]]:
    for report in read(REPORTS, Report):
        if report.report in chosen or not (chosen or cases):
            yield report.name, report, ask_report(report, corpus)
    if cases is not None:
        for case in read(SMALL_CASES, SmallCase):
            if not (cases / case.case).is_dir():
                raise SystemExit(f"{cases / case.case}: there is no such folder")
            yield case.name, case, ask_small(case, cases.resolve())


def read(path: Path, type_: type[_Row]) -> list[_Row]:
    """Return the rows of a record."""
    return [msgspec.json.decode(line, type=type_) for line in path.read_bytes().splitlines()]


if __name__ == "__main__":
    sys.exit(main())
