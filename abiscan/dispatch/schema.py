"""The operator schema language of torch: parse, print, compare.

    aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor

Words and rules are those of torch: grammar in ``torch/csrc/jit/frontend/{lexer.h, function_schema_parser.cpp,
schema_type_parser.cpp}``, meaning in ``aten/src/ATen/core/{function_schema, alias_info, jit_type, union_type}``.
``parse`` accepts what torch accepts and refuses the rest in torch's words; ``str`` is what torch prints.

torch prints a few things that it does not read itself: the alias set ``$0`` behind ``Tensor!``, ``0.+1.j``, the
default ``cpu`` without quotes. Such strings come out of every dump of a dispatcher, so they are read here, unless
``strict`` asks for torch's own judgement.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, Literal, TypeAlias

from abiscan.dispatch.schema_lexer import INVALID, SchemaError, Span, Tokens
from abiscan.dispatch.schema_types import ATOMS, INT, NEWEST, TENSOR, Type, TypeKind, list_of, optional, union
from abiscan.inputs.version import MinorVersion

__all__ = [
    "NEWEST",
    "NO_DEFAULT",
    "TYPE_ADVICE",
    "AliasInfo",
    "Argument",
    "Default",
    "Device",
    "Difference",
    "FunctionSchema",
    "NoDefault",
    "OperatorName",
    "Scalar",
    "SchemaError",
    "Type",
    "TypeKind",
    "parse_name_or_schema",
]

# The releases from which on a schema is printed otherwise: operator<< of Argument and FunctionSchema in the headers
# function_schema.h and function_schema_inl.h of one wheel per release, 1.4 to 2.9.
_SIZES_OPTIONAL_LISTS: Final = (1, 7)  # int[2]?, which was int[]?
_QUOTES_OPTIONAL_STRINGS: Final = (1, 9)  # str? x="a", which was str? x=a
_PRINTS_AS_WRITTEN: Final = (1, 13)  # ScalarType, which was int; -> Tensor, which was -> (Tensor); int[2] x=1

TYPE_ADVICE: Final = (
    ". Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; for a full list, please see "
    "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func "
)
"""What torch adds where a schema has an unknown type, from 2.4 on."""

_DEEPEST: Final = 50  # types inside each other; torch itself has at most 4, and a stack is finite
_WIDEST_UNION: Final = 50  # members, each of which is compared with each
_LONGEST_REPEAT: Final = 65_536  # values of a default that ``int[N] x=1`` repeats N times


class NoDefault(enum.Enum):
    """The mark of an argument that has no default; None is a default like others."""

    NO_DEFAULT = enum.auto()


NO_DEFAULT: Final = NoDefault.NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Device:
    """A device as a default: ``cuda:1``."""

    text: str

    def __str__(self) -> str:
        return self.text


Scalar: TypeAlias = bool | int | float | complex | str | Device | None
Default: TypeAlias = Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AliasInfo:
    """The annotation of a type: ``(a! -> a|b)``. Sets are in the order in which they were written.

    ``contained`` are the annotations of the elements of a list, whose own sets may then be empty.
    """

    is_write: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    contained: tuple[AliasInfo, ...] = ()

    def _key(self) -> tuple[object, ...]:
        return self.is_write, frozenset(self.before), frozenset(self.after), self.contained

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, AliasInfo) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        # The sets are unordered_sets of libstdc++, which hand out last what they were given first.
        after = ""
        if frozenset(self.before) != frozenset(self.after):
            after = f" -> {'|'.join(reversed(self.after))}"
        return f"({'|'.join(reversed(self.before))}{'!' if self.is_write else ''}{after})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Argument:
    """An argument or a return. ``size`` is the N of ``int[N]``."""

    name: str
    type: Type
    size: int | None = None
    default: Default | Literal[NoDefault.NO_DEFAULT] = NO_DEFAULT
    kwarg_only: bool = False
    alias: AliasInfo | None = None

    @property
    def has_default(self) -> bool:
        """Whether the argument can be left out."""
        return self.default is not NO_DEFAULT

    @property
    def is_out(self) -> bool:
        """Whether torch takes it for an output that the caller provides."""
        return self.kwarg_only and self.alias is not None and self.alias.is_write

    def is_backward_compatible_with(self, old: Argument) -> bool:
        """Whether it can be called where ``old`` was declared."""
        return self._same_role(old) and old.type.compared.is_subtype_of(self.type.compared)

    def is_forward_compatible_with(self, old: Argument) -> bool:
        """Whether a caller of it can be served by ``old``."""
        return (
            self._same_role(old)
            and self.type.compared.is_subtype_of(old.type.compared)
            and (old.has_default or not self.has_default)
        )

    def _same_role(self, old: Argument) -> bool:
        return (
            self.name == old.name
            and self.size == old.size
            and self.alias == old.alias
            and (old.kwarg_only or not self.kwarg_only)
            and (not old.has_default or _identity(self.default) == _identity(old.default))
        )

    def _key(self) -> tuple[object, ...]:
        return self.name, self.type.compared, self.size, _identity(self.default), self.kwarg_only, self.alias

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Argument) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def printed_by(self, release: MinorVersion) -> str:
        """The argument as a release of torch prints it."""
        type_, suffix = self.type, ""
        if release < _PRINTS_AS_WRITTEN:
            type_ = type_.fake
        whole = type_
        if type_.kind is TypeKind.OPTIONAL:
            type_, suffix = type_.element, "?"
        if type_.kind is TypeKind.LIST:
            size = "" if self.size is None or (suffix and release < _SIZES_OPTIONAL_LISTS) else self.size
            elements = ""
            if self.alias is not None and self.alias.contained and release >= _PRINTS_AS_WRITTEN:
                elements = str(self.alias.contained[0])
            text = f"{type_.element.printed_by(release)}{elements}[{size}]"
        else:
            text = type_.printed_by(release)
        if self.alias is not None and self.alias.before:
            text += str(self.alias)
        text += suffix
        if self.name:
            text += f" {self.name}"
        if self.default is not NO_DEFAULT:
            text += f"={_printed_default(self.default, whole, release)}"
        return text

    def __str__(self) -> str:
        return self.printed_by(NEWEST)


def _identity(default: Default | Literal[NoDefault.NO_DEFAULT]) -> object:
    # torch tells 1, 1. and True apart, Python does not.
    if isinstance(default, tuple):
        return tuple((type(item), item) for item in default)
    return type(default), default


def _printed_default(default: Default, type_: Type, release: MinorVersion) -> str:
    if isinstance(default, tuple):
        # Only int, not SymInt, and from two values on.
        folds = release >= _PRINTS_AS_WRITTEN and type_.kind is TypeKind.LIST and type_.element == INT
        if folds and len(default) > 1 and len(set(default)) == 1:
            return str(default[0])
        return f"[{', '.join([_printed_scalar(item) for item in default])}]"
    if isinstance(default, str):
        quotes = type_.kind is TypeKind.STRING or (
            release >= _QUOTES_OPTIONAL_STRINGS
            and type_.kind is TypeKind.OPTIONAL
            and type_.element.kind is TypeKind.STRING
        )
        return _quoted(default) if quotes else default
    return _printed_scalar(default)


def _printed_scalar(value: Scalar) -> str:
    match value:
        case float():
            return _printed_float(value)
        case complex():
            sign = "+" if value.imag >= 0 else "-"
            return f"{_printed_float(value.real)}{sign}{_printed_float(abs(value.imag))}j"
    return str(value)


def _printed_float(value: float) -> str:
    # operator<< of IValue: what an int64_t can hold is printed as one, with a point; else 17 digits.
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


def _quoted(text: str) -> str:
    """A string as ``printQuotedString`` of c10/util/StringUtil.h writes it."""
    parts = []
    for byte in text.encode("utf-8", "surrogateescape"):
        character = chr(byte)
        if character in _ESCAPES:
            parts.append(_ESCAPES[character])
        elif 0x1F < byte < 0x7F:
            parts.append(character)
        else:
            parts.append(_octal(byte))
    return f'"{"".join(parts)}"'


def _octal(byte: int) -> str:
    # The digits are made from a char, signed on x86_64: bytes from 0x80 on have "digits" below "0". -61 is ``\0)+``.
    rest, sign = (byte, 1) if byte < 0x80 else (0x100 - byte, -1)
    return "\\" + "".join(chr(ord("0") + sign * digit) for digit in (rest // 64, rest // 8 % 8, rest % 8))


_BYTE_OF_OCTAL: Final = {_octal(byte): byte for byte in range(0x80, 0x100)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorName:
    """The name of an operator: ``aten::add.Tensor``. ``namespace`` and ``overload`` can be empty."""

    namespace: str = ""
    name: str
    overload: str = ""

    @classmethod
    def parse(cls, text: str) -> OperatorName:
        """Parse a name alone.

        :raises SchemaError: where torch's ``parseName`` throws
        """
        parsed = parse_name_or_schema(text)
        if isinstance(parsed, FunctionSchema):
            problem = "Tried to parse an operator name but function schema was given"
            raise SchemaError(problem, problem=problem, position=0)
        return parsed

    def __str__(self) -> str:
        text = f"{self.namespace}::{self.name}" if self.namespace else self.name
        return f"{text}.{self.overload}" if self.overload else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first difference between two schemas: ``place`` is ``argument 9 'include_last_offset'``, for example.

    ``what`` is the property that differs there, in a word; ``first`` and ``second`` are its two values, or empty where
    one schema has nothing at that place.
    """

    place: str
    what: str
    first: str
    second: str

    def __str__(self) -> str:
        if not (self.first and self.second):
            return f"only one of them has {self.place}: {self.first or self.second}"
        return f"{self.place} has a different {self.what}: {self.first} vs {self.second}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FunctionSchema:
    """The schema of an operator. ``text`` is what it was parsed from, and no part of it."""

    name: OperatorName
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    is_vararg: bool = False
    is_varret: bool = False
    text: str = field(default="", repr=False)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        strict: bool = False,
        allow_typevars: bool = True,
        classes: Collection[str] | None = None,
    ) -> FunctionSchema:
        """Parse a schema; see ``parse_name_or_schema`` for the parameters.

        :raises SchemaError: where torch's ``parseSchema`` throws
        """
        parsed = parse_name_or_schema(text, strict=strict, allow_typevars=allow_typevars, classes=classes)
        if isinstance(parsed, OperatorName):
            problem = "Tried to parse a function schema but only the operator name was given"
            raise SchemaError(problem, problem=problem, position=len(text))
        return parsed

    def _key(self) -> tuple[object, ...]:
        return self.name, self.arguments, self.returns, self.is_vararg, self.is_varret

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, FunctionSchema) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def printed_by(self, release: MinorVersion) -> str:
        """The schema as a release of torch prints it, say in its messages."""
        arguments = []
        starred = False
        for argument in self.arguments:
            star = "*, " if argument.kwarg_only and not starred else ""
            starred = starred or argument.kwarg_only
            arguments.append(star + argument.printed_by(release))
        if self.is_vararg:
            arguments.append("...")
        returns = [argument.printed_by(release) for argument in self.returns]
        if self.is_varret:
            returns.append("...")
        # One return stands alone, but if its own type begins with a parenthesis it would be read as several.
        alone = release >= _PRINTS_AS_WRITTEN and len(returns) == 1 and not returns[0].startswith("(")
        result = returns[0] if alone else f"({', '.join(returns)})"
        return f"{self.name}({', '.join(arguments)}) -> {result}"

    def __str__(self) -> str:
        return self.printed_by(NEWEST)

    def is_backward_compatible_with(self, old: FunctionSchema) -> bool:
        """Whether every call made for ``old`` is also a call of this schema."""
        if not self._same_shape(old) or len(self.arguments) < len(old.arguments):
            return False
        # What is returned may become narrower, so here the old one has to accept the new.
        if not all(its.is_backward_compatible_with(mine) for mine, its in zip(self.returns, old.returns, strict=True)):
            return False
        old_outs, new_outs = old._first_out(), self._first_out()
        if not all(
            mine.is_backward_compatible_with(its)
            for mine, its in zip(self.arguments, old.arguments[:old_outs], strict=False)
        ):
            return False
        if not all(argument.has_default for argument in self.arguments[old_outs:new_outs]):
            return False
        outs, its_outs = self.arguments[new_outs:], old.arguments[old_outs:]
        return len(outs) >= len(its_outs) and all(
            mine.is_backward_compatible_with(its) for mine, its in zip(outs, its_outs, strict=False)
        )

    def is_forward_compatible_with(self, old: FunctionSchema) -> bool:
        """Whether calls made for this schema, without its new arguments, are calls of ``old``."""
        if not self._same_shape(old):
            return False
        old_outs, new_outs = old._first_out(), self._first_out()
        outs, its_outs = self.arguments[new_outs:], old.arguments[old_outs:]
        if len(outs) != len(its_outs):
            return False
        inputs = zip(self.arguments[:new_outs], old.arguments[:old_outs], strict=False)
        if not all(mine.is_forward_compatible_with(its) for mine, its in inputs):
            return False
        added = self.arguments[old_outs:new_outs]
        if not all(argument.has_default and not isinstance(argument.default, tuple) for argument in added):
            return False
        return all(mine.is_forward_compatible_with(its) for mine, its in zip(outs, its_outs, strict=True))

    def _same_shape(self, old: FunctionSchema) -> bool:
        return (
            self.name == old.name
            and self.is_vararg == old.is_vararg
            and self.is_varret == old.is_varret
            and len(self.returns) == len(old.returns)
        )

    def _first_out(self) -> int:
        return next((index for index, argument in enumerate(self.arguments) if argument.is_out), len(self.arguments))

    def first_difference(self, other: FunctionSchema) -> Difference | None:
        """Why the two are not equal: the first difference from left to right, None if they are equal."""
        if self.name != other.name:
            return Difference(place="the operator", what="name", first=str(self.name), second=str(other.name))
        for place, mine, its in (
            ("argument", self.arguments, other.arguments),
            ("return", self.returns, other.returns),
        ):
            for index, (first, second) in enumerate(zip_longest(mine, its), 1):
                if first == second:
                    continue
                if first is None or second is None:
                    extra = first or second
                    return Difference(
                        place=f"{place} {index}" + (f" '{extra.name}'" if extra is not None and extra.name else ""),
                        what="presence",
                        first=str(first or ""),
                        second=str(second or ""),
                    )
                return _difference(f"{place} {index}" + (f" '{first.name}'" if first.name else ""), first, second)
        for what, mine_is, its_is in (
            ("the variable arguments", self.is_vararg, other.is_vararg),
            ("the variable returns", self.is_varret, other.is_varret),
        ):
            if mine_is != its_is:
                return Difference(
                    place=what, what="presence", first="..." if mine_is else "", second="..." if its_is else ""
                )
        return None


def _difference(place: str, first: Argument, second: Argument) -> Difference:
    def values(argument: Argument) -> Iterator[tuple[str, object, str]]:
        yield "name", argument.name, argument.name or "none"
        yield "type", argument.type.compared, str(argument.type)
        yield "size", argument.size, "none" if argument.size is None else str(argument.size)
        yield "alias annotation", argument.alias, "none" if argument.alias is None else str(argument.alias)
        printed = (
            "none" if argument.default is NO_DEFAULT else _printed_default(argument.default, argument.type, NEWEST)
        )
        yield "default", _identity(argument.default), printed
        yield "position", argument.kwarg_only, "keyword-only" if argument.kwarg_only else "positional"

    what, one, two = next(
        (what, mine_text, its_text)
        for (what, mine, mine_text), (_, its, its_text) in zip(values(first), values(second), strict=True)
        if mine != its
    )
    if what == "alias annotation" and one == two:  # only the elements of the list differ
        one, two = str(first), str(second)
    return Difference(place=place, what=what, first=one, second=two)


def parse_name_or_schema(
    text: str,
    *,
    strict: bool = False,
    allow_typevars: bool = True,
    classes: Collection[str] | None = None,
) -> OperatorName | FunctionSchema:
    """Parse a schema, or a name where no argument list follows (torch's ``parseSchemaOrName``).

    :param strict: refuse what torch prints but does not read, and type words that it has forgotten
    :param allow_typevars: whether an unknown type word in lower case is a type variable. ``torch::Library`` says no,
        but for ``aten`` and ``prim``
    :param classes: the custom classes that are registered, as ``ns.Name``; None if any may be
    :raises SchemaError: where torch throws
    """
    allow_typevars = allow_typevars or text.startswith(("aten::", "prim::"))
    return _Parser(text, strict=strict, allow_typevars=allow_typevars, classes=classes).declaration()


# ``SchemaTypeParser::parseBaseType``; the words that are followed by other types are not in it.
_TYPE_WORDS: Final = {kind.value: type_ for kind, type_ in ATOMS.items() if kind is not TypeKind.TENSOR} | {
    "None": ATOMS[TypeKind.NONE],
    "ConstQuantizerPtr": INT,
    "DeviceIndex": INT,
}
# Words that torch knew once: Dimname still in 2.9, not in 2.13.
_FORMER_TYPE_WORDS: Final = {"Dimname": ATOMS[TypeKind.STRING]}
# Words that types in parentheses follow, and how many; a union takes one or more.
_PARAMETERS: Final = {"Future": 1, "Await": 1, "RRef": 1, "Dict": 2, "Union": None}
_DICT_KEYS: Final = (
    TypeKind.ANY,
    TypeKind.BOOL,
    TypeKind.INT,
    TypeKind.FLOAT,
    TypeKind.COMPLEX,
    TypeKind.STRING,
    TypeKind.TENSOR,
    TypeKind.DEVICE,
)


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
# Names that stand for a number whatever the type: at::kFloat, kStrided, Reduction::Mean, MemoryFormat::Contiguous.
_NAMED_NUMBERS: Final = {"float": 6, "complex": 9, "long": 4, "strided": 0, "Mean": 1, "contiguous_format": 0}

_DEVICE_TYPES: Final = (
    "cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, lazy, vulkan, mps, meta, hpu, mtia, "
    "privateuseone"
)
_DEVICE: Final = re.compile(r"([A-Za-z_]+)(?::(0|[1-9][0-9]*))?")

_LONGEST_INTEGER: Final = 4_000  # characters, leading zeros included; int() itself refuses a little more
_LEADING_INTEGER: Final = re.compile(r"-?[0-9]+")
_LEADING_FLOAT: Final = re.compile(
    r"[+-]?(?:0x(?P<hex>[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?[0-9]+)?"
    r"|(?P<decimal>[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)",
    re.IGNORECASE,
)
_NONZERO_DIGIT: Final = re.compile(r"[1-9a-f]", re.IGNORECASE)
_SMALLEST_NORMAL: Final = 2.0**-1022

_ESCAPED: Final = re.compile(r"(?s)\\(?:(?P<octal>[0-7]{3})|(?P<signed>[./0][)-0]{2})|(?P<single>.))")
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


class _Parser(Tokens):
    """Reads one schema; the methods are named after those of torch's parsers."""

    __slots__ = ("_allow_typevars", "_classes", "_fresh", "_nesting")

    def __init__(self, text: str, *, strict: bool, allow_typevars: bool, classes: Collection[str] | None) -> None:
        super().__init__(text, strict=strict)
        self._allow_typevars = allow_typevars
        self._classes = classes
        self._nesting = 0
        self._fresh = 0  # sets that ``Tensor!`` made so far

    def declaration(self) -> OperatorName | FunctionSchema:
        name = self._name()
        parsed: OperatorName | FunctionSchema = name
        if self._kind() == "(":
            parsed = self._schema(name)
        self._next_if("newline")
        self._expect("eof")
        return parsed

    def _name(self) -> OperatorName:
        namespace, name, overload = "", self._expect("ident"), ""
        if self._next_if(":"):
            self._expect(":")
            namespace, name = name, self._expect("ident")
        if self._next_if("."):
            overload = self._expect("ident")
            if overload == "default" or overload.startswith("__"):
                raise self._refusal(f"{overload} is not a legal overload name for aten operators", self._last_span())
        return OperatorName(namespace=namespace, name=name, overload=overload)

    def _schema(self, name: OperatorName) -> FunctionSchema:
        arguments: list[Argument] = []
        kwarg_only = is_vararg = False
        for _ in self._list("(", ")"):
            if is_vararg:
                raise self._fault("... must be the last element of the argument list")
            if self._next_if("*"):
                kwarg_only = True
            elif self._next_if("dots"):
                is_vararg = True
            else:
                arguments.append(self._argument(kwarg_only=kwarg_only))
        if is_vararg and any(argument.has_default for argument in arguments):
            raise self._fault("schemas with vararg (...) can't have default value args")
        self._expect("arrow")
        returns: list[Argument] = []
        is_varret = self._next_if("dots")
        if not is_varret and self._kind() == "(":
            for _ in self._list("(", ")"):
                if is_varret:
                    raise self._fault("... must be the last element of the return list")
                if self._next_if("dots"):
                    is_varret = True
                else:
                    returns.append(self._return())
        elif not is_varret:
            returns.append(self._return())
        schema = FunctionSchema(
            name=name,
            arguments=tuple(arguments),
            returns=tuple(returns),
            is_vararg=is_vararg,
            is_varret=is_varret,
            text=self._text,
        )
        self._check_order(schema)
        return schema

    def _check_order(self, schema: FunctionSchema) -> None:
        seen_default = False
        for argument in schema.arguments:
            if argument.has_default:
                seen_default = True
            elif seen_default and not argument.kwarg_only and argument.type.kind is not TypeKind.LIST:
                raise self._refusal(
                    f"Non-default positional argument follows default argument. Parameter {argument.name} in {schema}"
                )

    def _argument(self, *, kwarg_only: bool) -> Argument:
        type_, alias, size = self._argument_type()
        name = self._expect("ident")
        default: Default | Literal[NoDefault.NO_DEFAULT] = NO_DEFAULT
        if self._next_if("="):
            default = self._default_value(type_, size)
        return Argument(name=name, type=type_, size=size, default=default, kwarg_only=kwarg_only, alias=alias)

    def _return(self) -> Argument:
        type_, alias, size = self._argument_type()
        name = self._expect("ident") if self._kind() == "ident" else ""
        return Argument(name=name, type=type_, size=size, alias=alias)

    def _argument_type(self) -> tuple[Type, AliasInfo | None, int | None]:
        type_, alias = self._type()
        if not self._next_if("["):
            return type_, alias if alias is not None and (alias.before or alias.contained) else None, None
        # A size can only stand at the outermost list of an argument. It is an int32_t.
        size = (self._to_integer(self._expect("number")) + 2**31) % 2**32 - 2**31
        self._expect("]")
        type_, alias = list_of(type_), self._alias_of_list(alias)
        if self._next_if("?"):
            type_ = self._optional(type_)
        return type_, alias, size

    def _type(self) -> tuple[Type, AliasInfo | None]:
        type_, alias = self._unsuffixed_type()
        suffixes = 0
        while suffixes <= _DEEPEST:
            if self._kind() == "[" and self._kinds[self._at + 1] == "]":
                self._at += 2
                type_ = list_of(type_)
                alias = self._alias_of_list(alias)
            elif self._next_if("?"):
                type_ = self._optional(type_)
                if alias is None and not self._strict:  # as torch prints ``Tensor(a)?[]``
                    alias = self._alias()
            else:
                break
            suffixes += 1
        if type_.contained and type_.depth > _DEEPEST:
            raise self._refusal("types are nested too deeply")
        return type_, alias

    def _inner_type(self) -> Type:
        """A type inside of another as torch keeps it: without annotations, and with ``int`` for ``SymInt``."""
        self._nesting += 1
        if self._nesting > _DEEPEST:
            raise self._refusal("types are nested too deeply")
        type_, _ = self._type()
        self._nesting -= 1
        return type_.fake

    def _unsuffixed_type(self) -> tuple[Type, AliasInfo | None]:
        if self._kind() == "(":
            members = [self._inner_type() for _ in self._list("(", ")")]
            return Type(kind=TypeKind.TUPLE, contained=tuple(members)), None
        if self._kind() not in ("ident", "None", "NoneType"):
            raise self._unexpected("ident")
        word = self._next()
        if word == "Tensor":
            return TENSOR, self._alias()
        if word == "__torch__":
            return self._class(), None
        if word in _PARAMETERS:
            return self._parametrised(TypeKind(word))
        return self._base_type(word), self._alias()

    def _parametrised(self, kind: TypeKind) -> tuple[Type, AliasInfo | None]:
        count = _PARAMETERS[kind.value]
        self._expect("(")
        members = [self._inner_type()]
        while len(members) < count if count else self._kind() != ")":
            self._expect(",")
            members.append(self._inner_type())
        self._expect(")")
        type_ = Type(kind=kind, contained=tuple(members))
        if kind is TypeKind.DICT:
            alias = self._alias()
            if members[0].kind not in _DICT_KEYS:
                raise self._refusal(
                    f"Cannot create dict for key type '{members[0]}', "
                    "only int, float, complex, Tensor, device and string keys are supported"
                )
            return type_, alias
        if kind is TypeKind.UNION:
            if len(members) > _WIDEST_UNION:
                raise self._refusal("the union has too many members")
            alias = self._alias()
            type_ = union(type_.contained)
            if type_.kind not in (TypeKind.UNION, TypeKind.OPTIONAL):
                raise self._single_member(tuple(members), type_)
            return type_, alias
        return type_, None

    def _single_member(self, members: tuple[Type, ...], left: Type) -> SchemaError:
        listed = "".join(f"{type_}{',' if index else ''} " for index, type_ in enumerate(members))
        return self._refusal(
            f"After type unification was performed, the Union with the original types {{{listed}}} has the single type "
            f"{left}. Use the common supertype instead of creating a Uniontype"
        )

    def _optional(self, element: Type) -> Type:
        if element.kind is TypeKind.NONE:
            raise self._single_member((element, element), element)
        return optional(element)

    def _class(self) -> Type:
        for expected in ("torch", "classes"):
            self._expect(".")
            word = self._expect("ident")
            if word != expected:
                raise self._fault(f"Expected classes namespace but got {word}", self._last_span())
        self._expect(".")
        namespace = self._expect("ident")
        self._expect(".")
        name = f"{namespace}.{self._expect('ident')}"
        if self._classes is not None and name not in self._classes:
            advice = ". Please ensure it is registered."
            raise self._fault(f"Unknown custom class type {name}", self._last_span(), advice)
        return Type(kind=TypeKind.CLASS, name=f"__torch__.torch.classes.{name}")

    def _base_type(self, word: str) -> Type:
        span = self._last_span()
        while self._kind() == "." and self._kinds[self._at + 1] in ("ident", INVALID):
            self._expect(".")
            word = f"{word}.{self._expect('ident')}"
        type_ = _TYPE_WORDS.get(word)
        if type_ is None and not self._strict:
            type_ = _FORMER_TYPE_WORDS.get(word)
        if type_ is not None:
            return type_
        if self._allow_typevars and "a" <= word[0] <= "z":
            return Type(kind=TypeKind.VAR, name=word)
        if word == "double":
            raise self._fault(
                "Use `float` instead of `double` in an operator's schema string",
                span,
                ". `float` in schema corresponds to the double type in C++",
            )
        if word == "int64_t":
            raise self._fault(
                "Use `SymInt` or `int` instead of `int64_t` in an operator's schema string",
                span,
                ". `SymInt` corresponds to c10::SymInt in C++ while `int` in schema corresponds to the int64_t type in "
                "C++.",
            )
        raise self._fault(
            "unknown type specifier",
            span,
            TYPE_ADVICE,
        )

    def _alias(self) -> AliasInfo | None:
        if self._next_if("!"):
            fresh = f"${self._fresh}"
            self._fresh += 1
            return AliasInfo(is_write=True, before=(fresh,))
        if not self._next_if("("):
            return None
        # torch prints ``()`` or ``(!)`` for a list inside a list, and ``($0! -> )`` for ``Tensor!``.
        before = () if not self._strict and self._kind() in (")", "!") else self._alias_sets()
        is_write = self._next_if("!")
        if self._next_if("arrow"):
            after = () if not self._strict and self._kind() == ")" else self._alias_sets()
        else:
            after = tuple(reversed(before))  # the sets stay the same, but move from one unordered_set to the other
        self._expect(")")
        return AliasInfo(is_write=is_write, before=before, after=after)

    def _alias_sets(self) -> tuple[str, ...]:
        sets: dict[str, None] = {}
        while True:
            if self._next_if("*"):
                sets["*"] = None
            elif "*" not in sets or not self._strict:  # torch ignores what follows, but may print the wildcard first
                sets[self._expect("fresh_set" if self._kind() == "fresh_set" else "ident")] = None
            if not self._next_if("|"):
                return tuple(sets)

    def _alias_of_list(self, elements: AliasInfo | None) -> AliasInfo | None:
        alias = self._alias()
        if elements is None:
            return alias
        if alias is None or not alias.before:
            return AliasInfo(is_write=elements.is_write, contained=(elements,))
        return AliasInfo(is_write=alias.is_write, before=alias.before, after=alias.after, contained=(elements,))

    def _default_value(self, type_: Type, size: int | None) -> Default:
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
                return self._device()
            case TypeKind.LIST:
                return self._list_default(type_.element, size)
        raise self._fault("unexpected type, file a bug report", span)

    def _list_default(self, element: Type, size: int | None) -> Default:
        span = self._spans[self._at]
        if self._kind() == "ident":
            self._expect("None")
        folded = not self._strict and element == INT and self._kind() in ("number", "-")
        if self._kind() != "[" and (size is not None or folded):
            value = self._constant(element)
            # torch prints [1, 1] of an int[] as 1 too; how often it stood there is lost.
            count = 2 if size is None else size
            if not 0 <= count <= _LONGEST_REPEAT:
                raise self._refusal("cannot create std::vector larger than max_size()", span)
            return self._converted([value] * count, element, span)
        self._expect("[")
        values: list[Scalar] = []
        if self._kind() != "]":
            values.append(self._constant(element))
            while self._next_if(","):
                values.append(self._constant(element))
        self._expect("]")
        return self._converted(values, element, span)

    def _converted(self, values: list[Scalar], element: Type, span: Span) -> tuple[Scalar, ...]:
        wanted = _LIST_VALUES.get(element.fake.kind)
        if wanted is None:
            raise self._fault("lists are only supported for float, int and complex types", span)
        for value in values:
            if type(value) is not wanted:
                found = _IVALUE_TAGS[type(value)]
                raise self._refusal(
                    f"Expected ComplexDouble but got {found}" if wanted is complex else f"expected {_EXPECTED[wanted]}",
                    span,
                )
        return tuple(values)

    def _device(self) -> Device:
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
        start, end = self._spans[self._at]
        return not self._strict and self._kind() == "ident" and self._text[start:end] in _DEVICE_TYPES.split(", ")

    def _unquoted_device(self) -> str:
        text = self._expect("ident")
        if self._next_if(":"):
            text += ":" + ("-" if self._next_if("-") else "") + self._expect("number")
        return text

    def _constant(self, type_: Type) -> Scalar:
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
        if type_.kind is TypeKind.FLOAT or "." in number or "e" in number:
            return self._to_float(number)
        return self._to_integer(number)

    def _named_constant(self, type_: Type) -> Scalar:
        if type_.kind is TypeKind.OPTIONAL and type_.element.kind is TypeKind.DEVICE and self._is_unquoted_device():
            return self._unquoted_device()
        word = self._expect("ident")
        if word in _NAMED_NUMBERS:
            return _NAMED_NUMBERS[word]
        wanted = type_.element if type_.kind is TypeKind.OPTIONAL else type_
        if wanted.kind is TypeKind.SCALAR_TYPE and word in _DTYPES:
            return _DTYPES[word]
        raise self._fault("invalid numeric default value")

    def _to_integer(self, number: str) -> int:
        """``std::stoll``: what follows the first integer is left aside, so ``1E5`` is 1 and ``0x10`` is 0."""
        matched = _LEADING_INTEGER.match(number)
        if matched is None or len(matched[0]) > _LONGEST_INTEGER or not -(2**63) <= int(matched[0]) < 2**63:
            raise self._refusal("stoll", self._last_span())
        return int(matched[0])

    def _to_float(self, number: str) -> float:
        """``std::stod``, which refuses what is too large or too small for a normal double."""
        matched = _LEADING_FLOAT.match(number)
        if matched is None:
            raise self._refusal("stod", self._last_span())
        try:
            value = float.fromhex(matched[0]) if matched["hex"] else float(matched[0])
        except OverflowError:
            value = math.inf
        # Hexadecimal digits can be exact where decimal ones are rounded, and only rounding is an error.
        smallest = _SMALLEST_NORMAL if matched["decimal"] else math.ulp(0.0)
        vanished = abs(value) < smallest and _NONZERO_DIGIT.search(matched["decimal"] or matched["hex"])
        if abs(value) == math.inf or vanished:
            raise self._refusal("stod", self._last_span())
        return value

    def _string(self, literal: str, span: Span) -> str:
        quotes = 3 if literal[:3] in ("'" * 3, '"' * 3) else 1
        content = literal[quotes:-quotes]
        if "\\" not in content:
            return content

        def unescaped(match: re.Match[str]) -> str:
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

        # Escapes stand for bytes, so bytes are what is put together.
        content = _ESCAPED.sub(unescaped, content.encode("utf-8", "surrogateescape").decode("latin-1"))
        return content.encode("latin-1").decode("utf-8", "surrogateescape")
