"""The values that the reading of Python code computes with.

What is known is the value itself: a ``str``, an ``int``, a ``list``, a ``PurePath``. The classes of this module
are what has no such value here: what is not known, and the functions, classes, modules and exceptions of the package.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Sized
from itertools import chain
from pathlib import PurePath
from typing import Any, Final, Protocol

from msgspec import Struct, field

from abiscan.inputs.version import MinorVersion
from abiscan.python.interpreter.cost import count_parts
from abiscan.python.package.model import PythonLine, World
from abiscan.python.torch_api.torch_texts import wording_of


class Why(enum.Enum):
    """Why a value is not known."""

    NOT_FOLLOWED = "not followed"
    """It comes out of code that is not read: a library's, torch's, a compiled one."""
    ENVIRONMENT = "environment"
    """The machine that the code runs on decides: its GPU, its files, what else is installed."""
    TARGET = "target"
    """The torch that the package is imported on decides: by its version, or by what an operator returns there."""
    ELSEWHERE = "elsewhere"
    """It is of another package: a path in it is none of a library of this one."""
    ARGUMENT = "argument"
    """It is an argument of a function that is called to see what it does."""
    CALLBACK = "callback"
    """Code that is not read decides whether it calls a function of the package, or with which arguments."""


class Opaque:
    """A value that is shown by its type and address alone: its fields lead to all that the code has computed."""

    __slots__ = ()
    __repr__ = object.__repr__


_LARGEST_KEY: Final = 500


class NotKnown(Opaque, Struct, frozen=True, eq=False):
    """A value that is not known; ``name`` is the expression that it comes from."""

    name: str
    why: Why = Why.NOT_FOLLOWED
    origin: object = None
    """What it comes from, and how: equal for two that have one value, whatever it is; None if it is like no other."""
    truth: bool | None = None
    """Its truth, where that is known although the value is not: ``unknown or "text"`` is true."""

    def part(self, suffix: str, *args: object) -> NotKnown:
        """Return what comes out of it by an attribute, a call or an index."""
        # A loop over an unknown value would make its name longer without end.
        if len(self.name) >= 80:
            return self if type(self) is NotKnown and self.truth is None else NotKnown(self.name, self.why, self.key)
        key = self.key if self.origin is None else self.origin
        return NotKnown(self.name + suffix, self.why, (key, suffix, *map(key_of, args)))

    def get_attribute(self, machine: object, name: str) -> object:
        """Return an attribute of it."""
        return self.part(f".{name}")

    def single(self) -> NotKnown:
        """Return it as one value, where it stands for an unknown number of them."""
        return NotKnown(self.name, self.why, self.origin) if isinstance(self, MoreItems) else self

    @property
    def key(self) -> object:
        """What it depends on: two unknowns with one key have the same value, whatever that is."""
        # The machine answers the same question alike, wherever the code asks it.
        if self.origin is None and self.why is Why.ENVIRONMENT:
            return Why.ENVIRONMENT, self.name
        return self if self.origin is None else self.origin

    def question(self) -> tuple[object, bool]:
        """Return what it depends on, and whether it is the opposite of that."""
        key, negated = self.key, False
        while isinstance(key, tuple) and key[0] == "not":
            key, negated = key[1], not negated
        return key, negated


def _is_small(key: object) -> bool:
    """Whether hashing and comparing a key takes few steps; a part that occurs twice in it counts twice."""
    if not isinstance(key, (tuple, frozenset)):
        return True
    # Keys are made of others, which were counted before.
    size, parts = 0, [key]
    while parts:
        part: object = parts.pop()
        counted = _sizes.get(id(part))
        if counted is not None:
            size += counted[1]
        else:
            size += 1
            if isinstance(part, (tuple, frozenset)):
                parts += part
        if size >= _LARGEST_KEY:
            return False
    if len(_sizes) >= _MOST_SIZES:
        _sizes.clear()
    _sizes[id(key)] = key, size
    return True


_sizes: Final[dict[int, tuple[object, int]]] = {}
"""How many parts keys have that are small, by their numbers (``id``): the keys stay as long as these."""
_MOST_SIZES: Final = 2_000


def forget_sizes() -> None:
    """Let go of the keys whose parts were counted, and of all that they refer to: functions, and so whole packages."""
    _sizes.clear()


def as_key(value: object) -> object:
    """Return a value as it can be put into a dict: unknown if hashing it would take long."""
    return value if is_concrete(value) or _is_small(value) else NotKnown("a large key")


def is_open(key: object, depth: int = 0) -> bool:
    """Whether a key of a dict, or a member of a set, is not known, or has a part that is not."""
    if isinstance(key, (tuple, frozenset)):
        return depth > _DEEPEST or any(is_open(part, depth + 1) for part in key)
    return isinstance(key, NotKnown)


def key_of(value: object) -> object:
    """Return a key by which a value, as the origin of an unknown, is told from others."""
    if isinstance(value, NotKnown):
        key = value.key
        return key if _is_small(key) else value  # ``x = x + x`` doubles what it comes from each time
    if isinstance(value, (str, int, float, bytes, type(None))):
        return type(value), value
    if isinstance(value, tuple):
        return tuple(map(key_of, value)) if _is_small(value) else object()
    if isinstance(value, frozenset):
        return value if is_concrete(value) else object()
    try:
        hash(value)
    except TypeError:
        return object()
    return value


class Listing(NotKnown, frozen=True, eq=False, kw_only=True):
    """What ``dir`` lists, of which is only known whether a name is in it, until code can change the list.

    :ivar has: tells that of a name; None if it is not known
    """

    has: Callable[[str], bool | None]


class MoreItems(NotKnown, frozen=True):
    """An unknown number of unknown items."""


class PerhapsAbsent(NotKnown, frozen=True):
    """An attribute that code may have set, or deleted, if it has run at all."""


class PossibleItems(MoreItems, frozen=True):
    """What code may have added to a container, if it has run at all: iteration skips it."""


class RemainingItems(MoreItems, frozen=True):
    """What is left where code may have removed some, if it has run at all.

    It stands before those items in a list or tuple, and for all others in a set or dict.
    """


MORE_ITEMS: Final = frozenset({MoreItems, PossibleItems, RemainingItems})
REMAINING: Final = RemainingItems("what may be left")
"""The one mark of that kind in sets and dicts, which tell at once whether they have it."""


class TextWithHoles(NotKnown, frozen=True):
    """A text of which some parts are known; between two of them is one that is not."""

    parts: tuple[str, ...] = ()

    def shown(self) -> str | None:
        """Return the text with ``?`` for what is not known; None if it says nothing."""
        return "?".join(self.parts) if any(part.strip() for part in self.parts) else None

    def quoted(self) -> TextWithHoles | None:
        """Return ``repr`` of the text; None if it depends on what is not known which quotes that has, or escapes."""
        if not all(part.isprintable() and frozenset(part).isdisjoint("\\'\"") for part in self.parts):
            return None
        first, *others = self.parts
        parts = [f"'{first}", *others]
        return TextWithHoles(self.name, parts=(*parts[:-1], f"{parts[-1]}'"))


class NotNone(NotKnown, frozen=True):
    """A value that is not known, but certainly not None."""


class OptionalModule(NotNone, frozen=True):
    """A module of a package that is taken to be there, with all that is imported from it."""

    def get_attribute(self, machine: object, name: str) -> object:
        """Return what it has under a name."""
        return NotNone(f"{self.name}.{name}")


class Versions(Struct, frozen=True, kw_only=True):
    """The versions of something that a target may have, of which it is not known which one it has.

    :ivar why: why it is not known
    """

    why: Why

    def worlds(self, world: World, bounds: Iterable[object]) -> Iterable[World]:
        """Return a world for each stretch of versions on which no comparison with some bounds changes."""
        raise NotImplementedError


class TargetExpression(Opaque, Struct, frozen=True, eq=False):
    """What follows from the versions of the target, and is not asked of it yet.

    What the code makes of it in the end is asked: whether the version is at least 2.5, not which one it is. So targets
    with different versions may answer the same.

    :ivar name: what it is, and how it is computed
    :ivar of: computes it for a target
    :ivar size: how many operations that takes
    :ivar versions: those that the target may have, where it may have several
    :ivar bounds: the constants that it is made with: what that version is compared with is among them
    """

    name: str
    of: Callable[[World], object]
    size: int = 1
    versions: Versions | None = None
    bounds: tuple[object, ...] = ()


class OpenVersion(NotKnown, frozen=True, eq=False, kw_only=True):
    """What the versions that a target may have do not agree on: they may on what the code makes of it.

    :ivar expression: the question
    """

    expression: TargetExpression


def reopened(value: object) -> object:
    """Return a value as the question to the target that it was, if it was not decided."""
    return value.expression if type(value) is OpenVersion else value


class TextOfError(Struct, frozen=True):
    """The text that a load fails with. The target is asked for it only when code looks at it."""

    number: int


class Stage(enum.Enum):
    """How far a module of the package is."""

    DEFERRED = "deferred"
    """Imported, as far as others can tell; its body is run when one of its names is needed."""
    SKIMMED = "skimmed"
    """Being imported that way: its imports are followed."""
    RUNNING = "running"
    DONE = "done"


class PythonModule(Opaque, Struct, eq=False):
    """A module.

    :ivar names: what its body has bound
    :ivar file: its path in the package; None if it has no source
    :ivar folders: where its submodules are, if it is a package
    :ivar open_: whether it may have names that are not listed
    :ivar asked: the names that its ``__getattr__`` is looking for
    """

    name: str
    names: dict[str, object] = field(default_factory=dict)
    file: str | None = None
    folders: tuple[str, ...] = ()
    stage: Stage = Stage.DONE
    open_: bool = False
    asked: set[str] = field(default_factory=set)


class Deferred(Opaque, Struct, frozen=True, eq=False):
    """A name imported from a module whose body is not run yet."""

    module: PythonModule
    name: str


WAITING: Final = frozenset({Deferred, TargetExpression})
"""The types of what stands for a value that is settled when it is needed."""


class Scope(Opaque, Struct, eq=False):
    """The names of a module, a class body or a function, and the scope around it."""

    names: dict[str, object]
    module: PythonModule
    around: Scope | None = None
    is_class: bool = False
    is_comprehension: bool = False
    function: PythonFunction | None = None
    """The function whose body this is."""
    outer_names: dict[str, Scope] = field(default_factory=dict)
    """Names declared ``global`` or ``nonlocal``, and where they live."""
    bound: frozenset[str] = frozenset()
    """The names that the body of the function binds somewhere, so that they are its own."""
    prefix: str = ""
    """What the qualified names of the functions and classes defined here begin with (PEP 3155)."""

    def qualify(self, name: str) -> str:
        """Return the ``__qualname__`` of a function or class that is defined here."""
        home = self.outer_names.get(name)
        return name if home is not None and home.around is None else f"{self.prefix}{name}"


FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class PythonFunction(Opaque, Struct, eq=False):
    """A function of the package."""

    name: str
    node: FunctionNode
    scope: Scope
    _defaults: dict[str, object] | None
    """None for constants, which may not be parsed yet: see ``late_bodies``."""
    attributes: dict[str, object] = field(default_factory=dict)
    owner: Class | None = None
    qualified: str = ""
    may_be_replaced: bool = False
    """Whether a decorator that is not followed may have put something else in its place, which is taken to call it."""
    may_be_renamed: bool = False
    """Whether that may have another name."""

    @property
    def defaults(self) -> dict[str, object]:
        """The default values of its parameters."""
        if self._defaults is None:
            given = given_defaults(self.node.args)
            self._defaults = {name: value.value for name, value in given if isinstance(value, ast.Constant)}
        return self._defaults


def given_defaults(args: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    """Yield the parameters that have a default value, with that."""
    positional = [*args.posonlyargs, *args.args][-len(args.defaults) :] if args.defaults else []
    pairs = [*zip(positional, args.defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    return ((parameter.arg, value) for parameter, value in pairs if value is not None)


class Bound(Opaque, Struct, frozen=True, eq=False):
    """A method, with the object that it was taken from."""

    function: object
    receiver: object


class Wrapped(Opaque, Struct, frozen=True, eq=False):
    """What ``property``, ``staticmethod``, ``classmethod`` or ``contextmanager`` made of a function.

    :ivar kind: which of them did
    :ivar setter: the function of a property that sets it
    :ivar deleter: the function of a property that deletes it
    """

    kind: str
    function: object
    setter: object = None
    deleter: object = None


class Class(Opaque, Struct, eq=False):
    """A class of the package.

    :ivar names: what its body has bound, and what was set on it
    :ivar module: the name of its module
    :ivar qualified: its ``__qualname__``
    :ivar annotated: the names that its body annotates, in order: the fields of a dataclass or a named tuple
    :ivar metaclass: the class that it is an object of; None for ``type`` and for one that is not known
    :ivar is_ordered: whether a dataclass orders its objects by their fields
    :ivar is_compared: whether objects of a dataclass are equal if their fields are
    :ivar is_frozen: whether the fields of its objects cannot be set
    :ivar uncompared: the fields of a dataclass that do not count for that
    :ivar is_hashed: whether the objects of a dataclass may have a hash although they are not frozen
    :ivar keyword_fields: the fields of a dataclass that ``__init__`` takes as keywords alone
    :ivar subclasses: the classes that derive from it directly
    :ivar is_changed: whether attributes were set or deleted after it was made
    :ivar has_more: whether an attribute was set by a name that is not known
    """

    name: str
    bases: tuple[object, ...]
    names: dict[str, object]
    module: str = ""
    qualified: str = ""
    annotated: list[str] = field(default_factory=list)
    metaclass: Class | None = None
    is_dataclass: bool = False
    is_ordered: bool = False
    is_compared: bool = True
    uncompared: frozenset[str] = frozenset()
    is_frozen: bool = False
    is_hashed: bool = False
    keyword_fields: frozenset[str] = frozenset()
    subclasses: list[Class] = field(default_factory=list)
    is_changed: bool = False
    has_more: bool = False
    enumeration: object = None
    """Its members, if it is an enumeration: see ``models/enum_``."""
    shape: tuple[list[str], list[str], list[str]] | None = None
    """What ``__init__`` of a dataclass or a named tuple takes, once that was asked: see ``classes``."""
    _ancestry: list[object] | None = None

    def fields(self) -> list[str]:
        """Return the fields of a dataclass or a named tuple, those of the bases first.

        What is annotated in a base of a dataclass counts only if that is a dataclass, too.
        """
        classes = [ancestor for ancestor in reversed(self.ancestry()) if isinstance(ancestor, Class)]
        counting = [
            ancestor for ancestor in classes if ancestor is self or ancestor.is_dataclass or not self.is_dataclass
        ]
        return list(dict.fromkeys(name for ancestor in counting for name in ancestor.annotated))

    def compared_fields(self) -> list[str]:
        """Return the fields by which the objects of a dataclass compare."""
        return [name for name in self.fields() if name not in self.uncompared]

    def dataclass(self) -> Class | None:
        """Return the class itself, or the nearest that it derives from, that is a dataclass."""
        return next((kind for kind in self.ancestry() if isinstance(kind, Class) and kind.is_dataclass), None)

    def ancestry(self) -> list[object]:
        """Return the class and what it derives from, in the order of its attributes; without ``object``."""
        if self._ancestry is None:
            self._ancestry = [self, *_merge_ancestries([_ancestry_of(base) for base in self.bases], list(self.bases))]
        return self._ancestry

    def derive_from_more(self, base: object) -> None:
        """Add a base after all others."""
        self.bases, self._ancestry, self.shape = (*self.bases, base), None, None

    def find(self, name: str, default: object = None) -> object:
        """Return an attribute of the class or of what it derives from; the default if there is none."""
        for ancestor in self._ancestry or self.ancestry():
            if type(ancestor) is Class and name in ancestor.names:
                return ancestor.names[name]
        return default

    def has_either(self, name: str, other: str) -> bool:
        """Whether the class, or one that it derives from, has an attribute by one of two names."""
        for ancestor in self._ancestry or self.ancestry():
            if type(ancestor) is Class and (name in ancestor.names or other in ancestor.names):
                return True
        return False

    def is_open(self) -> bool:
        """Whether its attributes, or those of something that it derives from, are not all known."""
        ancestry = self.ancestry()
        return any(
            ancestor.has_more if isinstance(ancestor, Class) else not isinstance(ancestor, type)
            for ancestor in ancestry
        )

    def host(self) -> type | None:
        """Return the built-in type that it derives from, ``object`` apart."""
        return next(
            (ancestor for ancestor in self.ancestry() if isinstance(ancestor, type) and ancestor is not object), None
        )


def _ancestry_of(base: object) -> list[object]:
    if isinstance(base, Class):
        return base.ancestry()
    return [cls for cls in base.__mro__ if cls is not object] if isinstance(base, type) else [base]


def _merge_ancestries(lists: list[list[object]], bases: list[object]) -> list[object]:
    """Return the order in which Python looks through the ancestors of several bases (C3)."""
    # mro_implementation and pmerge in Objects/typeobject.c: the next class is the first head of a list that is in no
    # tail of another. Where there is none, the class statement has raised TypeError, unless some base is not known;
    # here the first head is taken. ``object`` is always last.
    left = [[candidate for candidate in several if candidate is not object] for several in (*lists, bases)]
    if len(bases) == 1:
        return left[0]
    merged: list[object] = []
    while left := [several for several in left if several]:
        heads = (several[0] for several in left)
        first = next(
            (candidate for candidate in heads if not any(candidate in several[1:] for several in left)), left[0][0]
        )
        merged.append(first)
        left = [[candidate for candidate in several if candidate is not first] for several in left]
    return merged


def order_conflict(bases: Sequence[object]) -> list[Class]:
    """Return the classes that no order of the ancestors of some bases can have first; none if there is an order.

    It is certain for classes of the package alone: those of ``typing`` drop out of the bases at times.
    """
    if len(bases) < 2 or not all(isinstance(base, Class) for base in bases):
        return []
    left = [[*_ancestry_of(base)] for base in bases] + [[*bases]]
    if not all(
        isinstance(candidate, Class) and candidate.module != "typing" for several in left for candidate in several
    ):
        return []
    while left := [several for several in left if several]:
        heads = [several[0] for several in left]
        first = next((head for head in heads if not any(head in several[1:] for several in left)), None)
        if first is None:
            return [head for head in dict.fromkeys(heads) if isinstance(head, Class)]
        left = [[candidate for candidate in several if candidate is not first] for several in left]
    return []


class Instance(Opaque, Struct, eq=False):
    """An object of a class of the package.

    :ivar inner: its value as an object of the built-in type that the class derives from, if any
    """

    cls: Class
    attributes: dict[str, object] = field(default_factory=dict)
    inner: object = None


def as_scalar(value: object) -> object:
    """Return the text, number or path behind an object whose class derives from such a type; anything else as it is."""
    return (
        value.inner
        if type(value) is Instance and isinstance(value.inner, SCALARS) and value.inner is not None
        else value
    )


class HasAttributes(Protocol):
    """An object of a class of the package, of any kind."""

    attributes: dict[str, object]


class PythonError(Opaque, Struct, eq=False):
    """An exception object: of a built-in class, of one of the package, or of one that is not known.

    :ivar cls: its class
    :ivar args: its arguments
    :ivar attributes: what was set on it
    :ivar cause: its ``__cause__``
    :ivar context: its ``__context__``
    :ivar at: where it was raised
    :ivar loads: the loads, by number, whose failure it reports
    :ivar of_torch: whether it was raised since torch lacks a name, or a parameter
    :ivar of_other: the module of another package whose import raises it
    """

    cls: object
    args: tuple[object, ...] = ()
    attributes: dict[str, object] = field(default_factory=dict)
    cause: PythonError | None = None
    context: PythonError | None = None
    at: PythonLine | None = None
    loads: set[int] = field(default_factory=set)
    of_torch: bool = False
    of_other: str | None = None

    def ancestry(self) -> list[object]:
        """Return its class and the bases."""
        if isinstance(self.cls, type):
            return list(self.cls.__mro__)
        if not isinstance(self.cls, Class):
            return [self.cls]
        ancestors = self.cls.ancestry()
        return ancestors + [
            base
            for ancestor in ancestors
            if isinstance(ancestor, type)
            for base in ancestor.__mro__
            if base not in ancestors
        ]

    def name(self) -> str:
        """Return the name of its class, as a traceback has it."""
        return self.cls.__name__ if isinstance(self.cls, type) else getattr(self.cls, "name", "Exception")

    def message(self) -> str | NotKnown | None:
        """Return ``str`` of it, None if nothing of that is known."""
        if not self.args:
            return ""
        if len(self.args) == 1 and isinstance(self.args[0], TextWithHoles):
            return self.args[0].quoted() if KeyError in self.ancestry() else self.args[0]
        if not is_concrete(self.args):
            return None
        # Some classes of Python have texts of their own: OSError(2, "gone") is "[Errno 2] gone".
        real = (base for base in self.ancestry() if isinstance(base, type))
        kind = next((base for base in real if "__str__" in vars(base)), Exception)
        try:
            return str(kind(*self.args))
        except (TypeError, ValueError):
            return str(self.args[0] if len(self.args) == 1 else self.args)


class Thrown(Exception):  # noqa: N818 - it carries the exception of the code that is read
    """An exception of the code that is read, on its way."""

    def __init__(self, failure: PythonError) -> None:
        super().__init__(failure.name())
        self.failure = failure


def thrown(cls: type[BaseException], *args: object) -> Thrown:
    """Return a new exception of a built-in class."""
    return Thrown(PythonError(cls, args))


def torch_error(id_: str, release: MinorVersion | None = None, /, **values: object) -> PythonError:
    """Return an exception of torch, as a release raises it: see ``torch_texts``.

    :param release: None for the newest; also one that says nothing of the kind
    """
    wording = wording_of(id_, release) or wording_of(id_)
    assert wording is not None
    return PythonError(wording.raises, (wording.text.format(**values),))


ABSENT: Final = NotKnown("an attribute that is not there")
"""What a class gives for a name that it does not have: ``None`` is the value of many that it has."""

SCALARS = (str, int, float, bool, bytes, type(None), complex, PurePath, range, slice)
_KNOWN: Final = (*SCALARS, type)
EVERYDAY: Final = frozenset({str, int, bool, float, type(None)})
_DICT: Final[dict[object, object]] = {}
VIEWS: Final = (type(_DICT.keys()), type(_DICT.values()), type(_DICT.items()))
"""What ``keys``, ``values`` and ``items`` give: Python's own views of the dict that stands for that of the package."""
_CONTAINERS: Final = (list, tuple, dict, set, frozenset, *VIEWS)


def class_of(value: object) -> Class | None:
    """Return the class of the package that a value is an object of, None if it is of none."""
    kind = type(value)
    if kind is Instance:
        return value.cls  # type: ignore[attr-defined,no-any-return]
    if kind is Class:
        return value.metaclass  # type: ignore[attr-defined,no-any-return]
    if kind is PythonError and isinstance(value.cls, Class):  # type: ignore[attr-defined]
        return value.cls  # type: ignore[attr-defined]
    if kind is PythonModule and "__class__" in value.names:  # type: ignore[attr-defined]
        cls = value.names["__class__"]  # type: ignore[attr-defined]
        return cls if isinstance(cls, Class) else None
    return None


_DEEPEST: Final = 8
_MOST_PARTS: Final = 1_000_000
_CHARACTERS_PER_PART: Final = 64


def is_concrete(value: object) -> bool:
    """Whether nothing in a value is unknown, so that Python's own operations give what they give in the package.

    Those go through all of it, however often a part occurs: a value that they would not come to the end of counts as
    unknown, and what they take is counted here.
    """
    kind = type(value)
    if kind in EVERYDAY:
        return True
    # ``MoreItems`` and ``PossibleItems`` are kinds of it, which end up at the last line.
    if kind is NotKnown:
        return False
    if isinstance(value, _KNOWN):
        return True
    if isinstance(value, _CONTAINERS):
        return _are_parts_concrete(value)
    return getattr(kind, "is_plain", False)


def _are_parts_concrete(container: Collection[object]) -> bool:
    level: Collection[tuple[Any, int]] = [(container, 1)]
    """The containers of a level, each with how often it occurs."""
    characters = count = 0
    # Level by level, so that what is counted does not depend on the order of a set.
    for _ in range(_DEEPEST):
        count += sum([len(inside) * times for inside, times in level])
        if count + characters // _CHARACTERS_PER_PART > _MOST_PARTS:
            break
        below: list[tuple[Any, int]] = []
        for inside, times in level:
            for part in chain(inside, inside.values()) if isinstance(inside, dict) else inside:
                kind = type(part)
                if kind is str:
                    characters += len(part) * times
                elif kind in EVERYDAY:
                    continue
                elif kind is NotKnown:
                    return False
                elif isinstance(part, _CONTAINERS):
                    below.append((part, times))
                elif isinstance(part, bytes):
                    characters += len(part) * times
                elif not isinstance(part, _KNOWN) and not getattr(kind, "is_plain", False):
                    return False
        if not below:
            level = below
            break
        level = _each_once(below) if len(below) > 1 else below
    count += characters // _CHARACTERS_PER_PART
    count_parts(count)
    return not level and count <= _MOST_PARTS


def _each_once(containers: list[tuple[Any, int]]) -> Collection[tuple[Any, int]]:
    """Return containers that are gone through, each of them once, with how often it occurs."""
    if len({id(inside) for inside, _times in containers}) == len(containers):  # as mostly
        return containers
    found: dict[int, tuple[Any, int]] = {}
    for inside, times in containers:
        before = found.get(id(inside))
        found[id(inside)] = inside, times if before is None else times + before[1]
    return found.values()


def more_items(items: list[object] | NotKnown) -> list[object]:
    """Return items for a list; for those of an iterable that is not known, the mark of an unknown number."""
    return [MoreItems(items.name, items.why)] if isinstance(items, NotKnown) else items


def known_length(value: Sized) -> int | None:
    """Return how many items there are, None if that is not known.

    :raises OverflowError: a range is longer than Python's ``len`` can say
    """
    if isinstance(value, (list, tuple)):
        return len(value) if MORE_ITEMS.isdisjoint(map(type, value)) else None
    value = keys_behind(value)
    if isinstance(value, _HASHED) and not EVERYDAY.issuperset(map(type, value)):
        # Two that are not known may be equal.
        return None if any(map(is_open, value)) else len(value)
    return len(value)


def may_lack_items(value: object) -> bool:
    """Whether code that may not have run removes items of a container, or moves those of a list."""
    if isinstance(value, (list, tuple)):
        return bool(value) and type(value[0]) is RemainingItems
    value = keys_behind(value)
    return isinstance(value, _HASHED) and REMAINING in value


def keys_behind(value: Any) -> Any:
    """Return the keys of the dict that a view shows; anything else as it is."""
    return value.mapping.keys() if isinstance(value, VIEWS) else value


_HASHED: Final = (dict, set, frozenset, VIEWS[0])


def note_added(value: list[object] | dict[object, object] | set[object]) -> None:
    """Note that code which may not have run adds items, at the end of a list."""
    # One mark says all: how many items were added is not known, either.
    if isinstance(value, list):
        if not value or type(value[-1]) is not PossibleItems:
            value.append(PossibleItems("what may have been added"))
    elif not any(isinstance(item, PossibleItems) for item in value):
        _put_mark(value, PossibleItems("what may have been added"))


def note_removed(value: list[object] | dict[object, object] | set[object]) -> None:
    """Note that code which may not have run removes items, or moves those of a list."""
    if isinstance(value, list):
        if value and not may_lack_items(value):
            value.insert(0, RemainingItems(REMAINING.name))
    elif value:
        _put_mark(value, REMAINING)


def _put_mark(value: dict[object, object] | set[object], mark: MoreItems) -> None:
    if isinstance(value, set):
        value.add(mark)
    else:
        value[mark] = mark
