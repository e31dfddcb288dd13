// Values that initialisers make: containers among the statics, and the defaults of methods and of hand-built schemas.
#include <torch/custom_class.h>
#include <torch/library.h>

#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

using at::Tensor;

namespace {

// Each asks for several types, one after the other, before anything is registered.
c10::Dict<std::string, std::string> words;
c10::Dict<std::string, c10::List<int64_t>> numbers;
c10::List<std::string> names({"one", "two"});
c10::List<c10::List<double>> nested;
c10::IValue text(std::string("a text that does not fit into the string itself"));
c10::List<std::string> typed = c10::impl::toTypedList<std::string>(c10::impl::toList(names));

struct Box : torch::CustomClassHolder {
  explicit Box(std::string name, std::vector<std::string> items, int64_t size) {}
  int64_t find(std::string word, bool all, double weight, c10::optional<int64_t> limit) { return 0; }
  std::string join(c10::List<std::string> items, c10::Dict<std::string, std::string> spelled) { return ""; }
  Tensor fill(const Tensor& self, std::vector<std::vector<int64_t>> sizes, std::vector<double> weights) { return self; }
  c10::Dict<std::string, Tensor> state() { return c10::Dict<std::string, Tensor>(); }
};

c10::List<std::string> a_list() { return c10::List<std::string>({"x", "y"}); }

c10::Dict<std::string, std::string> a_dict() {
  c10::Dict<std::string, std::string> made;
  made.insert("key", "value");
  return made;
}

void put(const c10::OperatorHandle&, torch::jit::Stack* stack) {}

c10::Argument argument(
    const char* name, c10::TypePtr type, c10::optional<c10::IValue> value = c10::nullopt, bool keyword = false) {
  return c10::Argument(name, std::move(type), c10::nullopt, std::move(value), keyword);
}

c10::FunctionSchema hand_built() {
  using namespace c10;
  std::vector<Argument> arguments;
  arguments.push_back(argument("file", StringType::get()));
  arguments.push_back(argument("data", AnyType::get()));
  arguments.push_back(Argument("sizes", ListType::ofInts(), 2, IValue(std::vector<int64_t>{3, 3})));
  arguments.push_back(argument("shape", ListType::ofInts(), IValue(std::vector<int64_t>{1, 2})));
  arguments.push_back(argument("mode", StringType::get(), IValue("re\"ad\n")));
  arguments.push_back(argument("other", OptionalType::create(StringType::get()), IValue()));
  arguments.push_back(argument("weights", ListType::ofFloats(), IValue(std::vector<double>{0.5, 1.0}), true));
  arguments.push_back(argument("all", BoolType::get(), IValue(true), true));
  arguments.push_back(argument("few", IntType::get(), IValue(int64_t(-7)), true));
  arguments.push_back(argument("rate", FloatType::get(), IValue(1e-5), true));
  AliasInfo written;
  written.setIsWrite(true);
  written.addBeforeSet(Symbol::fromQualString("alias::a"));
  written.addAfterSet(Symbol::fromQualString("alias::a"));
  arguments.push_back(Argument("out", TensorType::get(), nullopt, nullopt, true, written));
  std::vector<Argument> returns{Argument("result", TensorType::get(), nullopt, nullopt, false, written), argument("", IntType::get())};
  return FunctionSchema("put", "built", std::move(arguments), std::move(returns));
}

} // namespace

TORCH_LIBRARY(default_sample, m) {
  m.class_<Box>("Box")
      .def(torch::init<std::string, std::vector<std::string>, int64_t>(), "",
           {torch::arg("name") = "nobody", torch::arg("items") = std::vector<std::string>{"a", "b"}, torch::arg("size") = 3})
      .def("find", &Box::find, "",
           {torch::arg("word"), torch::arg("all") = true, torch::arg("weight") = 0.5, torch::arg("limit") = torch::arg::none()})
      .def("join", &Box::join, "", {torch::arg("items") = a_list(), torch::arg("spelled") = a_dict()})
      .def("fill", &Box::fill, "",
           {torch::arg("self"), torch::arg("sizes") = std::vector<std::vector<int64_t>>{{1, 2}, {}},
            torch::arg("weights") = std::vector<double>{}})
      .def("state", &Box::state)
      .def_static("of", [](const std::string& name) { return name; }, "", {torch::arg("name") = "x"});
  m.def("first(str[] words, Dict(str, str) spelled) -> str",
        [](c10::List<std::string> words, c10::Dict<std::string, std::string> spelled) { return words.get(0); });
  m.def("second", [](const Tensor& self, c10::List<std::string> words) { return self; });
  m.def(hand_built(), torch::CppFunction::makeFromBoxedFunction<&put>());
}
