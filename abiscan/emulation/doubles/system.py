"""Doubles of what asks the machine: the environment, files, threads; ``emulation.environment`` has the answers."""

from __future__ import annotations

import struct
from typing import Final

from abiscan.binary.mangling import demangle_fully
from abiscan.emulation.doubles import Doubles
from abiscan.emulation.doubles.error_codes import set_error
from abiscan.emulation.emulator import Stop
from abiscan.emulation.environment import LOGIN_VARIABLES, may_be_loaded, may_exist
from abiscan.emulation.process import Call
from abiscan.emulation.strings import CXX11

SYSTEM: Final = Doubles()

_ALL_ONES: Final = 0xFFFF_FFFF_FFFF_FFFF
_NO_FILE: Final = 2  # ENOENT
_UNAME_FIELD: Final = 65  # glibc, bits/utsname.h
_UNAME: Final = {0: b"Linux"}
_UNAME_FIELDS: Final = 6
_RUN: Final = 16  # in the virtual table of std::thread::_State, behind two destructors
_CHILD: Final = 1000  # a process
_KINDS, _MUTEX_SIZE = 3, 40  # bits; bytes: nptl/bits/thread-shared-types.h
_KIND, _RECURSIVE, _BUSY = 16, 1, 16  # PTHREAD_MUTEX_RECURSIVE_NP, EBUSY
_TEXT: Final = ("utf-8", "backslashreplace")
_LC_CTYPE, _LC_ALL = 0, 6  # glibc, bits/locale.h
_STATE_OF_NO_FILE: Final = 0xFF | 0xFFFF << 32  # file_status: file_type::not_found, perms::unknown


def _fail_without_file(call: Call) -> int:
    """Return -1, as no file is there."""
    call.machine.write(call.process.bind("datum errno"), _NO_FILE.to_bytes(4, "little"))
    return _ALL_ONES


# <dlfcn.h>


@SYSTEM.named("dlopen", "dlmopen")
def _double_dlopen(call: Call) -> int:
    """Emulate ``dlopen`` and ``dlmopen``. Takes (name, ...), or (namespace, name, ...)."""
    name = call.argument(int(call.name == "dlmopen"))
    if not name:
        return call.process.bind("handle of the program")
    if may_be_loaded(call.machine.text(name)):
        call.answer_is_unknown()
    return 0


@SYSTEM.named("dlsym", "dlvsym")
def _double_dlsym(call: Call) -> int:
    """Emulate ``dlsym``. Takes (handle, name); what is modelled of the libraries that every process has is there; of
    others nobody knows.
    """
    name = call.machine.text(call.argument(1)).decode(*_TEXT)
    if call.process.has_double(name):
        return call.process.bind(name)
    call.answer_is_unknown()
    return 0


@SYSTEM.named("dlclose")
def _double_dlclose(_: Call) -> int:
    """Do nothing: libraries stay."""
    return 0


@SYSTEM.named("dlerror")
def _double_dlerror(call: Call) -> int:
    call.answer_is_unknown()
    return call.process.store(b"cannot open shared object file: No such file or directory\0")


@SYSTEM.named("dladdr")
def _double_dladdr(call: Call) -> int:
    """Emulate ``dladdr``. Takes (address, Dl_info); every function is in some file, at some address, which nobody
    knows before.
    """
    call.answer_is_unknown()
    name = call.process.store(b"/library.so\0")
    call.machine.write(call.argument(1), struct.pack("<4Q", name, call.process.image.base, 0, 0))
    call.machine.taint.read = 0  # that it was found is certain
    return 1


# <fcntl.h>, <stdio.h>. There are no files: only in the folders of the system anything may be


@SYSTEM.named(
    *("open", "open64", "access", "euidaccess", "readlink", "chdir", "mkdir", "rmdir", "unlink", "remove", "rename"),
    *("stat", "stat64", "lstat", "lstat64", "truncate"),
)
def _double_open(call: Call) -> int:
    """Fail as for a file that does not exist. Takes (path, ...)."""
    return _find_unknown(call, 0)


@SYSTEM.named(
    *("openat", "openat64", "faccessat", "fstatat", "fstatat64", "newfstatat", "statx", "unlinkat", "mkdirat"),
    *("__xstat", "__xstat64", "__lxstat", "__lxstat64", "readlinkat"),
)
def _double_openat(call: Call) -> int:
    """Fail as for a file that does not exist. Takes (folder or version, path, ...)."""
    return _find_unknown(call, 1)


def _find_unknown(call: Call, index: int) -> int:
    result = _fail_without_file(call)
    if may_exist(call.machine.text(call.argument(index))):
        call.answer_is_unknown()
    return result


@SYSTEM.named("fopen", "fopen64", "opendir", "realpath", "canonicalize_file_name", "popen", "freopen", "freopen64")
def _double_fopen(call: Call) -> int:
    path = call.argument(0)
    _fail_without_file(call)
    if call.name == "popen" or (path and may_exist(call.machine.text(path))):
        call.answer_is_unknown()
    return 0


@SYSTEM.matching(r"_ZNSt10filesystem6statusERKNS_7__cxx114pathE", r"_ZNSt10filesystem14symlink_statusERKNS_7__cxx114")
def _filesystem_status(call: Call) -> int:
    """Fail as ``std::filesystem::status`` of a file that does not exist. Takes (path[, error code])."""
    if call.name.endswith("RSt10error_code"):
        set_error(call, call.argument(1))
    if may_exist(CXX11.read(call.process, call.argument(0))):
        call.answer_is_unknown()
    return _STATE_OF_NO_FILE


# <locale.h>


@SYSTEM.named("setlocale")
def _double_setlocale(call: Call) -> int:
    """Emulate ``setlocale``. Takes (category, name); Python has set the one of characters to that of the environment,
    and none else.
    """
    category, name = call.argument(0) & 0xFFFF_FFFF, call.argument(1)
    requested = call.machine.text(name) if name else None
    if requested in (b"C", b"POSIX") or (requested is None and category not in (_LC_CTYPE, _LC_ALL)):
        return call.process.store(b"C\0")
    if requested:
        call.answer_is_unknown()
        return 0
    return call.store_unknown(b"C.UTF-8\0")


# <pthread.h>. A thread runs to its end when it is started


@SYSTEM.named("pthread_create")
def _double_pthread_create(call: Call) -> int:
    """Emulate ``pthread_create``. Takes (thread, attributes, function, argument)."""
    number = call.process.new_thread()
    call.machine.set_word(call.argument(0), number)
    call.process.run_thread(number, call.argument(2), call.argument(3))
    return 0


@SYSTEM.named("pthread_join")
def _double_pthread_join(call: Call) -> int:
    """Emulate ``pthread_join``. Takes (thread, where its result goes)."""
    if call.argument(1):
        call.machine.set_word(call.argument(1), call.process.thread_results.get(call.argument(0), 0))
    return 0


@SYSTEM.named("pthread_self")
def _double_pthread_self(call: Call) -> int:
    return call.process.thread


@SYSTEM.named("pthread_detach", "sched_yield", "usleep", "sleep", "nanosleep", "clock_nanosleep")
def _double_pthread_detach(_: Call) -> int:
    return 0


# A mutex (bits/struct_mutex.h): how often it is locked, then who has it, and of what kind it is


@SYSTEM.named("pthread_mutexattr_init")
def _double_pthread_mutexattr_init(call: Call) -> int:
    """Initialise the attributes of a mutex. Takes (attributes)."""
    call.machine.write(call.argument(0), bytes(4))
    return 0


@SYSTEM.named("pthread_mutexattr_settype")
def _double_pthread_mutexattr_settype(call: Call) -> int:
    """Set the kind of a mutex in its attributes. Takes (attributes, kind); the kind is in their lowest bits
    (nptl/pthread_mutexattr_settype.c).
    """
    call.machine.write(call.argument(0), struct.pack("<I", call.argument(1) & _KINDS))
    return 0


@SYSTEM.named("pthread_mutex_init")
def _double_pthread_mutex_init(call: Call) -> int:
    """Initialise a mutex. Takes (mutex, attributes); all zero but for the kind (nptl/pthread_mutex_init.c)."""
    mutex, attributes = call.argument(0), call.argument(1)
    call.machine.write(mutex, bytes(_MUTEX_SIZE))
    if attributes:
        call.machine.write(mutex + _KIND, call.machine.read(attributes, 1))
    return 0


@SYSTEM.named("pthread_mutex_lock", "pthread_mutex_trylock")
def _double_pthread_mutex_lock(call: Call) -> int:
    mutex, thread = call.argument(0), call.process.thread
    count, owner = struct.unpack("<I4xI", call.machine.read(mutex, 12))
    is_recursive = call.machine.byte(mutex + _KIND) & _KINDS == _RECURSIVE
    if count and not (is_recursive and owner == thread):
        if call.name == "pthread_mutex_trylock":
            return _BUSY
        raise Stop("the code waits for another thread", call.return_address)
    call.machine.write(mutex, struct.pack("<I", count + 1))
    call.machine.write(mutex + 8, struct.pack("<I", thread))
    return 0


@SYSTEM.named("pthread_mutex_unlock")
def _double_pthread_mutex_unlock(call: Call) -> int:
    mutex = call.argument(0)
    count = int.from_bytes(call.machine.read(mutex, 4), "little")
    call.machine.write(mutex, struct.pack("<I", max(count - 1, 0)))
    return 0


@SYSTEM.named("pthread_rwlock_tryrdlock", "pthread_rwlock_trywrlock")
def _double_pthread_rwlock_tryrdlock(call: Call) -> int:
    call.answer_is_unknown()
    return 0


# <stdlib.h>: the environment


@SYSTEM.named("getenv", "secure_getenv")
def _double_getenv(call: Call) -> int:
    """Return a variable of the machine: that it is set may be known; its value is not."""
    name = call.machine.text(call.argument(0))
    value = call.process.environment.get(name)
    if value is None:
        if name in LOGIN_VARIABLES and name not in call.process.own_variables:
            call.answer_is_unknown()
        return 0
    if name in call.process.own_variables:
        return call.process.store(value + b"\0")
    return call.store_unknown(value + b"\0")


@SYSTEM.named("setenv")
def _double_setenv(call: Call) -> int:
    name, value = call.machine.text(call.argument(0)), call.machine.text(call.argument(1))
    if call.argument(2) & 0xFFFF_FFFF or name not in call.process.environment:
        call.process.environment[name] = value
        call.process.own_variables.add(name)
    return 0


@SYSTEM.named("putenv")
def _double_putenv(call: Call) -> int:
    name, separator, value = call.machine.text(call.argument(0)).partition(b"=")
    call.process.own_variables.add(name)
    if separator:
        call.process.environment[name] = value
    else:
        call.process.environment.pop(name, None)
    return 0


@SYSTEM.named("unsetenv")
def _double_unsetenv(call: Call) -> int:
    name = call.machine.text(call.argument(0))
    call.process.own_variables.add(name)
    call.process.environment.pop(name, None)
    return 0


@SYSTEM.named("clearenv")
def _double_clearenv(call: Call) -> int:
    call.process.own_variables |= LOGIN_VARIABLES | call.process.environment.keys()
    call.process.environment.clear()
    return 0


# <sys/utsname.h>, <unistd.h>


@SYSTEM.named("uname")
def _double_uname(call: Call) -> int:
    """Fill in ``struct utsname``: names of 65 bytes each; system and machine are known, the rest is not."""
    at = call.argument(0)
    machine = call.process.arch.name.encode()
    for number in range(_UNAME_FIELDS):
        text = machine if number == 4 else _UNAME.get(number, b"")
        call.machine.write(at + number * _UNAME_FIELD, text.ljust(_UNAME_FIELD, b"\0"))
    label = call.machine.taint.answer(call.name, call.return_address)
    for number in (1, 2, 3, 5):
        call.machine.taint.mark(at + number * _UNAME_FIELD, _UNAME_FIELD, label)
    return 0


@SYSTEM.named("fork", "vfork")
def _double_fork(call: Call) -> int:
    """Go on in the parent."""
    call.answer_is_unknown()
    return _CHILD


@SYSTEM.named("isatty")
def _double_isatty(_: Call) -> int:
    return 0


# <condition_variable>, <thread>


@SYSTEM.matching(
    r"_ZNSt18condition_variable(C[12]Ev|D[12]Ev|10notify_allEv|10notify_oneEv)$",
    r"pthread_cond_(signal|broadcast)$",
    r"_ZNSt11this_thread11__sleep_for",
    r"_ZNSt28__atomic_futex_unsigned_base19_M_futex_notify_all",
    r"_ZNSt13__future_base12_Result_baseC[12]Ev",
    r"_ZNSt13__future_base12_Result_baseD[012]Ev",
    r"_ZNSt13__future_base13_State_baseV2D[012]Ev",
    r"_ZNSt6thread6_StateD[012]Ev",
    r"_ZNSt8ios_baseC[12]Ev",
    r"_ZNSt8ios_baseD[012]Ev",
    r"pthread_(mutex_timed|rwlock_(timed)?)(lock|rdlock|wrlock|unlock)$",
)
def _condition_variable_notify(_: Call) -> int:
    """Do nothing: nothing else runs at the same time that could wait, or be waited for."""
    return 0


@SYSTEM.matching(
    r"_ZNSt18condition_variable4waitE",
    r"pthread_cond_(timed|clock)?wait",
    r"_ZNSt28__atomic_futex_unsigned_base19_M_futex_wait",
)
def _condition_variable_wait(call: Call) -> None:
    raise Stop("the code waits for another thread", call.return_address)


@SYSTEM.matching(r"_ZNSt6thread15_M_start_threadE")
def _thread_start(call: Call) -> None:
    """Start a ``std::thread``. Takes (this, a ``unique_ptr<_State>`` by its address, …)."""
    this_address, holder = call.argument(0), call.argument(1)
    state = call.machine.word(holder)
    call.machine.set_word(holder, 0)
    number = call.process.new_thread()
    call.machine.set_word(this_address, number)
    call.process.run_thread(number, call.machine.word(call.machine.word(state) + _RUN), state)


@SYSTEM.matching(r"_ZNSt6thread(4joinEv|6detachEv)$")
def _thread_join(call: Call) -> None:
    call.machine.set_word(call.argument(0), 0)


# <cxxabi.h>


@SYSTEM.named("__cxa_demangle")
def _double_cxa_demangle(call: Call) -> int:
    """Emulate ``__cxa_demangle``. Takes (mangled, buffer, length, status); status -2 for a name that is none."""
    name = call.machine.text(call.argument(0)).decode("utf-8", "backslashreplace")
    text = demangle_fully(name)
    if call.argument(3):
        call.machine.write(call.argument(3), (-2 if text is None else 0).to_bytes(4, "little", signed=True))
    return 0 if text is None else call.process.store(text.encode() + b"\0")
