// Two functions of older torches, declared by hand as their headers did.
//
//   at::_ops::zeros::call      took c10::optional when that was a class of its
//       own. Torch still exports the name, now with std::optional, so the
//       mangled symbol differs: "same name, other parameters".
//   at::_ops::align_as::call   belonged to the named tensors and is gone with
//       them: no parameters of that name are exported any more.
//
// The loader stops at the first symbol that it cannot find, so only one of the
// two is ever named in its text.
namespace c10 {
enum class ScalarType : signed char;
enum class Layout : signed char;
struct Device;
class SymInt;
template <class T>
class ArrayRef {
  const T* data_;
  unsigned long size_;
};
template <class T>
class optional {
  bool has_;
  union {
    char none_;
    T* value_;
  };
};
}  // namespace c10

namespace at {
class Tensor {
  void* impl_;

 public:
  ~Tensor() {}
};
namespace _ops {
struct zeros {
  static Tensor call(c10::ArrayRef<c10::SymInt>, c10::optional<c10::ScalarType>,
                     c10::optional<c10::Layout>, c10::optional<c10::Device>,
                     c10::optional<bool>);
};
struct align_as {
  static Tensor call(const Tensor&, const Tensor&);
};
}  // namespace _ops
}  // namespace at

void abiscan_use(c10::ArrayRef<c10::SymInt> sizes, const at::Tensor& x) {
  at::_ops::zeros::call(sizes, {}, {}, {}, {});
  at::_ops::align_as::call(x, x);
}
