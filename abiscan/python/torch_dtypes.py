"""The element types of torch that came with a later release: ``torch.uint1``.

Compiled code makes them attributes of ``torch``. ``c10/core/ScalarType.h``, which is in every wheel, lists them.
"""

from __future__ import annotations

from typing import Final

SINCE: Final = {
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
"""The first release that has each."""
