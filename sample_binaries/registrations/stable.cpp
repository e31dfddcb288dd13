// The stable ABI: dispatch keys are texts, kernels are boxed.
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

void kernel(StableIValue* stack, uint64_t inputs, uint64_t outputs) {}

STABLE_TORCH_LIBRARY(stable_sample, m) {
  m.def("twice(Tensor self) -> Tensor");
}

STABLE_TORCH_LIBRARY_FRAGMENT(stable_sample, m) {
  m.def("thrice(Tensor self) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(stable_sample, CPU, m) {
  m.impl("twice", &kernel);
}

STABLE_TORCH_LIBRARY_IMPL(stable_sample, CompositeExplicitAutograd, m) {
  m.impl("thrice", &kernel);
}
