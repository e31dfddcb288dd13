// What an extension hands to torch while it registers, one way in each file: compiled with -DBY_BACKEND, -DBY_OPERATORS,
// -DBY_INFERRED, -DBY_CUSTOM_CLASS, or -DBY_OLD_API, against the headers of each release. TORCH is 104 for 1.4, 213 for 2.13.
#include <ATen/ATen.h>
#include <ATen/core/op_registration/op_registration.h>
#if TORCH >= 106
#include <torch/library.h>
#endif
#include <torch/custom_class.h>

namespace {
using at::Tensor;

Tensor unary(const Tensor& self) { return self; }

#if TORCH >= 106
using Sizes = at::IntArrayRef;
using Tensors = std::vector<Tensor>;
#else
using Sizes = c10::List<int64_t>;
using Tensors = c10::List<Tensor>;
#endif
Tensor of_many(const Tensor& self, c10::optional<int64_t> number, Sizes sizes, double scale, bool flag,
               std::string text, Tensors tensors) {
  return self;
}

#define SCHEMA \
  "full(Tensor(a) self, int n=1, float scale=2.5, str text='x', int[] sizes=[1, 2], Tensor? other=None, *, " \
  "ScalarType? dtype=None, Device? device=None) -> (Tensor(a), Tensor[])"

#if defined(BY_BACKEND) && TORCH >= 106
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("abs", unary);
  m.impl("neg", TORCH_FN(unary));
}
#elif defined(BY_OPERATORS) && TORCH >= 106
TORCH_LIBRARY(abiscan_registering, m) {
  m.def(SCHEMA);
  m.def("unary(Tensor self) -> Tensor", unary);
  m.impl("unary", torch::dispatch(c10::DispatchKey::XLA, unary));
}
#elif defined(BY_OPERATORS) && TORCH == 105
static auto registry =
    torch::import("abiscan_registering").def(SCHEMA).def("unary(Tensor self) -> Tensor", unary);
#elif defined(BY_INFERRED) && TORCH >= 106
TORCH_LIBRARY(abiscan_registering, m) {
  m.def("of_many", of_many);
  m.def("lambda", [](const Tensor& self, int64_t n) { return self; });
}
#elif defined(BY_INFERRED) && TORCH == 105
static auto registry = torch::import("abiscan_registering").def("of_many", of_many);
#elif defined(BY_OLD_API)
static auto registry = c10::RegisterOperators()
                           .op("abiscan_registering::" SCHEMA)
                           .op("abiscan_registering::unary(Tensor self) -> Tensor",
                               c10::RegisterOperators::options().kernel<decltype(unary), &unary>(
#if TORCH == 104
                                   c10::TensorTypeId::XLATensorId))
#elif TORCH == 105
                                   c10::DispatchKey::XLATensorId))
#else
                                   c10::DispatchKey::XLA))
#endif
                           .op("abiscan_registering::of_many", &of_many);
#elif defined(BY_CUSTOM_CLASS)
#if TORCH == 104
using namespace torch::jit;
#else
using namespace torch;
#endif
struct Counter : CustomClassHolder {
  int64_t count;
  explicit Counter(int64_t start) : count(start) {}
  int64_t next() { return count++; }
  Tensor add(const Tensor& self) { return self; }
};
#if TORCH == 104
static auto registry = class_<Counter>("Counter")
#elif TORCH == 105
static auto registry = class_<Counter>("abiscan_registering", "Counter")
#else
TORCH_LIBRARY(abiscan_registering, m) {
  m.class_<Counter>("Counter")
#endif
                           .def(init<int64_t>())
                           .def("next", &Counter::next)
                           .def("add", &Counter::add)
#if TORCH >= 105
                           .def_pickle([](const c10::intrusive_ptr<Counter>& self) { return self->count; },
                                       [](int64_t count) { return c10::make_intrusive<Counter>(count); })
#endif
    ;
#if TORCH >= 106
}
#endif
#else
#error there is no such way in this release
#endif
}  // namespace
