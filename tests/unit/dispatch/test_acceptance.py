"""What releases accept, against what real ones did. The running torch is asked about all of it in tests/oracle."""

from __future__ import annotations

import pytest

from abiscan.dispatch.acceptance import acceptance_of, is_known
from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.dispatch.schema import FunctionSchema, SchemaError
from abiscan.dispatch.state import State
from abiscan.inputs.version import MinorVersion
from abiscan.registrations import LibraryKind
from tests.torch_calls import cpp_function, fall_back, open_library, replay


@pytest.mark.parametrize(
    ("word", "reads", "refuses"),
    [
        ("Dimname", [(1, 4), (2, 6), (2, 8), (2, 12)], [(2, 13), (2, 15)]),
        ("SymBool", [(2, 9), (2, 13)], [(1, 13), (2, 8)]),
        ("SymInt", [(1, 12), (2, 13)], [(1, 11)]),
        ("DeviceIndex", [(2, 1), (2, 13)], [(2, 0)]),
        ("Stream", [(1, 8), (2, 13)], [(1, 7)]),
        ("PyObject", [(2, 12)], [(2, 11), (2, 13)]),
        ("SymFloat", [], [(1, 4), (2, 0), (2, 13)]),
    ],
)
def test_a_release_reads_its_own_type_words(word: str, reads: list[MinorVersion], refuses: list[MinorVersion]) -> None:
    text = f"a::f({word} x) -> ()"
    for release in reads:
        assert FunctionSchema.parse(text, strict=True, release=release).arguments[0].name == "x"
    for release in refuses:
        with pytest.raises(SchemaError, match="unknown type specifier"):
            FunctionSchema.parse(text, strict=True, release=release)


@pytest.mark.parametrize(
    ("key", "release", "kinds"),
    [
        ("AutogradPrivateUse1", (2, 9), [OutcomeKind.RAISES]),
        ("AutogradPrivateUse1", (2, 10), [OutcomeKind.OVERRIDES]),
        ("AutogradPrivateUse1", (2, 15), [OutcomeKind.OVERRIDES]),
        ("AutogradXLA", (2, 13), [OutcomeKind.RAISES]),
        ("Meta", (2, 13), [OutcomeKind.RAISES]),
        ("HPU", (2, 13), [OutcomeKind.RAISES]),
        ("CPU", (2, 13), [OutcomeKind.RAISES]),
        ("XLA", (1, 8), [OutcomeKind.RAISES]),
    ],
)
def test_a_second_fallback(key: str, release: MinorVersion, kinds: list[OutcomeKind]) -> None:
    block = open_library(kind=LibraryKind.IMPL, namespace=None, dispatch_key=key, file="f.cpp", line=1)
    events = [fall_back(block=block, kernel=cpp_function()) for _ in range(2)]
    assert [outcome.kind for outcome in replay(State(), events, release).outcomes] == kinds


def test_a_release_that_was_not_asked_is_like_the_one_before_it() -> None:
    assert acceptance_of((2, 99)) == acceptance_of((2, 15))
    assert acceptance_of((1, 0)) == acceptance_of((1, 4))


def test_which_releases_were_asked() -> None:
    assert is_known((2, 13))
    assert not is_known((2, 99))
