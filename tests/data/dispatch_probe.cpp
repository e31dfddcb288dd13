// Records how a release computes its dispatch table: for an operator with kernels for each combination of the keys that
// torch treats differently, and what it throws where there is none. Into dispatch_tables.json.xz goes what it prints.
//
//   g++ -std=c++17 -w -D_GLIBCXX_USE_CXX11_ABI=0 -shared -fPIC -I$TORCH/include
//       -I$TORCH/include/torch/csrc/api/include -DIMPLICIT_KEY=CompositeImplicitAutograd
//       -DHAS_EXPLICIT -DEXPLICIT_KEY=CompositeExplicitAutograd -DHAS_NON_FUNCTIONAL dispatch_probe.cpp -o probe.so
//
// then load it beside libtorch_cpu.so and call probe("", "output"). 1.7 has Math and no explicit key, 1.8 Math and
// DefaultBackend; the keys behind HAS_NON_FUNCTIONAL came with 1.13.
#include <unistd.h>
#include <list>
#include <map>
#include <set>
#include <unordered_map>
#include <sstream>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <functional>
#include <thread>
#include <atomic>
#include <vector>
#include <deque>
#include <any>
#include <optional>
#include <string_view>
#include <variant>
#include <regex>
#include <random>
#include <numeric>
#include <algorithm>
#include <condition_variable>
#include <complex>
#include <cmath>
#include <array>
#define private public
#include <ATen/core/dispatch/Dispatcher.h>
#undef private
#include <torch/library.h>
#include <ATen/ATen.h>
#include <c10/core/TensorImpl.h>
#ifndef EXPLICIT_KEY
#define EXPLICIT_KEY IMPLICIT_KEY
#endif
static std::vector<c10::DispatchKey> keys = {c10::DispatchKey::CPU, c10::DispatchKey::MkldnnCPU, c10::DispatchKey::PrivateUse1,
   c10::DispatchKey::Autograd, c10::DispatchKey::AutogradCPU, c10::DispatchKey::IMPLICIT_KEY,
#ifdef HAS_EXPLICIT
   c10::DispatchKey::EXPLICIT_KEY,
#endif
#ifdef HAS_NON_FUNCTIONAL
   c10::DispatchKey::CompositeExplicitAutogradNonFunctional, c10::DispatchKey::CompositeImplicitAutogradNestedTensor,
#endif
};
static void boxed(const c10::OperatorHandle&, torch::jit::Stack*) {}
extern "C" void probe(const char*, const char* out_file) {
  std::ofstream out(out_file);
  std::list<torch::Library> libs;
  libs.emplace_back(torch::Library::DEF, "abiscan", c10::nullopt, "synthetic.cpp", 1);
  auto& lib = libs.back();
  int n = keys.size() + 1;
  for (int mask = 0; mask < (1 << n); ++mask) {
    std::string name = "f" + std::to_string(mask);
    lib.def((name + "(Tensor x) -> Tensor").c_str());
    for (int i = 0; i < n; ++i) if (mask >> i & 1) {
      auto f = torch::CppFunction::makeFromBoxedFunction<&boxed>();
      if (i < (int)keys.size()) lib.impl(name.c_str(), torch::dispatch(keys[i], std::move(f)));
      else { lib.impl(name.c_str(), std::move(f)); }
    }
  }
  for (auto& def : c10::Dispatcher::singleton().operators_) {
    out << "@op\n" << def.op.dumpState() << "@table\n" << def.op.dumpComputedTable() << "@list " << def.op.listAllDispatchKeys() << "\n";
  }
  for (auto key : {c10::DispatchKey::XLA, c10::DispatchKey::PrivateUse1}) for (std::string name : {"aten::tanh", "aten::empty_strided", "aten::cat"}) {
    auto device = key == c10::DispatchKey::XLA ? c10::Device(c10::DeviceType::XLA, 0) : c10::Device(c10::DeviceType::CPU);
    try {
      at::Tensor x = at::detail::make_tensor<c10::TensorImpl>(c10::DispatchKeySet(key), caffe2::TypeMeta::Make<float>(), device);
      torch::jit::Stack s;
      if (name == "aten::tanh") s.push_back(x);
      else if (name == "aten::cat") { s.push_back(c10::List<at::Tensor>()); s.push_back(0); }
      else continue;
      c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "").callBoxed(&s);
    } catch (const c10::Error& e) { out << "@error " << c10::toString(key) << " " << name << "\n" << e.msg() << "@end\n"; }
  }
  for (std::string name : {"aten::foo_missing", "aten::tanh"}) try { c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), "bar"); }
  catch (const c10::Error& e) { out << "@error - " << name << "\n" << e.msg() << "@end\n"; }
  out.close(); _exit(0);
}
