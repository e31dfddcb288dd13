// An out-of-tree backend: its name, its device guard, its allocator; the operators come when the module is imported.
#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <Python.h>

namespace {

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device d) const override { return d; }
  c10::Device getDevice() const override { return c10::Device(c10::DeviceType::PrivateUse1, 0); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device d) const override { return c10::Stream(c10::Stream::DEFAULT, d); }
  c10::Stream exchangeStream(c10::Stream s) const override { return s; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Name {
  Name() { c10::register_privateuse1_backend("sample_device"); }
} name;

at::Tensor relu(const at::Tensor& self) { return self; }

} // namespace

static PyMethodDef methods[] = {{nullptr, nullptr, 0, nullptr}};
static PyModuleDef module = {PyModuleDef_HEAD_INIT, "backend", nullptr, -1, methods};

PyMODINIT_FUNC PyInit_backend() {
  PyObject* made = PyModule_Create(&module);
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, "module.cpp", 7);
  library.impl("relu", relu);
  return made;
}

// Called by nobody here: an extension may offer such a function to Python.
extern "C" void register_later() {
  static torch::Library library(torch::Library::FRAGMENT, "later", std::nullopt, "later.cpp", 9);
  library.def("late(Tensor self) -> Tensor");
}
