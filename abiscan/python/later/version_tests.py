"""Conditions on the version of torch, evaluated for one release: ``Version(torch.__version__) >= Version("2.1")``.

``RequirementCache`` and ``compare_version`` are those of lightning_utilities, which ask for what is installed.

What is not understood is not known. A build may have a local version (``+cpu``) or none: an answer must hold for both.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from packaging.version import InvalidVersion, Version

from abiscan.python.interpreter.operations import COMPARISONS

_PARSERS: Final = frozenset({"parse", "Version", "LooseVersion", "StrictVersion", "TorchVersion", "parse_version"})
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


Has: TypeAlias = "Callable[[ast.expr, str, Find], bool | None]"
"""Whether what an expression stands for has a name in a release; None if it is not of torch, or that is not known."""


def truth_of(
    test: ast.expr,
    release: str,
    is_version: Callable[[ast.expr, Find], bool],
    find: Find,
    has: Has = lambda _owner, _name, _find: None,
) -> bool | None:
    """Whether a condition holds in a release; None if that is not known, or it does not depend on its version.

    :param is_version: whether an expression is ``torch.__version__``, where names are found in this way
    :param find: what finds the names in the condition
    :param has: what ``hasattr`` says of names of torch
    """
    answers: set[bool] = set()
    for build in (release, f"{release}+cpu"):
        evaluator = _Evaluator(build, is_version, find, has)
        try:
            answer = evaluator.value(test, {})
        except (_UnclearError, ArithmeticError, LookupError, TypeError, ValueError):
            return None
        if not isinstance(answer, bool) or not evaluator.asked:
            return None
        answers.add(answer)
    return answers.pop() if len(answers) == 1 else None


class _Evaluator:
    """Evaluates expressions that ask for the version of torch.

    :ivar asked: whether one did
    """

    def __init__(self, version: str, is_version: Callable[[ast.expr, Find], bool], find: Find, has: Has) -> None:
        self._version, self._is_version, self._find, self._has = version, is_version, find, has
        self._steps = 0
        self.asked = False

    def value(self, node: ast.expr, names: Mapping[str, object]) -> object:
        """Return the value of an expression.

        :param names: the values of parameters
        """
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _UnclearError
        if self._is_version(node, self._find):
            self.asked = True
            is_text = Version(self._version) < _COMPARES_NUMBERS
            return self._version if is_text else Version(self._version)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id] if node.id in names else self._constant(node.id)
        if isinstance(node, (ast.Tuple, ast.List)):
            return tuple(self.value(item, names) for item in node.elts)
        if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
            return getattr(_as_version(self.value(node.value, names)), node.attr)
        if isinstance(node, ast.Subscript):
            return self._item(node, names)
        if isinstance(node, (ast.UnaryOp, ast.BoolOp, ast.Compare)):
            return self._condition(node, names)
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return self._converted(node, names)
        if isinstance(node, ast.Call):
            return self._has_name(node) if getattr(node.func, "id", "") == "hasattr" else self._call(node, names)
        raise _UnclearError

    def _text(self, node: ast.expr, names: Mapping[str, object]) -> object:
        """Return the value of an expression; ``torch.__version__`` is a text, too."""
        value = self.value(node, names)
        return self._version if self._is_version(node, self._find) else value

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
        value = self.value(node, names)
        self._find = here
        return value

    def _item(self, node: ast.Subscript, names: Mapping[str, object]) -> object:
        value = self._text(node.value, names)
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

    def _condition(self, node: ast.UnaryOp | ast.BoolOp | ast.Compare, names: Mapping[str, object]) -> bool:
        if isinstance(node, ast.Compare):
            values = [self.value(item, names) for item in (node.left, *node.comparators)]
            pairs = zip(node.ops, values, values[1:], strict=False)
            return all(_compare(sign, left, right) for sign, left, right in pairs)
        if isinstance(node, ast.BoolOp):
            return self._all_or_any(node, names)
        value = self.value(node.operand, names)
        if not isinstance(value, bool) or not isinstance(node.op, ast.Not):
            raise _UnclearError
        return not value

    def _all_or_any(self, node: ast.BoolOp, names: Mapping[str, object]) -> bool:
        """Return what ``and`` and ``or`` give, where one part may decide whatever the others are."""
        deciding = isinstance(node.op, ast.Or)
        is_unclear = False
        for item in node.values:
            here, asked = self._find, self.asked
            try:
                value = self.value(item, names)
            except (_UnclearError, ArithmeticError, LookupError, TypeError, ValueError):
                value, self._find, self.asked = None, here, asked
            if value is deciding:
                return deciding
            is_unclear |= not isinstance(value, bool)
        if is_unclear:
            raise _UnclearError
        return not deciding

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
        values = [self.value(item, names) for item in node.args]
        if isinstance(node.func, ast.Attribute) and called in {"split", "startswith", "rsplit"}:
            text = self._text(node.func.value, names)
            if not isinstance(text, str):
                raise _UnclearError
            most = [self.value(keyword.value, names) for keyword in node.keywords]
            answer = getattr(text, called)(*values, *most)
            return tuple(answer) if isinstance(answer, list) else answer
        if len(values) != 1:
            raise _UnclearError
        if called in _PARSERS:
            return _as_version(values[0])
        converter = _CONVERTERS.get(called)
        if converter is None or not isinstance(node.func, ast.Name):
            raise _UnclearError
        return converter(values[0])

    def _has_name(self, node: ast.Call) -> bool:
        """Return what ``hasattr`` says of a module or a class of torch."""
        owner, name = node.args
        text = name.value if isinstance(name, ast.Constant) else None
        answer = self._has(owner, text, self._find) if isinstance(text, str) else None
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
            from packaging.requirements import Requirement  # few packages ask so

            required = Requirement(str(text))
            if required.url or required.marker or not required.specifier:
                raise _UnclearError
            package, answer = required.name, required.specifier.contains(self._version, prereleases=True)
        else:
            package, text = (self.value(argument, names) for argument in (arguments[0], arguments[2]))
            signs = {function.__name__: function for function in COMPARISONS.values()}
            sign = signs[getattr(arguments[1], "attr", "")]
            answer = bool(sign(Version(self._version), _as_version(text)))
        if package != "torch":
            raise _UnclearError
        self.asked = True
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


def _compare(sign: ast.cmpop, left: object, right: object) -> bool:
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
