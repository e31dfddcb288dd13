// Opens a library for a namespace that has one: torch's own (TORCH), or, when this file is loaded from two paths, its
// own (TWICE).
#include <torch/library.h>

#if defined(TORCH)
TORCH_LIBRARY(aten, m) {}
#elif defined(TWICE)
TORCH_LIBRARY(abiscan_duplicate_library, m) {
  m.def("twice(Tensor self) -> Tensor");
}
#endif
