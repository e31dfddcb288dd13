// A plain C-API module of Python 3.12; its file name carries the tag
// cpython-312. It calls PyType_GetDict, which is new in 3.12, so an older
// Python that opens the file by its path does not find that symbol.
#include <Python.h>

namespace at {
int get_num_threads();
}  // namespace at

static PyObject* names(PyObject*, PyObject* type) {
  if (!PyType_Check(type)) return PyLong_FromLong(at::get_num_threads());
  return PyType_GetDict(reinterpret_cast<PyTypeObject*>(type));
}

static PyMethodDef methods[] = {{"names", names, METH_O, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "python_abi_tag",
                             nullptr,              -1,
                             methods,              nullptr,
                             nullptr,              nullptr,
                             nullptr};

PyMODINIT_FUNC PyInit_python_abi_tag() { return PyModule_Create(&module); }
