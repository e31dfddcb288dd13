// An exception leaves std::sort, a destructor rethrows nothing, and a noexcept function ends the process.
#include <torch/library.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

struct Guard {
  ~Guard() { std::fputs("unwound\n", stderr); }
};
static void checked(int n) noexcept {
  Guard guard;
  TORCH_CHECK(n < 3, "too many: ", n, " of ", 2.5);
}
TORCH_LIBRARY(gen, m) {
  std::vector<int> v{3, 1, 2};
  try {
    std::sort(v.begin(), v.end(), [](int a, int b) -> bool { throw std::string("comparing"); });
  } catch (const std::string& text) {
    m.def((text + "() -> ()").c_str());
  }
  checked(v.size());
}
