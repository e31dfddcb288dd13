// A kernel for an operator of torch whose C++ type is not that of the kernels that the operator has: it lacks an argument
// (ARITY), has int64_t where torch, too, has no SymInt but takes by another type (PASSING), or differs in a SymInt (SYMINT).
#include <torch/library.h>

namespace {
#if defined(ARITY)
at::Tensor matrix_power(const at::Tensor& self) { return self; }
#elif defined(PASSING)
at::Tensor matrix_power(at::Tensor self, int64_t) { return self; }
#elif defined(SYMINT)
at::Tensor narrow(const at::Tensor& self, c10::SymInt, c10::SymInt, c10::SymInt) { return self; }
#endif
}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#if defined(SYMINT)
  m.impl("narrow", narrow);
#else
  m.impl("matrix_power", matrix_power);
#endif
}
