"""Every call that leaves the emulated code is one of three kinds; this is the table.

*Modelled*: its double does to the process what the function does, by the source that ``SOURCES`` names for each
library of doubles. *Harmless*: what it does or returns can decide nothing here; ``HARMLESS`` has the double, and why.
*Unknown*: any function without a double, and what a double of ``PARTLY_UNKNOWN`` cannot know. It returns zero, and
``taint`` follows what becomes of that.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Final


class CallKind(enum.Enum):
    """What is known of a function that is called."""

    MODELLED = "modelled"
    HARMLESS = "harmless"
    UNKNOWN = "unknown"


SOURCES: Final[Mapping[str, str]] = {
    "calendar": "C11, 7.27; glibc's `struct tm`",
    "cpython": "the C API of CPython, as pybind11 and generated modules use it",
    "cxx_strings": "libstdc++'s `bits/basic_string.h`, `cow_string.h`",
    "error_codes": "libstdc++'s `<system_error>`; glibc's texts of errors",
    "exceptions": "Itanium C++ ABI, exception handling; libstdc++'s `<stdexcept>`, `functexcept.cc`, `eh_ptr.cc`",
    "gpu_runtime": "the registration functions that nvcc and hipcc emit calls of",
    "libc": "C11; POSIX.1-2017; Itanium C++ ABI, chapter 3",
    "libstdcxx": "libstdc++'s `bits/stl_tree.h`, `hashtable_policy.h`, `<locale>`",
    "numbers": "C11, 7.3, 7.12, 7.22; glibc's `random.c`",
    "paths": "libstdc++'s `bits/fs_path.h`, `fs_path.cc`, `fs_ops.cc`",
    "streams": "libstdc++'s `<ios>`, `<streambuf>`, `<sstream>`, `<fstream>`",
    "system": "POSIX.1-2017, on the machine of `emulation/environment.py`",
    "torch_classes": "`torch/custom_class.h`, `ATen/core/class_type.h`",
    "torch_library": "`torch/library.h`",
    "torch_lookups": "`ATen/core/dispatch/Dispatcher.h`",
    "torch_operators": "`ATen/core/op_registration/op_registration.h`",
    "torch_registries": "`c10/util/Registry.h` and the functions that register backends",
    "torch_stable": "`torch/csrc/inductor/aoti_torch/c/shim.h`, `torch/csrc/stable/c/shim.h`",
    "torch_types": "`ATen/core/jit_type.h`, `infer_schema.h`",
    "torch_values": "`ATen/core/ivalue_inl.h`, `List.h`",
    "wide_characters": "C11, 7.29 and 7.30",
}
"""Whose semantics the doubles of a module have."""

_NEVER_REUSED: Final = "memory is never reused, so nothing is given back"
_ALONE: Final = "nothing else runs at the same time"
_NO_FILES: Final = "no file is open"

HARMLESS: Final[Mapping[str, str]] = {
    "cxx_strings._allocator_constructor": "an allocator has no contents",
    "cxx_strings._string_destructor": _NEVER_REUSED,
    "cxx_strings._string_reserve_nothing": "a string may keep room that it does not need",
    "error_codes._category_destructor": "categories live as long as the process",
    "exceptions._exception_ptr_reference_count": _NEVER_REUSED,
    "exceptions._torch_error_destructor": _NEVER_REUSED,
    "exceptions._double_cxa_free_exception": _NEVER_REUSED,
    "libc._double_cxa_guard_abort": "the guard of the object is as it was",
    "libc._double_pthread_atfork": _ALONE,
    "libc._double_fflush": "what is printed is lost",
    "libstdcxx._memory_resource_destructor": _NEVER_REUSED,
    "libstdcxx._locale_id": "all facets of the classic locale are in one place here",
    "libstdcxx._ctype_widen_init": "the tables of the facet are complete",
    "streams._fstream_close": _NO_FILES,
    "streams._stream_destructor": _NEVER_REUSED,
    "streams._sentry_destructor": "nothing is kept back that would have to be written",
    "streams._streambuf_sync": "a buffer of the extension's own has its text itself",
    "streams._stringbuf_sync": "a text needs no writing",
    "streams._ios_tie": "what goes to the console is lost",
    "system._double_pthread_detach": _ALONE,
    "system._condition_variable_notify": _ALONE,
    "torch_classes._class_type_add_other": "neither of the two is recorded",
    "torch_operators._register_operators_constructor": "registrations last as long as the process",
    "torch_values._intrusive_ptr_release_resources": _NEVER_REUSED,
}
"""Doubles that do nothing, by module and function, and why that cannot decide."""

_IN_SYSTEM_FOLDER: Final = "whether there is a file in a folder that every system has, such as `/proc`"

PARTLY_UNKNOWN: Final[Mapping[str, str]] = {
    "exceptions._torch_error_what": "which functions had been called, in `what()` of a `c10::Error`",
    "exceptions._double_dynamic_cast": "a `dynamic_cast` to or from a class that no file has",
    "libc._double_getauxval": "features of a processor of x86-64, and addresses",
    "libc._double_getcwd": "the working directory",
    "libc._hardware_concurrency": "how many processors there are",
    "libc._double_raise": "`kill` of another process, and after `getppid`",
    "libc._double_syscall": "`syscall`, but for those that end the process",
    "libc._double_sysconf": "`sysconf`, but for the size of a page",
    "libstdcxx._locale_constructor": "whether there is another locale than C",
    "numbers._double_sinl": "functions of `long double` on aarch64",
    "numbers._double_rand": "`rand` without `srand`: others may have asked before",
    "paths._filesystem_absolute": "the working directory",
    "paths._filesystem_temp_directory_path": "`TMPDIR`, where the code has set it",
    "paths._directory_iterator_constructor": _IN_SYSTEM_FOLDER,
    "paths._filesystem_exists": _IN_SYSTEM_FOLDER,
    "paths._filesystem_remove": _IN_SYSTEM_FOLDER,
    "paths._filesystem_current_path": "the working directory",
    "streams._fstream_constructor": _IN_SYSTEM_FOLDER,
    "streams._filebuf_open": _IN_SYSTEM_FOLDER,
    "streams._fstream_open": _IN_SYSTEM_FOLDER,
    "streams._ostream_put_long_double": "a `long double` or an address that a stream prints",
    "system._double_fork": "the number of the new process",
    "system._double_dlsym": "`dlsym` for a function without a double",
    "system._double_open": _IN_SYSTEM_FOLDER,
    "system._double_openat": _IN_SYSTEM_FOLDER,
    "system._double_fopen": _IN_SYSTEM_FOLDER,
    "system._double_dlopen": "libraries that a process with torch has, and files in folders that every system has",
    "system._double_setlocale": "the locale of characters, and whether there is another than C",
    "system._filesystem_status": _IN_SYSTEM_FOLDER,
    "system._double_uname": "all of `uname` but the system and the machine",
    "system._double_pthread_rwlock_tryrdlock": "who has a lock for readers and writers",
    "system._double_getenv": "the value of `HOME` and `PATH`, and whether variables of a login are set",
    "wide_characters._double_towlower": "of wide characters that are not ASCII",
    "wide_characters._double_iswalpha": "of wide characters that are not ASCII",
    "wide_characters._double_wctob": "of characters that are not ASCII",
    "system._double_dladdr": "the file and the address that `dladdr` finds",
    "system._double_dlerror": "the text of `dlerror`, and whether there is one",
}
"""What doubles give that nobody knows, by module and function."""


def kind_of(double: Callable[..., object] | None) -> CallKind:
    """Return the kind of a function, by its double; None stands for a function without one."""
    if double is None:
        return CallKind.UNKNOWN
    return CallKind.HARMLESS if place_of(double) in HARMLESS else CallKind.MODELLED


def place_of(double: Callable[..., object]) -> str:
    """Return a double, as the table names it."""
    return f"{double.__module__.rpartition('.')[2]}.{double.__qualname__}"
