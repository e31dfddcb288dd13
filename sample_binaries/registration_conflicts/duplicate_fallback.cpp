// Registers a fallback for a key that has one: directly, by an alias, or for the one key where torch accepts it.
#include <torch/library.h>

#if defined(DIRECT)
TORCH_LIBRARY_IMPL(_, AutogradCPU, m) {
#elif defined(ALIAS)
TORCH_LIBRARY_IMPL(_, Autograd, m) {
#elif defined(ACCEPTED)
TORCH_LIBRARY_IMPL(_, AutogradPrivateUse1, m) {
#endif
  m.fallback(torch::CppFunction::makeFallthrough());
}
