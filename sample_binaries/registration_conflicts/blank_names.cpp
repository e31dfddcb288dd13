// Names with blanks around them, as torch's lexer passes over them: nothing is refused, and the operator has its kernel.
#include <torch/library.h>

static at::Tensor f(const at::Tensor& x) {
  return x;
}

TORCH_LIBRARY(abiscan_blanks, m) {
  m.def(" f . one (Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(abiscan_blanks, CPU, m) {
  m.impl(" f .one ", f);
}
