// Defines an operator that torch has while the module is imported: with pybind11, which turns what is thrown into an
// ImportError (PYBIND11), and without, where nothing catches it (BARE).
#include <torch/library.h>

namespace {
void define() {
  static torch::Library library(torch::Library::FRAGMENT, "aten", std::nullopt, __FILE__, __LINE__);
  library.def("tanh(Tensor self) -> Tensor");
}
}  // namespace

#if defined(PYBIND11)
#include <pybind11/pybind11.h>
PYBIND11_MODULE(module_init, m) {
  define();
}
#elif defined(BARE)
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "module_init"};
PyMODINIT_FUNC PyInit_module_init() {
  define();
  return PyModule_Create(&definition);
}
#endif
