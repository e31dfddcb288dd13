// Plugins that register themselves, virtual bases, pure functions, CRTP, placement, order of members and of statics.
#include <torch/library.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

struct Plugin {
  virtual ~Plugin() = default;
  virtual std::string schema() const = 0;
};
static std::map<std::string, std::function<std::unique_ptr<Plugin>()>>& plugins() {
  static std::map<std::string, std::function<std::unique_ptr<Plugin>()>> all;
  return all;
}
template <class Self>
struct Registered : virtual Plugin {
  static bool registered;
  std::string schema() const override { return static_cast<const Self*>(this)->text() + "(Tensor x) -> Tensor"; }
  Registered() { (void)registered; }
};
template <class Self>
bool Registered<Self>::registered = plugins().emplace(Self::key(), [] { return std::make_unique<Self>(); }).second;
struct One : Registered<One> {
  static std::string key() { return "z"; }
  std::string text() const { return "one"; }
};
struct Extra : virtual Plugin {
  int extra = 9;
};
struct Two : Registered<Two>, Extra {
  static std::string key() { return "a"; }
  std::string text() const { return "two" + std::to_string(extra); }
};
static std::string log_;
struct Member {
  char name;
  explicit Member(char c) : name(c) { log_ += c; }
  ~Member() { log_ += static_cast<char>(std::toupper(name)); }
};
struct Base {
  Member m{'b'};
  virtual ~Base() { log_ += "_"; }
};
struct VBase {
  Member m{'v'};
};
struct Whole : Base, virtual VBase {
  Member x{'x'}, y{'y'};
};
struct Cell {
  alignas(std::string) unsigned char room[sizeof(std::string)];
};
static int counter = 0;
__attribute__((init_priority(200))) static struct Early {
  Early() { counter += 10; }
} early;
__attribute__((init_priority(300))) static struct Late {
  Late() { counter *= 2; }
} late_;
int (Member::*none)() = nullptr;
TORCH_LIBRARY(gen, m) {
  for (auto& [key, make] : plugins()) m.def((key + "_" + make()->schema()).c_str());
  {
    std::unique_ptr<Base> whole = std::make_unique<Whole>();
  }
  m.def((log_ + "() -> ()").c_str());
  Cell cell;
  auto text = new (cell.room) std::string("placed");
  m.def((*text + "() -> ()").c_str());
  text->~basic_string();
  m.def(("counter" + std::to_string(counter) + "() -> ()").c_str());
  std::string (One::*method)() const = &One::text;
  std::string (Plugin::*virtual_)() const = &Plugin::schema;
  One one;
  m.def(((one.*method)() + "_method() -> ()").c_str());
  m.def(((one.*virtual_)() + "").replace(0, 3, "virtual_").c_str());
  std::shared_ptr<Plugin> shared = std::make_shared<Two>();
  m.def(("count" + std::to_string(shared.use_count()) + "_" +
         std::to_string(std::dynamic_pointer_cast<Two>(shared).use_count()) + "() -> ()").c_str());
  struct Node : std::enable_shared_from_this<Node> {
    std::shared_ptr<Node> self() { return shared_from_this(); }
  };
  try {
    Node().self();
  } catch (const std::bad_weak_ptr&) {
    m.def("weak() -> ()");
  }
}
