from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from abiscan.dispatch.schema import FunctionSchema, OperatorName, SchemaError, parse_name_or_schema
from abiscan.dispatch.schema_types import ATOMS

KEYWORDS = (
    *("def", "if", "else", "elif", "while", "return", "is", "True", "False", "None", "and", "or", "not", "global"),
    *("for", "in", "raise", "assert", "break", "del", "pass", "class", "import", "with", "as"),
)
words = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(lambda word: word not in KEYWORDS)
overloads = words.filter(lambda word: word != "default" and not word.startswith("__"))

atoms = st.sampled_from([kind.value for kind in ATOMS] + ["t", "t1", "__torch__.torch.classes.ns.Name"]).filter(
    lambda word: "None" not in word  # which cannot be optional
)
keys = st.sampled_from(["int", "str", "float", "bool", "complex", "Tensor", "Device", "Any"])
types = st.recursive(
    atoms,
    lambda inner: st.one_of(
        inner.map("{}[]".format),
        inner.map(lambda text: text if text.endswith("?") else f"{text}?"),
        st.lists(inner, max_size=3).map(lambda members: f"({', '.join(members)})"),
        st.builds("Dict({}, {})".format, keys, inner),
        st.builds("{}({})".format, st.sampled_from(["Future", "Await", "RRef"]), inner),
    ),
    max_leaves=6,
)
sets = st.lists(words | st.just("*"), min_size=1, max_size=3, unique=True).map(
    lambda names: "|".join(sorted(names, key="*".__eq__))  # after the wildcard nothing else is read
)
annotated_sets: st.SearchStrategy[str] = st.one_of(
    st.builds("({}{}{})".format, sets, st.sampled_from(["", "!"]), st.just("") | sets.map(" -> {}".format)),
    st.just("!"),
)
nothing: st.SearchStrategy[str] = st.just("")
annotated = st.one_of(
    st.builds("{}{}{}".format, st.sampled_from(["Tensor", "int", "t"]), annotated_sets, st.sampled_from(["", "?"])),
    st.builds("Tensor{}[{}]{}".format, nothing | annotated_sets, st.sampled_from(["", "3"]), nothing | annotated_sets),
    st.builds("Tensor{}?[]".format, annotated_sets),
)
quoted = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).map(
    lambda text: "'" + re.sub(r"[\\'\n\r]", lambda match: f"\\{ord(match[0]):03o}", text) + "'"
)
numbers = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False)
integers = st.integers(-(2**63), 2**63 - 1)
defaulted = st.one_of(
    st.builds("int x={}".format, integers),
    st.builds("float x={}".format, numbers),
    st.builds("{} x={}j".format, st.sampled_from(["complex", "Scalar"]), numbers),
    st.builds("Scalar? x={}".format, st.none() | integers | numbers | st.booleans()),
    st.builds("bool[] x={}".format, st.lists(st.booleans(), max_size=4)),
    st.builds("float[] x={}".format, st.lists(numbers, max_size=4)),
    st.builds("SymInt[] x={}".format, st.lists(integers, max_size=4)),
    st.builds("int[3] x={}".format, integers),
    st.builds("int[] x={}".format, st.lists(integers, max_size=4, unique=True)),
    st.builds("str{} x={}".format, st.sampled_from(["", "?"]), quoted),
    st.builds(
        "Device{} x='{}'".format, st.sampled_from(["", "?"]), st.sampled_from(["cpu", "cuda:1", "privateuseone:12"])
    ),
    st.builds("ScalarType? x={}".format, st.sampled_from(["float", "long", "bfloat16", "None", "float8_e5m2"])),
    st.builds("Tensor? x={}".format, st.none()),
)
arguments = st.builds("{} {}".format, types | annotated, words)
returns = st.one_of(types, annotated, arguments)


@st.composite
def schemas(draw: st.DrawFn) -> str:
    text = draw(words)
    if draw(st.booleans()):
        text += f"::{draw(words)}"
    if draw(st.booleans()):
        text += f".{draw(overloads)}"
    inside = draw(st.lists(arguments, max_size=4))
    with_defaults = draw(st.lists(defaulted, max_size=3))
    inside += with_defaults
    keyword_only = draw(st.lists(arguments | defaulted, max_size=2))
    if keyword_only:
        inside += ["*", *keyword_only]
    if not with_defaults and all("=" not in argument for argument in keyword_only) and draw(st.booleans()):
        inside.append("...")
    results = draw(st.lists(returns, max_size=3))
    if draw(st.booleans()):
        results.append("...")
    return f"{text}({', '.join(inside)}) -> ({', '.join(results)})"


@given(schemas())
@example("a::b(Tensor! x, Tensor![](a) y) -> Tensor!")
def test_what_is_printed_is_read_as_the_same(text: str) -> None:
    schema = FunctionSchema.parse(text)
    assert schema.text == text
    again = FunctionSchema.parse(str(schema))
    assert again == schema
    assert hash(again) == hash(schema)
    assert schema.first_difference(again) is None
    assert schema.is_backward_compatible_with(again)
    assert schema.is_forward_compatible_with(again)


@given(schemas())
def test_blanks_do_not_matter(text: str) -> None:
    schema = FunctionSchema.parse(text)
    if "'" in text:
        return
    assert FunctionSchema.parse(re.sub(r" ?(->|[(),=]) ?", r"\1", text)) == schema
    assert FunctionSchema.parse(re.sub(r"(->|::|[(),=\[\]?!|])", r" \1\t", f"  {text} ")) == schema
    assert FunctionSchema.parse(text.replace(", ", ",\n   # a comment\n ")) == schema


@pytest.mark.slow
@given(schemas(), schemas())
def test_a_difference_is_named_exactly_if_there_is_one(one: str, two: str) -> None:
    first, second = FunctionSchema.parse(one), FunctionSchema.parse(two)
    assert (first.first_difference(second) is None) == (first == second)
    assert (first.first_difference(second) is None) == (second.first_difference(first) is None)


@given(schemas(), st.sampled_from([(1, 4), (1, 7), (1, 8), (1, 12)]))
def test_what_an_old_release_prints_is_read(text: str, release: tuple[int, int]) -> None:
    if "str? x='" in text:
        return  # up to 1.8 torch prints these without quotes, so they cannot be read
    old = FunctionSchema.parse(text).printed_by(release)
    assert FunctionSchema.parse(old).printed_by(release) == old or "|" in old  # sets turn around


@given(words, words, overloads)
def test_names(namespace: str, name: str, overload: str) -> None:
    for parsed in (
        OperatorName(namespace=namespace, name=name, overload=overload),
        OperatorName(name=name, overload=overload),
        OperatorName(namespace=namespace, name=name),
    ):
        assert parse_name_or_schema(str(parsed)) == parsed


WORDS = (
    "a :: b ( ) -> , . | ! * ? [ ] = - ... Tensor int Dict( Future( Union( __torch__.torch.classes.x.y int[2] (a!) 'x'",
    "' \" ''' \\ # $ $0 1 .5 0x1 1e400 None True nan inf float is not in ~ ** <=> # type:",
)
pieces = st.sampled_from([word for line in WORDS for word in line.split()] + ["\n", "\n  ", "\0", "é", "\ud800"])


def check_only_schema_errors(text: str, *, strict: bool) -> None:
    try:
        parsed = parse_name_or_schema(text, strict=strict)
    except SchemaError as error:
        complaint = error
    else:
        assert str(parsed)
        return
    assert 0 <= complaint.position <= len(text)
    assert complaint.problem


@given(st.lists(pieces, max_size=40).map(" ".join) | st.lists(pieces, max_size=40).map("".join) | st.text() | schemas())
@example("a::b" * 100)
def test_nothing_else_is_ever_raised(text: str) -> None:
    check_only_schema_errors(text, strict=False)
    check_only_schema_errors(text, strict=True)
    check_only_schema_errors(text[: len(text) // 2], strict=False)
