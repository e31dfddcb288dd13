"""The modules of the standard library, and the names that they lost, by the versions of Python that have them."""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterable
from typing import Final

from abiscan.python.language.scan import FROM, SPACE
from abiscan.python.package.model import Answer
from abiscan.regex import regex

_WORD: Final = regex(rb"\w+")

# Modules of every supported version are in neither table.
FIRST: Final = {
    "graphlib": (3, 9), "zoneinfo": (3, 9), "tomllib": (3, 11), "annotationlib": (3, 14), "compression": (3, 14),
    "_tokenize": (3, 11), "_typing": (3, 11), "_pydatetime": (3, 12), "_pylong": (3, 12), "_sha2": (3, 12),
    "_android_support": (3, 13), "_colorize": (3, 13), "_interpchannels": (3, 13), "_interpqueues": (3, 13),
    "_interpreters": (3, 13), "_ios_support": (3, 13), "_opcode_metadata": (3, 13), "_pyrepl": (3, 13),
    "_suggestions": (3, 13), "_sysconfig": (3, 13), "_wmi": (3, 13), "_apple_support": (3, 14),
    "_ast_unparse": (3, 14), "_hmac": (3, 14), "_py_warnings": (3, 14), "_remote_debugging": (3, 14),
    "_types": (3, 14), "_zstd": (3, 14),
}  # fmt: skip
REMOVED: Final = {
    "formatter": (3, 10), "parser": (3, 10), "symbol": (3, 10), "binhex": (3, 11), "asynchat": (3, 12),
    "asyncore": (3, 12), "distutils": (3, 12), "imp": (3, 12), "smtpd": (3, 12), "aifc": (3, 13), "audioop": (3, 13),
    "cgi": (3, 13), "cgitb": (3, 13), "chunk": (3, 13), "crypt": (3, 13), "imghdr": (3, 13), "lib2to3": (3, 13),
    "mailcap": (3, 13), "msilib": (3, 13), "nis": (3, 13), "nntplib": (3, 13), "ossaudiodev": (3, 13),
    "pipes": (3, 13), "sndhdr": (3, 13), "spwd": (3, 13), "sunau": (3, 13), "telnetlib": (3, 13), "uu": (3, 13),
    "xdrlib": (3, 13), "_bootsubprocess": (3, 12), "_sha256": (3, 12), "_sha512": (3, 12), "_crypt": (3, 13),
    "_msi": (3, 13), "_compression": (3, 14),
}  # fmt: skip
_COLLECTIONS: Final = (
    "AsyncGenerator AsyncIterable AsyncIterator Awaitable ByteString Callable Collection Container Coroutine Generator "
    "Hashable ItemsView Iterable Iterator KeysView Mapping MappingView MutableMapping MutableSequence MutableSet "
    "Reversible Sequence Set Sized ValuesView"
)
_REMOVED_NAMES: Final = {
    (3, 8): {"platform": "dist linux_distribution popen", "tarfile": "filemode", "time": "clock"},
    (3, 9): {
        "base64": "decodestring encodestring", "fractions": "gcd", "plistlib": "readPlist writePlist",
        "sys": "getcheckinterval setcheckinterval",
    },
    (3, 10): {"collections": _COLLECTIONS},
    (3, 11): {
        "asyncio": "coroutine", "binascii": "a2b_hqx b2a_hqx rlecode_hqx rledecode_hqx",
        "gettext": "ldgettext ldngettext lgettext lngettext", "inspect": "ArgSpec formatargspec getargspec",
    },
    (3, 12): {
        "configparser": "SafeConfigParser", "importlib": "find_loader", "importlib.abc": "Finder",
        "importlib.util": "module_for_loader set_loader set_package", "locale": "format",
        "pkgutil": "ImpImporter ImpLoader", "ssl": "RAND_pseudo_bytes match_hostname wrap_socket",
    },
    (3, 13): {
        "configparser": "LegacyInterpolation", "locale": "resetlocale", "re": "TEMPLATE template",
        "typing": "io re", "unittest": "findTestCases makeSuite",
    },
}  # fmt: skip
REMOVED_NAMES: Final = {
    f"{module}.{name}": version
    for version, modules in _REMOVED_NAMES.items()
    for module, names in modules.items()
    for name in names.split()
}
"""The names that modules of every supported version no longer have from a version on, of those that were documented."""
_LOSING: Final = sorted({name.rpartition(".")[0] for name in REMOVED_NAMES}, reverse=True)
_MODULES: Final = "|".join(map(re.escape, _LOSING))
"""Longer names first: of ``importlib.abc.Finder``, ``importlib`` would match and have an attribute ``abc``."""
_NAMES: Final = "|".join(sorted({name.rpartition(".")[2] for name in REMOVED_NAMES}))


def _modules_by_name() -> dict[str, list[str]]:
    """Return the modules that had each of these names."""
    modules: dict[str, list[str]] = {}
    for full in REMOVED_NAMES:
        module, _, name = full.rpartition(".")
        modules.setdefault(name, []).append(module)
    return modules


def _any_of(words: Iterable[str]) -> str:
    return "|".join(sorted(set(words)))


def _by_first_letters(names: list[str]) -> str:
    """Return what matches some names. At most places, the first letter already tells that it is none of them."""
    groups = itertools.groupby(sorted(names), key=lambda name: name[0])
    return "|".join(f"{letter}(?:{'|'.join(name[1:] for name in group)})" for letter, group in groups)


_LINE: Final = rb"[^\n\\]{0,200}(?:\\\r?\n[^\n\\]{0,200})*"
"""A part of a line, and of those that backslashes continue it in."""
_MENTIONED: Final = regex(rb"(?<![\w.])(?:" + FROM % _MODULES.encode() + rb"|(%b)\.(\w+))" % _MODULES.encode())
"""What seems to use a name of such a module."""
_BEFORE: Final = r"[\s\\]+(?:[\w.][\w. ]*,[\s\\]*)*"
"""What may stand before one of several modules that an import names."""
_TAKEN_MODULE: Final = tuple(
    regex(rf"{word}{_BEFORE}(?:{'|'.join(REMOVED)})\b".encode()) for word in ("import", "from")
)
"""The same anywhere in a line: what begins with a text is looked for in a small part of the time."""
_LOST_MODULE: Final = regex(rf"(?m)^[ \t]*(?:import|from){_BEFORE}(?:{'|'.join(REMOVED)})\b".encode())
_FROM_MODULE: Final = regex(rb"from%b(%b)%bimport\b" % (SPACE, _MODULES.encode(), SPACE))
"""It begins with a text, which is ten times as fast to look for as what \\b begins."""
_LOST_IMPORTS: Final = {
    module.encode(): regex(
        rb"from%(space)b%(module)b%(space)bimport\b%(line)b(?:\([^)]{0,4000}?)?\b(?:%(names)b)\b"
        % {b"space": SPACE, b"module": re.escape(module).encode(), b"line": _LINE, b"names": names.encode()}
    )
    for module in _LOSING
    for names in ["|".join(name.rpartition(".")[2] for name in REMOVED_NAMES if name.rpartition(".")[0] == module)]
}
"""The imports of such names, by module: to compile one for all of them takes as long as to look through 100 sources."""
_LOST_ATTRIBUTE: Final = regex(rf"\.({_by_first_letters(_NAMES.split('|'))})\b".encode())
_OWNERS: Final = {
    name.encode(): tuple(
        regex(form % _any_of(module.partition(".")[0] for module in modules).encode())
        for form in (rb"import%b\b(?:%%b)\b" % _LINE, rb"from\s+(?=[\w.]+\.%b\s)(?:%%b)\b" % name.encode())
    )
    for name, modules in _modules_by_name().items()
}
"""The imports of modules that had such a name: without ``locale``, ``.format`` is that of a text."""
_TAKEN_FROM: Final = {
    name.encode(): regex(
        rb"\b(?:%(owners)b)\s*\.%(name)b\b|import%(line)b\b(?:%(owners)b)[\s\\]+as\b"
        % {b"owners": owners.encode(), b"name": name.encode(), b"line": _LINE}
    )
    for name, modules in _modules_by_name().items()
    for owners in [_any_of(module.rpartition(".")[2] for module in modules)]
}
"""How such a name is taken of its module, unless that goes by another name."""


def lost_names(source: bytes) -> frozenset[str]:
    """Return the names in a source that modules of the standard library no longer have in some versions."""
    if not may_name_lost(source):
        return frozenset()
    names = {
        f"{(match[1] or match[3]).decode()}.{name.decode()}"
        for match in _MENTIONED.finditer(source)
        for name in _WORD.findall(match[2] or match[4])
    }
    return frozenset(names & REMOVED_NAMES.keys())


def may_import_lost(source: bytes) -> bool:
    """Whether a source seems to import a module that the standard library no longer has in some versions."""
    return any(form.search(source) for form in _TAKEN_MODULE) and _LOST_MODULE.search(source) is not None


def may_name_lost(source: bytes) -> bool:
    """Whether a source seems to use a name that a module of the standard library no longer has in some versions."""
    names = set(_LOST_ATTRIBUTE.findall(source))
    is_owned = any(
        any(form.search(source) for form in _OWNERS[name]) and _TAKEN_FROM[name].search(source) for name in names
    )
    return is_owned or any(_LOST_IMPORTS[module].search(source) for module in set(_FROM_MODULE.findall(source)))


def has_module(module: str, python: tuple[int, int] | Answer) -> bool | None:
    """Whether a version of Python brings a top-level module; None if only some versions do, and it is not known.

    Sources: ``sys.stdlib_module_names`` of Python 3.10 to 3.14, and "Removed" in "What's New in Python 3.X".
    """
    if not is_of_some(module):
        return module in sys.stdlib_module_names or module == "__main__"  # what runs, whatever that is
    if isinstance(python, Answer):
        return None
    first, removed = FIRST.get(module), REMOVED.get(module)
    return (first is None or python >= first) and (removed is None or python < removed)


def is_of_some(module: str) -> bool:
    """Whether only some versions of Python bring a module."""
    return module in FIRST or module in REMOVED
