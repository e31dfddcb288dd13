// Operators whose schemas are inferred from functions with optionals and tuples.
#include <torch/library.h>

#include <string>
#include <tuple>

#ifndef OPTIONAL
#define OPTIONAL std::optional
#endif

using at::Tensor;

namespace {

OPTIONAL<std::tuple<Tensor, int64_t>> pick(const Tensor& self, OPTIONAL<int64_t> index, OPTIONAL<std::string> name) {
  return std::make_tuple(self, index.value_or(0));
}

std::tuple<Tensor, OPTIONAL<Tensor>> halves(const Tensor& self, const OPTIONAL<Tensor>& other) {
  return std::make_tuple(self, other);
}

} // namespace

TORCH_LIBRARY(optional_sample, m) {
  m.def("pick", pick);
  m.def("halves", halves);
  m.def("spaced(Tensor ? self) -> Tensor ?");
}
