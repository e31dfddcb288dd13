// Custom classes with pickling, kernels of all kinds, and RegisterOperators.
#include <torch/library.h>
#include <torch/custom_class.h>
#include <ATen/ATen.h>
#include <ATen/core/op_registration/op_registration.h>
struct Stack : torch::CustomClassHolder {
  std::vector<std::string> v;
  Stack(std::vector<std::string> i) : v(std::move(i)) {}
  void push(std::string s) { v.push_back(s); }
  std::string pop() { auto r = v.back(); v.pop_back(); return r; }
  c10::intrusive_ptr<Stack> clone() const { return c10::make_intrusive<Stack>(v); }
};
static at::Tensor add1(const at::Tensor& x) { return x + 1; }
static std::tuple<at::Tensor, int64_t> two(const at::Tensor& x, at::IntArrayRef s, std::optional<double> d) { return {x, s.size()}; }
TORCH_LIBRARY(gen, m) {
  m.class_<Stack>("Stack").def(torch::init<std::vector<std::string>>()).def("push", &Stack::push).def("pop", &Stack::pop)
    .def("clone", &Stack::clone)
    .def_pickle([](const c10::intrusive_ptr<Stack>& s) { return s->v; }, [](std::vector<std::string> v) { return c10::make_intrusive<Stack>(std::move(v)); });
  m.def("uses(__torch__.torch.classes.gen.Stack s) -> int");
  m.def("add1", &add1);
  m.def("two", two);
  m.def("alias(Tensor(a!) x, *, Tensor? y=None, str s='a b', float[] f=[1.0, 2.5], int[2] k=1, bool b=True) -> Tensor(a!)");
  m.def(torch::schema("tagged(Tensor x) -> Tensor", c10::AliasAnalysisKind::PURE_FUNCTION), {at::Tag::pt2_compliant_tag});
  m.impl("add1", torch::dispatch(c10::DispatchKey::Meta, add1));
}
TORCH_LIBRARY_FRAGMENT(gen, m) { m.def("frag(Tensor x, Device d, ScalarType? t=None, Layout l=strided) -> Tensor[]"); m.def("list(Tensor?[] x, Dict(str, Tensor) d, (int, float) t) -> (Tensor, Tensor[])"); }
TORCH_LIBRARY_IMPL(gen, CPU, m) { m.impl("uses", [](const c10::intrusive_ptr<Stack>& s) -> int64_t { return s->v.size(); }); m.impl(TORCH_SELECTIVE_NAME("frag"), torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
static auto reg = torch::RegisterOperators().op("gen::old(Tensor x) -> Tensor", torch::RegisterOperators::options().kernel<decltype(add1), &add1>(c10::DispatchKey::CPU)).op("gen::old2", torch::RegisterOperators::options().catchAllKernel<decltype(add1), &add1>());
static auto cls = torch::class_<Stack>("genb", "Other") ;
