"""A survey: every answer that ``check`` gives, each once, whatever happens in between."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import abiscan
from abiscan.cli import main
from abiscan.pipelines import cluster as cluster_module
from abiscan.pipelines.survey import Surveyed, SurveyTask, SurveyTorches, check_task, run_survey
from abiscan.results.survey_file import SurveyFile
from abiscan.verdict.torch_set import TorchSet
from tests.schemas import validate

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).resolve().parents[3] / "sample_binaries"
WHEEL = SAMPLES / "wheels/abiscan_sample-1.0-py3-none-linux_x86_64.whl"
LOADS = SAMPLES / "loads/loads.so"
FAILS = SAMPLES / "undefined_symbol_signature/undefined_symbol_signature.so"
TORCHES = ("2.12.1", "2.13.0")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def in_order(path: Path) -> list[str]:
    return sorted(path.read_text("utf-8").splitlines())


def run(*words: object) -> int:
    result = CliRunner().invoke(main, ["survey", *map(str, words), "-q"])
    assert "Traceback" not in result.output
    return result.exit_code


@pytest.fixture
def targets(tmp_path: Path) -> Path:
    """Copies of an extension, a wheel deeper in the folder, and the list of them."""
    for number in range(6):
        shutil.copy(LOADS if number % 2 else FAILS, tmp_path / f"{number}.so")
    tmp_path.joinpath("deep/er").mkdir(parents=True)
    shutil.copy(WHEEL, tmp_path / "deep/er" / WHEEL.name)
    listed = [*sorted(tmp_path.glob("*.so")), tmp_path / "deep"]
    list_file = tmp_path / "targets.txt"
    list_file.write_text("# extensions\n\n" + "".join(f"{path}\n" for path in listed))
    return list_file


def test_a_survey_answers_as_check_does(targets: Path, tmp_path: Path) -> None:
    output = tmp_path / "results.jsonl"
    assert run(targets, "--torch", TORCHES[0], "--torch", TORCHES[1], "--output", output, "--jobs", 1) == 1
    found = lines(output)
    assert len(found) == 14
    for line in found:
        validate(line, "survey")
        alone = json.loads(abiscan.check(line["target"], line["torch"]).to_json())
        packages = [line["package"]] if line["package"] else []
        assert {"packages": packages, "results": line["results"]} == {
            key: alone[key] for key in ("packages", "results")
        }
    by_name = {(Path(line["target"]).name, line["torch"]): line["verdict"] for line in found}
    assert {by_name["0.so", torch] for torch in TORCHES} == {"fails"}
    assert {by_name["1.so", torch] for torch in TORCHES} == {"loads"}
    assert (WHEEL.name, "2.13.0") in by_name


def test_the_summary_lists_what_works_and_what_does_not(targets: Path, tmp_path: Path) -> None:
    output = tmp_path / "results.jsonl"
    words = ["survey", str(targets), "--torch", "2.13.0", "--torch", "2.12.1", "--output", str(output), "--jobs", "1"]
    printed = CliRunner().invoke(main, words).stdout
    text = printed.partition("loads\n")[2]
    assert text.startswith(f"{'':12}1.so on torch 2.12.1-2.13.0\n{'':12}3.so on torch 2.12.1-2.13.0\n")
    failing = printed.partition("  fails\n")[2].partition("\n")[0]
    assert failing.startswith(f"{'':12}0.so on torch 2.12.1-2.13.0: ")
    assert "undefined symbol" in failing


def test_what_cannot_be_read_has_an_answer_too(tmp_path: Path) -> None:
    damaged, absent = tmp_path / "damaged.whl", tmp_path / "absent.so"
    damaged.write_bytes(WHEEL.read_bytes()[:1000])
    output = tmp_path / "results.jsonl"
    assert run(damaged, absent, LOADS, "--torch", "2.13.0", "--output", output, "--jobs", 1) == 2
    by_name = {Path(line["target"]).name: line for line in lines(output)}
    assert {name: line["verdict"] for name, line in by_name.items()} == {
        "damaged.whl": "unreadable",
        "absent.so": "unreadable",
        "loads.so": "loads",
    }
    assert by_name["absent.so"]["unchecked"]["problem"] == "does not exist"


def test_an_interrupted_survey_goes_on_where_it_was(targets: Path, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole.jsonl", tmp_path / "part.jsonl"
    words = (targets, "--torch", "2.13.0", "--jobs", 1)
    run(*words, "--output", whole)
    first = whole.read_text("utf-8").splitlines(keepends=True)
    part.write_text("".join(first[:3]) + first[3][:100], "utf-8")
    run(*words, "--output", part)
    assert part.read_text("utf-8").startswith("".join(first[:3]))
    assert in_order(part) == in_order(whole)
    before = part.read_bytes()
    run(*words, "--output", part)
    assert part.read_bytes() == before


def test_the_answers_end_up_in_the_order_of_the_targets(tmp_path: Path) -> None:
    targets = [tmp_path / f"{number}.so" for number in range(3)]
    for target in targets:
        shutil.copy(LOADS, target)
    alone, whole, real = tmp_path / "alone.jsonl", tmp_path / "whole.jsonl", tmp_path / "real.jsonl"
    real.touch(0o640)
    whole.symlink_to(real)
    torches = [word for torch in TORCHES for word in ("--torch", torch)]
    assert run(targets[2], *torches, "--output", whole, "--jobs", 1) == 0
    assert run(*targets, *torches, "--output", whole, "--jobs", 2) == 0
    assert run(*targets, *torches, "--output", alone, "--jobs", 1) == 0
    assert [(Path(line["target"]).name, line["torch"]) for line in lines(whole)] == [
        (target.name, torch) for target in targets for torch in TORCHES
    ]
    assert whole.read_bytes() == alone.read_bytes()
    assert whole.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert sorted(path.name for path in tmp_path.glob("*.*")) == sorted(
        ["0.so", "1.so", "2.so", "alone.jsonl", "real.jsonl", "whole.jsonl"]
    )


def test_a_file_that_changed_is_checked_again(tmp_path: Path) -> None:
    target, output = tmp_path / "one.so", tmp_path / "results.jsonl"
    for source in (LOADS, FAILS):
        shutil.copy(source, target)
        run(target, "--torch", "2.13.0", "--output", output, "--jobs", 1)
    assert [line["verdict"] for line in lines(output)] == ["loads", "fails"]
    summary = abiscan.survey([target], "2.13.0", output=output, jobs=1)
    assert [entry.verdict for entry in summary.entries] == ["fails"]


def test_the_output_of_something_else_is_not_touched(tmp_path: Path) -> None:
    output = tmp_path / "notes.txt"
    for text in ("my notes\n", '{"version": 1}\n', "[" * 100_000 + "\n", '{"version": 1, "tool": 3}\n'):
        output.write_text(text)
        assert run(LOADS, "--torch", "2.13.0", "--output", output) == 2
        assert output.read_text() == text


def test_two_surveys_do_not_write_to_one_file(tmp_path: Path) -> None:
    output = tmp_path / "results.jsonl"
    with SurveyFile.open_answers(output):
        result = CliRunner().invoke(main, ["survey", str(LOADS), "--torch", "2.13.0", "--output", str(output)])
    assert result.exit_code == 2
    assert "another survey is writing to it" in result.stderr


class Mortal:
    """Workers in this process, of which some die."""

    slots = 2
    reads_here = True

    class DiedError(Exception):
        """A worker's process ended."""

    lost = (DiedError,)

    def __init__(self, deadly: str, lives: int) -> None:
        self.deadly, self.lives, self.renewed = deadly, lives, 0

    def submit_task(self, task: SurveyTask, slot: int) -> Future[Surveyed]:  # noqa: ARG002
        future: Future[Surveyed] = Future()
        if Path(task.target).name == self.deadly and self.lives:
            self.lives -= 1
            future.set_exception(self.DiedError())
        else:
            future.set_result(check_task(task))
        return future

    def renew_slot(self, slot: int) -> None:  # noqa: ARG002
        self.renewed += 1


@pytest.mark.parametrize(("lives", "verdict"), [(1, "loads"), (2, "unknown")])
def test_a_target_whose_process_ends_is_tried_once_more(lives: int, verdict: str, tmp_path: Path) -> None:
    workers, output = Mortal("loads.so", lives), tmp_path / "results.jsonl"
    torches = SurveyTorches(specs=("2.13.0",), python=None)
    with SurveyFile.open_answers(output) as answers:
        run_survey([str(LOADS), str(FAILS)], torches, ("2.13.0",), workers, answers, lambda _done, _total: None)
    by_name = {Path(line["target"]).name: line["verdict"] for line in lines(output)}
    assert by_name == {"loads.so": verdict, FAILS.name: "fails"}
    assert workers.renewed == lives


def test_targets_are_counted_as_they_are_answered(tmp_path: Path) -> None:
    torches, counted = SurveyTorches(specs=("2.13.0",), python=None), list[tuple[int, int]]()
    with SurveyFile.open_answers(tmp_path / "results.jsonl") as answers:
        for targets in ([LOADS], [LOADS, FAILS]):  # the second time, one is answered already
            names = [str(target) for target in targets]
            run_survey(names, torches, ("2.13.0",), Mortal("", 0), answers, lambda *count: counted.append(count))
    assert counted == [(1, 1), (1, 2), (2, 2)]


def children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_nothing_is_lost_when_processes_are_killed(targets: Path, tmp_path: Path) -> None:
    """A worker is killed, then the survey itself; run again, it is complete, with each answer once."""
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    words = [str(targets), "--torch", "2.13.0", "--jobs", "2"]
    run(*words, "--output", whole)
    program = [sys.executable, "-m", "abiscan", "survey", *words, "--output", str(killed), "-q"]
    process = subprocess.Popen(program, start_new_session=True)
    deadline = time.monotonic() + 60
    while not (killed.exists() and killed.read_bytes().count(b"\n")) and time.monotonic() < deadline:
        time.sleep(0.01)
    for child in children(process.pid):
        os.kill(child, signal.SIGKILL)
        break
    while killed.read_bytes().count(b"\n") < 3 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    run(*words, "--output", killed)
    assert in_order(killed) == in_order(whole)


@pytest.fixture
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed", reason="needs dask.distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        yield cluster


@pytest.mark.long
@pytest.mark.filterwarnings("default")
def test_a_cluster_gives_the_same_answers(cluster: Any, targets: Path, tmp_path: Path) -> None:
    whole, shared = tmp_path / "whole.jsonl", tmp_path / "shared.jsonl"
    run(targets, "--torch", "2.13.0", "--output", whole, "--jobs", 1)
    run(targets, "--torch", "2.13.0", "--output", shared, "--scheduler", cluster.scheduler_address)
    assert in_order(shared) == in_order(whole)


def test_workers_on_other_machines_get_the_content() -> None:
    """A worker that has no such file, or another one at that path, asks for it; with it, the answer is the same."""
    torches = SurveyTorches(specs=("2.13.0",), python=None)
    here = SurveyTask(target=str(LOADS), torches=torches, names=("2.13.0",))
    (line,) = check_task(here).lines
    sha256 = json.loads(line)["sha256"]
    away = SurveyTask(target=f"/elsewhere/{LOADS.name}", torches=torches, names=("2.13.0",), sha256=sha256)
    assert check_task(away) == Surveyed(absent=True)
    other = SurveyTask(target=str(FAILS), torches=torches, names=("2.13.0",), sha256=sha256)
    assert check_task(other) == Surveyed(absent=True)
    content = SurveyTask(
        target=away.target, torches=torches, names=("2.13.0",), sha256=sha256, content=LOADS.read_bytes()
    )
    (sent,) = check_task(content).lines
    assert sent == line.replace(str(LOADS), away.target)


def test_an_answer_is_kept_until_the_target_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x.so"
    shutil.copy(LOADS, target)
    time.sleep(0.05)  # a change in the same tick of the clock would not show
    task = SurveyTask(target=str(target), torches=SurveyTorches(specs=("2.13.0",), python=None), names=("2.13.0",))
    judged: list[object] = []
    judge_it = TorchSet.check

    def counted(torch_set: TorchSet, *words: Any) -> object:
        judged.append(words)
        return judge_it(torch_set, *words)

    monkeypatch.setattr(TorchSet, "check", counted)
    first = check_task(task)
    assert (check_task(task), len(judged)) == (first, 1)
    target.write_bytes(LOADS.read_bytes())  # the same bytes, in a file of another time
    assert (check_task(task), len(judged)) == (first, 1)
    target.write_bytes(FAILS.read_bytes())
    assert json.loads(check_task(task).lines[0])["verdict"] == "fails"
    assert len(judged) == 2


def test_an_answer_that_is_an_error_of_abiscan_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a bug")

    task = SurveyTask(target=str(LOADS), torches=SurveyTorches(specs=("2.12.0",), python=None), names=("2.12.0",))
    with monkeypatch.context() as broken:
        broken.setattr(TorchSet, "check", fail)
        assert "internal error" in check_task(task).lines[0]
    assert json.loads(check_task(task).lines[0])["verdict"] == "loads"


def test_a_scheduler_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs dask.distributed")
    monkeypatch.setattr(cluster_module, "_TIMEOUT", "1s")
    output = tmp_path / "results.jsonl"
    words = ["survey", str(LOADS), "--torch", "2.13.0", "--output", str(output), "--scheduler"]
    for address in ("tcp://127.0.0.1:9", "nonsense://", str(tmp_path / "absent.json")):
        result = CliRunner().invoke(main, [*words, address])
        assert result.exit_code == 2, result.output
        assert address in result.stderr

    def connect(*_words: object, **_options: object) -> None:
        raise MemoryError  # as dask does where a web server answers: it takes the first bytes for a length

    monkeypatch.setattr("distributed.Client", connect)
    result = CliRunner().invoke(main, [*words, "tcp://127.0.0.1:9"])
    assert "tcp://127.0.0.1:9: is no scheduler: another server answers" in result.stderr


def test_an_error_keeps_its_parts_between_processes() -> None:
    error = abiscan.InputError("a.so", "is truncated", "copy it again")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        copied = pool.apply(_itself, (error,))
    assert (type(copied), copied.subject, copied.problem, copied.fix) == (
        abiscan.InputError,
        "a.so",
        "is truncated",
        "copy it again",
    )


def _itself(error: Exception) -> Any:
    return error


def test_the_summary_counts_and_names_causes(targets: Path, tmp_path: Path) -> None:
    output, page, table = tmp_path / "results.jsonl", tmp_path / "summary.html", tmp_path / "summary.md"
    words = [str(targets), "--torch", "2.13.0", "--output", str(output), "--jobs", "1"]
    words += ["--report", f"html={page}", "--report", f"markdown={table}"]
    result = CliRunner().invoke(main, ["survey", *words])
    assert result.exit_code == 1
    assert "7 targets on 1 torch: 7 answers" in result.stdout
    assert "undefined-symbol" in result.stdout
    assert "| `0.so` | ✗ |" in table.read_text("utf-8")
    assert "| `1.so` | ✓ |" in table.read_text("utf-8")
    assert page.read_text("utf-8").count('data-verdict="fails"') >= 3


def test_the_table_in_parquet(targets: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    output, table = tmp_path / "results.jsonl", tmp_path / "summary.parquet"
    run(targets, "--torch", "2.13.0", "--output", output, "--jobs", 1, "--report", f"parquet={table}")
    rows = parquet.read_table(table).to_pylist()
    assert sorted((row["target"], row["verdict"]) for row in rows) == sorted(
        (line["target"], line["verdict"]) for line in lines(output)
    )
    assert ["undefined-symbol"] in [row["rules"] for row in rows]
