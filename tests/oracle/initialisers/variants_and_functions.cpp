// std::variant, visit, optional, any, function, bind, tuples and templates that build names.
#include <torch/library.h>

#include <algorithm>
#include <any>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <typeinfo>
#include <variant>
#include <vector>

template <class... F>
struct Overload : F... {
  using F::operator()...;
};
template <class... F>
Overload(F...) -> Overload<F...>;
using Value = std::variant<std::monostate, int, double, std::string, std::vector<int>>;
static std::string show(const Value& value) {
  return std::visit(
      Overload{[](std::monostate) { return std::string("none"); }, [](int i) { return "i" + std::to_string(i); },
               [](double d) { return "d" + std::to_string(static_cast<int>(d * 10)); },
               [](const std::string& s) { return "s" + s; },
               [](const std::vector<int>& v) { return "v" + std::to_string(v.size()); }},
      value);
}
struct Throws {
  Throws() = default;
  Throws(const Throws&) { throw 5; }
  Throws& operator=(const Throws&) = default;
};
template <class T>
constexpr const char* type_name() {
  if constexpr (std::is_integral_v<T>) return "integral";
  else if constexpr (std::is_floating_point_v<T>) return "floating";
  else return "class";
}
template <class... T>
static std::string names(const std::tuple<T...>&) {
  std::string all;
  ((all += std::string("_") + type_name<T>()), ...);
  return all;
}
TORCH_LIBRARY(gen, m) {
  std::vector<Value> values{{}, 3, 2.5, std::string("text"), std::vector<int>{1, 2}};
  for (auto& value : values) m.def(("show_" + show(value) + "() -> ()").c_str());
  values[1] = std::string("changed");
  values[0].emplace<double>(0.5);
  std::swap(values[0], values[4]);
  for (auto& value : values) m.def(("then_" + show(value) + "() -> ()").c_str());
  try {
    (void)std::get<int>(values[2]);
  } catch (const std::bad_variant_access& error) {
    m.def("bad_variant() -> ()");
  }
  std::variant<int, Throws> valueless = 1;
  try {
    Throws source;
    valueless.emplace<Throws>(source);
  } catch (int) {
  }
  m.def(valueless.valueless_by_exception() ? "valueless() -> ()" : "valued() -> ()");
  std::optional<std::string> maybe;
  m.def((maybe.value_or("fallback") + "() -> ()").c_str());
  maybe = "present";
  m.def((*maybe + std::to_string(maybe->size()) + "() -> ()").c_str());
  std::any any = 3;
  any = std::string("any");
  if (auto text = std::any_cast<std::string>(&any)) m.def((*text + "() -> ()").c_str());
  m.def((std::string("any_") + (any.type() == typeid(std::string) ? "string" : "other") + "() -> ()").c_str());
  std::map<std::string, std::function<int(int, int)>> table{
      {"plus", std::plus<int>()}, {"times", [](int a, int b) { return a * b; }}, {"bound", std::bind(std::minus<int>(), std::placeholders::_2, std::placeholders::_1)}};
  for (auto& [name, function] : table) m.def((name + std::to_string(function(3, 10) + 100) + "() -> ()").c_str());
  std::function<int(int)> fibonacci = [&](int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); };
  m.def(("fib" + std::to_string(fibonacci(12)) + "() -> ()").c_str());
  m.def(("tuple" + names(std::make_tuple(1, 2.0, std::string())) + "() -> ()").c_str());
  auto [quotient, remainder] = std::div(17, 5);
  m.def(("div" + std::to_string(quotient) + std::to_string(remainder) + "() -> ()").c_str());
  std::unique_ptr<int, std::function<void(int*)>> owned(new int(4), [&](int* p) {
    m.def(("deleted" + std::to_string(*p) + "() -> ()").c_str());
    delete p;
  });
  owned.reset();
}
