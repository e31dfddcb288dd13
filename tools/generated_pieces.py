"""Pieces of C++ for ``tools.generate_extensions``: each is a block of statements that registers with ``m``.

``m`` is a ``torch::Library&`` of the namespace ``gen``; ``$N`` is a number of the piece's own. The pieces exercise what
initialisers of extensions do, in as many functions of the C and C++ libraries as possible: what a piece registers shows
what they returned. ``GLOBAL`` pieces are definitions outside of functions, and register by themselves.
"""

from __future__ import annotations

from typing import Final

TEXTS: Final = (
    'm.def("plain$N(Tensor x, int n=3) -> Tensor");',
    'for (int i = 0; i < 3; ++i) m.def(("loop$N_" + std::to_string(i) + "(Tensor x) -> Tensor").c_str());',
    'std::ostringstream s; s << "stream$N_" << 42 << \'_\' << std::hex << 255 << "(Tensor x) -> Tensor";'
    " m.def(s.str().c_str());",
    'std::ostringstream s; s << "fixed$N(float x=" << std::fixed << std::setprecision(3) << 2.5 << ") -> float";'
    " m.def(s.str().c_str());",
    'std::ostringstream s; s << "plain_float$N(float x=" << 0.125 << ") -> float"; m.def(s.str().c_str());',
    'std::ostringstream s; s << "width$N_" << std::setw(4) << std::setfill(\'0\') << 7 << "() -> ()";'
    " m.def(s.str().c_str());",
    'std::stringstream s("one$N two$N three$N"); std::string w; while (s >> w) m.def((w + "(Tensor x) -> Tensor").c_str());',
    'std::istringstream s("a$N,b$N,c$N"); std::string w; while (std::getline(s, w, \',\')) m.def((w + "(int x) -> int").c_str());',
    'std::istringstream s("12 30"); int a = 0, b = 0; s >> a >> b; m.def(("sum$N_" + std::to_string(a + b) + "() -> int").c_str());',
    'char b[64]; snprintf(b, sizeof b, "pe$N(float x=%e) -> float", 1.5); m.def(b);',
    'char b[64]; snprintf(b, sizeof b, "pg$N(float x=%g) -> float", 0.1); m.def(b);',
    'char b[64]; snprintf(b, sizeof b, "pf$N(float x=%.2f) -> float", 3.14159); m.def(b);',
    'char b[64]; snprintf(b, sizeof b, "pm$N_%s_%d_%.1f_%c(int x) -> int", "s", 4, 2.0, \'q\');'
    " for (char* p = b; *p && *p != '('; ++p) if (*p == '.') *p = '_'; m.def(b);",
    'char b[64]; snprintf(b, sizeof b, "pz$N_%zu_%ld_%lld_%x_%o_%5d|", size_t(3), 4L, 5LL, 255, 8, 6);'
    " std::string t; for (char c : std::string(b)) if (std::isalnum((unsigned char)c) || c == '_') t += c;"
    ' m.def((t + "() -> ()").c_str());',
    'int a = 0, b = 0; if (sscanf("7 x 9", "%d x %d", &a, &b) == 2) m.def(("scan$N_" + std::to_string(a * b) + "() -> ()").c_str());',
    'std::string t = "upper$N"; std::transform(t.begin(), t.end(), t.begin(), ::toupper); m.def((t + "() -> ()").c_str());',
    'std::string t = "Case$N"; for (auto& c : t) c = std::toupper(c, std::locale()); m.def((t + "() -> ()").c_str());',
    'std::string t = "CASE$N"; for (auto& c : t) c = std::tolower(c, std::locale::classic()); m.def((t + "() -> ()").c_str());',
    'if (std::isdigit(\'7\', std::locale())) m.def("digit$N() -> ()"); else m.def("nodigit$N() -> ()");',
    'std::string t("cut$N_and_rest"); m.def((t.substr(0, t.find("_and")) + "() -> ()").c_str());',
    'std::string t("replace$N_me"); t.replace(t.find("me"), 2, "you"); t.insert(0, "x_"); t.append(2, \'z\'); m.def((t + "() -> ()").c_str());',
    'std::string t = "cmp$N"; if (t.compare(0, 3, "cmp") == 0 && t < "d" && t.rfind(\'m\') == 1) m.def((t + "() -> ()").c_str());',
    'std::string a = "conc$N"; a += \'_\'; a += std::string("x"); std::string b = a + "y" + std::to_string(1u); m.def((b + "() -> ()").c_str());',
    'std::string_view v = "view$N_tail"; v.remove_suffix(5); m.def((std::string(v) + "() -> ()").c_str());',
    "std::string t = std::to_string(2.5); for (auto& c : t) if (c == '.') c = '_'; m.def((\"dbl$N_\" + t + \"() -> ()\").c_str());",
    'if (std::regex_match("abc12", std::regex("[a-z]+[0-9]+"))) m.def("regex$N() -> ()"); else m.def("noregex$N() -> ()");',
    'std::filesystem::path p("/usr/lib/stem$N.so.1"); m.def((p.stem().stem().string() + "() -> ()").c_str());',
    'std::filesystem::path p = std::filesystem::path("a") / "b$N.txt"; if (p.extension() == ".txt") m.def("ext$N() -> ()");'
    ' if (p.has_parent_path()) m.def((p.parent_path().string() + "par$N() -> ()").c_str());',
    'std::wstring w = L"wide$N"; std::string t(w.begin(), w.end()); m.def((t + "() -> ()").c_str());',
    'char b[] = "tok$N_a tok$N_b"; for (char* p = strtok(b, " "); p; p = strtok(nullptr, " ")) m.def((std::string(p) + "() -> ()").c_str());',
    'int s; char* d = abi::__cxa_demangle("3foo", nullptr, nullptr, &s); m.def((std::string(s == 0 ? d : "bad") + "$N() -> ()").c_str()); free(d);',
    "struct Local$N {}; int s; char* d = abi::__cxa_demangle(typeid(std::map<int, float>).name(), nullptr, nullptr, &s);"
    ' m.def(("dem$N_" + std::to_string(strlen(d)) + "() -> ()").c_str());',
    'm.def("quoted$N(str s=\\"a b\\") -> str"); m.def("opt$N(Tensor? x=None, int[] y=[1, 2]) -> (Tensor, Tensor)");',
)

NUMBERS: Final = (
    'if (std::stod("2.5") > 2.0) m.def("stod$N() -> ()"); else m.def("nostod$N() -> ()");',
    'if (atof("-1.5e3") < -1000) m.def("atof$N() -> ()"); else m.def("noatof$N() -> ()");',
    'if (std::stoi("41") + 1 == 42) m.def("stoi$N() -> ()"); else m.def("nostoi$N() -> ()");',
    'if (std::strtof("0.5", nullptr) == 0.5f) m.def("strtof$N() -> ()"); else m.def("nostrtof$N() -> ()");',
    'volatile double x = 27.0; m.def(("cbrt$N_" + std::to_string((int)std::cbrt(x)) + "() -> ()").c_str());',
    'volatile double x = 3, y = 4; m.def(("hypot$N_" + std::to_string((int)std::hypot(x, y)) + "() -> ()").c_str());',
    'volatile double x = 3, y = 4; std::complex<double> c(x, y); m.def(("cabs$N_" + std::to_string((int)std::abs(c)) + "() -> ()").c_str());',
    'volatile double x = 2; m.def(("pow$N_" + std::to_string((int)std::pow(x, 10.0)) + "() -> ()").c_str());',
    'volatile float x = 2; m.def(("expf$N_" + std::to_string((int)std::exp(x)) + "_" + std::to_string((int)std::exp2(x)) + "() -> ()").c_str());',
    'volatile double x = 100; m.def(("log$N_" + std::to_string((int)std::log10(x)) + "_" + std::to_string((int)std::log2(x)) + "() -> ()").c_str());',
    'volatile double x = 2.7; m.def(("round$N_" + std::to_string((int)std::floor(x)) + std::to_string((int)std::ceil(x)) + std::to_string((int)std::round(x)) + std::to_string(std::lround(x)) + "() -> ()").c_str());',
    'volatile double x = 0.5; if (std::sin(x) < 0.48 && std::cos(x) > 0.87 && std::atan2(x, x) > 0.78) m.def("trig$N() -> ()"); else m.def("notrig$N() -> ()");',
    'volatile double x = 7.5; m.def(("fmod$N_" + std::to_string((int)(10 * std::fmod(x, 2.0))) + "() -> ()").c_str());',
    'volatile double x = 4; int e; double f = std::frexp(x, &e); m.def(("frexp$N_" + std::to_string(e) + "_" + std::to_string((int)std::ldexp(f, 4)) + "() -> ()").c_str());',
    'volatile double x = 5; if (std::tgamma(x) > 23.9 && std::lgamma(x) > 3.1 && std::erf(x) > 0.9) m.def("gamma$N() -> ()"); else m.def("nogamma$N() -> ()");',
    'std::mt19937 g(5); std::uniform_int_distribution<int> d(0, 99); m.def(("mt$N_" + std::to_string(d(g)) + "() -> ()").c_str());',
    'int v = 0; std::string t = "123x"; auto r = std::from_chars(t.data(), t.data() + t.size(), v); m.def(("fc$N_" + std::to_string(v) + "() -> ()").c_str());',
    'std::vector<int> v{3, 1, 2}; std::sort(v.begin(), v.end()); std::string t; for (int i : v) t += std::to_string(i); m.def(("sort$N_" + t + "() -> ()").c_str());',
    'volatile int n = 10; std::string t; auto d = std::div((int)n, 3); t = std::to_string(d.quot) + std::to_string(d.rem) + std::to_string(std::abs(-n)); m.def(("div$N_" + t + "() -> ()").c_str());',
    'long double x = 2.0L; volatile long double y = x; if (y * y > 3.0L) m.def("ld$N() -> ()"); else m.def("nold$N() -> ()");',
)

CONTAINERS: Final = (
    'std::map<std::string, int> t{{"b$N", 1}, {"a$N", 2}}; for (auto& p : t) m.def((p.first + "_" + std::to_string(p.second) + "() -> ()").c_str()); t.erase("a$N"); if (t.size() != 1) m.def("bad$N() -> ()");',
    'std::unordered_map<std::string, int> t; for (int i = 0; i < 30; ++i) t["k" + std::to_string(i)] = i; if (t.count("k7") && t.at("k9") == 9) m.def("umap$N() -> ()"); else m.def("noumap$N() -> ()");',
    'std::set<int> t{5, 3, 9}; t.erase(3); m.def(("set$N_" + std::to_string(*t.begin()) + "() -> ()").c_str());',
    'std::list<std::string> t{"l2$N", "l1$N"}; t.sort(); t.reverse(); for (auto& p : t) m.def((p + "() -> ()").c_str());',
    'std::variant<int, std::string> v = std::string("var$N"); std::visit([&](auto& x) { if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::string>) m.def((x + "() -> ()").c_str()); }, v);',
    'std::any a = std::string("any$N"); m.def((std::any_cast<std::string&>(a) + "() -> ()").c_str()); try { std::any_cast<int>(a); } catch (const std::bad_any_cast&) { m.def("badany$N() -> ()"); }',
    'std::function<void(int)> f = [&](int n) { if (n) { m.def(("rec$N_" + std::to_string(n) + "() -> ()").c_str()); f(n - 1); } }; f(3);',
    'std::shared_ptr<std::string> p = std::make_shared<std::string>("shared$N"); std::weak_ptr<std::string> w = p; if (auto q = w.lock()) m.def((*q + "() -> ()").c_str()); p.reset(); if (w.expired()) m.def("expired$N() -> ()");',
    'std::optional<std::string> o; try { o.value(); } catch (const std::bad_optional_access&) { m.def("noopt$N() -> ()"); }',
    'std::deque<int> q; for (int i = 0; i < 500; ++i) q.push_back(i); m.def(("deque$N_" + std::to_string(q[300]) + "() -> ()").c_str());',
    'std::priority_queue<int> q; q.push(2); q.push(8); m.def(("heap$N_" + std::to_string(q.top()) + "() -> ()").c_str());',
    'static const std::string names[] = {"st1$N", "st2$N"}; for (auto& n : names) m.def((n + "(Tensor x) -> Tensor").c_str());',
)

EXCEPTIONS: Final = (
    'try { throw std::runtime_error("x"); } catch (const std::exception& e) { m.def("caught$N() -> ()"); }',
    'try { throw std::runtime_error("what$N"); } catch (const std::exception& e) { m.def((std::string(e.what()) + "() -> ()").c_str()); }',
    'try { throw 7; } catch (int i) { m.def(("int$N_" + std::to_string(i) + "() -> ()").c_str()); }',
    'try { try { throw std::out_of_range("o"); } catch (const std::runtime_error&) { m.def("wrong$N() -> ()"); } } catch (const std::logic_error&) { m.def("logic$N() -> ()"); }',
    'try { try { throw std::invalid_argument("re$N"); } catch (...) { throw; } } catch (std::invalid_argument& e) { m.def((std::string(e.what()) + "() -> ()").c_str()); }',
    'std::map<int, int> t; try { t.at(3); } catch (const std::out_of_range&) { m.def("at$N() -> ()"); }',
    'std::vector<int> t; try { (void)t.at(3); } catch (const std::exception&) { m.def("vat$N() -> ()"); }',
    'try { (void)std::string("abc").substr(9); } catch (const std::out_of_range&) { m.def("substr$N() -> ()"); }',
    'try { std::stoi("x"); } catch (const std::invalid_argument& e) { m.def((std::string(e.what()) + "$N() -> ()").c_str()); }',
    'try { std::stoi("99999999999999"); } catch (const std::out_of_range& e) { m.def("range$N() -> ()"); }',
    'try { TORCH_CHECK(false, "no"); } catch (const c10::Error& e) { m.def("check$N() -> ()"); }',
    'try { TORCH_CHECK(false, "msg$N"); } catch (const c10::Error& e) { m.def((std::string(e.what_without_backtrace()) + "() -> ()").c_str()); }',
    'try { TORCH_CHECK_VALUE(false, "no"); } catch (const std::exception& e) { m.def("checkv$N() -> ()"); }',
    'try { m.def("bad$N(("); } catch (const std::exception&) { m.def("parse$N() -> ()"); }',
    'm.def("dup$N() -> ()"); try { m.def("dup$N() -> ()"); } catch (const c10::Error&) { m.def("dupcaught$N() -> ()"); }',
    'try { m.def("other::ns$N() -> ()"); } catch (const c10::Error&) { m.def("nscaught$N() -> ()"); }',
    'struct D$N { torch::Library& m; ~D$N() { m.def("unwound$N() -> ()"); } }; try { D$N d{m}; throw 1; } catch (...) { m.def("after$N() -> ()"); }',
    'struct B$N { virtual ~B$N() = default; }; struct C$N : B$N {}; struct E$N : B$N {}; std::unique_ptr<B$N> b(new C$N); try { dynamic_cast<E$N&>(*b); } catch (const std::bad_cast&) { m.def("badcast$N() -> ()"); }',
    'auto p = std::current_exception(); if (!p) m.def("nocur$N() -> ()"); try { throw std::runtime_error("ptr$N"); } catch (...) { p = std::current_exception(); } try { std::rethrow_exception(p); } catch (std::exception& e) { m.def((std::string(e.what()) + "() -> ()").c_str()); }',
    'try { try { throw std::runtime_error("in"); } catch (...) { std::throw_with_nested(std::logic_error("out")); } } catch (const std::exception& e) { try { std::rethrow_if_nested(e); } catch (const std::exception& i) { m.def((std::string(e.what()) + i.what() + "$N() -> ()").c_str()); } }',
    'std::vector<int> v{1, 2, 3}; try { std::for_each(v.begin(), v.end(), [&](int i) { m.def(("each$N_" + std::to_string(i) + "() -> ()").c_str()); if (i == 2) throw i; }); } catch (int) { m.def("stopped$N() -> ()"); }',
    'static std::once_flag f; try { std::call_once(f, [] { throw std::runtime_error("once"); }); } catch (const std::exception&) { m.def("once$N() -> ()"); } std::call_once(f, [&] { m.def("again$N() -> ()"); });',
    'struct S$N { S$N() { throw 5; } }; auto make = [] { static S$N s; return &s; }; try { make(); } catch (int) { m.def("guard$N() -> ()"); }',
    'std::function<void()> e; try { e(); } catch (const std::bad_function_call&) { m.def("badcall$N() -> ()"); }',
    'try { new int[std::stoull("9223372036854775807")]; } catch (const std::bad_alloc&) { m.def("alloc$N() -> ()"); }',
    'std::set<std::string> s{"q"}; std::set<std::string, std::function<bool(const std::string&, const std::string&)>> t([](const std::string& a, const std::string& b) -> bool { throw 3; }); try { t.insert("a"); t.insert("b"); } catch (int) { m.def("cmp$N() -> ()"); }',
)

OBJECTS: Final = (
    'struct B$N { virtual ~B$N() = default; }; struct C$N : B$N { int x = 3; }; struct E$N : B$N {}; std::unique_ptr<B$N> b(new C$N); if (dynamic_cast<E$N*>(b.get())) m.def("isE$N() -> ()"); if (auto c = dynamic_cast<C$N*>(b.get())) m.def(("isC$N_" + std::to_string(c->x) + "() -> ()").c_str());',
    'struct P$N { virtual ~P$N() = default; int p = 1; }; struct Q$N { virtual ~Q$N() = default; int q = 2; }; struct R$N : P$N, Q$N {}; R$N r; P$N* p = &r; if (auto q = dynamic_cast<Q$N*>(p)) m.def(("cross$N_" + std::to_string(q->q) + "() -> ()").c_str()); if (dynamic_cast<void*>(static_cast<Q$N*>(&r)) == &r) m.def("whole$N() -> ()");',
    'struct V$N { virtual ~V$N() = default; int v = 4; }; struct L$N : virtual V$N {}; struct M$N : virtual V$N {}; struct W$N : L$N, M$N {}; W$N w; V$N* v = &w; if (auto l = dynamic_cast<M$N*>(v)) m.def(("virt$N_" + std::to_string(l->v) + "() -> ()").c_str());',
    'struct A$N { virtual const char* name() const = 0; virtual ~A$N() = default; }; struct I$N : A$N { const char* name() const override { return "virt$N() -> ()"; } }; std::vector<std::unique_ptr<A$N>> all; all.emplace_back(new I$N); for (auto& a : all) m.def(a->name());',
    'if (typeid(int) == typeid(int) && typeid(int).before(typeid(long)) != typeid(long).before(typeid(int))) m.def("typeid$N() -> ()"); m.def(("hash$N_" + std::string(typeid(float).name()) + "() -> ()").c_str());',
    'thread_local int t = 5; m.def(("tls$N_" + std::to_string(t++) + "() -> ()").c_str());',
    'int n = 0; std::thread th([&] { n = 3; m.def("thread$N() -> ()"); }); th.join(); m.def(("joined$N_" + std::to_string(n) + "() -> ()").c_str());',
    'auto f = std::async(std::launch::async, [] { return 6; }); m.def(("async$N_" + std::to_string(f.get()) + "() -> ()").c_str());',
    'std::promise<int> p; auto f = p.get_future(); p.set_value(9); m.def(("prom$N_" + std::to_string(f.get()) + "() -> ()").c_str());',
    'std::mutex x; std::lock_guard<std::mutex> l(x); std::atomic<int> a{1}; a.fetch_add(2); m.def(("atom$N_" + std::to_string(a.load()) + "() -> ()").c_str());',
    'm.def("kernel$N", [](const at::Tensor& x, int64_t n, c10::optional<double> d) { return x; });',
    'm.def("gen$N", [](const at::Tensor& x, std::optional<at::Generator> g) { return x; });',
    'm.def("types$N", [](std::vector<at::Tensor> x, std::string s, bool b, c10::ScalarType t, at::Device d, std::optional<at::ScalarType> o, at::IntArrayRef i, const at::Scalar& v) { return std::make_tuple(x[0], b); });',
    'm.impl("gen::plainimpl$N", torch::dispatch(c10::DispatchKey::CPU, [](const at::Tensor& x) { return x; })); m.def("plainimpl$N(Tensor x) -> Tensor");',
)

ENVIRONMENT: Final = (
    'if (getenv("HOME")) m.def("home$N() -> ()"); else m.def("nohome$N() -> ()");',
    'if (getenv("GENERATED_UNSET_$N")) m.def("set$N() -> ()"); else m.def("unset$N() -> ()");',
    'setenv("GENERATED_$N", "on", 1); if (auto v = getenv("GENERATED_$N")) m.def((std::string(v) + "$N() -> ()").c_str()); unsetenv("GENERATED_$N");',
    'if (time(nullptr) > 1000000) m.def("time$N() -> ()");',
    'if (getpid() > 1) m.def("pid$N() -> ()");',
    'if (__builtin_cpu_supports("avx2")) m.def("avx2$N() -> ()"); else m.def("noavx2$N() -> ()");',
    'struct utsname u; if (uname(&u) == 0 && std::string(u.sysname) == "Linux") m.def("linux$N() -> ()");',
    'struct stat s; if (stat("/nonexistent/$N", &s) == 0) m.def("stat$N() -> ()"); else m.def("nostat$N() -> ()");',
    'if (access("/nonexistent/$N", R_OK) == 0) m.def("acc$N() -> ()"); else m.def("noacc$N() -> ()");',
    'if (std::filesystem::exists("/nonexistent/$N")) m.def("fs$N() -> ()"); else m.def("nofs$N() -> ()");',
    'std::ifstream f("/nonexistent/$N"); if (f) m.def("file$N() -> ()"); else m.def("nofile$N() -> ()");',
    'Dl_info i; if (dladdr((void*)&getpid, &i)) m.def("dladdr$N() -> ()");',
    'if (at::globalContext().hasCUDA()) m.def("cuda$N() -> ()"); else m.def("nocuda$N() -> ()");',
    'if (c10::Dispatcher::singleton().findSchema({"aten::add", "Tensor"})) m.def("found$N() -> ()"); else m.def("notfound$N() -> ()");',
    'if (c10::Dispatcher::singleton().findSchema({"nowhere::add", ""})) m.def("found$N() -> ()"); else m.def("notfound$N() -> ()");',
    "char b[65]; if (gethostname(b, sizeof b) == 0 && b[0] == 'q') m.def(\"host$N() -> ()\");",
    'auto t = std::chrono::steady_clock::now(); if (t.time_since_epoch().count() % 2) m.def("odd$N() -> ()");',
    'if (getuid() == 1000) m.def("uid$N() -> ()");',
    'if (std::random_device{}() == 5) m.def("rd$N() -> ()");',
    'srand(3); int r = rand(); m.def(("rand$N_" + std::to_string(r % 10) + "() -> ()").c_str());',
    'if (isatty(0)) m.def("tty$N() -> ()");',
    'timespec t; clock_gettime(CLOCK_REALTIME, &t); if (t.tv_nsec % 3 == 1) m.def("ns$N() -> ()");',
    'time_t t = 86400; tm r; gmtime_r(&t, &r); char b[32]; strftime(b, sizeof b, "%Y", &r); m.def(("year$N_" + std::string(b) + "() -> ()").c_str());',
    'int unused = getpid(); (void)unused; auto t = time(nullptr); static long keep$N; keep$N = t; m.def("unused$N() -> ()");',
)

ENDS: Final = (
    'throw std::runtime_error("end$N");',
    'TORCH_CHECK(false, "end$N");',
    "throw 3;",
    "std::map<int, int> t; t.at(1);",
    'm.def("enddup$N() -> ()"); m.def("enddup$N() -> ()");',
    'm.def("endbad$N(");',
    "std::terminate();",
    'std::thread t([] { throw std::runtime_error("endthread$N"); }); t.join();',
    '[]() noexcept { throw std::logic_error("endnoexcept$N"); }();',
    'std::string("x").at(4);',
    "abort();",
)
"""What ends the process that loads the extension."""

GLOBAL: Final = (
    "TORCH_LIBRARY_FRAGMENT(gen, m) { $BODY }",
    'static auto r$N = [] { torch::Library m(torch::Library::FRAGMENT, "gen", std::nullopt, __FILE__, __LINE__);'
    " $BODY return std::make_unique<torch::Library>(std::move(m)); }();",
    "__attribute__((constructor)) static void c$N() {"
    ' static torch::Library m(torch::Library::FRAGMENT, "gen", std::nullopt, __FILE__, __LINE__); $BODY }',
    'static int s$N = [] { torch::Library m(torch::Library::FRAGMENT, "gen", std::nullopt, __FILE__, __LINE__);'
    " $BODY return 0; }();",
    "static std::vector<torch::Library> v$N = [] { std::vector<torch::Library> all;"
    ' all.emplace_back(torch::Library::FRAGMENT, "gen", std::nullopt, __FILE__, __LINE__); torch::Library& m = all[0];'
    " $BODY return all; }();",
    "static void body$N(torch::Library& m) { $BODY }\n"
    "TORCH_LIBRARY_FRAGMENT(gen, m) { std::vector<void (*)(torch::Library&)> f{body$N}; for (auto g : f) g(m); }",
)

PIECES: Final = {
    "texts": TEXTS,
    "numbers": NUMBERS,
    "containers": CONTAINERS,
    "exceptions": EXCEPTIONS,
    "objects": OBJECTS,
    "environment": ENVIRONMENT,
}
