// c10::RegisterOperators and torch::jit::RegisterOperators.
#include <ATen/ATen.h>
#include <ATen/core/op_registration/op_registration.h>
#include <torch/csrc/jit/runtime/custom_operator.h>

#include <string>

using at::Tensor;

namespace {

Tensor twice(const Tensor& self) { return self; }
Tensor power(const Tensor& self, int64_t exponent) { return self; }

struct Functor final : c10::OperatorKernel {
  Tensor operator()(const Tensor& self, std::string how) { return self; }
};

auto by_options = c10::RegisterOperators()
    .op("options::schema_only(Tensor self) -> Tensor")
    .op("options::twice(Tensor self) -> Tensor",
        c10::RegisterOperators::options()
            .kernel<decltype(twice), &twice>(c10::DispatchKey::CPU)
            .kernel<decltype(twice), &twice>(c10::DispatchKey::CUDA))
    .op("options::power", c10::RegisterOperators::options().catchAllKernel<decltype(power), &power>())
    .op("options::functor", c10::RegisterOperators::options().kernel<Functor>(c10::DispatchKey::CPU));

auto deprecated = c10::RegisterOperators("options::old_style", &power);

torch::jit::RegisterOperators jit_only({torch::jit::Operator(
    "jit_sample::answer(int question) -> int",
    [](torch::jit::Stack&) {},
    c10::AliasAnalysisKind::FROM_SCHEMA)});

} // namespace
