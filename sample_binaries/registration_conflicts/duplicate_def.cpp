// Defines operators that torch itself defines: one with the very schema of torch (EQUAL), one with the schema that
// torch 1.4 had (OLDER).
#include <torch/library.h>

TORCH_LIBRARY_FRAGMENT(aten, m) {
#if defined(EQUAL)
  m.def("tanh(Tensor self) -> Tensor");
#elif defined(OLDER)
  m.def("_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, "
        "bool sparse=False, Tensor? per_sample_weights=None) -> (Tensor, Tensor, Tensor, Tensor)");
#endif
}
