// Kernels of the stable ABI: one whose schema has a Scalar, which no torch so far converts, one that works.
#include <cstdint>

extern "C" {
using StableIValue = uint64_t;
struct Library;
int aoti_torch_library_init_def(const char* ns, const char* file, uint32_t line, Library** result);
int aoti_torch_library_init_impl(const char* ns, const char* key, const char* file, uint32_t line, Library** result);
int aoti_torch_library_def(Library* self, const char* schema);
int torch_library_impl(Library* self, const char* name, void (*kernel)(StableIValue*, uint64_t, uint64_t), uint64_t);
}

constexpr uint64_t TORCH_ABI_VERSION = 0x020A000000000000;

static void identity(StableIValue*, uint64_t, uint64_t) {}

static struct Registers {
  Registers() {
    Library *definitions, *kernels;
    aoti_torch_library_init_def("abiscan_scalar_argument", __FILE__, __LINE__, &definitions);
    aoti_torch_library_def(definitions, "scale(Tensor x, Scalar factor) -> Tensor");
    aoti_torch_library_def(definitions, "same(Tensor x, float factor) -> Tensor");
    aoti_torch_library_init_impl("abiscan_scalar_argument", "CompositeExplicitAutograd", __FILE__, __LINE__, &kernels);
    torch_library_impl(kernels, "scale", identity, TORCH_ABI_VERSION);
    torch_library_impl(kernels, "same", identity, TORCH_ABI_VERSION);
  }
} registers;
