// Uses THPVariable_Wrap, which libtorch_python.so exports, but is linked
// without -ltorch_python. Torch opens its libraries with RTLD_LOCAL, so a
// symbol is visible only to the files that name its library as needed: the
// load fails although the running torch has the very symbol.
typedef struct _object PyObject;

namespace at {
class TensorBase;
int get_num_threads();
}  // namespace at

PyObject* THPVariable_Wrap(const at::TensorBase& x);

PyObject* abiscan_wrap(const at::TensorBase& x) {
  return at::get_num_threads() > 0 ? THPVariable_Wrap(x) : nullptr;
}
