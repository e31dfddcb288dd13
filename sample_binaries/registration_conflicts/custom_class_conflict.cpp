// Registers a class under a name that torch has.
#include <torch/custom_class.h>

namespace {
struct Parameters : torch::CustomClassHolder {};
const auto registered = torch::class_<Parameters>("quantized", "LinearPackedParamsBase").def(torch::init<>());
}  // namespace
