"""Who uses a function, a class or a module, and whether a condition decides about it there."""

from __future__ import annotations

import ast
import enum
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from abiscan.python.language.dynamic_names import package_of
from abiscan.python.language.nodes import child_nodes, walk
from abiscan.python.language.source_parts import written_forms
from abiscan.python.later.mentions import Mention, make_origins
from abiscan.python.later.settled_conditions import SettledConditions
from abiscan.python.later.version_guards import (
    asks_by_words,
    chooses,
    guards_what_follows,
    values_in,
)
from abiscan.python.later.version_names import finder_inside
from abiscan.python.later.version_questions import TESTS, asks, decides, is_choice, is_type_checking, not_raised_again
from abiscan.python.later.version_tests import Find, Truth
from abiscan.python.package.library import PythonCode
from abiscan.regex import regex

MOST_PARSED: Final = 2_000_000
"""Of the sources that mention a function, in bytes."""
_CHOICE: Final = regex(rb"\bif\b[^\n]*(?:==|\bin\b)[^\n]*['\"]")
"""What a source has in which a condition may choose between texts."""
_IMPORTING: Final = regex(rb"import")
_IFS: Final = ([b"if"], [b"elif"])
_DECIDING: Final = frozenset({b"if", b"elif", b"else", b"try", b"except", b"finally"})
_BRANCHES: Final = _DECIDING - {b"try"}
_MOST_CALLS: Final = 4
"""How far the calls of a function are followed back."""
_NEAR_CALLS: Final = 2
"""How far a condition that asks for a version is taken at its word."""
_COMMON: Final = frozenset({"forward", "backward", "step", "apply", "run", "reset", "load", "save", "train", "eval"})
_BUILT_IN: Final = frozenset(name for cls in (str, dict, list, set, int, bytes) for name in dir(cls))
"""The names of methods of Python's own types."""
_MOST_DEFINITIONS: Final = 3
"""How many functions of a package may have a name that still tells which of them is meant."""


def size_of(code: PythonCode, files: Iterable[str]) -> int:
    """Return how many bytes sources have together."""
    return sum(len(code.source(file)) for file in files)


class Guard(enum.IntEnum):
    """Whether something keeps a use from happening where its name is missing."""

    NONE = 0
    PERHAPS = 1
    SURE = 2
    """What asks for a version, where it stands or at its callers, is taken at its word."""


class _Asked(enum.IntEnum):
    """Whether a condition asks for a version of torch."""

    NO = 0
    MAYBE = 1
    BY_WORDS = 2
    NEVER = 3
    """It certainly does not hold."""


class _Place(Struct, frozen=True, kw_only=True):
    """A place in a source.

    :ivar find: what finds the names there
    :ivar values: what stands for values
    :ivar local: the names that are not those of the module
    :ivar guarded: whether a condition decides about it
    :ivar asked: whether one asks for a version
    """

    find: Find
    values: frozenset[str]
    local: frozenset[str] = frozenset()
    guarded: bool = False
    asked: _Asked = _Asked.NO


class _Part(Struct, frozen=True, kw_only=True):
    """A part of a source: a statement at the left margin, or a part of a class.

    :ivar users: the names by which others use it
    :ivar words: what is in its text; None if that is not known
    :ivar foreign: the modules of other packages that the source imports
    """

    file: str
    node: ast.AST
    users: tuple[str, ...]
    words: frozenset[bytes] | None
    foreign: frozenset[str]


class Callers:
    """The functions, classes and modules that a package uses where a condition decides.

    One whose users are too large to be parsed may be such.

    :param mentions: the uses that are looked at
    :param imported: see ``later_uses``
    """

    def __init__(
        self, code: PythonCode, mentions: Sequence[Mention], imported: Collection[str], settled: SettledConditions
    ) -> None:
        self._code, self._imported, self._settled = code, imported, settled
        self._guarded: set[str] = set()
        self._asked: set[str] = set()
        """Those that are used where a condition may ask for a version."""
        self._by_version: set[str] = set()
        """Those that are used where the words of a condition do."""
        self._skipped: set[str] = set()
        """Those that are used where a condition certainly does not hold."""
        self._users: dict[str, set[str]] = {}
        self._open_calls: dict[str, set[tuple[str, ...]]] = {}
        """Those that call a name where no condition asks for a version, by the names of others for them."""
        self._definitions: dict[str, int] = {}
        self._unknown: set[str] = set()
        """Those that too much would have to be parsed for."""
        self._parsed: set[str] = set()
        self._sought = frozenset[bytes]()
        self._waiting: list[_Part] = []
        """What has none of the names so far that are looked for."""
        self._left = MOST_PARSED
        self._modules = _open_modules(code, _DECIDING, imported, settled)
        # Level by level: who uses the functions, who uses those, and so on. A file is parsed once, for the first name
        # that it has, and a part of it for the first name that it has itself.
        names = {name for mention in mentions for name in _sought(mention)}
        for _ in range(_MOST_CALLS):
            self._look_for(names)
            names = {user for name in names for user in self._users.get(name, ())}
        never_used = {name for name in self._skipped if not self._open_calls.get(name)}
        self._asked |= never_used
        self._by_version |= never_used

    def _look_for(self, names: Collection[str]) -> None:
        """Note who uses some functions, those that few sources mention first."""
        mentioning = {name: self._code.sources_with(name.encode()) for name in names}
        for name, files in sorted(mentioning.items(), key=lambda item: (size_of(self._code, item[1]), item[0])):
            new = [file for file in files if file not in self._parsed]
            size = size_of(self._code, new)
            if size > self._left:
                self._unknown.update([name])
                continue
            self._left -= size
            for file in new:
                self._parse(file)
        # Only what has one of the names in its text is gone through, for all that it has.
        self._sought |= written_forms(names)
        waiting, self._waiting = self._waiting, []
        for part in waiting:
            if part.words is None or not self._sought.isdisjoint(part.words):
                self._go_through(part)
            else:
                self._waiting.append(part)

    def _parse(self, file: str) -> None:
        self._parsed.add(file)
        body = getattr(self._code.tree(file), "body", ())
        foreign, text = self._foreign_modules(body), self._code.parts(file)
        self._waiting += (
            _Part(file=file, node=part, users=users, words=text.words(part), foreign=foreign)
            for statement in body
            for part, users in _functions_of(statement, getattr(statement, "name", None))
        )

    def _go_through(self, part: _Part) -> None:
        # What tests do under any condition says nothing; what they ask torch for does.
        counts = self._code.is_for_users(part.file)
        values = self._settled.marks_among(walk(part.node), part.file)
        find = self._settled.find_in(part.file)
        for word, guarded, asked, is_called in self._guarded_words(part.node, find, values, part.foreign):
            if is_called and counts:
                self._open_calls.setdefault(word, set()).update([] if asked else [part.users])
            if asked is _Asked.NEVER:
                self._skipped.update([word] if counts else ())
                continue
            self._users.setdefault(word, set()).update(part.users)
            self._guarded.update([word] if asked or (guarded and counts) else ())
            self._asked.update([word] if asked and counts else ())
            self._by_version.update([word] if asked is _Asked.BY_WORDS and counts else ())

    def _foreign_modules(self, body: Iterable[ast.stmt]) -> frozenset[str]:
        """Return the names of modules of other packages that a source imports: ``import SimpleITK as sitk``."""
        aliases = [alias for statement in body if isinstance(statement, ast.Import) for alias in statement.names]
        foreign = (alias for alias in aliases if self._code.locate(alias.name.partition(".")[0]) is None)
        return frozenset(alias.asname or alias.name.partition(".")[0] for alias in foreign)

    def _is_common(self, name: str) -> bool:
        """Whether many functions have a name that a condition asks for, which then may be about any of them; not if its
        words ask for a version.
        """
        if name not in self._asked - self._by_version:
            return False
        return self._count_definitions(name) > _MOST_DEFINITIONS

    def _count_definitions(self, name: str) -> int:
        if name not in self._definitions:
            texts = (f"def {name}(".encode(), f"class {name}(".encode(), f"class {name}:".encode())
            sources = list(map(self._code.source, self._code.sources))
            self._definitions[name] = sum(source.count(text) for source in sources for text in texts)
        return self._definitions[name]

    def _is_open(self, name: str, calls: int = _MOST_CALLS) -> bool:
        """Whether a function or class is called on a way on which no condition asks for a version, up to a function
        that only users call.

        A name counts that few of them have, and nothing built in.
        """
        if not calls or not 0 < self._count_definitions(name) <= _MOST_DEFINITIONS or name in _BUILT_IN:
            return False
        users = self._open_calls.get(name, set())
        return any(
            not others or any(map(functools.partial(self._is_reached, calls=calls - 1), others)) for others in users
        )

    def _is_reached(self, user: str, calls: int) -> bool:
        # Of many functions of a name, a call may be of any.
        is_one_of_many = self._count_definitions(user) > _MOST_DEFINITIONS and bool(self._open_calls.get(user))
        return is_one_of_many or user not in self._open_calls or self._is_open(user, calls)

    @functools.cached_property
    def _callable(self) -> frozenset[str]:
        """The sources whose functions may be called unless an ``if`` decides about them."""
        return _open_modules(self._code, _BRANCHES, self._imported, self._settled)[0]

    def _open_to(self, mention: Mention) -> frozenset[str]:
        # Code that catches a failed import does not call the function; and a call that is rejected fails no import.
        if mention.use.error and mention.public:
            return self._callable
        return self._modules[not mention.public]

    def guard(self, mention: Mention) -> Guard:
        """Return whether the function that mentions a name, or its class or module, is used where a condition
        decides.
        """
        # Whatever the condition is, a file that was saved as a whole object is refused, unless the call itself says
        # otherwise.
        if mention.use.how == "default":
            return Guard.NONE
        if mention.use.file not in self._open_to(mention):
            return Guard.SURE
        # By bare names, as far back as the users were noted: one use of the function under a condition, of whatever has
        # the name, is enough. For its class, and for users of its users, the condition has to ask for a version.
        names = set(_sought(mention))
        is_guarded = not self._guarded.isdisjoint(names.intersection(mention.public[-1:]))
        # Who knows that a call may be rejected asks for a version by words that say so.
        asked = self._by_version if mention.use.error else self._asked
        for call in range(_MOST_CALLS):
            # Far from the function, another one of the same name may well be meant.
            if call < _NEAR_CALLS and not asked.isdisjoint(names):
                return Guard.PERHAPS if self._is_open(_called_name(mention)) else Guard.SURE
            is_guarded = is_guarded or not (self._asked | self._unknown).isdisjoint(names)
            names = {user for name in names for user in self._users.get(name, ()) if not self._is_common(user)}
        tree = self._code.tree(mention.use.file) if mention.nested else None
        own = [node for node in tree.body if getattr(node, "name", None) in mention.public] if tree else []
        nodes = (inner for node in own for inner in walk(node))
        values = self._settled.marks_among(nodes, mention.use.file) if own else frozenset[str]()
        find = self._settled.find_in(mention.use.file)
        is_guarded = is_guarded or any(
            word in mention.nested and guarded
            for node in own
            for word, guarded, *_ in self._guarded_words(node, find, values)
        )
        return Guard.PERHAPS if is_guarded else Guard.NONE

    def _guarded_words(
        self, body: ast.AST, find: Find, values: frozenset[str], foreign: frozenset[str] = frozenset()
    ) -> Iterator[tuple[str, bool, _Asked, bool]]:
        """Yield the names in a part of a source, each with whether it stands where a condition decides, whether one
        asks for a version, and whether it is called.

        :param find: what finds the names in the source
        :param values: what stands for values in all of it
        :param foreign: the modules of other packages: what is taken of them is not the package's own
        """
        # Each entry carries its own state, so the order in which they are taken does not matter.
        waiting = [(body, _Place(find=find, values=values))]
        called = set[ast.AST]()
        while waiting:
            node, place = waiting.pop()
            called.update([node.func] if isinstance(node, ast.Call) else ())
            word = _word(node)
            if word is not None and not (isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in foreign):
                yield word, place.guarded, place.asked, node in called
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                place = _inside(node, place)
            if isinstance(node, ast.If) and _only_checks_types(node):
                waiting += [(part, place) for part in node.orelse]
                continue
            truth = functools.partial(self._settled.truth, find=place.find, values=place.values)
            if isinstance(node, TESTS):
                waiting.append((node.test, place))  # which is evaluated in any case
                holds = truth(node.test)
                for part, skipped_if in ((node.body, False), (node.orelse, True)):
                    around = _decided_by(node, place, holds, skipped_if=skipped_if)
                    waiting += self._block(part if isinstance(part, list) else [part], around)
            elif isinstance(node, ast.BoolOp):
                for value in node.values:
                    waiting.append((value, place))
                    place = _decided_by(node, place, truth(value), skipped_if=isinstance(node.op, ast.Or))
            else:
                waiting += self._block(child_nodes(node), _guarded_by(node, place) if decides(node) else place)

    def _block(self, parts: Iterable[ast.AST], place: _Place) -> Iterator[tuple[ast.AST, _Place]]:
        """Yield the parts of a node, each with what guards it."""
        truth = functools.partial(self._settled.truth, find=place.find, values=place.values)
        for part in parts:
            yield part, place
            # The statements after it in the same block, and after them those of other blocks of this node, which errs
            # towards a guard.
            if isinstance(part, ast.stmt) and guards_what_follows(part, place.values, truth):
                place = _guarded_by(part, place)


def _functions_of(statement: ast.stmt, user: str | None) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """Yield the parts of a statement at the left margin, with the names by which others use what they are in."""
    if not isinstance(statement, ast.ClassDef):
        yield statement, (user,) if user and user not in _COMMON else ()
        return
    for part in child_nodes(statement):
        name = getattr(part, "name", "__")
        yield part, (statement.name,) if name.startswith("__") or name in _COMMON else (name,)


def _open_modules(
    code: PythonCode, deciding: frozenset[bytes], imported: Collection[str], settled: SettledConditions
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
    blocks = functools.cache(lambda file: _blocks_by_line(code, file))
    chosen = functools.cache(lambda file: _lines_in_choices(code, file))

    def is_open(test: ast.expr) -> bool:
        return chooses(test) or is_choice(test, settled.may_ask)

    for file in code.sources:
        package = package_of(file)
        outline = code.outline(file)
        plain[file] = []
        for line in (*outline.imports, *outline.imports_in_functions):
            targets = _files_run_by(code, code.resolved(line, package).targets)
            around = outline.around(len(code.before(file, line.line)) + 1) if line.nested and targets else ()
            keywords = [keyword for keyword, _ in around]
            is_checked = keywords[:1] == [b"if"] and b"TYPE_CHECKING" in code.source(file)
            if is_checked and any(map(_only_checks_types, _blocks_around(line.line, blocks(file)))):
                continue
            choices, place = (chosen(file) if keywords[:1] in _IFS else {}), line.line
            while keywords[:1] in _IFS and place in choices and all(map(is_open, choices[place][1])):
                place = choices[place][0]
                del keywords[0]
            if keywords[:1] == [b"try"]:
                block = blocks(file).get(line.line)
                if isinstance(block, ast.Try) and not not_raised_again(block):
                    del keywords[0]
            if not deciding.isdisjoint(keywords):
                conditional += targets
            (in_functions if line.nested else plain[file]).extend(targets)
    always_there = _reached((*_files_run_by(code, code.modules), *imported), plain)
    maybe_there, maybe_later = _reached(conditional, plain), _reached((*conditional, *in_functions), plain)
    sources = frozenset(filter(code.is_for_users, code.sources))
    # What users may import imports the rest.
    there, later = (_reached(always_there | (sources - maybe), plain) for maybe in (maybe_there, maybe_later))
    return there, later


def _blocks_around(line: int, blocks: Mapping[int, ast.If | ast.Try]) -> Iterator[ast.If | ast.Try]:
    """Yield the blocks whose first part has the statement of a line, or the block before, innermost first."""
    while (block := blocks.get(line)) is not None:
        yield block
        line = block.lineno


def _only_checks_types(block: ast.If | ast.Try) -> bool:
    """Whether a block is for tools that check types, or for users who want all at once: ``TYPE_CHECKING or SLOW``."""
    test = block.test if isinstance(block, ast.If) else None
    tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test] if test else []
    return any(map(is_type_checking, tests))


def _parts_around_imports(code: PythonCode, file: str) -> Iterator[ast.AST]:
    """Yield the parts of a source, but for functions that import nothing."""
    tree = code.tree(file)
    return code.parts(file).walk_having(tree, _IMPORTING) if tree else iter(())


def _blocks_by_line(code: PythonCode, file: str) -> Mapping[int, ast.If | ast.Try]:
    """Return the ``if`` or ``try`` whose first part has a statement in a line, by these lines: those around imports."""
    found: dict[int, ast.If | ast.Try] = {}
    for block in _parts_around_imports(code, file):
        if isinstance(block, (ast.If, ast.Try)):
            for part in block.body:
                found.setdefault(part.lineno, block)
    return found


def _lines_in_choices(code: PythonCode, file: str) -> Mapping[int, tuple[int, list[ast.expr]]]:
    """Return the lines of the statements right inside of each ``if`` and ``elif`` around imports, with the line of the
    ``if`` and what is asked before they are run; none if the source has no choice between texts.
    """
    parts = _parts_around_imports(code, file) if _CHOICE.search(code.source(file)) else ()
    blocks = [node for node in parts if isinstance(node, ast.If)]
    continued = {id(node.orelse[0]) for node in blocks if len(node.orelse) == 1}
    lines: dict[int, tuple[int, list[ast.expr]]] = {}
    for block in blocks:
        node: ast.stmt | None = None if id(block) in continued else block
        tests: list[ast.expr] = []
        while isinstance(node, ast.If):
            tests = [*tests, node.test]
            lines |= {part.lineno: (block.lineno, tests) for part in node.body}
            node = node.orelse[0] if len(node.orelse) == 1 else None
    return lines


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


def _sought(mention: Mention) -> list[str]:
    """Return the names that stand where the function of a mention is used. Those that many classes have tell
    nothing.
    """
    return [name for name in mention.public if not name.startswith("__") and name not in _COMMON]


def _called_name(mention: Mention) -> str:
    """Return the name by which the function of a mention is called, or its class if that is what is called."""
    return next(iter(reversed(_sought(mention))), "")


def _inside(function: ast.FunctionDef | ast.AsyncFunctionDef, place: _Place) -> _Place:
    values = values_in(function, place.values)
    own = {name for name, origin in make_origins(function).items() if origin is None}
    local = place.local | values | own | {"self", "cls"}
    return replace(place, find=finder_inside(function, place.find), values=values, local=local)


def _decided_by(node: ast.AST, place: _Place, holds: Truth, *, skipped_if: bool) -> _Place:
    """Return the place that a condition in a node decides about."""
    if holds is not skipped_if:
        return _guarded_by(node, place) if holds is None else place
    return replace(place, guarded=True, asked=_Asked.BY_WORDS if asks(node, place.local) else _Asked.NEVER)


def _guarded_by(node: ast.AST, place: _Place) -> _Place:
    return replace(place, guarded=True, asked=max(place.asked, _how_asked(node, place.local)))


def _how_asked(node: ast.AST, local: Collection[str]) -> _Asked:
    """Return whether what decides asks for a version."""
    if not asks(node, local):
        return _Asked.NO
    # What stands inside of a statement says nothing of its condition.
    test = node.test if isinstance(node, (*TESTS, ast.Assert)) else node
    is_test = test is not node or isinstance(node, (ast.BoolOp, ast.Expr))
    return _Asked.BY_WORDS if not is_test or asks_by_words(test, local) else _Asked.MAYBE


def _word(node: ast.AST) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.name if isinstance(node, ast.alias) else None
