from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from abiscan.cache import result_cache
from abiscan.findings import Evidence
from abiscan.inputs import observed_fs, tracing

FORMER = 1_600_000_000


class Finder:
    """Reads a file, and counts how often that was necessary."""

    def __init__(self, folder: Path, *paths: Path) -> None:
        self.folder = folder
        self.paths = paths
        self.runs = 0

    def find(self) -> Evidence:
        self.runs += 1
        texts = [observed_fs.read_file(path).decode() if observed_fs.is_file(path) else "absent" for path in self.paths]
        self.last = Evidence(subject=" ".join(texts))
        return self.last

    def ask(self, *question: object) -> str:
        return result_cache.answer(self.folder, question, self.find, [str(self.paths[0])]).subject


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return written(tmp_path / "target.whl", "one")


@pytest.fixture
def other(tmp_path: Path) -> Path:
    return written(tmp_path / "libtorch.so", "two")


@pytest.fixture
def finder(tmp_path: Path, target: Path, other: Path) -> Finder:
    return Finder(tmp_path / "cache", target, other)


def written(path: Path, text: str) -> Path:
    """A file that was there long before the run."""
    path.write_text(text)
    os.utime(path, (FORMER, FORMER))
    return path


@pytest.fixture(autouse=True)
def _no_clock_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a test are made right before they are read."""
    monkeypatch.setattr(observed_fs, "_CLOCK_TICK", -(10**12))


def test_an_answer_is_given_again(finder: Finder) -> None:
    assert [finder.ask("check"), finder.ask("check")] == ["one two", "one two"]
    assert finder.runs == 1


def test_what_an_answer_has_looked_at_counts_for_one_that_asks_for_it(finder: Finder, target: Path) -> None:
    for _ in range(2):  # the second answer is the one that was kept
        with observed_fs.record_observations() as record:
            finder.ask("check")
        assert record.still_holds()
    assert finder.runs == 1
    target.write_text("another")
    assert not record.still_holds()


def test_answers_about_one_hold_as_long_as_what_all_of_them_looked_at(finder: Finder, target: Path) -> None:
    def ask() -> observed_fs.Record:
        answers: result_cache.AnswersAboutOne[Evidence] = result_cache.AnswersAboutOne(finder.folder, ["it"])
        with observed_fs.record_observations() as record:
            assert [answers.answer(name, lambda: (finder.find(), True)) for name in ("a", "a")] == [finder.last] * 2
        answers.keep()
        return record

    records = [ask(), ask()]
    assert finder.runs == 1
    rewrite(target)
    assert [record.still_holds() for record in records] == [False, False]
    ask()
    assert finder.runs == 2


@pytest.mark.parametrize(
    ("meanwhile", "lasts", "traced", "kept"),
    [("", True, False, True), ("", False, False, False), ("rewritten", True, False, False), ("", True, True, False)],
)
def test_which_answers_about_one_are_kept(
    finder: Finder, other: Path, meanwhile: str, lasts: bool, traced: bool, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "is_on", lambda: traced)
    for _ in range(2):
        answers: result_cache.AnswersAboutOne[Evidence] = result_cache.AnswersAboutOne(finder.folder, ["it"])
        answers.answer("a", lambda: (finder.find(), lasts))
        if meanwhile:
            rewrite(other)
        answers.keep()
    assert finder.runs == (1 if kept else 2)
    assert kept or not lasts or not finder.folder.exists()


def test_where_nothing_new_was_asked_nothing_is_written(finder: Finder) -> None:
    result_cache.AnswersAboutOne[Evidence](finder.folder, ["it"]).keep()
    assert not finder.folder.exists()


def test_another_question_has_another_answer(finder: Finder) -> None:
    finder.ask("check", "2.12.0")
    finder.ask("check", "2.13.0")
    assert finder.runs == 2


def test_the_same_words_elsewhere_are_another_question(
    finder: Finder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    finder.ask("check")
    monkeypatch.chdir(tmp_path)
    finder.ask("check")
    assert finder.runs == 2


def rewrite(path: Path) -> None:
    """Other bytes of the same size, with the same modification time: only the time of the change of status differs."""
    status = path.stat()
    path.write_bytes(path.read_bytes().swapcase())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replace(path: Path) -> None:
    """Another file of the same size and modification time."""
    path.rename(path.with_suffix(".old"))
    written(path, "new")


@pytest.mark.parametrize("change", [rewrite, replace, Path.unlink])
@pytest.mark.parametrize("number", [0, 1])
def test_whatever_changes_is_looked_at_again(finder: Finder, number: int, change: Callable[[Path], None]) -> None:
    before = finder.ask("check")
    change(finder.paths[number])
    after = finder.ask("check")
    assert after != before
    assert after == finder.find().subject


def test_what_was_absent_may_appear(finder: Finder, other: Path) -> None:
    other.unlink()
    assert finder.ask("check") == "one absent"
    written(other, "two")
    assert finder.ask("check") == "one two"


def test_the_same_target_may_be_downloaded_again(finder: Finder, target: Path) -> None:
    finder.ask("check")
    target.unlink()
    target.write_text("one")
    assert [finder.ask("check"), finder.ask("check")] == ["one two", "one two"]
    assert finder.runs == 1


def test_a_target_that_is_too_large_to_hash_is_known_by_its_state(
    finder: Finder, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_cache, "_LARGEST_HASHED", 2)  # the target has three bytes
    assert [finder.ask("check"), finder.ask("check")] == ["one two", "one two"]
    assert finder.runs == 1
    target.unlink()
    target.write_text("one")
    assert finder.ask("check") == "one two"
    assert finder.runs == 2


def test_a_file_that_changes_during_the_run_is_not_vouched_for(finder: Finder, other: Path) -> None:
    def find() -> Evidence:
        found = finder.find()
        rewrite(other)
        return found

    result_cache.answer(finder.folder, ["check"], find, [])
    assert finder.ask("check") == "one TWO"


def test_a_file_that_has_just_changed_is_not_vouched_for(finder: Finder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another change in the same tick of the clock would not show."""
    monkeypatch.setattr(observed_fs, "_CLOCK_TICK", 10**12)
    finder.ask("check")
    finder.ask("check")
    assert finder.runs == 2


def test_what_cannot_be_looked_at_again_is_not_kept(finder: Finder) -> None:
    def find() -> Evidence:
        observed_fs.look_once()
        return finder.find()

    for _ in range(2):
        result_cache.answer(finder.folder, ["check"], find, [])
    assert finder.runs == 2


def test_variables_links_and_names_count(tmp_path: Path, finder: Finder, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to("target.whl")
    (tmp_path / "folder").mkdir()

    def find() -> Evidence:
        seen = (
            observed_fs.read_variable("ABISCAN_TEST"),
            os.path.basename(observed_fs.resolve_links(link)),  # noqa: PTH119
            observed_fs.list_names(tmp_path / "folder"),
        )
        return Evidence(subject=str(seen))

    def ask() -> str:
        return result_cache.answer(finder.folder, ["check"], find, []).subject

    assert ask() == "(None, 'target.whl', [])"
    monkeypatch.setenv("ABISCAN_TEST", "1")
    assert ask() == "('1', 'target.whl', [])"
    link.unlink()
    link.symlink_to("libtorch.so")
    assert ask() == "('1', 'libtorch.so', [])"
    (tmp_path / "folder" / "new").touch()
    assert ask() == "('1', 'libtorch.so', ['new'])"


def test_another_abiscan_looks_again(finder: Finder, monkeypatch: pytest.MonkeyPatch) -> None:
    finder.ask("check")
    monkeypatch.setattr(result_cache, "_fingerprint_reader", lambda: "another")
    finder.ask("check")
    assert finder.runs == 2


def test_another_user_has_answers_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who shares the folder of the cache may not see the same files."""
    fingerprint = result_cache._fingerprint_reader.__wrapped__
    mine = fingerprint()
    assert fingerprint() == mine
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert fingerprint() != mine


def test_errors_are_not_kept(finder: Finder) -> None:
    def fail() -> Evidence:
        raise KeyError("no")

    with pytest.raises(KeyError):
        result_cache.answer(finder.folder, ["check"], fail, [])
    assert not finder.folder.exists()


def within(data: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """A kept file whose content is changed by somebody who knows the format."""
    content = zlib.compress(change(zlib.decompress(data[32:])))
    return hashlib.sha256(content).digest() + content


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "cut": lambda data: data[: len(data) // 2],
    "changed": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "no header": lambda data: within(data, lambda content: content.partition(b"\n")[2]),
    "no JSON": lambda data: within(data, lambda _: b"x\ny"),
    "other JSON": lambda data: within(data, lambda _: b'[1, 2, 3]\n"x"'),
    "a sense that there is not": lambda data: within(data, lambda content: content.replace(b'"file"', b'"taste"')),
    "a bomb": lambda data: within(data, lambda _: b"[" * 10_000_000),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_answer_is_found_and_written_again(finder: Finder, damage: Callable[[bytes], bytes]) -> None:
    finder.ask("check")
    (file,) = finder.folder.glob("*.answer")
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    assert finder.ask("check") == "one two"
    assert finder.runs == 2
    assert file.read_bytes() == whole


def test_without_a_place_to_keep_it(target: Path) -> None:
    finder = Finder(target, target)
    assert [finder.ask("check"), finder.ask("check")] == ["one", "one"]


def test_several_runs_at_once(finder: Finder) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(finder.ask("check"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["one two"] * 8
    assert [file.suffix for file in finder.folder.iterdir()] == [".answer"]


def test_what_is_in_a_file_is_kept_by_its_bytes(tmp_path: Path) -> None:
    runs: list[str] = []

    def ask(sha256: str, tail: int | None) -> str:
        def find() -> Evidence:
            runs.append(sha256)
            return Evidence(subject=f"{sha256} {tail}")

        return result_cache.answer_by_content(tmp_path / "cache", sha256, ["registrations", tail], find).subject

    asked = [("one", None), ("one", None), ("two", None), ("one", 8), ("two", None)]
    assert [ask(*each) for each in asked] == ["one None", "one None", "two None", "one 8", "two None"]
    assert runs == ["one", "two", "one"]
    for file in (tmp_path / "cache").iterdir():
        file.write_bytes(b"damaged")
    assert ask("one", None) == "one None"
    assert runs == ["one", "two", "one", "one"]
