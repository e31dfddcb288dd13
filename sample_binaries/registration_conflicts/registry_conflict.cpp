// Enters something in one of torch's registries other than the dispatcher, where there is an entry already.

#if defined(BACKEND)  // two names for the backend of one's own
#include <c10/core/DeviceType.h>

namespace {
const auto named = (c10::register_privateuse1_backend("abiscan_one"), 0);
const auto named_again = (c10::register_privateuse1_backend("abiscan_two"), 0);
}  // namespace

#elif defined(HOOKS) || defined(HOOKS_TWICE)
#include <ATen/detail/PrivateUse1HooksInterface.h>

namespace {
struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex) const override { return false; }
} hooks;
const auto registered = (at::RegisterPrivateUse1HooksInterface(&hooks), 0);
#ifdef HOOKS
const auto registered_again = (at::RegisterPrivateUse1HooksInterface(&hooks), 0);
#endif
}  // namespace

#elif defined(GENERATOR)
#include <ATen/core/GeneratorForPrivateuseone.h>

namespace {
at::Generator one(c10::DeviceIndex) { return {}; }
at::Generator two(c10::DeviceIndex) { return {}; }
REGISTER_GENERATOR_PRIVATEUSE1(one)
REGISTER_GENERATOR_PRIVATEUSE1(two)
}  // namespace

#elif defined(STORAGE) || defined(STORAGE_NAMED) || defined(STORAGE_DEVICE)
#include <c10/core/DeviceType.h>
#include <c10/core/StorageImpl.h>

namespace {
c10::intrusive_ptr<c10::StorageImpl> make(
    c10::StorageImpl::use_byte_size_t, c10::SymInt, c10::DataPtr, c10::Allocator*, bool) {
  return {};
}
#ifdef STORAGE_NAMED
const auto named = (c10::register_privateuse1_backend("AbiScan"), 0);
#endif
#ifndef STORAGE_DEVICE
const auto registered = (c10::SetStorageImplCreate(c10::kPrivateUse1, &make), 0);
const auto registered_again = (c10::SetStorageImplCreate(c10::kPrivateUse1, &make), 0);
#else  // a device that may not have any
const auto registered = (c10::SetStorageImplCreate(c10::kCPU, &make), 0);
#endif
}  // namespace

#elif defined(SETTINGS) || defined(SETTINGS_TORCH)
#include <c10/core/AllocatorConfig.h>

namespace {
template <int>
struct Config {
  static Config& instance() {
    static Config config;
    return config;
  }
  static const std::unordered_set<std::string>& getKeys() {
#ifdef SETTINGS
    static const std::unordered_set<std::string> keys{"abiscan_size"};
#else
    static const std::unordered_set<std::string> keys{"max_split_size_mb"};
#endif
    return keys;
  }
  void parseArgs(const std::string&) {}
};
namespace one {
REGISTER_ALLOCATOR_CONFIG_PARSE_HOOK(Config<1>)
}
#ifdef SETTINGS
namespace two {
REGISTER_ALLOCATOR_CONFIG_PARSE_HOOK(Config<2>)
}
#endif
}  // namespace

#elif defined(OVERRIDE)  // what torch lets the second one replace without a word
#include <c10/core/Allocator.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <torch/csrc/profiler/stubs/base.h>

namespace {
void release(void*) {}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t) override { return {nullptr, nullptr, &release, c10::Device(c10::kPrivateUse1, 0)}; }
  void copy_data(void*, const void*, size_t) const override {}
} one, two;

using Guard = c10::impl::FakeGuardImpl<c10::kPrivateUse1>;
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)
const auto allocator = (c10::SetAllocator(c10::kPrivateUse1, &one, 1), 0);
const auto lower = (c10::SetAllocator(c10::kPrivateUse1, &two, 0), 0);  // comes to nothing
const auto equal = (c10::SetAllocator(c10::kPrivateUse1, &two, 1), 0);
const auto profiler = (torch::profiler::impl::registerPrivateUse1Methods(nullptr), 0);
const auto profiler_again = (torch::profiler::impl::registerPrivateUse1Methods(nullptr), 0);
}  // namespace

#else
#include <c10/core/thread_pool.h>

namespace c10 {
namespace {
std::shared_ptr<TaskThreadPoolBase> make(int, int, bool) { return {}; }

#if defined(KEY)
C10_REGISTER_CREATOR(ThreadPoolRegistry, abiscan, make)
C10_REGISTER_CREATOR(ThreadPoolRegistry, abiscan, make)
#elif defined(KEY_TWICE)
C10_REGISTER_CREATOR(ThreadPoolRegistry, abiscan, make)
#elif defined(KEY_TORCH)
C10_REGISTER_CREATOR(ThreadPoolRegistry, C10, make)
#elif defined(KEY_PRIORITY)
C10_REGISTER_CREATOR(ThreadPoolRegistry, abiscan, make)
C10_REGISTER_CREATOR_WITH_PRIORITY(ThreadPoolRegistry, abiscan, REGISTRY_PREFERRED, make)  // replaces it
C10_REGISTER_CREATOR_WITH_PRIORITY(ThreadPoolRegistry, abiscan, REGISTRY_FALLBACK, make)  // comes to nothing
#endif
}  // namespace
}  // namespace c10
#endif
