// Registers a fallback for a key that has one: directly (DIRECT), or by an alias whose first key has one (ALIAS).
#include <torch/library.h>

#if defined(DIRECT)
TORCH_LIBRARY_IMPL(_, AutogradCPU, m) {
#elif defined(ALIAS)
TORCH_LIBRARY_IMPL(_, Autograd, m) {
#endif
  m.fallback(torch::CppFunction::makeFallthrough());
}
