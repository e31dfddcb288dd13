"""Conditions, evaluated on what is known of a torch: ``Version(torch.__version__) >= Version("2.1")``.

``RequirementCache`` and ``compare_version`` are those of lightning_utilities, which ask for what is installed.

What is not understood is not known. A build may have a local version (``+cpu``) or none: an answer must hold for both.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from packaging.version import InvalidVersion, Version

from abiscan.python.interpreter.operations import COMPARISONS

_PARSERS: Final = frozenset({"parse", "Version", "LooseVersion", "StrictVersion", "TorchVersion", "parse_version"})
VERSION: Final = "torch.__version__"
VERSIONS: Final = frozenset({VERSION, "torch.version.__version__"})
"""The names of torch that say which release it is."""
_ATTRIBUTES: Final = frozenset({"base_version", "major", "micro", "minor", "public", "release"})
_COMPARES_NUMBERS: Final = Version("1.10")
"""The release since which ``torch.__version__`` compares as a version: torch/torch_version.py."""
_MOST_STEPS: Final = 40
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Found(NamedTuple):
    """The only statement that binds a name, and what finds the names in it, or in the function that it defines."""

    statement: ast.stmt
    find: Find


Find: TypeAlias = "Callable[[str], Found | None]"


class _UnclearError(Exception):
    """A part of a condition is not understood."""


_UNCLEAR = (_UnclearError, ArithmeticError, LookupError, TypeError, ValueError)


FullName: TypeAlias = "Callable[[ast.expr, Find], str | None]"
"""The full name of what an expression takes of an import; None for any other."""


class Open(enum.Enum):
    """What may be one thing or another, whatever the version of torch is: a GPU decides, or an argument."""

    EITHER = "either"


EITHER: Final = Open.EITHER
Truth: TypeAlias = "bool | Open | None"
"""Whether a condition holds; None if that is not known, and the version of torch may decide."""


class KnownTorch(Struct, frozen=True, kw_only=True):
    """What is known of a torch.

    :ivar release: the number of its release; None if it is not an embedded one
    :ivar has: whether what has a full name has an attribute; None if it is not of torch, or that is not known
    :ivar facts: what its build, the system and Python say, by full names, those of functions with parentheses
    """

    release: str | None
    has: Callable[[str, str], bool | None] = lambda _owner, _name: None
    facts: Mapping[str, object] = {}


def truth_of(
    test: ast.expr,
    torch: KnownTorch,
    find: Find,
    full_name: FullName,
    is_value: Callable[[ast.expr], bool] = lambda _: False,
) -> Truth:
    """Whether a condition holds there.

    :param find: what finds the names in the condition
    :param is_value: whether an expression says nothing of the version of torch
    """
    answers: set[bool | Open] = set()
    for build in (torch.release, f"{torch.release}+cpu") if torch.release is not None else (None,):
        evaluator = _Evaluator(build, torch, find, full_name, is_value)
        try:
            answer = _as_truth(evaluator.value(test, {}))
        except _UNCLEAR:
            return None
        if not evaluator.asked:
            return None
        answers.add(answer)
        if not evaluator.asked_version:
            break
    return answers.pop() if len(answers) == 1 else None


class _Evaluator:
    """Evaluates expressions that ask for the version of torch, or for its build.

    :ivar asked: whether one did
    :ivar asked_version: whether one did for the version
    """

    def __init__(
        self,
        version: str | None,
        torch: KnownTorch,
        find: Find,
        full_name: FullName,
        is_value: Callable[[ast.expr], bool],
    ) -> None:
        self._version, self._torch, self._full_name = version, torch, full_name
        self._find, self._outer, self._is_value = find, find, is_value
        self._steps = 0
        self.asked = self.asked_version = False

    def value(self, node: ast.expr, names: Mapping[str, object]) -> object:
        """Return the value of an expression.

        :param names: the values of parameters
        """
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _UnclearError
        try:
            return self._known(node, names)
        except _UNCLEAR:
            if self._find is not self._outer or not self._is_value(node):
                raise
            return EITHER

    def _known(self, node: ast.expr, names: Mapping[str, object]) -> object:
        if self._asks_version(node):
            version = self._own_version()
            is_text = Version(version) < _COMPARES_NUMBERS
            return version if is_text else Version(version)
        if "TYPE_CHECKING" in (getattr(node, "id", None), getattr(node, "attr", None)):
            self.asked = True
            return False
        full = self._named(node)
        if full is not None and full in self._torch.facts:
            self.asked = True
            return self._torch.facts[full]
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id] if node.id in names else self._constant(node.id)
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            return tuple(self.value(item, names) for item in node.elts)
        if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
            value = self.value(node.value, names)
            return EITHER if value is EITHER else getattr(_as_version(value), node.attr)
        if isinstance(node, ast.Subscript):
            return self._item(node, names)
        if isinstance(node, (ast.UnaryOp, ast.BoolOp, ast.Compare)):
            return self._condition(node, names)
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return self._converted(node, names)
        if isinstance(node, ast.Call):
            return self._has_name(node) if getattr(node.func, "id", "") == "hasattr" else self._call(node, names)
        raise _UnclearError

    def _own_version(self) -> str:
        if self._version is None:
            raise _UnclearError
        self.asked = self.asked_version = True
        return self._version

    def _asks_version(self, node: ast.expr) -> bool:
        return isinstance(node, (ast.Attribute, ast.Name)) and self._full_name(node, self._find) in VERSIONS

    def _named(self, node: ast.expr) -> str | None:
        """Return the full name of an attribute, or of a function that is called without arguments."""
        called = node.func if isinstance(node, ast.Call) and not (node.args or node.keywords) else None
        named = called or node
        full = self._full_name(named, self._find) if isinstance(named, (ast.Attribute, ast.Name)) else None
        return full if full is None or called is None else f"{full}()"

    def _text(self, node: ast.expr, names: Mapping[str, object]) -> object:
        """Return the value of an expression; ``torch.__version__`` is a text, too."""
        return self._own_version() if self._asks_version(node) else self.value(node, names)

    def _constant(self, name: str) -> object:
        found = self._find(name)
        if found is None or not isinstance(found.statement, ast.Assign):
            raise _UnclearError
        if not all(isinstance(target, ast.Name) for target in found.statement.targets):
            raise _UnclearError
        return self._value_there(found.statement.value, {}, found.find)

    def _value_there(self, node: ast.expr, names: Mapping[str, object], find: Find) -> object:
        """Return the value of an expression that stands in another module or function."""
        here, self._find = self._find, find
        try:
            return self.value(node, names)
        finally:
            self._find = here

    def _item(self, node: ast.Subscript, names: Mapping[str, object]) -> object:
        value = self._text(node.value, names)
        if value is EITHER:
            return EITHER
        if not isinstance(value, (tuple, str)):
            raise _UnclearError
        if isinstance(node.slice, ast.Slice):
            lower, upper = node.slice.lower, node.slice.upper
            start = 0 if lower is None else _as_int(self.value(lower, names))
            end = len(value) if upper is None else _as_int(self.value(upper, names))
            if node.slice.step is not None:
                raise _UnclearError
            return value[start:end]
        return value[_as_int(self.value(node.slice, names))]

    def _condition(self, node: ast.UnaryOp | ast.BoolOp | ast.Compare, names: Mapping[str, object]) -> bool | Open:
        if isinstance(node, ast.Compare):
            values = [self.value(item, names) for item in (node.left, *node.comparators)]
            pairs = zip(node.ops, values, values[1:], strict=False)
            return _all_or_any([_compare(sign, left, right) for sign, left, right in pairs], deciding=False)
        if isinstance(node, ast.BoolOp):
            deciding = isinstance(node.op, ast.Or)
            return _all_or_any([self._part(item, names) for item in node.values], deciding=deciding)
        value = _as_truth(self.value(node.operand, names))
        if not isinstance(node.op, ast.Not):
            raise _UnclearError
        return EITHER if value is EITHER else not value

    def _part(self, node: ast.expr, names: Mapping[str, object]) -> Truth:
        asked = self.asked
        try:
            return _as_truth(self.value(node, names))
        except _UNCLEAR:
            self.asked = asked
            return None

    def _converted(self, node: ast.GeneratorExp | ast.ListComp, names: Mapping[str, object]) -> object:
        """Return the numbers in ``int(part) for part in parts``."""
        (loop,) = node.generators
        items = self.value(loop.iter, names)
        if not isinstance(items, tuple) or not isinstance(loop.target, ast.Name) or loop.ifs:
            raise _UnclearError
        return tuple(self.value(node.elt, {**names, loop.target.id: item}) for item in items)

    def _call(self, node: ast.Call, names: Mapping[str, object]) -> object:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        is_split = isinstance(node.func, ast.Attribute) and called in {"split", "rsplit"}
        if any(keyword.arg != "maxsplit" or not is_split for keyword in node.keywords):
            raise _UnclearError
        if called == "map" and len(node.args) == 2 and getattr(node.args[0], "id", "") == "int":
            items = self.value(node.args[1], names)
            if isinstance(items, tuple):
                return tuple(int(item) for item in items)
            raise _UnclearError
        found = self._find(called) if isinstance(node.func, ast.Name) else None
        if found is not None and isinstance(found.statement, _DEFINITIONS):
            return self._result(found, node.args, names)
        if called in {"RequirementCache", "compare_version"}:
            if found is None or not _is_of_lightning(found.statement):
                raise _UnclearError
            return self._installed(called, node.args, names)
        if isinstance(node.func, ast.Attribute) and called in {"split", "startswith", "rsplit"}:
            return self._of_text(node, node.func, names)
        (value,) = (self.value(item, names) for item in node.args)
        convert = _as_version if called in _PARSERS else _CONVERTERS[called]
        if called not in _PARSERS and not isinstance(node.func, ast.Name):
            raise _UnclearError
        return EITHER if value is EITHER else convert(value)

    def _of_text(self, node: ast.Call, method: ast.Attribute, names: Mapping[str, object]) -> object:
        """Return what a method of a text does."""
        text = self._text(method.value, names)
        arguments = [self.value(item, names) for item in (*node.args, *(keyword.value for keyword in node.keywords))]
        if text is EITHER:
            return EITHER
        if not isinstance(text, str):
            raise _UnclearError
        answer = getattr(text, method.attr)(*arguments)
        return tuple(answer) if isinstance(answer, list) else answer

    def _has_name(self, node: ast.Call) -> bool:
        """Return what ``hasattr`` says of a module or a class of torch."""
        owner, name = node.args
        text = name.value if isinstance(name, ast.Constant) else None
        full = self._full_name(owner, self._find)
        answer = self._torch.has(full, text) if full is not None and isinstance(text, str) else None
        if answer is None:
            raise _UnclearError
        self.asked = True
        return answer

    def _installed(self, called: str, arguments: list[ast.expr], names: Mapping[str, object]) -> bool:
        """Return whether the torch that is installed is as required: ``RequirementCache("torch>=2.1")``."""
        from packaging.requirements import Requirement  # few conditions have one

        package: object
        if called == "RequirementCache":
            (text,) = (self.value(argument, names) for argument in arguments)
            required = Requirement(str(text))
            if required.url or required.marker or not required.specifier:
                raise _UnclearError
            package, answer = required.name, required.specifier.contains(self._own_version(), prereleases=True)
        else:
            package, text = (self.value(argument, names) for argument in (arguments[0], arguments[2]))
            signs = {function.__name__: function for function in COMPARISONS.values()}
            sign = signs[getattr(arguments[1], "attr", "")]
            answer = bool(sign(Version(self._own_version()), _as_version(text)))
        if package != "torch":
            raise _UnclearError
        return answer

    def _result(self, found: Found, arguments: list[ast.expr], names: Mapping[str, object]) -> object:
        """Return what a function of the package returns that has a single statement besides its docstring and
        imports.
        """
        function = found.statement
        if not isinstance(function, ast.FunctionDef):
            raise _UnclearError
        if _checks_version(function):
            return _is_as_required(*(self._text(item, names) for item in arguments))
        values = [self.value(item, names) for item in arguments]
        body = [
            part
            for part in function.body
            if not isinstance(part, (ast.Import, ast.ImportFrom))
            if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        ]
        parameters = [parameter.arg for parameter in function.args.args]
        (statement,) = body
        if not isinstance(statement, ast.Return) or statement.value is None or len(values) != len(parameters):
            raise _UnclearError
        return self._value_there(statement.value, dict(zip(parameters, values, strict=True)), found.find)


def _checks_version(function: ast.FunctionDef) -> bool:
    """Whether a function is the one that YOLOv5 brought in utils/general.py, and Ultralytics in utils/checks.py."""
    parameters = [part.arg for part in function.args.args[:2]]
    return function.name == "check_version" and parameters in (["current", "minimum"], ["current", "required"])


def _is_as_required(current: object, required: object) -> bool:
    """Return what ``check_version(torch.__version__, "1.13.0")`` does: a plain number is the oldest that is right."""
    from packaging.specifiers import SpecifierSet  # few packages ask so

    if not isinstance(required, str) or not isinstance(current, str):
        raise _UnclearError
    specifier = SpecifierSet(f">={required}" if required[:1].isdigit() else required)
    return specifier.contains(current, prereleases=True)


def _is_of_lightning(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] == "lightning_utilities"


def _as_truth(value: object) -> bool | Open:
    if not (value is None or isinstance(value, (bool, str, Open))):
        raise _UnclearError
    return value if isinstance(value, Open) else bool(value)


def _all_or_any(truths: list[Truth], *, deciding: bool) -> bool | Open:
    """Return what ``and`` and ``or`` give, where one part may decide whatever the others are."""
    if deciding in truths:
        return deciding
    if None in truths:
        raise _UnclearError
    return EITHER if EITHER in truths else not deciding


def _compare(sign: ast.cmpop, left: object, right: object) -> bool | Open:
    if EITHER in (left, right):
        return EITHER
    if right is None:
        if isinstance(sign, (ast.Is, ast.Eq)):
            return left is None
        if isinstance(sign, (ast.IsNot, ast.NotEq)):
            return left is not None
    if isinstance(sign, (ast.In, ast.NotIn)):
        if not isinstance(right, tuple) or EITHER in right:
            raise _UnclearError
        return (left in right) is isinstance(sign, ast.In)
    function = COMPARISONS.get(type(sign))
    if function is None:
        raise _UnclearError
    if isinstance(left, Version) or isinstance(right, Version):
        left, right = _as_version(left), _as_version(right)
    elif type(left) is not type(right):
        raise _UnclearError
    return bool(function(left, right))


def _as_version(value: object) -> Version:
    if isinstance(value, tuple):
        value = ".".join(map(str, value))
    if not isinstance(value, (Version, str)):
        raise _UnclearError
    try:
        return Version(str(value))
    except InvalidVersion:
        raise _UnclearError from None


def _as_int(value: object) -> int:
    if not isinstance(value, (int, str)):
        raise _UnclearError
    return int(value)


def _as_tuple(value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple):
        raise _UnclearError
    return value


_CONVERTERS: Final[Mapping[str, Callable[[object], object]]] = {
    "int": _as_int,
    "str": str,
    "tuple": _as_tuple,
    "list": _as_tuple,
}
