// The part of torch's C interface for extensions that the samples use (torch/csrc/inductor/aoti_torch/c/shim.h).
#include <cstdint>

extern "C" {
int aoti_torch_library_init_def(const char*, const char*, uint32_t, void**);
int aoti_torch_library_init_impl(const char*, const char*, const char*, uint32_t, void**);
int aoti_torch_library_def(void*, const char*);
int aoti_torch_library_impl(void*, const char*, void (*)(uint64_t*, uint64_t, uint64_t));
}

void launch_add();
void launch_scale();
void launch_fill();
