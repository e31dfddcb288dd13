#include "sample.h"
static void add(uint64_t*, uint64_t, uint64_t) { launch_add(); }
static void scale(uint64_t*, uint64_t, uint64_t) { launch_scale(); }
static void fill(uint64_t*, uint64_t, uint64_t) { launch_fill(); }
static void either(uint64_t* stack, uint64_t, uint64_t) { *stack ? launch_add() : launch_scale(); }
static void nothing(uint64_t*, uint64_t, uint64_t) {}
static const int registered = [] {
  void* library;
  aoti_torch_library_init_def("gpu_sample", __FILE__, __LINE__, &library);
  aoti_torch_library_def(library, "add(Tensor x) -> Tensor");
  aoti_torch_library_def(library, "scale(Tensor x) -> Tensor");
  aoti_torch_library_def(library, "fill(Tensor x) -> Tensor");
  aoti_torch_library_def(library, "either(Tensor x) -> Tensor");
  aoti_torch_library_def(library, "nothing(Tensor x) -> Tensor");
  void* cuda;
  aoti_torch_library_init_impl("gpu_sample", "CUDA", __FILE__, __LINE__, &cuda);
  aoti_torch_library_impl(cuda, "add", add);
  aoti_torch_library_impl(cuda, "scale", scale);
  aoti_torch_library_impl(cuda, "fill", fill);
  aoti_torch_library_impl(cuda, "either", either);
  aoti_torch_library_impl(cuda, "nothing", nothing);
  return 0;
}();
