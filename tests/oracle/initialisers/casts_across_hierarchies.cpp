// dynamic_cast and typeid over multiple, virtual, private and repeated bases, while an object is made and destroyed.
#include <torch/library.h>

#include <map>
#include <memory>
#include <string>
#include <typeindex>
#include <typeinfo>
#include <vector>

struct Shape {
  virtual ~Shape() = default;
  virtual std::string name() const { return "shape"; }
};
struct Named {
  virtual ~Named() = default;
  int number = 5;
};
struct Left : virtual Shape {
  int left = 1;
  std::string name() const override { return "left"; }
};
struct Right : virtual Shape {
  int right = 2;
};
struct Both : Left, Right, Named {
  std::string name() const override { return "both_" + Left::name(); }
};
struct Hidden : private Named, public Shape {};
struct A1 : Shape {};
struct A2 : Shape {};
struct Twice : A1, A2 {};
template <class T>
struct Holder : T {
  using T::T;
};
static std::vector<std::string> seen;
struct Watcher : Shape {
  Watcher();
};
struct Watched : Watcher {
  std::string name() const override { return "watched"; }
};
Watcher::Watcher() {
  seen.push_back(this->name());
  seen.push_back(dynamic_cast<Watched*>(static_cast<Shape*>(this)) ? "early" : "late");
}
static std::unique_ptr<Shape> make(int n) {
  switch (n) {
    case 0: return std::make_unique<Shape>();
    case 1: return std::make_unique<Left>();
    case 2: return std::make_unique<Right>();
    case 3: return std::make_unique<Both>();
    case 4: return std::make_unique<Holder<Both>>();
    default: return std::make_unique<Hidden>();
  }
}
TORCH_LIBRARY(gen, m) {
  for (int n = 0; n < 6; ++n) {
    auto shape = make(n);
    std::string text = "cast" + std::to_string(n) + "_" + shape->name();
    if (auto left = dynamic_cast<Left*>(shape.get())) text += "_l" + std::to_string(left->left);
    if (auto right = dynamic_cast<Right*>(shape.get())) text += "_r" + std::to_string(right->right);
    if (auto named = dynamic_cast<Named*>(shape.get())) text += "_n" + std::to_string(named->number);
    if (typeid(*shape) == typeid(Both)) text += "_exact";
    if (dynamic_cast<const void*>(shape.get()) == shape.get()) text += "_whole";
    m.def((text + "() -> ()").c_str());
  }
  Twice twice;
  A1* first = &twice;
  if (A2* second = dynamic_cast<A2*>(first)) {
    m.def(dynamic_cast<Twice*>(second) == &twice ? "twice() -> ()" : "never() -> ()");
  }
  Shape* base = first;
  m.def(dynamic_cast<Twice*>(base) ? "down() -> ()" : "not_down() -> ()");
  try {
    (void)dynamic_cast<Both&>(*make(1));
  } catch (const std::bad_cast& error) {
    m.def("bad_cast() -> ()");
  }
  try {
    Shape* none = nullptr;
    (void)typeid(*none).name();
  } catch (const std::bad_typeid&) {
    m.def("bad_typeid() -> ()");
  }
  Watched watched;
  for (auto& name : seen) m.def((name + "() -> ()").c_str());
  std::map<std::type_index, std::string> names{{typeid(int), "int"}, {typeid(Both), "both"}};
  m.def(("index_" + names.at(typeid(*make(3))) + "() -> ()").c_str());
  m.def((std::string("mangled_") + typeid(Holder<Both>).name() + "() -> ()").c_str());
}
