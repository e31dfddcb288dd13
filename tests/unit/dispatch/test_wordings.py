"""Which of torch's messages stand in its libraries, and which stand there in other words."""

from __future__ import annotations

import difflib
import string
from pathlib import Path
from typing import Any

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.dispatch.messages import TEMPLATES, Message, word_message
from abiscan.dispatch.operators import Rewording
from abiscan.dispatch.wordings import Wordings, compare_messages, reword
from tests.elf_builder import Elf

RELEASE = (2, 13)
# That of an inline function; that of the parser of schemas, which has many; one whose text the C++ library has.
WITHOUT_STRINGS = {"E5", "G1"}
FALLBACKS = "Tried to register multiple backend fallbacks for the same dispatch key "
REWORDED = "Tried to register more than one backend fallback for the dispatch key "


def texts_of(release: tuple[int, int]) -> list[str]:
    """Every fixed part of each message of a release, as it might be compiled."""
    templates = (template.text for template in TEMPLATES if template.holds_for(release))
    return [literal for text in templates for literal, *_ in string.Formatter().parse(text)]


def library(path: Path, texts: list[str]) -> ElfFile:
    return ElfFile.open(Elf(texts=tuple(text.encode() for text in texts)).write(path))


def every_id() -> set[str]:
    return {template.id for template in TEMPLATES if template.holds_for(RELEASE)} - WITHOUT_STRINGS


def test_a_library_with_every_text(tmp_path: Path) -> None:
    assert compare_messages((library(tmp_path / "libtorch_cpu.so", texts_of(RELEASE)),), RELEASE) == Wordings()


def test_a_library_without_any(tmp_path: Path) -> None:
    found = compare_messages((library(tmp_path / "libtorch_cpu.so", ["nothing of the kind"]),), RELEASE)
    assert found == Wordings(frozenset(every_id()), {})


def test_parts_may_be_in_several_libraries_and_strings(tmp_path: Path) -> None:
    texts = texts_of(RELEASE)
    halves = [half for text in texts for half in text.replace("single TORCH", "single \0TORCH").split("\0")]
    assert len(halves) > len(texts)
    one, other = library(tmp_path / "libc10.so", halves[::2]), library(tmp_path / "libtorch_cpu.so", halves[1::2])
    assert compare_messages((one, other), RELEASE) == Wordings()


def test_another_wording_takes_the_place_of_the_known_one(tmp_path: Path) -> None:
    texts = [REWORDED if text == FALLBACKS else text for text in texts_of(RELEASE)]
    found = compare_messages((library(tmp_path / "libtorch_cpu.so", texts),), RELEASE)
    assert found == Wordings(frozenset(), {"F1": (Rewording(FALLBACKS, REWORDED),)})
    values: dict[str, Any] = {"key": "CPU", "previous": "a.cpp:1", "debug": "b.cpp:2"}
    said = reword(word_message("F1", RELEASE, **values), found.reworded, found.absent)
    text = f"{REWORDED}CPU; previous registration a.cpp:1, new registration b.cpp:2"
    assert said == Message(id="F1", text=text, exact=False)
    other = word_message("S1", RELEASE, name="ns::op")
    assert reword(other, found.reworded, found.absent) is other


def test_the_most_similar_of_many_is_taken(tmp_path: Path) -> None:
    """Only a few texts are compared closely: those that share the most words."""
    others = [f"key dispatch same fallbacks backend alpha{i} beta{i}" for i in range(20)]
    texts = [REWORDED if text == FALLBACKS else text for text in texts_of(RELEASE)]
    found = compare_messages((library(tmp_path / "libtorch_cpu.so", [*others, *texts]),), RELEASE)
    assert found.reworded == {"F1": (Rewording(FALLBACKS, REWORDED),)}


@pytest.mark.parametrize(
    "now",
    [
        "Only one kernel may be the fallback of a key",  # says something else
        "Tried to register multiple backend fallbacks for the key {}; previous registration {}",
    ],
)
def test_a_wording_that_cannot_take_its_place(now: str, tmp_path: Path) -> None:
    texts = [now if text == FALLBACKS else text for text in texts_of(RELEASE)]
    found = compare_messages((library(tmp_path / "libtorch_cpu.so", texts),), RELEASE)
    assert found.absent == {"F1"}
    assert found.reworded == ({"F1": (Rewording(FALLBACKS, now),)} if "{" in now else {})
    said = word_message("F1", RELEASE, key="CPU", previous="a.cpp:1", debug="b.cpp:2")
    assert reword(said, found.reworded, found.absent) is said


def test_the_text_that_shares_most_words_is_compared_among_many(tmp_path: Path) -> None:
    # Each shares some words of the message, and is compared with it before those that share fewer, eight in all.
    others = [f"Tried to register multiple backend {word} key" for word in ("a1b", "c2d", "e3f", "g4h", "i5j", "k6l")]
    others += [f"Tried to register multiple {word} fallbacks" for word in ("m7n", "o8p", "q9r", "s0t")]
    texts = [REWORDED if text == FALLBACKS else text for text in texts_of(RELEASE)]
    found = compare_messages((library(tmp_path / "libtorch_cpu.so", [*others, *texts]),), RELEASE)
    assert found.reworded == {"F1": (Rewording(FALLBACKS, REWORDED),)}


SHORT, LONG = "Could not find schema for ", FALLBACKS


@pytest.mark.parametrize(
    ("was", "now", "least", "most", "is_taken"),
    [
        # A short text is taken for another one reworded if three quarters of it are the same, a long one if 0.6 are,
        # and one that begins the same if 0.4 are.
        (SHORT, "Did not find a schema for ", 0.75, 1, True),
        (SHORT, "it not find for op schema for ", 0.75, 0.7501, True),
        (SHORT, "Not able to find the schema for ", 0.6, 0.75, False),
        (SHORT, "Could not find schema (is it registered?) for ", 0.4, 0.75, True),
        (LONG, "Repeated backend fallbacks were tried for this dispatch key ", 0.6, 0.75, True),
        (LONG, "Of the fallbacks for dispatch, a key has the same backend ", 0.4, 0.6, False),
        (LONG, "Tried to register (as a dispatch key of a backend) what has multiple fallbacks ", 0.4, 0.6, True),
    ],
)
def test_how_similar_a_text_has_to_be(
    was: str, now: str, least: float, most: float, is_taken: bool, tmp_path: Path
) -> None:
    assert least <= difflib.SequenceMatcher(None, was, now, autojunk=False).ratio() < most
    texts = [now if text == was else text for text in texts_of(RELEASE)]
    found = compare_messages((library(tmp_path / "libtorch_cpu.so", texts),), RELEASE)
    changes = {change for each in found.reworded.values() for change in each}
    assert changes == ({Rewording(was, now)} if is_taken else set())
    assert bool(found.absent) is not is_taken


def test_what_is_part_of_a_longer_text_is_there(tmp_path: Path) -> None:
    texts = [f"Warning: {text} - and more" if text == FALLBACKS else text for text in texts_of(RELEASE)]
    assert compare_messages((library(tmp_path / "libtorch_cpu.so", texts),), RELEASE) == Wordings()


@pytest.mark.parametrize(("short", "is_missed"), [(", new registration ", True), ("  expected schema: ", False)])
def test_a_text_of_fewer_than_sixteen_characters_may_be_part_of_anything(
    short: str, is_missed: bool, tmp_path: Path
) -> None:
    assert (len(short.strip(" ,:")) >= 16) is is_missed
    texts = [part for text in texts_of(RELEASE) for part in text.split("\n")]
    lines = [part for part in texts if part != short]
    assert len(lines) < len(texts)
    found = compare_messages((library(tmp_path / "libtorch_cpu.so", lines),), RELEASE)
    assert bool(found.absent) is is_missed
