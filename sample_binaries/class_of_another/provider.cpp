// A class that schemas of other libraries name.
#include <torch/custom_class.h>

namespace {
struct Thing : torch::CustomClassHolder {};
const auto registered = torch::class_<Thing>("abiscan_provider", "Thing").def(torch::init<>());
}  // namespace
