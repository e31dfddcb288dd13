// Registers a kernel for a backend of one's own: the number of its key in 2.12 is that of another one in 2.13.
#include <torch/library.h>

namespace {
at::Tensor same(const at::Tensor& self) { return self; }
}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("tanh", same);
}
