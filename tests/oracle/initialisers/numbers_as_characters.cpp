// std::to_chars and std::from_chars, with their errors.
#include <torch/library.h>
#include <charconv>
#include <array>
#include <string_view>
#include <system_error>
using namespace std::literals;
TORCH_LIBRARY(gen, m) {
  std::array<char, 64> b; auto r = std::to_chars(b.data(), b.data() + b.size(), 123456789012345LL); m.def(("i" + std::string(b.data(), r.ptr) + "() -> ()").c_str());
  r = std::to_chars(b.data(), b.data() + b.size(), 255, 16); m.def(("h" + std::string(b.data(), r.ptr) + "() -> ()").c_str());
  r = std::to_chars(b.data(), b.data() + b.size(), 0.1); m.def(("f(float x=" + std::string(b.data(), r.ptr) + ") -> ()").c_str());
  r = std::to_chars(b.data(), b.data() + b.size(), 3.14159f, std::chars_format::fixed, 3); m.def(("g(float x=" + std::string(b.data(), r.ptr) + ") -> ()").c_str());
  r = std::to_chars(b.data(), b.data() + 2, 12345); m.def(r.ec == std::errc::value_too_large ? "large() -> ()" : "small() -> ()");
  int v = 0; auto s = "77tail"sv; auto q = std::from_chars(s.begin(), s.end(), v); m.def(("v" + std::to_string(v) + "_" + std::to_string(q.ptr - s.begin()) + "() -> ()").c_str());
  double d = 0; auto t = "2.5e1x"sv; auto z = std::from_chars(t.begin(), t.end(), d); m.def(("d" + std::to_string((int)d) + "_" + std::to_string(z.ptr - t.begin()) + "() -> ()").c_str());
  unsigned char u; auto o = "300"sv; m.def(std::from_chars(o.begin(), o.end(), u).ec == std::errc::result_out_of_range ? "range() -> ()" : "norange() -> ()");
  auto e = "zz"sv; m.def(std::from_chars(e.begin(), e.end(), v, 36).ec == std::errc() ? ("b36_" + std::to_string(v) + "() -> ()").c_str() : "nob() -> ()");
}
