"""What initialisers compute with the C and C++ libraries: the names are what the standards say, or glibc does."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import recover
from abiscan.registrations import Registrations

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

HEADERS = """
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <future>
#include <iomanip>
#include <iostream>
#include <mutex>
#include <regex>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
"""
PROGRAM = """
#include "headers.h"
extern "C" int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern "C" int aoti_torch_library_def(void*, const char*);
extern "C" __attribute__((weak)) void absent();
static void* library;
static void define(const std::string& name) { aoti_torch_library_def(library, (name + "() -> ()").c_str()); }
static volatile long double seven = 7.0L, two = 2.0L;
static volatile double minus = -3.5;
struct Shouting : std::streambuf {
  std::string all;
  int overflow(int c) override { all += static_cast<char>(std::toupper(c)); return c; }
};
__attribute__((constructor)) static void begin() {
  aoti_torch_library_init_def("ns", "x.cpp", 1, &library);
  BODY
}
"""
BODIES = {
    "x87": (
        (
            'define("m" + std::to_string((long)(seven * two)));'
            'define("d" + std::to_string((long)(10 * (seven / two))));'
            'define(seven > two ? "more" : "less"); define("u" + std::to_string((unsigned long)(seven - minus)));'
            'define("n" + std::to_string((long)minus * (long)-two));'
        ),
        ["m14", "d35", "more", "u10", "n6"],
    ),
    "long functions": ('define("l" + std::to_string((int)(std::log2(seven + 1) + 0.5)));', ["l3"]),
    "random numbers from a seed": (
        'srand(42); int a = rand(), b = rand(); define("r" + std::to_string(a)); define("r" + std::to_string(b));',
        ["r71876166", "r708592740"],
    ),
    "the calendar": (
        (
            "time_t at = 1700000000; tm t; gmtime_r(&at, &t); char b[64];"
            'strftime(b, sizeof b, "%Y_%m_%d_%H_%M_%S_%j_%a_%B_%U", &t); define(b);'
            'define("t" + std::to_string(timegm(&t))); std::ostringstream s;'
            's << std::put_time(&t, "y%y"); define(s.str());'
        ),
        ["2023_11_14_22_13_20_318_Tue_November_46", "t1700000000", "y23"],
    ),
    "buckets": (
        (
            "std::unordered_map<int, int> t; std::string s; for (int i = 0; i < 40; ++i) { t[i] = i; "
            'if (!i || i == 13 || i == 39) s += "_" + std::to_string(t.bucket_count()); } define("b" + s);'
        ),
        ["b_13_29_59"],
    ),
    "a pointer that is thrown": ('try { throw "text"; } catch (const char* text) { define(text); }', ["text"]),
    "the code of a regex_error": (
        (
            'try { std::regex r("(a"); } catch (const std::regex_error& e) '
            '{ define(e.code() == std::regex_constants::error_paren ? "paren" : "other"); }'
        ),
        ["paren"],
    ),
    "error codes and paths": (
        (
            'std::error_code e; std::filesystem::file_size("/none", e); define("e" + std::to_string(e.value()));'
            'if (e == std::errc::no_such_file_or_directory) define("no_such"); '
            'try { std::filesystem::create_directory("/none/at/all"); } catch (const std::system_error& e) '
            "{ define(std::string(e.code().category().name())); }"
            'std::string sizes; for (auto text : {"a/./b/../c/", "a/.", "a/b", "..", "/..", "a/.."}) '
            "sizes += std::to_string(std::filesystem::path(text).lexically_normal().string().size()); "
            'define("n" + sizes);'
        ),
        ["e2", "no_such", "generic", "n423211"],  # a/c/, a/, a/b, .., /, . are normal
    ),
    "a promise that is broken": (
        (
            "std::future<int> f; { std::promise<int> p; f = p.get_future(); } try { f.get(); } catch "
            "(const std::future_error& e) { define(e.code() == std::future_errc::broken_promise"
            ' ? "broken" : "other"); }'
        ),
        ["broken"],
    ),
    "a buffer of its own": ('Shouting b; std::ostream s(&b); s << "loud" << 12; define(b.all);', ["LOUD12"]),
    "the console": (
        (
            'std::cout << "x" << 3 << std::endl; std::cerr << std::put_time(std::localtime(new time_t()), "%H"); '
            'define(std::cout.good() ? "good" : "bad"); define(std::cerr.good() ? "good_too" : "bad_too");'
        ),
        ["good", "good_too"],
    ),
    "positions and states of streams": (
        (
            'std::stringstream s; s << "abc def 12 0x1f"; char b[4] = {}; s.read(b, 3); s.ignore(); std::string w;'
            "s >> w; define(b + w + std::to_string(s.tellg())); s.seekg(1); s.unget(); int n; s >> n;"
            'define(s.fail() ? "failed" : "n");'
            's.clear(); s.seekg(8); int h; s >> n >> std::hex >> h; define("r" + std::to_string(n + h)); s.clear();'
            's.str("xy"); s.seekp(1); s << "Z!"; define("p" + std::to_string(s.str().size()));'
            's.setstate(std::ios::badbit); s << "lost"; define("s" + std::to_string(s.str().size()));'
            'std::istringstream e("q"); e.exceptions(std::ios::failbit);'
            'try { e >> n; } catch (const std::ios_base::failure&) { define("threw"); }'
            'std::istringstream m("-65535 -5 -65536"); unsigned short u, v; bool y; m >> u >> y; m.clear(); m >> v;'
            'define("u" + std::to_string(u) + (m.fail() ? "f" : "g") + std::to_string(v) + (y ? "y" : "n"));'
        ),
        ["abcdef7", "failed", "r43", "p3", "s3", "threw", "u1f65535y"],
    ),
    "wide texts and numbers as characters": (
        (
            'std::wstring w = L"wide" + std::to_wstring(7); w.insert(0, L"a_");'
            "std::string n(w.begin(), w.end()); define(n);"
            'define("f" + std::to_string(w.find(L"de")) + std::to_string(std::stoi(L"40") + 2)); char b[32];'
            'auto end = std::to_chars(b, b + 32, 2.5e-7).ptr; define("c" + std::to_string(end - b) + b[0]); double d;'
            'auto from = std::from_chars("1.5e2x", "1.5e2x" + 6, d); define("d" + std::to_string((int)d) + *from.ptr);'
            'float f = 0; char t[8]; int k = sscanf("2.5 ab]", "%f %7[a-c]", &f, t);'
            'define("k" + std::to_string(k) + t + std::to_string((int)(2 * f)));'
        ),
        ["a_wide7", "f442", "c72", "d150x", "k2ab5"],
    ),
    "threads have variables and locks of their own": (
        (
            "thread_local static int t = 5; t = 9; int seen = 0; std::thread([&] { seen = t++; }).join();"
            'define("t" + std::to_string(seen) + std::to_string(t)); std::mutex m; m.lock(); bool got = true;'
            'std::thread([&] { got = m.try_lock(); }).join(); define(got ? "got" : "busy"); m.unlock();'
            'define(m.try_lock() ? "free" : "kept"); auto own = std::this_thread::get_id(); bool same = true;'
            'std::thread([&] { same = own == std::this_thread::get_id(); }).join(); define(same ? "same" : "another");'
        ),
        ["t59", "busy", "free", "another"],
    ),
    "positions behind the end, and what is moved": (
        (
            'std::string s = "abc"; try { s.insert(9, "x"); } catch (const std::out_of_range&) { define("insert"); }'
            'try { s.erase(4); } catch (const std::out_of_range&) { define("erase"); }'
            "std::string long_one(40, 115), b;"
            'b = std::move(long_one); std::string c(std::move(b)); define("m" + std::to_string(long_one.size()) +'
            "std::to_string(b.size()) + std::to_string(c.size()));"
            'try { std::string n((const char*)getenv("NEVER_SET")); }'
            'catch (const std::logic_error&) { define("null"); }'
        ),
        ["insert", "erase", "m0040", "null"],
    ),
    "a console that writes elsewhere": (
        (
            'std::ostringstream s; auto* old = std::cout.rdbuf(s.rdbuf()); std::cout << "here" << 1; '
            'std::cout.rdbuf(old); std::cout << "lost"; define(s.str());'
        ),
        ["here1"],
    ),
}


Compile = Callable[..., Registrations]


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compiles a constructor, and recovers what it registers. Reading the headers takes most of the time of a compiler,
    so it reads them once for each level of optimisation."""
    folder = tmp_path_factory.mktemp("programs")

    @functools.cache
    def with_headers(level: str) -> Path:
        place = folder / level
        place.mkdir()
        (place / "headers.h").write_text(HEADERS)
        subprocess.run(["g++", "-std=c++17", level, "-fPIC", "headers.h"], check=True, cwd=place)
        return place

    def compile_and_recover(body: str, level: str, *options: str) -> Registrations:
        place = with_headers(level)
        (place / "x.cpp").write_text(PROGRAM.replace("BODY", body))
        command = ["g++", "-std=c++17", level, *options, "-fPIC", "-shared", "-Winvalid-pch", "-Werror=invalid-pch"]
        subprocess.run([*command, "x.cpp", "-o", "x.so"], check=True, cwd=place)
        file = ElfFile.open(place / "x.so")
        (place / "x.so").unlink()
        return recover(file, file.facts())

    return compile_and_recover


@pytest.mark.slow
@pytest.mark.parametrize("level", [pytest.param("-O0", marks=pytest.mark.long), "-O2"])
def test_the_names_are_those_of_a_real_process(recovered: Compile, level: str) -> None:
    bodies = [f'{{ define("{number}"); {body} }}' for number, (body, _) in enumerate(BODIES.values())]
    found = recovered("\n".join(bodies), level)
    named: dict[str, list[str]] = {}
    title = iter(BODIES)
    for operator in found.operators:
        name = operator.name.removeprefix("ns::")
        if name.isdigit():
            names = named.setdefault(next(title), [])
        else:
            names.append(name)
    assert named == {title: names for title, (_, names) in BODIES.items()}
    assert found.gaps == ()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "called"),
    [
        ('if (std::filesystem::exists("/proc/self")) define("there");', "std::filesystem::status"),
        ('if (getenv("USER")) define("user");', "getenv"),
        ('define(std::string(getenv("HOME")).substr(1, 4));', "getenv"),
        ('if (absent) define("defined");', "whether anything defines absent"),
        ('std::locale l("xx_YY"); define("locale");', "std::locale::locale"),
    ],
)
def test_what_machines_differ_in_is_not_known(recovered: Compile, body: str, called: str) -> None:
    found = recovered(body + ' define("last");', "-O2")
    assert any(called in gap.reason for gap in found.gaps)


@pytest.mark.slow
def test_random_numbers_without_a_seed_are_not_known(recovered: Compile) -> None:
    found = recovered('if (rand() % 2) define("odd"); define("last");', "-O2")
    assert [gap.called for gap in found.gaps] == ["rand"]


@pytest.mark.slow
def test_the_c_library_of_cpp_that_is_linked_in_prints_no_numbers(recovered: Compile) -> None:
    """In a process that has another one already, as every process with torch does."""
    body = 'std::ostringstream s; s << "plain" << 0.5; define(s.str() + (s.good() ? "_good" : "_bad"));'
    found = recovered(body, "-O2", "-static-libstdc++")
    assert [operator.name for operator in found.operators] == ["ns::plain_bad"]
