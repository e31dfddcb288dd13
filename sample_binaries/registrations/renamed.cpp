// A custom class that is registered once more after its name was changed in place.
#include <torch/custom_class.h>

namespace {

struct Plain : torch::CustomClassHolder {};

int rename() {
  torch::class_<Plain>("renamed_sample", "Plain").def(torch::init<>());
  c10::ClassTypePtr type = c10::getCustomClassType<c10::intrusive_ptr<Plain>>();
  auto& name = const_cast<std::optional<c10::QualifiedName>&>(type->name());
  name = c10::QualifiedName(name->prefix() + ".Other");
  torch::registerCustomClass(type);
  return 0;
}

int renamed = rename();

} // namespace
