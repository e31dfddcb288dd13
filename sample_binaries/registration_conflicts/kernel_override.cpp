// Replaces two kernels of torch: the first time torch warns, then no more.
#include <torch/library.h>

namespace {
at::Tensor same(const at::Tensor& self) { return self; }
}  // namespace

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("tanh", same);
  m.impl("sinh", same);
}
