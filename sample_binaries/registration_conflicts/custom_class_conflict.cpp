// Registers a class under a name that torch has, or gives the backend of one's own two names (BACKEND).
#include <torch/custom_class.h>

#ifdef BACKEND
#include <c10/core/DeviceType.h>

namespace {
const auto named = (c10::register_privateuse1_backend("abiscan_one"), 0);
const auto named_again = (c10::register_privateuse1_backend("abiscan_two"), 0);
}  // namespace
#else
namespace {
struct Parameters : torch::CustomClassHolder {};
const auto registered = torch::class_<Parameters>("quantized", "LinearPackedParamsBase").def(torch::init<>());
}  // namespace
#endif
