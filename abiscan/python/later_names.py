"""Names of torch that functions of a package use when they are called, and that a torch lacks; and calls that its
functions reject.

A note is worth less than a false alarm costs. So a use counts only if it is clear what the name stands for, if nothing
around it, before it or at its callers may depend on the version of torch, and if the package shows nowhere that it
knows that the name may be missing.
"""

from __future__ import annotations

import ast
import builtins
import enum
import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from abiscan.python.changed_defaults import (
    BY_FUNCTION,
    EXPORT,
    LOAD,
    REMOVED,
    REMOVED_IN,
    ChangedDefault,
    kept_as_modules,
    leaves_out,
    may_need_default,
    optional_keywords,
    used_as_modules,
    whole_loads,
)
from abiscan.python.dynamic_names import package_of
from abiscan.python.grammar import ANNOTATED_LAZILY
from abiscan.python.library import PythonCode
from abiscan.python.model import Answer
from abiscan.python.nodes import TryStar, child_nodes, walk
from abiscan.python.operator_calls import (
    ATEN,
    FAKES,
    LISTED,
    METHODS,
    OPERATORS,
    KnownOperators,
    Overload,
    as_passed,
    compiled_function,
    keyword_refusal,
    methods_with_lists,
    operator_named,
    passes_list,
)
from abiscan.python.refusals import ParameterList, PassedArguments, parse_parameters, refusal
from abiscan.python.settled_conditions import SettledConditions
from abiscan.python.sources import is_for_users
from abiscan.python.torch_classes import CLASSES
from abiscan.python.torch_names import COMPANIONS, DEVICE_MODULES, FUNCTIONS, Callee, TorchNames, is_core
from abiscan.python.torch_options import COMPILE, INDUCTOR, list_words, options_in
from abiscan.python.torch_texts import DEFAULT_OVERLOAD
from abiscan.python.torch_uses import CallText, list_calls
from abiscan.python.version_guards import (
    EXITS,
    are_guarding,
    asks_by_words,
    asks_for_version,
    guards_what_follows,
    is_guard,
    root_of,
    values_in,
    words_in,
)
from abiscan.regex import regex

_KNOWN: Final = frozenset({"torch", *COMPANIONS})
"""The packages whose names are known."""
_LOOKS_UP: Final = regex(rb"(?:has|get|set)attr\(\s*(?:torch|F|nn|\w*module\w*)\b")
"""What a source has that looks names up in torch, or in modules."""
_MOST_PARSED: Final = 2_000_000
"""Of the sources that mention a function, in bytes."""
_DECIDING: Final = frozenset({b"if", b"elif", b"else", b"try", b"except", b"finally"})
_BRANCHES: Final = _DECIDING - {b"try"}
_MOST_CALLS: Final = 4
"""How far the calls of a function are followed back."""
_COMMON: Final = frozenset({"forward", "backward", "step", "apply", "run", "reset", "load", "save", "train", "eval"})
_MOST_DEFINITIONS: Final = 3
"""How many functions of a package may have a name that still tells which of them is meant."""
_CATCHING_ANY: Final = frozenset({"Exception", "BaseException"})
_CATCHING_ALL: Final = _CATCHING_ANY | {"AttributeError"}
_TENSOR: Final = "torch.Tensor"
_TENSORS: Final = frozenset(
    f"torch.{name}"
    for name in (
        *("arange", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn", "randperm", "tensor"),
        *("zeros", "empty_like", "ones_like", "rand_like", "randn_like", "zeros_like"),
    )
)
"""Functions that return a tensor."""
_OF_OBJECTS: Final = CLASSES - {"torch.nn.Parameter", "torch.utils.data.Dataset"}
"""The classes whose objects are looked at: not tensors twice, nor those whose attributes are mostly of the package."""
_VERSIONS: Final = frozenset({"torch.__version__", "torch.version.__version__"})
_CATCHING_IMPORTS: Final = frozenset({"ImportError", "ModuleNotFoundError"})
_CATCHING_CALLS: Final = frozenset({"TypeError"})
_RAISED: Final = {"fake": {"RuntimeError"}, "compile": {"RuntimeError"}, "attribute": set[str](), "option": set[str]()}
"""The exceptions that uses of a name end in, by how they use it, other than ``AttributeError`` and those of imports."""
_LOOKS_AT_PARAMETERS: Final = regex(
    rb"\b(?:signature|getfullargspec|getargspec)\(\s*([\w.]*)|\b(?:co_varnames|__kwdefaults__)\b"
)
"""What a source has that asks functions for their parameters, and which."""
_DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_TESTS = (ast.If, ast.IfExp, ast.While)
_IMPORTS = (ast.Import, ast.ImportFrom)


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
        device that is computed
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


def later_uses(
    code: PythonCode,
    names: TorchNames,
    companions: Iterable[Sequence[TorchNames]] = (),
    own: Callable[[], Mapping[str, Sequence[Overload]]] = dict,
    imported: Collection[str] = (),
) -> tuple[LaterUse, ...]:
    """Return the uses of names that a torch certainly lacks, by functions that may be called there.

    Only those count that some release certainly has; others may be brought by packages, or be misspelt.

    :param companions: for each package other than torch, its versions that may be there; all must lack a name
    :param own: returns the operators that libraries of the package define: see ``KnownOperators``
    :param imported: the sources that importing the package runs there, whatever conditions stand around their imports
    """
    # Functions with a name of torch that is a plain word often have one themselves, and many callers: too many must not
    # hide the others.
    settled = SettledConditions(code, names)
    open_uses = _open_mentions(code, names, own, settled)
    open_uses += (mention for versions in companions for mention in _open_mentions_of(code, versions, settled))
    found: dict[LaterUse, _Guard] = {}
    for plain in (False, True):
        mentions = [mention for mention in open_uses if _is_plain(mention.use.name.rpartition(".")[2]) is plain]
        if not mentions:
            continue
        callers = _Callers(code, mentions, imported, settled)
        for mention in mentions:
            guard = max(callers.guard(mention), _Guard.PERHAPS if mention.doubtful else _Guard.NONE)
            found[mention.use] = min(guard, found.get(mention.use, guard))
    certain = {use.name for use, guard in found.items() if guard is _Guard.NONE}
    return tuple(
        sorted(
            replace(use, doubtful=guard is _Guard.PERHAPS)
            for use, guard in found.items()
            if guard is _Guard.NONE or (guard is _Guard.PERHAPS and use.name not in certain)
        )
    )


def failing_uses(code: PythonCode, names: TorchNames) -> frozenset[LaterUse]:
    """Return the uses that fail in a torch unless a caller prevents it; importing the package may run some."""
    mentions = _open_mentions(code, names, dict, SettledConditions(code, names))
    return frozenset(mention.use for mention in mentions if not mention.doubtful)


def _open_mentions(
    code: PythonCode,
    names: TorchNames,
    own: Callable[[], Mapping[str, Sequence[Overload]]],
    settled: SettledConditions,
) -> list[_Mention]:
    """Return the uses of what a torch lacks that nothing guards where they stand."""
    # The cheapest checks first: words in the sources, the tables of names, and only then the syntax trees of the few
    # files that mention a name which is missing.
    missing: dict[str, set[str]] = {}
    lacking = names.lacking(code.all_torch_uses)
    for file in code.sources:
        uses = code.torch_uses(file) if is_for_users(file) else frozenset[str]()
        other_uses = (
            (*_options_in(code.source(file), uses), *_attributes_in(code.source(file), uses, names)) if uses else ()
        )
        for use in (*(use for use in lacking if use in uses), *other_uses):
            name = _lacking_part(names, use)
            if name is not None and name.split(".")[1] not in DEVICE_MODULES:
                missing.setdefault(name, set()).add(file)
    requested = {name: files for name, files in missing.items() if names.was_there(name)}
    called = _doubtful_calls(code, names)
    for method, file in _calls_with_lists(code, names):
        called.setdefault(method, set()).add(file)
    operators = _operators_in(code, names, own)
    for file, name, call in _doubtful_operators(code, operators):
        (called if call else requested).setdefault(name, set()).add(file)
    return _unguarded_mentions(code, names, requested, called, operators, settled)


def _options_in(source: bytes, uses: Collection[str]) -> Iterator[str]:
    """Yield what may be options that calls in a source set by their names, going by its text."""
    owners = {use.removesuffix(".patch") for use in uses if use.endswith(".config.patch")}
    owners |= {INDUCTOR} if COMPILE in uses else set()
    words = list_words(source) if owners else ()
    yield from (f"{owner}.{word}" for owner in owners for word in words)


def _attributes_in(source: bytes, uses: Collection[str], names: TorchNames) -> Iterator[str]:
    """Yield what objects of classes of torch may be asked for in a source and lack, going by its text."""
    # Most sources mention tensors in annotations alone.
    classes = _OF_OBJECTS.intersection(uses) - {_TENSOR}
    for cls in classes if _TENSORS.isdisjoint(uses) and b"(torch.Tensor)" not in source else classes | {_TENSOR}:
        yield from (f"{cls}.{name}" for name in names.removed_from(cls) if f".{name}".encode() in source)


def _operators_in(
    code: PythonCode, names: TorchNames, own: Callable[[], Mapping[str, Sequence[Overload]]]
) -> KnownOperators:
    """Return the operators that are known, if any source mentions one."""
    if names.operators is None or not any(code.operator_uses(file) for file in code.sources):
        return KnownOperators()
    return KnownOperators(names.operators(), own())


def _doubtful_operators(code: PythonCode, operators: KnownOperators) -> Iterator[tuple[str, str, bool]]:
    """Yield the operators that are missing, or whose calls may be rejected: the source, and whether it is a call."""
    for file in filter(is_for_users, code.sources):
        for use, call in code.operator_uses(file):
            lacking = operators.lacking(use)
            if lacking is not None:
                yield file, lacking, False
            elif call is not None and operators.refusal(use, as_passed(call)):
                yield file, use, True


def _unguarded_mentions(
    code: PythonCode,
    names: TorchNames,
    requested: Mapping[str, Iterable[str]],
    called: Mapping[str, Iterable[str]],
    operators: KnownOperators,
    settled: SettledConditions,
) -> list[_Mention]:
    """Return the mentions that nothing guards of what is missing, and of what is called.

    :param requested: the files that mention each missing name
    :param called: the files that may have each call
    """
    requested, called = _within_limit(code, requested), _within_limit(code, called)
    files = sorted({file for files in (*requested.values(), *called.values()) for file in files})
    mentions = [
        mention
        for file in files
        for mention in _Mentions(code, file, names, requested, called, operators, settled.marks(file)).all()
    ]
    # One use that is guarded shows that the authors know that the name may be missing: then no use of it is certain.
    asked = {(mention.use.name, mention.use.error) for mention in mentions if mention.asked}
    open_uses = [mention for mention in mentions if not mention.asked]
    distinct = {_asked_of(mention.use): mention.use for mention in open_uses}
    handled = {asked for asked, use in distinct.items() if _is_handled(code, use)}
    return [
        replace(mention, doubtful=True) if is_known or mention.guarded else mention
        for mention in open_uses
        for is_handled in [_asked_of(mention.use) in handled]
        for is_known in [is_handled or (mention.use.name, mention.use.error) in asked]
        if not is_handled or _may_be_missed(code, mention.use)
    ]


def _may_be_missed(code: PythonCode, use: LaterUse) -> bool:
    """Whether what shows that a package knows a name says nothing of this use: it is a text, and sets nothing."""
    return use.how in {"attribute", "from", "import"} and not (
        code.may_set(use.name.rpartition(".")[2]) or operator_named(use.name)
    )


def _within_limit(code: PythonCode, wanted: Mapping[str, Iterable[str]]) -> Mapping[str, Iterable[str]]:
    """Leave out what too many sources mention to parse them all."""
    parsed, kept = set[str](), dict[str, Iterable[str]]()
    for name, files in sorted(wanted.items(), key=lambda item: (_size_of(code, item[1]), item[0])):
        if _size_of(code, parsed.union(files)) <= _MOST_PARSED:
            parsed.update(files)
            kept[name] = files
    return kept


def _open_mentions_of(code: PythonCode, versions: Sequence[TorchNames], settled: SettledConditions) -> list[_Mention]:
    """Return the uses of names of another package that each of some versions lacks, and that nothing guards there."""
    missing: dict[str, list[str]] = {}
    for file in code.sources if versions else ():
        uses = code.companion_uses(file, versions[0].top) if is_for_users(file) else ()
        for use in uses:
            lacking = {_lacking_part(names, use) for names in versions}
            name = next(iter(lacking)) if len(lacking) == 1 else None
            if name is not None and versions[0].was_there(name):
                missing.setdefault(name, []).append(file)
    operators = KnownOperators()
    return _unguarded_mentions(code, versions[0], missing, {}, operators, settled) if missing else []


def _size_of(code: PythonCode, files: Iterable[str]) -> int:
    return sum(len(code.source(file)) for file in files)


def _lacking_part(names: TorchNames, use: str) -> str | None:
    """Return a name up to its first part that is certainly missing, be it a module or not; None if there is none."""
    name = names.first_lacking(use)
    if name is not None and name.rpartition(".")[0] in CLASSES:
        return name
    may_be_module = name is not None and not is_core(name) and names.has_module(name) is not False
    return None if may_be_module else name


def _doubtful_calls(code: PythonCode, names: TorchNames) -> dict[str, set[str]]:
    """Return what sources may call that takes less in this torch than in another, by its dotted name: the sources."""
    doubtful: dict[str, set[str]] = {}
    for use in sorted(code.all_torch_uses):
        changed, callee = BY_FUNCTION.get(use), names.callee(use)
        default = changed if changed is not None and names.has(*changed.sign) is True else None
        if callee is None:
            gone = _gone_keywords(names, use) if _is_compiled(names, use) else frozenset[str]()
            for file in filter(is_for_users, code.files_using(use) if default or gone else ()):
                calls = list_calls(code.source(file), use.rpartition(".")[2].encode())
                if default or any(not gone.isdisjoint(call.keywords) for call in calls):
                    doubtful.setdefault(use, set()).add(file)
            continue
        own = callee.signature
        others = [parse_parameters(text) for text in names.signatures_of(callee.module, callee.name)]
        others = [other for other in others if not own.takes_all_of(other)]
        is_removed = _is_removed(use, callee)
        looked_at = bool(others) or is_removed or default is not None
        files = [file for file in code.files_using(use) if is_for_users(file)] if looked_at else []
        for file in files:
            calls = list_calls(code.source(file), use.rpartition(".")[2].encode())
            if any(
                is_removed or _may_need(call, own, others) or (default and may_need_default(call, default))
                for call in calls
            ):
                doubtful.setdefault(use, set()).add(file)
    return doubtful


def _calls_with_lists(code: PythonCode, names: TorchNames) -> Iterator[tuple[str, str]]:
    """Yield the methods that sources give several dimensions, and that take one here, each with the source."""
    if names.operators is None:
        return
    operators, lost = names.operators(), dict[str, bool]()
    for file in filter(is_for_users, code.sources):
        for method in methods_with_lists(code.source(file)) if code.torch_uses(file) else ():
            if method not in lost:
                definition = f"def {method}(".encode()  # of a class that may be the one that is meant
                is_own = any(definition in code.source(path) for path in code.sources)
                lost[method] = not is_own and operators.lost_list(f"{ATEN}{method}", LISTED)
            if lost[method]:
                yield f"{METHODS}{method}", file


def _is_removed(use: str, callee: Callee) -> bool:
    """Whether what is called only says that it is gone."""
    return callee.module == REMOVED_IN and use.count(".") == 1


def _is_compiled(names: TorchNames, use: str) -> bool:
    """Whether a dotted name is certainly that of a function that is compiled, and its operators are known."""
    owner, _, name = use.rpartition(".")
    is_there = names.has(FUNCTIONS if owner == "torch" else owner, name) is True
    return names.operators is not None and compiled_function(use) is not None and is_there


def _gone_keywords(names: TorchNames, use: str) -> frozenset[str]:
    """Return the keywords that a compiled function takes in another release, and not in this one."""
    operator = compiled_function(use)
    return names.operators().gone_keywords(operator) if operator and names.operators else frozenset()


def _may_need(call: CallText, own: ParameterList, others: Sequence[ParameterList]) -> bool:
    """Whether a call takes something that only other signatures have, going by its text."""
    gone = frozenset[str]().union(*(other.keywords for other in others)) - own.keywords
    takes_less = any(other.has_keywords or other.required < own.required for other in others)
    return (
        (call.by_position > len(own.positional) and not own.has_star)
        or (call.by_position + len(call.keywords) < len(own.required) and takes_less)
        or (any(other.has_keywords for other in others) and not call.keywords <= own.keywords)
        or not call.keywords.isdisjoint(gone)
    )


def _asked_of(use: LaterUse) -> tuple[str, str, PassedArguments]:
    """Return what decides whether a package handles a use."""
    return use.name, use.how, use.arguments


def _is_handled(code: PythonCode, use: LaterUse) -> bool:
    """Whether a package shows that it knows what a torch lacks, or sets it."""
    name = use.name.rpartition(".")[2]
    if operator := operator_named(use.name):
        return _is_defined(code, operator) or (use.how != "call" and _is_known(code, operator.partition("::")[2]))
    if use.how == "object":  # it may be one of a class of the package
        bound = re.compile(rb"\bdef %b\b|\b%b\s*(?::[^=\n]+)?=[^=]" % (name.encode(), name.encode()))
        return _is_known(code, name) or any(bound.search(code.source(file)) for file in code.sources)
    if use.how in {"option", "compile"}:  # to set it does not add it
        texts = [f'"{name}"'.encode(), f"'{name}'".encode()]
        asking = [source for source in map(code.source, code.sources) if b"hasattr(" in source]
        return any(text in source for source in asking for text in texts)
    if use.how == "package":
        needed = BY_FUNCTION[use.name].needs or ""
        if code.requires(needed) or code.surroundings.installed(needed) is True:
            return True
    if use.how not in {"call", "method", "default", "omission", "package", "removed"}:
        return _is_known(code, name)
    sources = [code.source(file) for file in code.sources]
    if use.how not in {"call", "method"}:
        words: Sequence[bytes] = BY_FUNCTION[use.name].handled if use.name in BY_FUNCTION else ()
    else:
        quoted = (f"{quote}{word}{quote}".encode() for word in use.arguments.keywords for quote in "\"'")
        words = [name.encode(), *quoted]
        sources = [source for source in sources if _looks_at_parameters(source, name.encode())]
    return code.may_set(name) or any(word in source for source in sources for word in words)


def _looks_at_parameters(source: bytes, name: bytes) -> bool:
    """Whether a source asks a function of a name for its parameters, or one that may be it."""
    asked = (match[1] or b"" for match in _LOOKS_AT_PARAMETERS.finditer(source))
    return any(b"." not in function or name in function.split(b".") for function in asked)


def _is_known(code: PythonCode, name: str) -> bool:
    """Whether a package sets a name on something, or has it as a text, which ``hasattr`` takes."""
    quoted = (f'"{name}"'.encode(), f"'{name}'".encode())
    sources = [code.source(file) for file in code.sources]
    # A plain word may be a text for any reason: it counts where something of torch is looked up by a text.
    if _is_plain(name):
        sources = [source for source in sources if _LOOKS_UP.search(source)]
    return code.may_set(name) or any(text in source for source in sources for text in quoted)


def _is_defined(code: PythonCode, operator: str) -> bool:
    """Whether a package may define an operator in Python, by its schema."""
    name = operator.removesuffix(DEFAULT_OVERLOAD).partition("::")[2]
    texts = [f"{before}{name}(".encode() for before in ('"', "'", "::")]
    return any(text in code.source(file) for file in code.sources for text in texts)


def _is_plain(name: str) -> bool:
    return name.isalpha() and name.islower()


class _Mention(Struct, frozen=True, kw_only=True):
    """A use of a missing name.

    :ivar doubtful: see ``LaterUse``
    :ivar guarded: whether something guards it where it stands
    :ivar asked: whether what guards it may well ask for a version
    :ivar public: the names by which others use the function that it is in: of a class, and of the function
    :ivar nested: the names of the functions inside of that function which it is in
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
    :ivar values: what stands for values in the functions around
    :ivar public: see ``_Mention``
    :ivar nested: see ``_Mention``
    :ivar variants: how often a function of a name is defined around: more than once, it may depend on the version
    :ivar by_values: whether what guards it are only conditions on values that functions compute
    :ivar caught: the exceptions that are caught around, by their names
    :ivar loads: the calls whose results are used as modules, by identity
    :ivar base: the only base of the class around, by its full name
    :ivar objects: the classes of torch that variables certainly have objects of
    :ivar optional: the parameters that have keywords which users need not pass
    """

    origins: tuple[Origins, ...]
    values: frozenset[str] = frozenset()
    public: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    in_function: bool = False
    variants: Mapping[str | None, int] = field(default_factory=dict)
    guarded: bool = False
    by_values: bool = False
    caught: frozenset[str] = frozenset()
    loads: frozenset[int] = frozenset()
    base: str | None = None
    objects: Mapping[str, str] = {}
    optional: frozenset[str] = frozenset()


class _Mentions:
    """The mentions of missing names in one source, and the calls that are rejected."""

    def __init__(
        self,
        code: PythonCode,
        file: str,
        names: TorchNames,
        requested: Collection[str],
        called: Collection[str],
        operators: KnownOperators,
        marks: frozenset[str],
    ) -> None:
        self._marks = marks
        self._tree = code.tree(file)
        self._file = file
        self._names = names
        self._wanted = requested
        self._called = called
        self._operators = operators
        self._asks_objects = any(name.rpartition(".")[0] in _OF_OBJECTS for name in requested)
        self._bases = _inherited_constructors(self._tree)
        is_lazy = not isinstance(code.python, Answer) and code.python >= ANNOTATED_LAZILY
        self._evaluates_annotations = not (is_lazy or code.postpones_annotations(file))
        self._loads_weights = LOAD.function in called and names.has(*LOAD.sign) is True

    def all(self) -> Iterator[_Mention]:
        """Yield them all; none of a source that cannot be parsed, nor what follows an expression nested too deeply."""
        if self._tree is None:
            return
        loads = frozenset(id(call) for call in whole_loads(self._tree)) if self._loads_weights else frozenset[int]()
        with suppress(RecursionError):
            scope = _Scope(origins=(_make_origins(self._tree),), loads=loads, values=self._marks)
            yield from self._body(self._tree.body, scope)

    def _body(self, statements: Sequence[ast.stmt], scope: _Scope) -> Iterator[_Mention]:
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
        if isinstance(statement, ast.If) and (truth := self._truth(statement.test, scope)) is not None:
            taken = statement.body if truth else statement.orelse
            return bool(taken) and isinstance(taken[-1], EXITS)
        if scope.caught & _CATCHING_IMPORTS and isinstance(statement, (ast.Import, ast.ImportFrom)):
            return not self._surely_succeeds(statement)
        return guards_what_follows(statement, scope.values)

    def _surely_succeeds(self, node: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import is one of what this torch has, as far as is known."""
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        else:
            imported = [f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names]
        return all(name.partition(".")[0] == "torch" and _lacking_part(self._names, name) is None for name in imported)

    def _node(self, node: ast.AST, scope: _Scope) -> Iterator[_Mention]:
        if isinstance(node, _DEFINED):
            yield from self._function(node, scope)
        elif isinstance(node, ast.ClassDef):
            for expression in (*node.bases, *node.keywords, *node.decorator_list):
                yield from self._node(expression, scope)
            base = self._full_name(node.bases[0], scope)[1] if len(node.bases) == 1 and not node.keywords else None
            kept = {id(call) for call in kept_as_modules(node)} if self._loads_weights else set[int]()
            inside = replace(
                _named(scope, node.name),
                guarded=scope.guarded or are_guarding(node.decorator_list),
                by_values=scope.by_values and not are_guarding(node.decorator_list),
                base=base,
                loads=scope.loads | kept,
            )
            yield from self._body(node.body, _with_origins(inside, _make_origins(node), is_class=True))
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

    def _statement(self, node: ast.AST, scope: _Scope) -> Iterator[_Mention]:
        """Go through the parts of what may decide which of them are run."""
        inside = self._guarded_by(node, scope) if _decides(node, scope.values) else scope
        if isinstance(node, _TESTS):
            yield from self._node(node.test, scope)
            truth = self._truth(node.test, scope)
            for part, runs in ((node.body, truth), (node.orelse, None if truth is None else not truth)):
                around = inside if runs is None else scope if runs else _guarded(scope)
                yield from self._body(part, around) if isinstance(part, list) else self._node(part, around)
        elif isinstance(node, (ast.Try, TryStar)):
            yield from self._try(node, scope)
        elif isinstance(node, ast.BoolOp):
            for value in node.values:
                yield from self._node(value, scope)
                scope = _guarded(scope) if is_guard(value, scope.values) else scope
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                yield from self._node(item.context_expr, scope)
            yield from self._body(node.body, inside)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            yield from self._node(node.iter, scope)
            yield from self._body([*node.body, *node.orelse], scope)
        else:
            yield from self._mentions_in_children(node, inside)

    def _guarded_by(self, node: ast.AST, scope: _Scope) -> _Scope:
        """Return the scope where a statement decides, be it by the version of torch."""
        own = {name for names in scope.origins[:-1] for name, origin in names.items() if origin is None}
        local = (scope.values | own) - self._asking_names
        if isinstance(node, (*_TESTS, ast.Assert)) and not _asks(node, local):
            return scope if scope.guarded else replace(scope, guarded=True, by_values=True)
        return _guarded(scope)

    @functools.cached_property
    def _asking_names(self) -> frozenset[str]:
        """What is bound to something whose words ask for a version, anywhere."""
        bindings = [node for node in walk(self._tree) if isinstance(node, ast.Assign)] if self._tree else []
        asking = [node for node in bindings if are_guarding([node.value])]
        return frozenset(
            part.id for node in asking for target in node.targets for part in walk(target) if isinstance(part, ast.Name)
        )

    def _try(self, node: ast.Try, scope: _Scope) -> Iterator[_Mention]:
        caught = {name for handler in node.handlers for name in _caught_by(handler)}
        is_guarded = not _not_raised_again(node).isdisjoint(_CATCHING_ALL)
        body = replace(
            scope,
            guarded=scope.guarded or is_guarded,
            by_values=scope.by_values and not is_guarded,
            caught=scope.caught | caught,
        )
        yield from self._body(node.body, body)
        for handler in node.handlers:
            yield from self._body(handler.body, _guarded(scope))
        yield from self._body(node.orelse, _guarded(scope) if node.handlers else scope)
        yield from self._body(node.finalbody, scope)

    def _truth(self, test: ast.expr, scope: _Scope) -> bool | None:
        """Whether a condition holds in this torch that asks whether a module of it has a name; None for all others."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._truth(test.operand, scope)
            return None if inner is None else not inner
        if _is_type_checking(test):
            return False
        if not (isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and test.func.id == "hasattr"):
            return self._version_truth(test, scope)
        owner = self._full_name(test.args[0], scope)[1] if len(test.args) == 2 else None
        name = test.args[1].value if owner and isinstance(test.args[1], ast.Constant) else None
        if owner is None or not isinstance(name, str) or not name.isidentifier():
            return None
        full = f"{owner}.{name}"
        lacking = _lacking_part(self._names, full)
        if lacking is not None:
            return None if lacking.split(".")[1] in DEVICE_MODULES or len(lacking) < len(full) else False
        return True if self._names.has(owner, name) else None

    @functools.cached_property
    def _statements(self) -> Mapping[str, ast.stmt]:
        from abiscan.python.sole_bindings import sole_bindings

        return sole_bindings(self._tree) if self._tree else {}

    def _version_truth(self, test: ast.expr, scope: _Scope) -> bool | None:
        """Whether a condition on the version of torch holds."""
        if self._names.release is None:
            return None
        # Few packages have a condition where it matters.
        from abiscan.python.version_tests import Find, Found, truth_of

        statements = self._statements

        def is_version(node: ast.expr, _: Find) -> bool:
            return isinstance(node, ast.Attribute) and self._full_name(node, scope)[1] in _VERSIONS

        def find(name: str) -> Found | None:
            statement = None if any(name in names for names in scope.origins[:-1]) else statements.get(name)
            return None if statement is None else Found(statement, find)

        return truth_of(test, self._names.release, is_version, find)

    def _full_name(self, node: ast.expr, scope: _Scope) -> tuple[ast.expr, str | None, str | None]:
        """Return what attributes are taken of, their full name if that is of torch, and what the first part is."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return node, None, None
        name = node.id
        origin = next((names[name] for names in scope.origins if name in names), None)
        return node, None if origin is None else ".".join([origin, *reversed(parts)]), origin

    def _mentions_in_children(self, node: ast.AST, scope: _Scope) -> Iterator[_Mention]:
        for part in child_nodes(node):
            yield from self._node(part, scope)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: _Scope) -> Iterator[_Mention]:
        # Decorators, defaults and annotations belong to the scope around.
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        annotations = [argument.annotation for argument in arguments if argument] + [getattr(node, "returns", None)]
        around = (*decorators, *node.args.defaults, *node.args.kw_defaults)
        for expression in filter(None, (*around, *(annotations if self._evaluates_annotations else ()))):
            yield from self._node(expression, scope)
        parameters = {argument.arg for argument in arguments if argument}
        own = _make_origins(node)
        is_variant = scope.variants.get(getattr(node, "name", ""), 0) > 1
        inside = replace(
            _with_origins(_named(scope, getattr(node, "name", "<lambda>")), own | dict.fromkeys(parameters)),
            values=values_in(node, scope.values - own.keys()),
            in_function=True,
            guarded=scope.guarded or is_variant or are_guarding(decorators),
            by_values=scope.by_values and not (is_variant or are_guarding(decorators)),
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
        if around.base in _OF_OBJECTS and not around.in_function and not is_static:
            objects |= {parameter.arg: around.base or "" for parameter in node.args.args[:1] if parameter.arg == "self"}
        return objects | self._objects_in(node, inside)

    def _import(self, node: ast.Import | ast.ImportFrom, scope: _Scope) -> Iterator[_Mention]:
        for alias in node.names:
            if isinstance(node, ast.Import):
                yield from self._mention(alias.name, alias.name, node.lineno, scope, how="import")
            elif not node.level and node.module and alias.name != "*":
                module = node.module
                yield from self._mention(f"{module}.{alias.name}", module, node.lineno, scope, how="from")

    def _attribute(self, node: ast.Attribute, scope: _Scope) -> Iterator[_Mention]:
        value, full, origin = self._full_name(node, scope)
        if isinstance(value, ast.Name) and value.id in scope.objects:
            yield from self._of_object(node, scope.objects[value.id], scope)
        elif not isinstance(value, ast.Name):
            yield from self._node(value, scope)
        elif full is not None and origin is not None:
            is_option = self._names.is_config(full.rpartition(".")[0])
            if is_option or isinstance(node.ctx, ast.Load):
                yield from self._mention(full, origin, node.lineno, scope, how="option" if is_option else "attribute")

    def _of_object(self, node: ast.Attribute, cls: str, scope: _Scope) -> Iterator[_Mention]:
        """Yield a mention of what is taken of an object, if its class lacks that."""
        while isinstance(node.value, ast.Attribute):
            node = node.value
        full = f"{cls}.{node.attr}"
        if full in self._wanted and isinstance(node.ctx, ast.Load) and node.attr in self._names.removed_from(cls):
            yield self._name_mention(full, node.lineno, scope, how="object")

    def _objects_in(self, node: ast.AST, scope: _Scope) -> dict[str, str]:
        """Return the variables of a function that certainly have an object of a class of torch."""
        bound: dict[str, list[str | None]] = {}
        for part in walk(node):
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Call) and len(part.targets) == 1:
                called = self._full_name(part.value.func, scope)[1]
                target = part.targets[0]
                if isinstance(target, ast.Name) and (called in _OF_OBJECTS or called in _TENSORS):
                    bound.setdefault(target.id, []).append(_TENSOR if called in _TENSORS else called)
                    continue
            names = [part.arg] if isinstance(part, ast.arg) else [name for name, _ in _bound_by(part)]
            for name in names:
                bound.setdefault(name, []).append(None)
        # The assignment itself binds the name once more.
        return {name: cls for name, (cls, *others) in bound.items() if cls is not None and others == [None]}

    def _call(self, node: ast.Call, scope: _Scope) -> Iterator[_Mention]:
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
        method = f"{METHODS}{node.func.attr}" if isinstance(node.func, ast.Attribute) else ""
        if method in self._called and passes_list(node) and root_of(node) not in self._foreign:
            error = f"{method.removeprefix(METHODS)}() received an invalid combination of arguments"
            yield self._call_mention(method, error, node, scope, how="method")
        if full is None or full not in self._called:
            return
        callee, call = self._names.callee(full), _arguments_of(node)
        error = None if callee is None else refusal(callee.name, callee.signature, call)
        changed = BY_FUNCTION.get(full)
        if error is None and changed not in (None, LOAD) and self._leaves_out(node, changed, scope):
            yield self._call_mention(full, changed.error, node, scope, how="package" if changed.needs else "omission")
        if callee is None:
            yield from self._compiled_call(full, node, scope)
        elif _is_removed(full, callee):
            yield self._call_mention(full, REMOVED, node, scope, how="removed")
        elif error is not None:
            others = map(parse_parameters, self._names.signatures_of(callee.module, callee.name))
            if not all(refusal(callee.name, other, call) for other in others):
                yield self._call_mention(full, error, node, scope, how="call")

    def _leaves_out(self, node: ast.Call, changed: ChangedDefault, scope: _Scope) -> bool:
        """Whether a call leaves a parameter to its default, which is another one in this torch."""
        optional = scope.optional if changed is EXPORT else ()
        return self._names.has(*changed.sign) is True and leaves_out(node, changed, optional)

    @functools.cached_property
    def _foreign(self) -> frozenset[str]:
        """What the source imports that is not of torch, and what it binds to what that returns."""
        parts = list(walk(self._tree)) if self._tree else []
        foreign = {
            name
            for part in parts
            if isinstance(part, _IMPORTS) and not getattr(part, "level", 0)
            for name, origin in _imported(part)
            if (origin or "").partition(".")[0] != "torch"
        }
        for part in parts:
            if isinstance(part, ast.Assign) and root_of(part.value) in foreign:
                foreign |= {name.id for name in part.targets if isinstance(name, ast.Name)}
        return frozenset(foreign)

    def _compiled_call(self, full: str, node: ast.Call, scope: _Scope) -> Iterator[_Mention]:
        """Yield a mention of a compiled function that does not take a keyword here."""
        operator, operators = compiled_function(full), self._names.operators
        gone = _gone_keywords(self._names, full)
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

    def _fake(self, name: object, node: ast.Call, scope: _Scope) -> Iterator[_Mention]:
        """Yield a mention of an operator for which a fake kernel is registered."""
        full = f"{OPERATORS}{name.replace('::', '.')}" if isinstance(name, str) else ""
        if full in self._wanted:
            yield self._name_mention(full, node.lineno, scope, how="fake")

    def _call_mention(self, full: str, error: str, node: ast.Call, scope: _Scope, *, how: str) -> _Mention:
        use = LaterUse(
            name=full,
            error=error,
            file=self._file,
            line=node.lineno,
            function=".".join([*scope.public, *scope.nested]),
            how=how,
            arguments=_arguments_of(node),
        )
        is_of_torch = full.startswith(OPERATORS) or how in {"omission", "removed"}
        raised = {"RuntimeError"} if is_of_torch else _CATCHING_IMPORTS if how == "package" else _CATCHING_CALLS
        guarded = not scope.caught.isdisjoint(raised)
        return _make_mention(use, scope, guarded=guarded)

    def _mention(self, full: str, origin: str, line: int, scope: _Scope, *, how: str) -> Iterator[_Mention]:
        """Yield a mention if it is one of a missing name.

        :param origin: what is imported elsewhere, and is there if the code gets here
        """
        if full.partition(".")[0] != self._names.top:
            return
        is_operator = full.startswith(OPERATORS)
        name = self._operators.lacking(full) if is_operator else _lacking_part(self._names, full)
        if name is None or name not in self._wanted:
            return
        if len(name) <= len(origin):
            if how == "attribute":
                return  # its import has failed before
            how = "import"
        yield self._name_mention(name, line, scope, how=how)

    def _name_mention(self, name: str, line: int, scope: _Scope, *, how: str) -> _Mention:
        function = ".".join([*scope.public, *scope.nested])
        use = LaterUse(name=name, file=self._file, line=line, function=function, how=how)
        guarded = not scope.caught.isdisjoint(_RAISED.get(how, _CATCHING_IMPORTS))
        return _make_mention(use, scope, guarded=guarded)


def _arguments_of(node: ast.Call) -> PassedArguments:
    plain = [argument for argument in node.args if not isinstance(argument, ast.Starred)]
    keywords = tuple(keyword.arg for keyword in node.keywords if keyword.arg is not None)
    return PassedArguments(
        count=len(plain),
        keywords=keywords,
        takes_more=len(plain) < len(node.args),
        takes_keywords=len(keywords) < len(node.keywords),
    )


# ---- what names stand for


def _make_origins(body: ast.AST) -> Origins:
    """Return what the names stand for that a module, a class or a function binds itself."""
    # A name counts only if all that the scope binds it to is one thing. ``import *`` may bind any of them to something
    # else; only ``torch`` itself is assumed to stay.
    by_name: dict[str, set[str | None]] = {}
    waiting = list(getattr(body, "body", ())) if isinstance(getattr(body, "body", None), list) else []
    starred = False
    while waiting:
        node = waiting.pop()
        for name, origin in _bound_by(node):
            by_name.setdefault(name, set()).add(origin)
        starred |= isinstance(node, ast.ImportFrom) and node.names[0].name == "*"
        if not isinstance(node, _DEFINITIONS) and not (isinstance(node, ast.Assign) and _is_plain_alias(node)):
            waiting.extend(child_nodes(node))
    origins = {name: next(iter(several)) if len(several) == 1 else None for name, several in by_name.items()}
    if origins.get("torch", "torch") != "torch":  # what is taken of it is of something else
        origins = dict.fromkeys(origins)
    if isinstance(body, ast.Module):  # what functions bind outside of themselves
        for node in walk(body):
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


def _bound_by(node: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Yield the names that a part of a scope binds itself, each with what it stands for."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield from _imported(node)
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        yield from ((name, None) for name in node.names)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node.id, None
    elif isinstance(node, (*_DEFINITIONS, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
        yield node.name, None
    elif isinstance(node, ast.Assign) and _is_plain_alias(node) and isinstance(node.value, ast.Attribute):
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
    names: list[str] = []
    value: ast.expr = node
    while isinstance(value, ast.Attribute):
        names.append(value.attr)
        value = value.value
    is_of_torch = isinstance(value, ast.Name) and value.id == "torch"
    return ".".join(["torch", *reversed(names)]) if is_of_torch else None


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str | None]]:
    """Yield the names that an import binds, each with what it stands for if that is of torch or comes with it."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            full = alias.name if alias.asname else alias.name.partition(".")[0]
        else:
            full = f"{'.' * node.level}{node.module}.{alias.name}"
        name = alias.asname or alias.name.partition(".")[0]
        yield name, full if full.partition(".")[0] in _KNOWN else None


def _with_origins(scope: _Scope, origins: Origins, *, is_class: bool = False) -> _Scope:
    """Return the scope inside of a class or function. The names of a class are not those of its methods: they are
    unknown.
    """
    return replace(scope, origins=(dict.fromkeys(origins) if is_class else origins, *scope.origins))


def _named(scope: _Scope, name: str) -> _Scope:
    """Return the scope inside of a function or class of a name."""
    if scope.in_function:
        return replace(scope, nested=(*scope.nested, name))
    return replace(scope, public=(*scope.public, name))


def _guarded(scope: _Scope) -> _Scope:
    return replace(scope, guarded=True, by_values=False) if scope.by_values or not scope.guarded else scope


def _make_mention(use: LaterUse, scope: _Scope, *, guarded: bool) -> _Mention:
    return _Mention(
        use=use,
        guarded=guarded or scope.guarded,
        asked=guarded or (scope.guarded and not scope.by_values),
        public=scope.public,
        nested=scope.nested,
    )


class _Guard(enum.IntEnum):
    """Whether something keeps a use from happening where its name is missing."""

    NONE = 0
    PERHAPS = 1
    SURE = 2
    """What asks for a version, where it stands or at its callers, is taken at its word."""


class _Callers:
    """The functions, classes and modules that a package uses where a condition decides.

    One whose users are too large to be parsed counts as such.

    :param mentions: the uses that are looked at
    :param imported: see ``later_uses``
    """

    def __init__(
        self, code: PythonCode, mentions: Sequence[_Mention], imported: Collection[str], settled: SettledConditions
    ) -> None:
        self._code, self._imported, self._settled = code, imported, settled
        self._guarded: set[str] = set()
        self._asked: set[str] = set()
        """Those that are used where a condition may ask for a version."""
        self._by_version: set[str] = set()
        """Those that are used where the words of a condition do."""
        self._users: dict[str, set[str]] = {}
        self._common: dict[str, bool] = {}
        self._unknown: set[str] = set()
        """Those that too much would have to be parsed for."""
        self._parsed: set[str] = set()
        self._left = _MOST_PARSED
        self._modules = _open_modules(code, _DECIDING, imported)
        # Level by level: who uses the functions, who uses those, and so on. A file is parsed once, for the first name
        # that it has.
        names = {name for mention in mentions for name in _sought(mention)}
        for _ in range(_MOST_CALLS):
            self._look_for(names)
            names = {user for name in names for user in self._users.get(name, ())}

    def _look_for(self, names: Collection[str]) -> None:
        """Note who uses some functions, those that few sources mention first."""
        mentioning = {
            name: [file for file in self._code.sources if name.encode() in self._code.source(file)] for name in names
        }
        for name, files in sorted(mentioning.items(), key=lambda item: (_size_of(self._code, item[1]), item[0])):
            new = [file for file in files if file not in self._parsed]
            self._left -= _size_of(self._code, new)
            if self._left < 0:
                self._unknown.update([name])
                continue
            for file in new:
                self._parse(file)

    def _parse(self, file: str) -> None:
        self._parsed.add(file)
        values = self._settled.marks(file)
        # What tests do under any condition says nothing; what they ask torch for does.
        counts = is_for_users(file)
        for statement in getattr(self._code.tree(file), "body", ()):
            user = getattr(statement, "name", None)
            for part, inside in _functions_of(statement, user):
                for word, guarded, asked in _guarded_words(part, values):
                    self._users.setdefault(word, set()).update(inside)
                    self._guarded.update([word] if asked or (guarded and counts) else ())
                    self._asked.update([word] if asked and counts else ())
                    self._by_version.update([word] if asked is _Asked.BY_WORDS and counts else ())

    def _is_common(self, name: str) -> bool:
        """Whether many functions have a name that a condition asks for, which then may be about any of them; not if its
        words ask for a version.
        """
        if name not in self._asked - self._by_version:
            return False
        if name not in self._common:
            definition = f"def {name}(".encode()
            count = sum(self._code.source(file).count(definition) for file in self._code.sources)
            self._common[name] = count > _MOST_DEFINITIONS
        return self._common[name]

    @functools.cached_property
    def _callable(self) -> frozenset[str]:
        """The sources whose functions may be called unless an ``if`` decides about them."""
        return _open_modules(self._code, _BRANCHES, self._imported)[0]

    def _open_to(self, mention: _Mention) -> frozenset[str]:
        # Code that catches a failed import does not call the function; and a call that is rejected fails no import.
        if mention.use.error and mention.public:
            return self._callable
        return self._modules[not mention.public]

    def guard(self, mention: _Mention) -> _Guard:
        """Return whether the function that mentions a name, or its class or module, is used where a condition
        decides.
        """
        # Whatever the condition is, a file that was saved as a whole object is refused, unless the call itself says
        # otherwise.
        if mention.use.how == "default":
            return _Guard.NONE
        if mention.use.file not in self._open_to(mention):
            return _Guard.SURE
        # By bare names, as far back as the users were noted: one use of the function under a condition, of whatever has
        # the name, is enough. For its class, and for users of its users, the condition has to ask for a version.
        names = set(_sought(mention))
        is_guarded = not self._guarded.isdisjoint(names.intersection(mention.public[-1:]))
        for _ in range(_MOST_CALLS):
            if not (self._asked | self._unknown).isdisjoint(names):
                return _Guard.SURE
            names = {user for name in names for user in self._users.get(name, ()) if not self._is_common(user)}
        tree = self._code.tree(mention.use.file) if mention.nested else None
        own = [node for node in tree.body if getattr(node, "name", None) in mention.public] if tree else []
        values = self._settled.marks(mention.use.file) if own else frozenset[str]()
        is_guarded = is_guarded or any(
            word in mention.nested and guarded for node in own for word, guarded, _ in _guarded_words(node, values)
        )
        return _Guard.PERHAPS if is_guarded else _Guard.NONE


def _functions_of(statement: ast.stmt, user: str | None) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Yield the parts of a statement at the left margin, with the names by which others use what they are in."""
    if not isinstance(statement, ast.ClassDef):
        yield statement, (user,) if user and user not in _COMMON else ()
        return
    for part in child_nodes(statement):
        name = getattr(part, "name", "__")
        yield part, (statement.name,) if name.startswith("__") or name in _COMMON else (name,)


def _open_modules(
    code: PythonCode, deciding: frozenset[bytes], imported: Collection[str]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the sources that no condition decides about: what the package imports anyway, and what nothing else
    imports.

    The second set leaves out those, too, that only functions import.

    :param deciding: the keywords of what decides
    :param imported: what is certainly imported with the package
    """
    # ``plain`` has what a module imports whenever it is imported itself. The two lists have what is imported only under
    # a condition, and what stands inside of any block.
    plain: dict[str, list[str]] = {}
    conditional: list[str] = []
    in_functions: list[str] = []
    blocks = functools.cache(lambda file: _blocks_by_line(code.tree(file)))
    for file in code.sources:
        package = package_of(file)
        outline = code.outline(file)
        plain[file] = []
        for line in (*outline.imports, *outline.imports_in_functions):
            targets = _files_run_by(code, code.resolved(line, package).targets)
            around = outline.around(len(code.before(file, line.line)) + 1) if line.nested and targets else ()
            keywords = [keyword for keyword, _ in around]
            if keywords[:1] == [b"if"] and b"TYPE_CHECKING" in code.source(file):
                block = blocks(file).get(line.line)
                if isinstance(block, ast.If) and _is_type_checking(block.test):
                    continue
            elif keywords[:1] == [b"try"]:
                block = blocks(file).get(line.line)
                if isinstance(block, ast.Try) and not _not_raised_again(block):
                    del keywords[0]
            if not deciding.isdisjoint(keywords):
                conditional += targets
            (in_functions if line.nested else plain[file]).extend(targets)
    always_there = _reached((*_files_run_by(code, code.modules), *imported), plain)
    maybe_there, maybe_later = _reached(conditional, plain), _reached((*conditional, *in_functions), plain)
    sources = frozenset(code.sources)
    return always_there | (sources - maybe_there), always_there | (sources - maybe_later)


def _blocks_by_line(tree: ast.Module | None) -> Mapping[int, ast.If | ast.Try]:
    """Return the ``if`` or ``try`` whose first part has a statement in a line, by these lines."""
    found: dict[int, ast.If | ast.Try] = {}
    for block in walk(tree) if tree else ():
        if isinstance(block, (ast.If, ast.Try)):
            for part in block.body:
                found.setdefault(part.lineno, block)
    return found


def _files_run_by(code: PythonCode, modules: Iterable[str]) -> list[str]:
    """Return the sources that importing some modules runs, those of the packages around them among them."""
    names = dict.fromkeys(
        ".".join(name.split(".")[:count]) for name in modules for count in range(1, name.count(".") + 2)
    )
    located = (code.locate(name) for name in names)
    return [module.file for module in located if module is not None and module.file is not None]


def _reached(files: Iterable[str], imports: Mapping[str, list[str]]) -> frozenset[str]:
    """Return some sources, and those that they import."""
    waiting, reached = list(files), set[str]()
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting.extend(imports.get(file, ()))
    return frozenset(reached)


def _sought(mention: _Mention) -> list[str]:
    """Return the names that stand where the function of a mention is used. Those that many classes have tell
    nothing.
    """
    return [name for name in mention.public if not name.startswith("__") and name not in _COMMON]


class _Asked(enum.IntEnum):
    """Whether a condition asks for a version of torch."""

    NO = 0
    MAYBE = 1
    BY_WORDS = 2


def _guarded_words(body: ast.AST, values: frozenset[str]) -> Iterator[tuple[str, bool, _Asked]]:
    """Yield the names in a part of a source, each with whether it stands where a condition decides, and whether one
    asks for a version.

    :param values: what stands for values in all of it
    """
    # Each entry carries its own state, so the order in which they are taken does not matter.
    waiting: list[tuple[ast.AST, bool, _Asked, frozenset[str], frozenset[str]]] = [
        (body, False, _Asked.NO, values, frozenset())
    ]
    while waiting:
        node, guarded, asked, values, local = waiting.pop()
        word = _word(node)
        if word is not None:
            yield word, guarded, asked
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            values = values_in(node, values)
            own = {name for name, origin in _make_origins(node).items() if origin is None}
            local |= values | own | {"self", "cls"}
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            waiting += [(part, guarded, asked, values, local) for part in node.orelse]
            continue
        test = node.test if isinstance(node, _TESTS) else None  # which is evaluated in any case
        if test is not None:
            waiting.append((test, guarded, asked, values, local))
        if _decides(node, values):
            guarded, asked = True, max(asked, _how_asked(node, local))
        for part in child_nodes(node):
            if part is test:
                continue
            waiting.append((part, guarded, asked, values, local))
            # The statements after it in the same block, and after them those of other blocks of this node, which errs
            # towards a guard.
            if isinstance(part, ast.stmt) and guards_what_follows(part, values):
                guarded, asked = True, max(asked, _how_asked(part, local))


def _how_asked(node: ast.AST, local: Collection[str]) -> _Asked:
    """Return whether what decides asks for a version."""
    if not _asks(node, local):
        return _Asked.NO
    # What stands inside of a statement says nothing of its condition.
    test = node.test if isinstance(node, (*_TESTS, ast.Assert)) else node
    is_test = test is not node or isinstance(node, (ast.BoolOp, ast.Expr))
    return _Asked.BY_WORDS if not is_test or asks_by_words(test, local) else _Asked.MAYBE


def _asks(node: ast.AST, local: Collection[str]) -> bool:
    """Whether what decides asks for a version, by its words or for a name of the module, or catches what the lack of a
    name raises.
    """
    if isinstance(node, (*_TESTS, ast.Assert)):
        return asks_for_version([node.test], local)
    if isinstance(node, ast.BoolOp):
        return asks_for_version(node.values[:-1], local)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return True
    if isinstance(node, (ast.Try, TryStar)):
        caught = _not_raised_again(node)
        # What is imported there, and not called, was imported wherever it is called.
        only_imports = not any(isinstance(part, ast.Call) for statement in node.body for part in walk(statement))
        catching = {"AttributeError", *(() if only_imports else _CATCHING_IMPORTS), *_CATCHING_CALLS}
        return not caught.isdisjoint(catching)
    return isinstance(node, ast.Expr)


def _word(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.name if isinstance(node, ast.alias) else None


def _decides(node: ast.AST, values: Collection[str]) -> bool:
    """Whether a node decides, perhaps by the version of torch, if what is inside of it is run."""
    if isinstance(node, _TESTS):
        return is_guard(node.test, values)
    if isinstance(node, ast.BoolOp):
        return any(is_guard(value, values) for value in node.values[:-1])
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return are_guarding(node.items)
    if isinstance(node, (ast.Try, TryStar)):
        caught = _not_raised_again(node)
        return not caught.isdisjoint(_CATCHING_ALL | _CATCHING_IMPORTS | _CATCHING_CALLS)
    return isinstance(node, ast.Match)


def _not_raised_again(node: ast.Try) -> set[str]:
    """Return the names of the exceptions that are caught, without those of imports, or of anything, that end in another
    one.
    """
    return {
        name
        for handler in node.handlers
        for name in _caught_by(handler)
        if not (name in _CATCHING_IMPORTS | _CATCHING_ANY and isinstance(handler.body[-1], ast.Raise))
    }


def _caught_by(handler: ast.ExceptHandler) -> Iterator[str]:
    """Yield the names of the exceptions that a handler catches; of one that Python does not have, ``Exception``."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    for node in types:
        cls = getattr(builtins, node.id, None) if isinstance(node, ast.Name) else None
        yield cls.__name__ if isinstance(cls, type) and issubclass(cls, BaseException) else "Exception"


def _is_type_checking(test: ast.expr) -> bool:
    return "TYPE_CHECKING" in (getattr(test, "id", None), getattr(test, "attr", None))
