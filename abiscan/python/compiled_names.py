"""The names that compiled code gives to what it makes for Python, and that the texts in its library do not tell."""

from __future__ import annotations

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
