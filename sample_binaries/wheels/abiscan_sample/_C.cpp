// The extension inside the sample wheel. It registers one operator and takes a
// number from a library that the wheel vendors under a hashed name, the layout
// that wheel repair tools leave behind.
#include <ATen/ops/mul.h>
#include <torch/library.h>

extern "C" int abiscan_vendored_factor();

static at::Tensor scale(const at::Tensor& x) {
  return at::mul(x, abiscan_vendored_factor());
}

TORCH_LIBRARY(abiscan_sample, m) { m.def("scale(Tensor x) -> Tensor", &scale); }
