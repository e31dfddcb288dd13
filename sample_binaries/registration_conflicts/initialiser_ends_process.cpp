// A static initialiser that throws what nothing catches, and one whose exceptions are all caught.
#include <torch/library.h>

#include <map>
#include <stdexcept>

TORCH_LIBRARY(abiscan_initialiser_ends_process, m) {
  m.def("before(Tensor x) -> Tensor");
#if defined(UNCAUGHT)
  throw std::runtime_error("no such mode");
#elif defined(TORCH_ERROR)
  TORCH_CHECK(false, "no such mode");
#else
  try {
    std::map<int, int>().at(1);
  } catch (const std::out_of_range&) {
    m.def("caught(Tensor x) -> Tensor");
  }
#endif
  m.def("behind(Tensor x) -> Tensor");
}
