"""Parse, print and compare schemas: torch's language for the types of operators.

    aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor

Words and rules are those of torch: grammar in ``torch/csrc/jit/frontend/{lexer.h, function_schema_parser.cpp,
schema_type_parser.cpp}``, meaning in ``aten/src/ATen/core/{function_schema, alias_info, jit_type, union_type}``.
``parse`` accepts what torch accepts and rejects the rest with torch's messages; ``str`` is what torch prints.

torch prints a few things that it cannot parse itself: the alias set ``$0`` after ``Tensor!``, ``0.+1.j``, the default
``cpu`` without quotes. Every dump of a dispatcher has such strings, so they are accepted here, unless ``strict`` asks
for torch's own behaviour.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator
from itertools import zip_longest
from typing import Final, Literal

from msgspec import Struct

from abiscan.dispatch.acceptance import acceptance_of
from abiscan.dispatch.schema_defaults import (
    NO_DEFAULT,
    Default,
    DefaultReader,
    Device,
    NoDefault,
    Scalar,
    comparison_key,
    print_default,
)
from abiscan.dispatch.schema_lexer import INVALID, SchemaError
from abiscan.dispatch.schema_types import (
    ATOMS,
    INT,
    NEWEST,
    PRINTS_AS_WRITTEN,
    TENSOR,
    Type,
    TypeKind,
    build_union,
    list_of,
    make_optional,
)
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

# The releases that changed how a schema is printed: operator<< of Argument and FunctionSchema in the headers
# function_schema.h and function_schema_inl.h of one wheel per release, 1.4 to 2.9.
_SIZES_OPTIONAL_LISTS: Final = (1, 7)  # int[2]?, which was int[]?


TYPE_ADVICE: Final = (
    ". Common valid schema types include Tensor, SymInt, int, float, bool, Scalar; for a full list, please see "
    "https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md#func "
)
"""What torch adds to the error for an unknown type in a schema, from 2.4 on."""

UNKNOWN_TYPE: Final = "unknown type specifier"
"""The problem of a schema with a word that is no type."""

_DEEPEST: Final = 50  # nested types; torch itself has at most 4, and a stack is finite
_WIDEST_UNION: Final = 50  # members, which are compared pairwise


class _ByKey:
    """Compares by a key that is made of the fields."""

    __slots__ = ()

    def _key(self) -> tuple[object, ...]:
        """Return what is compared and hashed."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, type(self)) else NotImplemented

    __ne__ = object.__ne__  # a struct's own goes by identity

    def __hash__(self) -> int:
        return hash(self._key())


class AliasInfo(_ByKey, Struct, frozen=True, kw_only=True, eq=False):
    """The annotation of a type: ``(a! -> a|b)``. Sets are in the order in which they were written.

    :ivar is_write: whether the operator writes to the value
    :ivar before: the alias sets of the value before the call
    :ivar after: those after the call
    :ivar contained: the annotations of the elements of a list, whose own sets may then be empty
    """

    is_write: bool = False
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    contained: tuple[AliasInfo, ...] = ()

    def _key(self) -> tuple[object, ...]:
        return self.is_write, frozenset(self.before), frozenset(self.after), self.contained

    def __str__(self) -> str:
        # The sets are unordered_sets of libstdc++, which iterate in reverse order of insertion.
        after = ""
        if frozenset(self.before) != frozenset(self.after):
            after = f" -> {'|'.join(reversed(self.after))}"
        return f"({'|'.join(reversed(self.before))}{'!' if self.is_write else ''}{after})"


class Argument(_ByKey, Struct, frozen=True, kw_only=True, eq=False):
    """An argument or a return.

    :ivar name: empty for most returns
    :ivar type: the type, without ``size`` and ``alias``
    :ivar size: the N of ``int[N]``, None if there is none
    :ivar default: ``NO_DEFAULT`` for an argument that must be passed
    :ivar kwarg_only: whether it comes after the ``*``
    :ivar alias: the annotation, None if there is none
    """

    name: str
    type: Type
    size: int | None = None
    default: Default | Literal[NoDefault.NO_DEFAULT] = NO_DEFAULT
    kwarg_only: bool = False
    alias: AliasInfo | None = None

    @property
    def has_default(self) -> bool:
        """Whether the argument can be omitted."""
        return self.default is not NO_DEFAULT

    @property
    def is_out(self) -> bool:
        """Whether torch treats it as an output that the caller provides."""
        return self.kwarg_only and self.alias is not None and self.alias.is_write

    def is_backward_compatible_with(self, old: Argument) -> bool:
        """Whether it can be called where ``old`` was declared."""
        return self._has_same_role(old) and old.type.compared.is_subtype_of(self.type.compared)

    def is_forward_compatible_with(self, old: Argument) -> bool:
        """Whether ``old`` accepts what its callers pass."""
        return (
            self._has_same_role(old)
            and self.type.compared.is_subtype_of(old.type.compared)
            and (old.has_default or not self.has_default)
        )

    def _has_same_role(self, old: Argument) -> bool:
        """Tell what both directions of compatibility require: the same name, size, annotation and default."""
        return (
            self.name == old.name
            and self.size == old.size
            and self.alias == old.alias
            and (old.kwarg_only or not self.kwarg_only)
            and (not old.has_default or comparison_key(self.default) == comparison_key(old.default))
        )

    def _key(self) -> tuple[object, ...]:
        return self.name, self.type.compared, self.size, comparison_key(self.default), self.kwarg_only, self.alias

    def printed_by(self, release: MinorVersion) -> str:
        """Print the argument as a release of torch does."""
        type_, suffix = self.type, ""
        if release < PRINTS_AS_WRITTEN:
            type_ = type_.fake
        whole = type_
        if type_.kind is TypeKind.OPTIONAL:
            type_, suffix = type_.element, "?"
        # operator<< prints the annotation between a type and its ?, and the size inside the brackets.
        if type_.kind is TypeKind.LIST:
            size = "" if self.size is None or (suffix and release < _SIZES_OPTIONAL_LISTS) else self.size
            elements = ""
            if self.alias is not None and self.alias.contained and release >= PRINTS_AS_WRITTEN:
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
            text += f"={print_default(self.default, whole, release)}"
        return text

    def __str__(self) -> str:
        return self.printed_by(NEWEST)


class OperatorName(Struct, frozen=True, kw_only=True):
    """The name of an operator: ``aten::add.Tensor``.

    :ivar namespace: may be empty
    :ivar name: the name itself
    :ivar overload: may be empty
    """

    namespace: str = ""
    name: str
    overload: str = ""

    @staticmethod
    @functools.lru_cache(maxsize=4096)  # each load is replayed, and each torch asks for the same names
    def parse(text: str) -> OperatorName:
        """Parse a name without a schema.

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


class Difference(Struct, frozen=True, kw_only=True):
    """The first difference between two schemas.

    :ivar place: ``argument 9 'include_last_offset'``, for example
    :ivar what: the property that differs there, in a word
    :ivar first: its value in the first schema, empty if that has nothing there
    :ivar second: its value in the second schema, empty if that has nothing there
    """

    place: str
    what: str
    first: str
    second: str

    def __str__(self) -> str:
        if not (self.first and self.second):
            return f"only one of them has {self.place}: {self.first or self.second}"
        return f"{self.place} has a different {self.what}: {self.first} vs {self.second}"


class FunctionSchema(_ByKey, Struct, frozen=True, kw_only=True, eq=False):
    """The schema of an operator.

    :ivar name: the name of the operator
    :ivar arguments: in order, outputs included
    :ivar returns: in order
    :ivar is_vararg: whether more arguments may follow
    :ivar is_varret: whether more returns may follow
    :ivar text: what it was parsed from; ignored in comparisons
    """

    name: OperatorName
    arguments: tuple[Argument, ...]
    returns: tuple[Argument, ...]
    is_vararg: bool = False
    is_varret: bool = False
    text: str = ""

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        strict: bool = False,
        release: MinorVersion = NEWEST,
        allow_typevars: bool = True,
        classes: Collection[str] | None = None,
    ) -> FunctionSchema:
        """Parse a schema; see ``parse_name_or_schema`` for the parameters.

        :raises SchemaError: where torch's ``parseSchema`` throws
        """
        parsed = parse_name_or_schema(
            text, strict=strict, release=release, allow_typevars=allow_typevars, classes=classes
        )
        if isinstance(parsed, OperatorName):
            problem = "Tried to parse a function schema but only the operator name was given"
            raise SchemaError(problem, problem=problem, position=len(text))
        return parsed

    def _key(self) -> tuple[object, ...]:
        return self.name, self.arguments, self.returns, self.is_vararg, self.is_varret

    def printed_by(self, release: MinorVersion) -> str:
        """Print the schema as a release of torch does, in messages for example."""
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
        # One return has no parentheses, unless its own type begins with one and would be read as several returns.
        alone = release >= PRINTS_AS_WRITTEN and len(returns) == 1 and not returns[0].startswith("(")
        result = returns[0] if alone else f"({', '.join(returns)})"
        return f"{self.name}({', '.join(arguments)}) -> {result}"

    def __str__(self) -> str:
        return self.printed_by(NEWEST)

    def is_backward_compatible_with(self, old: FunctionSchema) -> bool:
        """Whether every call made for ``old`` is also a call of this schema."""
        if not self._has_same_shape(old) or len(self.arguments) < len(old.arguments):
            return False
        # Return types may become narrower, so here the old return has to accept the new one.
        if not all(
            old_return.is_backward_compatible_with(new_return)
            for new_return, old_return in zip(self.returns, old.returns, strict=True)
        ):
            return False
        # FunctionSchema::isBackwardCompatibleWith: new inputs stand between the old inputs and the outputs, and need
        # defaults; outputs may only be added at the end.
        old_outs, new_outs = old._first_out(), self._first_out()
        if not all(
            new_argument.is_backward_compatible_with(old_argument)
            for new_argument, old_argument in zip(self.arguments, old.arguments[:old_outs], strict=False)
        ):
            return False
        if not all(argument.has_default for argument in self.arguments[old_outs:new_outs]):
            return False
        outs, outs_of_old = self.arguments[new_outs:], old.arguments[old_outs:]
        return len(outs) >= len(outs_of_old) and all(
            new_out.is_backward_compatible_with(old_out) for new_out, old_out in zip(outs, outs_of_old, strict=False)
        )

    def is_forward_compatible_with(self, old: FunctionSchema) -> bool:
        """Whether calls made for this schema, without its new arguments, are calls of ``old``."""
        if not self._has_same_shape(old):
            return False
        old_outs, new_outs = old._first_out(), self._first_out()
        outs, outs_of_old = self.arguments[new_outs:], old.arguments[old_outs:]
        if len(outs) != len(outs_of_old):
            return False
        inputs = zip(self.arguments[:new_outs], old.arguments[:old_outs], strict=False)
        if not all(new_argument.is_forward_compatible_with(old_argument) for new_argument, old_argument in inputs):
            return False
        added = self.arguments[old_outs:new_outs]
        if not all(argument.has_default and not isinstance(argument.default, tuple) for argument in added):
            return False
        return all(
            new_out.is_forward_compatible_with(old_out) for new_out, old_out in zip(outs, outs_of_old, strict=True)
        )

    def _has_same_shape(self, old: FunctionSchema) -> bool:
        """Tell whether two schemas have the same name and number of returns."""
        return (
            self.name == old.name
            and self.is_vararg == old.is_vararg
            and self.is_varret == old.is_varret
            and len(self.returns) == len(old.returns)
        )

    def _first_out(self) -> int:
        """Return the index of the first output that the caller provides; the number of arguments if there is none."""
        return next((index for index, argument in enumerate(self.arguments) if argument.is_out), len(self.arguments))

    def first_difference(self, counterpart: FunctionSchema) -> Difference | None:
        """Return the first difference between the two from left to right, None if they are equal."""
        if self.name != counterpart.name:
            return Difference(place="the operator", what="name", first=str(self.name), second=str(counterpart.name))
        for place, own_values, other_values in (
            ("argument", self.arguments, counterpart.arguments),
            ("return", self.returns, counterpart.returns),
        ):
            for index, (first, second) in enumerate(zip_longest(own_values, other_values), 1):
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
                return _describe_difference(
                    f"{place} {index}" + (f" '{first.name}'" if first.name else ""), first, second
                )
        for place, in_first, in_second in (
            ("the variable arguments", self.is_vararg, counterpart.is_vararg),
            ("the variable returns", self.is_varret, counterpart.is_varret),
        ):
            if in_first != in_second:
                return Difference(
                    place=place, what="presence", first="..." if in_first else "", second="..." if in_second else ""
                )
        return None


def _describe_difference(place: str, first: Argument, second: Argument) -> Difference:
    """Describe the first property in which two arguments differ."""

    def properties_of(argument: Argument) -> Iterator[tuple[str, object, str]]:
        yield "name", argument.name, argument.name or "none"
        yield "type", argument.type.compared, str(argument.type)
        yield "size", argument.size, "none" if argument.size is None else str(argument.size)
        yield "alias annotation", argument.alias, "none" if argument.alias is None else str(argument.alias)
        printed = "none" if argument.default is NO_DEFAULT else print_default(argument.default, argument.type, NEWEST)
        yield "default", comparison_key(argument.default), printed
        yield "position", argument.kwarg_only, "keyword-only" if argument.kwarg_only else "positional"

    noun, first_text, second_text = next(
        (noun, first_text, second_text)
        for (noun, first_value, first_text), (_, second_value, second_text) in zip(
            properties_of(first), properties_of(second), strict=True
        )
        if first_value != second_value
    )
    if noun == "alias annotation" and first_text == second_text:  # only the elements of the list differ
        first_text, second_text = str(first), str(second)
    return Difference(place=place, what=noun, first=first_text, second=second_text)


def parse_name_or_schema(
    text: str,
    *,
    strict: bool = False,
    release: MinorVersion = NEWEST,
    allow_typevars: bool = True,
    classes: Collection[str] | None = None,
) -> OperatorName | FunctionSchema:
    """Parse a schema, or a name if no argument list follows (torch's ``parseSchemaOrName``).

    :param strict: refuse what torch prints but does not read, and words that ``release`` does not read as types
    :param allow_typevars: whether an unknown type word in lower case is a type variable. ``torch::Library`` says no,
        but for ``aten`` and ``prim``
    :param classes: the custom classes that are registered, as ``ns.Name``; None if any may be
    :raises SchemaError: where torch throws
    """
    allow_typevars = allow_typevars or text.startswith(("aten::", "prim::"))
    words = acceptance_of(release).type_words if strict else None
    return _Parser(text, words=words, allow_typevars=allow_typevars, classes=classes).read_declaration()


# How torch's words for a syntax error begin. Which types it knows, in contrast, depends on the release.
_SYNTAX_ERRORS: Final = ("expected ", "Use `")


def is_of_syntax(problem: str) -> bool:
    """Whether a schema with this problem is one that no torch reads, whatever types it knows."""
    return problem.startswith(_SYNTAX_ERRORS)


def find_syntax_error(text: str) -> str | None:
    """Return what torch says of a text that no release reads as a schema or a name; None for any other.

    Empty where some release may read it that knows other types, None where all do.
    """
    try:
        parse_name_or_schema(text)
    except SchemaError as error:
        return str(error) if is_of_syntax(error.problem) else ""
    return None


# ``SchemaTypeParser::parseBaseType``, without the words that are followed by other types.
_TYPE_WORDS: Final = {kind.value: type_ for kind, type_ in ATOMS.items() if kind is not TypeKind.TENSOR} | {
    "None": ATOMS[TypeKind.NONE],
    "ConstQuantizerPtr": INT,
    "DeviceIndex": INT,
    "Dimname": ATOMS[TypeKind.STRING],
}
# Words that are followed by types in parentheses, and the number of types; a union takes one or more.
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


class _Parser(DefaultReader):
    """Reads one schema; the methods are named after those of torch's parsers."""

    __slots__ = ("_allow_typevars", "_classes", "_fresh", "_nesting", "_words")

    def __init__(
        self, text: str, *, words: Collection[str] | None, allow_typevars: bool, classes: Collection[str] | None
    ) -> None:
        super().__init__(text, strict=words is not None)
        self._words = words  # the words that are types; None for all known words
        self._allow_typevars = allow_typevars
        self._classes = classes
        self._nesting = 0
        self._fresh = 0  # the number of sets that ``Tensor!`` has created

    def read_declaration(self) -> OperatorName | FunctionSchema:
        """Read the whole text: a name, or a schema."""
        name = self._name()
        parsed: OperatorName | FunctionSchema = name
        if self._kind() == "(":
            parsed = self._make_schema(name)
        self._next_if("newline")
        self._expect("eof")
        return parsed

    def _name(self) -> OperatorName:
        """Read the name of an operator (``parseName``)."""
        namespace, name, overload = "", self._expect("ident"), ""
        if self._next_if(":"):
            self._expect(":")
            namespace, name = name, self._expect("ident")
        if self._next_if("."):
            overload = self._expect("ident")
            if overload == "default" or overload.startswith("__"):
                raise self._refusal(f"{overload} is not a legal overload name for aten operators", self._last_span())
        return OperatorName(namespace=namespace, name=name, overload=overload)

    def _make_schema(self, name: OperatorName) -> FunctionSchema:
        """Read what follows the name (``parseDeclaration``)."""
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
                arguments.append(self._make_argument(kwarg_only=kwarg_only))
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
        """Reject a positional argument without a default after one with a default; torch lets lists pass."""
        seen_default = False
        for argument in schema.arguments:
            if argument.has_default:
                seen_default = True
            elif seen_default and not argument.kwarg_only and argument.type.kind is not TypeKind.LIST:
                raise self._refusal(
                    f"Non-default positional argument follows default argument. Parameter {argument.name} in {schema}"
                )

    def _make_argument(self, *, kwarg_only: bool) -> Argument:
        """Read an argument: type, size, annotation, name, default."""
        type_, alias, size = self._argument_type()
        name = self._expect("ident")
        default: Default | Literal[NoDefault.NO_DEFAULT] = NO_DEFAULT
        if self._next_if("="):
            default = self._default_value(type_, size)
        return Argument(name=name, type=type_, size=size, default=default, kwarg_only=kwarg_only, alias=alias)

    def _return(self) -> Argument:
        """Read a return, which may have a name."""
        type_, alias, size = self._argument_type()
        name = self._expect("ident") if self._kind() == "ident" else ""
        return Argument(name=name, type=type_, size=size, alias=alias)

    def _argument_type(self) -> tuple[Type, AliasInfo | None, int | None]:
        """Read the type of an argument with its annotation and size."""
        type_, alias = self._find_type()
        if not self._next_if("["):
            return type_, alias if alias is not None and (alias.before or alias.contained) else None, None
        # A size can only stand at the outermost list of an argument. It is an int32_t.
        size = (self._to_integer(self._expect("number")) + 2**31) % 2**32 - 2**31
        self._expect("]")
        type_, alias = list_of(type_), self._alias_of_list(alias)
        if self._next_if("?"):
            type_ = self._optional(type_)
        return type_, alias, size

    def _find_type(self) -> tuple[Type, AliasInfo | None]:
        """Read a type with its suffixes (``SchemaTypeParser::parseType``)."""
        type_, alias = self._unsuffixed_type()
        for _ in range(_DEEPEST):  # so many suffixes make it too deep
            if self._kind() == "[" and self._kinds[self._at + 1] == "]":
                self._at += 2
                type_ = list_of(type_)
                alias = self._alias_of_list(alias)
            elif self._next_if("?"):
                type_ = self._optional(type_)
                if alias is None and not self._strict:  # as torch prints ``Tensor(a)?[]``
                    alias = self._find_alias()
            else:
                break
        if type_.contained and type_.depth > _DEEPEST:
            raise self._refusal("types are nested too deeply")
        return type_, alias

    def _inner_type(self) -> Type:
        """Read a nested type as torch stores it: without annotations, and with ``int`` for ``SymInt``."""
        # The limit is ours: torch recurses as far as its stack goes.
        self._nesting += 1
        if self._nesting > _DEEPEST:
            raise self._refusal("types are nested too deeply")
        type_, _ = self._find_type()
        self._nesting -= 1
        return type_.fake

    def _unsuffixed_type(self) -> tuple[Type, AliasInfo | None]:
        """Read a type without its suffixes: a tuple, a word, a class, or a word with types in parentheses."""
        if self._kind() == "(":
            members = [self._inner_type() for _ in self._list("(", ")")]
            return Type(kind=TypeKind.TUPLE, contained=tuple(members)), None
        if self._kind() not in ("ident", "None", "NoneType"):
            raise self._unexpected("ident")
        word = self._next()
        if word == "Tensor":
            return TENSOR, self._find_alias()
        if word == "__torch__":
            return self._class(), None
        if word in _PARAMETERS:
            return self._parametrised(TypeKind(word))
        return self._base_type(word), self._find_alias()

    def _parametrised(self, kind: TypeKind) -> tuple[Type, AliasInfo | None]:
        """Read the types in parentheses after a word."""
        count = _PARAMETERS[kind.value]
        self._expect("(")
        members = [self._inner_type()]
        while len(members) < count if count else self._kind() != ")":
            self._expect(",")
            members.append(self._inner_type())
        self._expect(")")
        type_ = Type(kind=kind, contained=tuple(members))
        if kind is TypeKind.DICT:
            # The annotation is read before the check, as in torch: an error in it comes first.
            alias = self._find_alias()
            if members[0].kind not in _DICT_KEYS:
                raise self._refusal(
                    f"Cannot create dict for key type '{members[0]}', "
                    "only int, float, complex, Tensor, device and string keys are supported"
                )
            return type_, alias
        if kind is TypeKind.UNION:
            if len(members) > _WIDEST_UNION:
                raise self._refusal("the union has too many members")
            alias = self._find_alias()
            type_ = build_union(type_.contained)
            if type_.kind not in (TypeKind.UNION, TypeKind.OPTIONAL):
                raise self._single_member(tuple(members), type_)
            return type_, alias
        return type_, None

    def _single_member(self, members: tuple[Type, ...], left: Type) -> SchemaError:
        """Build the error for a union whose members turn out to be one type."""
        listed = "".join(f"{type_}{',' if index else ''} " for index, type_ in enumerate(members))
        return self._refusal(
            f"After type unification was performed, the Union with the original types {{{listed}}} has the single type "
            f"{left}. Use the common supertype instead of creating a Uniontype"
        )

    def _optional(self, element: Type) -> Type:
        """Make a type optional; ``None?`` is an error."""
        if element.kind is TypeKind.NONE:
            raise self._single_member((element, element), element)
        return make_optional(element)

    def _class(self) -> Type:
        """Read the name of a custom class, which must be registered."""
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
        """Read a word that is a type, as this release knows it, or a type variable."""
        span = self._last_span()
        # parseBaseType takes a dotted name as one word, so that the error names all of it.
        while self._kind() == "." and self._kinds[self._at + 1] in ("ident", INVALID):
            self._expect(".")
            word = f"{word}.{self._expect('ident')}"
        type_ = _TYPE_WORDS.get(word)
        if type_ is not None and (self._words is None or word in self._words):
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
            UNKNOWN_TYPE,
            span,
            TYPE_ADVICE,
        )

    def _find_alias(self) -> AliasInfo | None:
        """Read an annotation, if there is one (``parseAliasAnnotation``)."""
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
        """Read the names of alias sets, separated by ``|``."""
        sets: dict[str, None] = {}
        while True:
            if self._next_if("*"):
                sets["*"] = None
            elif "*" not in sets or not self._strict:  # torch ignores what follows, but may print the wildcard first
                sets[self._expect("fresh_set" if self._kind() == "fresh_set" else "ident")] = None
            if not self._next_if("|"):
                return tuple(sets)

    def _alias_of_list(self, elements: AliasInfo | None) -> AliasInfo | None:
        """Combine the annotation of a list with that of its elements."""
        alias = self._find_alias()
        if elements is None:
            return alias
        if alias is None or not alias.before:
            return AliasInfo(is_write=elements.is_write, contained=(elements,))
        return AliasInfo(is_write=alias.is_write, before=alias.before, after=alias.after, contained=(elements,))
