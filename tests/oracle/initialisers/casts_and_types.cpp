// dynamic_cast to all kinds of bases, pointers to members, typeid.
#include <torch/library.h>
#include <typeinfo>
#include <cxxabi.h>
struct A { virtual ~A() = default; virtual int f() { return 1; } int a = 1; };
struct B { virtual ~B() = default; virtual int g() { return 2; } int b = 2; };
struct C : virtual A { int c = 3; int f() override { return 3 + a; } };
struct D : virtual A, B { int d = 4; int g() override { return 4 + b; } };
struct E : C, D { int e = 5; int f() override { return 5 + c + d; } };
struct Priv : private A, public B { };
struct Unrel { virtual ~Unrel() = default; };
struct Twice : C {}; struct Thrice : C { }; struct Amb : Twice, Thrice { int f() override { return 0; } };
namespace { struct Hid : B { int g() override { return 9; } }; }
template <class T, class U> static void probe(torch::Library& m, const char* n, U* u) { m.def((std::string(n) + (dynamic_cast<T*>(u) ? "_yes" : "_no") + "() -> ()").c_str()); }
static void* most(A* a) { return dynamic_cast<void*>(a); }
using PMF = int (A::*)();
TORCH_LIBRARY(gen, m) {
  E e; A* a = &e; B* b = &e; C* c = &e;
  probe<B>(m, "ab", a); probe<C>(m, "bc", b); probe<D>(m, "cd", c); probe<E>(m, "ae", a); probe<Unrel>(m, "au", a);
  Priv p; B* pb = &p; probe<A>(m, "priv", pb); Amb am; A* aa = &am; probe<C>(m, "amb", aa); probe<Twice>(m, "ambt", aa); Hid h; B* hb = &h; probe<Hid>(m, "hid", hb);
  m.def((most(a) == (void*)&e ? "most() -> ()" : "notmost() -> ()"));
  PMF f = &A::f; m.def(("pmf" + std::to_string((a->*f)()) + "() -> ()").c_str());
  int C::*mp = &C::c; m.def(("mp" + std::to_string(e.*mp) + "() -> ()").c_str());
  m.def(("off" + std::to_string((char*)b - (char*)c) + "() -> ()").c_str());
  try { (void)dynamic_cast<Unrel&>(*b); } catch (std::bad_cast& x) { m.def((std::string(x.what()).substr(0, 3) + "bad() -> ()").c_str()); }
  try { A* n = nullptr; (void)typeid(*n).name(); } catch (std::bad_typeid& x) { m.def("badtypeid() -> ()"); }
  m.def((typeid(*a) == typeid(E) ? "te() -> ()" : "tne() -> ()")); int st; char* dn = abi::__cxa_demangle(typeid(std::vector<std::pair<int, E>>).name(), nullptr, nullptr, &st); m.def(("len" + std::to_string(strlen(dn)) + "() -> ()").c_str()); free(dn);
  std::shared_ptr<A> sa = std::make_shared<E>(); if (auto sd = std::dynamic_pointer_cast<D>(sa)) m.def(("dpc" + std::to_string(sd->g()) + "() -> ()").c_str());
  std::string tn = typeid(Hid).name(); m.def(tn.find("Hid") != std::string::npos ? "hidname() -> ()" : "nohid() -> ()");
}
