// What the code of the stable ABI makes of torch's errors: a text of its own, which quotes torch's for targets from 2.13
// on; and nothing at all where a block cannot be opened, which ends with SIGSEGV.
#if !defined(QUOTED) && !defined(QUOTED_TYPE) && !defined(QUOTED_KERNEL)
#define TORCH_TARGET_VERSION 0x020A000000000000ULL
#endif
#include <torch/csrc/stable/library.h>

static void kernel(StableIValue*, uint64_t, uint64_t) {}

#if defined(REOPENED)
STABLE_TORCH_LIBRARY(abiscan_stable_errors, m) { m.def("once() -> ()"); }
static const torch::stable::detail::StableTorchLibraryInit second(
    torch::stable::detail::StableLibrary::Kind::DEF,
    [](torch::stable::detail::StableLibrary& m) { m.def("again() -> ()"); },
    "abiscan_stable_errors", nullptr, __FILE__, __LINE__);
#elif defined(KEY)
STABLE_TORCH_LIBRARY_IMPL(abiscan_stable_errors, NoSuchKey, m) { m.impl("something", &kernel); }
#elif defined(SYNTAX) || defined(QUOTED)
STABLE_TORCH_LIBRARY(abiscan_stable_errors, m) { m.def("broken(Tensor"); }
#elif defined(QUOTED_TYPE)
STABLE_TORCH_LIBRARY(abiscan_stable_errors, m) { m.def("typed(Thing x) -> ()"); }
#else
STABLE_TORCH_LIBRARY_IMPL(abiscan_stable_errors, CPU, m) { m.impl("aten::add", &kernel); }
#endif
