// An operator library as most extensions write it: one schema, one CPU kernel.
// It shows the good case: built for the running torch, so every symbol is
// found and torch.ops.load_library registers abiscan_loads::double_it.
#include <ATen/ops/add.h>
#include <torch/library.h>

static at::Tensor double_it(const at::Tensor& x) { return at::add(x, x); }

TORCH_LIBRARY(abiscan_loads, m) { m.def("double_it(Tensor x) -> Tensor"); }

TORCH_LIBRARY_IMPL(abiscan_loads, CPU, m) { m.impl("double_it", &double_it); }
