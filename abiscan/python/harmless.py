"""Whether the body of a module does nothing that matters: checked by the forms in it.

A body is passed over only if each of its statements has one of the forms here, which neither load a library nor raise:
definitions, names for what is imported, texts and numbers, calls of code of other packages, and calls of functions of
the package that do no more than that. Every other body is run.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct, field

from abiscan.python.acting import ACTING
from abiscan.python.dynamic_names import absolute_name
from abiscan.python.late_bodies import LateAsyncFunction, LateFunction, Unparsed, has_late_parameters
from abiscan.python.later_builtins import NAMES, built_in
from abiscan.python.nodes import child_nodes, walk

_DEPTH: Final = 4
_STEPS: Final = 12
LARGEST_DOUBTFUL: Final = 4_000
"""The bytes of a source whose body is run although nothing says that it loads or raises, but that it might."""
_BUILTINS: Final = NAMES
_MODULE_ATTRIBUTES: Final = frozenset(
    {"__name__", "__file__", "__doc__", "__package__", "__spec__", "__loader__", "__path__"}
)
_MAKE_PLAIN: Final = {
    "dict": "dict", "list": "list", "set": "set", "tuple": "tuple", "frozenset": "set", "str": "text", "bool": "number",
    "object": "object", "property": "object", "staticmethod": "object", "classmethod": "object", "len": "number",
    "isinstance": "number", "callable": "number", "hasattr": "number", "print": "none", "range": "items",
    "enumerate": "pairs", "zip": "items", "id": "number",
}  # fmt: skip
"""Built-in functions that are harmless for plain values, and what they give."""
_NO_BASES: Final = frozenset({"bool", "range", "slice", "memoryview", "NotImplemented", "Ellipsis"})
_ACTING_BUILTINS: Final = frozenset({
    "compile", "eval", "exec", "exit", "globals", "input", "locals", "next", "open", "quit", "vars", "__import__",
})  # fmt: skip
_ENDING_BUILTINS: Final = frozenset({"eval", "exec", "exit", "quit"})
"""Those that end the process, or run a text."""
_METHODS: Final = frozenset({
    "add", "append", "copy", "endswith", "extend", "get", "items", "join", "keys", "lower", "lstrip", "replace",
    "rstrip", "setdefault", "split", "splitlines", "startswith", "strip", "title", "update", "upper", "values",
})  # fmt: skip
"""Methods of texts and containers that raise nothing."""
_CALLING: Final = frozenset({
    "asyncio", "bisect", "collections", "concurrent", "contextlib", "copy", "heapq", "itertools", "operator",
    "threading", "timeit", "types", "weakref",
})  # fmt: skip
"""Modules whose functions call those that they are given."""
_DECIDING: Final = ("os.environ[", "sys.modules", "sys.meta_path", "sys.path", "importlib", "runpy", "json.", "ast.",
                    "struct.", "functools.reduce", "functools.singledispatch", "warnings.simplefilter",
                    "warnings.filterwarnings", "os._exit", "sys.exit")  # fmt: skip
"""Of other packages, what may raise here, or changes what other code does."""


_ENUM_HOOKS: Final = ("__init__", "__new__", "_generate_next_value_", "_missing_", "__set_name__")
"""What an enumeration calls as it makes its members."""


class PackageCode(Protocol):
    """A package's code, as far as it is asked here."""

    @property
    def risky(self) -> frozenset[bytes]:
        """The functions, by bare name, that load or register something."""
        ...

    def is_acting(self, name: str) -> bool:
        """Whether the own code of a function of that bare name loads or registers something, or calls what does."""
        ...

    def source(self, path: str) -> bytes:
        """Return the bytes of a source."""
        ...

    def tree(self, path: str) -> ast.Module | None:
        """Return the parsed source."""
        ...

    def acts(self, node: ast.AST) -> bool:
        """Whether code loads or registers something, or imports a module of the package."""
        ...

    def module_file(self, name: str) -> tuple[str | None, bool]:
        """Return the source of a module, None if there is none, and whether the package has such a module."""
        ...


class _BodyMustRun(Exception):  # noqa: N818 - it ends a look, it is no error
    """Raised where a body has a form that may matter; with an argument, one that nearly always does."""


class _Foreign(Struct, frozen=True):
    """An object of another package, or one that its code made; its name as far as it is known."""

    name: str = ""


class _Plain(Struct, frozen=True):
    """A text, a number or a container of these."""

    kind: str


class _Builtin(Struct, frozen=True):
    name: str


class _Method(Struct, frozen=True):
    """A harmless method of a plain value."""


class _Module(Struct, frozen=True):
    """A module of the package."""

    name: str


class _Defined(Struct, frozen=True):
    """A function or a class of the package, with the names that lead to it inside its file."""

    file: str
    path: tuple[str, ...]
    node: Any


class _Object(Struct, frozen=True):
    """An object that code of the package made, with its class if that is known."""

    cls: _Defined | None = None


_Value = _Foreign | _Plain | _Builtin | _Method | _Module | _Defined | _Object
FOREIGN: Final = _Foreign()
_OBJECTS: Final = _Plain("objects")
"""A container with objects of the package."""


class _Names(Struct, kw_only=True):
    """What a module binds.

    :ivar package: the one that its relative imports start from
    :ivar imports: the module and the name that an import takes, by the name that it binds; None for a whole module
    :ivar nodes: the definitions and values, by name
    :ivar stars: the modules from which it takes all names
    """

    package: str
    imports: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    nodes: dict[str, ast.AST] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)


class BodyAnalysis:
    """Checks the bodies of a package's modules."""

    def __init__(self, code: PackageCode) -> None:
        self._code = code
        self._names: dict[str, _Names | None] = {}
        self._quiet: dict[tuple[str, tuple[str, ...], bool], bool] = {}
        self._loading: set[tuple[str, tuple[str, ...]]] = set()
        """The functions that load something, themselves or by what they call."""
        self._saw_load = False

    def is_harmless(self, file: str) -> bool:
        """Whether running the body of a module neither loads nor raises anything, nor changes what other modules do."""
        tree = self._code.tree(file)
        if tree is None:
            return False
        self._saw_load = False
        try:
            _Body(self, file).run(tree.body)
        except _BodyMustRun as reason:
            # Running a body in vain costs only time. So a doubtful one is passed over only if it is large, and if its
            # form is not one that nearly always matters.
            is_certain = bool(reason.args) or self._saw_load or self._calls_acting(file, tree)
            return not is_certain and len(self._code.source(file)) > LARGEST_DOUBTFUL
        except RecursionError:
            return False
        return True

    def _calls_acting(self, file: str, tree: ast.Module) -> bool:
        """Whether code outside of functions calls something that ends the process, loads or runs data."""
        names = self.names(file)
        nodes = list(_outside_functions(tree))
        if names is None or any(
            isinstance(node, ast.Name) and node.id in {*_ENDING_BUILTINS, "builtins"} for node in nodes
        ):
            return True
        for called in (node.func for node in nodes if isinstance(node, ast.Call)):
            value = self._named_value(called, file, names)
            if isinstance(value, _Defined) and not isinstance(value.node, ast.ClassDef):
                self.is_quiet(value)  # notes whether it calls something of the kind
            if self._saw_load or self._is_acting(called, file, names):
                return True
        return False

    # ---- names of other modules

    def names(self, file: str) -> _Names | None:
        """Return what a module binds, None if that cannot be told."""
        if file not in self._names:
            tree = self._code.tree(file)
            self._names[file] = None if tree is None else _names_in(tree, package_of(file))
        return self._names[file]

    def member(self, module: str, name: str, depth: int = _STEPS) -> _Value | None:
        """Return what a name of a module of the package, or of another one, stands for; None if it has none."""
        file, is_own = self._code.module_file(module)
        if not is_own:
            return _Foreign(f"{module}.{name}")
        # Python prefers what the body binds. Where there is a submodule of that name, the body nearly always binds just
        # that.
        if self._code.module_file(f"{module}.{name}")[1]:
            return _Module(f"{module}.{name}")
        if file is None:  # a folder
            return None
        if not file.endswith(".py"):
            return FOREIGN
        names = self.names(file)
        if names is None or depth < 0:
            return _Object()
        value = self.in_file(file, names, name, depth)
        if value is not None or self._code.is_acting("__getattr__"):
            return value
        # No ``__getattr__`` of the package loads anything here, so what it makes of the name is an object like any
        # other.
        has_others = "__getattr__" in names.nodes or b"globals()" in self._code.source(file)
        return _Object() if has_others else None

    def in_file(self, file: str, names: _Names, name: str, depth: int = _STEPS) -> _Value | None:
        """Return what a name stands for in a file, None if nothing there binds it."""
        if name in names.imports:
            module, taken = names.imports[name]
            return self.module(module) if taken is None else self.member(module, taken, depth - 1)
        node = names.nodes.get(name)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return self._as_decorated(_Defined(file, (getattr(node, "name", name),), node), names)
        if node is not None:
            return _value_of(node)
        for star in names.stars:
            there = self.member(star, name, depth - 1) if depth > 0 else None
            if there is not None:
                return there
        return FOREIGN if name in _MODULE_ATTRIBUTES else None

    def _as_decorated(self, defined: _Defined, names: _Names) -> _Value:
        """Return a function or class, unless a decorator of the package may put something else in its place."""
        for node in getattr(defined.node, "decorator_list", ()):
            decorator = self._root_value(node, defined.file, names)
            if isinstance(decorator, (_Foreign, _Builtin)):
                continue
            if not isinstance(defined.node, ast.ClassDef) or not isinstance(decorator, _Defined):
                return _Object()
            if isinstance(decorator.node, ast.ClassDef) or not self.is_quiet(decorator):
                return _Object()
        return defined

    def makes_no_descriptor(self, call: ast.Call, cls: _Defined) -> bool:
        """Whether a call in the body of a class surely gives no descriptor."""
        names = self.names(cls.file)
        made = None if names is None else self._root_value(call.func, cls.file, names)
        if isinstance(made, _Defined):
            classes = self.lineage(made) if isinstance(made.node, ast.ClassDef) else None
            return classes is not None and self.method(classes, "__get__") is None
        return isinstance(made, (_Foreign, _Builtin))

    def _root_value(self, node: ast.expr, file: str, names: _Names) -> _Value | None:
        plain = node.func if isinstance(node, ast.Call) else node
        value = self._named_value(plain, file, names)
        while value is None and isinstance(plain, (ast.Attribute, ast.Call)):
            plain = plain.func if isinstance(plain, ast.Call) else plain.value
            owner = self._named_value(plain, file, names)
            value = owner if isinstance(owner, (_Foreign, _Builtin)) else None
        return value

    def module(self, name: str) -> _Value:
        """Return a module."""
        return _Module(name) if self._code.module_file(name)[1] else _Foreign(name)

    def public(self, module: str, depth: int = _STEPS) -> dict[str, _Value] | None:
        """Return the names that ``import *`` takes from a module, None if they are not known."""
        file, is_own = self._code.module_file(module)
        names = self.names(file) if is_own and file is not None and file.endswith(".py") else None
        if names is None or file is None or depth < 0:
            return None
        by_name: dict[str, _Value] = {}
        for star in names.stars:
            of_star = self.public(star, depth - 1)
            if of_star is None:
                return None
            by_name |= of_star
        for name in (*names.imports, *names.nodes):
            by_name[name] = self.in_file(file, names, name) or FOREIGN
        return by_name

    # ---- functions and classes

    def is_quiet(self, defined: _Defined, *, made: bool = False, depth: int = _DEPTH) -> bool:
        """Whether calling a function does nothing that matters.

        :param made: whether what it returns is called, too
        """
        # The answer about a function is cached, together with whether a load was seen: a later call returns it without
        # looking at the function again.
        key = defined.file, defined.path, made
        if key not in self._quiet:
            self._quiet[key] = True  # for functions that call each other
            around, self._saw_load = self._saw_load, False
            self._quiet[key] = depth > 0 and self._is_quiet(defined, made, depth)
            if self._saw_load:
                self._loading.add(key[:2])
            self._saw_load |= around
        self._saw_load |= key[:2] in self._loading
        return self._quiet[key]

    def _is_quiet(self, defined: _Defined, made: bool, depth: int) -> bool:  # noqa: FBT001
        names = self.names(defined.file)
        node = defined.node
        if names is None or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            return False
        # Calling it makes a coroutine or a generator, and runs nothing of its body.
        if isinstance(node, ast.AsyncFunctionDef) or _has_yield(node):
            return True
        if self._code.acts(node):  # importing another module of the package is no load by itself
            self._saw_load |= self._code.is_acting(defined.path[-1])
            return False
        return not self._acts_in(node, defined, names, made, depth)

    def _acts_in(self, function: Any, defined: _Defined, names: _Names, made: bool, depth: int) -> bool:  # noqa: FBT001
        file = defined.file
        body = function.body if isinstance(function.body, list) else [function.body]
        if _may_be_unbound(function) or (getattr(function, "name", "") == "__init__" and _returns_value(body)):
            return True
        # Only statements count that raise on purpose, enter a context or call something. Operators and attributes are
        # not expected to raise in code that its authors have run.
        inside = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
        for node in _executed_nodes(body):
            if isinstance(node, (ast.Raise, ast.Assert, ast.Await, ast.Delete, Unparsed)):
                return True
            if isinstance(node, (ast.With, ast.AsyncWith)) and not self._enters_foreign(file, names, node):
                return True
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "id", None)
            is_acting = self._is_acting(node.func, file, names)
            self._saw_load |= is_acting or name in _ENDING_BUILTINS
            if isinstance(node.func, ast.Attribute):
                is_risky = self._code.is_acting(node.func.attr)
                if is_acting or (is_risky and not self._is_quiet_above(node.func, defined, names, depth)):
                    return True
            elif is_acting or name is None or name in _ACTING_BUILTINS:
                return True
            elif name in inside:
                if self._acts_in(inside[name], defined, names, False, depth - 1):  # noqa: FBT003
                    return True
            elif not self._may_call(file, names, name, depth):
                return True
        return made and any(self._acts_in(item, defined, names, False, depth - 1) for item in inside.values())  # noqa: FBT003

    def _is_acting(self, called: ast.expr, file: str, names: _Names) -> bool:
        """Whether the call is of a function of other code that loads a library, ends the process, or executes data."""
        # A function may import the module itself: its usual name counts as well.
        owner = getattr(getattr(called, "value", None), "id", None)
        if f"{owner}.{getattr(called, 'attr', None)}" in ACTING:
            return True
        value = self._named_value(called, file, names)
        return isinstance(value, _Foreign) and value.name in ACTING

    def _is_quiet_above(self, called: ast.Attribute, defined: _Defined, names: _Names, depth: int) -> bool:
        """Whether a method is called on ``super()``, and does nothing that matters there."""
        is_super = isinstance(called.value, ast.Call) and getattr(called.value.func, "id", None) == "super"
        cls = self.in_file(defined.file, names, defined.path[0]) if is_super and len(defined.path) == 2 else None
        classes = self.lineage(cls) if isinstance(cls, _Defined) and isinstance(cls.node, ast.ClassDef) else None
        if classes is None:
            return False
        method = self.method(classes[1:], called.attr)
        return method is None or self.is_quiet(method, depth=depth - 1)

    def _enters_foreign(self, file: str, names: _Names, node: ast.With | ast.AsyncWith) -> bool:
        made = (getattr(item.context_expr, "func", item.context_expr) for item in node.items)
        return all(isinstance(self._named_value(manager, file, names), (_Foreign, _Builtin)) for manager in made)

    def _may_call(self, file: str, names: _Names, name: str, depth: int) -> bool:
        value = self.in_file(file, names, name)
        if isinstance(value, _Defined):
            if isinstance(value.node, ast.ClassDef):
                return self.makes_quietly(value, depth=depth - 1)
            return self.is_quiet(value, depth=depth - 1)
        return isinstance(value, _Foreign) or (value is None and name in _BUILTINS)

    def bases(self, defined: _Defined) -> Iterator[_Value | None]:
        """Yield what a class derives from."""
        names = self.names(defined.file)
        for base in defined.node.bases:
            plain = base.value if isinstance(base, ast.Subscript) else base
            yield None if names is None else self._named_value(plain, defined.file, names)

    def _named_value(self, node: ast.expr, file: str, names: _Names) -> _Value | None:
        if isinstance(node, ast.Name):
            value = self.in_file(file, names, node.id)
            return _Builtin(node.id) if value is None and node.id in _BUILTINS else value
        if isinstance(node, ast.Attribute):
            owner = self._named_value(node.value, file, names)
            if isinstance(owner, _Module):
                return self.member(owner.name, node.attr)
            return _Foreign(f"{owner.name}.{node.attr}") if isinstance(owner, _Foreign) else None
        return None

    def lineage(self, defined: _Defined, depth: int = _STEPS) -> list[_Defined] | None:
        """Return a class and those of the package that it derives from; None if not all are known."""
        classes = [defined]
        for base in self.bases(defined):
            if base is None or isinstance(base, (_Object, _Plain, _Module)) or depth < 0:
                return None
            if isinstance(base, _Defined):
                more_bases = self.lineage(base, depth - 1) if isinstance(base.node, ast.ClassDef) else None
                if more_bases is None:
                    return None
                classes += more_bases
        return classes

    def has_foreign_base(self, classes: Iterable[_Defined]) -> bool:
        """Whether any of some classes derives from a class of another package."""
        return any(isinstance(base, _Foreign) for cls in classes for base in self.bases(cls))

    def method(self, classes: Sequence[_Defined], name: str) -> _Defined | None:
        """Return the method of that name, of the first class that has one."""
        for cls in classes:
            for node in cls.node.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                    return _Defined(cls.file, (*cls.path, name), node)
        return None

    def metaclasses(self, classes: Iterable[_Defined]) -> Iterator[_Value | None]:
        """Yield the metaclasses that some classes name."""
        for cls in classes:
            names = self.names(cls.file)
            for keyword in cls.node.keywords:
                if keyword.arg == "metaclass":
                    yield None if names is None else self._named_value(keyword.value, cls.file, names)

    def derives_quietly(self, defined: _Defined) -> bool:
        """Whether deriving from a class runs nothing that matters."""
        classes = self.lineage(defined)
        if classes is None:
            return False
        hooks = [self.method(classes, "__init_subclass__")]
        quiet = all(map(self.is_quiet_metaclass, self.metaclasses(classes)))
        return quiet and all(hook is None or self.is_quiet(hook) for hook in hooks)

    def is_quiet_metaclass(self, value: _Value | None) -> bool:
        """Whether making a class of a metaclass runs nothing that matters."""
        classes = self._metaclass_of(value)
        if classes is None:
            return False
        hooks = (self.method(classes, name) for name in ("__new__", "__init__", "__prepare__", "__setattr__"))
        return all(hook is None or self.is_quiet(hook) for hook in hooks)

    def _metaclass_of(self, value: _Value | None) -> list[_Defined] | None:
        if isinstance(value, (_Foreign, _Builtin)):
            return []
        return self.lineage(value) if isinstance(value, _Defined) and isinstance(value.node, ast.ClassDef) else None

    def is_risky(self, function: str) -> bool:
        """Whether a function of that name loads or registers something."""
        return function.encode() in self._code.risky

    @functools.cached_property
    def decisions_act(self) -> bool:
        """Whether asking an object of the package whether it is true may load something."""
        return any(map(self._code.is_acting, ("__bool__", "__len__")))

    def may_act(self, value: _Object) -> bool:
        """Whether a method of an object may load or register something."""
        classes = None if value.cls is None else self.lineage(value.cls)
        return classes is not None and any(
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and self._code.is_acting(node.name)
            for cls in classes
            for node in cls.node.body
        )

    def makes_quietly(self, defined: _Defined, call: ast.Call | None = None, *, depth: int = _DEPTH) -> bool:
        """Whether making an object of a class does nothing that matters.

        :param call: the call, whose arguments must fit
        """
        classes = self.lineage(defined)
        if classes is None or depth < 0 or _is_abstract(classes):
            return False
        # A metaclass of the package may override what calling the class does.
        if any(above is None or above for above in map(self._metaclass_of, self.metaclasses(classes))):
            return False
        methods = [self.method(classes, name) for name in ("__new__", "__init__", "__post_init__")]
        if call is not None and not self._fits_class(classes, methods, call):
            return False
        return all(method is None or self.is_quiet(method, depth=depth - 1) for method in methods)

    def _fits_class(self, classes: Sequence[_Defined], methods: list[_Defined | None], call: ast.Call) -> bool:
        # ``__new__`` and ``__init__`` get the same arguments: type_call in Objects/typeobject.c. Those of ``object``
        # take none.
        passed = next((method for method in methods[:2] if method is not None), None)
        if passed is not None:
            return self.fits(passed, call, 1)
        if self.has_foreign_base(classes):
            return True
        if any(map(_is_dataclass, classes)):
            return len(classes) == 1 and _fits_fields(classes[0].node, call)
        return not call.args and not call.keywords

    def fits(self, defined: _Defined, call: ast.Call, bound: int) -> bool:
        """Whether a function takes the arguments of a call."""
        return _fits_arguments(getattr(defined.node, "args", None), call, bound)


class _Body:
    """The check of one module's body, statement by statement."""

    def __init__(self, analysis: BodyAnalysis, file: str) -> None:
        self.analysis, self.file = analysis, file
        self.package = package_of(file)
        self.scopes: list[dict[str, _Value]] = [{}]
        self.path: tuple[str, ...] = ()
        self.is_open = False
        """Whether names may be bound that are not known."""

    # ---- statements

    def run(self, body: Iterable[ast.stmt]) -> None:
        """Look at statements; raise ``_BodyMustRun`` at one that may matter."""
        for node in body:
            method = _STATEMENTS.get(type(node))
            if method is None:
                raise _BodyMustRun
            method(self, node)

    def bind(self, name: str, value: _Value) -> None:
        """Bind a name to a value, in the innermost scope."""
        self.scopes[-1][name] = value

    def _visit_nothing(self, node: ast.stmt) -> None:
        """Accept a statement that does nothing."""

    def _visit_expression(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _visit_import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            self.bind(alias.asname or name, self.analysis.module(name))

    def _import_from(self, node: ast.ImportFrom) -> None:
        module = absolute_name(self.package, "." * node.level + (node.module or ""))
        if module == "__future__":
            return
        for alias in node.names:
            if alias.name == "*":
                self._import_all(module)
                continue
            value = self.analysis.member(module, alias.name)
            if value is None:
                raise _BodyMustRun(alias.name)
            self.bind(alias.asname or alias.name, value)

    def _import_all(self, module: str) -> None:
        names = self.analysis.public(module)
        if names is None:
            self.is_open = True
        else:
            self.scopes[-1].update(names)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if not has_late_parameters(node):
            self._visit_parameters(node)
        defined = _Defined(self.file, (*self.path, node.name), node)
        self.bind(node.name, self._decorated_value(node.decorator_list, defined))

    def _visit_parameters(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        args = node.args
        for default in (*args.defaults, *args.kw_defaults):
            if default is not None:
                self.value(default)
        annotated = (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg)
        for annotation in (*(item.annotation for item in annotated if item is not None), node.returns):
            self._visit_annotation(annotation)

    def _visit_annotation(self, node: ast.expr | None) -> None:
        if isinstance(node, (ast.Name, ast.Constant)) or node is None:
            return
        if any(isinstance(inner, (ast.Call, ast.NamedExpr)) for inner in walk(node)):
            raise _BodyMustRun

    def _decorated_value(self, decorators: Sequence[ast.expr], defined: _Defined) -> _Value:
        value: _Value = defined
        for node in reversed(decorators):
            decorator, made = self._visit_decorator(node)
            # Whatever is taken from a property, as ``.setter`` is, is one again.
            if decorator == _Builtin("property"):
                value = _Foreign("property")
                continue
            if isinstance(decorator, (_Foreign, _Builtin)):
                continue
            if not isinstance(decorator, _Defined):
                raise _BodyMustRun
            is_class = isinstance(decorator.node, ast.ClassDef)
            quiet = self.analysis.makes_quietly(decorator) if is_class else self.analysis.is_quiet(decorator, made=made)
            if not quiet:
                raise _BodyMustRun
            # A decorator of a class nearly always returns the class.
            value = value if isinstance(defined.node, ast.ClassDef) else _Object(decorator if is_class else None)
        return value

    def _visit_decorator(self, node: ast.expr) -> tuple[_Value, bool]:
        if isinstance(node, ast.Call):
            function = self.value(node.func)
            if isinstance(function, _Defined) and not isinstance(function.node, ast.ClassDef):
                self._argument_values(node)
                if not self.analysis.fits(function, node, 0):
                    raise _BodyMustRun
                return function, True
        return self.value(node), False

    def _visit_class(self, node: ast.ClassDef) -> None:
        bases = [self.value(base) for base in node.bases]
        for base in bases:
            if isinstance(base, _Foreign) or (isinstance(base, _Builtin) and base.name not in _NO_BASES):
                continue
            is_class = isinstance(base, _Defined) and isinstance(base.node, ast.ClassDef)
            if not isinstance(base, _Defined) or not is_class or not self.analysis.derives_quietly(base):
                raise _BodyMustRun
        # Two built-in types may have layouts that exclude each other: best_base in Objects/typeobject.c raises
        # TypeError.
        if sum(isinstance(base, _Builtin) for base in bases) > 1:
            raise _BodyMustRun
        # Keywords go to ``__init_subclass__``, and that of ``object`` takes none.
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg != "metaclass" and not any(isinstance(base, _Foreign) for base in bases):
                raise _BodyMustRun
            if keyword.arg == "metaclass" and not self.analysis.is_quiet_metaclass(value):
                raise _BodyMustRun
        defined = _Defined(self.file, (*self.path, node.name), node)
        if any(isinstance(base, _Foreign) and _is_enum(base.name) for base in bases):
            methods = (self.analysis.method([defined], name) for name in _ENUM_HOOKS)
            if not all(method is None or self.analysis.is_quiet(method) for method in methods):
                raise _BodyMustRun
        self._class_body(node)
        # Making a dataclass raises for a default that can change, and for a field without a default after one with it
        # (_get_field and _init_fn in Lib/dataclasses.py).
        if _is_dataclass(defined) and not _may_be_dataclass(node):
            raise _BodyMustRun
        self.bind(node.name, self._decorated_value(node.decorator_list, defined))

    def _class_body(self, node: ast.ClassDef) -> None:
        around, self.path = self.path, (*self.path, node.name)
        self.scopes.append({})
        self.run(node.body)
        names = self.scopes.pop()
        self.path = around
        # ``type.__new__`` calls ``__set_name__`` of every value that a class body binds.
        for value in names.values():
            if isinstance(value, _Object):
                classes = None if value.cls is None else self.analysis.lineage(value.cls)
                if classes is None and value.cls is not None:
                    raise _BodyMustRun
                if self.analysis.method(classes or (), "__set_name__") is not None:
                    raise _BodyMustRun

    def _visit_assignment(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self._assign(target, value, node.value)

    def _assign(self, target: ast.expr, value: _Value, node: ast.expr | None) -> None:
        if isinstance(target, ast.Name):
            self.bind(target.id, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, value, node)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target)
        elif isinstance(target, ast.Subscript):
            owner = self.value(target.value)
            self.value(target.slice)
            if isinstance(owner, _Foreign) and not _may_decide(f"{owner.name}["):
                return
            if owner != _Plain("dict") or not _is_hashable(target.slice):
                raise _BodyMustRun
        else:
            raise _BodyMustRun

    def _unpack(self, target: ast.Tuple | ast.List, value: _Value, node: ast.expr | None) -> None:
        if isinstance(node, (ast.Tuple, ast.List)) and not any(
            isinstance(item, ast.Starred) for item in (*node.elts, *target.elts)
        ):
            if len(node.elts) != len(target.elts):
                raise _BodyMustRun
            for inner, element in zip(target.elts, node.elts, strict=True):
                self._assign(inner, self.value(element), element)
        elif isinstance(value, _Foreign) or value == _Plain("pair"):
            for inner in target.elts:
                self._assign(inner.value if isinstance(inner, ast.Starred) else inner, value, None)
        else:
            raise _BodyMustRun

    def _set_attribute(self, target: ast.Attribute) -> None:
        owner = self.value(target.value)
        if isinstance(owner, _Foreign):
            if owner.name.partition(".")[0] in {"sys", "builtins", "os"}:
                raise _BodyMustRun
            return
        if not isinstance(owner, _Defined) or owner.file != self.file:
            raise _BodyMustRun
        if isinstance(owner.node, ast.ClassDef):
            classes = self.analysis.lineage(owner)
            if classes is None or any(True for _ in self.analysis.metaclasses(classes)):
                raise _BodyMustRun

    def _visit_annotated_assignment(self, node: ast.AnnAssign) -> None:
        self._visit_annotation(node.annotation)
        if node.value is not None:
            self._assign(node.target, self.value(node.value), node.value)

    def _visit_augmented_assignment(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise _BodyMustRun
        load = ast.Name(id=node.target.id, ctx=ast.Load())
        self.bind(node.target.id, self._operate(self.value(load), node.op, self.value(node.value), node.value))

    def _visit_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name) or self.scopes[-1].pop(target.id, None) is None:
                raise _BodyMustRun

    def _visit_if(self, node: ast.If) -> None:
        if getattr(node.test, "id", getattr(node.test, "attr", None)) != "TYPE_CHECKING":
            self._visit_condition(node.test)
        # Both branches must be harmless, so that the condition need not be decided.
        self.run(node.body)
        self.run(node.orelse)

    def _visit_condition(self, node: ast.expr) -> None:
        self._require_plain_truth(self.value(node))

    def _require_plain_truth(self, value: _Value) -> None:
        """Check a value that is asked whether it is true."""
        if isinstance(value, _Object) and (value.cls is not None or self.analysis.decisions_act):
            raise _BodyMustRun

    def _visit_try(self, node: ast.Try) -> None:
        self.run(node.body)
        for handler in node.handlers:
            if handler.type is not None:
                self.value(handler.type)
            if handler.name:
                self.bind(handler.name, FOREIGN)
            self.run(handler.body)
        self.run(node.orelse)
        self.run(node.finalbody)

    def _visit_with(self, node: ast.With) -> None:
        for item in node.items:
            value = self.value(item.context_expr)
            if not isinstance(value, _Foreign):
                raise _BodyMustRun
            if item.optional_vars is not None:
                self._assign(item.optional_vars, value, None)
        self.run(node.body)

    def _visit_for(self, node: ast.For) -> None:
        self._assign(node.target, self._iterated_item(node.iter), None)
        if any(isinstance(inner, ast.Subscript) and isinstance(inner.ctx, ast.Store) for inner in walk(node)):
            raise _BodyMustRun
        self.run(node.body)
        self.run(node.orelse)

    def _iterated_item(self, node: ast.expr) -> _Value:
        """Return what iterating over an expression gives."""
        value = self.value(node)
        if isinstance(value, _Foreign):
            return FOREIGN
        if not isinstance(value, _Plain) or value.kind in {"number", "none", "object", "any", "objects"}:
            raise _BodyMustRun
        return _Plain("pair" if value.kind == "pairs" else "any")

    # ---- expressions

    def value(self, node: ast.expr) -> _Value:
        """Return what an expression gives; raise ``_BodyMustRun`` if evaluating it may matter."""
        method = _EXPRESSIONS.get(type(node))
        if method is None:
            raise _BodyMustRun
        return method(self, node)

    def _visit_constant(self, node: ast.Constant) -> _Value:
        return _KINDS.get(type(node.value), _Plain("none"))

    def _visit_name(self, node: ast.Name) -> _Value:
        for scope in reversed(self.scopes):
            if node.id in scope:
                return scope[node.id]
        if node.id in _MODULE_ATTRIBUTES:
            return _Plain("text")
        if node.id in _BUILTINS:
            return _Builtin(node.id)
        if self.is_open or (node.id in {"__qualname__", "__module__"} and self.path):
            return FOREIGN
        raise _BodyMustRun(node.id)

    def _visit_attribute(self, node: ast.Attribute) -> _Value:
        owner = self.value(node.value)
        if isinstance(owner, _Foreign):
            name = f"{owner.name}.{node.attr}"
            if _may_decide(name):
                raise _BodyMustRun
            return _Foreign(name)
        if isinstance(owner, _Module):
            value = self.analysis.member(owner.name, node.attr)
            if value is None:
                raise _BodyMustRun
            return value
        if isinstance(owner, _Plain) and node.attr in _METHODS and owner.kind not in {"number", "none", "object"}:
            return _Plain("pairs") if node.attr == "items" else _Method()
        if isinstance(owner, _Builtin) and hasattr(built_in(owner.name), node.attr):
            return FOREIGN
        if isinstance(owner, _Defined):
            return self._of_defined(owner, node.attr)
        raise _BodyMustRun

    def _of_defined(self, owner: _Defined, name: str) -> _Value:  # noqa: C901 - one way for each kind of member
        if name in {"__name__", "__doc__", "__qualname__", "__module__"}:
            return _Plain("text")
        if not isinstance(owner.node, ast.ClassDef):
            if getattr(owner.node, "decorator_list", ()):
                return FOREIGN  # what the decorator made has it
            raise _BodyMustRun
        classes = self.analysis.lineage(owner)
        if classes is None:
            raise _BodyMustRun
        method = self.analysis.method(classes, name)
        if method is not None and not method.node.decorator_list:
            return method
        if method is not None:
            names = {getattr(decorator, "id", None) for decorator in method.node.decorator_list}
            if names <= {"staticmethod", "classmethod"}:
                return method
        # A value that a class body binds is itself the attribute, unless it may be a descriptor.
        for cls in classes:
            for node in cls.node.body:
                bound = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
                if any(getattr(target, "id", None) == name for target in bound):
                    value = getattr(node, "value", None)
                    is_made = isinstance(value, ast.Call)
                    if value is None or (is_made and not self.analysis.makes_no_descriptor(value, cls)):
                        raise _BodyMustRun
                    return _Object(owner) if self.analysis.has_foreign_base(classes) else _value_of(value)
        if self.analysis.has_foreign_base(classes) and not any(True for _ in self.analysis.metaclasses(classes)):
            return FOREIGN
        raise _BodyMustRun

    def _visit_call(self, node: ast.Call) -> _Value:
        function = self.value(node.func)
        values = self._argument_values(node)
        if isinstance(function, _Foreign):
            if function.name in ACTING:
                raise _BodyMustRun(function.name)
            self._hand_over(function, values)
            return _Foreign(f"{function.name}()")
        if isinstance(function, _Builtin):
            return self._call_builtin(function.name, node, values)
        if isinstance(function, _Method):
            return _Plain("any")
        if isinstance(function, _Plain) and function.kind == "pairs":
            return function
        if not isinstance(function, _Defined):
            raise _BodyMustRun
        if isinstance(function.node, ast.ClassDef):
            if not self.analysis.makes_quietly(function, node):
                raise _BodyMustRun
            return _Object(function)
        # A method that is taken from its class gets no object, unless it is a class method.
        bound = (
            0 if len(function.path) == 1 or isinstance(function.node, ast.Lambda) else self._bound_parameters(function)
        )
        if not self.analysis.is_quiet(function) or not self.analysis.fits(function, node, bound):
            raise _BodyMustRun
        return _Object()

    def _bound_parameters(self, method: _Defined) -> int:
        names = {getattr(decorator, "id", None) for decorator in method.node.decorator_list}
        return 1 if "classmethod" in names else 0

    def _hand_over(self, function: _Foreign, values: Iterable[_Value]) -> None:
        """Check values that code of another package gets: what it calls must not matter."""
        # A function that loads must not be handed out at all. Any other matters only to code that is known to call at
        # once what it gets; whoever keeps it calls it after the import.
        calls = function.name.partition(".")[0] in _CALLING
        for value in values:
            if isinstance(value, _Foreign) and value.name in ACTING:
                raise _BodyMustRun(value.name)
            if isinstance(value, _Defined):
                if self.analysis.is_risky(value.path[-1]):
                    raise _BodyMustRun(value.path[-1])
                if calls and not isinstance(value.node, ast.ClassDef) and not self.analysis.is_quiet(value):
                    raise _BodyMustRun
            elif isinstance(value, _Object) and self.analysis.may_act(value):
                raise _BodyMustRun(function.name)
            elif calls and (isinstance(value, _Object) or value == _OBJECTS):
                raise _BodyMustRun

    def _argument_values(self, node: ast.Call) -> list[_Value]:
        values = [self.value(argument) for argument in node.args]
        for keyword in node.keywords:
            value = self.value(keyword.value)
            if keyword.arg is None and not (isinstance(value, _Foreign) or value == _Plain("dict")):
                raise _BodyMustRun
            values.append(value)
        return values

    def _call_builtin(self, name: str, node: ast.Call, values: Sequence[_Value]) -> _Value:  # noqa: C901
        risky = any(isinstance(value, _Defined) and self.analysis.is_risky(value.path[-1]) for value in values)
        if risky or name in _ENDING_BUILTINS:
            raise _BodyMustRun(name)
        is_plain = all(isinstance(value, (_Plain, _Foreign, _Builtin)) and value != _OBJECTS for value in values)
        cls = built_in(name)
        if isinstance(cls, type) and issubclass(cls, BaseException):
            return FOREIGN
        if name in {"property", "staticmethod", "classmethod"}:
            return FOREIGN
        if name in {"isinstance", "callable", "id"}:
            if any(isinstance(value, _Defined) and not self._is_plain_class(value) for value in values):
                raise _BodyMustRun
            return _Plain("number")
        if name == "getattr" and len(values) == 3 and isinstance(values[0], _Foreign):
            return FOREIGN
        if name == "super" and not values:
            return FOREIGN
        if name == "type" and len(values) == 1:
            return FOREIGN
        if name in {"int", "float"} and values and all(isinstance(value, _Foreign) for value in values):
            return FOREIGN
        if name == "float" and len(node.args) == 1 and isinstance(node.args[0], ast.Constant):
            if isinstance(node.args[0].value, (int, float)) or node.args[0].value in {"inf", "-inf", "nan"}:
                return _Plain("number")
            raise _BodyMustRun
        # The remaining functions compute plain values from plain values. It raises only if it iterates over, or
        # measures, what is no container.
        numbers = any(isinstance(value, _Plain) and value.kind in {"number", "none", "any"} for value in values)
        iterates = name not in {"str", "bool", "object", "print", "hasattr", "len", "range"}
        if name not in _MAKE_PLAIN or not is_plain or (iterates and numbers) or (name == "len" and numbers):
            raise _BodyMustRun
        if name == "range" and not all(isinstance(argument, ast.Constant) and argument.value for argument in node.args):
            raise _BodyMustRun
        if (name == "zip" and node.keywords) or (name == "object" and values):
            raise _BodyMustRun
        return _Plain(_MAKE_PLAIN[name])

    def _is_plain_class(self, value: _Defined) -> bool:
        """Whether no metaclass of the package decides what a class does."""
        classes = self.analysis.lineage(value) if isinstance(value.node, ast.ClassDef) else None
        return classes is not None and not any(
            isinstance(metaclass, _Defined) for metaclass in self.analysis.metaclasses(classes)
        )

    def _visit_subscript(self, node: ast.Subscript) -> _Value:
        owner = self.value(node.value)
        self.value(node.slice)
        if isinstance(owner, _Foreign) and not _may_decide(f"{owner.name}["):
            return _Foreign(f"{owner.name}[]")
        if isinstance(owner, _Builtin) and hasattr(built_in(owner.name), "__class_getitem__"):
            return FOREIGN
        if isinstance(owner, _Defined) and isinstance(owner.node, ast.ClassDef):
            classes = self.analysis.lineage(owner)
            if (
                classes is not None
                and self.analysis.has_foreign_base(classes)
                and self.analysis.method(classes, "__class_getitem__") is None
                and not any(isinstance(metaclass, _Defined) for metaclass in self.analysis.metaclasses(classes))
            ):
                return owner
        raise _BodyMustRun

    def _visit_binary_operation(self, node: ast.BinOp) -> _Value:
        return self._operate(self.value(node.left), node.op, self.value(node.right), node.right)

    def _operate(self, left: _Value, op: ast.operator, right: _Value, node: ast.expr) -> _Value:
        # Between plain values, the operators count that a kind has with itself; nearly all others raise TypeError. A
        # number is only divided by, or raised to, a positive constant.
        if isinstance(left, _Plain) and isinstance(right, _Plain):
            if left.kind == right.kind == "number":
                divides = isinstance(op, (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.MatMult))
                if divides and not (isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 0):
                    raise _BodyMustRun
                return left
            if left.kind == right.kind and left.kind in {"text", "list", "tuple"} and isinstance(op, ast.Add):
                return left
            if left.kind == right.kind and left.kind in {"set", "dict"} and isinstance(op, ast.BitOr):
                return left
            raise _BodyMustRun
        # Code of other packages may define any operator, and ``X | None`` between classes is a type.
        for value in (left, right):
            is_class = isinstance(value, _Defined) and isinstance(value.node, ast.ClassDef)
            is_type = (isinstance(value, _Builtin) or is_class or value == _Plain("none")) and isinstance(op, ast.BitOr)
            if not isinstance(value, _Foreign) and not is_type:
                if isinstance(value, _Plain) and _Foreign in {type(left), type(right)}:
                    continue
                raise _BodyMustRun
        return FOREIGN

    def _visit_bool_operation(self, node: ast.BoolOp) -> _Value:
        values = [self.value(item) for item in node.values]
        for value in values:
            self._require_plain_truth(value)
        if any(isinstance(value, (_Object, _Defined, _Module)) for value in values):
            return _Object()
        return values[0] if len(set(values)) == 1 else FOREIGN

    def _visit_comparison(self, node: ast.Compare) -> _Value:
        values = [self.value(item) for item in (node.left, *node.comparators)]
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            return _Plain("number")
        if any(isinstance(value, (_Object, _Defined, _Module)) for value in values):
            raise _BodyMustRun
        # ``==`` raises for no plain values, an order may between different kinds, and ``in`` does on what is no
        # container.
        kinds = {value.kind for value in values if isinstance(value, _Plain)}
        if any(isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in node.ops) and (
            len(kinds) > 1 or kinds & {"dict", "none", "any", "object"}
        ):
            raise _BodyMustRun
        looks_up = any(isinstance(op, (ast.In, ast.NotIn)) for op in node.ops)
        if looks_up and kinds and not kinds <= {"list", "tuple", "dict", "set", "text"}:
            raise _BodyMustRun
        return _Plain("number")

    def _visit_unary_operation(self, node: ast.UnaryOp) -> _Value:
        value = self.value(node.operand)
        self._require_plain_truth(value)
        if not isinstance(node.op, ast.Not) and value != _Plain("number") and not isinstance(value, _Foreign):
            raise _BodyMustRun
        return _Plain("number")

    def _visit_conditional(self, node: ast.IfExp) -> _Value:
        self._visit_condition(node.test)
        values = self.value(node.body), self.value(node.orelse)
        if any(isinstance(value, (_Object, _Defined, _Module)) for value in values) and values[0] != values[1]:
            return _Object()
        return values[0] if values[0] == values[1] else FOREIGN

    def _visit_elements(self, node: ast.List | ast.Tuple | ast.Set) -> _Value:
        # Lists of names have thousands of constants, which need no look.
        values = [self.value(element) for element in node.elts if not isinstance(element, ast.Constant)]
        if any(isinstance(value, _Object) or value == _OBJECTS for value in values):
            if isinstance(node, ast.Set):
                raise _BodyMustRun
            return _OBJECTS
        if isinstance(node, ast.Set) and not all(map(_is_hashable, node.elts)):
            raise _BodyMustRun
        return _Plain({ast.List: "list", ast.Tuple: "tuple", ast.Set: "set"}[type(node)])

    def _visit_starred(self, node: ast.Starred) -> _Value:
        value = self.value(node.value)
        if not isinstance(value, _Foreign) and getattr(value, "kind", None) not in {"list", "tuple", "set", "dict"}:
            raise _BodyMustRun
        return value

    def _visit_dict(self, node: ast.Dict) -> _Value:
        kind = _Plain("dict")
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item)
            if key is None:
                if not isinstance(value, _Foreign) and value != _Plain("dict"):
                    raise _BodyMustRun
            else:
                if isinstance(self.value(key), _Object) or not _is_hashable(key):
                    raise _BodyMustRun
            if isinstance(value, _Object) or value == _OBJECTS:
                kind = _OBJECTS
        return kind

    def _visit_f_string(self, node: ast.JoinedStr) -> _Value:
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                value = self.value(part.value)
                if not isinstance(value, (_Plain, _Foreign)) or (
                    part.format_spec is not None and isinstance(value, _Plain)
                ):
                    raise _BodyMustRun
        return _Plain("text")

    def _visit_lambda(self, node: ast.Lambda) -> _Value:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.value(default)
        return _Defined(self.file, ("<lambda>", f"{node.lineno}", f"{node.col_offset}"), node)

    def _visit_comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> _Value:
        self.scopes.append({})
        for generator in node.generators:
            if generator.is_async:
                raise _BodyMustRun
            self._assign(generator.target, self._iterated_item(generator.iter), None)
            for test in generator.ifs:
                self._visit_condition(test)
        results = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        for result in results:
            self.value(result)
        self.scopes.pop()
        kinds = {ast.ListComp: "list", ast.SetComp: "set", ast.DictComp: "dict", ast.GeneratorExp: "items"}
        return _Plain(kinds[type(node)])

    def _visit_slice(self, node: ast.Slice) -> _Value:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.value(part)
        return _Plain("object")


_KINDS: Final = {
    str: _Plain("text"), bytes: _Plain("bytes"), int: _Plain("number"), float: _Plain("number"),
    bool: _Plain("number"), type(None): _Plain("none"),
}  # fmt: skip
_STATEMENTS: Final[Mapping[type[ast.stmt], Callable[[_Body, Any], None]]] = {
    ast.Pass: _Body._visit_nothing,
    ast.Global: _Body._visit_nothing,
    ast.Expr: _Body._visit_expression,
    ast.Import: _Body._visit_import,
    ast.ImportFrom: _Body._import_from,
    **dict.fromkeys((ast.FunctionDef, LateFunction, ast.AsyncFunctionDef, LateAsyncFunction), _Body._visit_function),
    ast.ClassDef: _Body._visit_class,
    ast.Assign: _Body._visit_assignment,
    ast.AnnAssign: _Body._visit_annotated_assignment,
    ast.AugAssign: _Body._visit_augmented_assignment,
    ast.Delete: _Body._visit_delete,
    ast.If: _Body._visit_if,
    ast.Try: _Body._visit_try,
    ast.With: _Body._visit_with,
    ast.For: _Body._visit_for,
}
_EXPRESSIONS: Final[Mapping[type[ast.expr], Callable[[_Body, Any], _Value]]] = {
    ast.Constant: _Body._visit_constant,
    ast.Name: _Body._visit_name,
    ast.Attribute: _Body._visit_attribute,
    ast.Call: _Body._visit_call,
    ast.Subscript: _Body._visit_subscript,
    ast.BinOp: _Body._visit_binary_operation,
    ast.BoolOp: _Body._visit_bool_operation,
    ast.Compare: _Body._visit_comparison,
    ast.UnaryOp: _Body._visit_unary_operation,
    ast.IfExp: _Body._visit_conditional,
    ast.List: _Body._visit_elements,
    ast.Tuple: _Body._visit_elements,
    ast.Set: _Body._visit_elements,
    ast.Starred: _Body._visit_starred,
    ast.Dict: _Body._visit_dict,
    ast.JoinedStr: _Body._visit_f_string,
    ast.Lambda: _Body._visit_lambda,
    ast.ListComp: _Body._visit_comprehension,
    ast.SetComp: _Body._visit_comprehension,
    ast.DictComp: _Body._visit_comprehension,
    ast.GeneratorExp: _Body._visit_comprehension,
    ast.Slice: _Body._visit_slice,
}


def package_of(file: str) -> str:
    """Return the package that relative imports of a module start from."""
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if file.endswith("/__init__.py") else name.rpartition(".")[0]


def _is_enum(name: str) -> bool:
    return name.rpartition(".")[2].endswith(("Enum", "Flag"))


def _may_decide(name: str) -> bool:
    return name.startswith(_DECIDING) and not "importlib.util.find_spec".startswith(name)


def _is_hashable(node: ast.expr) -> bool:
    return not isinstance(node, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp))


def _names_in(tree: ast.Module, package: str) -> _Names:
    names = _Names(package=package)
    # In the order of the source, so that the last binding of a name counts. All branches are taken, since none is
    # decided.
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.partition(".")[0]
                names.imports[alias.asname or name] = name, None
        elif isinstance(node, ast.ImportFrom):
            module = absolute_name(package, "." * node.level + (node.module or ""))
            for alias in node.names:
                if alias.name == "*":
                    names.stars.append(module)
                else:
                    names.imports[alias.asname or alias.name] = module, alias.name
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.nodes[node.name] = node
            names.imports.pop(node.name, None)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With)):
            value = getattr(node, "value", None) or node
            for target in _bound_targets(node):
                if not (isinstance(value, ast.Name) and _bind_alias(names, target, value.id)):
                    names.nodes[target] = value
                    names.imports.pop(target, None)
        if isinstance(node, (ast.If, ast.Try, ast.For, ast.With, ast.While, ast.ExceptHandler)):
            waiting.extend(reversed(child_nodes(node)))
    return names


def _bind_alias(names: _Names, new: str, old: str) -> bool:
    """Bind a new name to what an old one stands for; return False if the module has not bound the old one."""
    if old in names.nodes:
        names.nodes[new] = names.nodes[old]
        names.imports.pop(new, None)
    elif old in names.imports:
        names.imports[new] = names.imports[old]
        names.nodes.pop(new, None)
    else:
        return False
    return True


def _bound_targets(node: ast.AST) -> Iterator[str]:
    targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
    targets += [item.optional_vars for item in getattr(node, "items", ())]
    for target in targets:
        if target is not None:
            yield from (
                inner.id for inner in walk(target) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)
            )


def _value_of(node: ast.AST) -> _Value:
    """Return what an expression of another module gives, going by its form alone."""
    if isinstance(node, ast.Constant):
        return _KINDS.get(type(node.value), _Plain("none"))
    kinds: dict[type[ast.AST], str] = {ast.List: "list", ast.Tuple: "tuple", ast.Dict: "dict", ast.Set: "set",
                                       ast.JoinedStr: "text"}  # fmt: skip
    kind = kinds.get(type(node))
    return _Object() if kind is None else _Plain(kind)


def _fits_arguments(args: ast.arguments | None, call: ast.Call, bound: int) -> bool:
    """Whether a function takes the arguments of a call, besides the first ``bound`` ones, which it has already."""
    # ``*args`` may be any number of arguments: they are assumed to fit.
    if args is None or any(isinstance(parameter, ast.Starred) for parameter in call.args):
        return args is not None
    positional = [parameter.arg for parameter in (*args.posonlyargs, *args.args)][bound:]
    if len(call.args) > len(positional) and args.vararg is None:
        return False
    filled = {*positional[: len(call.args)]}
    names = {*positional, *(parameter.arg for parameter in args.kwonlyargs)}
    for keyword in call.keywords:
        if keyword.arg is None:
            return True
        if keyword.arg in filled or (keyword.arg not in names and args.kwarg is None):
            return False
        filled.add(keyword.arg)
    required = positional[: len(positional) - len(args.defaults)] if args.defaults else positional
    alone = [
        parameter.arg for parameter, default in zip(args.kwonlyargs, args.kw_defaults, strict=True) if default is None
    ]
    return filled.issuperset((*required, *alone))


def _mentions_word(node: ast.AST, word: str) -> bool:
    """Whether a name in an expression contains a word."""
    return any(word in getattr(inner, "id", "") or word in getattr(inner, "attr", "") for inner in walk(node))


def _is_dataclass(cls: _Defined) -> bool:
    return any(_mentions_word(decorator, "dataclass") for decorator in cls.node.decorator_list)


def _dataclass_fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [
        statement
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and not _mentions_word(statement.annotation, "ClassVar")
    ]


def _may_be_dataclass(node: ast.ClassDef) -> bool:
    """Whether a class surely makes a dataclass: no mutable default, and no default before a field without one."""
    values = [field.value for field in _dataclass_fields(node)]
    if any(isinstance(value, (ast.List, ast.Dict, ast.Set)) for value in values):
        return False
    if not node.bases and not any(isinstance(field, ast.Call) for field in node.decorator_list):
        with_default = [value is not None for value in values]
        return with_default == sorted(with_default)
    return bool(node.decorator_list)


def _fits_fields(node: ast.ClassDef, call: ast.Call) -> bool:
    fields = _dataclass_fields(node)
    if any(isinstance(item.value, ast.Call) for item in fields):
        return False  # init=False, default_factory, …
    args = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(arg=item.target.id) for item in fields if isinstance(item.target, ast.Name)],
        vararg=None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[item.value for item in fields if item.value is not None],
    )
    return _fits_arguments(args, call, 0)


def _is_abstract(classes: Iterable[_Defined]) -> bool:
    return any(
        _mentions_word(decorator, "abstract")
        for cls in classes
        for node in cls.node.body
        for decorator in getattr(node, "decorator_list", ())
    )


def _returns_value(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Return) and node.value is not None for node in _executed_nodes(body))


def _may_be_unbound(function: Any) -> bool:
    """Whether a function may use a variable before it is bound: further up than its first binding."""
    stored: dict[str, tuple[int, int]] = {}
    loaded: dict[str, tuple[int, int]] = {}
    parameters = {parameter.arg for parameter in walk(function.args) if isinstance(parameter, ast.arg)}
    # By lines, not by the flow of control: a name whose first use stands above its first binding raises
    # UnboundLocalError, unless a loop comes round to it.
    for node in _executed_nodes(function.body):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            parameters.update(node.names)
        elif isinstance(node, ast.Name) and node.id not in parameters:
            places = stored if isinstance(node.ctx, ast.Store) else loaded
            place = node.lineno, node.col_offset
            places[node.id] = min(places.get(node.id, place), place)
    return any(loaded[name][0] < stored[name][0] for name in stored.keys() & loaded.keys())


def _has_yield(function: ast.AST) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in _executed_nodes(getattr(function, "body", [])))


def _outside_functions(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a source, but for what functions do."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting += node.decorator_list if has_late_parameters(node) else (*node.decorator_list, node.args)
        else:
            waiting += child_nodes(node)


def _executed_nodes(body: object) -> Iterator[ast.AST]:
    """Yield the nodes that run when a function is called, but for what functions inside of it do.

    A ``raise`` under a test for membership is left out, too: it is how a registry refuses to enter a name twice.
    """
    waiting: list[ast.AST] = list(body) if isinstance(body, list) else [body] if isinstance(body, ast.AST) else []
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and _is_membership(node.test):
            waiting.extend(
                [
                    node.test,
                    *(statement for statement in (*node.body, *node.orelse) if not isinstance(statement, ast.Raise)),
                ]
            )
            continue
        waiting.extend(child_nodes(node))


def _is_membership(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.In, ast.NotIn))
