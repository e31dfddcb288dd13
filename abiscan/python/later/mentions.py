"""Where functions of a package mention names, and how: what stands around each mention."""

from __future__ import annotations

import ast
import functools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeGuard

from msgspec import Struct, field
from msgspec.structs import replace

from abiscan.python.language.bound_names import names_bound_by
from abiscan.python.language.grammar import ANNOTATED_LAZILY
from abiscan.python.language.late_bodies import has_late_parameters, statements_with
from abiscan.python.language.nodes import TryStar, attribute_chain, child_nodes, dotted_name, walk
from abiscan.python.language.private_names import written_name
from abiscan.python.language.refusals import PassedArguments, parse_parameters, refusal
from abiscan.python.language.sole_bindings import SETTING_AROUND
from abiscan.python.later.settled_conditions import SettledConditions
from abiscan.python.later.version_guards import (
    GUARDING_TEXT,
    MAY_ASK,
    are_guarding,
    bound_by,
    guards_what_follows,
    names_release,
    root_of,
    values_in,
    words_in,
)
from abiscan.python.later.version_names import finder_inside, full_name_found
from abiscan.python.later.version_questions import (
    CATCHING_ALL,
    CATCHING_ANY,
    CATCHING_CALLS,
    CATCHING_IMPORTS,
    TESTS,
    asks,
    caught_by,
    decides,
    is_choice,
    not_raised_again,
)
from abiscan.python.later.version_tests import EITHER, Find, Truth
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer
from abiscan.python.torch_api.changed_defaults import (
    BY_FUNCTION,
    EXPORT,
    LOAD,
    REMOVED,
    REMOVED_IN,
    REMOVED_METHOD,
    ChangedDefault,
    calls_removed,
    given_to,
    kept_as_modules,
    leaves_out,
    optional_keywords,
    refuses,
    used_as_modules,
    whole_loads,
)
from abiscan.python.torch_api.operator_calls import (
    FAKES,
    METHODS,
    OPERATORS,
    KnownOperators,
    compiled_function,
    dimensions_in,
    keyword_refusal,
    passed_dimensions,
    passes_list,
)
from abiscan.python.torch_api.torch_classes import CLASSES, DEFINED_AS
from abiscan.python.torch_api.torch_names import COMPANIONS, DEVICE_MODULES, Callee, TorchNames, lacking_part
from abiscan.python.torch_api.torch_options import COMPILE, options_in

_KNOWN: Final = frozenset({"torch", *COMPANIONS})
"""The packages whose names are known."""
TENSOR: Final = "torch.Tensor"
TENSORS: Final = frozenset(
    f"torch.{name}"
    for name in (
        *("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "tensor"),
        *("zeros", "empty_like", "ones_like", "rand_like", "randn_like", "zeros_like"),
    )
)
"""Functions that return a tensor."""
OF_OBJECTS: Final = CLASSES - {"torch.nn.Parameter", "torch.utils.data.Dataset"}
"""The classes whose objects are looked at: not tensors twice, nor those whose attributes are mostly of the package."""
ITEMSIZE: Final = "torch.dtype.itemsize"
ITEMSIZE_SINCE: Final = "torch.compiler"
"""A module that came in the same release, 2.1.0 (torch/csrc/Dtype.cpp): whether a compiled class has a name is open."""
_RAISED: Final = {"fake": {"RuntimeError"}, "compile": {"RuntimeError"}, "attribute": set[str](), "option": set[str]()}
"""The exceptions that uses of a name end in, by how they use it, other than ``AttributeError`` and those of imports."""
_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_SCOPES = (*_DEFINITIONS, ast.Lambda)
_IMPORTS = (ast.Import, ast.ImportFrom)
_CONSTRUCTORS: Final = frozenset({"__init__", "__new__", "__post_init__"})


class LaterUse(Struct, frozen=True, order=True, kw_only=True):
    """A function of a package uses a name of torch that is not there, or calls a function that rejects the call.

    :ivar name: the full name, up to the first part that is missing: ``torch.amp.custom_fwd``
    :ivar error: what Python says of the call; empty for a name
    :ivar function: the function or method, ``Layer.forward``
    :ivar how: whether the name is taken of a module, imported from one, imported as a module, or called; "default" if
        the call leaves out what it needs, "omission" if it does so for most values, "package" if what it leaves out
        decides whether another package is imported; "removed" if the function only
        raises; "fake" if a fake kernel is registered for the operator; "option" if it is
        one, which to set raises, too; "compile" if ``torch.compile`` gets it; "object" if it is taken of an object of a
        class; "method" if one of an object that may be a tensor is called; "device" if it is taken of the module for a
        device that is computed; "uninitialised" if it is a constructor that leaves out that of its base
    :ivar arguments: those of the call
    :ivar doubtful: whether the package may well keep it from happening where that torch is: it asks for the name, or
        for something, elsewhere
    """

    name: str
    error: str = ""
    file: str
    line: int
    function: str
    how: str
    arguments: PassedArguments = PassedArguments()
    doubtful: bool = False


def possible_call(name: str, error: str, file: str, line: int, arguments: PassedArguments) -> LaterUse:
    """Return a call of what a torch has that may be made with arguments which it refuses; nobody followed it there."""
    return LaterUse(
        name=name,
        error=error,
        file=file,
        line=line,
        function="",
        how="call",
        arguments=arguments,
        doubtful=True,
    )


def says_it_is_gone(use: str, callee: Callee) -> bool:
    """Whether what is called only says that it is gone."""
    return callee.module == REMOVED_IN and use.count(".") == 1


def gone_keywords(names: TorchNames, use: str) -> frozenset[str]:
    """Return the keywords that a compiled function takes in another release, and not in this one."""
    operator = compiled_function(use)
    return names.operators().gone_keywords(operator) if operator and names.operators else frozenset()


class Mention(Struct, frozen=True, kw_only=True):
    """A use of a missing name.

    :ivar guarded: whether something guards it where it stands
    :ivar asked: whether what guards it may well ask for a version
    :ivar public: the names by which others use the function that it is in: of a class, and of the function
    :ivar nested: the names of the functions inside of that function which it is in
    :ivar doubtful: see ``LaterUse``; so is what only a condition decides about that says nothing of the version
    """

    use: LaterUse
    guarded: bool
    asked: bool
    public: tuple[str, ...]
    nested: tuple[str, ...]
    doubtful: bool = False


Origins = dict[str, str | None]
"""What the names of a scope stand for, as names below torch; None for what is not known, or not one thing."""


class _Scope(Struct, frozen=True, kw_only=True):
    """A place in a source.

    :ivar origins: of the scopes around, the innermost first
    :ivar find: what finds the names there
    :ivar values: what stands for values in the functions around
    :ivar public: see ``Mention``
    :ivar nested: see ``Mention``
    :ivar path: what the function or class around is called, with those around it
    :ivar variants: how often a function of a name is defined around: more than once, it may depend on the version
    :ivar by_values: whether what guards it are only conditions on values that functions compute
    :ivar tests: these
    :ivar caught: the exceptions that are caught around, by their names
    :ivar loads: the calls whose results are used as modules, by identity
    :ivar base: the only base of the class around, by its full name
    :ivar objects: the classes of torch that variables certainly have objects of
    :ivar optional: the parameters that have keywords which users need not pass
    """

    origins: tuple[Origins, ...]
    find: Find
    values: frozenset[str] = frozenset()
    public: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    path: str = ""
    in_function: bool = False
    variants: Mapping[str | None, int] = field(default_factory=dict)
    guarded: bool = False
    by_values: bool = False
    tests: tuple[ast.expr, ...] = ()
    caught: frozenset[str] = frozenset()
    loads: frozenset[int] = frozenset()
    base: str | None = None
    objects: Mapping[str, str] = {}
    optional: frozenset[str] = frozenset()


class Mentions:
    """The mentions of missing names in one source, and the calls that are rejected."""

    def __init__(
        self,
        code: PythonCode,
        file: str,
        names: TorchNames,
        requested: Collection[str],
        called: Mapping[str, Collection[str]],
        operators: KnownOperators,
        settled: SettledConditions,
    ) -> None:
        self._settled = settled
        self._tree = code.tree(file)
        self._file = file
        self._text = code.source(file)
        self._parts = code.parts(file)
        self._names = names
        self._wanted = requested
        self._called = called
        self._operators = operators
        self._asks_objects = any(name.rpartition(".")[0] in OF_OBJECTS for name in requested)
        self._bases = _inherited_constructors(self._tree)
        self._packages = _KNOWN | {names.top}
        self._origins = make_origins(self._tree, self._packages) if self._tree else Origins()
        self._words = self._words_of([*requested, *called])
        self._marks = settled.marks_among(self._mentioning(), file)
        is_lazy = not isinstance(code.python, Answer) and code.python >= ANNOTATED_LAZILY
        self._evaluates_annotations = not (is_lazy or code.postpones_annotations(file))
        self._loads_weights = file in called.get(LOAD.function, ()) and names.has(*LOAD.sign) is True

    def all(self) -> Iterator[Mention]:
        """Yield them all; none of a source that cannot be parsed, nor what follows an expression nested too deeply."""
        if self._tree is None:
            return
        loads = frozenset(id(call) for call in whole_loads(self._tree)) if self._loads_weights else frozenset[int]()
        with suppress(RecursionError):
            find = self._settled.find_in(self._file)
            scope = _Scope(origins=(self._origins,), find=find, loads=loads, values=self._marks)
            yield from self._body(self._tree.body, scope)

    def _words_of(self, names: Sequence[str]) -> re.Pattern[bytes]:
        """Return what is in the text of each function that mentions one of some names of torch."""
        # An operator is named without its overload; an option may have hyphens.
        words = {name.split(".")[3] if name.startswith(OPERATORS) else name.rpartition(".")[2] for name in names}
        words |= {
            local
            for local, origin in self._origins.items()
            if origin is not None and any(f"{origin}.".startswith(f"{name}.") for name in names)
        }
        words |= self._bases.keys()
        if not all(map(str.isascii, words)):  # Python has other forms of such names than their source
            return re.compile(b"")
        return re.compile(rb"\b(?:%b)\b" % "|".join(sorted(words)).replace("_", "[_-]").encode())

    def _mentioning(self) -> Iterator[ast.AST]:
        """Yield the parts of the source, but for the functions that mention nothing."""
        waiting: list[ast.AST] = [self._tree] if self._tree else []
        while waiting:
            node = waiting.pop()
            if not isinstance(node, _DEFINED):
                yield node
                waiting += child_nodes(node)
            elif self._may_mention(node):
                yield from walk(node)

    def _may_mention(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
        """Whether one of the words is in the text of a function."""
        return isinstance(node, ast.Lambda) or self._parts.may_have(node, self._words)

    def _body(self, statements: Sequence[ast.stmt], scope: _Scope) -> Iterator[Mention]:
        names = Counter(getattr(statement, "name", None) for statement in statements)
        scope = replace(scope, variants=names)
        loads = {id(call) for call in used_as_modules(statements)} if self._loads_weights else set[int]()
        scope = replace(scope, loads=scope.loads | loads) if loads else scope
        # A guard that leaves guards all that follows it: ``if not available: return``.
        for statement in statements:
            yield from self._node(statement, scope)
            if (not scope.guarded or scope.by_values) and self._guards_what_follows(statement, scope):
                scope = self._guarded_by(statement, scope)

    def _guards_what_follows(self, statement: ast.stmt, scope: _Scope) -> bool:
        """Whether the code after a statement may be left out because of it, or because of an import that is caught."""
        if scope.caught & CATCHING_IMPORTS and isinstance(statement, (ast.Import, ast.ImportFrom)):
            return not self._surely_succeeds(statement)
        return guards_what_follows(statement, scope.values, functools.partial(self._truth, scope=scope))

    def _surely_succeeds(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import is one of what this torch has, as far as is known."""
        names = _imported_names(node)
        return all(name.partition(".")[0] == "torch" and lacking_part(self._names, name) is None for name in names)

    def _node(self, node: ast.AST, scope: _Scope) -> Iterator[Mention]:
        if isinstance(node, _DEFINED):
            yield from self._function(node, scope)
        elif isinstance(node, ast.ClassDef):
            for expression in (*node.bases, *node.keywords, *node.decorator_list):
                yield from self._node(expression, scope)
            base = self._full_name(node.bases[0], scope)[1] if len(node.bases) == 1 and not node.keywords else None
            kept = {id(call) for call in kept_as_modules(node)} if self._loads_weights else set[int]()
            inside = replace(
                _named(scope, node),
                guarded=scope.guarded or are_guarding(node.decorator_list),
                by_values=scope.by_values and not are_guarding(node.decorator_list),
                base=base,
                loads=scope.loads | kept,
            )
            # There are no objects of a class whose constructor refuses the torch, and no calls of its methods.
            inside = _guarded(inside) if self._may_refuse(node, inside) else inside
            yield from self._body(node.body, _with_origins(inside, make_origins(node, self._packages), is_class=True))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from self._import(node, scope)
        elif isinstance(node, ast.AnnAssign):
            # The annotation of a variable inside of a function is not evaluated.
            evaluated = self._evaluates_annotations and not scope.in_function
            for part in (node.annotation if evaluated else None, node.value):
                yield from self._node(part, scope) if part else ()
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node, scope)
        else:
            if isinstance(node, ast.Call):
                yield from self._call(node, scope)
            yield from self._statement(node, scope)

    def _may_refuse(self, cls: ast.ClassDef, scope: _Scope) -> bool:
        """Whether the constructor of a class refuses this torch, as far as is known."""
        for function in cls.body:
            if isinstance(function, ast.FunctionDef) and function.name in _CONSTRUCTORS:
                values = values_in(function, scope.values)
                inside = replace(scope, find=finder_inside(function, scope.find), values=values)
                for part in function.body:
                    if isinstance(part, ast.If) and isinstance(part.body[-1], ast.Raise):
                        truth = self._truth(part.test, inside)
                        if truth is True or (truth is None and names_release(part.test, values)):
                            return True
        return False

    def _statement(self, node: ast.AST, scope: _Scope) -> Iterator[Mention]:
        """Go through the parts of what may decide which of them are run."""
        if isinstance(node, TESTS):
            yield from self._node(node.test, scope)
            truth = self._truth(node.test, scope)
            inside = self._guarded_by(node, scope) if truth is None else scope
            for part, skipped_if in ((node.body, False), (node.orelse, True)):
                around = _guarded(scope) if truth is skipped_if else inside
                yield from self._body(part, around) if isinstance(part, list) else self._node(part, around)
        elif isinstance(node, (ast.Try, TryStar)):
            yield from self._try(node, scope)
        elif isinstance(node, ast.BoolOp):
            goes_on = isinstance(node.op, ast.And)
            for value in node.values:
                yield from self._node(value, scope)
                truth = self._truth(value, scope)
                scope = scope if truth is goes_on or truth is EITHER else _guarded(scope)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                yield from self._node(item.context_expr, scope)
            yield from self._body(node.body, self._where_decided(node, scope))
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            yield from self._node(node.iter, scope)
            yield from self._body([*node.body, *node.orelse], scope)
        else:
            yield from self._mentions_in_children(node, self._where_decided(node, scope))

    def _where_decided(self, node: ast.AST, scope: _Scope) -> _Scope:
        return self._guarded_by(node, scope) if decides(node) else scope

    def _guarded_by(self, node: ast.AST, scope: _Scope) -> _Scope:
        """Return the scope where a statement decides, be it by the version of torch."""
        own = {name for names in scope.origins[:-1] for name, origin in names.items() if origin is None}
        local = (scope.values | own) - self._asking_names
        if isinstance(node, (*TESTS, ast.Assert)) and not asks(node, local) and not self._asks_attribute(node.test):
            is_first = not scope.guarded
            tests = (*scope.tests, node.test)
            return replace(scope, guarded=True, by_values=is_first or scope.by_values, tests=tests)
        if isinstance(node, ast.Try) and not asks(node, local) and not self._says_torch(node.body, scope):
            return replace(scope, guarded=True, by_values=not scope.guarded or scope.by_values)
        return _guarded(scope)

    def _says_torch(self, body: Sequence[ast.stmt], scope: _Scope) -> bool:
        """Whether anything in some statements may fail for the version of torch, going by their words."""
        parts = [part for statement in body for part in walk(statement)]
        if any(isinstance(part, _IMPORTS) for part in parts) or are_guarding(body):
            return True
        names = {part.id for part in parts if isinstance(part, ast.Name)}
        if any(origins.get(name) is not None for name in names for origins in scope.origins):
            return True
        words = (word for statement in body for word in words_in(statement))
        called = (part.func for part in parts if isinstance(part, ast.Call))
        functions = {getattr(function, "attr", getattr(function, "id", "")) for function in called}
        return any(map(MAY_ASK.search, words)) or any(map(self._settled.may_ask, functions - {""}))

    @functools.cached_property
    def _asking_targets(self) -> tuple[frozenset[str], frozenset[str]]:
        """What is bound to something whose words ask for a version, anywhere: names, and attributes."""
        nodes = statements_with(self._tree, GUARDING_TEXT) if self._tree else ()
        bindings = [node for node in nodes if isinstance(node, ast.Assign)]
        asking = [node for node in bindings if are_guarding([node.value])]
        parts = [part for node in asking for target in node.targets for part in walk(target)]
        stored = [part for part in parts if isinstance(getattr(part, "ctx", None), ast.Store)]
        # What holds an attribute, or an item, is not bound by it: ``self.layer = skip_init(Linear)``. The container of
        # an item may be asked for it.
        items = {root_of(part) for part in stored if isinstance(part, ast.Subscript)} - {None, "self", "cls"}
        names = {part.id for part in stored if isinstance(part, ast.Name)} | {name for name in items if name}
        return frozenset(names), frozenset(part.attr for part in parts if isinstance(part, ast.Attribute))

    @property
    def _asking_names(self) -> frozenset[str]:
        return self._asking_targets[0]

    def _asks_attribute(self, test: ast.expr) -> bool:
        """Whether a condition looks at an attribute that may have to do with a version."""
        attributes = self._asking_targets[1]
        return not attributes.isdisjoint(part.attr for part in walk(test) if isinstance(part, ast.Attribute))

    def _try(self, node: ast.Try, scope: _Scope) -> Iterator[Mention]:
        caught = {name for handler in node.handlers for name in caught_by(handler)}
        is_guarded = not not_raised_again(node).isdisjoint(CATCHING_ALL)
        body = replace(
            scope,
            guarded=scope.guarded or is_guarded,
            by_values=scope.by_values and not is_guarded,
            caught=scope.caught | caught,
        )
        mentions = list(self._body(node.body, body))
        again: dict[tuple[str, str], bool] = {}
        """What each handler does once more."""
        surely_caught = self._error_of(node.body, scope)
        in_handlers: list[Mention] = []
        for handler in node.handlers:
            # The first that catches what surely happens is run.
            is_run = surely_caught is not None and not surely_caught.isdisjoint(caught_by(handler))
            # What it catches is only looked up once something is raised.
            in_handlers += self._node(handler.type, scope) if handler.type and not is_run else ()
            inside = list(self._body(handler.body, scope if is_run else _guarded(scope)))
            repeated = {_failure(mention) for mention in inside}.intersection(map(_failure, mentions))
            # What fails there as well is not handled. A handler with others in it is gone through only once.
            if repeated and not is_run and not any(isinstance(part, (ast.Try, TryStar)) for part in walk(handler)):
                both = zip(inside, self._body(handler.body, scope), strict=True)
                inside = [plain if _failure(kept) in repeated else kept for kept, plain in both]
            for failure in map(_failure, mentions):
                again[failure] = again.get(failure, True) and failure in repeated
            in_handlers += inside
            surely_caught = None if is_run else surely_caught
        yield from (replace(one, asked=one.asked and not again.get(_failure(one), False)) for one in mentions)
        yield from in_handlers
        yield from self._body(node.orelse, _guarded(scope) if node.handlers else scope)
        yield from self._body(node.finalbody, scope)

    def _error_of(self, body: Sequence[ast.stmt], scope: _Scope) -> frozenset[str] | None:
        """Return what catches the error that statements surely end in, as they take what this torch lacks; None if they
        may succeed.
        """
        inside = replace(scope, origins=(_imported_by(body), *scope.origins))
        texts: dict[str, object] = {}
        for statement in body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                if any(map(self._lacks, _imported_names(statement))):
                    return CATCHING_IMPORTS | CATCHING_ANY
                continue
            value = statement.value if isinstance(statement, (ast.Assign, ast.Expr)) else None
            if isinstance(value, ast.Constant):
                texts |= {name: value.value for name, _ in names_bound_by(statement)}
                continue
            if _is_lookup(value):
                name = texts.get(getattr(value.args[1], "id", ""), getattr(value.args[1], "value", None))
                owner = self._full_name(value.args[0], inside)[1]
                full = f"{owner}.{name}" if owner else None
            else:
                full = self._full_name(value, inside)[1] if value is not None else None
            # What comes before may end in another error.
            return CATCHING_ALL if full is not None and self._lacks(full) else None
        return None

    def _lacks(self, full: str) -> bool:
        is_of_torch = full.partition(".")[0] == self._names.top
        lacking = lacking_part(self._names, full) if is_of_torch else None
        return lacking is not None and lacking.split(".")[1] not in DEVICE_MODULES

    def _truth(self, test: ast.expr, scope: _Scope) -> Truth:
        """Whether a condition holds in this torch; None if its version may decide, and that is not known."""

        def full_name(node: ast.expr, find: Find) -> str | None:
            own = self._full_name(node, scope)[1] if find is scope.find else None
            return own or full_name_found(node, find)

        return self._settled.truth(test, scope.find, scope.values, full_name)

    def _full_name(self, node: ast.expr, scope: _Scope) -> tuple[ast.AST, str | None, str | None]:
        """Return what attributes are taken of, their full name if that is of torch, and what the first part is."""
        root, attributes = attribute_chain(node)
        if not isinstance(root, ast.Name):
            return root, None, None
        name = root.id
        origin = next((names[name] for names in scope.origins if name in names), None)
        return root, None if origin is None else ".".join([origin, *attributes]), origin

    def _mentions_in_children(self, node: ast.AST, scope: _Scope) -> Iterator[Mention]:
        for part in child_nodes(node):
            yield from self._node(part, scope)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: _Scope) -> Iterator[Mention]:
        # Decorators, defaults and annotations belong to the scope around.
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        is_wanted = scope.in_function or scope.base in self._called or self._may_mention(node)
        if not is_wanted and has_late_parameters(node):
            for decorator in decorators:
                yield from self._node(decorator, scope)
            return
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        annotations = [argument.annotation for argument in arguments if argument] + [getattr(node, "returns", None)]
        around = (*decorators, *node.args.defaults, *node.args.kw_defaults)
        for expression in filter(None, (*around, *(annotations if self._evaluates_annotations else ()))):
            yield from self._node(expression, scope)
        if not is_wanted:
            return
        parameters = {argument.arg for argument in arguments if argument}
        own = make_origins(node, self._packages)
        is_variant = scope.variants.get(getattr(node, "name", ""), 0) > 1 or are_guarding(decorators, scope.values)
        inside = replace(
            _with_origins(_named(scope, node), own | dict.fromkeys(parameters)),
            find=finder_inside(node, scope.find),
            values=values_in(node, scope.values - own.keys()),
            in_function=True,
            guarded=scope.guarded or is_variant,
            by_values=scope.by_values and not is_variant,
        )
        inside = replace(inside, objects=self._objects_of(node, scope, inside))
        if EXPORT.function in self._called:
            kept = scope.optional - parameters - own.keys()
            inside = replace(inside, optional=kept.union(optional_keywords(node)))
        body = node.body
        yield from self._body(body, inside) if isinstance(body, list) else self._node(body, inside)

    def _objects_of(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, around: _Scope, inside: _Scope
    ) -> Mapping[str, str]:
        """Return what the names in a function have objects of; the first parameter of a method, of the base."""
        objects = {name: cls for name, cls in around.objects.items() if name not in inside.origins[0]}
        if isinstance(node, ast.Lambda) or not self._asks_objects:
            return objects
        is_static = any(word == "staticmethod" for item in node.decorator_list for word in words_in(item))
        base = DEFINED_AS.get(around.base or "", around.base or "")
        if base in OF_OBJECTS and not around.in_function and not is_static:
            objects |= {parameter.arg: base for parameter in node.args.args[:1] if parameter.arg == "self"}
        return objects | self._objects_in(node, inside)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: _Scope) -> Iterator[Mention]:
        for alias in node.names:
            if isinstance(node, ast.Import):
                yield from self._mention(alias.name, alias.name, node.lineno, scope, how="import")
            elif not node.level and node.module and alias.name != "*":
                module = node.module
                yield from self._mention(f"{module}.{alias.name}", module, node.lineno, scope, how="from")

    def _attribute(self, node: ast.Attribute, scope: _Scope) -> Iterator[Mention]:
        value, full, origin = self._full_name(node, scope)
        if node.attr == "itemsize" and ITEMSIZE in self._wanted and isinstance(node.value, ast.Attribute):
            # Of a tensor's dtype, or of what holds one: ``weight.quant_storage.itemsize``.
            mention = self._name_mention(ITEMSIZE, node.lineno, scope, how="object")
            yield replace(mention, guarded=mention.asked, doubtful=True)
        if isinstance(value, ast.Name) and value.id in scope.objects:
            yield from self._of_object(node, scope.objects[value.id], scope)
        elif not isinstance(value, ast.Name):
            yield from self._node(value, scope)
        elif full is not None and origin is not None:
            is_option = self._names.is_config(full.rpartition(".")[0])
            if is_option or isinstance(node.ctx, ast.Load):
                yield from self._mention(full, origin, node.lineno, scope, how="option" if is_option else "attribute")

    def _of_object(self, node: ast.Attribute, cls: str, scope: _Scope) -> Iterator[Mention]:
        """Yield a mention of what is taken of an object, if its class lacks that."""
        first = attribute_chain(node)[1][0]
        full = f"{cls}.{first}"
        if full in self._wanted and isinstance(node.ctx, ast.Load) and first in self._names.removed_from(cls):
            yield self._name_mention(full, node.lineno, scope, how="object")

    def _objects_in(self, node: ast.AST, scope: _Scope) -> dict[str, str]:
        """Return the variables of a function that certainly have an object of a class of torch."""
        bound: dict[str, list[str | None]] = {}
        for part in walk(node):
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call) and len(part.targets) == 1:
                called = self._full_name(part.value.func, scope)[1]
                target = part.targets[0]
                if isinstance(target, ast.Name) and (called in OF_OBJECTS or called in TENSORS):
                    bound.setdefault(target.id, []).append(TENSOR if called in TENSORS else called)
                    continue
            for name, _ in _bound_by(part):
                bound.setdefault(name, []).append(None)
        # The assignment itself binds the name once more.
        return {name: cls for name, (cls, *others) in bound.items() if cls is not None and others == [None]}

    def _call(self, node: ast.Call, scope: _Scope) -> Iterator[Mention]:
        """Yield a mention of a function that takes the call in another torch, and not in this one."""
        full = self._called_name(node.func, scope)
        for option in options_in(node, full) if full is not None else ():
            how = "compile" if full == COMPILE else "option"
            yield from self._mention(option, option.rpartition(".")[0], node.lineno, scope, how=how)
        if full in FAKES and node.args and isinstance(node.args[0], ast.Constant):
            yield from self._fake(node.args[0].value, node, scope)
        if full == LOAD.function and id(node) in scope.loads and leaves_out(node, LOAD):
            yield self._call_mention(full, LOAD.error, node, scope, how="default")
        if full is not None and full in self._called and full.startswith(OPERATORS):
            error = self._operators.refusal(full, _arguments_of(node))
            yield from () if error is None else (self._call_mention(full, error, node, scope, how="call"),)
        yield from self._method_call(node, full, scope)
        if full is None or full not in self._called:
            return
        callee, call = self._names.callee(full), _arguments_of(node)
        error = None if callee is None else refusal(callee.name, callee.signature, call)
        changed = BY_FUNCTION.get(full)
        if error is None and changed not in (None, LOAD) and self._leaves_out(node, changed, scope):
            yield self._call_mention(full, changed.error, node, scope, how="package" if changed.needs else "omission")
        if callee is None:
            yield from self._compiled_call(full, node, scope)
        elif says_it_is_gone(full, callee):
            yield self._call_mention(full, REMOVED, node, scope, how="removed")
        elif error is not None:
            others = map(parse_parameters, self._names.signatures_of(callee.module, callee.name))
            if not all(refusal(callee.name, other, call) for other in others):
                yield self._call_mention(full, error, node, scope, how="call")

    def _method_call(self, node: ast.Call, full: str | None, scope: _Scope) -> Iterator[Mention]:
        """Yield a mention of a method that fails here, if what it is called of may be a tensor.

        :param full: what is called, if that is of torch
        """
        method = f"{METHODS}{node.func.attr}" if isinstance(node.func, ast.Attribute) else ""
        if method not in self._called or root_of(node) in self._foreign:
            return
        name = method.removeprefix(METHODS)
        if name == REMOVED_METHOD and full is None and calls_removed(node):
            yield self._call_mention(method, REMOVED, node, scope, how="method")
        else:
            error = f"{name}() received an invalid combination of arguments"
            if passes_list(node):
                yield self._call_mention(method, error, node, scope, how="method")
            elif self._may_pass_several(node):
                yield replace(self._call_mention(method, error, node, scope, how="method"), doubtful=True)

    def _may_pass_several(self, node: ast.Call) -> bool:
        """Whether a call passes on the dimensions that its function takes, which does not ask how many these are."""
        name = passed_dimensions(node)
        function = self._function_around(node.lineno) if name is not None else None
        if function is None or name not in dimensions_in(function):
            return False
        calls = (part for part in walk(function) if isinstance(part, ast.Call) and part.args)
        asking = (part for part in calls if getattr(part.func, "id", "") in {"isinstance", "len", "type"})
        return all(getattr(part.args[0], "id", "") != name for part in asking)

    def _leaves_out(self, node: ast.Call, changed: ChangedDefault, scope: _Scope) -> bool:
        """Whether a call leaves a parameter to its default, which is another one in this torch; or whether it passes an
        object that does not take what it gets here.
        """
        if changed.given is not None:
            made = self._made_by(given_to(node, changed), node.lineno)
            return self._names.has(*changed.sign) is True and any(refuses(cls, changed) for cls in made)
        optional = scope.optional if changed is EXPORT else ()
        return self._names.has(*changed.sign) is True and leaves_out(node, changed, optional)

    def _made_by(self, value: ast.expr | None, line: int) -> list[ast.ClassDef]:
        """Return the classes of the source of which a value is certainly an object: one of them, where it is used.

        :param line: where that is
        """
        body = self._tree.body if self._tree else []
        made: list[ast.expr | None] = [value]
        if isinstance(value, ast.Name):
            innermost = self._function_around(line)
            bound = [pair for part in (walk(innermost) if innermost else ()) for pair in bound_by(part)]
            made = [item for name, item in bound if name == value.id]
        classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
        found = [classes.get(getattr(item.func, "id", "")) if isinstance(item, ast.Call) else None for item in made]
        return [] if None in found else [cls for cls in found if cls is not None]

    def _function_around(self, line: int) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        """Return the innermost function that has a line."""
        parts = walk(self._tree) if self._tree else ()
        functions = [node for node in parts if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        around = [node for node in functions if node.lineno <= line <= (node.end_lineno or 0)]
        return max(around, key=lambda node: node.lineno, default=None)

    @functools.cached_property
    def _foreign(self) -> frozenset[str]:
        """What the source imports that is neither of torch nor its own, and what it binds to what that returns."""
        own = self._file.partition("/")[0]
        parts = list(walk(self._tree)) if self._tree else []
        foreign = {
            name
            for part in parts
            if isinstance(part, _IMPORTS) and not getattr(part, "level", 0)
            if (getattr(part, "module", "") or "").partition(".")[0] != own
            for name, origin in _bound_by(part)
            if (origin or "").partition(".")[0] != "torch"
        }
        for part in parts:
            if isinstance(part, ast.Assign) and root_of(part.value) in foreign:
                foreign |= {name.id for name in part.targets if isinstance(name, ast.Name)}
        return frozenset(foreign)

    def _compiled_call(self, full: str, node: ast.Call, scope: _Scope) -> Iterator[Mention]:
        """Yield a mention of a compiled function that does not take a keyword here."""
        operator, operators = compiled_function(full), self._names.operators
        gone = gone_keywords(self._names, full)
        keyword = next((keyword for keyword in _arguments_of(node).keywords if keyword in gone), None) if gone else None
        if keyword is not None and operator is not None and operators is not None:
            is_overloaded = operators().is_overloaded(operator)
            error = keyword_refusal(full.rpartition(".")[2], keyword, is_overloaded=is_overloaded)
            yield self._call_mention(full, error, node, scope, how="call")

    def _called_name(self, node: ast.expr, scope: _Scope) -> str | None:
        """Return the full name of what is called, if that is of torch: of ``super().__init__`` that of the base, of a
        class without an ``__init__`` of its own that of its base.
        """
        if isinstance(node, ast.Attribute) and node.attr == "__init__" and isinstance(node.value, ast.Call):
            return scope.base if isinstance(node.value.func, ast.Name) and node.value.func.id == "super" else None
        if isinstance(node, ast.Name) and not any(node.id in names for names in scope.origins[:-1]):
            node = self._bases.get(node.id, node)
        return self._full_name(node, scope)[1]

    def _fake(self, name: object, node: ast.Call, scope: _Scope) -> Iterator[Mention]:
        """Yield a mention of an operator for which a fake kernel is registered."""
        full = f"{OPERATORS}{name.replace('::', '.')}" if isinstance(name, str) else ""
        if full in self._wanted:
            yield self._name_mention(full, node.lineno, scope, how="fake")

    def _call_mention(self, full: str, error: str, node: ast.Call, scope: _Scope, *, how: str) -> Mention:
        use = LaterUse(
            name=full,
            error=error,
            file=self._file,
            line=node.lineno,
            function=scope.path,
            how=how,
            arguments=_arguments_of(node),
        )
        is_of_torch = full.startswith(OPERATORS) or how == "removed" or error == REMOVED
        is_of_torch |= how == "omission" and BY_FUNCTION[full].given is None
        raised = {"RuntimeError"} if is_of_torch else CATCHING_IMPORTS if how == "package" else CATCHING_CALLS
        guarded = not scope.caught.isdisjoint(raised)
        return self._make_mention(use, scope, guarded=guarded)

    def _mention(self, full: str, origin: str, line: int, scope: _Scope, *, how: str) -> Iterator[Mention]:
        """Yield a mention if it is one of a missing name.

        :param origin: what is imported elsewhere, and is there if the code gets here
        """
        if full.partition(".")[0] != self._names.top:
            return
        is_operator = full.startswith(OPERATORS)
        name = self._operators.lacking(full) if is_operator else lacking_part(self._names, full)
        if name is None or name not in self._wanted:
            return
        if len(name) <= len(origin):
            if how == "attribute":
                return  # its import has failed before
            how = "import"
        yield self._name_mention(name, line, scope, how=how)

    def _name_mention(self, name: str, line: int, scope: _Scope, *, how: str) -> Mention:
        use = LaterUse(name=name, file=self._file, line=line, function=scope.path, how=how)
        guarded = not scope.caught.isdisjoint(_RAISED.get(how, CATCHING_IMPORTS))
        return self._make_mention(use, scope, guarded=guarded)

    def _make_mention(self, use: LaterUse, scope: _Scope, *, guarded: bool) -> Mention:
        # What users choose decides whether it happens, whatever the version is; and it may be what a file has.
        may_fail = scope.by_values and not guarded and use.how != "default"
        by_choice = may_fail and all(map(self._is_choice, scope.tests))
        return Mention(
            use=use,
            guarded=(guarded or scope.guarded) and not by_choice,
            asked=guarded or (scope.guarded and not scope.by_values),
            public=scope.public,
            nested=scope.nested,
            doubtful=by_choice,
        )

    def _is_choice(self, test: ast.expr) -> bool:
        return is_choice(test, self._settled.may_ask)


def _failure(mention: Mention) -> tuple[str, str]:
    return mention.use.name, mention.use.error


def _arguments_of(node: ast.Call) -> PassedArguments:
    plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    keywords = tuple(keyword.arg for keyword in node.keywords if keyword.arg is not None)
    return PassedArguments(
        count=len(plain),
        keywords=keywords,
        takes_more=len(plain) < len(node.args),
        takes_keywords=len(keywords) < len(node.keywords),
    )


def _imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return what an import takes, by full names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names]


def _imported_by(body: Sequence[ast.stmt]) -> Origins:
    """Return what the names stand for that statements import, whatever else binds them."""
    imports = (statement for statement in body if isinstance(statement, _IMPORTS))
    return {name: origin for statement in imports for name, origin in names_bound_by(statement)}


def _is_lookup(node: ast.expr | None) -> TypeGuard[ast.Call]:
    """Whether an expression is ``getattr(module, name)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id == "getattr" and len(node.args) == 2 and not node.keywords


def make_origins(body: ast.AST, known: Collection[str] = _KNOWN) -> Origins:
    """Return what the names stand for that a module, a class or a function binds itself.

    :param known: the packages of which that is asked
    """
    # A name counts only if all that the scope binds it to is one thing. ``import *`` may bind any of them to something
    # else; only ``torch`` itself is assumed to stay.
    by_name: dict[str, set[str | None]] = {}
    waiting = list(getattr(body, "body", ())) if isinstance(getattr(body, "body", None), list) else []
    starred = False
    while waiting:
        node = waiting.pop()
        for name, origin in _bound_by(node, known):
            by_name.setdefault(name, set()).add(origin)
        starred |= isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        if not isinstance(node, _SCOPES) and not (isinstance(node, ast.Assign) and _is_plain_alias(node)):
            waiting.extend(child_nodes(node))
    origins = {name: next(iter(several)) if len(several) == 1 else None for name, several in by_name.items()}
    if origins.get("torch", "torch") != "torch":  # what is taken of it is of something else
        origins = dict.fromkeys(origins)
    if isinstance(body, ast.Module):  # what functions bind outside of themselves
        for node in statements_with(body, SETTING_AROUND):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                origins |= dict.fromkeys(node.names)
    return {name: origin for name, origin in origins.items() if not starred or name == "torch" or origin is None}


def _inherited_constructors(tree: ast.Module | None) -> dict[str, ast.expr]:
    """Return the base of each class of a module that is made as that is."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)] if tree else []
    counted = Counter(node.name for node in classes)
    own = {node.name for node in classes for part in node.body if getattr(part, "name", "") in {"__init__", "__new__"}}
    return {
        node.name: node.bases[0]
        for node in classes
        if len(node.bases) == 1 and counted[node.name] == 1 and node.name not in own
        if not node.keywords and not node.decorator_list
    }


def _bound_by(node: ast.AST, known: Collection[str] = _KNOWN) -> Iterator[tuple[str, str | None]]:
    """Yield the names that a part of a scope binds itself, each with what it stands for."""
    for name, origin in names_bound_by(node):
        yield name, origin if origin is not None and origin.partition(".")[0] in known else None
    if isinstance(node, ast.Assign) and _is_plain_alias(node) and isinstance(node.value, ast.Attribute):
        yield from ((target.id, _name_of_torch(node.value)) for target in node.targets if isinstance(target, ast.Name))


def _is_plain_alias(node: ast.Assign) -> bool:
    """Whether an assignment gives names to what torch has (``aten = torch.ops.aten``), or to None, which stands for
    what cannot be imported: then there is no torch.
    """
    if isinstance(node.value, ast.Constant):
        return node.value.value is None
    is_of_torch = isinstance(node.value, ast.Attribute) and _name_of_torch(node.value) is not None
    return is_of_torch and all(isinstance(target, ast.Name) for target in node.targets)


def _name_of_torch(node: ast.Attribute) -> str | None:
    name = dotted_name(node)
    return name if name.startswith("torch.") else None


def _with_origins(scope: _Scope, origins: Origins, *, is_class: bool = False) -> _Scope:
    """Return the scope inside of a class or function. The names of a class are not those of its methods: they are
    unknown.
    """
    return replace(scope, origins=(dict.fromkeys(origins) if is_class else origins, *scope.origins))


def _named(scope: _Scope, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef) -> _Scope:
    """Return the scope inside of a function or class."""
    name, written = ("<lambda>", "<lambda>") if isinstance(node, ast.Lambda) else (node.name, written_name(node))
    path = f"{scope.path}.{written}" if scope.path else written
    if scope.in_function:
        return replace(scope, nested=(*scope.nested, name), path=path)
    return replace(scope, public=(*scope.public, name), path=path)


def _guarded(scope: _Scope) -> _Scope:
    return replace(scope, guarded=True, by_values=False) if scope.by_values or not scope.guarded else scope
