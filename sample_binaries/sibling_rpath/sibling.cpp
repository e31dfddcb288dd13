// lib/libsibling.so: asks for a torch function that no torch has.
namespace at {
int abiscan_not_in_torch();
}  // namespace at

extern "C" int abiscan_sibling() { return at::abiscan_not_in_torch(); }
