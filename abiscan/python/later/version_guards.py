"""What may guard a use of torch, since it may depend on its version: conditions, decorators and contexts.

A condition on values says nothing of torch: they are the arguments of functions, and what is computed of them.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from abiscan.python.language.bound_names import names_bound_by
from abiscan.python.language.nodes import child_nodes, dotted_name, walk
from abiscan.python.later.version_tests import EITHER, VERSIONS, Truth
from abiscan.regex import regex

_VERSION_WORDS: Final = r"version|hasattr|getattr|avail|compat|torch_(?!dtype)|legacy|deprecat|greater"
_ASKING: Final = regex(_VERSION_WORDS, re.IGNORECASE)
"""What is in the words of conditions that ask which torch it is."""
_GUARDING_WORDS: Final = (
    _VERSION_WORDS + r"|has_|support|check(?!point)|require(?!s_grad)|ensure|verify|assert|skip|pytest|unittest|raise_"
)
_GUARDING: Final = regex(_GUARDING_WORDS, re.IGNORECASE)
"""What is in the words of conditions, of functions and of decorators that may do so."""
GUARDING_TEXT: Final = regex(_GUARDING_WORDS.encode() + rb"|suppress|raises|['\"](?:torch|\W*\d)", re.IGNORECASE)
"""What is in the text of code that has such words."""
_OF_TORCH: Final = regex(r"torch|version|cuda|gpu|triton", re.IGNORECASE)
"""What is in the words of what may say something of torch."""
MAY_ASK: Final = regex(rf"{_VERSION_WORDS}|has_|support|{_OF_TORCH.pattern}", re.IGNORECASE)
"""What is in the words of a value that may depend on which torch it is."""
_SAYING_TORCH: Final = regex(r"(?<![\w-])(?:py)?torch(?![\w-])|version|cuda|gpu|triton", re.IGNORECASE)
"""What a message has that is not about another package alone, such as segmentation-models-pytorch."""
_SAYING_VERSION: Final = regex(r"version|cuda|gpu|triton|\d\.\d", re.IGNORECASE)
"""What a message has that says which torch is needed."""
_NAMING_RELEASE: Final = regex(r"torch_\w*(?:\d|version|greater|less|least)|^hasattr$", re.IGNORECASE)
"""Words for releases of torch, and for nothing else."""
_IS_TORCH_THERE: Final = regex(
    r"_?(?:is_)?(?:py)?torch_(?:is_)?(?:available|installed)|_?(?:has|have)_(?:py)?torch", re.IGNORECASE
)
"""Words for whether there is a torch, of whatever release."""
_IS_PACKAGE_THERE: Final = regex(r"(?:module|package|lib|library|import)s?_?(?:is_)?(?:available|installed)|find_spec")
"""Words of functions that are asked for a package by its name."""
_PACKAGE: Final = regex(r"[A-Za-z_][\w.-]*")
_VERSION_ARGUMENT: Final = regex(r"torch|\W*\d+\.\d+.*")
"""A text that a decorator gets which asks for a version: ``@implement_for("torch", "2.4")``."""
_SAYING_NOTHING: Final = frozenset({"torch", "np", "numpy", *sys.stdlib_module_names})
"""Modules that say nothing of the version of torch, unless their words do."""
_OBJECT: Final = frozenset({"self", "cls"})
_OF_VALUES: Final = frozenset(
    {"abs", "all", "any", "bool", "dict", "enumerate", "float", "frozenset", "int", "len", "list", "max", "min"}
    | {"range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "type", "zip"}
)
"""Built-in functions that return what they compute of their arguments."""
_ASKS_OBJECTS: Final = frozenset({"getattr", "hasattr"})
_MADE_OF_PARTS = (
    *(ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Slice),
    *(ast.JoinedStr, ast.FormattedValue, ast.Starred),
)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_IMPORTS = (ast.Import, ast.ImportFrom)
_GOING_ON = (ast.Return, ast.Continue, ast.Break)
EXITS = (*_GOING_ON, ast.Raise)


def are_guarding(nodes: Iterable[ast.AST], values: Collection[str] = ()) -> bool:
    """Whether the words of conditions, decorators or contexts are those of something that asks for a version."""
    words = (word for node in nodes for word in words_in(node, values) if not _is_of_any_release(word, values))
    return any(
        (_GUARDING.search(word) or word in {"suppress", "raises"}) and checking(word) not in values for word in words
    )


def is_of_torch(node: ast.AST) -> bool:
    """Whether any word of a part of a source, or a text in it, may say something of torch."""
    return any(map(_OF_TORCH.search, words_in(node))) or says_torch(node)


def is_module_of_torch(name: str) -> bool:
    """Whether a module may be one of torch, or have to do with its version."""
    return name.startswith("torch") or _SAYING_TORCH.search(name) is not None


def asks_by_words(test: ast.AST, values: Collection[str]) -> bool:
    """Whether the words of a condition ask for a version."""
    return any(_ASKING.search(word) and not _is_of_any_release(word, values) for word in words_in(test, values))


def names_release(test: ast.AST, values: Collection[str]) -> bool:
    """Whether the words of a condition are about releases of torch, or about what a module has."""
    return any(_NAMING_RELEASE.search(word) for word in words_in(test, values))


def asks_for_version(tests: Sequence[ast.expr], values: Collection[str]) -> bool:
    """Whether conditions ask for a version, by their words or for a name of the module, unless that is given values."""
    names, waiting = set[str](), list[ast.AST](tests)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr) and _is_value(node, values):
            continue
        names.update([node.id] if isinstance(node, ast.Name) else ())
        is_of_class = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        waiting += () if is_of_class else child_nodes(node)  # of what class something is says nothing of torch
    return any(name not in values and not hasattr(builtins, name) for name in names - _SAYING_NOTHING)


def words_in(node: ast.AST, values: Collection[str] = ()) -> Iterator[str]:
    """Yield the names and texts in a part of a source, without what asks an object or a value for an attribute, or
    whether there is a package other than torch.
    """
    waiting = [node]
    while waiting:
        part = waiting.pop()
        if _asks_for_package(part):
            continue
        if isinstance(part, ast.Compare):
            waiting += _sides_of(part)
            continue
        if isinstance(part, ast.Attribute) and (name := dotted_name(part)).startswith("torch."):
            yield from ["version"] if name in VERSIONS else ()
            continue
        waiting += part.args[2:] if isinstance(part, ast.Call) and _asks_value(part, values) else child_nodes(part)
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        elif isinstance(part, ast.Constant) and isinstance(part.value, str) and " " not in part.value:
            yield "version" if _VERSION_ARGUMENT.fullmatch(part.value) else part.value


def chooses(test: ast.expr) -> bool:
    """Whether a condition compares something with plain texts, which say nothing of a version: ``backend == "jax"``."""
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Eq, ast.In))):
        return False
    values = [getattr(text, "value", None) for text in _listed(test.comparators[0])]
    are_plain = all(isinstance(value, str) and _PACKAGE.fullmatch(value) for value in values)
    return bool(values) and are_plain and not asks_by_words(test, ())


def _listed(node: ast.expr) -> Sequence[ast.expr]:
    return node.elts if isinstance(node, (ast.Tuple, ast.List, ast.Set)) else [node]


def _sides_of(test: ast.Compare) -> list[ast.expr]:
    """Return what is compared, without texts for torch, which is one of several: ``backend in ("torch", "jax")``."""
    parts = (part for side in (test.left, *test.comparators) for part in _listed(side))
    return [part for part in parts if not (isinstance(part, ast.Constant) and part.value == "torch")]


def _asks_for_package(node: ast.AST) -> bool:
    """Whether a call asks if there is another package, of whatever version: ``module_available("openvino")``."""
    if not (isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords):
        return False
    name, called = getattr(node.args[0], "value", None), getattr(node.func, "attr", getattr(node.func, "id", ""))
    is_package = isinstance(name, str) and _PACKAGE.fullmatch(name) is not None and not _OF_TORCH.search(name)
    return is_package and _IS_PACKAGE_THERE.search(called) is not None


def guards_what_follows(statement: ast.stmt, values: Collection[str], truth: Callable[[ast.expr], Truth]) -> bool:
    """Whether the code after a statement is left out because of it, or may be where that depends on the version."""
    if isinstance(statement, ast.If):
        ends = [bool(part) and isinstance(part[-1], EXITS) for part in (statement.body, statement.orelse)]
        holds = truth(statement.test) if any(ends) else EITHER
        if isinstance(holds, bool):
            return ends[not holds]
        return holds is None and not _asks_for_other_package(statement, values)
    if isinstance(statement, ast.Assert):
        return truth(statement.test) in {None, False}
    if isinstance(statement, ast.Try):
        # Whoever raises the error of an import again says nothing of what else there is.
        exits = _GOING_ON if all(isinstance(part, _IMPORTS) for part in statement.body) else EXITS
        return any(isinstance(node, exits) for handler in statement.handlers for node in walk(handler))
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and are_guarding([call.func]) and not _checks_values(call, values)


def _asks_for_other_package(statement: ast.If, values: Collection[str]) -> bool:
    """Whether a condition only refuses to go on where a package other than torch is not there: whoever gets there has
    what torch does not bring.
    """
    test, refusal = statement.test, statement.body[-1]
    if not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) and isinstance(test.operand, ast.Name)):
        return False
    error = refusal.exc if isinstance(refusal, ast.Raise) else None
    raised = error.func if isinstance(error, ast.Call) else error
    refuses = isinstance(raised, ast.Name) and raised.id in {"ImportError", "ModuleNotFoundError"}
    refuses |= isinstance(refusal, ast.Return) and getattr(refusal.value, "value", refusal.value) is None
    is_other = found(test.operand.id) in values and not _OF_TORCH.search(test.operand.id)
    return refuses and is_other and not statement.orelse and not says_torch(statement)


def found(flag: str) -> str:
    """Return what stands among the values for a flag that says whether packages other than torch could be imported."""
    return f"{flag}!"


def says_version(node: ast.AST) -> bool:
    """Whether any text in a part of a source may be about a version, or what torch was built for."""
    return any(map(_SAYING_VERSION.search, _texts_in(node)))


def says_torch(node: ast.AST) -> bool:
    """Whether any text in a part of a source may be about torch."""
    return any(map(_SAYING_TORCH.search, _texts_in(node)))


def _texts_in(node: ast.AST) -> Iterator[str]:
    return (part.value for part in walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))


def checking(function: str) -> str:
    """Return what stands among the values for a function of the package that only checks what it gets."""
    return f"{function}()"


def _checks_values(call: ast.Call, values: Collection[str]) -> bool:
    """Whether a call only checks, or ensures, something of values: ``ensure_dir(folder)``."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
    return checking(name) in values and all(_is_value(argument, values) for argument in arguments)


def is_guard(test: ast.expr, values: Collection[str]) -> bool:
    """Whether a condition may depend on the version of torch, as all may but those about values."""
    try:
        return not _is_about_values(test, values)
    except RecursionError:  # what is nested this deeply may be anything
        return True


def _asks_for_torch(test: ast.expr, values: Collection[str]) -> bool:
    """Whether a condition asks whether there is a torch, of whatever release."""
    name = test.func if isinstance(test, ast.Call) else test
    return isinstance(name, ast.Name) and _is_of_any_release(name.id, values)


def asks_if_torch_is_there(word: str) -> bool:
    """Whether a name is that of a flag, or of a function, for whether there is a torch."""
    return _IS_TORCH_THERE.fullmatch(word) is not None


def _is_of_any_release(word: str, values: Collection[str]) -> bool:
    return (asks_if_torch_is_there(word) and denying(word) not in values) or found_with_torch(word) in values


def found_with_torch(flag: str) -> str:
    """Return what stands among the values for a flag that says whether torch could be imported, perhaps with other
    packages.
    """
    return f"{flag}!!"


def denying(flag: str) -> str:
    """Return what stands among the values for a flag, or a function, that says of this torch that there is none."""
    return f"{flag}?"


def values_in(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, around: Collection[str]) -> frozenset[str]:
    """Return the names in a function that stand for values, those of the functions around it among them."""
    parameters = {part.arg for part in child_nodes(function.args) if isinstance(part, ast.arg)}
    bound: dict[str, list[ast.expr | None]] = {}
    made_of: dict[str, set[str]] = {}
    for part in _parts_of(function):
        for name, value in bound_by(part):
            bound.setdefault(name, []).append(value)
            for read in walk(value) if value else ():
                if isinstance(read, ast.Name):
                    made_of.setdefault(read.id, set()).add(name)
    values = (set(around) | parameters | bound.keys()) - _OBJECT
    # What is no value makes none of what is made of it.
    waiting = [*bound]
    while waiting:
        name = waiting.pop()
        if name in values and name in bound and not all(_is_value(value, values) for value in bound[name]):
            values.discard(name)
            waiting += made_of.get(name, ())
    return frozenset(values)


def _parts_of(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[ast.AST]:
    """Yield the parts of a function, without those of the functions and classes inside of it."""
    waiting: list[ast.AST] = list(function.body) if isinstance(function.body, list) else [function.body]
    while waiting:
        part = waiting.pop()
        yield part
        waiting += () if isinstance(part, _DEFINITIONS) else child_nodes(part)


def bound_by(part: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a part of a function binds, each with what it is made of; None if that is no value."""
    if isinstance(part, ast.Assign):
        pairs = [(target, part.value) for target in part.targets]
    elif isinstance(part, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and part.value is not None:
        pairs = [(part.target, part.value)]
    elif isinstance(part, (ast.For, ast.AsyncFor, ast.comprehension)):
        pairs = [(part.target, _element_of(part.iter))]
    elif isinstance(part, ast.withitem) and part.optional_vars is not None:
        pairs = [(part.optional_vars, part.context_expr)]
    else:
        # The names that are targets come with what they are targets of.
        yield from ((name, None) for name, _ in (() if isinstance(part, ast.Name) else names_bound_by(part)))
        return
    for target, value in pairs:
        yield from ((node.id, value) for node in walk(target) if isinstance(node, ast.Name) and _is_stored(node))


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _element_of(iterated: ast.expr) -> ast.expr:
    """Return what stands for an element of something: of what an object has, that is data, and not a flag."""
    return ast.Subscript(value=iterated, slice=ast.Constant(value=0), ctx=ast.Load())


def _is_about_values(test: ast.expr, values: Collection[str]) -> bool:
    if isinstance(test, ast.BoolOp):
        return all(_is_about_values(value, values) for value in test.values)
    if isinstance(test, ast.UnaryOp):
        return _is_about_values(test.operand, values)
    if _asks_for_torch(test, values):
        return True
    # A plain name may be a flag that somebody else has set by the version, and any function may ask for it.
    if isinstance(test, ast.Name):
        return False
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and not _asks_value(test, values):
        return test.func.id in _OF_VALUES | {"callable", "isinstance"} and _is_value(test, values)
    if isinstance(test, ast.Compare):
        sides = _sides_of(test)
        return all(_is_value(side, values) or getattr(side, "id", None) == "__name__" for side in sides)
    return _is_value(test, values)


def _is_value(node: ast.expr | None, values: Collection[str]) -> bool:
    """Whether an expression is a constant, or computed of values alone."""
    try:
        return node is not None and _is_made_of(node, values)
    except RecursionError:  # one that is nested this deeply is not looked at
        return False


def _is_made_of(node: ast.expr, values: Collection[str]) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return node.id in values
    if isinstance(node, ast.Attribute):
        if node.attr == "__version__":
            return False
        is_of_torch = isinstance(node.value, ast.Name) and node.value.id == "torch"
        return is_of_torch or _is_made_of(node.value, values) or _is_setting(node)
    if isinstance(node, ast.Subscript):
        is_of_object = isinstance(node.value, ast.Attribute) and getattr(node.value.value, "id", None) in _OBJECT
        return (is_of_object or _is_made_of(node.value, values)) and _is_made_of(node.slice, values)
    if isinstance(node, ast.Call):
        return _is_computed(node, values)
    if isinstance(node, _COMPREHENSIONS):
        return _is_collected(node, values)
    parts = (part for part in child_nodes(node) if isinstance(part, ast.expr))
    return isinstance(node, _MADE_OF_PARTS) and _are_made_of(parts, values)


def _are_made_of(nodes: Iterable[ast.expr], values: Collection[str]) -> bool:
    return all(_is_made_of(node, values) for node in nodes)


def _is_computed(node: ast.Call, values: Collection[str]) -> bool:
    """Whether a call returns what is computed of values: of those that a method or a function gets."""
    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
    if isinstance(node.func, ast.Name) and node.func.id in _ASKS_OBJECTS:
        return _asks_value(node, values) and _are_made_of(arguments[2:], values)
    if isinstance(node.func, ast.Attribute) and _is_made_of(node.func.value, values):
        return _are_made_of(arguments, values)
    if isinstance(node.func, ast.Attribute) and not arguments:
        return _is_setting(node)
    if isinstance(node.func, ast.Name) and node.func.id == "isinstance":  # whatever the class
        return bool(node.args) and _is_made_of(node.args[0], values)
    is_given_some = not all(isinstance(argument, ast.Constant) for argument in arguments)
    return is_given_some and root_of(node.func) not in _OBJECT and _are_made_of(arguments, values)


def _is_collected(node: ast.ListComp | ast.SetComp | ast.GeneratorExp, values: Collection[str]) -> bool:
    inside = set(values)
    for generator in node.generators:
        if not _is_made_of(_element_of(generator.iter), inside):
            return False
        inside |= {part.id for part in walk(generator.target) if isinstance(part, ast.Name)}
    tests = (test for generator in node.generators for test in generator.ifs)
    return _are_made_of((node.elt, *tests), inside)


def _asks_value(node: ast.Call, values: Collection[str]) -> bool:
    """Whether a call asks an object of the package, or a value, whether it has an attribute."""
    asks = isinstance(node.func, ast.Name) and node.func.id in _ASKS_OBJECTS and len(node.args) > 1
    return asks and (root_of(node.args[0]) in _OBJECT or root_of(node.args[0]) in values)


def _is_setting(node: ast.expr) -> bool:
    """Whether an expression is what users set in an object of the object: ``self.config.name.lower()``."""
    attributes = 0
    while isinstance(node, (ast.Attribute, ast.Call)):
        if isinstance(node, ast.Call) and (node.args or node.keywords):
            return False
        attributes += isinstance(node, ast.Attribute)
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id == "self" and attributes > 1


def root_of(node: ast.expr) -> str | None:
    """Return the name that attributes, items and calls begin with."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None
