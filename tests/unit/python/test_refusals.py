"""What is said of a call that a function does not take, against the function itself."""

from __future__ import annotations

import io
import itertools
import pickle
import sys

import pytest

from abiscan.python.language.refusals import PassedArguments, parse_parameters, refusal

SIGNATURES = ("", "a", "a,b=", "a,/,b=", "a,b,*,c", "*,c,d=", "a,*more,c=", "a,**rest", "a,b,c,d=,e=", "a,/,**rest")
CALLS = [
    PassedArguments(count=count, keywords=keywords)
    for count, keywords in itertools.product(range(5), [(), ("a",), ("b",), ("c",), ("b", "c"), ("nope",), ("c", "d")])
]


def _said(signature: str, call: PassedArguments, *, in_class: bool) -> str | None:
    parts = ["self" if in_class else "", *signature.split(",")]
    written = ", ".join(f"{part}0" if part.endswith("=") else part for part in parts if part)
    names: dict[str, type] = {}
    exec(f"class Made:\n    def __init__({written}): pass" if in_class else f"def made({written}): pass", names)
    try:
        names["Made" if in_class else "made"](*range(call.count), **dict.fromkeys(call.keywords))
    except TypeError as error:
        return str(error).partition(". Did you mean")[0]
    return None


@pytest.mark.skipif(sys.version_info < (3, 10), reason="Python 3.9 does not name the class")
@pytest.mark.parametrize("signature", SIGNATURES)
@pytest.mark.parametrize("in_class", [False, True])
def test_the_text_is_that_of_python(signature: str, in_class: bool) -> None:
    name = "Made.__init__" if in_class else "made"
    for call in CALLS:
        assert refusal(name, parse_parameters(signature), call) == _said(signature, call, in_class=in_class), call


@pytest.mark.parametrize("one", SIGNATURES)
def test_a_signature_that_takes_all_of_another_refuses_none_of_its_calls(one: str) -> None:
    own = parse_parameters(one)
    for other in map(parse_parameters, SIGNATURES):
        taken = [call for call in CALLS if refusal("f", other, call) is None]
        assert not own.takes_all_of(other) or all(refusal("f", own, call) is None for call in taken), other


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        (PassedArguments(takes_more=True), False),
        (PassedArguments(takes_keywords=True), False),
        (PassedArguments(count=3, takes_more=True), True),
        (PassedArguments(keywords=("nope",), takes_keywords=True), True),
        (PassedArguments(count=1, keywords=("a",), takes_more=True), True),
    ],
)
def test_what_stars_pass_may_be_anything(call: PassedArguments, *, refused: bool) -> None:
    assert (refusal("f", parse_parameters("a,b="), call) is not None) is refused


def test_torch_load_passes_keywords_on_to_its_own_unpickler() -> None:
    """What ``torch._weights_only_unpickler.Unpickler(file, mmap=True)`` says in 2.13.0; the signature is of 2.0.0."""
    load = parse_parameters("f,map_location=,pickle_module=,*,weights_only=,**pickle_load_args")
    said = refusal("load", load, PassedArguments(count=1, keywords=("weights_only", "mmap")))
    assert said == "Unpickler.__init__() got an unexpected keyword argument 'mmap'"
    said = refusal("load", load, PassedArguments(count=1, keywords=("mmap",)))
    assert said == "'mmap' is an invalid keyword argument for Unpickler()"


@pytest.mark.parametrize("keyword", ["fix_imports", "encoding", "errors", "buffers", "weights_only", "mmap"])
def test_torch_load_passes_keywords_on_to_pickle(keyword: str) -> None:
    """``class UnpicklerWrapper(pickle_module.Unpickler)`` in torch/serialization.py, 1.12.1."""
    values: dict[str, object] = {"encoding": "utf-8", "errors": "strict", "buffers": None}
    said = None
    try:
        pickle.Unpickler(io.BytesIO(), **{keyword: values.get(keyword, True)})  # type: ignore[arg-type]
    except TypeError as error:
        said = (
            str(error) if sys.version_info < (3, 13) else f"'{keyword}' is an invalid keyword argument for Unpickler()"
        )
    load = parse_parameters("f,map_location=,pickle_module=,**pickle_load_args")
    assert refusal("load", load, PassedArguments(count=1, keywords=(keyword,))) == said
    for other in (
        PassedArguments(count=3, keywords=(keyword,)),
        PassedArguments(count=1, keywords=("pickle_module", keyword)),
        PassedArguments(keywords=(keyword,), takes_more=True),
    ):
        assert refusal("load", load, other) is None
