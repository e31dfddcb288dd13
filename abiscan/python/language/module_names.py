"""Which names the body of a module binds: surely, or on some of its ways. Read from its syntax, never executed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

from msgspec import Struct, field

from abiscan.python.language.dynamic_names import absolute_name
from abiscan.python.language.grammar import FAILURES, parse
from abiscan.python.language.nodes import TryStar, attribute_chain
from abiscan.python.language.targets import bound_names
from abiscan.python.language.written import write_expression
from abiscan.regex import regex

_NAME: Final = regex(r"[A-Za-z_]\w*")
_DOTTED: Final = regex(r"\.*[A-Za-z_]\w*(\.\w+)*")
_NAMESPACES: Final = frozenset({"globals", "vars", "locals"})
_SHORTEST_PREFIX: Final = 3
_MAKES_MODULES: Final = regex(rb"sys\.modules\[[^\]\n]+\]\s*=[^=]|meta_path|path_hooks")
_OWN_SUBMODULE: Final = regex(rb"sys\.modules\[f?\"([\w.]+)\.(?:\{\w+\}|(\w+))\"\]\s*=[^=]")
"""A module that is made by a name in the source: ``sys.modules["torch.a.b"]``, ``sys.modules[f"torch.a.{name}"]``."""


class ModuleNames(Struct, kw_only=True, dict=True):
    """The names of a module, or of a class.

    :ivar there: the names that are bound wherever the body ends
    :ivar possible: those that are bound on some paths; one that ends in ``*`` stands for all that begin so
    :ivar stars: the modules (of a class, its bases) whose names it has, too
    :ivar loads: the modules that are surely imported
    :ivar imports: the modules that any of its code may import, in functions too; names in modules among them
    :ivar is_package: whether other modules are in it
    :ivar is_open: whether it may have any other name
    :ivar makes_modules: whether it may make submodules without files
    :ivar is_config: whether its names are options: to set one that it does not have raises, too
    :ivar signatures: the parameters of its functions, and of ``Class.__init__``, as ``signature_text`` writes them
    :ivar imported: the full names of what it imports from other modules, by the names that it binds for them
    :ivar deprecated: its functions and classes that warn of their removal
    :ivar patched: the names that its code sets on other modules, or may
    """

    there: set[str] = field(default_factory=set)
    possible: set[str] = field(default_factory=set)
    stars: set[str] = field(default_factory=set)
    loads: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    is_package: bool = False
    is_open: bool = False
    makes_modules: bool = False
    is_config: bool = False
    signatures: dict[str, str] = field(default_factory=dict)
    imported: dict[str, str] = field(default_factory=dict)
    deprecated: set[str] = field(default_factory=set)
    patched: set[str] = field(default_factory=set)

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        """The prefixes of the wildcard entries in ``possible``; asked once all entries are there."""
        return tuple(name[:-1] for name in self.possible if name.endswith("*"))


def names_of(source: bytes, module: str, *, is_package: bool) -> ModuleNames:
    """Return the names that a source file binds; everything is open if it cannot be parsed."""
    try:
        tree = parse(source)
    except FAILURES:
        return ModuleNames(is_open=True)
    body = _Body(module, module if is_package else module.rpartition(".")[0])
    there, possible = body.run(tree.body)
    nodes = _all_nodes(tree)
    names = body.names
    names.there, names.possible, names.is_package = there, possible - there, is_package
    _look_inside(tree, nodes, names, module)
    _describe_functions(tree.body, names, body.package)
    _note_imports(nodes, names, body.package)
    _note_made_modules(source, nodes, names, module)
    if module == "torch":
        _note_core(nodes, names)
    return names


def _note_made_modules(source: bytes, nodes: Sequence[ast.AST], names: ModuleNames, module: str) -> None:
    """Note whether a module makes submodules; those that it makes by texts in it, it may have."""
    by_text = [match for match in _OWN_SUBMODULE.finditer(source) if match[1] == module.encode()]
    names.makes_modules = len(by_text) < len(_MAKES_MODULES.findall(source))
    if by_text:
        texts, prefixes = _texts_in(nodes)
        names.possible |= (texts | prefixes | {match[2].decode() for match in by_text if match[2]}) - names.there


def _note_imports(nodes: Sequence[ast.AST], names: ModuleNames, package: str) -> None:
    """Note what the code may import. ``import_module``, ``__getattr__`` and ``__all__`` may get any text."""
    for node in nodes:
        if isinstance(node, ast.Import):
            names.imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = absolute_name(package, "." * node.level + (node.module or "")) or ""
            names.imports |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and _DOTTED.fullmatch(node.value):
            names.imports |= {node.value, f"{package}.{node.value.lstrip('.')}"}


def _note_core(nodes: Sequence[ast.AST], names: ModuleNames) -> None:
    """Note what ``torch/__init__.py`` binds by names that it computes: those of ``torch._C``, and texts in it.

    It goes through ``dir()`` of these modules, and through tuples of texts.
    """
    texts, prefixes = _texts_in(nodes)
    for node in nodes:
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            texts |= _Body("torch", "torch").run(node.body)[1]
    names.possible |= (texts | prefixes) - names.there
    names.stars |= {"torch._C", "torch._C._VariableFunctions"}
    names.is_open = False


class _Body:
    """What statements bind, one after the other."""

    def __init__(self, module: str, package: str) -> None:
        self._module, self.package = module, package
        self.names = ModuleNames()

    def run(self, body: Sequence[ast.stmt], *, sure: bool = True) -> tuple[set[str], set[str]]:
        """Return the names that some statements surely bind, and all that they may bind."""
        # ``there`` is a part of ``possible`` at every step: ``del`` takes a name out of the former alone.
        there: set[str] = set()
        possible: set[str] = set()
        for node in body:
            more, maybe = self._names_of_statement(node, sure=sure)
            if isinstance(node, ast.Delete):
                there -= maybe
            there |= more
            possible |= more | maybe
        return there, possible

    def _names_of_statement(self, node: ast.stmt, *, sure: bool) -> tuple[set[str], set[str]]:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            return {node.name}, set(_walrus_names(node.decorator_list))
        if isinstance(node, ast.Import):
            return self._names_of_import(node, sure=sure), set()
        if isinstance(node, ast.ImportFrom):
            return self._import_from(node, sure=sure), set()
        if isinstance(node, ast.Assign):
            return set(_target_names(node.targets)), set(_walrus_names([node.value]))
        if isinstance(node, ast.AnnAssign):
            names = set(_target_names([node.target]))
            return (names, set(_walrus_names([node.value]))) if node.value is not None else (set(), names)
        if isinstance(node, ast.If):
            return self._names_of_if(node, sure=sure)
        if isinstance(node, (ast.Try, TryStar)):
            return self._names_of_try(node, sure=sure)
        if isinstance(node, (ast.With, ast.AsyncWith)):
            targets = set(_target_names([item.optional_vars for item in node.items if item.optional_vars is not None]))
            # ``suppress`` makes the body one of a ``try``: it may end anywhere.
            suppresses = any("suppress" in ast.dump(item.context_expr) for item in node.items)
            there, possible = self.run(node.body, sure=sure and not suppresses)
            return (targets, there | possible) if suppresses else (targets | there, possible)
        if isinstance(node, ast.Delete):
            return set(), set(_target_names(node.targets))
        return set(), self._names_of_anything(node)

    def _names_of_anything(self, node: ast.stmt) -> set[str]:
        """Return all names that a statement may bind, at whatever depth outside of functions and classes."""
        names = set(_walrus_names([node]))
        for field_name in ("body", "orelse", "finalbody"):
            inner = getattr(node, field_name, None)
            if isinstance(inner, list):
                names |= self.run(inner, sure=False)[1]
        if isinstance(node, (ast.For, ast.AsyncFor)):
            names |= set(_target_names([node.target]))
        if isinstance(node, ast.AugAssign):
            names |= set(_target_names([node.target]))
        for case in getattr(node, "cases", ()):
            names |= self.run(case.body, sure=False)[1]
            names |= {name for inner in ast.walk(case.pattern) for name in (getattr(inner, "name", None),) if name}
        return names

    def _names_of_if(self, node: ast.If, *, sure: bool) -> tuple[set[str], set[str]]:
        if _is_type_checking(node.test):
            return self.run(node.orelse, sure=sure)
        # A branch that always raises does not get to the code after it: then the other one alone counts.
        there, possible = self.run(node.body, sure=False)
        otherwise, possible_otherwise = self.run(node.orelse, sure=False)
        both = otherwise if _always_raises(node.body) else there if _always_raises(node.orelse) else there & otherwise
        return both, possible | possible_otherwise | set(_walrus_names([node.test]))

    def _names_of_try(self, node: ast.Try, *, sure: bool) -> tuple[set[str], set[str]]:
        # A handler that goes on may do so after any part of the body. So what the body binds is sure only if the
        # handler binds it, too.
        swallowing = [handler for handler in node.handlers if not _always_raises(handler.body)]
        there, possible = self.run([*node.body, *node.orelse], sure=sure and not swallowing)
        for handler in node.handlers:
            caught, possible_caught = self.run(handler.body, sure=False)
            possible |= possible_caught | ({handler.name} if handler.name else set())
            if handler in swallowing:
                possible |= there
                there = there & caught
        finally_there, finally_possible = self.run(node.finalbody, sure=sure)
        return there | finally_there, possible | finally_possible

    def _names_of_import(self, node: ast.Import, *, sure: bool) -> set[str]:
        if sure:
            self.names.loads |= {alias.name for alias in node.names}
        return {alias.asname or alias.name.partition(".")[0] for alias in node.names}

    def _import_from(self, node: ast.ImportFrom, *, sure: bool) -> set[str]:
        base = absolute_name(self.package, "." * node.level + (node.module or "")) or ""
        names = set()
        for alias in node.names:
            if alias.name == "*":
                self.names.stars.add(base)
            else:
                names.add(alias.asname or alias.name)
                if sure:
                    self.names.loads.add(f"{base}.{alias.name}")
        if sure:
            self.names.loads.add(base)
        return names


def _target_names(nodes: Iterable[ast.expr]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, (ast.Tuple, ast.List)):
            yield from _target_names(node.elts)
        elif isinstance(node, ast.Starred):
            yield from _target_names([node.value])


def _walrus_names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        for inner in _all_nodes(node):
            if isinstance(inner, ast.NamedExpr) and isinstance(inner.target, ast.Name):
                yield inner.target.id


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def _always_raises(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Raise)


_NO_CODE: Final = frozenset({"ctx", "op", "ops"})


def _all_nodes(tree: ast.AST) -> list[ast.AST]:
    """Return all nodes of a tree, without operators: what ``ast.walk`` gives, in half the time."""
    nodes = [tree]
    for node in nodes:
        for name in node._fields:
            value = None if name in _NO_CODE else getattr(node, name, None)
            if isinstance(value, list):
                nodes.extend([item for item in value if isinstance(item, ast.AST)])
            elif isinstance(value, ast.AST):
                nodes.append(value)
    return nodes


# ---- what is not bound by statements


def _look_inside(tree: ast.Module, nodes: Sequence[ast.AST], names: ModuleNames, module: str) -> None:
    """Note what functions bind, what is bound by computed names, and what is set on other modules."""
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in nodes
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    # What is bound here depends on which code runs, so all of it is bound perhaps.
    own = _aliases_of_module(nodes)
    for node in nodes:
        if isinstance(node, ast.Global):
            names.possible |= set(node.names) - names.there
        elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            _note_store(node, names, imported, own, module)
        elif isinstance(node, ast.Call):
            _note_call(node, names, imported, own)
    if "__getattr__" in names.there | names.possible:
        _note_hook(tree, nodes, names)


def _note_hook(tree: ast.Module, nodes: Sequence[ast.AST], names: ModuleNames) -> None:
    """Note what ``__getattr__`` gives: texts of the module, if it raises in the end and passes the name to nothing."""
    hooks = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"]
    if len(hooks) != 1 or not _always_raises(hooks[0].body) or any(_passes_on(node) for node in ast.walk(hooks[0])):
        names.is_open = True
        return
    texts, prefixes = _texts_in(nodes)
    names.possible |= (texts | prefixes) - names.there


def _passes_on(node: ast.AST) -> bool:
    """Whether an attribute is looked up by a name that is computed."""
    return (
        isinstance(node, ast.Call)
        and _decorator_name(node) in {"getattr", "__getattr__", "__getattribute__"}
        and len(node.args) > 1
        and not isinstance(node.args[1], ast.Constant)
    )


def _aliases_of_module(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that stand for ``sys.modules[__name__]``."""
    aliases = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and _is_own_module(node.value, frozenset()):
            aliases |= set(_target_names(node.targets))
    return frozenset(aliases)


def _is_own_module(node: ast.expr, aliases: frozenset[str]) -> bool:
    """Whether an expression is the module itself, or its namespace."""
    if isinstance(node, ast.Name):
        return node.id in aliases
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Name) and node.slice.id == "__name__" and "modules" in ast.dump(node.value)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _NAMESPACES


def _is_module_table(node: ast.expr) -> bool:
    """Whether an expression is ``sys.modules``."""
    return isinstance(node, ast.Attribute) and node.attr == "modules"


def _note_store(
    node: ast.Attribute | ast.Subscript, names: ModuleNames, imported: set[str], own: frozenset[str], module: str
) -> None:
    if isinstance(node, ast.Attribute):
        if _root_name(node.value) in imported:
            names.patched.add(node.attr)
        if _is_own_module(node.value, own):
            _bind_computed(ast.Constant(node.attr), names)
    elif _is_own_module(node, frozenset()) or _is_module_table(node.value):
        if _is_own_module(node, frozenset()) or list(_identifiers_in(node.slice)) == [module]:
            # Something else takes the module's place in ``sys.modules``: it may have any names, and may lack those of
            # the body.
            names.is_open = True
            names.possible |= names.there
            names.there = set()
    elif _is_own_module(node.value, own):
        _bind_computed(node.slice, names)
    elif isinstance(node.value, ast.Attribute) and node.value.attr == "__dict__":
        names.patched |= set(_identifiers_in(node.slice))


_ASKING: Final = frozenset({"getattr", "hasattr", "delattr", "dir", "vars", "isinstance", "id"})
"""The functions that get a module and leave it as it is; any other may do with it what it likes."""


_MAKES_CONFIG: Final = "install_config_module"
"""What turns a module into one of options: torch/utils/_config_module.py, at first torch/_dynamo/config_utils.py."""


def _note_call(node: ast.Call, names: ModuleNames, imported: set[str], own: frozenset[str]) -> None:
    function = node.func.id if isinstance(node.func, ast.Name) else None
    first = node.args[0] if node.args else None
    if function == "setattr" and len(node.args) == 3 and first is not None:
        if _is_own_module(first, own):
            _bind_computed(node.args[1], names)
        elif _root_name(first) in imported:
            names.patched |= set(_identifiers_in(node.args[1]))
    elif function == "exec":
        names.is_open |= len(node.args) < 2 or _is_own_module(node.args[1], own)
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "update" and _is_own_module(node.func.value, own):
        names.is_open = True
    elif function not in _ASKING:
        is_passed = any(isinstance(argument, ast.Subscript) and _is_own_module(argument, own) for argument in node.args)
        if function == _MAKES_CONFIG:
            names.is_config |= is_passed
        else:
            names.is_open |= is_passed


def _bind_computed(key: ast.expr, names: ModuleNames) -> None:
    """Note that a name is bound which an expression computes."""
    if isinstance(key, ast.Constant) and isinstance(key.value, str):
        names.possible |= {key.value} - names.there
    elif (
        isinstance(key, ast.JoinedStr)
        and isinstance(key.values[0], ast.Constant)
        and len(str(key.values[0].value)) >= _SHORTEST_PREFIX
    ):
        names.possible.add(f"{key.values[0].value!s}*")
    else:
        names.is_open = True


def _root_name(node: ast.expr) -> str | None:
    root = attribute_chain(node)[0]
    return root.id if isinstance(root, ast.Name) else None


def _identifiers_in(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def _texts_in(nodes: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """Return the identifiers that are texts in a source, and what computed texts begin with (at least three
    characters).
    """
    names, prefixes = set(), set()
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _NAME.fullmatch(node.value):
            names.add(node.value)
        if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
            prefix = str(node.values[0].value)
            if _NAME.fullmatch(prefix) and len(prefix) >= _SHORTEST_PREFIX:
                prefixes.add(f"{prefix}*")
    return names, prefixes


# ---- functions and classes

_TRANSPARENT: Final = frozenset({"deprecated", "compatibility", "exposed_in", "experimental", "final", "set_module"})
"""Decorators, of torch and of Python, that give the function itself back, or one that takes the same arguments."""
_WARNINGS: Final = frozenset({"FutureWarning", "DeprecationWarning"})


def _describe_functions(body: Sequence[ast.stmt], names: ModuleNames, package: str) -> None:
    body = [node for node in _at_run_time(body) if not _is_overload(node)]
    bound: dict[str, int] = {}
    for node in body:
        for name in bound_names(node):
            bound[name] = bound.get(name, 0) + 1
    for node in body:
        if isinstance(node, ast.ImportFrom):
            base = absolute_name(package, "." * node.level + (node.module or "")) or ""
            for alias in node.names:
                if alias.name != "*" and bound[alias.asname or alias.name] == 1:
                    names.imported[alias.asname or alias.name] = f"{base}.{alias.name}"
        if isinstance(node, ast.FunctionDef) and bound[node.name] == 1 and node.name in names.there:
            if all(_decorator_name(decorator) in _TRANSPARENT for decorator in node.decorator_list):
                names.signatures[node.name] = signature_text(node.args)
            if _is_deprecated(node):
                names.deprecated.add(node.name)
        if isinstance(node, ast.ClassDef):
            _describe_class(node, names, is_certain=bound[node.name] == 1 and node.name in names.there)


def _at_run_time(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run: of those for type checkers, the other branch."""
    for node in body:
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _at_run_time(node.orelse)
        else:
            yield node


def _describe_class(node: ast.ClassDef, names: ModuleNames, *, is_certain: bool) -> None:
    if _is_deprecated(node):
        names.deprecated.add(node.name)
    initialiser = _initialiser_of(node) if is_certain else None
    if initialiser is not None:
        names.signatures[f"{node.name}.__init__"] = signature_text(initialiser.args, is_method=True)


_MAKES_INSTANCES: Final = regex(r"(Enum|NamedTuple|TypedDict|Protocol)$")
"""Base classes that change what a call of the class does."""


def _initialiser_of(node: ast.ClassDef) -> ast.FunctionDef | None:
    """Return the method that gets the arguments of a call of a class; None if that is not certain."""
    if node.keywords or any(_MAKES_INSTANCES.search(write_expression(base)) for base in node.bases):
        return None
    if any(_decorator_name(decorator) not in _TRANSPARENT for decorator in node.decorator_list):
        return None
    body = [statement for statement in node.body if not _is_overload(statement)]
    bound = [name for statement in body for name in bound_names(statement) if name in {"__init__", "__new__"}]
    initialisers = [part for part in body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
    if bound != ["__init__"] or len(initialisers) != 1 or not initialisers[0].args.args:
        return None
    decorators = initialisers[0].decorator_list
    return initialisers[0] if all(_decorator_name(item) in _TRANSPARENT for item in decorators) else None


def _is_overload(node: ast.stmt) -> bool:
    """Whether a statement only tells type checkers of a way in which a function may be called."""
    return isinstance(node, ast.FunctionDef) and any(
        _decorator_name(decorator).lstrip("_") == "overload" for decorator in node.decorator_list
    )


def _decorator_name(node: ast.expr) -> str:
    function = node.func if isinstance(node, ast.Call) else node
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _is_deprecated(node: ast.FunctionDef | ast.ClassDef) -> bool:
    if any(_decorator_name(statement) == "deprecated" for statement in node.decorator_list):
        return True
    calls = (
        statement.value
        for statement in node.body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    )
    return any(_decorator_name(call) == "warn" and any(word in ast.dump(call) for word in _WARNINGS) for call in calls)


def signature_text(args: ast.arguments, *, is_method: bool = False) -> str:
    """Return the parameters as one text: ``a,b=,/,*c,d=,**e``; an equals sign stands for a default.

    :param is_method: whether the first one, which is the object, is left out
    """
    parts: list[str] = []
    positional = [*args.posonlyargs, *args.args][is_method:]
    required = len(positional) - len(args.defaults)
    for number, parameter in enumerate(positional):
        parts.append(parameter.arg + ("=" if number >= required else ""))
        if number == len(args.posonlyargs) - 1 - is_method:
            parts.append("/")
    if args.vararg is not None:
        parts.append(f"*{args.vararg.arg}")
    elif args.kwonlyargs:
        parts.append("*")
    parts += [
        parameter.arg + ("=" if default is not None else "")
        for parameter, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg is not None:
        parts.append(f"**{args.kwarg.arg}")
    return ",".join(parts)


class ClassAttributes(Struct, kw_only=True):
    """What the sources of a module say of the attributes of a class.

    :ivar there: those that its body surely binds
    :ivar possible: those that it may bind, that a method sets on ``self`` or ``cls``, and that the module sets on it
    :ivar bases: its bases and metaclasses, as they are written
    :ivar is_open: whether it may have any other
    """

    there: set[str]
    possible: set[str] = field(default_factory=set)
    bases: list[str] = field(default_factory=list)
    is_open: bool = False


def class_attributes(tree: ast.Module, name: str) -> ClassAttributes | None:
    """Return the attributes of a class of a module; of several of that name, all. None if it has no such class."""
    definitions = [node for node in classes_of(tree) if node.name == name]
    bodies = [_Body("", "") for _ in definitions]
    bound = [body.run(node.body) for body, node in zip(bodies, definitions, strict=True)]
    if not bound:
        return None
    attributes = ClassAttributes(
        there=set.intersection(*(there for there, _ in bound)),
        possible=set.union(*(possible for _, possible in bound)),
        bases=[base for node in definitions for base in _bases_of(node)],
        is_open=any(body.names.stars for body in bodies) or any(node.decorator_list for node in definitions),
    )
    for node in definitions:
        attributes.possible |= _set_by_methods(node)
    for inner in _all_nodes(tree):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and _root_name(inner) == name:
            attributes.possible.add(inner.attr)
        elif isinstance(inner, ast.Call) and _sets_attribute(inner, {name, "cls"}):
            attributes.possible |= set(_identifiers_in(inner.args[1]))
            attributes.is_open |= not isinstance(inner.args[1], ast.Constant)
    attributes.possible -= attributes.there
    return attributes


def _sets_attribute(node: ast.Call, owners: set[str]) -> bool:
    """Whether a call is ``setattr`` of what one of some names stands for."""
    is_setattr = isinstance(node.func, ast.Name) and node.func.id == "setattr" and len(node.args) == 3
    return is_setattr and isinstance(node.args[0], ast.Name) and node.args[0].id in owners


def _set_by_methods(node: ast.ClassDef) -> set[str]:
    """Return what methods set on their object or its class, and what is annotated anywhere."""
    names: set[str] = set()
    for inner in _all_nodes(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
            names |= {inner.attr} if _root_name(inner) in {"self", "cls"} else set()
        elif isinstance(inner, ast.AnnAssign):
            names |= set(_target_names([inner.target]))
    return names


def _bases_of(node: ast.ClassDef) -> Iterator[str]:
    """Yield the bases and the metaclass of a class, as they are written."""
    for base in (*node.bases, *(keyword.value for keyword in node.keywords if keyword.arg == "metaclass")):
        inner = base.args if isinstance(base, ast.Call) and _decorator_name(base) == "with_metaclass" else [base]
        yield from map(write_expression, inner)


def classes_of(tree: ast.Module) -> Iterator[ast.ClassDef]:
    """Yield the classes of a module, those in its conditions too."""
    waiting: list[ast.stmt] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef):
            yield node
        elif isinstance(node, (ast.If, ast.Try, TryStar)):
            handlers = (statement for handler in getattr(node, "handlers", ()) for statement in handler.body)
            waiting += [*node.body, *node.orelse, *handlers]
