// A Python extension made with pybind11, as torch.utils.cpp_extension makes them. Some operators are registered as the
// module is imported, one when Python calls for it.
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include <memory>
#include <string>
#include <vector>

namespace py = pybind11;
using at::Tensor;

namespace {

Tensor twice(const Tensor& self) { return self; }
Tensor scaled(const Tensor& self, double factor) { return self; }

struct Counter {
  explicit Counter(int start) : value(start) {}
  int next(int step) { return value += step; }
  int value;
};

enum class Mode { Slow, Fast };

std::vector<std::unique_ptr<torch::Library>>& libraries() {
  static std::vector<std::unique_ptr<torch::Library>> all;
  return all;
}

} // namespace

PYBIND11_MODULE(pybind_sample, m) {
  m.doc() = "a sample";
  m.attr("version") = "1.0";
  py::class_<Counter, std::shared_ptr<Counter>>(m, "Counter")
      .def(py::init<int>(), py::arg("start") = 0)
      .def("next", &Counter::next, "Count on.", py::arg("step") = 1)
      .def_readwrite("value", &Counter::value)
      .def_property_readonly("twice", [](const Counter& self) { return 2 * self.value; });
  py::enum_<Mode>(m, "Mode").value("Slow", Mode::Slow).value("Fast", Mode::Fast).export_values();
  m.def("twice", &twice, py::call_guard<py::gil_scoped_release>());
  m.def("names", [](const std::vector<std::string>& names, py::dict options) { return names.size() + options.size(); });

  libraries().push_back(std::make_unique<torch::Library>(
      torch::Library::DEF, "pybind_sample", std::nullopt, "pybind.cpp", 46));
  libraries().back()->def("twice(Tensor self) -> Tensor").impl("twice", c10::DispatchKey::CPU, TORCH_FN(twice));
  static auto registered = torch::RegisterOperators().op("pybind_old::scaled", &scaled);

  m.def("register_more", [](const std::string& reason) {
    auto library = std::make_unique<torch::Library>(
        torch::Library::IMPL, "pybind_sample", c10::DispatchKey::CUDA, "pybind.cpp", 52);
    library->impl("twice", TORCH_FN(twice));
    libraries().push_back(std::move(library));
    return reason;
  });

  auto nested = m.def_submodule("nested", "of the sample");
  nested.def("mode", [](Mode mode) { return mode == Mode::Fast; });
  libraries().push_back(std::make_unique<torch::Library>(
      torch::Library::FRAGMENT, "pybind_sample", std::nullopt, "pybind.cpp", 61));
  libraries().back()->def("scaled", &scaled);
}
