"""Whether running a module may give it names that do not stand in its source."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from abiscan.python.language.grammar import FAILURES, parse
from abiscan.regex import regex

_WORDS = regex(rb"import \*|__getattr__|globals\(|vars\(|locals\(|exec\(|\.modules\b|__name__|_convert_\(")
_CALLS = frozenset({"globals", "vars", "locals", "_convert_"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IMPORTS = frozenset({"import_module", "__import__", "get"})
_READING = frozenset({"copy", "get", "items", "keys", "values"})
"""Methods of a namespace that change nothing."""
_MODULE_TYPES = (["types.ModuleType"], ["ModuleType"])
_COLLECTING = frozenset({"dict", "frozenset", "list", "set", "sorted", "tuple"})


@functools.lru_cache(maxsize=64)
def may_have_others(source: bytes) -> bool:
    """Whether a module may have names that are not words of its source: added by its body, or made by ``__getattr__``.

    What a function does counts only if the body names it, or a function that the body names.
    """
    if not _WORDS.search(source):
        return False
    try:
        return _may_have_others(source, parse(source))
    except FAILURES:  # what is nested too deeply may do anything
        return True


def _may_have_others(source: bytes, tree: ast.Module) -> bool:
    # A function counts as called wherever its bare name stands in code that runs at import. Which object the name
    # belongs to, and whether it is called at all, is not asked: the answer may only err towards yes.
    functions = _function_bodies(tree)
    hooks = [item for item in tree.body if getattr(item, "name", None) == "__getattr__"]
    needs_tables = hooks or b"attach(" in source or b"globals().update(" in source
    tables = _tables_of(tree) if needs_tables else frozenset[str]()
    if not all(isinstance(hook, ast.FunctionDef) and _gives_words_alone(hook, tables) for hook in hooks):
        return True
    waiting, seen = list(_own_nodes(tree.body)), set[str]()
    if any(isinstance(item, ast.Call) and getattr(item.func, "id", None) == "exec" for item in waiting):
        return True
    attached = _attached_hooks(tree, tables) if b"attach(" in source else ()
    if any(_binds_hook(item) and id(item) not in attached for item in waiting):
        return True
    harmless = {id(part) for node in ast.walk(tree) for part in _only_read(node, tree, tables)}
    while waiting:
        node = waiting.pop()
        if id(node) not in harmless and _adds_names(node):
            return True
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else None
        if name is not None and name not in seen:
            seen.add(name)
            waiting.extend(item for function in functions.get(name, ()) for item in _own_nodes(function))
    return False


def may_give_words(source: bytes) -> bool:
    """Whether any word of a module may be one of its names, wherever it stands: code may make names from texts."""
    return _WORDS.search(source) is not None


def may_bind(source: bytes, name: str) -> bool:
    """Whether running a module may bind a name that is a word of its source: not if it stands only where others use it.

    A text with that word may be what something makes names from.
    """
    word = re.escape(name.encode())
    # Most names are bound by a statement at the left margin, which needs no parsing.
    if re.search(rb"(?m)^(?:(?:async )?def |class |import |from .* import .*\b)?" + word + rb"\b", source):
        return True
    try:
        tree = parse(source)
    except FAILURES:
        return True
    # What a function binds is a name of the module only if ``global`` says so; what a class binds, never.
    own = set(map(id, _own_nodes(tree.body, (*_FUNCTIONS, ast.ClassDef))))
    if b"__doc__" not in source:  # what stands alone is for readers
        own -= {
            id(item.value) for item in tree.body if isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant)
        }
    return any(_node_binds(node, name, is_own=id(node) in own) for node in ast.walk(tree))


def may_replace(source: bytes, name: str) -> bool:
    """Whether a package may bind the name of one of its submodules to something else."""
    try:
        tree = parse(source)
    except FAILURES:
        return True
    of_package = {
        id(alias)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is None
        for alias in node.names
        if alias.asname in (None, alias.name)
    }
    texts = (ast.Constant, ast.ExceptHandler)
    nodes = (node for node in ast.walk(tree) if not isinstance(node, texts) and id(node) not in of_package)
    return any(_node_binds(node, name, is_own=True) for node in nodes)


def _node_binds(node: ast.AST, name: str, *, is_own: bool) -> bool:
    if isinstance(node, ast.Global):
        return name in node.names
    if not is_own:
        return False
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and name in node.value.split()
    if isinstance(node, ast.alias):
        return name in (node.asname or node.name).split(".")
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Store)
    if isinstance(node, ast.ExceptHandler):  # the name is gone afterwards
        return False
    return name in (getattr(node, "name", None), getattr(node, "rest", None))


@functools.lru_cache(maxsize=64)
def star_imports(source: bytes) -> Sequence[str]:
    """Return the modules from which it imports all names, or copies all that they list, as they are written, with
    leading dots.
    """
    copies = b".__all__" in source
    if b"import *" not in source and not copies:
        return []
    tree = parse(source)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    stars = [_module_of(node) for node in nodes if any(alias.name == "*" for alias in node.names)]
    copied = {_copied_module(node) for node in tree.body if isinstance(node, ast.For)} if copies else set[str | None]()
    of_package = ((node, alias) for node in nodes for alias in node.names if (alias.asname or alias.name) in copied)
    return stars + [f"{_module_of(node)}{'.' if node.module else ''}{alias.name}" for node, alias in of_package]


def _module_of(node: ast.ImportFrom) -> str:
    return "." * node.level + (node.module or "")


def _copied_module(loop: ast.For) -> str | None:
    """Return the name of the module of which a loop binds all that it lists: ``for n in m.__all__: vars()[n] = …``."""
    is_list = isinstance(loop.iter, ast.Attribute) and loop.iter.attr == "__all__"
    module = getattr(loop.iter.value, "id", None) if isinstance(loop.iter, ast.Attribute) and is_list else None
    stores = any(isinstance(part, ast.Subscript) and _is_stored_by(part, loop) for part in ast.walk(loop))
    return module if stores else None


def _is_stored_by(item: ast.Subscript, loop: ast.For) -> bool:
    """Whether a loop binds what it iterates over as a name of the module."""
    is_namespace = isinstance(item.value, ast.Call) and getattr(item.value.func, "id", None) in {"globals", "vars"}
    key = getattr(item.slice, "id", "")
    return is_namespace and isinstance(item.ctx, ast.Store) and key == getattr(loop.target, "id", None)


def names_listed_by(tree: ast.Module) -> tuple[str, ...] | None:
    """Return what ``__all__`` lists; None if that is not the value of a single statement."""
    values = [
        statement.value
        for statement in tree.body
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", None) == "__all__"
    ]
    items = values[0].elts if values and isinstance(values[0], (ast.List, ast.Tuple)) else None
    names = [item.value for item in items or () if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return tuple(names) if items is not None and len(names) == len(items) else None


def package_of(file: str) -> str:
    """Return the package that relative imports of a module start from."""
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if file.endswith("/__init__.py") else name.rpartition(".")[0]


@functools.lru_cache(maxsize=4096)
def absolute_name(package: str, name: str) -> str:
    """Return the full name of a module that is imported inside a package, relatively (with leading dots) or not."""
    level = len(name) - len(name.lstrip("."))
    if level == 0:
        return name
    # As _resolve_name (Lib/importlib/_bootstrap.py): one dot is the package itself, each further one the package around
    # it.
    steps = package.split(".")
    return ".".join([*steps[: max(len(steps) - level + 1, 0)], *filter(None, [name[level:]])])


def _function_bodies(tree: ast.Module) -> dict[str, list[list[ast.stmt]]]:
    """Return the bodies of functions by name; those of methods by the name of their class, too."""
    bodies: dict[str, list[list[ast.stmt]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            bodies.setdefault(node.name, []).append(node.body)
        elif isinstance(node, ast.ClassDef):
            methods = (
                method for method in ast.walk(node) if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
            )
            bodies.setdefault(node.name, []).extend(method.body for method in methods)
    return bodies


def _own_nodes(body: Iterable[ast.AST], apart: tuple[type[ast.AST], ...] = _FUNCTIONS) -> Iterator[ast.AST]:
    """Yield the nodes of statements, the bodies of functions in them apart."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        inside = set(map(id, getattr(node, "body", ()))) if isinstance(node, apart) else set()
        waiting.extend(child for child in ast.iter_child_nodes(node) if id(child) not in inside)


def _binds_hook(node: ast.AST) -> bool:
    """Whether a node binds ``__getattr__`` to a function from elsewhere."""
    if isinstance(node, ast.alias):
        return (node.asname or node.name) == "__getattr__"
    return isinstance(node, ast.Name) and node.id == "__getattr__" and isinstance(node.ctx, ast.Store)


def _tables_of(tree: ast.Module) -> frozenset[str]:
    """Return the names that a module only binds to collections of its own words."""
    bound: dict[str, list[ast.expr | None]] = {}
    for node in sorted(_own_nodes(tree.body), key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                bound.setdefault(getattr(target, "id", ""), []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            bound.setdefault(getattr(node.target, "id", ""), []).append(node.value)
        elif isinstance(node, ast.alias):
            bound.setdefault((node.asname or node.name).partition(".")[0], []).append(None)
    of_words = {  # TABLE.append("word")
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and all(isinstance(argument, ast.Constant) for argument in node.args)
        if getattr(node.func, "attr", "") in {"add", "append"}
    }
    changed = {
        getattr(node.value, "id", "")
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr not in _READING and id(node) not in of_words)
        or (isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load))
    }
    changed.update(getattr(node.target, "id", "") for node in ast.walk(tree) if isinstance(node, ast.AugAssign))
    changed.update(name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names)
    tables = frozenset[str]()
    for name, values in bound.items():  # one may be made of those above it
        if name not in changed and all(value is not None and _is_of_words(value, tables) for value in values):
            is_whole = all(value is not None and _is_listed(value, tables) for value in values)
            tables |= {name, _whole(name)} if is_whole else {name}
    return tables


def _whole(name: str) -> str:
    """Return what stands among the tables for one of which the values are words, too."""
    return f"{name}()"


def _is_of_words(value: ast.expr, tables: frozenset[str]) -> bool:
    """Whether all texts in a collection stand in its source: none is put together of others."""
    if isinstance(value, ast.Constant):
        return True
    if isinstance(value, ast.Name):
        return value.id in tables
    if isinstance(value, (ast.Set, ast.List, ast.Tuple)):
        return all(_is_of_words(item, tables) for item in value.elts)
    if isinstance(value, ast.Dict):  # what it maps its words to may be anything
        return all(key is not None and _is_of_words(key, tables) for key in value.keys)
    if isinstance(value, ast.DictComp):
        inside = tables | {
            part.id for loop in value.generators for part in ast.walk(loop.target) if isinstance(part, ast.Name)
        }
        return all(_is_of_words(loop.iter, inside) for loop in value.generators) and _is_of_words(value.key, inside)
    if not isinstance(value, ast.Call) or value.keywords:
        return False
    if isinstance(value.func, ast.Attribute):
        is_whole = _whole(getattr(value.func.value, "id", "")) in tables
        return value.func.attr in _READING and not value.args and is_whole
    return getattr(value.func, "id", None) in _COLLECTING and all(_is_of_words(item, tables) for item in value.args)


def _attached_hooks(tree: ast.Module, tables: frozenset[str]) -> set[int]:
    """Return the names ``__getattr__``, by identity, that are bound to what gives words of the module alone:
    ``lazy_loader.attach``, or a function of the module that does the same.
    """
    own = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    loaders = {
        name.asname or name.name
        for node in tree.body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
        if "lazy_loader" in (name.name, getattr(node, "module", None))
    }
    hooks = set[int]()
    for node in tree.body:
        call = node.value if isinstance(node, ast.Assign) else None
        if not isinstance(call, ast.Call):
            continue
        given = [item for item in (*call.args, *(keyword.value for keyword in call.keywords)) if not _is_own_name(item)]
        function = own.get(getattr(call.func, "id", ""))
        root = call.func.value if isinstance(call.func, ast.Attribute) else call.func
        is_loader = getattr(call.func, "attr", "attach") == "attach" and getattr(root, "id", "") in loaders
        if (is_loader or (function is not None and _attaches(function))) and all(
            _is_listed(item, tables) for item in given
        ):
            hooks.update(id(part) for part in ast.walk(node) if getattr(part, "id", None) == "__getattr__")
    return hooks


def _is_listed(value: ast.expr, tables: frozenset[str]) -> bool:
    """Whether a table has all words that it gives: those that modules are mapped to, too."""
    listed = value.values if isinstance(value, ast.Dict) else []
    return _is_of_words(value, tables) and all(_is_of_words(item, tables) for item in listed)


def _attaches(function: ast.FunctionDef) -> bool:
    """Whether the hook that a function defines only gives what is in the tables that it gets."""
    hooks = [node for node in function.body if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"]
    parameters = [argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)]
    tables = frozenset(parameters).union(map(_whole, parameters))
    for node in _own_nodes(function.body):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            tables |= {node.targets[0].id} if _is_of_words(node.value, tables) else set()
    return bool(hooks) and all(_gives_words_alone(hook, tables) for hook in hooks)


def _gives_words_alone(hook: ast.FunctionDef, tables: frozenset[str]) -> bool:
    """Whether a ``__getattr__`` only gives names that are words of its module, and raises for all others: wherever it
    returns something, it has found the name in a table, or compared it with a text.
    """
    if hook.decorator_list or len(hook.args.args) != 1 or not hook.body:
        return False
    name = hook.args.args[0].arg
    parts = list(_own_nodes(hook.body))
    is_bound = any(isinstance(part, ast.Name) and part.id == name and isinstance(part.ctx, ast.Store) for part in parts)
    if is_bound or any(isinstance(part, (*_FUNCTIONS, ast.ClassDef)) for part in parts):
        return False
    return _raises_for_others(hook.body, name, tables) and _ends_in_raise(hook.body)


def _raises_for_others(block: list[ast.stmt], name: str, tables: frozenset[str], *, by_class: bool = False) -> bool:
    """Whether a block returns nothing for a name that it has not found.

    :param by_class: whether it may return what the class around has of that name
    """
    for statement in block:
        if isinstance(statement, ast.If):
            # Of two conditions that both must hold, one is enough.
            test = statement.test
            is_and = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
            tests = test.values if isinstance(test, ast.BoolOp) and is_and else [test]
            is_found = any(_finds(test, name, tables) for test in tests)
            if not (is_found or _raises_for_others(statement.body, name, tables, by_class=by_class)):
                return False
            if not _raises_for_others(statement.orelse, name, tables, by_class=by_class):
                return False
        elif isinstance(statement, ast.Try):
            bodies = (statement.body, statement.orelse, statement.finalbody, *(one.body for one in statement.handlers))
            if not all(_raises_for_others(body, name, tables, by_class=by_class) for body in bodies):
                return False
        elif isinstance(statement, ast.Return):
            is_own = isinstance(statement.value, ast.Subscript) and _is_globals(statement.value.value)
            is_of_class = by_class and ast.unparse(statement) == f"return super().__getattribute__({name})"
            if not (is_own or is_of_class):
                return False
        elif any(isinstance(part, ast.Return) for part in ast.walk(statement)):
            return False
    return True


def _finds(test: ast.expr, name: str, tables: frozenset[str]) -> bool:
    """Whether a condition only holds for words of the module: ``name == "f"``, ``name in TABLE``, ``TABLE.get(n)``."""
    value = test.value if isinstance(test, ast.NamedExpr) else test
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        arguments = [getattr(argument, "id", None) for argument in value.args]
        return value.func.attr == "get" and getattr(value.func.value, "id", None) in tables and arguments == [name]
    if not (isinstance(test, ast.Compare) and len(test.ops) == 1 and getattr(test.left, "id", None) == name):
        return False
    other = test.comparators[0]
    if isinstance(test.ops[0], ast.Eq):
        return isinstance(other, ast.Constant)
    is_display = isinstance(other, (ast.Set, ast.Tuple, ast.List)) and all(
        isinstance(item, ast.Constant) for item in other.elts
    )
    is_table = getattr(other, "id", None) in tables
    return isinstance(test.ops[0], ast.In) and (is_display or is_table or _is_globals(other))


def _is_globals(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) == "globals"


def _ends_in_raise(block: list[ast.stmt]) -> bool:
    """Whether a block always ends in an exception, or returns before: it never comes to its end."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return _ends_in_raise(last.body) and _ends_in_raise(last.orelse)
    if isinstance(last, ast.Try):
        handlers = (handler.body for handler in last.handlers)
        return _ends_in_raise(last.orelse or last.body) and all(map(_ends_in_raise, handlers))
    return isinstance(last, (ast.Raise, ast.Return))


def _adds_names(node: ast.AST) -> bool:
    """Whether a node gets hold of the module or its namespace, or replaces the module by another object."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", None)
        # That of another object has nothing of this module.
        is_namespace = name in _CALLS and not (name == "vars" and node.args)
        return is_namespace or (name in _IMPORTS and any(map(_is_own_name, node.args)))
    if not isinstance(node, ast.Subscript) or getattr(node.value, "attr", None) != "modules":
        return False
    return isinstance(node.ctx, ast.Store) or _is_own_name(node.slice)


def _only_read(node: ast.AST, tree: ast.Module, tables: frozenset[str]) -> list[ast.AST]:
    """Return what a node takes an item of, or searches, or calls a method of that changes nothing, or that adds words
    of the module alone; and the module whose class it sets to one that adds none.
    """
    if isinstance(node, ast.Attribute):
        if node.attr == "__class__" and isinstance(node.ctx, ast.Store):
            return [node.value] if _sets_plain_class(node, tree) else []
        return [node.value] if node.attr in _READING else []
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "update":
        adds_words = _is_globals(node.func.value) and len(node.args) == 1 and _is_of_words(node.args[0], tables)
        return [node.func.value] if adds_words and not node.keywords else []
    # An item of ``sys.modules`` may be this module.
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Call):
        return [node.value]
    if isinstance(node, ast.For) and node in tree.body and _copied_module(node) is not None:
        return [part.value for part in ast.walk(node) if isinstance(part, ast.Subscript) and _is_stored_by(part, node)]
    if isinstance(node, ast.Compare) and all(isinstance(sign, (ast.In, ast.NotIn)) for sign in node.ops):
        return list(node.comparators)
    return []


def _sets_plain_class(target: ast.Attribute, tree: ast.Module) -> bool:
    """Whether all that sets the class of the module gives it one of its own classes, whose objects have no other names
    than their class: ``__getattribute__`` returns something only for names that it compares with texts.
    """
    setting = [node for node in tree.body if isinstance(node, ast.Assign) and target in node.targets]
    name = getattr(setting[0].value, "id", None) if setting else None
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    if len(classes) != 1 or [ast.unparse(base) for base in classes[0].bases] not in _MODULE_TYPES:
        return False
    methods = {item.name: item for item in classes[0].body if isinstance(item, (*_FUNCTIONS, ast.ClassDef))}
    finder = methods.get("__getattribute__")
    if "__getattr__" in methods or not isinstance(finder, (ast.FunctionDef, type(None))):
        return False
    parameters = [argument.arg for argument in finder.args.args] if finder else []
    return finder is None or (
        len(parameters) == 2 and _raises_for_others(finder.body, parameters[1], frozenset(), by_class=True)
    )


def _is_own_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "__name__"
