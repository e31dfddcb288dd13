// A kernel of the stable ABI that calls an operator by name with the arguments that the operator had in torch 2.7.
// From 2.8 on, aten::_validate_sparse_coo_tensor_args has five: torch reads one value behind the array.
#include <cstdint>

extern "C" {
using StableIValue = uint64_t;
struct Library;
int aoti_torch_library_init_def(const char* ns, const char* file, uint32_t line, Library** result);
int aoti_torch_library_init_impl(const char* ns, const char* key, const char* file, uint32_t line, Library** result);
int aoti_torch_library_def(Library* self, const char* schema);
int torch_library_impl(Library* self, const char* name, void (*kernel)(StableIValue*, uint64_t, uint64_t), uint64_t);
int torch_call_dispatcher(const char* name, const char* overload, StableIValue* stack, uint64_t build_version);
}

constexpr uint64_t TORCH_ABI_VERSION = 0x0207000000000000;

static void validate(StableIValue* stack, uint64_t, uint64_t) {
  // What happens to be behind the array on the stack, written down so that every run sees the same.
  struct {
    StableIValue arguments[4];
    StableIValue behind[4];
  } frame = {{stack[0], stack[1], stack[2], 0}, {0x1111, 0x1111, 0x1111, 0x1111}};
  torch_call_dispatcher("aten::_validate_sparse_coo_tensor_args", "", frame.arguments, TORCH_ABI_VERSION);
}

static struct Registers {
  Registers() {
    Library *definitions, *kernels;
    aoti_torch_library_init_def("abiscan_call_by_name", __FILE__, __LINE__, &definitions);
    aoti_torch_library_def(definitions, "validate(Tensor indices, Tensor values, int[] size) -> ()");
    aoti_torch_library_init_impl("abiscan_call_by_name", "CompositeExplicitAutograd", __FILE__, __LINE__, &kernels);
    torch_library_impl(kernels, "validate", validate, TORCH_ABI_VERSION);
  }
} registers;
