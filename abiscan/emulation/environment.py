"""The machine that an initialiser finds: an ordinary one, on which the answers of the system are these.

=============================  ===========================================================================
environment variables          ``HOME=/root``, ``PATH``, ``LANG=C.UTF-8``, ``USER=root``, ``PWD=/``, and what
                               the code itself sets; no others
files                          none can be opened, found or listed; the working directory is ``/``
libraries                      ``dlopen`` finds none, ``dlsym`` nothing, ``dladdr`` does not know an address
processors                     four, x86-64 without optional features, pages of 4 KiB
devices                        no CUDA device, nor any other accelerator
system                         Linux; ``isatty`` is false; the time zone is UTC, the locale that of C
=============================  ===========================================================================

What differs from one run to the next has no answer here: the time, identifiers of processes and users, random numbers,
the name of the machine. An initialiser that ends the process after it has asked for any of this may not do so
elsewhere.
"""

from __future__ import annotations

from typing import Final

from abiscan.regex import regex

VARIABLES: Final = {
    b"HOME": b"/root",
    b"PATH": b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    b"LANG": b"C.UTF-8",
    b"USER": b"root",
    b"PWD": b"/",
}

# Functions whose answers are those of a machine, and none of the language: the doubles of all others, but for torch's
# and Python's, do what the real ones do anywhere.
_ASKS: Final = regex(
    r"(?:secure_)?getenv$|f?open(?:at|dir)?(?:64)?$|dl(?:open|sym|addr|info)|f?access(?:at)?$|(?:__[fl]?x)?[fl]?stat"
    r"|sysconf$|get_nprocs|getauxval|uname$|isatty$|readlink|realpath|getcwd$|omp_|sched_|setlocale$|mmap"
    r"|localtime|mktime$|timelocal$|ctime(?:_r)?$|_ZNSt10filesystem|_ZNSt1[34]basic_[io]?f(?:stream|ilebuf)|_ZNSt6thread20hardware"
)
# Of torch's functions, those whose doubles do what torch does.
_TORCH: Final = regex(r"_ZN[KR]*(?:5torch|3c10|2at)|aoti_|torch_|_?Py|__(?:cuda|hip)")
_FAITHFUL: Final = regex(
    r"_ZNR?5torch7Library|_ZN5torch3jit(?:11parseSchema|17parseSchemaOrName)E|_ZN5torch11CppFunction"
    r"|_ZN3c106detail(?:\d+torch(?:CheckFail|InternalAssertFail)|12infer_schema)|_ZNK?3c10\d+\w*Error"
    r"|_ZN3c10\d+\w+Type(?:3get|\d+of)|aoti_torch_library_|torch_library_"
)


def asks_machine(function: str) -> bool:
    """Whether the answers of an imported function are those of a machine."""
    return _ASKS.match(function) is not None


def is_as_in_torch(function: str) -> bool:
    """Whether the double of an imported function, if it is one of torch or Python, does what the function does."""
    return _TORCH.match(function) is None or _FAITHFUL.match(function) is not None
