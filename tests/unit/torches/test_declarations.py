"""What the layout of a class depends on, as far as its declaration shows it."""

from __future__ import annotations

import pytest

from abiscan.torches.declarations import Declarations, read

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
    assert isinstance(list(read(text)), list)
