from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from abiscan.binary.mangling import Signature, demangle, same_name_prefixes, uses_cxx11_string

words = st.from_regex(r"[a-z_][a-z0-9_]{0,6}", fullmatch=True)
names = st.lists(words, min_size=1, max_size=3).map("::".join)
types = st.recursive(
    names,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"t<{', '.join(parts)}>"),
        st.lists(inner, max_size=2).map(lambda parts: f"void (*)({', '.join(parts)})"),
        inner.map("{} const&".format),
    ),
    max_leaves=6,
)
signatures = st.builds(
    lambda name, parameters, suffix: Signature(name=name, parameters=tuple(parameters), suffix=suffix),
    names,
    st.lists(types, max_size=4),
    st.sampled_from(["", " const", " const &", " volatile"]),
)


@given(signatures)
def test_a_signature_is_read_back_as_it_was_written(signature: Signature) -> None:
    assert Signature.of(str(signature)) == signature


@given(signatures, signatures)
def test_likeness_is_highest_for_itself_and_marks_nothing(one: Signature, other: Signature) -> None:
    assert one.similarity_to(other) <= one.similarity_to(one)
    assert one.mark_against(one) == str(one)
    assert one.mark_against(other).replace("«", "").replace("»", "") == str(one)


@given(st.lists(words, min_size=1, max_size=4), st.booleans())
def test_overloads_begin_with_the_path_of_the_name(path: list[str], constant: bool) -> None:
    spelled = "".join(f"{len(word)}{word}" for word in path)
    name = f"_ZN{'K' if constant else ''}{spelled}Ei"
    assert same_name_prefixes(name) == (f"_ZN{spelled}", f"_ZNK{spelled}")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.sampled_from(["", "_Z", "_ZN", "_ZN2at"]))
def test_any_text_is_a_name_to_them(text: str, prefix: str) -> None:
    name = prefix + text
    assert demangle(name)[:0] == ""
    assert Signature.of(name).name in name
    assert all(one.startswith("_ZN") for one in same_name_prefixes(name))
    assert uses_cxx11_string(name) in (True, False, None)
