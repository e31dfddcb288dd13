// A pybind11 module compiled with the headers of Python 3.12 and stored as
// python_abi.so, a name without a tag that would stop another Python from
// importing it. Every symbol is found; the module's own entry function compares
// the versions and raises ImportError.
#include <pybind11/pybind11.h>

namespace at {
int get_num_threads();
}  // namespace at

PYBIND11_MODULE(python_abi, m) { m.def("threads", &at::get_num_threads); }
