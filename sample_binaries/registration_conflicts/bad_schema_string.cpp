// Schemas that torch cannot read.
#include <torch/library.h>

TORCH_LIBRARY(abiscan_bad_schema_string, m) {
#if defined(TYPE)
  m.def("op(Tensor self, Tenzor other) -> Tensor");
#elif defined(SYNTAX)
  m.def("op(Tensor self, -> Tensor");
#elif defined(NAME_ONLY)
  m.def(torch::schema("op"));
#endif
}
