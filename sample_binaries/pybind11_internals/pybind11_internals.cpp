// Compiled with pybind11 2.11.1, an older release than the one inside torch.
// Each release keeps its registry of types under a key of its own
// ("__pybind11_internals_v..."), so this module does not see the types that
// torch binds with py::class_. It loads; calling it with a torch.FunctionSchema
// raises TypeError, because here that type is registered nowhere.
#include <ATen/core/function_schema.h>
#include <pybind11/pybind11.h>

static std::string schema_name(const c10::FunctionSchema& schema) {
  return schema.name();
}

PYBIND11_MODULE(pybind11_internals, m) { m.def("schema_name", &schema_name); }
