#include <torch/library.h>
#include <string>
namespace s {
struct Named { virtual ~Named() {} virtual std::string name() const { return "named"; } long pad = 1; };
struct Registrar { virtual ~Registrar() {} virtual void add(torch::Library& m, const char* n) = 0; virtual int64_t count() const { return 1; } long k = 2; };
struct Both : Named, Registrar { 
  std::string name() const override { return "both"; }
  void add(torch::Library& m, const char* n) override { m.def((std::string(n) + "_" + name() + std::to_string(k + pad) + "(Tensor x) -> Tensor").c_str()); }
  int64_t count() const override { return k + pad; } };
struct Virt : Named, virtual Registrar {
  std::string name() const override { return "virt"; }
  void add(torch::Library& m, const char* n) override { m.def((std::string(n) + "_" + name() + std::to_string(k + pad) + "(Tensor x) -> Tensor").c_str()); } };
struct L : virtual Registrar { long l = 5; void add(torch::Library& m, const char* n) override { m.def((std::string(n) + "_left" + std::to_string(l) + "(Tensor x) -> Tensor").c_str()); } };
struct R : virtual Registrar { long r = 7; int64_t count() const override { return r; } };
struct D : L, R, Named { };
struct Cov { virtual ~Cov() {} virtual Registrar* me() = 0; };
struct CovD : Both, Cov { CovD* me() override { return this; } };
volatile int which = 0;
__attribute__((noinline)) Registrar* make(int n) { switch (n + which) { case 0: return new Both; case 1: return new Virt; case 2: return new D; default: return (new CovD)->me(); } }
__attribute__((noinline)) Cov* cov() { return which ? nullptr : new CovD; }
}
TORCH_LIBRARY(secondary, m) {
  for (int n = 0; n < 4; n++) { s::Registrar* r = s::make(n); r->add(m, ("op" + std::to_string(n) + "c" + std::to_string(r->count())).c_str()); 
    if (auto* named = dynamic_cast<s::Named*>(r)) m.def(("dyn" + std::to_string(n) + named->name() + "() -> ()").c_str()); 
    delete r; }
  auto* c = s::cov(); c->me()->add(m, "covariant");
  void (s::Registrar::*f)(torch::Library&, const char*) = &s::Registrar::add; (static_cast<s::Registrar*>(c->me())->*f)(m, "pointer");
}
