// A backend in host memory with the few operators that make a tensor, and some that do something with it. With
// -DFALLBACK it serves every other operator on the CPU.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

namespace {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kDevice> {
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct HostAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    auto memory = c10::GetCPUAllocator()->allocate(size);
    auto* context = memory.release_context();
    return {context, context, c10::GetCPUAllocator()->raw_deleter(), c10::Device(kDevice, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return c10::GetCPUAllocator()->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t size) const override { default_copy_data(to, from, size); }
};
HostAllocator allocator;

at::Tensor on_host(const at::Tensor& tensor) {
  auto options = tensor.options().device(c10::DeviceType::CPU);
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
}

at::Tensor empty(
    at::IntArrayRef size,
    std::optional<at::ScalarType> type,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>,
    std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(size, &allocator, kKeys, type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(
    at::IntArrayRef size,
    at::IntArrayRef stride,
    std::optional<at::ScalarType> type,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &allocator, kKeys, type.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  auto from = self.is_cpu() ? self : on_host(self);
  (to.is_cpu() ? to : on_host(to)).copy_(from);
  return to;
}

at::Tensor& add_out(const at::Tensor& self, const at::Tensor& other, const at::Scalar& alpha, at::Tensor& out) {
  on_host(out).copy_(at::add(on_host(self), on_host(other), alpha));
  return out;
}

at::Tensor softmax(const at::Tensor& self, int64_t dim, std::optional<at::ScalarType> type) {
  auto result = at::empty_like(self);
  on_host(result).copy_(at::softmax(on_host(self), dim, type));
  return result;
}

#ifdef FALLBACK
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) { at::native::cpu_fallback(op, stack); }
#endif

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("add.out", add_out);
  m.impl("softmax.int", softmax);  // which is composite: its autograd formula is lost for this backend
}

#ifdef FALLBACK
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}
#endif
