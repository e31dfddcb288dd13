"""The machine that an initialiser finds: an ordinary one, on which the answers of the system are these.

=============================  ===========================================================================
environment variables          ``HOME`` and ``PATH`` are set, and what the code itself sets; no others, but
                               whether those are that a login sets is not known
files                          none, but in the folders that every system has anything may be
libraries                      ``dlopen`` finds none but those of every process, of which nothing is known;
                               ``dlsym`` finds what has a double; ``dladdr`` does not know an address
processors                     some, x86-64 without optional features, pages of 4 KiB
devices                        no CUDA device, nor any other accelerator
system                         Linux; ``isatty`` is false; the time zone is UTC, the locale that of C
=============================  ===========================================================================

What differs from one machine or run to the next has no answer here: the value of a variable, the working directory, how
many processors there are, the time, identifiers of processes and users, random numbers, the name of the machine. An
initialiser that ends the process after it has asked for any of this may not do so elsewhere.
"""

from __future__ import annotations

from typing import Final

from abiscan.regex import regex

VARIABLES: Final = {
    b"HOME": b"/root",
    b"PATH": b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
LOGIN_VARIABLES: Final = frozenset(
    b"_ DISPLAY EDITOR HOSTNAME LANG LANGUAGE LC_ALL LC_CTYPE LD_LIBRARY_PATH LOGNAME MAIL OLDPWD PWD PYTHONPATH SHELL"
    b" SHLVL TERM TMP TMPDIR TZ USER".split()
)
"""Variables that are set on some machines and not on others."""

_FOLDERS: Final = regex(
    rb"/+(?:(?:bin|boot|dev|etc|home|lib|lib32|lib64|libx32|media|mnt|opt|proc|root|run|sbin|srv|sys|tmp|usr|var)(?:/.*)?)?"
    rb"|(?:\.{1,2}/+)*\.{1,2}/*"
)
_KNOWN_VARIABLES: Final = regex(
    rb"(?:.*/)?(?:ld-linux[\w-]*|lib(?:c|m|dl|rt|pthread|util|resolv|stdc\+\+|gcc_s|gomp|z|torch\w*|c10\w*|shm|python3[\w.]*))\.so[.\d]*"
)

# Functions whose results depend on the machine. The doubles of all others, except torch's and Python's, do what the
# real ones do on any machine.
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


def may_exist(path: bytes) -> bool:
    """Whether there may be a file at ``path`` on some machine: it is, or is in, a folder that every system has."""
    return _FOLDERS.fullmatch(path) is not None


def may_be_loaded(library: bytes) -> bool:
    """Whether ``dlopen`` may find a library: it is one that a process with torch has, or a file that may exist."""
    return _KNOWN_VARIABLES.fullmatch(library) is not None or (b"/" in library and may_exist(library))


def asks_machine(function: str) -> bool:
    """Whether the answers of an imported function are those of a machine."""
    return _ASKS.match(function) is not None


def is_as_in_torch(function: str) -> bool:
    """Whether the double of an imported function, if it is one of torch or Python, does what the function does."""
    return _TORCH.match(function) is None or _FAITHFUL.match(function) is not None
