// torch::Library objects that move, end, are kept in containers, and fragments in loops.
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

static std::map<std::string, torch::Library> kept;
static std::optional<torch::Library> maybe;
static std::unique_ptr<torch::Library> owned;
static torch::Library make(const std::string& ns, int line) {
  torch::Library library(torch::Library::FRAGMENT, ns, std::nullopt, __FILE__, line);
  library.def(("made" + std::to_string(line) + "(Tensor x) -> Tensor").c_str());
  return library;
}
struct Registrar {
  std::vector<torch::Library> all;
  explicit Registrar(int n) {
    for (int i = 0; i < n; ++i) {
      all.push_back(make("gen", i));
      all.back().def(("pushed" + std::to_string(i) + "() -> ()").c_str());
    }
  }
};
static Registrar registrar(5);
static at::Tensor twice(const at::Tensor& x) { return x; }
static int later = [] {
  kept.emplace("a", make("gen", 100));
  kept.emplace("b", make("gen", 101));
  kept.erase("a");
  maybe.emplace(make("gen", 102));
  maybe = make("gen", 103);
  owned = std::make_unique<torch::Library>(make("gen", 104));
  owned.reset(new torch::Library(make("gen", 105)));
  {
    torch::Library gone = make("gen", 106);
    gone.def("gone() -> ()");
    gone.impl("gone", [] {});
  }
  torch::Library moved = make("gen", 107);
  moved = std::move(kept.at("b"));
  kept.at("b") = std::move(moved);
  std::swap(registrar.all[0], registrar.all[4]);
  registrar.all.pop_back();
  registrar.all.erase(registrar.all.begin() + 1);
  return 0;
}();
TORCH_LIBRARY_FRAGMENT(gen, m) {
  for (const char* type : {"int", "float", "Tensor", "str"})
    m.def((std::string("typed_") + type + "(" + type + " x) -> " + type).c_str());
  m.def("kernel", twice);
  m.def("kernel2", TORCH_FN(twice));
}
TORCH_LIBRARY_IMPL(gen, CPU, m) { m.impl("typed_Tensor", twice); }
