// std::regex in all its forms decides names.
#include <torch/library.h>

#include <regex>
#include <string>

TORCH_LIBRARY(gen, m) {
  const std::string text = "conv2d(Tensor a, int b=1); relu(Tensor x); add_3(Tensor y, Tensor z)";
  std::regex call(R"((\w+)\(([^)]*)\))");
  for (std::sregex_iterator it(text.begin(), text.end(), call), end; it != end; ++it)
    m.def(((*it)[1].str() + "(" + (*it)[2].str() + ") -> Tensor").c_str());
  m.def((std::regex_replace(std::string("a-b c-d"), std::regex("[- ]"), "_") + "() -> ()").c_str());
  m.def((std::regex_replace(std::string("john smith"), std::regex("(\\w+) (\\w+)"), "$2_$1") + "() -> ()").c_str());
  std::smatch match;
  std::string version = "cuda-12.4.1";
  if (std::regex_search(version, match, std::regex("(\\d+)\\.(\\d+)(?:\\.(\\d+))?")))
    m.def(("v" + match[1].str() + "_" + match[2].str() + "_" + std::to_string(match.position()) + "() -> ()").c_str());
  m.def(std::regex_match("ABC", std::regex("abc", std::regex::icase)) ? "icase() -> ()" : "case_() -> ()");
  m.def(std::regex_search("xaay", std::regex("a{2,3}")) ? "counted() -> ()" : "uncounted() -> ()");
  m.def(std::regex_match("aXa", std::regex("(.)X\\1")) ? "back() -> ()" : "noback() -> ()");
  m.def(std::regex_match("foo", std::regex("(?=f)foo|bar")) ? "ahead() -> ()" : "noahead() -> ()");
  m.def(std::regex_match("x1", std::regex("[[:alpha:]][[:digit:]]")) ? "classes() -> ()" : "noclasses() -> ()");
  std::regex separator(",\\s*");
  std::string list = "p1, p2,p3";
  for (std::sregex_token_iterator it(list.begin(), list.end(), separator, -1), end; it != end; ++it)
    m.def((it->str() + "() -> ()").c_str());
  try {
    std::regex bad("(unclosed");
    m.def("compiled() -> ()");
  } catch (const std::regex_error& error) {
    m.def(error.code() == std::regex_constants::error_paren ? "paren() -> ()" : "other() -> ()");
  }
}
