"""What the vector instructions from SSE3 on compute that initialisers seldom need: the rest of SSE and AVX, AES, FMA.

By the name with a ``v``: without VEX, most of them are the same on 128 bits. Rounding is that of a process which has
not changed it, to the nearest number and to even ones; what is no number, or subnormal, is not done.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Final

from abiscan.emulation.arch.lanes import (
    XMM_BYTES,
    Bytes,
    Operation,
    UnsupportedError,
    by_half,
    lanes_of,
    lanewise,
    pack,
    signed_lanes_of,
)

_SINGLE, _DOUBLE, _HALF = "<f", "<d", "<e"
_LEAST_SINGLE: Final = 2.0**-126
_TIE, _BELOW_SINGLE = 1 << 28, (1 << 29) - 1  # of the bits of a double that a single number does not have
_SHORT: Final = 0xFFFF


# Integers


def _clamped(low: int, high: int) -> Callable[[int], int]:
    return lambda value: min(max(value, low), high)


_CLAMPS: Final = {
    "sb": _clamped(-0x80, 0x7F),
    "sw": _clamped(-0x8000, 0x7FFF),
    "usb": _clamped(0, 0xFF),
    "usw": _clamped(0, _SHORT),
}


def _saturated(width: int, letters: str, function: Callable[[int, int], int]) -> Operation:
    clamp = _CLAMPS[letters]
    return lanewise(width, lambda a, b: clamp(function(a, b)), signed=letters[0] == "s")


def _signed_by(width: int) -> Operation:
    return lanewise(width, lambda a, b: -a if b < 0 else a if b else 0, signed=True)


def _absolute(width: int) -> Operation:
    return lambda sources, _: pack([abs(lane) for lane in signed_lanes_of(sources[0], width)], width)


def _neighbours(width: int, function: Callable[[int, int], int]) -> Operation:
    """Split each source into lanes, and these into pairs."""

    def apply(sources: Bytes, _: int) -> bytes:
        numbers = [signed_lanes_of(source, width) for source in sources]
        return pack([function(a, b) for of in numbers for a, b in zip(of[::2], of[1::2], strict=True)], width)

    return by_half(apply)


def _multiply_bytes(sources: Bytes, _: int) -> bytes:
    products = [a * b for a, b in zip(lanes_of(sources[0], 1), signed_lanes_of(sources[1], 1), strict=True)]
    return pack([_CLAMPS["sw"](a + b) for a, b in zip(products[::2], products[1::2], strict=True)], 2)


def _multiply_words(sources: Bytes, _: int) -> bytes:
    first, second = (signed_lanes_of(source, 2) for source in sources)
    products = [a * b for a, b in zip(first, second, strict=True)]
    return pack([a + b for a, b in zip(products[::2], products[1::2], strict=True)], 4)


def _multiply_even(sources: Bytes, _: int) -> bytes:
    first, second = (signed_lanes_of(source, 4)[::2] for source in sources)
    return pack([a * b for a, b in zip(first, second, strict=True)], 8)


def _differences(sources: Bytes, _: int) -> bytes:
    pairs = list(zip(*sources, strict=True))
    return pack([sum(abs(a - b) for a, b in pairs[at : at + 8]) for at in range(0, len(pairs), 8)], 8)


def _narrowed(width: int, letters: str) -> Operation:
    clamp = _CLAMPS[letters]
    return by_half(
        lambda sources, _: pack([clamp(lane) for of in sources for lane in signed_lanes_of(of, width)], width // 2)
    )


def _smallest_word(sources: Bytes, _: int) -> bytes:
    words = lanes_of(sources[0], 2)
    return pack([min(words), words.index(min(words)), *[0] * 6], 2)


def _shift_right(width: int) -> Operation:
    def apply(sources: Bytes, immediate: int) -> bytes:
        count = immediate if len(sources) == 1 else int.from_bytes(sources[1][:8], "little")
        return pack([lane >> min(count, 8 * width) for lane in signed_lanes_of(sources[0], width)], width)

    return apply


def _shuffle_words(first: int) -> Operation:
    """Arrange four words of eight, from the ``first`` on."""

    def apply(sources: Bytes, immediate: int) -> bytes:
        words = lanes_of(sources[0], 2)
        chosen = [words[first + (immediate >> 2 * at & 3)] for at in range(4)]
        return pack([*words[:first], *chosen, *words[first + 4 :]], 2)

    return by_half(apply)


def _shuffle_doubles(sources: Bytes, immediate: int) -> bytes:
    first, second = (lanes_of(source, 8) for source in sources)
    chosen = ((second if at & 1 else first)[at & ~1 | immediate >> at & 1] for at in range(len(first)))
    return pack(list(chosen), 8)


def _blend(width: int) -> Operation:
    """Select lanes by the bits of a number, which for words are those of each half."""

    def apply(sources: Bytes, immediate: int) -> bytes:
        pairs = enumerate(zip(*(lanes_of(source, width) for source in sources), strict=True))
        return pack([b if immediate >> at % 8 & 1 else a for at, (a, b) in pairs], width)

    return apply


def _blend_by_sign(width: int) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        first, second, chosen = (lanes_of(source, width) for source in sources)
        sign = 1 << (8 * width - 1)
        return pack([b if by & sign else a for a, b, by in zip(first, second, chosen, strict=True)], width)

    return apply


def _shift_lanes(width: int, function: Callable[[int, int], int], *, signed: bool = False) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        values = (signed_lanes_of if signed else lanes_of)(sources[0], width)
        pairs = zip(values, lanes_of(sources[1], width), strict=True)
        return pack([function(value, min(by, 8 * width)) for value, by in pairs], width)

    return apply


def _permute_in_halves(width: int) -> Operation:
    """Arrange lanes by the low bits of those of the second source, or by a number."""
    count = XMM_BYTES // width
    bits = count.bit_length() - 1

    def apply(sources: Bytes, immediate: int) -> bytes:
        values = lanes_of(sources[0], width)
        if len(sources) == 2:
            by = [index >> (width == 8) & count - 1 for index in lanes_of(sources[1], width)]
        elif width == 8:
            by = [immediate >> at & 1 for at in range(len(values))]
        else:
            by = [immediate >> bits * (at % count) & count - 1 for at in range(len(values))]
        return pack([values[at & -count | index] for at, index in enumerate(by)], width)

    return apply


def extended(source: bytes, size: int, letters: str, *, signed: bool) -> bytes:
    """Return ``pmovzxbw`` and its like: the first lanes as wider ones, for a target of ``size`` bytes."""
    narrow, wide = ("bwdq".index(letter) for letter in letters)
    numbers = (signed_lanes_of if signed else lanes_of)(source[: size >> wide - narrow], 1 << narrow)
    return pack(numbers, 1 << wide)


# Floating-point numbers


def _finite_numbers(code: str, value: bytes) -> list[float]:
    numbers = [number for (number,) in struct.iter_unpack(code, value)]
    if not all(map(math.isfinite, numbers)):
        raise UnsupportedError("not a number")
    return numbers


def _to_bytes(code: str, numbers: Sequence[float]) -> bytes:
    return b"".join(struct.pack(code, number) for number in numbers)


def _packed_pairs(code: str, function: Callable[[float, float], float]) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        pairs = zip(*(_finite_numbers(code, source) for source in sources), strict=True)
        return _to_bytes(code, [function(a, b) for a, b in pairs])

    return apply


def _scalar_pair(code: str, function: Callable[[float, float], float]) -> Operation:
    width = struct.calcsize(code)

    def apply(sources: Bytes, _: int) -> bytes:
        (first,), (second,) = (_finite_numbers(code, source[:width]) for source in sources)
        return struct.pack(code, function(first, second)) + sources[0][width:]

    return apply


def _least(a: float, b: float) -> float:
    """Return the lesser one; the second one, if they are equal."""
    return min(b, a)


def _greatest(a: float, b: float) -> float:
    return max(b, a)


def _square_root(_: float, value: float) -> float:
    if value < 0 or (value == 0 and math.copysign(1, value) < 0):
        raise UnsupportedError("root of a negative number")
    return math.sqrt(value)


def _pairs_of_numbers(code: str, function: Callable[[float, float], float]) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        numbers = [_finite_numbers(code, source) for source in sources]
        return _to_bytes(code, [function(a, b) for of in numbers for a, b in zip(of[::2], of[1::2], strict=True)])

    return by_half(apply)


def _minus_then_plus(code: str) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        pairs = enumerate(zip(*(_finite_numbers(code, source) for source in sources), strict=True))
        return _to_bytes(code, [a + b if at & 1 else a - b for at, (a, b) in pairs])

    return apply


def _rounded(value: float, mode: int) -> float:
    if mode & 4:  # as the process has set it
        mode = 0
    result = (round, math.floor, math.ceil, math.trunc)[mode & 3](value)
    return math.copysign(float(result), value) if result == 0 else float(result)


def _round_lanes(code: str) -> Operation:
    return lambda sources, immediate: _to_bytes(
        code, [_rounded(value, immediate) for value in _finite_numbers(code, sources[0])]
    )


def _round_one(code: str) -> Operation:
    width = struct.calcsize(code)

    def apply(sources: Bytes, immediate: int) -> bytes:
        (value,) = _finite_numbers(code, sources[1][:width])
        return struct.pack(code, _rounded(value, immediate)) + sources[0][width:]

    return apply


def _dot_product(code: str) -> Operation:
    """Return the sum of the products that the upper bits of a number choose, in the order of the processor."""
    count = XMM_BYTES // struct.calcsize(code)

    def single(number: float) -> float:
        rounded: float = struct.unpack(code, struct.pack(code, number))[0]
        return rounded

    def apply(sources: Bytes, immediate: int) -> bytes:
        pairs = enumerate(zip(*(_finite_numbers(code, source) for source in sources), strict=True))
        products = [single(a * b) if immediate >> 4 + at & 1 else 0.0 for at, (a, b) in pairs]
        sums = [single(a + b) for a, b in zip(products[::2], products[1::2], strict=True)]
        total = single(sum(sums))
        return _to_bytes(code, [total if immediate >> at & 1 else 0.0 for at in range(count)])

    return by_half(apply)


def _insert_single(sources: Bytes, immediate: int) -> bytes:
    """Insert a number; from memory there is just one."""
    values, source_lanes = lanes_of(sources[0], 4), lanes_of(sources[1], 4)
    values[immediate >> 4 & 3] = source_lanes[immediate >> 6 if len(source_lanes) > 1 else 0]
    return pack([0 if immediate >> at & 1 else value for at, value in enumerate(values)], 4)


def _duplicate(first: int) -> Operation:
    """Replace each pair of lanes by twice its first one, or its second one."""
    return lambda sources, _: pack([lane for lane in lanes_of(sources[0], 4)[first::2] for _ in range(2)], 4)


def _integers(value: bytes, round_: Callable[[float], int]) -> bytes:
    numbers = [round_(number) for number in _finite_numbers(_SINGLE, value)]
    if any(not -(1 << 31) <= number < 1 << 31 for number in numbers):
        numbers = [number if -(1 << 31) <= number < 1 << 31 else 1 << 31 for number in numbers]
    return pack(numbers, 4)


def converted(sources: Bytes, size: int, source: str, target: str) -> bytes:
    """Numbers of another width, as many as there is room for in both; the rest of 128 bits is cleared."""
    widths = struct.calcsize(source), struct.calcsize(target)
    count = min(size // widths[1], len(sources[0]) // widths[0])
    numbers = _finite_numbers(source, sources[0][: count * widths[0]])
    return b"".join(struct.pack(target, number) for number in numbers)


def _fused(code: str, a: float, b: float, c: float) -> float:
    """Return ``a * b + c``, rounded once."""
    from fractions import Fraction  # takes longer to import than all of this

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0 or (code == _SINGLE and abs(exact) < _LEAST_SINGLE) or abs(exact) < 2**-1022:
        if a * b + c == 0 == exact:
            return a * b + c
        raise UnsupportedError("a small result")
    result = float(exact)
    if code == _SINGLE and Fraction(result) != exact:
        bits = struct.unpack("<Q", struct.pack("<d", result))[0] & _BELOW_SINGLE
        if bits == _TIE:  # which the first rounding made
            return math.nextafter(result, math.inf if exact > Fraction(result) else -math.inf)
    return result


def _fma(code: str, order: str, signs: tuple[int, int], *, scalar: bool, alternates: int = 0) -> Operation:
    """Make ``vfmadd213ps`` and its like: which of the three are multiplied, and the signs of the product and of the
    rest.

    ``alternates`` is the sign of the rest in even lanes, if it alternates.
    """
    places = [int(digit) - 1 for digit in order]

    def apply(sources: Bytes, _: int) -> bytes:
        width = struct.calcsize(code)
        used = [source[:width] for source in sources] if scalar else sources
        numbers = [_finite_numbers(code, source) for source in used]
        results = []
        for at in range(len(numbers[0])):
            a, b, c = (numbers[place][at] for place in places)
            sign = (alternates if at % 2 == 0 else -alternates) if alternates else signs[1]
            results.append(_fused(code, signs[0] * a, b, sign * c))
        return _to_bytes(code, results) + (sources[0][width:] if scalar else b"")

    return apply


def _fma_operations() -> dict[str, Operation]:
    operations: dict[str, Operation] = {}
    for order in ("132", "213", "231"):
        for ending, code in (("s", _SINGLE), ("d", _DOUBLE)):
            for name, signs in (("madd", (1, 1)), ("msub", (1, -1)), ("nmadd", (-1, 1)), ("nmsub", (-1, -1))):
                for kind in "ps":
                    made = _fma(code, order, signs, scalar=kind == "s")
                    operations[f"vf{name}{order}{kind}{ending}"] = made
            for name, sign in (("maddsub", -1), ("msubadd", 1)):
                operations[f"vf{name}{order}p{ending}"] = _fma(code, order, (1, 1), scalar=False, alternates=sign)
    return operations


# AES: FIPS 197, whose state is filled column by column


def _times(a: int, b: int) -> int:
    """Return the product in the field of AES."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = a << 1 ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def _make_box() -> bytes:
    box = bytearray(256)
    for value in range(256):
        inverse = next((item for item in range(256) if _times(value, item) == 1), 0)
        spread = inverse
        for turn in range(1, 5):
            spread ^= (inverse << turn | inverse >> 8 - turn) & 0xFF
        box[value] = spread ^ 0x63
    return bytes(box)


class _Aes:
    """The tables of AES, made when they are first needed."""

    _box = b""

    @classmethod
    def box(cls) -> bytes:
        """Return the substitution table of bytes (S-box)."""
        cls._box = cls._box or _make_box()
        return cls._box


def _mixed(state: bytes, factors: Sequence[int]) -> bytes:
    return bytes(
        _times(state[column + row], factors[0])
        ^ _times(state[column + (row + 1) % 4], factors[1])
        ^ _times(state[column + (row + 2) % 4], factors[2])
        ^ _times(state[column + (row + 3) % 4], factors[3])
        for column in range(0, 16, 4)
        for row in range(4)
    )


_MIX, _UNMIX = (2, 3, 1, 1), (14, 11, 13, 9)


def _aes_round(*, decrypts: bool, is_last: bool) -> Operation:
    def apply(sources: Bytes, _: int) -> bytes:
        state, key = sources
        box = _Aes.box()
        if decrypts:
            box = bytes(box.index(value) for value in range(256))
        turn = -1 if decrypts else 1
        state = bytes(box[state[(column + turn * row) % 4 * 4 + row]] for column in range(4) for row in range(4))
        if not is_last:
            state = _mixed(state, _UNMIX if decrypts else _MIX)
        return bytes(a ^ b for a, b in zip(state, key, strict=True))

    return by_half(apply)


def _help_with_key(sources: Bytes, immediate: int) -> bytes:
    box = _Aes.box()
    second, fourth = (bytes(box[byte] for byte in sources[0][at : at + 4]) for at in (4, 12))
    turned = [(word[1:] + word[:1]) for word in (second, fourth)]
    first, last = (bytes([word[0] ^ immediate]) + word[1:] for word in turned)
    return second + first + fourth + last


def _multiply_without_carry(sources: Bytes, immediate: int) -> bytes:
    a, b = (lanes_of(source, 8)[immediate >> bit & 1] for source, bit in zip(sources, (0, 4), strict=True))
    product = 0
    for bit in range(64):
        if b >> bit & 1:
            product ^= a << bit
    return product.to_bytes(XMM_BYTES, "little")


_LETTERS: Final = (("b", 1), ("w", 2), ("d", 4), ("q", 8))
_CODES: Final = (("s", _SINGLE), ("d", _DOUBLE))

OPERATIONS: Final[dict[str, Operation]] = {
    **{f"vpmins{letter}": lanewise(width, min, signed=True) for letter, width in _LETTERS},
    **{f"vpmaxs{letter}": lanewise(width, max, signed=True) for letter, width in _LETTERS},
    **{f"vpsign{letter}": _signed_by(width) for letter, width in _LETTERS[:3]},
    **{
        f"vp{name}{letters}": _saturated(1 if letters[-1] == "b" else 2, letters, function)
        for name, function in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b))
        for letters in _CLAMPS
    },
    **{f"vpavg{letter}": lanewise(width, lambda a, b: a + b + 1 >> 1) for letter, width in _LETTERS[:2]},
    "vpmullw": lanewise(2, lambda a, b: a * b),
    "vpmulhw": lanewise(2, lambda a, b: a * b >> 16, signed=True),
    "vpmulhuw": lanewise(2, lambda a, b: a * b >> 16),
    "vpmulhrsw": lanewise(2, lambda a, b: (a * b >> 14) + 1 >> 1, signed=True),
    "vpmuldq": _multiply_even,
    "vpmaddubsw": _multiply_bytes,
    "vpmaddwd": _multiply_words,
    "vpsadbw": _differences,
    **{f"vphadd{letter}": _neighbours(width, lambda a, b: a + b) for letter, width in _LETTERS[1:3]},
    **{f"vphsub{letter}": _neighbours(width, lambda a, b: a - b) for letter, width in _LETTERS[1:3]},
    "vphaddsw": _neighbours(2, lambda a, b: _CLAMPS["sw"](a + b)),
    "vphsubsw": _neighbours(2, lambda a, b: _CLAMPS["sw"](a - b)),
    "vpacksswb": _narrowed(2, "sb"),
    "vpackuswb": _narrowed(2, "usb"),
    "vpackssdw": _narrowed(4, "sw"),
    "vpackusdw": _narrowed(4, "usw"),
    **{f"vpsra{letter}": _shift_right(width) for letter, width in _LETTERS[1:]},
    "vshufpd": _shuffle_doubles,
    **{name: _blend(width) for name, width in (("vpblendw", 2), ("vblendpd", 8))},
    **{name: _blend_by_sign(width) for name, width in (("vpblendvb", 1), ("vblendvps", 4), ("vblendvpd", 8))},
    **{f"vpsllv{letter}": _shift_lanes(width, lambda a, by: a << by) for letter, width in _LETTERS[1:]},
    **{f"vpsrlv{letter}": _shift_lanes(width, lambda a, by: a >> by) for letter, width in _LETTERS[1:]},
    **{f"vpsrav{letter}": _shift_lanes(width, lambda a, by: a >> by, signed=True) for letter, width in _LETTERS[1:]},
    **{f"vpermilp{letter}": _permute_in_halves(width) for letter, width in (("s", 4), ("d", 8))},
    **{
        f"v{name}{kind}{letter}": make(code, function)
        for name, function in (("min", _least), ("max", _greatest))
        for kind, make in (("p", _packed_pairs), ("s", _scalar_pair))
        for letter, code in _CODES
    },
    **{f"vsqrts{letter}": _scalar_pair(code, _square_root) for letter, code in _CODES},
    **{f"vhaddp{letter}": _pairs_of_numbers(code, lambda a, b: a + b) for letter, code in _CODES},
    **{f"vhsubp{letter}": _pairs_of_numbers(code, lambda a, b: a - b) for letter, code in _CODES},
    **{f"vaddsubp{letter}": _minus_then_plus(code) for letter, code in _CODES},
    **{f"vrounds{letter}": _round_one(code) for letter, code in _CODES},
    **{f"vdpp{letter}": _dot_product(code) for letter, code in _CODES},
    "vinsertps": _insert_single,
    "vaesenc": _aes_round(decrypts=False, is_last=False),
    "vaesenclast": _aes_round(decrypts=False, is_last=True),
    "vaesdec": _aes_round(decrypts=True, is_last=False),
    "vaesdeclast": _aes_round(decrypts=True, is_last=True),
    "vpclmulqdq": by_half(_multiply_without_carry),
}
"""Those with two sources, or a source and a number."""

UNARY_OPERATIONS: Final[dict[str, Operation]] = {
    **{f"vpabs{letter}": _absolute(width) for letter, width in _LETTERS},
    "vphminposuw": _smallest_word,
    "vpshuflw": _shuffle_words(0),
    "vpshufhw": _shuffle_words(4),
    **{f"vroundp{letter}": _round_lanes(code) for letter, code in _CODES},
    **{
        f"vsqrtp{letter}": lambda sources, _, code=code: _to_bytes(  # type: ignore[misc]
            code, [_square_root(0, value) for value in _finite_numbers(code, sources[0])]
        )
        for letter, code in _CODES
    },
    "vcvtdq2ps": lambda sources, _: _to_bytes(_SINGLE, list(map(float, signed_lanes_of(sources[0], 4)))),
    "vcvttps2dq": lambda sources, _: _integers(sources[0], math.trunc),
    "vcvtps2dq": lambda sources, _: _integers(sources[0], round),
    "vmovsldup": _duplicate(0),
    "vmovshdup": _duplicate(1),
    "vaesimc": by_half(lambda sources, _: _mixed(sources[0], _UNMIX)),
    "vaeskeygenassist": _help_with_key,
}
"""Those that do not read their target in the form without VEX either."""

FMA: Final = _fma_operations()
"""Those whose target is the first of three sources."""

CONVERSIONS: Final = {
    "vcvtps2pd": (_SINGLE, _DOUBLE),
    "vcvtpd2ps": (_DOUBLE, _SINGLE),
    "vcvtph2ps": (_HALF, _SINGLE),
    "vcvtps2ph": (_SINGLE, _HALF),
    "vcvtdq2pd": ("<i", _DOUBLE),
}
"""From which numbers to which."""
