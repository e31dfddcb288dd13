"""Functions of the standard library that only compute: Python's own are called, with arguments that are known.

What they give is the same in all supported versions of Python and on all systems. Texts of errors are not: of an error,
the class alone is taken. Not here: what can take long or grow beyond its arguments, such as ``math.factorial``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Final

from abiscan.python.interpreter.cost import total_length
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Model, Namespace, extend
from abiscan.python.interpreter.operations import FAITHFUL, bound_size
from abiscan.python.interpreter.values import NotKnown, PythonError, Thrown, as_scalar, is_concrete

_FUNCTIONS: Final = {
    "base64": "b16decode b32decode b64decode b64encode b85decode standard_b64decode urlsafe_b64decode",
    "binascii": "a2b_base64 a2b_hex b2a_base64 b2a_hex crc32 hexlify unhexlify",
    "calendar": "isleap monthrange",
    "colorsys": "hls_to_rgb hsv_to_rgb rgb_to_hls rgb_to_hsv rgb_to_yiq yiq_to_rgb",
    "fnmatch": "filter fnmatch fnmatchcase",
    "html": "escape unescape",
    "inspect": "cleandoc",
    "json": "dumps",
    "keyword": "iskeyword",
    "math": "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees dist erf erfc exp expm1 fabs floor "
    "fmod frexp fsum gamma gcd hypot isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf "
    "nextafter pow prod radians remainder sin sinh sqrt tan tanh trunc ulp",
    "re": "escape",
    "shlex": "join quote split",
    "stat": "S_IFMT S_IMODE S_ISDIR S_ISLNK S_ISREG filemode",
    "statistics": "fmean mean median pstdev pvariance stdev variance",
    "string": "capwords",
    "struct": "calcsize",
    "textwrap": "dedent fill indent shorten wrap",
    "urllib.parse": "parse_qs parse_qsl quote quote_plus unquote unquote_plus urlencode urljoin urlparse urlsplit "
    "urlunparse urlunsplit",
    "zlib": "adler32 crc32",
}
_CONSTANTS: Final = {
    "binascii": "Error",
    "calendar": "IllegalMonthError IllegalWeekdayError",
    "json": "JSONDecodeError",
    "statistics": "StatisticsError",
    "math": "e inf nan pi tau",
    "stat": "S_IRUSR S_IRWXG S_IRWXO S_IRWXU S_IWUSR S_IXGRP S_IXOTH S_IXUSR",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits hexdigits octdigits printable punctuation "
    "whitespace",
    "tokenize": "Comment Name Whitespace",
}
_LARGEST: Final = 4_000
"""The most characters and items that go into one call; more only for a decoder, whose result is shorter."""
_DECODERS: Final = frozenset({"base64", "binascii"})
_LARGEST_ENCODED: Final = 2_000_000
_FILLING: Final = frozenset({"json", "textwrap"})
_WIDEST: Final = 1_000
"""The most spaces that a function is asked to fill in at once."""


def with_pure(
    models: Mapping[str, Callable[[PythonMachine], object]],
) -> dict[str, Callable[[PythonMachine], object]]:
    """Return models of modules, with the functions that only compute."""
    modules = {**_FUNCTIONS, **_CONSTANTS}
    return {**models, **{module: partial(extend, _names_of(module), models.get(module)) for module in modules}}


def _names_of(module: str) -> Namespace:
    # The module is imported once a package asks for one of its names.
    functions = {name: partial(_make_function, module, name) for name in _FUNCTIONS.get(module, "").split()}
    constants = {name: partial(_constant, module, name) for name in _CONSTANTS.get(module, "").split()}
    return Namespace(module, {}, of_target={**functions, **constants})


def _constant(module: str, name: str, _machine: PythonMachine) -> object:
    return getattr(import_module(module), name)


def _make_function(module: str, name: str, _machine: PythonMachine) -> Native:
    return Native(f"{module}.{name}", _computing(module, name))


def _computing(module: str, name: str) -> Model:
    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        args = list(map(as_scalar, args))
        is_wide = module in _FILLING and any(type(part) is int and part > _WIDEST for part in (*args, *kwargs.values()))
        size = total_length([args, kwargs]) if is_concrete(args) and is_concrete(kwargs) and not is_wide else None
        if size is None or size > (_LARGEST_ENCODED if module in _DECODERS else _LARGEST):
            return machine.call(NotKnown(f"{module}.{name}"), args, kwargs)
        machine.count_steps(size)
        unknown = NotKnown(f"{module}.{name}()")
        try:
            result = bound_size(unknown.name, getattr(import_module(module), name)(*args, **kwargs))
        except FAITHFUL as error:
            raise Thrown(PythonError(type(error), (NotKnown("the text of the error"),))) from None
        except Exception:  # noqa: BLE001 - whether other versions of Python refuse it too is not known
            return unknown
        return result if is_concrete(result) else unknown

    return call
