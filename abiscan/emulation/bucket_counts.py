"""How many buckets the hash tables of libstdc++ have, which decides the order of what is in them.

``std::__detail::_Prime_rehash_policy::_M_next_bkt`` of libstdc++.so.6: a table for few, and for more the least that is
large enough of the numbers in its array ``std::__detail::__prime_list``, of which the largest are left out here.
"""

from __future__ import annotations

import bisect
from typing import Final

FIRST: Final = 11
"""How many elements a table has room for at least, once it has any."""

_FEW: Final = (1, 2, 2, 3, 5, 5, 7, 7, 11, 11, 11, 11, 13, 13)
_NUMBERS: Final = """
    2 3 5 7 11 13 17 19 23 29 31 37 41 43 47 53 59 61 67 71 73 79 83 89 97 103 109 113 127 137 139 149 157 167 179 193
    199 211 227 241 257 277 293 313 337 359 383 409 439 467 503 541 577 619 661 709 761 823 887 953 1031 1109 1193
    1289 1381 1493 1613 1741 1879 2029 2179 2357 2549 2753 2971 3209 3469 3739 4027 4349 4703 5087 5503 5953 6427 6949
    7517 8123 8783 9497 10273 11113 12011 12983 14033 15173 16411 17749 19183 20753 22447 24281 26267 28411 30727
    33223 35933 38873 42043 45481 49201 53201 57557 62233 67307 72817 78779 85229 92203 99733 107897 116731 126271
    136607 147793 159871 172933 187091 202409 218971 236897 256279 277261 299951 324503 351061 379787 410857 444487
    480881 520241 562841 608903 658753 712697 771049 834181 902483 976369 1056323 1142821 1236397 1337629 1447153
    1565659 1693859 1832561 1982627 2144977 2320627 2510653 2716249 2938679 3179303 3439651 3721303 4026031 4355707
    4712381 5098259 5515729 5967347 6456007 6984629 7556579 8175383 8844859 9569143 10352717 11200489 12117689
    13109983 14183539 15345007 16601593
"""
_MANY: Final = tuple(map(int, _NUMBERS.split()))[6:]


def buckets_for(requested: int) -> int | None:
    """Return how many buckets libstdc++ gives a table for at least so many; None for more than are listed."""
    if requested < len(_FEW):
        return _FEW[requested]
    at = bisect.bisect_left(_MANY, requested)
    return _MANY[at] if at < len(_MANY) else None
