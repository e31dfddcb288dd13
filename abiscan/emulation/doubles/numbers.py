"""Doubles of the functions of the C library that compute with floating-point numbers, or read them from a text.

C11, 7.12 (``<math.h>``), 7.3 (``<complex.h>``), 7.22.1 (``strtod``). Results are those of correctly rounded
arithmetic as far as the functions of Python's ``math`` are; what rounds otherwise differs in the last bit.
"""

from __future__ import annotations

import cmath
import collections
import itertools
import math
import re
from collections.abc import Callable, Iterator
from typing import Final

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call
from abiscan.regex import regex

NUMBERS: Final = Doubles()

_ERANGE: Final = 34


def _exp10(value: float) -> float:
    return float(10.0**value)


def _cbrt(value: float) -> float:
    # Roots that are whole must come out whole: the power of a rounded third is off by a bit.
    root = math.copysign(abs(value) ** (1 / 3), value)
    nearest = float(round(root))
    return nearest if nearest**3 == value else root


def _round(value: float) -> float:
    """Round halves away from zero."""
    return math.copysign(math.floor(abs(value) + 0.5), value) if math.isfinite(value) else value


def _even(value: float) -> float:
    return math.copysign(float(round(value)), value) if math.isfinite(value) else value


def _floor(value: float) -> float:
    return math.copysign(float(math.floor(value)), value) if math.isfinite(value) else value


def _ceil(value: float) -> float:
    return math.copysign(float(math.ceil(value)), value) if math.isfinite(value) else value


def _trunc(value: float) -> float:
    return math.copysign(float(math.trunc(value)), value) if math.isfinite(value) else value


def _exp2(value: float) -> float:
    return float(2.0**value)


_ONE: Final[dict[str, Callable[[float], float]]] = {
    **{
        name: getattr(math, name)
        for name in (
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            *("exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "fabs", "erf", "erfc", "lgamma"),
        )
    },
    "tgamma": math.gamma,
    "cbrt": _cbrt,
    "exp2": _exp2,
    "exp10": _exp10,
    "round": _round,
    "rint": _even,
    "nearbyint": _even,
    "floor": _floor,
    "ceil": _ceil,
    "trunc": _trunc,
}
_TWO: Final[dict[str, Callable[[float, float], float]]] = {
    "pow": math.pow,
    "fmod": math.fmod,
    "atan2": math.atan2,
    "hypot": math.hypot,
    "copysign": math.copysign,
    "nextafter": math.nextafter,
    "remainder": math.remainder,
    "fmax": lambda first, second: first if math.isnan(second) or first > second else second,
    "fmin": lambda first, second: first if math.isnan(second) or first < second else second,
    "fdim": lambda first, second: max(first - second, 0.0),
    "cabs": math.hypot,
    "carg": lambda real, imaginary: math.atan2(imaginary, real),
}
_TO_INTEGER: Final[dict[str, Callable[[float], float]]] = {
    "lround": _round,
    "llround": _round,
    "lrint": _even,
    "llrint": _even,
}


def _both(names: object) -> tuple[str, ...]:
    """Return the names of the functions of ``double`` and of ``float``."""
    assert isinstance(names, dict)
    return tuple(name + suffix for name in names for suffix in ("", "f"))


def _name_for_double(call: Call, names: object) -> tuple[str, int]:
    """Return the name of the function of ``double``, and the bits of the numbers."""
    assert isinstance(names, dict)
    name = call.name.removeprefix("__").removesuffix("_finite")
    return (name, 64) if name in names else (name.removesuffix("f"), 32)


def _value(function: Callable[..., float], *arguments: float) -> float:
    """Return the value of a function, infinite or no number where Python raises."""
    try:
        return float(function(*arguments))
    except OverflowError:
        return math.inf
    except ValueError:
        return -math.inf if function in (math.log, math.log2, math.log10) and arguments == (0.0,) else math.nan


@NUMBERS.named(*_both(_ONE))
def _double_sin(call: Call) -> None:
    name, bits = _name_for_double(call, _ONE)
    call.give_number(_value(_ONE[name], call.number(0, bits)), bits)


@NUMBERS.named(*_both(_TWO))
def _double_pow(call: Call) -> None:
    name, bits = _name_for_double(call, _TWO)
    arguments = call.number(0, bits), call.number(1, bits)
    if name in ("cabs", "carg") and bits == 32:  # both parts in one register on x86-64
        arguments = call.complex_number(0)
    call.give_number(_value(_TWO[name], *arguments), bits)


@NUMBERS.named(*(name + "l" for name in _ONE), *(name + "l" for name in _TWO if not name.startswith("ca")))
def _double_sinl(call: Call) -> None:
    """Compute the functions of ``long double``, on x86-64."""
    name = call.name.removesuffix("l")
    if not call.process.arch.has_x87:
        call.answer_is_unknown()
    elif name in _ONE:
        call.give_long_number(_value(_ONE[name], call.long_number(0)))
    else:
        call.give_long_number(_value(_TWO[name], call.long_number(0), call.long_number(1)))


# Complex numbers: both parts in a register of their own each


def _times(first: complex, second: complex) -> complex:
    return first * second


def _over(first: complex, second: complex) -> complex:
    try:
        return first / second
    except ZeroDivisionError:
        return complex(math.nan, math.nan)


_COMPLEX_FUNCTIONS: Final[dict[str, Callable[[complex], complex]]] = {
    name: getattr(cmath, name.removeprefix("c"))
    for name in ("csqrt", "cexp", "clog", "csin", "ccos", "ctan", "csinh", "ccosh", "ctanh")
}
_COMPLEX_FUNCTIONS_OF_TWO: Final[dict[str, Callable[[complex, complex], complex]]] = {
    "__muldc3": _times,
    "__divdc3": _over,
    "cpow": pow,
}


@NUMBERS.named(*_COMPLEX_FUNCTIONS, *_COMPLEX_FUNCTIONS_OF_TWO)
def _double_csin(call: Call) -> None:
    first = complex(call.number(0), call.number(1))
    try:
        if call.name in _COMPLEX_FUNCTIONS:
            value = _COMPLEX_FUNCTIONS[call.name](first)
        else:
            value = _COMPLEX_FUNCTIONS_OF_TWO[call.name](first, complex(call.number(2), call.number(3)))
    except (ValueError, OverflowError, ZeroDivisionError) as error:
        raise Stop(f"{call.name} of a number without a result", call.return_address) from error
    call.give_numbers(value.real, value.imag)


@NUMBERS.named(*_both(_TO_INTEGER))
def _double_lround(call: Call) -> int:
    name, bits = _name_for_double(call, _TO_INTEGER)
    number = call.number(0, bits)
    return int(_TO_INTEGER[name](number)) if math.isfinite(number) else -(1 << 63)


@NUMBERS.named("fma", "fmaf")
def _double_fma(call: Call) -> None:
    bits = 32 if call.name.endswith("f") else 64
    first, second, third = (call.number(index, bits) for index in range(3))
    call.give_number(first * second + third, bits)


@NUMBERS.named("ldexp", "ldexpf", "scalbn", "scalbnf", "scalbln")
def _double_ldexp(call: Call) -> None:
    bits = 32 if call.name.endswith("f") else 64
    power = call.argument(0) & 0xFFFF_FFFF
    power -= (power >> 31) << 32
    call.give_number(_value(math.ldexp, call.number(0, bits), power), bits)


@NUMBERS.named("frexp", "frexpf")
def _double_frexp(call: Call) -> None:
    bits = 32 if call.name.endswith("f") else 64
    fraction, power = math.frexp(call.number(0, bits))
    call.machine.write(call.argument(0), power.to_bytes(4, "little", signed=True))
    call.give_number(fraction, bits)


@NUMBERS.named("modf")
def _double_modf(call: Call) -> None:
    fraction, whole = math.modf(call.number(0, 64))
    call.machine.write(call.argument(0), call.packed(whole, 64))
    call.give_number(fraction, 64)


@NUMBERS.named("sincos", "sincosf")
def _double_sincos(call: Call) -> None:
    bits = 32 if call.name.endswith("f") else 64
    number = call.number(0, bits)
    call.machine.write(call.argument(0), call.packed(math.sin(number), bits))
    call.machine.write(call.argument(1), call.packed(math.cos(number), bits))


# From a text

_FLOAT: Final = regex(
    rb"\s*([+-]?(?:0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?\d+)?"
    rb"|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|(?i:inf(?:inity)?|nan)))"
)


def parsed(text: bytes) -> tuple[float, int]:
    """Return the number at the beginning of a text, and how long it is; 0 and 0 for none."""
    match = _FLOAT.match(text)
    if match is None:
        return 0.0, 0
    digits = match[1].decode()
    try:
        value = float.fromhex(digits) if "0x" in digits.lower() else float(digits)
    except OverflowError:
        value = math.inf
    return value, match.end()


@NUMBERS.named("strtod", "strtof", "atof", "__strtod_l", "__strtof_l", "strtod_l", "strtof_l")
def _double_strtod(call: Call) -> None:
    value, size = parsed(call.machine.text(call.argument(0)))
    bits = 32 if "strtof" in call.name else 64
    if call.name != "atof" and call.argument(1):
        call.machine.set_word(call.argument(1), call.argument(0) + size)
    if math.isinf(value) and b"i" not in call.machine.text(call.argument(0))[:size].lower():
        call.machine.write(call.process.bind("datum errno"), _ERANGE.to_bytes(4, "little"))
    call.give_number(value, bits)


# std::from_chars and std::to_chars (<charconv>): an address, and what went wrong behind it

_INVALID: Final = 22  # EINVAL
_TOO_LARGE: Final = 75  # EOVERFLOW
_SCIENTIFIC, _FIXED, _HEXADECIMAL, _GENERAL = 1, 2, 4, 3  # std::chars_format
_PLAIN_NUMBER: Final = regex(rb"-?(?:(?:\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|inf(?:inity)?|nan(?:\(\w*\))?)", re.IGNORECASE)
_FLOAT_DIGITS, _DOUBLE_DIGITS = 9, 17  # that tell any value from all others


@NUMBERS.matching(r"_ZSt10from_charsPKcS0_R[df]St12chars_format")
def _from_chars(call: Call) -> int:
    """Emulate ``std::from_chars``. Takes (begin, end, target, format); nothing is stored where there is no number."""
    begin, end, target, form = (call.argument(index) for index in range(4))
    text = call.machine.read(begin, end - begin) if end > begin else b""
    call.decide_by_what_was_read()
    form &= _HEXADECIMAL | _GENERAL
    if form == _HEXADECIMAL:
        raise Stop("std::from_chars of a hexadecimal number", call.return_address)
    # The format of ``strtod`` in the C locale, but without a plus sign, blanks in front or a prefix (C++17,
    # [charconv]).
    match = _PLAIN_NUMBER.match(text)
    if match and match[1] and form == _FIXED:
        match = _PLAIN_NUMBER.match(text[: match.start(1)])
    if match is None or (form == _SCIENTIFIC and not match[1]):
        call.give_second(_INVALID)
        return begin
    bits = 32 if "Rf" in call.name else 64
    value = float(match[0].split(b"(")[0])
    packed = call.packed(value, bits)
    is_named = match[0].lstrip(b"-")[:1].isalpha()
    if not is_named and (math.isinf(value) or (bits == 32 and packed[2:] in (b"\x80\x7f", b"\x80\xff"))):
        call.give_second(_ERANGE)
        return begin + match.end()
    call.machine.write(target, packed)
    call.give_second(0)
    return begin + match.end()


@NUMBERS.matching(r"_ZSt8to_charsPcS_[df](St12chars_formati?)?$")
def _to_chars(call: Call) -> int:
    """Emulate ``std::to_chars``. Takes (begin, end, number[, format[, precision]])."""
    begin, end = call.argument(0), call.argument(1)
    is_float = "PcS_f" in call.name
    value = call.number(0, 32 if is_float else 64)
    form = call.argument(2) & (_HEXADECIMAL | _GENERAL) if "format" in call.name else 0
    if form == _HEXADECIMAL:
        raise Stop("std::to_chars of a hexadecimal number", call.return_address)
    if call.name.endswith("formati"):
        precision = call.argument(3) & 0xFFFF_FFFF
        kind = {_SCIENTIFIC: "e", _FIXED: "f"}.get(form, "g")
        text = f"{value:.{6 if precision >> 31 else min(precision, 1 << 10)}{kind}}"
    else:
        text = _shortest(value, form, is_float=is_float)
    if len(text) > end - begin:
        call.give_second(_TOO_LARGE)
        return end
    call.machine.write(begin, text.encode())
    call.give_second(0)
    return begin + len(text)


def _shortest(value: float, form: int, *, is_float: bool) -> str:
    """Return the shortest text from which the same number is read, in a form, or in whichever is shorter."""
    if math.isinf(value) or math.isnan(value):
        return f"{'-' if math.copysign(1.0, value) < 0 else ''}{'inf' if math.isinf(value) else 'nan'}"
    bits = 32 if is_float else 64
    most = _FLOAT_DIGITS if is_float else _DOUBLE_DIGITS
    # Fewest digits first: the first text that gives the same bits is the shortest.
    texts = (f"{value:.{digits}e}" for digits in range(most))
    scientific = next(text for text in texts if Call.packed(float(text), bits) == Call.packed(value, bits))
    digits, exponent = scientific.split("e")
    places = max(len(digits.lstrip("-").replace(".", "")) - 1 - int(exponent), 0)
    fixed = f"{value:.{places}f}"
    if form == _SCIENTIFIC or (form == _GENERAL and not -4 <= int(exponent) < 6):
        return scientific
    return fixed if form or len(fixed) <= len(scientific) else scientific


# Random numbers of the C library: the sequence is known from where the code has set its start.

_DEGREE, _SEPARATION, _DISCARDED = 31, 3, 310  # glibc, stdlib/random.c: TYPE_3
_MODULUS: Final = 2147483647


def _random_numbers(seed: int) -> Iterator[int]:
    """Yield what ``random`` gives after ``srandom(seed)``: an additive feedback generator."""
    # glibc, stdlib/random_r.c: words by a linear generator, then 310 numbers of the feedback generator are thrown away.
    last = [seed - (seed >> 31 << 32) or 1]  # an int
    while len(last) < _DEGREE:
        last.append(16807 * last[-1] % _MODULUS)
    state = collections.deque(value & 0xFFFF_FFFF for value in (*last[_SEPARATION:], *last[:_SEPARATION]))
    for number in itertools.count():
        state.append((state[0] + state[_DEGREE - _SEPARATION]) & 0xFFFF_FFFF)
        state.popleft()
        if number >= _DISCARDED:
            yield state[-1] >> 1


@NUMBERS.named("srand", "srandom")
def _double_srand(call: Call) -> None:
    call.process.random_numbers = _random_numbers(call.argument(0) & 0xFFFF_FFFF)


@NUMBERS.named("rand", "random")
def _double_rand(call: Call) -> int:
    if call.process.random_numbers is None:
        call.answer_is_unknown()
        return 0
    return next(call.process.random_numbers)


@NUMBERS.named("__popcountdi2", "__popcountsi2")
def _double_popcountdi2(call: Call) -> int:
    """Return how many bits are set (libgcc)."""
    bits = 64 if call.name.endswith("di2") else 32
    return (call.argument(0) & (1 << bits) - 1).bit_count()
