// What else torch 1.4 to 1.6 refuse, one function each, to be called from Python: alias analysis, fallbacks, classes, calls
// and look-ups; on 1.6 also blocks of torch/library.h.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/op_registration.h>
#include <pybind11/pybind11.h>
#include <torch/custom_class.h>
#if defined(TORCH_1_6)
#include <torch/library.h>
#endif

#if defined(TORCH_1_4)
using Key = c10::TensorTypeId;
#else
using Key = c10::DispatchKey;
#endif
#if defined(TORCH_1_6)
constexpr auto CPU = Key::CPU, CUDA = Key::CUDA, XLA = Key::XLA;
#else
constexpr auto CPU = Key::CPUTensorId, CUDA = Key::CUDATensorId, XLA = Key::XLATensorId;
#endif

namespace {
using Operators = c10::RegisterOperators;
using Kind = c10::AliasAnalysisKind;

at::Tensor one(at::Tensor x) { return x; }
at::Tensor many(c10::List<at::Tensor> x) { return x.get(0); }
#if defined(TORCH_1_4)
void boxed(c10::OperatorKernel*, torch::jit::Stack*) {}
#else
void boxed(const c10::OperatorHandle&, torch::jit::Stack*) {}
#endif
struct Class : torch::jit::CustomClassHolder {};

constexpr auto ONE = "abiscan::f(Tensor x) -> Tensor";

template <class T>
void keep(T&& registered) {
  static std::vector<T> kept;
  kept.push_back(std::move(registered));
}

void add(const char* schema, Operators::Options&& kernels) { keep(Operators().op(schema, std::move(kernels))); }

c10::OperatorHandle look_up(const char* name) {
#if defined(TORCH_1_4)
  return c10::Dispatcher::singleton().findSchema({name, ""}).value();
#else
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
#endif
}

void call(const char* name, c10::IValue argument) {
  torch::jit::Stack stack{std::move(argument)};
  c10::Dispatcher::singleton().callBoxed(look_up(name), &stack);
}

void fall_back() {
  auto& dispatcher = c10::Dispatcher::singleton();
#if defined(TORCH_1_4)
  keep(dispatcher.registerBackendFallbackKernel(XLA, c10::KernelFunction::makeFromBoxedFunction(&boxed)));
#elif defined(TORCH_1_5)
  keep(dispatcher.registerBackendFallbackKernel(XLA, c10::KernelFunction::makeFromBoxedFunction<&boxed>()));
#else
  keep(dispatcher.registerFallback(XLA, c10::KernelFunction::makeFallthrough(), "old_checks"));
#endif
}
}  // namespace

// Options can be neither copied nor moved.
#define ON(key) Operators::options().kernel<decltype(one), &one>(key)

PYBIND11_MODULE(old_checks, m) {
  m.def("other_alias_analysis", [] {
    add(ONE, ON(CPU).aliasAnalysis(Kind::PURE_FUNCTION));
    add(ONE, ON(CUDA).aliasAnalysis(Kind::CONSERVATIVE));
  });
  m.def("default_alias_analysis", [] {
    add(ONE, ON(CPU));
    add(ONE, ON(CUDA).aliasAnalysis(Kind::CONSERVATIVE));
    add(ONE, ON(XLA));
  });
  m.def("alias_analysis_given_later", [] {
    add(ONE, ON(CPU));
    add(ONE, ON(CUDA).aliasAnalysis(Kind::CONSERVATIVE));
    add(ONE, ON(XLA).aliasAnalysis(Kind::PURE_FUNCTION));
  });
  m.def("alias_analysis_of_torch", [] {
    add("aten::sinh(Tensor self) -> Tensor", ON(XLA).aliasAnalysis(Kind::CONSERVATIVE));
  });
  m.def("inferred_from_schema", [] {
    add("abiscan::f", ON(CPU).aliasAnalysis(Kind::FROM_SCHEMA));
  });
  m.def("annotated", [] { add("abiscan::f(Tensor(a!) x) -> Tensor(a!)", ON(CPU)); });
  m.def("annotated_from_schema", [] {
    add("abiscan::f(Tensor(a!) x) -> Tensor(a!)", ON(CPU).aliasAnalysis(Kind::FROM_SCHEMA));
  });
  m.def("annotated_conservative", [] {
    add("abiscan::f(Tensor(a!) x) -> Tensor(a!)", ON(CPU).aliasAnalysis(Kind::CONSERVATIVE));
  });
  m.def("boxed_without_schema", [] {
#if defined(TORCH_1_4)
    add("abiscan::f", Operators::options().kernel(CPU, &boxed));
#else
    add("abiscan::f", Operators::options().kernel<&boxed>(CPU));
#endif
  });
  m.def("second_fallback", [] { fall_back(); fall_back(); });
#if !defined(TORCH_1_4)
  m.def("second_class", [] {
    torch::class_<Class>("abiscan", "Class");
    torch::class_<Class>("abiscan", "Class");
  });
#endif
  m.def("call_for_another_key", [] {
    add(ONE, ON(CUDA));
    call("abiscan::f", at::ones({1}));
  });
  m.def("call_without_tensors", [] {
    add("abiscan::g(Tensor[] x) -> Tensor", Operators::options().kernel<decltype(many), &many>(CUDA));
    call("abiscan::g", c10::List<at::Tensor>());
  });
  m.def("look_up", [] { look_up("abiscan::f"); });
#if defined(TORCH_1_5)
  m.def("look_up_undefined", [] {
    static auto module = torch::import("abiscan").impl("f", torch::dispatch(CPU, &one));
    look_up("abiscan::f");
  });
#elif defined(TORCH_1_6)
  m.def("look_up_undefined", [] {
    static torch::Library library(torch::Library::IMPL, "abiscan", CPU, "old_checks.cpp", 1);
    library.impl("f", &one);
    look_up("abiscan::f");
  });
  m.def("fragment_of_all", [] { torch::Library(torch::Library::FRAGMENT, "_", c10::nullopt, "old_checks.cpp", 2); });
  m.def("other_namespace", [] {
    torch::Library library(torch::Library::DEF, "abiscan", c10::nullopt, "old_checks.cpp", 3);
    library.def("other::f(Tensor x) -> Tensor");
  });
  m.def("own_namespace", [] {
    torch::Library library(torch::Library::DEF, "abiscan", c10::nullopt, "old_checks.cpp", 4);
    library.def("abiscan::f(Tensor x) -> Tensor");
  });
  m.def("def_in_impl", [] {
    torch::Library library(torch::Library::IMPL, "abiscan", CPU, "old_checks.cpp", 6);
    library.def("f(Tensor x) -> Tensor");
  });
  m.def("kernel_namespace", [] {
    torch::Library library(torch::Library::IMPL, "abiscan", CPU, "old_checks.cpp", 7);
    library.impl("other::f", &one);
  });
  m.def("kernel_key", [] {
    torch::Library library(torch::Library::IMPL, "abiscan", CPU, "old_checks.cpp", 8);
    library.impl("f", torch::dispatch(CUDA, &one));
  });
  m.def("fallback_in_def", [] {
    torch::Library library(torch::Library::DEF, "abiscan", c10::nullopt, "old_checks.cpp", 9);
    library.fallback(torch::CppFunction::makeFallthrough());
  });
  m.def("fallback_of_namespace", [] {
    torch::Library library(torch::Library::IMPL, "abiscan", XLA, "old_checks.cpp", 10);
    library.fallback(torch::CppFunction::makeFallthrough());
  });
  m.def("boxed_def", [] {
    torch::Library library(torch::Library::DEF, "abiscan", c10::nullopt, "old_checks.cpp", 11);
    library.def("f", torch::CppFunction::makeFallthrough());
  });
  m.def("def_of_all", [] { torch::Library(torch::Library::DEF, "_", c10::nullopt, "old_checks.cpp", 12); });
  m.def("def_with_key", [] { torch::Library(torch::Library::DEF, "abiscan", CPU, "old_checks.cpp", 13); });
  m.def("fallback_without_key", [] {
    torch::Library library(torch::Library::IMPL, "_", c10::nullopt, "old_checks.cpp", 14);
    library.fallback(torch::CppFunction::makeFallthrough());
  });
  m.def("second_library", [] {
    static torch::Library first(torch::Library::DEF, "abiscan", c10::nullopt, "old_checks.cpp", 15);
    torch::Library second(torch::Library::DEF, "abiscan", c10::nullopt, "old_checks.cpp", 16);
  });
  m.def("inferred_after_schema", [] {
    static torch::Library library(torch::Library::DEF, "abiscan", c10::nullopt, "old_checks.cpp", 17);
    library.def("f(Tensor _0) -> Tensor _0");
    library.def("f", &one);
  });
  m.def("block_of_another_alias_analysis", [] {
    static torch::Library library(torch::Library::DEF, "abiscan", c10::nullopt, "old_checks.cpp", 5);
    library.def("f(Tensor x) -> Tensor");
    library.def(torch::schema("f(Tensor x) -> Tensor", Kind::PURE_FUNCTION));
  });
#endif
}
