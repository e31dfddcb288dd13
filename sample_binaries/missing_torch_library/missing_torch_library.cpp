// Built for a CUDA torch: it needs libtorch_cuda.so and libc10_cuda.so. A CPU
// build of torch ships neither, so the loader stops at the first of them,
// before it looks at any symbol.
namespace c10::cuda {
signed char current_device();
}  // namespace c10::cuda

namespace at {
int get_num_threads();
}  // namespace at

int abiscan_device() {
  return at::get_num_threads() > 0 ? c10::cuda::current_device() : -1;
}
