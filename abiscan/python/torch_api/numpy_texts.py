"""What numpy says where a name is taken of it that it no longer has."""

from __future__ import annotations

from typing import Final

_WITH_ADVICE: Final = frozenset({
    "DataSource", "Inf", "Infinity", "NINF", "NZERO", "NaN", "PINF", "PZERO", "add_docstring", "add_newdoc",
    "add_newdoc_ufunc", "alltrue", "asfarray", "byte_bounds", "cast", "cfloat", "clongfloat", "compare_chararrays",
    "complex_", "deprecate", "deprecate_with_doc", "fastCopyAndTranspose", "find_common_type", "float_",
    "format_parser", "get_array_wrap", "geterrobj", "infty", "issctype", "issubclass_", "issubsctype",
    "longcomplex", "longfloat", "lookfor", "mat", "maximum_sctype", "nbytes", "obj2sctype", "recfromcsv",
    "recfromtxt", "round_", "safe_eval", "sctype2char", "sctypes", "set_numeric_ops", "set_string_function",
    "seterrobj", "singlecomplex", "sometrue", "source", "string_", "tracemalloc_domain", "unicode_", "who",
})  # fmt: skip
"""Those that ``numpy/_expired_attrs_2_0.py`` lists, with advice on each, in all of 2.0.2, 2.2.6 and 2.4.0."""
_WITH_ADVICE_AT_FIRST: Final = frozenset({"compat", "disp"})
"""Those that only some of them list."""


def missing_name(name: str) -> str | None:
    """Return the text of the AttributeError about a name that new releases of numpy lack (``numpy.Inf``).

    None if it differs between them: modules of numpy 1 still are in numpy 2, and say something of each name.
    """
    owner, _, last = name.rpartition(".")
    if owner != "numpy" or last in _WITH_ADVICE_AT_FIRST:
        return None
    if last in _WITH_ADVICE:
        return f"`np.{last}` was removed in the NumPy 2.0 release."
    return f"module 'numpy' has no attribute '{last}'"
