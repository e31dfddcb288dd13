"""Asks the commands the same questions in different circumstances, and compares what they answer, byte for byte.

    python -m tests.commands.same_bytes                                # all samples: hours of processor time
    python -m tests.commands.same_bytes WHEEL… --torch 2.13.0          # real wheels
    python -m tests.commands.same_bytes --only matrix FILE.so

Each question is asked once with an empty cache, one process after the other; that answer is what all others are
compared with: stdout, stderr, the exit code, and the files that are written. Targets are also asked about in another
order, and each alone: then the parts of the JSON about each target are compared. ``check`` is left out of that, since
its targets are loaded into one process in their order. Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.commands.processes import ABISCAN, run
from tests.index_server import serving

SAMPLES: Final = Path(__file__).parents[2] / "sample_binaries"
WITH_JOBS: Final = frozenset({"check", "matrix", "ops", "survey"})

_PLACE: Final = "{folder}"  # in a question: a folder that is there for the answer
_WITHOUT_OVERRIDE: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE: or else root could write everywhere
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One command line: ``words`` begin with the command, and ``{folder}`` in them is a folder to write to."""

    words: tuple[str, ...]

    @property
    def command(self) -> str:
        """The name of the command."""
        return self.words[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstance:
    """What must not matter.

    :param cache: ``new``, ``kept`` (of the first answer), ``read-only`` (the same), ``none``
    :param jobs: the number of processes, for commands that have the option
    :param options: those before the command
    :param here: whether it runs in the current folder, not in another one
    :param ascii_only: whether stdout cannot have other characters
    :param is_wide: whether it matters for people, who see lines of another width, and for nobody else
    """

    name: str
    cache: str = "new"
    jobs: int = 2
    options: tuple[str, ...] = ()
    variables: Mapping[str, str | None] = field(default_factory=dict)
    here: bool = True
    ascii_only: bool = False
    is_wide: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a command answers: ``files`` are those that it wrote, by name."""

    code: int
    out: str
    err: str
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """An answer that differs from the first one."""

    question: Question
    circumstance: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([f"--- {self.circumstance}: abiscan {' '.join(self.question.words)}", *self.lines])


_C_LOCALE: Final = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

FIRST: Final = Circumstance(name="first", jobs=1, variables={"PYTHONHASHSEED": "0"})

CIRCUMSTANCES: Final = (
    Circumstance(name="kept", cache="kept"),
    Circumstance(name="kept, third time", cache="kept", jobs=1),
    Circumstance(name="two jobs"),
    Circumstance(name="three jobs", jobs=3),
    Circumstance(name="not isolated", options=("--no-isolation",)),
    Circumstance(name="not isolated, kept", cache="kept", options=("--no-isolation",)),
    Circumstance(name="hash seed 1", jobs=1, variables={"PYTHONHASHSEED": "1"}),
    Circumstance(name="hash seed 2", variables={"PYTHONHASHSEED": "2"}),
    Circumstance(name="hash seed 2, kept", cache="kept", variables={"PYTHONHASHSEED": "2"}),
    Circumstance(name="elsewhere", here=False),
    Circumstance(name="C locale", variables=_C_LOCALE, ascii_only=True),
    Circumstance(name="C locale, kept", cache="kept", variables=_C_LOCALE, ascii_only=True),
    Circumstance(name="time zone", variables={"TZ": "Pacific/Kiritimati"}),
    Circumstance(name="terminal", variables={"LINES": "7", "TERM": "dumb"}),
    Circumstance(name="columns", variables={"COLUMNS": "40"}, is_wide=True),
    Circumstance(name="read-only cache", cache="read-only"),
    Circumstance(name="no cache", cache="none"),
    Circumstance(name="no cache, one job", cache="none", jobs=1),
    Circumstance(name="traced", cache="kept", options=("--trace", os.devnull)),
)
"""Each cause alone, for the slow run."""

TOGETHER: Final = (
    Circumstance(
        name="everything new",
        options=("--no-isolation",),
        variables={**_C_LOCALE, "PYTHONHASHSEED": "3", "TZ": "Asia/Kathmandu"},
        here=False,
        ascii_only=True,
    ),
    Circumstance(name="kept", cache="kept", variables={"PYTHONHASHSEED": "4"}),
    Circumstance(name="two jobs, no cache", cache="none", variables={"PYTHONHASHSEED": "5"}),
    Circumstance(name="traced", cache="kept", variables={"PYTHONHASHSEED": "6", "ABISCAN_TRACE": os.devnull}),
)
"""Many causes at once, for the tests."""


def differences(
    questions: Iterable[Question],
    circumstances: Sequence[Circumstance] = CIRCUMSTANCES,
    said: Callable[[str], None] = lambda _: None,
) -> Iterator[Difference]:
    """The answers that differ from the first one.

    :param said: is called with each answer that was compared
    """
    for question in questions:
        with tempfile.TemporaryDirectory(prefix="same-") as folder:
            cache = Path(folder)
            first = ask(question, FIRST, cache)
            for circumstance in circumstances:
                if circumstance.is_wide and "json" not in question.words:
                    continue
                answer = ask(question, circumstance, cache)
                said(f"{question.command}: {circumstance.name}")
                if lines := tuple(_compared(_as_seen(first, circumstance), answer)):
                    yield Difference(question=question, circumstance=circumstance.name, lines=lines)


def ask(question: Question, circumstance: Circumstance, kept: Path) -> Answer:
    """The answer to a question.

    :param kept: the cache of the first answer
    """
    with tempfile.TemporaryDirectory(prefix="same-") as name, _cache(circumstance.cache, kept) as cache:
        folder = Path(name)
        written, elsewhere = folder / "written", folder / "elsewhere"
        written.mkdir()
        elsewhere.mkdir()
        jobs = ["--jobs", str(circumstance.jobs)] if question.command in WITH_JOBS else []
        words = [word.replace(_PLACE, str(written)) for word in question.words]
        is_read_only = circumstance.cache == "read-only"
        finished = run(
            *(*circumstance.options, *words, *jobs),
            cwd=None if circumstance.here else elsewhere,
            env={"XDG_CACHE_HOME": str(cache), "COLUMNS": "100", "ABISCAN_TRACE": None, **circumstance.variables},
            command=(sys.executable, "-c", _WITHOUT_OVERRIDE, *ABISCAN) if is_read_only else ABISCAN,
        )
        out, err = (text.replace(str(written), _PLACE) for text in (finished.out, finished.err))
        files = {path.name: path.read_text("utf-8", "surrogateescape") for path in sorted(written.iterdir())}
    return Answer(code=finished.code, out=out, err=err, files=files)


@contextlib.contextmanager
def _cache(kind: str, kept: Path) -> Iterator[Path]:
    """The folder to pass as that of the user's caches."""
    if kind == "none":
        yield Path(os.devnull)
    elif kind == "new" and any(kept.iterdir()):
        with tempfile.TemporaryDirectory(prefix="same-") as folder:
            yield Path(folder)
    elif kind == "read-only":
        shutil.copytree(kept, kept.with_suffix(".read-only"))
        try:
            for path in [kept.with_suffix(".read-only"), *kept.with_suffix(".read-only").rglob("*")]:
                path.chmod(0o500 if path.is_dir() else 0o400)
            yield kept.with_suffix(".read-only")
        finally:
            for path in [kept.with_suffix(".read-only"), *kept.with_suffix(".read-only").rglob("*")]:
                path.chmod(0o700)
            shutil.rmtree(kept.with_suffix(".read-only"))
    else:
        yield kept


def _as_seen(answer: Answer, circumstance: Circumstance) -> Answer:
    """What an answer becomes where only some characters can be written."""
    if not circumstance.ascii_only:
        return answer
    out, err = (text.encode("ascii", "backslashreplace").decode() for text in (answer.out, answer.err))
    return Answer(code=answer.code, out=out, err=err, files=answer.files)


def _compared(first: Answer, other: Answer) -> Iterator[str]:
    if first.code != other.code:
        yield f"exit code {first.code} became {other.code}"
    texts = {"stdout": (first.out, other.out), "stderr": (first.err, other.err)}
    for name in sorted({*first.files, *other.files}):
        texts[name] = first.files.get(name, ""), other.files.get(name, "")
    for name, (before, after) in texts.items():
        if before != after:
            changed = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, "", "", 0, "")
            yield from [line[:400] for line in changed][:30] or [f"{name}: the line ends differ"]


def in_other_order(question: Question, targets: Sequence[str], *, alone: bool = True) -> Iterator[Difference]:
    """The targets about which the JSON says something else in another order of the targets, or if asked alone.

    :param question: without the targets; its answer is one document, or lines of a file
    """
    with tempfile.TemporaryDirectory(prefix="same-") as folder:

        def parts(order: Sequence[str]) -> dict[str, list[str]]:
            asked = Question(words=(*question.words, *order))
            return _by_target(ask(asked, Circumstance(name="", cache="none"), Path(folder)))

        first = parts(targets)
        orders = {"the other way round": [*reversed(targets)]}
        if alone:
            orders.update({f"alone: {target}": [target] for target in targets})
        for name, order in orders.items():
            other = parts(order)
            expected = {target: part for target, part in first.items() if name[:5] != "alone" or target in other}
            lines = [
                line[:400]
                for target in sorted({*expected, *other})
                for line in difflib.unified_diff(expected.get(target, []), other.get(target, []), target, target, n=0)
            ]
            if lines:
                yield Difference(question=question, circumstance=name, lines=tuple(lines[:30]))


def _by_target(answer: Answer) -> dict[str, list[str]]:
    """The parts of a JSON document, or of the lines in files, by the name of the target that they are about."""
    texts = [line for text in answer.files.values() for line in text.splitlines()] or [answer.out]
    parts: dict[str, list[str]] = {}

    def add(value: object) -> None:
        if isinstance(value, dict) and "target" in value:
            parts.setdefault(Path(value["target"]).name, []).append(json.dumps(value))
        elif isinstance(value, dict | list):
            for inner in value.values() if isinstance(value, dict) else value:
                add(inner)

    for text in texts:
        document: Any = json.loads(text)
        add(document)
    return parts


def questions_about(targets: Sequence[str], torch: str, other: str) -> Iterator[Question]:
    """What can be asked about targets, and about two releases of torch, in text and as JSON."""
    for each in (targets, *([target] for target in targets if len(targets) > 1)):
        reports = [("--report", f"{form}={_PLACE}/{form}") for form in ("json", "sarif", "github", "markdown")]
        yield Question(words=("check", *each, "--torch", torch, *(word for report in reports for word in report)))
        yield Question(words=("check", *each, "--torch", torch, "--format", "json", "--each-file", "-v"))
        for form in ("text", "json", "html"):
            yield Question(words=("matrix", *each, "--format", form))
        for form in ("text", "json"):
            yield Question(words=("stable", *each, "--format", form))
    for target in targets:
        for form in ("text", "json"):
            yield Question(words=("ops", target, "--format", form))
            yield Question(words=("coverage", target, "--torch", torch, "--format", form))
            yield Question(words=("diff", other, torch, "--used-by", target, "--format", form))
    yield Question(words=("survey", *targets, "--torch", torch, "--torch", other, "--output", f"{_PLACE}/lines"))


def questions_without_targets(torch: str, other: str) -> Iterator[Question]:
    """What is asked about two releases of torch alone."""
    for form in ("text", "json"):
        yield Question(words=("diff", other, torch, "--format", form))
        yield Question(words=("ops", "--torch", torch, "--format", form))


def questions_about_environment(python: Path) -> Iterator[Question]:
    """What is asked about an environment."""
    for form in ("text", "json"):
        yield Question(words=("doctor", "--python", str(python), "--format", form))
        yield Question(words=("stable", "--env", "--python", str(python), "--format", form))


def questions_about_index(url: str, packages: Sequence[str], torch: str) -> Iterator[Question]:
    """What is asked of an index."""
    for form in ("text", "json"):
        words = "--index-url", url, "--python-version", "3.11", "--platform", "linux_x86_64"
        yield Question(words=("fit", *packages, "--torch", torch, *words, "--format", form))


def main() -> int:
    """Ask everything, and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all samples, folder by folder")
    parser.add_argument("--torch", default="2.13.0")
    parser.add_argument("--other", default="2.9.1", metavar="TORCH", help="the older one of two")
    parser.add_argument("--python", type=Path, metavar="EXE", help="an environment for doctor")
    parser.add_argument("--index", type=Path, metavar="FOLDER", help="wheels of an index for fit")
    parser.add_argument("--package", action="append", default=[], metavar="NAME", help="a package on it")
    parser.add_argument("--only", action="append", default=[], metavar="COMMAND")
    parser.add_argument("--together", action="store_true", help="many causes at once, as in the tests")
    chosen = parser.parse_args()
    groups = [[str(Path(target).resolve()) for target in chosen.targets]] if chosen.targets else list(_samples())
    circumstances = TOGETHER if chosen.together else CIRCUMSTANCES
    compared, count = 0, 0

    def said(_: str) -> None:
        nonlocal compared
        compared += 1

    with contextlib.ExitStack() as stack:
        questions = [each for group in groups for each in questions_about(group, chosen.torch, chosen.other)]
        questions += questions_without_targets(chosen.torch, chosen.other)
        if chosen.python:
            questions += questions_about_environment(chosen.python.absolute())
        if chosen.index:
            url = stack.enter_context(serving(chosen.index)).url
            questions += questions_about_index(url, chosen.package, chosen.torch)
        asked = [each for each in questions if not chosen.only or each.command in chosen.only]
        for difference in differences(asked, circumstances, said):
            count += 1
            print(difference, flush=True)
        survey = ("survey", "--torch", chosen.torch, "--output", f"{_PLACE}/lines")
        for group in groups:
            for words in (("matrix", "--format", "json"), ("stable", "--format", "json"), survey):
                if chosen.only and words[0] not in chosen.only:
                    continue
                for difference in in_other_order(Question(words=words), group):
                    count += 1
                    print(difference, flush=True)
    print(f"{compared} answers compared, {count} differ")
    return 1 if count else 0


def _samples() -> Iterator[list[str]]:
    """The samples, those of a folder together."""
    for folder in sorted(path for path in SAMPLES.iterdir() if path.is_dir()):
        if files := sorted(str(path.resolve()) for path in folder.rglob("*.so")):
            yield files


if __name__ == "__main__":
    sys.exit(main())
