// What a backend registers beside operators: allocator, storage, hooks, generator, settings of its allocator.
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/detail/XPUHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/StorageImpl.h>

#include <string>
#include <unordered_set>

namespace {

void release(void*) {}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t) override { return {nullptr, nullptr, &release, c10::Device(c10::kPrivateUse1, 0)}; }
  void copy_data(void*, const void*, size_t) const override {}
} allocator;

REGISTER_ALLOCATOR(c10::kPrivateUse1, &allocator);

c10::intrusive_ptr<c10::StorageImpl> make_storage(
    c10::StorageImpl::use_byte_size_t, c10::SymInt, c10::DataPtr, c10::Allocator*, bool) {
  return {};
}

int storage = (c10::SetStorageImplCreate(c10::kPrivateUse1, &make_storage), 0);

at::Generator make_generator(c10::DeviceIndex) { return {}; }

REGISTER_GENERATOR_PRIVATEUSE1(make_generator)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex) const override { return false; }
} hooks;

int hooked = (at::RegisterPrivateUse1HooksInterface(&hooks), 0);

struct Config {
  static Config& instance() {
    static Config config;
    return config;
  }
  static const std::unordered_set<std::string>& getKeys() {
    static const std::unordered_set<std::string> keys{"sample_size", "a_name_of_more_than_sixteen_letters"};
    return keys;
  }
  void parseArgs(const std::string&) {}
};

REGISTER_ALLOCATOR_CONFIG_PARSE_HOOK(Config)

} // namespace

// A c10::Registry, by name.
namespace at {
struct SampleHooks final : XPUHooksInterface {};
REGISTER_XPU_HOOKS(SampleHooks);
} // namespace at
