"""What ``torch.library.infer_schema`` says of a function's parameters: torch/_library/infer_schema.py, since 2.4.

Annotations are the types of this Python, and stand-ins for those of torch. So they compare, and are written, as there.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc
import inspect
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from types import GenericAlias
from typing import Any, Final, NamedTuple, cast

from abiscan.inputs.version import MinorVersion

FIRST: Final[MinorVersion] = (2, 4)
"""The first release whose check is known."""
_EVALUATES: Final[MinorVersion] = (2, 5)
"""Since then, annotations that are texts are evaluated, among the names of torch's module."""
_BUILTIN: Final[MinorVersion] = (2, 7)
"""Since then, ``list[int]`` is one of the types, and texts are evaluated among the names of the function's module."""
_OPAQUE: Final[MinorVersion] = (2, 10)
"""Since then, a package may make types of its own known."""
_NUMBER_WITH_BAR: Final[MinorVersion] = (2, 10)
"""Since then, ``Number`` is written so."""
_OPTIONAL_TENSORS: Final[MinorVersion] = (2, 15)
"""Since then, ``Optional[list[Tensor]]`` is one of the types."""

UNCLEAR: Final = "…"
"""What stands in a text for a default value that is not known."""


def _of_torch(name: str) -> type:
    """Return a stand-in for a class of torch."""
    return type(name, (), {"__module__": "torch"})


_TENSOR: Final = _of_torch("Tensor")
_NUMBER: Final[Any] = typing.Union[int, float, bool]
GroupName = typing.NewType("GroupName", str)
GroupName.__module__ = "torch.distributed.distributed_c10d"
_CLASSES: Final = {name: _of_torch(name) for name in ("device", "dtype", "SymInt", "Size")} | {"Tensor": _TENSOR}
_TYPES: Final[Mapping[str, object]] = {
    **{f"torch.{name}": cls for name, cls in _CLASSES.items()}, "torch.types.Number": _NUMBER,
}  # fmt: skip
_BARE: Final = {
    "List": "typing.List", "Optional": "typing.Optional", "Sequence": "typing.Sequence", "Union": "typing.Union",
    **{name: f"torch.{name}" for name in ("device", "dtype", "Tensor")}, "types": "torch.types",
}  # fmt: skip
"""What texts may name on the releases that evaluate them among the names of torch's module."""

_UNKNOWN: Final = "unknown"
"""What is said instead of names if a function may mutate any of its parameters."""
_KINDS: Final = (type, *map(type, (typing.Any, typing.Optional, typing.List, typing.Tuple, typing.Sequence)))
"""What the names of modules stand for that are types."""


class UnknownType(Exception):  # noqa: N818 - no error: the answer is not known
    """An annotation whose type is not known."""


class Flaw(NamedTuple):
    """What torch raises."""

    raises: type[Exception]
    text: str


class _Flawed(Exception):  # noqa: N818 - carries what torch raises
    def __init__(self, raises: type[Exception], text: str) -> None:
        self.flaw = Flaw(raises, text)


class Dtype:
    """A stand-in for an object such as ``torch.float32``, as a default value."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Unclear:
    """A default value that is not known."""

    def __repr__(self) -> str:
        return UNCLEAR


def type_named(name: str) -> object:
    """Return the type with a dotted name, or the form of ``typing``.

    :raises UnknownType: it is none that is known here
    """
    module, _, last = name.rpartition(".")
    if name in _TYPES:
        return _TYPES[name]
    source = {"typing": typing, "collections.abc": collections.abc, "": builtins, "builtins": builtins}.get(module)
    if source is None or not isinstance(getattr(source, last, None), _KINDS):
        raise UnknownType
    return getattr(source, last)


def evaluate(node: ast.expr, look_up: Callable[[ast.expr], object]) -> object:
    """Return what an annotation is.

    :param look_up: returns what a name stands for, or an attribute
    :raises UnknownType: it is not known
    """
    match node:
        case ast.Constant(value):
            return value
        case ast.Name() | ast.Attribute():
            return look_up(node)
        case ast.Tuple(elements):
            return tuple(evaluate(element, look_up) for element in elements)
        case ast.Subscript(value, index):
            generic = cast("Any", evaluate(value, look_up))
            return _attempt(lambda: generic[evaluate(index, look_up)])
        case ast.BinOp(left, ast.BitOr(), right):
            first = cast("Any", evaluate(left, look_up))
            return _attempt(lambda: first | evaluate(right, look_up))
    raise UnknownType


def _attempt(make: Callable[[], object]) -> object:
    try:
        return make()
    except (TypeError, AttributeError):
        raise UnknownType from None


def texts_in(annotation: object) -> Iterator[str]:
    """Yield the texts in an annotation that torch may evaluate."""
    if isinstance(annotation, str):
        yield annotation
    for part in typing.get_args(annotation):
        yield from texts_in(part)


def find_flaw(
    signature: inspect.Signature,
    mutates: str | Collection[str] | None,
    release: MinorVersion,
    look_up: Callable[[ast.expr], object],
) -> Flaw | None:
    """Return what a release raises for a function; None if it infers a schema, or if that is not known.

    :param signature: with the annotations as ``evaluate`` returns them; :class:`UnknownType` for one that is not known
    :param mutates: the names of the parameters that the function mutates, or ``unknown``; None if that is not known
    :param look_up: returns what a name in the text of an annotation stands for, in the module of the function
    """
    if release < FIRST:
        return None
    try:
        _Check(signature, mutates, release, look_up).run()
    except _Flawed as flawed:
        return flawed.flaw
    return None


class _Check:
    def __init__(
        self,
        signature: inspect.Signature,
        mutates: str | Collection[str] | None,
        release: MinorVersion,
        look_up: Callable[[ast.expr], object],
    ) -> None:
        self._signature, self._mutates, self._release, self._look_up = signature, mutates, release, look_up
        self._types = dict(_parameter_types(release))
        self._mutates_all = mutates == _UNKNOWN and release >= _EVALUATES

    def run(self) -> None:
        """Raise what torch raises."""
        if isinstance(self._mutates, str) and not self._mutates_all and self._release >= _EVALUATES:
            raise _Flawed(
                ValueError,
                "mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
                "'unknown'. ",
            )
        for name, parameter in self._signature.parameters.items():
            self._check(name, parameter)
        unseen = set(self._mutates or ()) - set(self._signature.parameters)
        if unseen and not self._mutates_all:
            hint = "." if self._release < _EVALUATES else ", or just the string 'unknown' if you don't know."
            self._fail(
                f"{unseen} in mutates_args were not found in the custom op's signature. mutates_args should contain "
                f"the names of all args that the custom op mutates{hint}"
            )
        self._check_return()

    def _fail(self, problem: str) -> typing.NoReturn:
        text = f"infer_schema(func): {problem} Got func with signature {self._signature})"
        raise _Flawed(ValueError, text)

    def _check(self, name: str, parameter: inspect.Parameter) -> None:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            self._fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.annotation is parameter.empty:
            self._fail(f"Parameter {name} must have a type annotation.")
        try:
            type_ = self._resolved(parameter.annotation)
            schema = self._types.get(type_) or self._unsupported(name, parameter.annotation, type_)
        except UnknownType:
            return
        mutated = not self._mutates_all and name in (self._mutates or ())
        if mutated and not schema.startswith("Tensor"):
            self._fail(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
        if parameter.default is not parameter.empty and not isinstance(parameter.default, Unclear):
            self._check_default(name, parameter.default)

    def _check_default(self, name: str, default: object) -> None:
        if default is None or isinstance(default, (int, float, bool)):
            return
        if self._release < _EVALUATES:
            self._fail(
                f"Parameter {name} has an unsupported default value (we only support int, float, bool, None). Please "
                "file an issue on GitHub so we can prioritize this."
            )
        if not isinstance(default, (str, Dtype)):
            self._fail(
                f"Parameter {name} has an unsupported default value type {type(default)}. Please file an issue on "
                "GitHub so we can prioritize this."
            )

    def _unsupported(self, name: str, annotation: object, type_: Any) -> str:
        if self._release >= _OPAQUE and _may_be_opaque(type_):
            raise UnknownType
        # Before, this was done for every type, also for those that are not generic.
        if self._release >= _OPAQUE:
            is_tuple = getattr(type_, "__origin__", None) is tuple
        elif self._release >= _EVALUATES:
            try:
                is_tuple = type_.__origin__ is tuple
            except AttributeError as error:
                raise _Flawed(AttributeError, str(error)) from None
        else:
            is_tuple = False
        example = ""
        if is_tuple:
            as_list = _suggested_list(type_, builtin=self._release >= _BUILTIN)
            example = f"For example, {as_list}.\n\n" if as_list in self._types else "\n\n"
            example = (
                "We do not support Tuple inputs in schema. As a workaround, please try to use List instead. " + example
            )
        types = _listed(self._types.keys(), self._release)
        self._fail(f"Parameter {name} has unsupported type {annotation}. {example}The valid types are: {types}.")

    def _check_return(self) -> None:
        try:
            type_ = self._resolved(self._signature.return_annotation)
            if type_ is None:
                return
            if type_ is inspect.Parameter.empty and self._release >= _EVALUATES:
                self._fail("No return type annotation was provided. Please add one.")
            known = _return_types(self._release)
            parts = typing.get_args(type_) if typing.get_origin(type_) is tuple else (type_,)
            unknown = [part for part in parts if part not in known]
            if unknown and not (self._release >= _OPAQUE and any(map(_may_be_opaque, unknown))):
                self._fail(
                    f"Return has unsupported type {type_}. The valid types are: {_listed(known, self._release)}."
                )
        except UnknownType:
            return

    def _resolved(self, annotation: object) -> Any:
        """Return what an annotation is, where it is a text, or has one in it; one that can be looked up.

        :raises UnknownType: it is not known, or cannot be hashed
        """
        resolved = self._spelled_out(annotation)
        try:
            hash(resolved)
        except TypeError:
            raise UnknownType from None
        return resolved

    def _spelled_out(self, annotation: object) -> object:
        """Return what an annotation is, where it is a text, or has one in it."""
        if annotation is UnknownType:
            raise UnknownType
        if isinstance(annotation, str) and self._release >= _EVALUATES:
            return self._of_text(annotation)
        origin = typing.get_origin(annotation)
        if self._release >= _BUILTIN and origin is not None:
            parts = typing.get_args(annotation)
            resolved = tuple(map(self._spelled_out, parts))
            return GenericAlias(origin, resolved) if resolved != parts else annotation
        return annotation

    def _of_text(self, text: str) -> object:
        try:
            node = ast.parse(text, mode="eval").body
        except SyntaxError:
            raise UnknownType from None
        try:
            return evaluate(node, self._look_up if self._release >= _BUILTIN else _of_torchs_module)
        except NameError:
            self._fail(f"Unsupported type annotation {text}. It is not a type.")


def _of_torchs_module(node: ast.expr) -> object:
    """Return what a name stands for in the module of ``infer_schema``."""
    first, dot, rest = ast.unparse(node).partition(".")
    if first in _BARE or first in ("torch", "typing") or hasattr(builtins, first):
        return type_named(f"{_BARE.get(first, first)}{dot}{rest}")
    raise NameError(first)


def _may_be_opaque(type_: object) -> bool:
    """Whether a type may be one that a package has made known: a class that is not Python's."""
    return isinstance(type_, type) and type_.__module__ not in ("builtins", "typing")


def _suggested_list(type_: Any, *, builtin: bool) -> object:
    """Return the type that torch suggests for a tuple."""
    generic: Any = list if builtin else typing.List
    parts = typing.get_args(type_)
    if not parts:
        return generic
    if len(parts) == 1 or (len(parts) == 2 and parts[1] is Ellipsis):
        return generic[parts[0]]
    return generic[typing.Union[parts]]


def _parameter_types(release: MinorVersion) -> Iterator[tuple[Any, str]]:
    """Yield the types of parameters that a release knows, with theirs in schemas, in its order."""
    # Type, schema, and whether there are lists of it, lists of optional ones, and optional lists.
    types: list[tuple[Any, str, bool, bool, bool]] = [
        (_TENSOR, "Tensor", True, True, release >= _OPTIONAL_TENSORS), (int, "SymInt", True, False, True),
        (float, "float", True, False, True), (bool, "bool", True, False, True), (str, "str", False, False, False),
        (_NUMBER, "Scalar", True, False, False), (_CLASSES["dtype"], "ScalarType", False, False, False),
        (_CLASSES["device"], "Device", False, False, False),
    ]  # fmt: skip
    if release >= _OPAQUE:
        types.append((GroupName, "str", False, False, False))
    for type_, schema, lists, optional_items, optional_lists in types:
        optional: Any = typing.Optional[type_]
        yield type_, schema
        yield optional, f"{schema}?"
        if lists:
            yield from ((one, f"{schema}[]") for one in _sequences(type_, release))
        if optional_items:
            yield from ((one, f"{schema}?[]") for one in _sequences(optional, release))
        if optional_lists:
            yield from ((typing.Optional[one], f"{schema}[]?") for one in _sequences(type_, release))
        if optional_items and optional_lists:
            yield from ((typing.Optional[one], f"{schema}?[]?") for one in _sequences(optional, release))


def _sequences(type_: Any, release: MinorVersion) -> tuple[Any, ...]:
    own = (typing.Sequence[type_], typing.List[type_])
    if release < _BUILTIN:
        return own
    return (*own, GenericAlias(collections.abc.Sequence, (type_,)), GenericAlias(list, (type_,)))


def _listed(types: object, release: MinorVersion) -> str:
    """Return the types that a release lists."""
    # typing keeps what it has made by equality, so ``Number`` cannot be written in two ways in one process.
    text = str(types)
    return text.replace(str(_NUMBER), "int | float | bool") if release >= _NUMBER_WITH_BAR else text


def _return_types(release: MinorVersion) -> dict[Any, str]:
    tensor: Any = _TENSOR
    lists: dict[Any, str] = {typing.List[tensor]: "Tensor[]"}
    if release >= _BUILTIN:
        lists[GenericAlias(list, (_TENSOR,))] = "Tensor[]"
    return {_TENSOR: "Tensor", **lists, int: "SymInt", float: "float", bool: "bool", _NUMBER: "Scalar"}
