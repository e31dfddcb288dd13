// An exception class of the extension, with a text of its own, that only a handler for another class surrounds.
#include <torch/library.h>

#include <exception>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

namespace mine {
struct Error : std::exception {
  std::string text;
  explicit Error(std::string t) : text(std::move(t)) {}
  const char* what() const noexcept override { return text.c_str(); }
};
}
static std::vector<int> numbers = [] {
  std::ostringstream text;
  text << "mode " << std::setw(3) << 7 << " is not known";
  try {
    throw mine::Error(text.str());
  } catch (const std::bad_alloc&) {
  } catch (const c10::Error&) {
  }
  return std::vector<int>{1};
}();
TORCH_LIBRARY(gen, m) { m.def("never() -> ()"); }
