// Compiled with -D_GLIBCXX_USE_CXX11_ABI=0 for a torch that uses the new C++
// string ABI. Every torch function that takes std::string is asked for with
// "Ss" where torch has "NSt7__cxx1112basic_string...", and none of those names
// exists. Functions without a string in them, like c10::warn, are found.
#include <c10/core/Device.h>
#include <c10/util/Exception.h>

#include <string>

bool abiscan_on_cpu(const std::string& name) {
  TORCH_CHECK(!name.empty(), "the device ", name, " has no name");
  c10::Device device(name);
  if (!device.is_cpu()) {
    TORCH_WARN("not on the CPU: ", name);
  }
  return device.is_cpu();
}
