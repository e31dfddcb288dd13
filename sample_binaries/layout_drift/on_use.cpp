// Constructs an object of torch with the size that it had in torch 2.8; nobody does before abiscan_use is called.
#include <torch/csrc/autograd/saved_variable.h>

extern "C" __attribute__((visibility("default"))) void abiscan_use() {
    torch::autograd::SavedVariable saved(at::Tensor(), false);
}
