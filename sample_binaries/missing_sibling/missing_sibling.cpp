// Needs libabiscan_absent.so.1, a library of its own project that was not
// shipped with it and that no search path holds.
extern "C" int abiscan_absent();

namespace at {
int get_num_threads();
}  // namespace at

int abiscan_sum() { return at::get_num_threads() + abiscan_absent(); }
