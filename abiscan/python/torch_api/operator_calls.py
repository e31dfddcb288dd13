"""Operators as functions of a package call them: ``torch.ops.aten.add.Tensor(x, y)``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from msgspec import Struct

from abiscan.python.language.nodes import walk
from abiscan.python.language.refusals import ParameterList, PassedArguments
from abiscan.python.torch_api.torch_texts import DEFAULT_OVERLOAD
from abiscan.python.torch_api.torch_uses import CallText, read_call
from abiscan.regex import regex

OPERATORS: Final = "torch.ops."
ATEN: Final = "aten::"
"""The namespace of which all operators of a torch are known: no Python code defines any there."""
NO_OVERLOADS: Final = frozenset({"overloads", "redispatch", "op", "op_overloads", "name", "tags", "namespace"})
"""What operators in Python have besides overloads, other than names with an underscore."""
FAKES: Final = ("torch.library.register_fake", "torch.library.impl_abstract")
"""The functions that look up the operator which their first argument names, to register a fake kernel for it."""
_NO_NAMESPACES: Final = frozenset({"load_library", "loaded_libraries", "import_module"})
_ALIAS: Final = regex(rb"^[ \t]*(\w+)[ \t]*=[ \t]*(torch\.ops(?:\.[A-Za-z_]\w*)*)[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
_NAMES: Final = rb"(%s)\b((?:\.[A-Za-z_]\w*)*)(\()?"
_IN_NAMES: Final = regex(rb"[\w.]")
_FAKE: Final = regex(rb"(?:register_fake|impl_abstract)\(\s*[\"'](\w+)::(\w+(?:\.\w+)?)[\"']")


class Overload(Struct, frozen=True, kw_only=True):
    """One overload of an operator.

    :ivar name: ``aten::add.Tensor``, or ``aten::relu`` for the one without a name
    :ivar parameters: in the order of the schema; those by keyword alone are last
    """

    name: str
    parameters: ParameterList


class OperatorsOfTorch(Protocol):
    """What is known of the operators of one torch. Names are as in ``operator_named``."""

    def lacks(self, name: str) -> bool:
        """Whether it is certain that there is no such operator, or overload."""
        ...

    def was_there(self, name: str) -> bool:
        """Whether some release has an operator, or an overload."""
        ...

    def overloads(self, name: str) -> Sequence[Overload]:
        """Return all overloads of an operator, or the one that is named; none if there may be others."""
        ...

    def others_take(self, name: str, call: PassedArguments) -> bool:
        """Whether some release takes a call."""
        ...

    def gone_keywords(self, name: str) -> frozenset[str]:
        """Return the keywords that the function of an operator takes in another release, and not in this."""
        ...

    def is_overloaded(self, name: str) -> bool:
        """Whether the function of an operator has several lists of parameters."""
        ...

    def lost_list(self, name: str, keyword: str) -> bool:
        """Whether an operator takes a list for a keyword in another release, and one number in this."""
        ...


class KnownOperators(Struct, frozen=True):
    """The operators that are known once a package is imported.

    :ivar own: those that libraries of the package define, without overloads; only those of which all are known
    """

    torch: OperatorsOfTorch | None = None
    own: Mapping[str, Sequence[Overload]] = {}

    def lacking(self, use: str) -> str | None:
        """Return a dotted name up to the operator or the overload that is certainly missing; None if there is none.

        An operator counts only if another release has it; an overload also if the operator has others.
        """
        name = operator_named(use)
        if name is None:
            return None
        base, dot, overload = name.partition(".")
        of_use = ".".join(use.split(".")[: 5 if dot else 4])
        if base in self.own:
            known = {item.name for item in self.own[base]}
            return of_use if dot and name.removesuffix(DEFAULT_OVERLOAD) not in known else None
        if self.torch is None or not base.startswith(ATEN):
            return None
        if self.torch.lacks(base):
            return of_use.removesuffix(f".{overload}" if dot else "") if self.torch.was_there(base) else None
        return of_use if dot and self.torch.lacks(name) and self.torch.was_there(name) else None

    def refusal(self, use: str, call: PassedArguments) -> str | None:
        """Return what torch says of a call that no overload takes, and another release does; None if that is not
        certain.
        """
        name = operator_named(use)
        if name is None or use.count(".") != 3 + ("." in name):  # a method of an operator is called
            return None
        base = name.partition(".")[0]
        if base in self.own:
            exact = name.removesuffix(DEFAULT_OVERLOAD)
            return refusal_of([item for item in self.own[base] if "." not in name or item.name == exact], call)
        if self.torch is None or not base.startswith(ATEN):
            return None
        error = refusal_of(self.torch.overloads(name), call)
        return error if error and self.torch.others_take(name, call) else None


def compiled_function(use: str) -> str | None:
    """Return the operator of a function that is compiled: ``torch.std``, ``torch.nn.functional.gelu``."""
    owner, _, name = use.rpartition(".")
    return f"{ATEN}{name}" if owner in {"torch", "torch.nn.functional"} and not name.startswith("__") else None


METHODS: Final = "torch.Tensor."
LISTED: Final = "dim"
"""The parameter that takes several dimensions where it once took one: ``any(dim=(0, 1))`` since 2.2."""
_OF_LIST: Final = rb"%b\s*=\s*[\[(]\s*-?\d" % LISTED.encode()
_LIST: Final = regex(_OF_LIST)
_PARAMETER: Final = regex(rb"dims?\s*:[^)\n=]*?(?:[Tt]uple|Sequence|[Ll]ist)\[")
_WITH_PARAMETER: Final = regex(rb"\.([a-z_]\w*)\((?:dim\s*=\s*)?dims?\s*[,)]")
_WITH_LIST: Final = regex(rb"\.([a-z_]\w*)\((?:[^()]*,)?\s*" + _OF_LIST)


def methods_with_lists(source: bytes) -> frozenset[str]:
    """Return the methods, or functions, that a source gives several dimensions by number, going by its text."""
    # These are searched for in a small part of the time.
    found = set(_WITH_LIST.finditer(source)) if _LIST.search(source) is not None else set()
    if _PARAMETER.search(source) is not None:
        found |= set(_WITH_PARAMETER.finditer(source))
    return frozenset(match[1].decode() for match in found)


def dimensions_in(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    """Return the parameters of a function that may be several dimensions, as their annotations say."""
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return frozenset(part.arg for part in parameters if part.annotation is not None and _says_tuple(part.annotation))


def _says_tuple(annotation: ast.expr) -> bool:
    names = {getattr(part, "attr", getattr(part, "id", "")) for part in walk(annotation)}
    return not names.isdisjoint({"Tuple", "tuple", "Sequence", "List", "list"})


def passed_dimensions(call: ast.Call) -> str | None:
    """Return the name of the variable that a call passes as its dimensions: ``x.squeeze(dim)``."""
    named = [item.value for item in call.keywords if item.arg == LISTED]
    value = next(iter([*named, *call.args[:1]]), None)
    return value.id if isinstance(value, ast.Name) else None


def passes_list(call: ast.Call) -> bool:
    """Whether a call has several dimensions, all by number: arrays whose dimensions have names are no tensors."""
    lists = [item.value for item in call.keywords if item.arg == LISTED]
    return any(isinstance(value, (ast.List, ast.Tuple)) and value.elts for value in lists) and all(
        _is_number(part) for value in lists for part in getattr(value, "elts", ())
    )


def _is_number(node: ast.expr) -> bool:
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(number, ast.Constant) and type(number.value) is int


def keyword_refusal(name: str, keyword: str, *, is_overloaded: bool) -> str:
    """Return what torch says of a keyword that a compiled function does not take."""
    # FunctionSignature::parse and PythonArgParser::raw_parse (torch/csrc/utils/python_arg_parser.cpp).
    if is_overloaded:
        return f"{name}() received an invalid combination of arguments"
    return f"{name}() got an unexpected keyword argument '{keyword}'"


def operator_named(use: str) -> str | None:
    """Return the operator that a dotted name stands for: ``aten::add`` with all of its overloads, ``aten::add.Tensor``,
    ``aten::relu.default``.
    """
    parts = use.split(".")
    if not use.startswith(OPERATORS) or len(parts) < 4 or parts[2] in _NO_NAMESPACES:
        return None
    _, _, namespace, name, *rest = parts
    overload = f".{rest[0]}" if rest and not rest[0].startswith("_") and rest[0] not in NO_OVERLOADS else ""
    return None if name.startswith("__") else f"{namespace}::{name}{overload}"


def refusal_of(overloads: Sequence[Overload], call: PassedArguments) -> str | None:
    """Return the first thing that torch says of a call that no overload takes; None if one may take it."""
    errors = [_refusal(item, call) for item in overloads]
    return None if None in errors else next(iter(errors), None)


def _refusal(overload: Overload, call: PassedArguments) -> str | None:
    # In the order of createStackForSchema (torch/csrc/jit/python/pybind_utils.h).
    parameters, name = overload.parameters, overload.name.partition(".")[0]
    names = (*parameters.positional, *parameters.keyword_only)
    passed = call.count + len(call.keywords)
    if passed > len(names):
        return f"{name}() expected at most {len(names)} argument(s) but received {passed} argument(s)."
    if call.takes_more or call.takes_keywords:
        return None
    for parameter in names[call.count :]:
        if parameter in parameters.required and parameter not in call.keywords:
            return f"{name}() is missing value for argument '{parameter}'."
    for keyword in call.keywords:
        if keyword not in names:
            return f"Unknown keyword argument '{keyword}' for operator '{name}'."
        if keyword in names[: call.count]:
            return f"Argument '{keyword}' specified both as positional and keyword argument."
    return None


def as_passed(call: CallText) -> PassedArguments:
    """Return what a call passes that is only known by its text: less may be passed than it seems, and stars may be."""
    return PassedArguments(count=max(call.by_position, 0), keywords=tuple(sorted(call.keywords)))


def list_operators(source: bytes) -> Iterator[tuple[str, CallText | None]]:
    """Yield the dotted names of operators in a source, each with the call if it is called, going by its text."""
    if b"torch.ops." in source:
        aliases = {b"torch.ops": b"torch.ops"}
        if b"= torch.ops" in source:
            aliases |= {match[1]: match[2] for match in _ALIAS.finditer(source)}
        words = b"|".join(map(re.escape, aliases))
        for match in re.finditer(_NAMES % words, source):
            name = (aliases[match[1]] + match[2]).decode()
            is_whole = _IN_NAMES.match(source, max(match.start() - 1, 0), match.start()) is None
            if is_whole and operator_named(name) is not None:
                yield name, read_call(source, match.end()) if match[3] else None
    for match in _FAKE.finditer(source):
        yield f"{OPERATORS}{match[1].decode()}.{match[2].decode()}", None
