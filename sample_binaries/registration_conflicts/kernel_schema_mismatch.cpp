// Kernels whose C++ type does not fit the schema of their operator: in the number of arguments (ARGUMENTS) or of
// returns (RETURNS), in the type of an argument (ARGUMENT_TYPE) or of a return (RETURN_TYPE); or found out only when the
// schema comes after the kernel (KERNEL_FIRST).
#include <torch/library.h>

namespace {
at::Tensor kernel(const at::Tensor& self, int64_t) { return self; }
}  // namespace

#if defined(KERNEL_FIRST)
TORCH_LIBRARY_IMPL(abiscan_kernel_schema_mismatch, CPU, m) {
  m.impl("op", kernel);
}
#endif

TORCH_LIBRARY(abiscan_kernel_schema_mismatch, m) {
#if defined(ARGUMENTS) || defined(KERNEL_FIRST)
  m.def("op(Tensor self) -> Tensor");
#elif defined(RETURNS)
  m.def("op(Tensor self, int n) -> (Tensor, Tensor)");
#elif defined(ARGUMENT_TYPE)
  m.def("op(Tensor self, ScalarType? n=None) -> Tensor");
#elif defined(RETURN_TYPE)
  m.def("op(Tensor self, SymInt n) -> Tensor?");
#endif
}

#if !defined(KERNEL_FIRST)
TORCH_LIBRARY_IMPL(abiscan_kernel_schema_mismatch, CPU, m) {
  m.impl("op", kernel);
}
#endif
