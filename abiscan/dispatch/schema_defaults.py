"""Store, print and parse the default values of arguments, as each release of torch does.

Sources: ``operator<<`` of ``IValue`` and ``Argument``, ``c10/util/StringUtil.h``, ``parseDefaultValue`` and
``parseConstantList`` in ``torch/csrc/jit/frontend/function_schema_parser.cpp``.
"""

from __future__ import annotations

import enum
import math
import re
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from abiscan.dispatch.schema_lexer import Span, Tokens
from abiscan.dispatch.schema_types import INT, PRINTS_AS_WRITTEN, Type, TypeKind
from abiscan.inputs.version import MinorVersion
from abiscan.regex import regex

_QUOTES_OPTIONAL_STRINGS: Final = (1, 9)  # str? x="a", which was str? x=a
_LONGEST_REPEAT: Final = 65_536  # values of a default that ``int[N] x=1`` repeats N times


class NoDefault(enum.Enum):
    """Marks an argument without a default, since None is an ordinary default."""

    NO_DEFAULT = enum.auto()


NO_DEFAULT: Final = NoDefault.NO_DEFAULT


class Device(Struct, frozen=True):
    """A device as a default: ``cuda:1``."""

    text: str

    def __str__(self) -> str:
        return self.text


Scalar: TypeAlias = bool | int | float | complex | str | Device | None
Default: TypeAlias = Scalar | tuple[Scalar, ...]


def comparison_key(default: Default | Literal[NoDefault.NO_DEFAULT]) -> object:
    """Return the value by which a default is compared."""
    # torch distinguishes 1, 1. and True, Python does not.
    if isinstance(default, tuple):
        return tuple((type(item), item) for item in default)
    return type(default), default


def print_default(default: Default, type_: Type, release: MinorVersion) -> str:
    """Print a default as a release does."""
    if isinstance(default, tuple):
        # Only int, not SymInt, and from two values on.
        folds = release >= PRINTS_AS_WRITTEN and type_.kind is TypeKind.LIST and type_.element == INT
        if folds and len(default) > 1 and len(set(default)) == 1:
            return str(default[0])
        return f"[{', '.join([_print_scalar(item) for item in default])}]"
    if isinstance(default, str):
        quotes = type_.kind is TypeKind.STRING or (
            release >= _QUOTES_OPTIONAL_STRINGS
            and type_.kind is TypeKind.OPTIONAL
            and type_.element.kind is TypeKind.STRING
        )
        return _quote(default) if quotes else default
    return _print_scalar(default)


def _print_scalar(value: Scalar) -> str:
    """Print a single value."""
    match value:
        case float():
            return _print_float(value)
        case complex():
            sign = "+" if value.imag >= 0 else "-"
            return f"{_print_float(value.real)}{sign}{_print_float(abs(value.imag))}j"
    return str(value)


def _print_float(value: float) -> str:
    """Print a floating-point number as torch does: ``1.`` for a whole one."""
    # operator<< of IValue: a value that fits an int64_t is printed as one, with a point; otherwise with 17 digits.
    if -(2.0**63) <= value < 2.0**63 and value == int(value):
        return f"{int(value)}."
    return f"{value:.17g}"


_ESCAPES: Final = {
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


def _quote(text: str) -> str:
    """Quote a string as ``printQuotedString`` of c10/util/StringUtil.h does."""
    parts = []
    for byte in text.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        if character in _ESCAPES:
            parts.append(_ESCAPES[character])
        elif 0x1F < byte < 0x7F:
            parts.append(character)
        else:
            parts.append(_escape_octal(byte))
    return f'"{"".join(parts)}"'


def _escape_octal(byte: int) -> str:
    """Print a byte as torch's octal escape, with its error for bytes from 0x80 on."""
    # The digits are made from a char, signed on x86_64: bytes from 0x80 on have "digits" below "0". -61 is ``\0)+``.
    magnitude, sign = (byte, 1) if byte < 0x80 else (0x100 - byte, -1)
    return "\\" + "".join(
        chr(ord("0") + sign * digit) for digit in (magnitude // 64, magnitude // 8 % 8, magnitude % 8)
    )


_BYTE_OF_OCTAL: Final = {_escape_octal(byte): byte for byte in range(0x80, 0x100)}


_DTYPES: Final = {
    name: number
    for number, names in {
        0: "uint8",
        1: "int8",
        2: "int16 short",
        3: "int32 int",
        4: "int64 long",
        5: "float16 half",
        6: "float32 float",
        7: "float64 double",
        8: "complex32 chalf",
        9: "complex64 cfloat",
        10: "complex128 cdouble",
        11: "bool",
        12: "qint8",
        13: "quint8",
        14: "qint32",
        15: "bfloat16",
        16: "quint4x2",
        17: "quint2x4",
        18: "bits1x8",
        19: "bits2x4",
        20: "bits4x2",
        21: "bits8",
        22: "bits16",
        23: "float8_e5m2",
        24: "float8_e4m3fn",
        25: "float8_e5m2fnuz",
        26: "float8_e4m3fnuz",
        27: "uint16",
        28: "uint32",
        29: "uint64",
        30: "uint1 bit",
        31: "uint2",
        32: "uint3",
        33: "uint4",
        34: "uint5",
        35: "uint6",
        36: "uint7",
        37: "int1",
        38: "int2",
        39: "int3",
        40: "int4",
        41: "int5",
        42: "int6",
        43: "int7",
        44: "float8_e8m0fnu",
        45: "float4_e2m1fn_x2",
    }.items()
    for name in names.split()
}
# Names that stand for a number for any type: at::kFloat, kStrided, Reduction::Mean, MemoryFormat::Contiguous.
_NAMED_NUMBERS: Final = {"float": 6, "complex": 9, "long": 4, "strided": 0, "Mean": 1, "contiguous_format": 0}

_DEVICE_TYPES: Final = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
    "privateuseone"
)
_DEVICE: Final = regex(r"([A-Za-z_]+)(?::(0|[1-9][0-9]*))?")

_LONGEST_INTEGER: Final = 4_000  # characters, including leading zeros; int() itself rejects slightly longer texts
_LEADING_INTEGER: Final = regex(r"-?[0-9]+")
_LEADING_FLOAT: Final = regex(
    r"[+-]?(?:0x(?P<hex>[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?"
    r"|(?P<decimal>[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)",
    re.IGNORECASE,
)
_NONZERO_DIGIT: Final = regex(r"[1-9a-f]", re.IGNORECASE)
_SMALLEST_NORMAL: Final = 2.0**-1022

_ESCAPED: Final = regex(r"(?s)\\(?:(?P<octal>[0-7]{3})|(?P<signed>[./0][)-0]{2})|(?P<single>.))")
_SINGLE_ESCAPES: Final = {
    "\\": "\\",
    "'": "'",
    '"': '"',
    "\n": "\n",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "v": "\v",
    "t": "\t",
}


_CONSTANTS: Final[dict[str, Scalar]] = {"True": True, "False": False, "None": None}
_LIST_VALUES: Final = {
    TypeKind.COMPLEX: complex,
    TypeKind.FLOAT: float,
    TypeKind.INT: int,
    TypeKind.BOOL: bool,
}
_EXPECTED: Final = {float: "double", int: "int", bool: "bool"}
_IVALUE_TAGS: Final[dict[type, str]] = {
    type(None): "None",
    bool: "Bool",
    int: "Int",
    float: "Double",
    complex: "ComplexDouble",
    str: "String",
}


class DefaultReader(Tokens):
    """The part of torch's parser that reads defaults; ``_default_value`` begins at the token after the ``=``."""

    __slots__ = ()

    def _default_value(self, type_: Type, size: int | None) -> Default:
        """Read the default of an argument of a type (``parseDefaultValue``)."""
        span = self._spans[self._at]
        match type_.fake.kind:
            case TypeKind.TENSOR | TypeKind.GENERATOR | TypeKind.QUANTIZER:
                self._expect("None")
                return None
            case (
                TypeKind.STRING
                | TypeKind.OPTIONAL
                | TypeKind.NUMBER
                | TypeKind.INT
                | TypeKind.BOOL
                | TypeKind.FLOAT
                | TypeKind.COMPLEX
            ):
                return self._constant(type_)
            case TypeKind.DEVICE:
                return self._make_device()
            case TypeKind.LIST:
                return self._read_list_default(type_.element, size)
        raise self._fault("unexpected type, file a bug report", span)

    def _read_list_default(self, element: Type, size: int | None) -> Default:
        """Read the default of a list: values in brackets, or one value that a list of fixed size repeats."""
        span = self._spans[self._at]
        # A word can only be None here (parseTensorDefault), which is a token of its own: so this is always an error.
        if self._kind() == "ident":
            self._expect("None")
        folded = not self._strict and element == INT and self._kind() in ("number", "-")
        # int[2] x=1 is [1, 1]: a single value is repeated as often as the size says.
        if self._kind() != "[" and (size is not None or folded):
            value = self._constant(element)
            # torch prints [1, 1] of an int[] as 1 too; the number of repetitions is lost.
            count = 2 if size is None else size
            if not 0 <= count <= _LONGEST_REPEAT:
                raise self._refusal("cannot create std::vector larger than max_size()", span)
            return self._check_elements([value] * count, element, span)
        self._expect("[")
        values: list[Scalar] = []
        if self._kind() != "]":
            values.append(self._constant(element))
            while self._next_if(","):
                values.append(self._constant(element))
        self._expect("]")
        return self._check_elements(values, element, span)

    def _check_elements(self, values: list[Scalar], element: Type, span: Span) -> tuple[Scalar, ...]:
        """Check that all values of a list have the type of its elements (``convertToList``)."""
        expected_type = _LIST_VALUES.get(element.fake.kind)
        if expected_type is None:
            raise self._fault("lists are only supported for float, int and complex types", span)
        for value in values:
            if type(value) is not expected_type:
                tag = _IVALUE_TAGS[type(value)]
                raise self._refusal(
                    f"Expected ComplexDouble but got {tag}"
                    if expected_type is complex
                    else f"expected {_EXPECTED[expected_type]}",
                    span,
                )
        return tuple(values)

    def _make_device(self) -> Device:
        """Read a device, in quotes or, as torch prints it, without."""
        span = self._spans[self._at]
        if self._is_unquoted_device():
            return Device(self._unquoted_device())
        text = self._string(self._expect("string_literal"), span)
        if not text:
            raise self._refusal("Device string must not be empty", span)
        matched = _DEVICE.fullmatch(text)
        if matched is None:
            raise self._refusal(f"Invalid device string: '{text}'", span)
        name, index = matched.groups()
        if name not in _DEVICE_TYPES.split(", "):
            raise self._refusal(f"Expected one of {_DEVICE_TYPES} device type at start of device string: {name}", span)
        if index is None:
            return Device(name)
        if len(index) > 10 or int(index) >= 2**31:
            raise self._refusal(f"Could not parse device index '{index}' in device string '{text}'", span)
        return Device(f"{name}:{(int(index) + 128) % 256 - 128}")  # DeviceIndex is an int8_t

    def _is_unquoted_device(self) -> bool:
        """Tell whether a device follows without quotes, which torch prints but does not read."""
        start, end = self._spans[self._at]
        return not self._strict and self._kind() == "ident" and self._text[start:end] in _DEVICE_TYPES.split(", ")

    def _unquoted_device(self) -> str:
        """Read a device without quotes: ``cuda:1``."""
        text = self._expect("ident")
        if self._next_if(":"):
            text += ":" + ("-" if self._next_if("-") else "") + self._expect("number")
        return text

    def _constant(self, type_: Type) -> Scalar:
        """Read a single value (``parseSingleConstant``)."""
        kind = self._kind()
        span = self._spans[self._at]
        if kind in _CONSTANTS:
            self._at += 1
            return _CONSTANTS[kind]
        if kind == "string_literal":
            self._at += 1
            return self._string(self._text[span[0] : span[1]], span)
        if kind == "ident":
            return self._named_constant(type_)
        sign = "-" if self._next_if("-") else ""
        number = sign + self._expect("number")
        if not self._strict and self._kind() in ("+", "-") and self._text[self._spans[self._at + 1][1] - 1] == "j":
            # torch prints a complex number in two parts.
            return complex(self._to_float(number), self._to_float(self._next() + self._expect("number")))
        if type_.kind is TypeKind.COMPLEX or "j" in number:
            return complex(0.0, self._to_float(number[:-1]))
        # The text decides as much as the type: 1e5 is a double even for an int, and 1E5 is the integer 1 (stoll).
        if type_.kind is TypeKind.FLOAT or "." in number or "e" in number:
            return self._to_float(number)
        return self._to_integer(number)

    def _named_constant(self, type_: Type) -> Scalar:
        """Read a name that stands for a value: of a dtype, a layout, a reduction."""
        if type_.kind is TypeKind.OPTIONAL and type_.element.kind is TypeKind.DEVICE and self._is_unquoted_device():
            return self._unquoted_device()
        word = self._expect("ident")
        if word in _NAMED_NUMBERS:
            return _NAMED_NUMBERS[word]
        value_type = type_.element if type_.kind is TypeKind.OPTIONAL else type_
        if value_type.kind is TypeKind.SCALAR_TYPE and word in _DTYPES:
            return _DTYPES[word]
        raise self._fault("invalid numeric default value")

    def _to_integer(self, number: str) -> int:
        """Convert as ``std::stoll``: text after the first integer is ignored, so ``1E5`` is 1 and ``0x10`` is 0."""
        matched = _LEADING_INTEGER.match(number)
        if matched is None or len(matched[0]) > _LONGEST_INTEGER or not -(2**63) <= int(matched[0]) < 2**63:
            raise self._refusal("stoll", self._last_span())
        return int(matched[0])

    def _to_float(self, number: str) -> float:
        """Convert as ``std::stod``, which rejects values that are too large or too small for a normal double."""
        matched = _LEADING_FLOAT.match(number)
        if matched is None:
            raise self._refusal("stod", self._last_span())
        try:
            value = float.fromhex(matched[0]) if matched["hex"] else float(matched[0])
        except OverflowError:
            value = math.inf
        # Hexadecimal digits can be exact when decimal ones are rounded, and only rounding is an error.
        smallest = _SMALLEST_NORMAL if matched["decimal"] else math.ulp(0.0)
        vanished = abs(value) < smallest and _NONZERO_DIGIT.search(matched["decimal"] or matched["hex"])
        if abs(value) == math.inf or vanished:
            raise self._refusal("stod", self._last_span())
        return value

    def _string(self, literal: str, span: Span) -> str:
        """Read the contents of a string literal, with its escapes."""
        quotes = 3 if literal[:3] in ("'" * 3, '"' * 3) else 1
        content = literal[quotes:-quotes]
        if "\\" not in content:
            return content

        def unescape(match: re.Match[str]) -> str:
            byte = int(match["octal"] or "400", 8)
            if match["signed"] and not self._strict:
                byte = _BYTE_OF_OCTAL.get(match[0], byte)
            if byte < 256:
                return chr(byte)
            character = match[0][1]
            if character in _SINGLE_ESCAPES:
                return _SINGLE_ESCAPES[character]
            if character == "r" and not self._strict:
                return "\r"
            raise self._fault(
                {
                    "x": "unsupported hex specifier",
                    "u": "unsupported unicode specifier",
                    "U": "unsupported unicode specifier",
                }.get(character, " ill formed octal specifier"),
                span,
            )

        # Escapes stand for bytes, so the result is assembled from bytes.
        content = _ESCAPED.sub(unescape, content.encode("utf-8", "surrogateescape").decode("latin-1"))
        return content.encode("latin-1").decode("utf-8", "surrogateescape")
