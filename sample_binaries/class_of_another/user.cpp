// Names a class that another library registers, which it needs and another package loads before.
#include <torch/library.h>

TORCH_LIBRARY(abiscan_user, m) {
  m.def("take(__torch__.torch.classes.abiscan_provider.Thing thing, Tensor x) -> Tensor");
}
