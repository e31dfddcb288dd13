// An exception passes several frames with cleanups, is wrapped, kept, thrown again from elsewhere, and thrown while
// another one is handled.
#include <torch/library.h>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Trail {
  std::vector<std::string>& all;
  std::string name;
  ~Trail() { all.push_back(name); }
};
struct Failure : std::runtime_error {
  int code;
  Failure(const std::string& text, int code) : std::runtime_error(text), code(code) {}
};
struct Rare : virtual std::exception {
  const char* what() const noexcept override { return "rare"; }
};
struct Rarer : Rare, virtual std::exception {};
__attribute__((noinline)) static int deepest(int n, std::vector<std::string>& trail) {
  Trail t{trail, "deep" + std::to_string(n)};
  if (n == 0) throw Failure("bottom", 42);
  return deepest(n - 1, trail) + 1;
}
__attribute__((noinline)) static void middle(std::vector<std::string>& trail) {
  try {
    deepest(3, trail);
  } catch (const std::logic_error&) {
    trail.push_back("wrong");
  }
}
__attribute__((noinline)) static void outer(std::vector<std::string>& trail) {
  try {
    middle(trail);
  } catch (Failure& failure) {
    failure.code++;
    throw;
  }
}
static std::string nested(const std::exception& error) {
  std::string text = error.what();
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception& inner) {
    text += "_" + nested(inner);
  } catch (...) {
    text += "_other";
  }
  return text;
}
static void wrap(int n) {
  try {
    if (n == 0) throw 7L;
    wrap(n - 1);
  } catch (...) {
    std::throw_with_nested(std::runtime_error("level" + std::to_string(n)));
  }
}
TORCH_LIBRARY(gen, m) {
  std::vector<std::string> trail;
  try {
    outer(trail);
  } catch (const Failure& failure) {
    m.def(("code" + std::to_string(failure.code) + "_" + failure.what() + "(Tensor x) -> Tensor").c_str());
  }
  for (auto& name : trail) m.def((name + "() -> ()").c_str());
  try {
    wrap(2);
  } catch (const std::exception& error) {
    m.def((nested(error) + "() -> ()").c_str());
  }
  try {
    throw Rarer();
  } catch (const std::exception& error) {
    m.def((std::string(error.what()) + "_base() -> ()").c_str());
  }
  std::exception_ptr kept;
  try {
    try {
      throw std::length_error("kept");
    } catch (const std::logic_error&) {
      kept = std::current_exception();
      throw std::domain_error("second");
    }
  } catch (const std::exception& error) {
    m.def((std::string(error.what()) + "() -> ()").c_str());
  }
  try {
    std::rethrow_exception(kept);
  } catch (const std::length_error& error) {
    m.def((std::string(error.what()) + "_again() -> ()").c_str());
  }
  try {
    throw static_cast<const char*>("text");
  } catch (const char* text) {
    m.def((std::string(text) + "_thrown() -> ()").c_str());
  }
  try {
    Failure* failure = new Failure("pointer", 1);
    throw failure;
  } catch (std::runtime_error* error) {
    m.def((std::string(error->what()) + "() -> ()").c_str());
  }
  struct Finally {
    torch::Library& m;
    ~Finally() {
      try {
        throw 1;
      } catch (int) {
        m.def(("uncaught" + std::to_string(std::uncaught_exceptions()) + "() -> ()").c_str());
      }
    }
  };
  try {
    Finally f{m};
    throw 2.5;
  } catch (double) {
    m.def("double_() -> ()");
  }
}
