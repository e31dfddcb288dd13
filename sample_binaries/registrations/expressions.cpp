// Operators whose names a regular expression of the C++ library chooses.
#include <torch/library.h>

#include <regex>
#include <string>

TORCH_LIBRARY(expression_sample, m) {
  const std::regex numbered("(\\w+)_[[:digit:]]+");
  for (const char* name : {"one_1", "two", "three_33", "four_4d"}) {
    std::string text(name);
    if (std::regex_match(text, numbered)) {
      const std::string schema = text + "(Tensor self) -> Tensor";
      m.def(schema.c_str());
    }
  }
}
