// What RegisterOperators refuses, one function each, to be called from Python. Built on torch 1.4 it runs on 1.5 as well.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/op_registration.h>
#include <pybind11/pybind11.h>

#if defined(TORCH_1_4)
constexpr auto CPU = c10::TensorTypeId::CPUTensorId;
constexpr auto CUDA = c10::TensorTypeId::CUDATensorId;
#else
constexpr auto CPU = c10::DispatchKey::CPU;
constexpr auto CUDA = c10::DispatchKey::CUDA;
#endif

namespace {
using Operators = c10::RegisterOperators;
at::Tensor one(at::Tensor x) { return x; }
at::Tensor two(at::Tensor x, at::Tensor) { return x; }
int64_t number(at::Tensor) { return 0; }
constexpr auto ONE = "abiscan::f(Tensor x) -> Tensor";

void add(const char* schema, Operators::Options&& kernels) {
  static std::vector<Operators> kept;
  kept.push_back(Operators().op(schema, std::move(kernels)));
}
}  // namespace

// Options can be neither copied nor moved.
#define OPTIONS Operators::options()
#define ON(key) OPTIONS.kernel<decltype(one), &one>(key)

PYBIND11_MODULE(register_operators, m) {
  m.def("same_key", [] { add(ONE, ON(CPU).kernel<decltype(one), &one>(CPU)); });
  m.def("two_catch_alls", [] {
    add(ONE, OPTIONS.catchAllKernel<decltype(one), &one>().catchAllKernel<decltype(one), &one>());
  });
  m.def("nothing_to_infer_from", [] { add("abiscan::f", OPTIONS); });
  m.def("kernels_disagree", [] { add("abiscan::f", ON(CPU).kernel<decltype(two), &two>(CUDA)); });
  m.def("wrong_arguments", [] { add("abiscan::f(Tensor x, Tensor y) -> Tensor", ON(CPU)); });
  m.def("wrong_return", [] { add(ONE, OPTIONS.kernel<decltype(number), &number>(CPU)); });
  m.def("wrong_returns", [] { add("abiscan::f(Tensor x) -> (Tensor, int)", ON(CPU)); });
  m.def("other_schema", [] { add(ONE, ON(CPU)); add("abiscan::f(Tensor y) -> Tensor", ON(CUDA)); });
  m.def("equal_schema", [] { add(ONE, ON(CPU)); add(ONE, ON(CUDA)); });
  m.def("override", [] { add(ONE, ON(CPU)); add(ONE, ON(CPU)); });
  m.def("override_catch_all", [] {
    add(ONE, OPTIONS.catchAllKernel<decltype(one), &one>());
    add(ONE, OPTIONS.catchAllKernel<decltype(one), &one>());
  });
  m.def("unknown_type", [] { add("abiscan::f(Tenzor x) -> Tensor", OPTIONS); });
}
