// Built with a C++ library newer than the one it runs on: it needs the symbol
// version GLIBCXX_3.4.99 of libstdc++.so.6, which no libstdc++ has. The loader
// checks the versions of every needed file before it looks at any symbol.
extern "C" int abiscan_from_a_newer_libstdcxx();

namespace at {
int get_num_threads();
}  // namespace at

int abiscan_sum() {
  return at::get_num_threads() + abiscan_from_a_newer_libstdcxx();
}
