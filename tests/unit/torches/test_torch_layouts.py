"""Where the layouts of a torch are from: a release, or its headers, class by class."""

from __future__ import annotations

from typing import cast

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.torches import (
    embedded,
    embedded_declarations,
    layouts,
    torch_layouts,
    unlisted_torch_headers,
    unlisted_torch_layouts,
)
from abiscan.torches.layouts import ReleaseLayouts
from abiscan.torches.model import TorchRelease
from abiscan.torches.torch_layouts import TorchLayouts, of_installed
from abiscan.torches.unlisted_torch_headers import OwnHeaders
from abiscan.torches.unlisted_torch_layouts import OwnLayouts

HEADERS = OwnHeaders(
    digests={"c10::Old": "00", "c10::New": "11", "c10::Both": "22"},
    declared_in={"c10::Old": "c10/old.h", "c10::New": "c10/new.h", "c10::Both": "c10/both.h"},
    assertions=frozenset({"c10/old.h:7"}),
)
DECLARED = {"00": ("2.5.0", "2.6.0"), "11": ("2.8.0",), "22": ("2.5.0", "2.6.0", "2.7.0", "2.8.0")}
NEW_STRING = {"2.5.0": False, "2.6.0": False, "2.7.0": True, "2.8.0": True}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[frozenset[str], str | None, bool]]:
    """What a compiler is asked: the classes, a further header, and which string. It lays out those in question."""
    questions: list[tuple[frozenset[str], str | None, bool]] = []

    def lay_out(
        _: TorchRelease,
        _headers: OwnHeaders,
        classes: frozenset[str],
        further: str | None,
        *,
        cxx11: bool,
        **__: object,
    ) -> OwnLayouts:
        questions.append((classes, further, cxx11))
        names = classes if further else ()  # no class is in what every extension includes
        return OwnLayouts(records={name: layouts.as_layout(name, (8, 8, (), ())) for name in names})

    monkeypatch.setattr(unlisted_torch_layouts, "lay_out", lay_out)
    return questions


def installed(
    monkeypatch: pytest.MonkeyPatch, *, cxx11: bool | None, headers: OwnHeaders | None = HEADERS, build: str = "9.9.0"
) -> TorchLayouts:
    monkeypatch.setattr(unlisted_torch_headers, "headers_of", lambda *_: headers)
    monkeypatch.setattr(torch_layouts, "uses_cxx11_strings", lambda _: cxx11)
    monkeypatch.setattr(embedded, "uses_cxx11_strings", lambda number, _: NEW_STRING.get(number))
    monkeypatch.setattr(layouts, "is_known", lambda number, _: number in NEW_STRING)
    monkeypatch.setattr(embedded_declarations, "releases", lambda: tuple(NEW_STRING))
    monkeypatch.setattr(embedded_declarations, "releases_declaring", lambda _, digest: DECLARED[digest])
    release = TorchRelease(
        build=build,
        package="/torch",
        machine=Machine.X86_64,
        python=None,
        libraries=(),
        global_libraries=(),
        local_libraries=(),
    )
    return of_installed(release, Files(), cast("Session", None))


@pytest.mark.usefixtures("asked")
def test_a_class_is_that_of_the_newest_release_which_declares_it_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``std::string`` in a class has another size before C++11: releases with the other one do not count."""
    found = installed(monkeypatch, cxx11=False)
    assert found.by_class == {"c10::Old": "2.6.0", "c10::Both": "2.6.0"}
    assert found.in_question == {"c10::New"}
    found = installed(monkeypatch, cxx11=True)
    assert found.by_class == {"c10::New": "2.8.0", "c10::Both": "2.8.0"}
    assert found.in_question == {"c10::Old"}
    assert (found.release, found.basis, found.cxx11) == (None, "its headers declare them alike", True)
    assert found.string is True
    assert found.assertions == {"c10/old.h:7"}


@pytest.mark.usefixtures("asked")
def test_no_compiler_is_asked_while_the_string_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    found = installed(monkeypatch, cxx11=None)
    assert found.in_question == frozenset()
    assert found.by_class == {}
    assert found.source_of("c10::New") is None
    assert found.gap_of("c10::New") is None
    assert found.string is None


@pytest.mark.parametrize("cxx11", [False, True])
def test_a_compiler_is_asked_for_what_no_release_declares(
    cxx11: bool, monkeypatch: pytest.MonkeyPatch, asked: list[tuple[frozenset[str], str | None, bool]]
) -> None:
    found = installed(monkeypatch, cxx11=cxx11)
    name, header = ("c10::Old", "c10/old.h") if cxx11 else ("c10::New", "c10/new.h")
    source = found.source_of(name)
    assert isinstance(source, OwnLayouts)
    layout = source.layout(name)
    assert layout is not None
    assert layout.size == 8
    assert asked == [(frozenset({name}), None, cxx11), (frozenset({name}), header, cxx11)]
    assert found.source_of(name) is source
    assert len(asked) == 2  # nothing is asked twice
    assert found.source_of("c10::Both") == ReleaseLayouts(found.by_class["c10::Both"], Machine.X86_64)
    assert found.source_of("c10::Unheard") is None
    assert len(asked) == 2


def test_why_there_is_no_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def lay_out(_: object, __: object, ___: object, further: str | None, **____: object) -> OwnLayouts:
        asked.append(further)
        return OwnLayouts(gap="no compiler")

    monkeypatch.setattr(unlisted_torch_layouts, "lay_out", lay_out)
    found = installed(monkeypatch, cxx11=True)
    assert found.source_of("c10::Old") is None
    assert found.gap_of("c10::Old") == "no compiler"
    assert found.gap_of("c10::New") is None
    assert asked == [None]  # a further header would not help


@pytest.mark.usefixtures("asked")
def test_a_release_that_was_built_again_with_the_other_string(monkeypatch: pytest.MonkeyPatch) -> None:
    """The wheel of 2.6.0 has the old string; who builds it anew gets the other one, and other sizes of classes."""
    assert installed(monkeypatch, cxx11=False, build="2.6.0").release == "2.6.0"
    assert installed(monkeypatch, cxx11=None, build="2.6.0").release == "2.6.0"
    other = installed(monkeypatch, cxx11=True, build="2.6.0")
    assert (other.release, other.string) == (None, True)
    assert other.release_of("c10::Both") == "2.8.0"


def test_a_torch_without_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    found = installed(monkeypatch, cxx11=True, headers=None)
    assert (found.release, found.basis, found.in_question) == (None, None, frozenset())
    assert found.source_of("c10::Both") is None


def test_the_string_of_a_release() -> None:
    """x86_64 wheels have the C++11 string from 2.7 on, those for aarch64 always had it (notes of 2.7)."""
    assert torch_layouts.of_release("2.6.0", Machine.X86_64).string is False
    assert torch_layouts.of_release("2.7.0", Machine.X86_64).string is True
    assert torch_layouts.of_release("2.6.0", Machine.AARCH64).string is True
    assert torch_layouts.of_release("9.9.0", Machine.X86_64).release is None
    assert torch_layouts.of_release("9.9.0", Machine.X86_64).string is None
