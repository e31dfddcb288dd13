// Compiled for aarch64 against the names of torch's libraries alone. On x86_64
// the loader does not get as far as symbols: the file is not for this machine.
namespace at {
class Tensor;
int get_num_threads();
}  // namespace at

int abiscan_threads() { return at::get_num_threads(); }
