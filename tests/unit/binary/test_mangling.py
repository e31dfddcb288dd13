from __future__ import annotations

import ctypes.util
from collections.abc import Iterator
from typing import Final, NoReturn

import cxxfilt
import pytest

from abiscan.binary import by_lief, mangling
from abiscan.binary.mangling import Signature, demangle, demangle_type, same_name_prefixes, uses_cxx11_string

OLD = "_ZN3c105ErrorC2ENS_14SourceLocationESs"
NEW = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


# c++filt, with its long spellings of strings and vectors cut short by hand.
WORDS: Final = {
    "_ZN2at4fillERNS_6TensorEd": "at::fill(at::Tensor&, double)",
    "_ZNK2at6Tensor4dataEv": "at::Tensor::data() const",
    "_ZTVN3c105ErrorE": "vtable for c10::Error",
    OLD: "c10::Error::Error(c10::SourceLocation, std::string)",
    NEW: "c10::Error::Error(c10::SourceLocation, std::__cxx11::string)",
    "_ZN2at4nameB5cxx11Ev": "at::name[abi:cxx11]()",
    "_ZN2at3addESt6vectorISsSaISsEE": "at::add(std::vector<std::string>)",
    "_Z1fSt6vectorIiSaIiEE": "f(std::vector<int>)",
}
UNMANGLED: Final = ("", "malloc", "_Z", "_ZN", "_Zwhat is this", "_ZN2at", "_Z\x00f", "_Z9999999999a", "é")


@pytest.mark.parametrize(("name", "text"), WORDS.items())
def test_demangle(name: str, text: str) -> None:
    assert demangle(name) == text


@pytest.mark.parametrize("name", UNMANGLED)
def test_what_is_not_mangled_stays(name: str) -> None:
    assert demangle(name) == name


@pytest.mark.parametrize("name", ["_Z" + "N2at" * 5_000, "_Z1f" + "S_" * 300, "_Z1f" + "P" * 16_385 + "i"])
def test_what_would_only_tire_the_demangler_stays(name: str) -> None:
    assert demangle(name) == name


def test_a_name_whose_text_doubles_with_every_substitution_stays() -> None:
    # f(a, p<a, a>, p<p<a, a>, p<a, a>>, …): 40 doublings, in 450 characters
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    seen = ["S_", *(f"S{digit}_" for digit in digits), *(f"S1{digit}_" for digit in digits)]
    name = "_Z1f1a1pIS_S_E" + "".join(f"S0_I{each}{each}E" for each in seen[2:42])
    assert demangle(name) == name


def test_deep_nesting_ends() -> None:
    name = "_Z1f" + "P" * 10_000 + "i"
    assert demangle(name) in {name, "f(int" + "*" * 10_000 + ")"}


@pytest.fixture
def without_cxxfilt(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """cxxfilt as it is imported where ``ctypes.util.find_library`` finds nothing."""
    error = cxxfilt.LibraryNotFound()
    monkeypatch.setattr(cxxfilt, "default_demangler", cxxfilt.DeferedErrorDemangler(error))
    demangle.cache_clear()
    mangling._load_demangler.cache_clear()
    yield
    demangle.cache_clear()
    mangling._load_demangler.cache_clear()


def test_cxxfilt_finds_the_runtime_without_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes.util, "find_library", lambda name: f"by programs: {name}")
    former = ctypes.util.find_library
    monkeypatch.setitem(mangling._RUNTIME, "absent", "libabsent-of-all-machines.so.1")
    with mangling._found_by_the_loader():
        found = [ctypes.util.find_library(name) for name in ("c", "absent", "m")]
    assert found == ["libc.so.6", "by programs: absent", "by programs: m"]
    assert ctypes.util.find_library is former


@pytest.mark.usefixtures("without_cxxfilt")
@pytest.mark.parametrize("name", [*WORDS, *UNMANGLED, "_Z\ud800"])
def test_lief_demangles_where_cxxfilt_finds_no_library(name: str) -> None:
    assert demangle(name) == WORDS.get(name, name)


@pytest.mark.usefixtures("without_cxxfilt")
def test_lief_demangles_types() -> None:
    assert demangle_type("FN2at6TensorERKS0_E") == "at::Tensor (at::Tensor const&)"
    assert demangle_type("no type") == "no type"


@pytest.mark.usefixtures("without_cxxfilt")
def test_without_a_demangler_names_stay_mangled(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> NoReturn:
        raise ImportError("libstdc++.so.6: cannot open shared object file")

    monkeypatch.setattr(by_lief, "lief_module", absent)
    assert demangle(OLD) == OLD


@pytest.mark.parametrize(
    ("text", "name", "parameters", "suffix"),
    [
        ("at::f()", "at::f", (), ""),
        ("at::f(int, long) const", "at::f", ("int", "long"), " const"),
        ("f(std::map<int, long>, int)", "f", ("std::map<int, long>", "int"), ""),
        ("f(void (*)(int, int), char)", "f", ("void (*)(int, int)", "char"), ""),
        ("A::operator()(int) const", "A::operator()", ("int",), " const"),
        ("(anonymous namespace)::f(int)", "(anonymous namespace)::f", ("int",), ""),
        ("f(int (&) [3], int)", "f", ("int (&) [3]", "int"), ""),
    ],
)
def test_a_function_is_split(text: str, name: str, parameters: tuple[str, ...], suffix: str) -> None:
    signature = Signature.of(text)
    assert (signature.name, signature.parameters, signature.suffix) == (name, parameters, suffix)
    assert str(signature) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vtable for c10::Error",
        "x",
        "f(",
        "f)",
        ")(",
        "(anonymous namespace)",
        "(a)",
        "guard of at::(anonymous namespace)::x",
    ],
)
def test_what_is_no_function_has_no_parameters(text: str) -> None:
    assert Signature.of(text) == Signature(name=text)


@pytest.mark.parametrize(
    ("mine", "other", "marked"),
    [
        ("f(int, long)", "f(int, char)", "f(int, «long»)"),
        ("f(int)", "f(int)", "f(int)"),
        ("f(int, long, char)", "f(int, char)", "f(int, «long», char)"),
        ("f(int)", "f(int, char)", "f(int)"),
        ("f() const", "f()", "f()« const»"),
        ("f(int)", "vtable for f", "f(int)"),
        ("vtable for f", "f(int)", "vtable for f"),
    ],
)
def test_differences_are_marked(mine: str, other: str, marked: str) -> None:
    assert Signature.of(mine).mark_against(Signature.of(other)) == marked


def test_likeness_orders_overloads() -> None:
    wanted = Signature.of("f(int, long, char)")
    near, nearer, far = Signature.of("f(int, long)"), Signature.of("f(int, long, short)"), Signature.of("f(void*)")
    assert (
        far.similarity_to(wanted)
        < nearer.similarity_to(wanted)
        < near.similarity_to(wanted)
        < wanted.similarity_to(wanted)
    )


def test_likeness_takes_both_strings_for_one() -> None:
    old, new = Signature.of("f(std::string)"), Signature.of("f(std::__cxx11::string)")
    assert old.similarity_to(new) == new.similarity_to(new)


def test_likeness_prefers_the_same_constness() -> None:
    wanted = Signature.of("f(int) const")
    assert Signature.of("f(int) const").similarity_to(wanted) > Signature.of("f(int)").similarity_to(wanted)


@pytest.mark.parametrize(
    ("name", "prefixes"),
    [
        ("_ZN2at4fillERNS_6TensorEd", ("_ZN2at4fill", "_ZNK2at4fill")),
        ("_ZNK2at6Tensor4dataEv", ("_ZN2at6Tensor4data", "_ZNK2at6Tensor4data")),
        ("_ZNKR2at1aEv", ("_ZN2at1a", "_ZNK2at1a")),
        ("_ZN2at1aIiEEvv", ("_ZN2at1a", "_ZNK2at1a")),  # up to the template arguments
        ("_ZN3c105ErrorC2Ev", ("_ZN3c105ErrorC", "_ZNK3c105ErrorC")),  # all constructors
        ("_ZN3c105ErrorD0Ev", ("_ZN3c105ErrorD", "_ZNK3c105ErrorD")),
        ("_ZN2atlsERSoRKNS_6TensorE", ("_ZN2atls", "_ZNK2atls")),  # operators: at::operator<<
        ("_ZN2at6TensoraSEOS0_", ("_ZN2at6TensoraS", "_ZNK2at6TensoraS")),
    ],
)
def test_overloads_begin_alike(name: str, prefixes: tuple[str, ...]) -> None:
    assert same_name_prefixes(name) == prefixes


@pytest.mark.parametrize(
    "name", ["malloc", "_Z1fv", "_ZNSt6vectorIiE4sizeEv", "_ZN99at", "_ZN", "_ZN2", "_ZTVN2at1aE", ""]
)
def test_no_prefix_for_what_is_in_no_namespace(name: str) -> None:
    assert same_name_prefixes(name) == ()


@pytest.mark.parametrize(
    ("name", "which"),
    [
        (NEW, True),
        ("_ZN2at4nameB5cxx11Ev", True),
        (OLD, False),
        ("_ZN2at3addESt6vectorISsSaISsEE", False),
        ("_ZN2at4fillERNS_6TensorEd", None),
        ("_ZN2at8ClassSsXEv", None),  # the letters of the old string in a name of its own
        ("PassString", None),
    ],
)
def test_which_string(name: str, which: bool | None) -> None:
    assert uses_cxx11_string(name) is which
