// Every form of torch::Library that torch/library.h offers.
#include <torch/library.h>

#include <string>
#include <tuple>
#include <vector>

using at::Tensor;

namespace {

Tensor twice(const Tensor& self) { return self; }
Tensor scale(const Tensor& self, double factor, int64_t times, bool fast) { return self; }
std::tuple<Tensor, std::vector<Tensor>> split(const std::vector<Tensor>& parts, const std::string& how) {
  return {parts[0], parts};
}
void touch(Tensor& self) {}
int64_t version() { return 3; }
void boxed(const c10::OperatorHandle&, torch::jit::Stack*) {}

const char* const kNames[] = {"table_a", "table_b", "table_c"};

} // namespace

TORCH_LIBRARY(sample, m) {
  m.def("twice(Tensor self) -> Tensor");
  m.def("scale.by(Tensor self, float factor=2.0, int times=1, bool fast=False) -> Tensor");
  m.def("split", split);
  m.def("version", version);
  m.def("touch(Tensor(a!) self) -> ()", touch);
  m.def("long_name_that_does_not_fit_into_a_small_string(Tensor self) -> Tensor");
  for (const char* name : kNames) {
    m.def((std::string(name) + "(Tensor self) -> Tensor").c_str());
  }
}

TORCH_LIBRARY_FRAGMENT(sample, m) {
  m.def("lambda(Tensor self, int n) -> Tensor", [](const Tensor& self, int64_t) { return self; });
  m.def("boxed(Tensor self) -> Tensor");
}

TORCH_LIBRARY_IMPL(sample, CPU, m) {
  m.impl("twice", twice);
  m.impl("scale.by", TORCH_FN(scale));
  m.impl("long_name_that_does_not_fit_into_a_small_string", twice);
  for (const char* name : kNames) {
    m.impl(name, twice);
  }
}

TORCH_LIBRARY_IMPL(sample, CUDA, m) {
  m.impl("sample::twice", torch::CppFunction::makeFromBoxedFunction<&boxed>());
}

TORCH_LIBRARY_IMPL(sample, CompositeExplicitAutograd, m) {
  m.impl("boxed", torch::CppFunction::makeFromBoxedFunction<&boxed>());
  m.impl("scale.by", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(scale)));
}

TORCH_LIBRARY_IMPL(sample, Autograd, m) {
  m.impl("twice", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("relu", twice);
}

TORCH_LIBRARY_IMPL(_, PrivateUse2, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(_, PrivateUse3, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed>());
}
