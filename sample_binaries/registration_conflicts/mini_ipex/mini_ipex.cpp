// A backend in the style of pytorch issue #38973: it registers its kernels for operators of aten by their whole schemas,
// as torch 1.4 has them, when its Python module is imported. It has a kernel for _embedding_bag, and none for tanh.
// The dispatch key is one that no backend inside of torch uses. Compiles on torch 1.4, 1.5 and 1.6.
#include <ATen/core/op_registration/op_registration.h>
#include <pybind11/pybind11.h>
#include <stdexcept>

#if defined(TORCH_1_4)
constexpr auto KEY = c10::TensorTypeId::XLATensorId;
#elif defined(TORCH_1_5)
constexpr auto KEY = c10::DispatchKey::XLATensorId;
#else
constexpr auto KEY = c10::DispatchKey::XLA;
#endif

namespace {
using at::Scalar;
using at::Tensor;

// One body for all kernels: what matters here is how they register.
template <class Type>
struct Kernel;
template <class Result, class... Arguments>
struct Kernel<Result(Arguments...)> {
  static Result call(Arguments...) { throw std::runtime_error("mini_ipex computes nothing"); }
};

template <class Type>
void add(c10::RegisterOperators& operators, const char* schema) {
  std::move(operators).op(c10::RegisterOperators::options()
                              .schema(schema)
                              .impl_unboxedOnlyKernel<Type, &Kernel<Type>::call>(KEY)
                              .aliasAnalysis(c10::AliasAnalysisKind::FROM_SCHEMA));
}

using Unary = Tensor(const Tensor&);
using UnaryInplace = Tensor&(Tensor&);
using Binary = Tensor(const Tensor&, const Tensor&);
using BinaryInplace = Tensor&(Tensor&, const Tensor&);
using WithScalar = Tensor(const Tensor&, Scalar);

void register_operators() {
  static c10::RegisterOperators operators;
  for (const char* schema :
       {"aten::abs(Tensor self) -> Tensor", "aten::ceil(Tensor self) -> Tensor", "aten::cos(Tensor self) -> Tensor",
        "aten::erf(Tensor self) -> Tensor", "aten::exp(Tensor self) -> Tensor", "aten::floor(Tensor self) -> Tensor",
        "aten::log(Tensor self) -> Tensor", "aten::neg(Tensor self) -> Tensor", "aten::relu(Tensor self) -> Tensor",
        "aten::round(Tensor self) -> Tensor", "aten::rsqrt(Tensor self) -> Tensor",
        "aten::sigmoid(Tensor self) -> Tensor", "aten::sin(Tensor self) -> Tensor",
        "aten::sqrt(Tensor self) -> Tensor", "aten::trunc(Tensor self) -> Tensor", "aten::t(Tensor(a) self) -> Tensor(a)"})
    add<Unary>(operators, schema);
  for (const char* schema :
       {"aten::relu_(Tensor(a!) self) -> Tensor(a!)", "aten::sigmoid_(Tensor(a!) self) -> Tensor(a!)",
        "aten::sqrt_(Tensor(a!) self) -> Tensor(a!)", "aten::zero_(Tensor(a!) self) -> Tensor(a!)"})
    add<UnaryInplace>(operators, schema);
  for (const char* schema :
       {"aten::mm(Tensor self, Tensor mat2) -> Tensor", "aten::bmm(Tensor self, Tensor mat2) -> Tensor",
        "aten::mv(Tensor self, Tensor vec) -> Tensor", "aten::dot(Tensor self, Tensor tensor) -> Tensor",
        "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", "aten::div.Tensor(Tensor self, Tensor other) -> Tensor",
        "aten::eq.Tensor(Tensor self, Tensor other) -> Tensor", "aten::gt.Tensor(Tensor self, Tensor other) -> Tensor",
        "aten::lt.Tensor(Tensor self, Tensor other) -> Tensor"})
    add<Binary>(operators, schema);
  for (const char* schema :
       {"aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)",
        "aten::div_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"})
    add<BinaryInplace>(operators, schema);
  for (const char* schema :
       {"aten::mul.Scalar(Tensor self, Scalar other) -> Tensor", "aten::eq.Scalar(Tensor self, Scalar other) -> Tensor",
        "aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor"})
    add<WithScalar>(operators, schema);
  add<Tensor(const Tensor&, const Tensor&, Scalar)>(
      operators, "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor");
  add<Tensor(const Tensor&, const Tensor&, const Tensor&, Scalar, Scalar)>(
      operators, "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor");
  add<Tensor(const Tensor&, int64_t, bool)>(
      operators, "aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor");
  add<Tensor(const Tensor&, at::IntArrayRef)>(operators, "aten::view(Tensor(a) self, int[] size) -> Tensor(a)");
  add<std::tuple<Tensor, Tensor, Tensor, Tensor>(
      const Tensor&, const Tensor&, const Tensor&, bool, int64_t, bool, const Tensor&)>(
      operators,
      "aten::_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
      "bool sparse=False, Tensor? per_sample_weights=None) -> (Tensor, Tensor, Tensor, Tensor)");
}
}  // namespace

PYBIND11_MODULE(mini_ipex, m) {
  register_operators();
}
