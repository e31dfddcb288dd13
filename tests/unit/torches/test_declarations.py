"""What the layout of a class depends on, as far as its declaration shows it."""

from __future__ import annotations

import pytest

from abiscan.torches.declarations import Declarations, read_declarations

HEADER = """
#pragma once
#define C10_FORALL(_) _(CPU) _(CUDA)
namespace c10 {
enum class Kind : int8_t { A, B, Count };
constexpr int kSize = static_cast<int>(Kind::Count);
using Sizes = std::array<int, kSize>;
struct Inner { int64_t value_ = 0; };
struct Elsewhere { int64_t far_; };
/* a comment { */
class C10_API Shared final : public Base<Inner> {
 public:
  template <typename T, std::enable_if_t<is_ok<T>::value, std::nullptr_t> = nullptr>
  explicit Shared(T t) : inner_{t}, name_("{") {}
  virtual void first(int number) const { call(number); }
  void second();
  Shared& operator=(const Shared&) = delete;
#ifdef WITH_KIND
  Kind kind_{Kind::A};
#endif
 private:
  Inner inner_;
  Sizes sizes_;
  std::unique_ptr<Elsewhere> elsewhere_;
  Elsewhere* pointer_ = nullptr;
  size_t most_{std::numeric_limits<size_t>::max()};
  bool flag_ : 1;
};
}  // namespace c10
"""


def digest(header: str, name: str = "c10::Shared") -> str:
    found = Declarations({"a.h": header}).digest(name)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("int64_t value_ = 0", "int32_t value_ = 0"),
        ("Inner inner_;", "Inner inner_; int added_;"),
        ("A, B, Count", "A, B, C, Count"),
        (": int8_t", ": int16_t"),
        ("std::array<int, kSize>", "std::array<long, kSize>"),
        ("virtual void first", "virtual void zeroth(); virtual void first"),
        ("virtual void first", "void first"),
        ("public Base<Inner>", "public Base<Inner>, public Other"),
        ("bool flag_ : 1", "bool flag_ : 2"),
        ("#ifdef WITH_KIND", "#ifdef WITHOUT_KIND"),
        ("size_t most_", "uint32_t most_"),
        ("std::unique_ptr<Elsewhere>", "std::shared_ptr<Elsewhere>"),
        ("Elsewhere* pointer_", "Elsewhere pointer_"),
    ],
)
def test_what_changes_the_layout_changes_the_hash(old: str, new: str) -> None:
    assert HEADER.count(old) == 1
    assert digest(HEADER.replace(old, new)) != digest(HEADER)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("call(number);", "if (number) { call(number); }"),
        ("void second();", "void second(); void third(int = 3) const noexcept;"),
        ("int64_t far_;", "int32_t near_;"),
        ("/* a comment { */", "// another }"),
        ("  Inner inner_;", "\n\n    Inner   inner_ ;"),
        ("= 0; };", "= 7; };"),
        ("int number", "const Elsewhere& number"),
        ('name_("{")', 'name_(R"x(}})x")'),
        ("A, B, Count };", "A, B, Count }; enum class Unused { One };"),
    ],
)
def test_what_does_not_change_the_layout_does_not_change_the_hash(old: str, new: str) -> None:
    assert HEADER.count(old) == 1
    assert digest(HEADER.replace(old, new)) == digest(HEADER)


def test_classes_are_found_by_their_full_names() -> None:
    declarations = Declarations(
        {"a.h": HEADER, "b.h": "namespace at { namespace detail { struct Shared {}; } class Forward; }"}
    )
    assert declarations.classes == {
        "at::detail::Shared": "b.h",
        "c10::Elsewhere": "a.h",
        "c10::Inner": "a.h",
        "c10::Shared": "a.h",
    }
    assert declarations.digest("at::Forward") is None
    assert declarations.digest("at::detail::Shared") != declarations.digest("c10::Shared")


def test_values_that_a_macro_lists() -> None:
    header = HEADER.replace("A, B, Count", "C10_FORALL(NAMED) Count")
    assert digest(header) != digest(header.replace("_(CPU) _(CUDA)", "_(CPU) _(CUDA) _(XPU)"))


@pytest.mark.parametrize(
    "text",
    ["}}}}", "{{{{", "class X {", 'R"(', "struct A : B {" * 50, "<" * 500 + "{", "#define \\", "[[" * 20_000 + "{"],
)
def test_no_header_is_too_broken(text: str) -> None:
    assert isinstance(list(read_declarations(text)), list)


def digest_of(text: str, name: str) -> str:
    found = Declarations({"a.h": text}).digest(name)
    assert found is not None
    return found


def matters(text: str, old: str, new: str, name: str = "c10::X") -> bool:
    """Whether a change of a header changes the hash of a class."""
    assert text.count(old) == 1
    return digest_of(text, name) != digest_of(text.replace(old, new), name)


# C++, [basic.lookup.unqual]: the innermost scope that declares a name hides the others.
SCOPES = """
struct In { char everywhere; };
namespace c10 {
struct In { short of_namespace; };
namespace detail { struct In { long elsewhere; }; }
struct X { struct In { int of_class; }; In in_; };
struct Y { In in_; };
}
namespace at { struct In { bool other; }; struct Z { ::In in_; c10::detail::In far_; }; }
"""


@pytest.mark.parametrize(
    ("class_name", "changed", "expected"),
    [
        ("c10::X", "int of_class", True),
        ("c10::X", "short of_namespace", False),
        ("c10::X", "char everywhere", False),
        ("c10::Y", "short of_namespace", True),
        ("c10::Y", "int of_class", False),
        ("c10::Y", "char everywhere", False),
        ("c10::Y", "long elsewhere", False),
        ("c10::Y", "bool other", False),
        ("at::Z", "long elsewhere", True),
        ("at::Z", "int of_class", False),
    ],
)
def test_the_innermost_declaration_is_meant(class_name: str, changed: str, expected: bool) -> None:
    assert matters(SCOPES, changed, "double more; " + changed, class_name) is expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [("long one", True), ("char two", True), ("bool three", False), ("short four", False), ("int five", False)],
)
def test_a_name_that_a_using_directive_brings_in(changed: str, expected: bool) -> None:
    """These are not looked at: every declaration counts that the name may mean, but not what is inside of a class."""
    text = """
namespace c10 {
namespace detail { struct In { long one; }; }
struct Named { char two; };
struct Around { struct Named { bool three; }; };
namespace other { struct In { short four; }; }
struct Unused { int five; };
}
namespace at { using namespace c10; struct X { detail::In in_; Named named_; }; }
"""
    assert matters(text, changed, "double more; " + changed, "at::X") is expected


def test_a_name_of_the_global_scope_is_found_from_every_scope() -> None:
    text = "struct Outer { int a; };\nnamespace c10 { namespace b { struct X { Outer o; }; } }\n"
    assert matters(text, "int a", "long a", "c10::b::X")


def test_a_scope_ends_with_its_brace() -> None:
    text = """
struct Before { int x; };
namespace at { struct A { int x; }; }
namespace c10 { namespace detail { struct B { int x; }; } struct C { struct D { int x; }; enum E { F }; }; }
struct After { int x; };
namespace torch::jit { struct G { int x; }; }
extern "C" { struct H { int x; }; }
namespace { struct I { int x; }; }
namespace torch { struct J { int x; }; }
"""
    assert set(Declarations({"a.h": text}).classes) == {
        "at::A",
        "c10::detail::B",
        "c10::C",
        "c10::C::D",
        "torch::jit::G",
        "torch::J",
    }


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("#ifdef A", "#ifndef A", True),
        ("#ifdef A", "#if defined(B)", True),
        ("#elif B", "#elif C", True),
        ("#else", "#elif C", True),
        ("#pragma GCC diagnostic push", "#pragma GCC diagnostic pop", False),
        ("#define UNUSED 1", "#define UNUSED 2", False),
        ("#error no", "#error never", False),
        ("#ifdef IDLE", "#ifdef IDLER", False),  # nothing of the class is in it
    ],
)
def test_conditions_around_a_member(old: str, new: str, expected: bool) -> None:
    text = """
#define UNUSED 1
namespace c10 { struct X {
#pragma GCC diagnostic push
#ifdef A
  int a;
#elif B
  long a;
#else
  char a;
#endif
#ifdef IDLE
#error no
#endif
  int b;
}; }
"""
    assert matters(text, old, new) is expected


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        # What a class has in it, and what is only pointed to.
        ("In in_;", True),
        ("In in_[2];", True),
        ("std::array<In, 2> in_;", True),
        ("std::optional<In> in_;", True),
        ("In* in_;", False),
        ("const In& in_;", False),
        ("std::unique_ptr<In> in_;", False),
        ("std::shared_ptr<std::vector<In>> in_;", False),
        ("c10::intrusive_ptr<In> in_;", False),
        ("std::function<In(In)> in_;", False),
        # Functions and what belongs to no object.
        ("In function(In) const;", False),
        ("static In in_;", False),
        ("friend In;", False),
    ],
)
def test_a_member_has_its_class_in_it_unless_it_points_to_it(member: str, expected: bool) -> None:
    text = "namespace c10 { struct In { int x; }; struct X { char c; " + member + " }; }"
    assert matters(text, "int x", "long x") is expected


@pytest.mark.parametrize("kind", ["union", "struct"])
def test_a_class_without_a_name_has_its_members_in_the_class_around_it(kind: str) -> None:
    text = f"namespace c10 {{ struct In {{ int x; }}; struct X {{ {kind} {{ char c; In in_; }} both_; }}; }}"
    assert matters(text, "int x", "long x")
    assert matters(text, "char c", "long c")
    assert matters(text, kind + " { char", ("struct" if kind == "union" else "union") + " { char")
    without_name = text.replace(" both_;", ";")
    assert matters(without_name, "int x", "long x")


def test_a_pointer_that_is_a_class_is_in_the_class_itself() -> None:
    text = """
namespace c10 {
struct In { int x; };
template <class T> struct intrusive_ptr { T* target_; };
struct X { c10::intrusive_ptr<In> in_; };
struct Y { intrusive_ptr<In> first_; In second_; };
}
"""
    assert matters(text, "T* target_;", "T* target_; int count_;")
    assert not matters(text, "int x", "long x")
    assert matters(text, "int x", "long x", "c10::Y")  # beside the pointer


def test_a_size_that_is_a_constant_or_a_value() -> None:
    text = """
#define C10_MOST_OF 4
namespace c10 {
enum Kind { A, B = 7, Count };
constexpr int kFirst = 3;
constexpr int kSecond = kFirst * 2;
constexpr int kOther = 9;
struct X { char a[kSecond]; char b[Kind::Count]; char c[C10_MOST_OF]; };
}
"""
    for old, new, expected in (
        ("kFirst = 3", "kFirst = 4", True),
        ("kFirst * 2", "kFirst * 3", True),
        ("B = 7", "B = 8", True),
        ("kOther = 9", "kOther = 8", False),
    ):
        assert matters(text, old, new) is expected, old
    with_macro = text.replace("constexpr int kOther = 9;", "constexpr int kOther = C10_MOST_OF;").replace(
        "char a[kSecond]", "char a[kOther]"
    )
    assert matters(with_macro, "#define C10_MOST_OF 4", "#define C10_MOST_OF 5")


def test_the_order_of_members_matters_and_that_of_classes_does_not() -> None:
    first, second = "struct A { int x; };", "struct B { long y; };"
    of_members = "namespace c10 {{ {} {} struct X {{ {} {} }}; }}"
    text = of_members.format(first, second, "A a;", "B b;")
    assert digest_of(text, "c10::X") == digest_of(of_members.format(second, first, "A a;", "B b;"), "c10::X")
    assert digest_of(text, "c10::X") != digest_of(of_members.format(first, second, "B b;", "A a;"), "c10::X")


def test_it_does_not_matter_in_which_header_a_class_is() -> None:
    one, other = "namespace c10 { struct A { int x; }; }", "namespace c10 { struct X { A a; }; }"
    apart = Declarations({"a.h": one, "b.h": other})
    assert apart.digest("c10::X") == digest_of(one + other, "c10::X")
    assert apart.classes == {"c10::A": "a.h", "c10::X": "b.h"}
    assert Declarations({"a.h": one, "b.h": one}).classes == {"c10::A": "a.h"}


# In C++, what determines a layout are bases, the types of members and their order: not how a member is initialised, nor
# what a function does, has for parameters, or returns.
@pytest.mark.parametrize(
    ("members", "old", "new", "expected"),
    [
        ("int a = int{3}; char c;", "int{3}", "int{4}", False),
        ("std::vector<int> a = {1, 2}; char c;", "{1, 2}", "{1}", False),
        ("int a{3}; char c;", "a{3}", "a{4}", False),
        ("int a = f(3); char c;", "int a", "long a", True),
        ("int a = f(3); char c;", "f(3)", "f(4)", False),
        ("std::function<int()> a = [](int b) { return b; }; int n;", "int n", "long n", True),
        ("std::function<int()> a = [](int b) { return b; }; int n;", "return b", "return 1", False),
        ("int f(int a = 3) { return a; } int n;", "int n;", "long n;", True),
        ("int f(int a = 3) { return a; } int n;", "return a", "return 1", False),
        ("int f(int a = 3) { return a; } int n;", "= 3", "= 4", False),
        ("X& operator=(const X& o) { n = o.n; return *this; } int n;", "int n;", "long n;", True),
        ("X& operator=(const X& o) { n = o.n; return *this; } int n;", "n = o.n", "n = 3", False),
        ("bool operator==(const X& o) const { return n == o.n; } int n;", "int n;", "long n;", True),
        ("bool operator<=(const X& o) const { return n <= o.n; } int n;", "return n", "return 3", False),
        ("X(int a) : n{a}, m(a) { f(); } int n; int m;", "int n;", "long n;", True),
        ("X(int a) : n{a}, m(a) { f(); } int n; int m;", "f()", "g()", False),
        ("X(int a) : n{a}, m(a) { f(); } int n; int m;", "n{a}", "n{1}", False),
        ("X(int a) : n(a) { f(); } int n;", "f()", "g()", False),
        ("int f(std::vector<int>); int n;", "std::vector<int>", "std::vector<long>", False),
        # A function type as the argument of a template is no function: what is called is a member.
        ("std::function<int(int)> a;", "int(int)", "long(int)", True),
        ("Pair<Result<int(int)>, int> a;", "int(int)", "long(int)", True),
        ("int (*a)(int);", "int (*a)", "long (*a)", True),
        ("int a[3]; char b;", "a[3]", "a[4]", True),
        ("unsigned n : 3; unsigned m : 2;", "n : 3", "n : 4", True),
    ],
)
def test_what_counts_of_a_member(members: str, old: str, new: str, expected: bool) -> None:
    assert matters("namespace c10 { struct X { " + members + " }; }", old, new) is expected


@pytest.mark.parametrize(
    ("constant", "old", "new"),
    [
        ("constexpr int kN = int{3};", "int{3}", "int{4}"),
        ("constexpr int kN{3};", "kN{3}", "kN{4}"),
        ("constexpr int kN = {3};", "{3}", "{4}"),
        ("static const int kN = 3;", "= 3", "= 4"),
        ("static const int kN{3};", "kN{3}", "kN{4}"),
        ("constexpr int f() { return 3; } constexpr int kN = f();", "kN = f()", "kN = f() + 1"),
    ],
)
def test_a_constant_is_its_value(constant: str, old: str, new: str) -> None:
    assert matters("namespace c10 { " + constant + " struct X { char a[kN]; unsigned b : 1; }; }", old, new)
    assert matters("namespace c10 { " + constant + " struct X { char a; unsigned b : kN; }; }", old, new)


@pytest.mark.parametrize(
    "use",
    [
        "struct X : In { int n; };",
        "struct X : public c10::In { int n; };",
        "struct X : virtual In { int n; };",
        "struct X final : Other, In { int n; };",
        "typedef In Alias; struct X { Alias a; };",
        "using Alias = In; struct X { Alias a; };",
        "using Alias = std::array<In, 2>; struct X { Alias a; };",
        "namespace b { using c10::In; } struct X { b::In a; };",
    ],
)
def test_a_base_and_an_alias_are_what_they_name(use: str) -> None:
    assert matters("namespace c10 { struct In { int x; }; struct Other { char y; }; " + use + " }", "int x", "long x")


def test_a_class_that_is_defined_outside_of_the_class_that_declares_it() -> None:
    text = "namespace c10 { struct In { int x; }; struct Out { struct Y; }; struct Out::Y { In n; }; }"
    assert matters(text, "int x", "long x", "c10::Out::Y")
    # The colons of its name are not the beginning of its bases.
    text = "namespace c10 { struct Y { int x; }; struct Out { struct Y; }; struct Out::Y { char n; }; }"
    assert not matters(text, "int x", "long x", "c10::Out::Y")


@pytest.mark.parametrize("name", ["n", "names"])
def test_the_name_of_a_member_is_not_its_type(name: str) -> None:
    for member in (f"int {name};", f"int {name}[2];", f"unsigned {name} : 2;"):
        text = f"namespace c10 {{ struct {name} {{ int x; }}; struct X {{ {member} }}; }}"
        assert not matters(text, "int x", "long x")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"struct {"', '"}; struct {"'),
        ('"struct {"', "'{'"),
        ('"struct {"', 'R"x(}; "{)x"'),
        ("// one {", "// }"),
        ("/* two { */", "/* } */"),
    ],
)
def test_braces_in_literals_and_comments_open_nothing(old: str, new: str) -> None:
    text = """
namespace c10 { struct In { int x; };
// one {
struct X { const char* text_ = "struct {"; /* two { */ In in_; }; }
"""
    assert not matters(text, old, new)
    assert matters(text, "int x", "long x")
    assert matters(text.replace(old, new), "int x", "long x")


def test_a_literal_is_a_literal_and_a_comment_is_nothing() -> None:
    for given, other, expected in (
        ('"a"', "", True),
        ("'a'", "", True),
        ('R"(a)"', "", True),
        ('"a"', '"b"', False),
        ("// a", "", False),
        ("/* a */", "", False),
    ):
        text = f"#define C10_OF_X {given}\nnamespace c10 {{ struct X {{ char x[sizeof(C10_OF_X)]; }}; }}"
        assert matters(text, f"C10_OF_X {given}", f"C10_OF_X {other}") is expected
    text = 'extern "C" { namespace c10 { struct X { int x; }; } }'
    assert Declarations({"a.h": text}).classes == {"c10::X": "a.h"}
    assert matters(text, "int x", "long x")


def test_what_follows_a_pointer_in_angle_brackets() -> None:
    text = "namespace c10 { struct In { int x; }; struct X { std::pair<std::shared_ptr<Far<int>>, In> both_; }; }"
    assert matters(text, "int x", "long x")
    text = "namespace c10 { struct In { int x; }; struct X { std::map<std::unique_ptr<In>,In> both_; }; }"
    assert matters(text, "int x", "long x")
