// What a block of torch/library.h must not hold, one by one.
#include <torch/library.h>

namespace {
[[maybe_unused]] at::Tensor same(const at::Tensor& self) { return self; }
}  // namespace

#if defined(FRAGMENT_OF_ALL)
TORCH_LIBRARY_FRAGMENT(_, m) {}
#elif defined(DEF_OF_ALL)
TORCH_LIBRARY(_, m) {}
#elif defined(DEF_WITH_KEY)
static torch::Library library(torch::Library::FRAGMENT, "abiscan_misuse", c10::DispatchKey::CPU, __FILE__, __LINE__);
#elif defined(DEF_IN_IMPL)
TORCH_LIBRARY_IMPL(abiscan_misuse, CPU, m) {
  m.def("op(Tensor self) -> Tensor");
}
#elif defined(SCHEMA_NAMESPACE)
TORCH_LIBRARY(abiscan_misuse, m) {
  m.def("abiscan_other::op(Tensor self) -> Tensor");
}
#elif defined(NO_SCHEMA)
TORCH_LIBRARY(abiscan_misuse, m) {
  m.def("op", torch::CppFunction::makeFallthrough());
}
#elif defined(KERNEL_NAMESPACE)
TORCH_LIBRARY_IMPL(abiscan_misuse, CPU, m) {
  m.impl("abiscan_other::op", same);
}
#elif defined(KERNEL_NAMESPACE_OF_ALL)
TORCH_LIBRARY_IMPL(_, CPU, m) {
  m.impl("abiscan_other::op", same);
}
#elif defined(KERNEL_KEY)
TORCH_LIBRARY_IMPL(abiscan_misuse, CPU, m) {
  m.impl("op", torch::dispatch(c10::DispatchKey::CUDA, same));
}
#elif defined(FALLBACK_IN_DEF)
TORCH_LIBRARY(abiscan_misuse, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
#elif defined(FALLBACK_WITHOUT_KEY)
TORCH_LIBRARY_IMPL(_, Undefined, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
#elif defined(FALLBACK_OF_NAMESPACE)
TORCH_LIBRARY_IMPL(abiscan_misuse, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
#endif
