"""What a C++ library that is linked into an object shares with the one that torch has brought into the process.

``ld.so`` binds a symbol of the kind ``STB_GNU_UNIQUE`` to the first definition in the process. In libstdc++, these are
the static members of templates, among them the numbers of most facets of locales (``std::num_put<char>::id``); those of
``std::ctype`` and ``std::codecvt`` are not, since they are specialisations. So in an object with ``-static-libstdc++``
the shared ones have their number already when its own locale is made, and the others are counted anew. Two facets then
get the same place, and what prints or reads numbers fails: ``std::ostream`` sets ``badbit`` and prints nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from abiscan.emulation.loader import Image

_FIRST: Final = "_ZNSt7num_putIcSt19ostreambuf_iteratorIcSt11char_traitsIcEEE2idE"
# As a process with libstdc++ 12 has them, from 1 on, with ``c`` for ``char`` and ``w`` for ``wchar_t``; ``None`` is one
# that is not shared. (``locale::_Impl::_Impl(size_t)`` of src/c++98/locale_init.cc makes the facets in this order.)
_NEW: Final = ("numpunct", "num_get", "num_put", "collate", "moneypunct0", "moneypunct1", "money_get", "money_put")
_NEW_TIME: Final = ("__timepunct", "time_get", "time_put", "messages")
_OLD: Final = ("numpunct", "collate", "moneypunct0", "moneypunct1", "money_get", "money_put", "time_get", "messages")
_PLAIN: Final = ("num_get", "num_put", "__timepunct", "time_put")  # the same for both kinds of strings
_NOT_SHARED, _CODECVTS = (None, None), (None,) * 4
_ITERATOR: Final = {"get": "istreambuf_iterator", "put": "ostreambuf_iterator"}


def _symbol(facet: str, character: str, *, cxx11: bool) -> str:
    name = facet.rstrip("01")
    parameters = character
    if name[-4:] in ("_get", "_put"):
        iterator = _ITERATOR[name[-3:]]
        parameters += f"St{len(iterator)}{iterator}I{character}St11char_traitsI{character}EE"
    elif name != facet:
        parameters += f"Lb{facet[-1]}E"
    scope = "St7__cxx11" if cxx11 and name not in _PLAIN else "St"
    return f"_ZN{scope}{len(name)}{name}I{parameters}E2idE"


def _in_order() -> Iterator[str | None]:
    for character in "cw":
        yield from _NOT_SHARED
        yield from (_symbol(facet, character, cxx11=True) for facet in (*_NEW, *_NEW_TIME))
    yield from _CODECVTS
    for character in "cw":
        yield from (_symbol(facet, character, cxx11=False) for facet in _OLD)


NUMBERS: Final = {symbol: number for number, symbol in enumerate(_in_order(), 1) if symbol is not None}


def shared_ids(image: Image) -> Iterator[tuple[int, int]]:
    """Yield the data of an object that are set before it is initialised: address and value."""
    first = image.find(_FIRST)
    if first is None or not first.unique:
        return
    pattern = re.compile(b"|".join(re.escape(name.encode()) for name in NUMBERS))
    for symbol in image.definitions(pattern):
        if symbol.unique:
            yield image.base + symbol.value, NUMBERS[symbol.name]
