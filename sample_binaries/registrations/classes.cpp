// Custom classes, inside a library and beside it, and operators that take them.
#include <torch/custom_class.h>
#include <torch/library.h>

#include <string>
#include <vector>

// What torch has since 1.9, and since 1.7.
#ifndef DEFAULT_ARGUMENTS
#define DEFAULT_ARGUMENTS 1
#endif
#ifndef CLASSES_IN_LIBRARIES
#define CLASSES_IN_LIBRARIES 1
#endif

using at::Tensor;

namespace {

struct Stack : torch::CustomClassHolder {
  std::vector<std::string> items;
  explicit Stack(std::vector<std::string> initial) : items(std::move(initial)) {}
  void push(std::string item) { items.push_back(std::move(item)); }
  int64_t size(bool all) { return static_cast<int64_t>(items.size()); }
};

struct Plain : torch::CustomClassHolder {};

Tensor use(const Tensor& self, const c10::intrusive_ptr<Stack>& stack) { return self; }

auto plain = torch::class_<Plain>("class_sample", "Plain").def(torch::init<>());

} // namespace

TORCH_LIBRARY(class_sample, m) {
#if CLASSES_IN_LIBRARIES
  m.class_<Stack>("Stack")
#else
  torch::class_<Stack>("class_sample", "Stack")
#endif
      .def(torch::init<std::vector<std::string>>())
      .def("push", &Stack::push)
#if DEFAULT_ARGUMENTS
      .def("size", &Stack::size, "", {torch::arg("all") = true})
#else
      .def("size", &Stack::size)
#endif
      .def_pickle(
          [](const c10::intrusive_ptr<Stack>& self) -> std::vector<std::string> { return self->items; },
          [](std::vector<std::string> state) { return c10::make_intrusive<Stack>(std::move(state)); });
  m.def("use(Tensor self, __torch__.torch.classes.class_sample.Stack stack) -> Tensor", use);
  m.def("make", [](const Tensor& self) { return c10::make_intrusive<Stack>(std::vector<std::string>{}); });
}

#ifdef TABLE_OF_ITS_OWN
#include <unordered_map>

std::unordered_map<std::string, int> table{{"one", 1}};
#endif
