// Refers weakly to a torch function that does not exist. A weak reference that
// is not found becomes a null address and is no error: the library loads, and
// its code has to ask whether the function is there before calling it.
namespace at {
int get_num_threads();
__attribute__((weak)) int abiscan_not_in_torch();
}  // namespace at

int abiscan_threads() {
  return at::abiscan_not_in_torch ? at::abiscan_not_in_torch()
                                  : at::get_num_threads();
}
