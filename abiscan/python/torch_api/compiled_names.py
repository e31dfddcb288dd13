"""The names that compiled code gives to what it makes for Python, and that the texts in its library do not tell."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from typing import Final

from abiscan.regex import regex

COMPUTED: Final = regex(r"\w*(Tensor|Storage)(Base)?|u?int\d|bits\d\w*|q?u?int\dx\d")
"""The names that compiled code puts together, or that are too short to be a text: of types of tensors and elements."""

DTYPES_SINCE: Final = {
    "quint4x2": "1.8.0",
    "quint2x4": "1.11.0",
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), "2.1.0"),
    **dict.fromkeys(("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16"), "2.1.0"),
    **dict.fromkeys(("float8_e4m3fnuz", "float8_e5m2fnuz"), "2.2.0"),
    **dict.fromkeys(("uint16", "uint32", "uint64"), "2.3.0"),
    **dict.fromkeys((f"uint{bits}" for bits in range(1, 8)), "2.3.0"),
    **dict.fromkeys((f"int{bits}" for bits in range(1, 8)), "2.6.0"),
    "float8_e8m0fnu": "2.7.0",
    "float4_e2m1fn_x2": "2.8.0",
}
"""The element types that came with a later release, which makes them attributes of ``torch``, by the list in
``c10/core/ScalarType.h``: every wheel has it."""

ADDED_SINCE: Final = {**DTYPES_SINCE, "OutOfMemoryError": "2.4.0", "AcceleratorError": "2.8.0"}
"""What compiled code makes attributes of ``torch``, each with its first release: element types and exceptions.

Before, an exception may be a text in the library as the end of another name: of ``_OutOfMemoryError``. The stub of
``torch._C`` in the wheels tells which it is.
"""

WRITTEN: Final = frozenset(
    {"compile", "cond", "e", "from_dlpack", "get_default_device", "inf", "nan", "pi", "to_dlpack", "vmap"}
)
"""The names that ``torch/__init__.py`` binds since some release, and that no compiled code of an earlier one gives to
``torch``, although its library has them as texts: those of no function in ``torch._C._VariableFunctions``."""


_TABLE: Final = regex(rb"\x78[\x01\x5e\x9c\xda]")
_LONGEST_TABLE: Final = 4_000_000
_MOST_TABLES: Final = 2000
_NAMES_ELSEWHERE: Final = (b"__getattr__", b"from-import-*", b"__mypyc")
"""What is in an extension module that may have names of others: it computes them, imports all that another has, or is
a part of what mypyc puts into one library."""


_LIBRARIES: Final = regex(rb"\0lib([\w+.-]+?)\.so[\d.]*(?=\0)")
_WITHOUT_NAMES: Final = regex(
    rb"(?:c|m|dl|rt|pthread|util|stdc\+\+|gcc_s|gomp|gfortran|quadmath|z|python[\d.]+|\w*blas\w*|\w*lapack\w*)(?:-[\w.-]+)?"
)
"""Libraries that give Python no names: those of the system, and those that compute."""


def may_name(library: bytes, name: bytes) -> bool:
    """Whether an extension module may have a name: it has that as a text, or texts that are not found out."""
    if name in library or any(sign in library for sign in _NAMES_ELSEWHERE):
        return True
    others = (found[1] for found in _LIBRARIES.finditer(library))
    if any(_WITHOUT_NAMES.fullmatch(other) is None for other in others):  # all that it does may be done there
        return True
    # Cython compresses the texts of a module since 3.2, and unpacks them with Python's own module.
    if b"decompress" not in library:
        return False
    tables = list(_tables_in(memoryview(library)))
    return not tables or any(sign in table for table in tables for sign in (name, *_NAMES_ELSEWHERE))


def may_add(library: bytes, module: str, name: str) -> bool:
    """Whether an extension module may add a name to a module that is written in Python: it has both as texts, the name
    alone or at the end of a dotted one. numpy's C code adds ``numpy.dtypes.Float64DType``, that of pandas a capsule.
    """
    word = name.encode()
    if word not in library:  # that takes a small part of the time of a search for what begins with a zero
        return False
    return names_module(library, module) and any(b"%b%b\0" % (before, word) in library for before in (b"\0", b"."))


def names_module(library: bytes, module: str) -> bool:
    """Whether an extension module has the name of a module as a text."""
    word = module.encode()
    return word in library and b"\0%b\0" % word in library


def _tables_in(library: memoryview) -> Iterator[bytes]:
    for match in itertools.islice(_TABLE.finditer(library), _MOST_TABLES):
        stream = zlib.decompressobj()
        try:
            table = stream.decompress(library[match.start() : match.start() + _LONGEST_TABLE], _LONGEST_TABLE)
        except zlib.error:
            continue
        if stream.eof:
            yield table
