// Every way of fetching an operator by its name when code runs. Nothing here runs as the library is loaded, except for
// the last one.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/add_ops.h>
#include <ATen/ops/_cdist_forward_ops.h>
#include <ATen/ops/sum_ops.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <ATen/core/interned_strings.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <cstdlib>

using c10::Dispatcher;
using c10::OperatorName;
using c10::Symbol;

// Functions of at::_ops: the operators' own. One operator, called in two ways, is one operator.
at::Tensor& own_functions(at::Tensor& a, const at::Tensor& b) {
  at::_ops::add__Tensor::redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), a, b, 1);
  at::_ops::_cdist_forward::call(a, b, 2.0, std::nullopt);
  at::_ops::sum_dim_IntList::call(a, at::OptionalIntArrayRef(), false, std::nullopt);
  return at::_ops::add__Tensor::call(a, b, 1);
}

// As autograd functions do it: deep in a function that needs tensors, in a static variable.
at::Tensor through_a_static(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2, "two dimensions, not ", a.dim());
  at::Tensor sum = a.is_cpu() ? a : b;
  static auto op = Dispatcher::singleton()
                       .findSchemaOrThrow("lookup_sample::rather_long_name_of_an_operator", "some_overload")
                       .typed<at::Tensor(const at::Tensor&, const at::Tensor&)>();
  return op.call(sum, b);
}

at::Tensor without_overload(const at::Tensor& a) {
  static auto op =
      Dispatcher::singleton().findSchemaOrThrow("lookup_sample::short", "").typed<at::Tensor(const at::Tensor&)>();
  return op.call(a);
}

bool by_operator_name(const at::Tensor& a) {
  if (a.numel() < 7) {
    return Dispatcher::singleton().findSchema(OperatorName("lookup_sample::in_find_schema", "out")).has_value();
  }
  return Dispatcher::singleton().findOp({"lookup_sample::op", ""}).has_value();
}

bool in_the_jit(const at::Tensor& a) {
  if (a.numel() > 3 && torch::jit::findOperatorFor(OperatorName("lookup_sample::jit", "Tensor")) != nullptr) {
    return torch::jit::getOperatorForLiteral("lookup_sample::literal.x(Tensor self) -> Tensor") != nullptr;
  }
  return !torch::jit::getAllOperatorsFor(Symbol::fromQualString("lookup_sample::all_overloads")).empty();
}

// The stable ABI.
AOTITorchError in_the_shim(StableIValue* stack) {
  return aoti_torch_call_dispatcher("lookup_sample::shim", "", stack);
}

bool on_the_stable_abi(const at::Tensor& a, StableIValue* stack) {
  return a.dim() == 1 && torch_call_dispatcher("lookup_sample::versioned", "overload", stack, TORCH_ABI_VERSION) == 0;
}

// No operator: the name of an attribute.
bool an_attribute(Symbol name) {
  return name == Symbol::fromQualString("attr::lookup_sample");
}

// A name that is not a constant, and a symbol that torch knows as a number.
bool not_constant(const char* name, const std::vector<std::string>& names) {
  Dispatcher::singleton().findSchemaOrThrow(name, "");
  return Dispatcher::singleton().findOp({names.at(3), ""}).has_value();
}

bool known_by_number() {
  return torch::jit::getAllOperatorsFor(c10::aten::add).empty();
}

// While the library is loaded, in a loop: none is there.
static const char* const names[] = {"lookup_sample::first", "lookup_sample::second", "lookup_sample::third"};

static int found = [] {
  int number = 0;
  for (const char* name : names) {
    number += Dispatcher::singleton().findOp({name, ""}).has_value();
  }
  return number;
}();
