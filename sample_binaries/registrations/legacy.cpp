// RegisterOperators in the form it has had since torch 1.4, where dispatch keys were called TensorTypeId.
#include <ATen/ATen.h>
#include <ATen/core/op_registration/op_registration.h>

#include <string>

using at::Tensor;

#if LEGACY_TENSOR_TYPE_ID
using Key = c10::TensorTypeId;
constexpr Key kCpu = Key::CPUTensorId, kXla = Key::XLATensorId;
#else
using Key = c10::DispatchKey;
constexpr Key kCpu = Key::CPU, kXla = Key::XLA;
#endif

namespace {

Tensor twice(const Tensor& self) { return self; }
Tensor power(const Tensor& self, int64_t exponent, bool fast) { return self; }

auto registered = c10::RegisterOperators()
    .op("legacy::schema_only(Tensor self) -> Tensor")
    .op("legacy::twice(Tensor self) -> Tensor",
        c10::RegisterOperators::options()
            .kernel<decltype(twice), &twice>(kCpu)
            .kernel<decltype(twice), &twice>(kXla))
    .op("legacy::power", c10::RegisterOperators::options().catchAllKernel<decltype(power), &power>())
#if LEGACY_TENSOR_TYPE_ID
    .op("aten::tanh(Tensor self) -> Tensor",
        c10::RegisterOperators::options().impl_unboxedOnlyKernel<decltype(twice), &twice>(kXla))
#endif
    ;

} // namespace
