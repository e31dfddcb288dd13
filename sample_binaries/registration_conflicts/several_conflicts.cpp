// Four registrations that torch refuses, one after the other: with none of them put right (NONE), ONE, TWO, or THREE.
#include <torch/library.h>

#if defined(NONE)
#define PUT_RIGHT 0
#elif defined(ONE)
#define PUT_RIGHT 1
#elif defined(TWO)
#define PUT_RIGHT 2
#else
#define PUT_RIGHT 3
#endif

namespace {
at::Tensor with_number(const at::Tensor& self, int64_t) { return self; }
at::Tensor without_number(const at::Tensor& self) { return self; }
}  // namespace

TORCH_LIBRARY_FRAGMENT(aten, m) {
#if PUT_RIGHT < 1
  m.def("tanh(Tensor self, int n=1) -> Tensor");
#endif
#if PUT_RIGHT < 2
  m.def("sinh(Tensor self) -> Tensor");
#endif
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#if PUT_RIGHT < 1
  m.impl("tanh", &with_number);  // which goes with the definition
#endif
#if PUT_RIGHT < 3
  m.impl("matrix_power", &without_number);
#endif
}

TORCH_LIBRARY_IMPL(_, AutogradCPU, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
