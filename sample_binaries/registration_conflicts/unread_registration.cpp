// Defines one operator, and another one only if the environment asks for it.
#include <torch/library.h>

#include <cstdlib>

TORCH_LIBRARY(abiscan_unread_registration, m) {
  m.def("always(Tensor self) -> Tensor");
  if (std::getenv("ABISCAN_UNREAD_REGISTRATION") != nullptr) {
    m.def("sometimes(Tensor self) -> Tensor");
  }
}
