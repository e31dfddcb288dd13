from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.dispatch.schema import (
    NEWEST,
    NO_DEFAULT,
    AliasInfo,
    Device,
    FunctionSchema,
    OperatorName,
    SchemaError,
    TypeKind,
    parse_name_or_schema,
)
from abiscan.inputs.version import MinorVersion
from abiscan.torches import embedded
from tests.clock import grows_linearly

DATA: Final = Path(__file__).parents[2] / "data"
VERDICTS: Final = json.loads((DATA / "schema_verdicts.json").read_text(encoding="utf-8"))["verdicts"]
# Custom classes of torch itself that the texts speak of.
CLASSES: Final = frozenset({"c10d.ProcessGroup"})


def printed() -> list[tuple[MinorVersion, str]]:
    lines = gzip.decompress((DATA / "schemas.txt.gz").read_bytes()).decode().splitlines()
    pairs = [line.split("\t") for line in lines]
    return [((int(release.split(".")[0]), int(release.split(".")[1])), schema) for release, schema in pairs]


PRINTED: Final = printed()


def parse(text: str) -> FunctionSchema:
    return FunctionSchema.parse(text)


@pytest.mark.parametrize(("text", "accepted", "refused"), VERDICTS)
def test_the_verdict_and_the_words_are_those_of_torch(text: str, accepted: str | None, refused: str | None) -> None:
    if refused is None:
        schema = FunctionSchema.parse(text, strict=True, classes=CLASSES)
        assert (str(schema), schema.text) == (accepted, text)
        return
    with pytest.raises(SchemaError) as caught:
        FunctionSchema.parse(text, strict=True, classes=CLASSES)
    assert str(caught.value) == refused
    assert 0 <= caught.value.position <= len(text)
    assert caught.value.problem in refused
    assert "\n" not in caught.value.problem or "\n" in text


@pytest.mark.slow
def test_every_schema_that_a_torch_printed_is_read_and_printed_alike() -> None:
    assert len(PRINTED) > 6_000
    for release, text in PRINTED:
        schema = parse(text)
        again = schema.printed_by(release)
        # A set of several names comes out of an unordered_set in the other order each time.
        assert text in (again, parse(again).printed_by(release))
        assert parse(again) == schema
        assert schema.first_difference(parse(again)) is None


def test_time_grows_with_the_number_of_schemas() -> None:
    texts = [text for release, text in PRINTED if release > (2, 0)]
    assert len(texts) > 4_300
    assert grows_linearly(lambda count: lambda: [str(parse(text)) for text in texts[:count]], len(texts) // 4)


@pytest.mark.parametrize(
    ("text", "release", "expected"),
    [
        # From the stream operators in the headers of these releases.
        ("a::b(Tensor x) -> Tensor", (1, 4), "a::b(Tensor x) -> (Tensor)"),
        ("a::b(Tensor x) -> Tensor", (1, 12), "a::b(Tensor x) -> (Tensor)"),
        ("a::b(Tensor x) -> Tensor", (1, 13), "a::b(Tensor x) -> Tensor"),
        ("a::b(...) -> ...", (1, 5), "a::b(...) -> (...)"),
        ("a::b(ScalarType? x, Storage y) -> ()", (1, 7), "a::b(int? x, int y) -> ()"),
        ("a::b(ScalarType? x, Storage y) -> ()", (1, 8), "a::b(int? x, Storage y) -> ()"),
        ("a::b(ScalarType? x, Storage y) -> ()", (1, 13), "a::b(ScalarType? x, Storage y) -> ()"),
        ("a::b(int[2]? x, int[2] y) -> ()", (1, 6), "a::b(int[]? x, int[2] y) -> ()"),
        ("a::b(int[2]? x, int[2] y) -> ()", (1, 7), "a::b(int[2]? x, int[2] y) -> ()"),
        ("a::b(int[2] x=1) -> ()", (1, 12), "a::b(int[2] x=[1, 1]) -> ()"),
        ("a::b(int[2] x=1) -> ()", (1, 13), "a::b(int[2] x=1) -> ()"),
        ("a::b(str? x='a', str y='b') -> ()", (1, 8), 'a::b(str? x=a, str y="b") -> ()'),
        ("a::b(str? x='a', str y='b') -> ()", (1, 9), 'a::b(str? x="a", str y="b") -> ()'),
        ("a::b(None x) -> ()", (1, 8), "a::b(None x) -> ()"),
        ("a::b(None x) -> ()", (1, 9), "a::b(NoneType x) -> ()"),
        ("a::b(Tensor(a)[](b!) x) -> ()", (1, 12), "a::b(Tensor[](b!) x) -> ()"),
        ("a::b(Tensor(a!)[] x) -> ()", (1, 12), "a::b(Tensor[] x) -> ()"),
    ],
)
def test_each_release_prints_in_its_own_way(text: str, release: MinorVersion, expected: str) -> None:
    assert parse(text).printed_by(release) == expected


def test_the_conflict_that_users_of_1_5_saw() -> None:
    # Printed by torch 1.5.0 for a backend that was built with 1.4.
    common = (
        "aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, "
        "int mode=0, bool sparse=False, Tensor? per_sample_weights=None"
    )
    returns = "-> (Tensor, Tensor, Tensor, Tensor)"
    of_extension = parse(f"{common}) {returns}")
    of_torch = parse(f"{common}, bool include_last_offset=False) {returns}")
    assert of_torch.printed_by((1, 5)) == f"{common}, bool include_last_offset=False) {returns}"
    assert of_extension != of_torch
    assert str(of_extension.first_difference(of_torch)) == (
        "only one of them has argument 8 'include_last_offset': bool include_last_offset=False"
    )
    assert of_torch.is_backward_compatible_with(of_extension)
    assert not of_extension.is_backward_compatible_with(of_torch)


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ("a::b() -> ()", "a::c() -> ()", "the operator has a different name: a::b vs a::c"),
        ("a::b.x() -> ()", "a::b() -> ()", "the operator has a different name: a::b.x vs a::b"),
        ("a::b(int x) -> ()", "a::b(int y) -> ()", "argument 1 'x' has a different name: x vs y"),
        ("a::b(int x) -> ()", "a::b(int? x) -> ()", "argument 1 'x' has a different type: int vs int?"),
        ("a::b(int[2] x) -> ()", "a::b(int[] x) -> ()", "argument 1 'x' has a different size: 2 vs none"),
        ("a::b(int x=1) -> ()", "a::b(int x=1.) -> ()", "argument 1 'x' has a different default: 1 vs 1."),
        ("a::b(int x=1) -> ()", "a::b(int x=True) -> ()", "argument 1 'x' has a different default: 1 vs True"),
        ("a::b(int? x=None) -> ()", "a::b(int? x) -> ()", "argument 1 'x' has a different default: None vs none"),
        (
            "a::b(*, int x) -> ()",
            "a::b(int x) -> ()",
            "argument 1 'x' has a different position: keyword-only vs positional",
        ),
        (
            "a::b(Tensor(a!) x) -> ()",
            "a::b(Tensor(b!) x) -> ()",
            "argument 1 'x' has a different alias annotation: (a!) vs (b!)",
        ),
        (
            "a::b(Tensor(a)[](c) x) -> ()",
            "a::b(Tensor(b)[](c) x) -> ()",
            "argument 1 'x' has a different alias annotation: Tensor(a)[](c) x vs Tensor(b)[](c) x",
        ),
        ("a::b() -> Tensor", "a::b() -> Tensor y", "return 1 has a different name: none vs y"),
        ("a::b() -> Tensor", "a::b() -> (Tensor, int)", "only one of them has return 2: int"),
        ("a::b(...) -> ()", "a::b() -> ()", "only one of them has the variable arguments: ..."),
        ("a::b() -> ...", "a::b() -> ()", "only one of them has the variable returns: ..."),
    ],
)
def test_the_first_difference_is_named(first: str, second: str, difference: str) -> None:
    assert str(parse(first).first_difference(parse(second))) == difference


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("a::b(int? x) -> (Tensor)", "a::b(ScalarType?  x)->Tensor"),
        ("a::b(Layout x, MemoryFormat y) -> ()", "a::b(int x, SymInt y) -> ()"),
        ("a::b(int[2] x=0) -> ()", "a::b(int[2] x=[0, 0]) -> ()"),
        ("a::b(Tensor(a|b) x) -> ()", "a::b(Tensor(b|a) x) -> ()"),
        ("a::b(float x=1) -> ()", "a::b(float x=1.0) -> ()"),
    ],
)
def test_what_torch_takes_for_equal(first: str, second: str) -> None:
    assert parse(first) == parse(second)
    assert hash(parse(first)) == hash(parse(second))


def test_the_parts_of_a_schema() -> None:
    schema = parse(
        "ns::op.out(Tensor(a!)[2] xs, int? n=None, *, Device d='cuda:1', Dict(str, t) m) -> (Tensor(a!) y, ...)"
    )
    assert schema.name == OperatorName(namespace="ns", name="op", overload="out")
    xs, n, d, m = schema.arguments
    assert (xs.name, str(xs.type), xs.size, xs.default, xs.kwarg_only) == ("xs", "Tensor[]", 2, NO_DEFAULT, False)
    annotation = AliasInfo(is_write=True, before=("a",), after=("a",))
    assert xs.alias == AliasInfo(is_write=True, contained=(annotation,))
    assert (n.has_default, n.default, n.type.kind, n.type.element.kind) == (True, None, TypeKind.OPTIONAL, TypeKind.INT)
    assert (d.default, d.kwarg_only) == (Device("cuda:1"), True)
    assert [type_.kind for type_ in m.type.contained] == [TypeKind.STRING, TypeKind.VAR]
    assert (schema.is_vararg, schema.is_varret, len(schema.returns)) == (False, True, 1)
    assert schema.returns[0].name == "y"


def test_a_name_alone() -> None:
    assert parse_name_or_schema("foo::bar") == OperatorName(namespace="foo", name="bar")
    assert OperatorName.parse("foo::bar.baz") == OperatorName(namespace="foo", name="bar", overload="baz")
    assert str(OperatorName.parse("bar")) == "bar"
    with pytest.raises(SchemaError, match="Tried to parse an operator name but function schema was given") as caught:
        OperatorName.parse("foo::bar() -> ()")
    assert caught.value.position == 0
    with pytest.raises(SchemaError, match="only the operator name was given"):
        parse("foo::bar")


def test_a_library_knows_no_type_variables_outside_of_aten_and_prim() -> None:
    text = "{}::b({} x) -> ()"
    for namespace in ("aten", "prim"):
        FunctionSchema.parse(text.format(namespace, "double"), allow_typevars=False)
    for word, message in (
        ("double", "\nUse `float` instead of `double`"),
        ("int64_t", "\nUse `SymInt` or `int` instead of `int64_t`"),
        ("tensor", "\nunknown type specifier. Common valid schema types include"),
    ):
        FunctionSchema.parse(text.format("a", word))
        with pytest.raises(SchemaError) as caught:
            FunctionSchema.parse(text.format("a", word), allow_typevars=False)
        assert str(caught.value).startswith(message)
        assert caught.value.position == len("a::b(")


def test_custom_classes_may_have_to_be_registered_first() -> None:
    text = "a::b(__torch__.torch.classes.ns.Name x) -> ()"
    assert str(parse(text)) == text
    assert FunctionSchema.parse(text, classes={"ns.Name"}) == parse(text)
    with pytest.raises(SchemaError, match=r"Unknown custom class type ns\.Name\. Please ensure it is registered"):
        FunctionSchema.parse(text, classes=())


@pytest.mark.parametrize(
    "text",
    [
        "a::b(Tensor! x, Tensor! y) -> Tensor!",
        "a::b(Tensor![] x) -> ()",
        "a::b(Tensor(a)?[] x) -> ()",
        "a::b(complex x=1.5j, complex[] y=[-2j, 3e-9j]) -> ()",
        "a::b(Device x='cuda:1', Device y='cpu', Device? z='mps:0') -> ()",
        "a::b(int[] x=[1, 1]) -> ()",
        "a::b(str x='\\377\\200 é', str y='\r') -> ()",
    ],
)
def test_what_torch_prints_but_does_not_read_is_read_all_the_same(text: str) -> None:
    schema = FunctionSchema.parse(text, strict=True)
    assert parse(str(schema)) == schema
    with pytest.raises(SchemaError):
        FunctionSchema.parse(str(schema), strict=True)


def test_words_that_torch_has_forgotten() -> None:
    assert str(parse("aten::size.Dimname(Tensor self, Dimname dim) -> int")).endswith("str dim) -> int")
    with pytest.raises(SchemaError, match="unknown type specifier"):
        FunctionSchema.parse("a::b(Dimname x) -> ()", strict=True)


@pytest.mark.parametrize(
    "nested",
    [
        "(" * 60 + ")" * 60,
        "Future(" * 60,
        f"({'int, ' * 60}{'Future(' * 60}",  # what came before, and is closed, makes room for nothing
        "Tensor" + "[]" * 60,
        "((Tensor" + "[]" * 49 + ")[])",
    ],
)
def test_depth_is_limited(nested: str) -> None:
    with pytest.raises(SchemaError, match="nested too deeply"):
        parse(f"a::b({nested} x) -> ()")


@pytest.mark.parametrize(
    "nested",
    [
        "Tensor" + "[]" * 49,
        "Future(" * 49 + "int" + ")" * 49,
        "(" * 49 + "int" + ")" * 49,
        "(" + ", ".join(["Future(int)"] * 60) + ")",  # one after the other, not in each other
    ],
)
def test_a_type_may_be_fifty_deep(nested: str) -> None:
    assert str(parse(f"a::b({nested} x) -> ()")) == f"a::b({nested} x) -> ()"


def test_a_union_may_have_fifty_members() -> None:
    different = [f"({'int, ' * count}int)" for count in range(51)]
    schema = parse(f"a::b(Union({', '.join(different[:50])}) x) -> ()")
    assert len(schema.arguments[0].type.contained) == 50
    with pytest.raises(SchemaError, match="too many members"):
        parse(f"a::b(Union({', '.join(different)}) x) -> ()")


def test_limits_of_unions_sizes_and_texts() -> None:
    with pytest.raises(SchemaError, match="too many members"):
        parse(f"a::b(Union({', '.join(f't{i}' for i in range(60))}) x) -> ()")
    with pytest.raises(SchemaError, match="cannot create std::vector"):
        parse("a::b(int[2000000000] x=1) -> ()")
    with pytest.raises(SchemaError, match="the schema is not a text"):
        parse("a::b(str x='\ud800') -> ()")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "repeated", "count", "tail"),
    [
        ("a::b(", "int x, ", 25_000, ""),
        ("a::b(", "(", 100_000, ""),
        ("a::b(Tensor", "[]", 50_000, ""),
        ("a::b(Tensor(", "a|", 50_000, ""),
        ("a::b(Tensor x='", "\\0", 50_000, ""),
        ("a::b(str x='", "\\000", 25_000, "') -> ()"),
        ("a::b(int x=", "1", 100_000, ") -> ()"),
        ("a::b(float x=", "1", 100_000, ") -> ()"),
        ("a::b(int[] x=[", "1, ", 25_000, ""),
        ("", '"', 100_000, ""),
        ("'", "'", 100_000, ""),
        ("", "a", 100_000, ""),
        ("", "a::b", 50_000, ""),
        ("", " ", 100_000, ""),
        ("", "\n", 100_000, "$"),
        ("", "#", 100_000, ""),
        ("a\n", "#\n", 50_000, "$"),
        ("", "a\n ", 25_000, ""),
        ("", "\\\n", 50_000, ""),
        ("a::b(", "\n", 100_000, "$"),
        ("", "".join(f"a\n{' ' * i}" for i in range(400)), 3, ""),
        ("", ".", 100_000, ""),
        ("", "# type:", 15_000, ""),
        ("a(", "# type:", 15_000, ""),
    ],
    ids=lambda part: repr(part[:16]) if isinstance(part, str) else None,
)
def test_time_is_linear(head: str, repeated: str, count: int, tail: str) -> None:
    def read(text: str) -> None:
        try:
            parse(text)
        except SchemaError as error:
            assert error.problem  # noqa: PT017 - only some are refused

    assert grows_linearly(lambda times: functools.partial(read, head + repeated * times + tail), count)


def test_schemas_are_values() -> None:
    schema: Any = parse("a::b(Tensor x) -> Tensor")
    assert schema != "a::b(Tensor x) -> Tensor"
    assert schema.arguments[0] != "x"
    assert schema == parse("a::b( Tensor x )->(Tensor)")
    assert {schema: 1}[parse(str(schema))] == 1
    with pytest.raises(AttributeError):
        schema.is_vararg = True


def test_schemas_are_printed_as_by_the_newest_release() -> None:
    assert embedded.versions()[-1].minor_version == NEWEST
