// Blocks with a dispatch key each, the key of torch 1.6 on its way to torch in registers or in memory, as GCC likes.
#include <torch/library.h>

static at::Tensor tanh_xla(const at::Tensor& self) {
  return self;
}

static at::Tensor relu_cuda(const at::Tensor& self) {
  return self;
}

TORCH_LIBRARY_IMPL(aten, XLA, m) {
  m.impl("tanh", tanh_xla);
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("relu", relu_cuda);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
