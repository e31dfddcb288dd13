// Needs abiscan_not_in_libc at version GLIBC_2.2.5. The C library has that
// version, so the version check passes; it has no such symbol, so the lookup
// fails, and the loader's text names the symbol together with its version.
extern "C" int abiscan_not_in_libc();

namespace at {
int get_num_threads();
}  // namespace at

int abiscan_sum() { return at::get_num_threads() + abiscan_not_in_libc(); }
