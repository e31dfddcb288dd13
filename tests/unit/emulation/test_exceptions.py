"""Exceptions of C++ in initialisers: what is registered behind them, and what becomes of those that nothing catches.

What the sources register is what the C++ standard says that they do.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from abiscan.binary.elf import ElfFile
from abiscan.emulation import recover
from abiscan.emulation.emulator import CANARY
from abiscan.emulation.exceptions import Exceptions
from abiscan.registrations import Registrations

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

HEADERS = {"std::map": "map", "std::call_once": "mutex", "std::thread": "thread"}
"""What few bodies need takes most of the time of the compiler."""
HEAD = """
#include <stdexcept>
#include <string>
extern "C" int aoti_torch_library_init_def(const char*, const char*, unsigned, void**);
extern "C" int aoti_torch_library_def(void*, const char*);
static void* library;
static void define(const std::string& name) { aoti_torch_library_def(library, (name + "() -> ()").c_str()); }
struct Unwound { ~Unwound() { define("unwound"); } };
struct Base { virtual ~Base() = default; };
struct Derived : Base {};
struct Other : Base {};
static void body() {
  BODY
}
__attribute__((constructor)) static void begin() {
  aoti_torch_library_init_def("ns", "x.cpp", 1, &library);
  body();
  define("last");
}
"""
CAUGHT = {
    "by its base": (
        'try { throw std::runtime_error("text"); } catch (const std::exception& e) { define(e.what()); }',
        ["text"],
    ),
    "of a type that is no class": ('try { throw 7; } catch (int n) { define("n" + std::to_string(n)); }', ["n7"]),
    "not by another type": (
        'try { try { throw 1.5; } catch (int) { define("wrong"); } } catch (double) { define("right"); }',
        ["right"],
    ),
    "thrown again": (
        (
            'try { try { throw std::out_of_range("o"); } catch (...) { throw; } } '
            "catch (std::logic_error& e) { define(e.what()); }"
        ),
        ["o"],
    ),
    "after a cleanup": ('try { Unwound u; throw 1; } catch (...) { define("caught"); }', ["unwound", "caught"]),
    "thrown by the library": (
        'try { std::map<int, int>().at(3); } catch (const std::out_of_range&) { define("at"); }',
        ["at"],
    ),
    "through a double": (
        (
            "static std::once_flag flag; try { std::call_once(flag, [] { throw 2; }); } "
            'catch (int) { define("once"); } '
            'std::call_once(flag, [] { define("again"); });'
        ),
        ["once", "again"],
    ),
    "of a cast that fails": (
        (
            "Derived d; Base* b = &d; try { (void)dynamic_cast<Other&>(*b); } catch (const std::bad_cast&) "
            '{ define("bad"); } if (dynamic_cast<Derived*>(b) && !dynamic_cast<Other*>(b)) define("cast");'
        ),
        ["bad", "cast"],
    ),
}
# The text of what() is what the process prints.
UNCAUGHT = {
    "a class of the library": ('throw std::runtime_error("no way");', "std::runtime_error", "no way"),
    "a number": ("throw 3;", "int", "terminate called after throwing an instance of 'int'"),
    "through noexcept": ('[]() noexcept { throw std::logic_error("there"); }();', "std::logic_error", "there"),
    "in a thread": (
        'try { std::thread t([] { throw std::runtime_error("in it"); }); t.join(); } catch (...) {}',
        "std::runtime_error",
        "in it",
    ),
}


def _recovered(folder: Path, body: str, level: str, *options: str) -> Registrations:
    includes = "".join(f"#include <{header}>\n" for name, header in HEADERS.items() if name in body)
    (folder / "throws.cpp").write_text(includes + HEAD.replace("BODY", body))
    command = ["g++", level, *options, "-fPIC", "-shared", "throws.cpp", "-o", "throws.so"]
    subprocess.run(command, check=True, cwd=folder)
    file = ElfFile.open(folder / "throws.so")
    return recover(file, file.facts())


@pytest.mark.slow
@pytest.mark.parametrize("level", [pytest.param("-O0", marks=pytest.mark.long), "-O2"])
@pytest.mark.parametrize(("body", "names"), CAUGHT.values(), ids=CAUGHT)
def test_the_initialiser_goes_on_behind_a_handler(tmp_path: Path, body: str, names: list[str], level: str) -> None:
    found = _recovered(tmp_path, body, level)
    assert [operator.name for operator in found.operators] == [f"ns::{name}" for name in (*names, "last")]
    assert found.gaps == ()


@pytest.mark.parametrize(("body", "type_", "text"), UNCAUGHT.values(), ids=UNCAUGHT)
def test_what_nothing_catches_ends_the_process(tmp_path: Path, body: str, type_: str, text: str) -> None:
    found = _recovered(tmp_path, body, "-O1")
    (end,) = found.ends
    assert (end.cause, end.text) == (f"throws {type_}, which nothing catches", text)
    assert found.operators == ()


# Exception specifications, which C++17 has not any more: see ``throw(…)`` in [except.spec] of C++14.
SPECIFIED = "struct Specified {{ static void call(int n) throw(int, Other) {{ {body} }} }};"


def test_an_exception_that_a_specification_names_passes(tmp_path: Path) -> None:
    body = SPECIFIED.format(body="if (n == 1) throw n; throw Other();")
    body += 'try { Specified::call(1); } catch (int) { define("number"); }'
    body += 'try { Specified::call(2); } catch (Other&) { define("class"); }'
    found = _recovered(tmp_path, body, "-O1", "-std=c++14")
    assert [operator.name for operator in found.operators] == ["ns::number", "ns::class", "ns::last"]
    assert found.gaps == ()


def test_an_exception_that_a_specification_does_not_name_ends_the_process(tmp_path: Path) -> None:
    body = SPECIFIED.format(body='throw std::runtime_error("unexpected");')
    body += "try { Specified::call(1); } catch (...) {}"
    found = _recovered(tmp_path, body, "-O1", "-std=c++14")
    (end,) = found.ends
    assert (end.cause, end.text) == ("throws std::runtime_error, which nothing catches", "unexpected")


def test_an_end_that_depends_on_the_machine_is_none_for_certain(tmp_path: Path) -> None:
    body = 'if (!getenv("NEVER_SET")) throw std::runtime_error("not here");'
    found = _recovered(tmp_path, body, "-O1")
    assert found.ends == ()
    (gap,) = (gap for gap in found.gaps if "nothing catches" in gap.reason)
    assert gap.decides


@pytest.mark.slow
def test_behind_a_stop_in_what_registers_the_process_may_end(tmp_path: Path) -> None:
    """Also where every call that registers has been executed once: a helper has one for all."""
    stop = "volatile int* p = (volatile int*)8; *p = 1;"
    for body in (stop, f'define("first"); {stop}'):
        (gap,) = (gap for gap in _recovered(tmp_path, body, "-O1").gaps if "unmapped" in gap.reason)
        assert gap.decides
    elsewhere = "} __attribute__((constructor(65000))) static void other() { "
    found = _recovered(tmp_path, f"{elsewhere} {stop}", "-O1")
    assert [gap.decides for gap in found.gaps if "unmapped" in gap.reason] == [False]


def test_nothing_behind_the_stack_protector_is_a_local(monkeypatch: pytest.MonkeyPatch) -> None:
    """GCC puts it right below what is saved: locals, the protector, %rbp, the return address."""
    protector, rbp, cfa = 0x1E8, 0x1F0, 0x200
    words = {protector: CANARY}
    frames = SimpleNamespace(cfa=lambda *_: cfa, saved=lambda *_: [rbp, rbp + 8])
    exceptions = Exceptions(cast("Any", SimpleNamespace(machine=SimpleNamespace(word=lambda at: words.get(at, 7)))))
    monkeypatch.setattr(
        exceptions, "_frames_from", lambda _call: [SimpleNamespace(frames=frames, function=None, state=None)]
    )
    call = cast("Any", None)
    assert list(exceptions.locals_at(call, 0x1C0, 1 << 16)) == [(0x1C0, protector - 0x1C0)]
    words.clear()
    assert list(exceptions.locals_at(call, 0x1C0, 1 << 16)) == [(0x1C0, rbp - 0x1C0)]
