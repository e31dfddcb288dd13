"""Python's built-in functions and types."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator

from abiscan.errors import InputError
from abiscan.python import attributes, special
from abiscan.python.filesystem import as_text, exists, read_text, text_of_processor
from abiscan.python.hosts import sort_values
from abiscan.python.iteration import GeneratorObject, Lazy
from abiscan.python.machine import PythonMachine
from abiscan.python.model import Told
from abiscan.python.modelled import Modelled, Native
from abiscan.python.models.namespace import Args, Kwargs, Namespace, argument, natives
from abiscan.python.models.torch_module import TorchModule
from abiscan.python.operations import attempt, described
from abiscan.python.values import (
    ABSENT,
    Bound,
    Class,
    Further,
    Instance,
    NotKnown,
    PythonError,
    PythonFunction,
    PythonModule,
    Thrown,
    Why,
    Wrapped,
    concrete,
    length,
    thrown,
)


def _print(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    words = [special.text(machine, one) for one in args]
    machine.tell(Told.PRINT, " ".join(map(str, words)) if concrete(words) else None)
    return None


def _hasattr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) != 2 or not isinstance(args[1], str):
        return NotKnown("hasattr()")
    try:
        found = machine.attribute(args[0], args[1])
    except Thrown as error:
        if AttributeError not in error.failure.ancestry():
            raise
        return False
    if not isinstance(found, NotKnown) or (isinstance(args[0], Namespace) and args[1] in args[0].names):
        return True
    if isinstance(args[0], TorchModule) and (there := args[0].has(machine, args[1])) is not None:
        return there
    torch = described(args[0])
    if torch.startswith("torch."):
        there = machine.library.torch_mentions(torch, args[1])
        if there is not None:
            return there
    if isinstance(args[0], Instance) and not args[0].cls.is_open():
        return args[1] in args[0].attributes
    return NotKnown(f"hasattr({described(args[0])}, {args[1]!r})", found.why)


def _getattr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) < 2 or not isinstance(args[1], str):
        return NotKnown("getattr()")
    try:
        return machine.attribute(args[0], args[1])
    except Thrown as error:
        if len(args) < 3 or AttributeError not in error.failure.ancestry():
            raise
        return args[2]


def _setattr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) == 3 and isinstance(args[1], str):
        attributes.put(machine, args[0], args[1], args[2])
    elif args and isinstance(args[0], PythonModule):
        args[0].open_ = True
    return None


def _delattr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) == 2 and isinstance(args[1], str):
        attributes.delete(machine, args[0], args[1])
    return None


def _isinstance(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) != 2:
        return NotKnown("isinstance()")
    value, classes = args
    wanted = _flat(classes)
    for cls in wanted:
        hook = special.hook(machine, cls, "__instancecheck__") if isinstance(cls, Class) else None
        if hook is not None and not isinstance(hook, NotKnown):
            return machine.call(hook, [value], {})
    if isinstance(value, NotKnown):
        return NotKnown(f"isinstance({value.name}, {described(classes)})", value.why)
    if isinstance(value, (Instance, PythonError)):
        ancestry = value.cls.ancestry() if isinstance(value, Instance) else value.ancestry()
        if any(one is cls for one in ancestry for cls in wanted) or object in wanted:
            return True
        return NotKnown("isinstance()") if any(isinstance(one, NotKnown) for one in (*ancestry, *wanted)) else False
    if isinstance(value, (PythonFunction, Lazy)) and all(isinstance(one, (type, Class)) for one in wanted):
        return object in wanted
    if isinstance(value, Class) and value.metaclass is not None:
        return type in wanted or any(cls in value.metaclass.ancestry() for cls in wanted)
    if isinstance(value, Class) and all(isinstance(one, (type, Class)) for one in wanted):
        return type in wanted or object in wanted
    if isinstance(value, (Modelled, PythonFunction, Bound, Class)) and not concrete(value):
        return NotKnown("isinstance()")
    known = tuple(one for one in wanted if isinstance(one, type))
    if known and isinstance(value, known):
        return True
    return NotKnown("isinstance()") if any(isinstance(one, (NotKnown, Modelled)) for one in wanted) else False


def _flat(classes: object) -> list[object]:
    """Classes, and those in tuples of them."""
    return [one for inner in classes for one in _flat(inner)] if isinstance(classes, tuple) else [classes]


def _issubclass(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    wanted = _flat(args[1]) if len(args) == 2 else []
    for cls in wanted:
        hook = special.hook(machine, cls, "__subclasscheck__") if isinstance(cls, Class) else None
        if hook is not None and not isinstance(hook, NotKnown):
            return machine.call(hook, [args[0]], {})
    if wanted and isinstance(args[0], type) and all(isinstance(one, type) for one in wanted):
        return attempt("issubclass()", issubclass, args[0], tuple(wanted))
    if wanted and isinstance(args[0], Class):
        if object in wanted or any(one in args[0].ancestry() for one in wanted):
            return True
        if not args[0].is_open() and all(isinstance(one, (Class, type)) for one in wanted):
            return False
    return NotKnown("issubclass()")


def _exit(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    raise thrown(SystemExit, *args[:1])


def _len(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return special.size(machine, args[0]) if args else NotKnown("len()")


def _sorted(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    values = machine.items(args[0]) if args else []
    return values if isinstance(values, NotKnown) else sort_values(machine, values, [], kwargs)


# ---- iterators


def _sources(machine: PythonMachine, values: Iterable[object]) -> list[Iterator[object]] | NotKnown:
    """What iterates over each of several values."""
    sources = []
    for value in values:
        source = machine.iterate(value)
        if isinstance(source, NotKnown):
            return source
        sources.append(source)
    return sources


def _zip(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    sources = _sources(machine, args)
    if isinstance(sources, NotKnown):
        return sources
    return Lazy("zip()", _zipped(sources, strict=kwargs.get("strict") is True) if sources else iter(()))


def _zipped(sources: list[Iterator[object]], *, strict: bool) -> Iterator[object]:
    while True:
        found = []
        for number, source in enumerate(sources):
            item = next(source, ABSENT)
            if item is ABSENT:
                if strict and (number or any(next(one, ABSENT) is not ABSENT for one in sources[1:])):
                    raise thrown(ValueError, "zip() arguments have different lengths")
                return
            found.append(item)
        yield tuple(found)


def _reversed(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    value = args[0] if args else NotKnown("reversed()")
    method = special.hook(machine, value, "__reversed__")
    if method is not None:
        return machine.call(method, [], {})
    values = machine.items(value)
    return values if isinstance(values, NotKnown) else Lazy("reversed()", iter(values[::-1]))


def _iter(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) == 2:
        return Lazy("iter()", _until(machine, args[0], args[1]))
    if args and (isinstance(args[0], Lazy) or special.hook(machine, args[0], "__iter__") is not None):
        return (
            args[0] if isinstance(args[0], Lazy) else machine.call(special.hook(machine, args[0], "__iter__"), [], {})
        )
    source = machine.iterate(args[0]) if args else NotKnown("iter()")
    return source if isinstance(source, NotKnown) else Lazy("iter()", source)


def _until(machine: PythonMachine, function: object, end: object) -> Iterator[object]:
    while True:
        machine.tick()
        item = machine.call(function, [], {})
        same = special.equal(machine, item, end)
        if same is not False:
            return
        yield item


def _enumerate(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    source = machine.iterate(args[0]) if args else NotKnown("enumerate()")
    start = argument(args, kwargs, 1, "start", 0)
    if isinstance(source, NotKnown) or not isinstance(start, int):
        return NotKnown("enumerate()")
    return Lazy("enumerate()", enumerate(source, start))


def _map(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    sources = _sources(machine, args[1:]) if len(args) > 1 else NotKnown("map()")
    if isinstance(sources, NotKnown):
        machine.perhaps_calls(NotKnown("map()"), args[0] if args else None)
        return sources
    given = _zipped(sources, strict=False)
    return Lazy("map()", (machine.call(args[0], list(one), {}) for one in given))  # type: ignore[call-overload]


def _filter(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    source = machine.iterate(args[1]) if len(args) == 2 else NotKnown("filter()")
    if isinstance(source, NotKnown):
        machine.perhaps_calls(NotKnown("filter()"), args[0] if args else None)
        return source
    return Lazy("filter()", _filtered(machine, args[0], source))


def _filtered(machine: PythonMachine, test: object, source: Iterator[object]) -> Iterator[object]:
    for one in source:
        known = special.truth(machine, one if test is None else machine.call(test, [one], {}))
        if known is None:
            yield Further("filter()")
        elif known:
            yield one


def _quantified(*, decisive: bool) -> Callable[[PythonMachine, Args, Kwargs], object]:
    def call(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        source = machine.iterate(args[0]) if args else NotKnown("any()")
        if isinstance(source, NotKnown):
            return NotKnown(f"any({source.name})", source.why)
        unknown: NotKnown | None = None
        for one in source:
            known = special.truth(machine, one)
            if known is decisive:
                return decisive
            if known is None and unknown is None:
                unknown = one if isinstance(one, NotKnown) else NotKnown("any()")
        return unknown or (not decisive)

    return call


def _next(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if not args:
        return NotKnown("next()")
    if len(args) == 1:
        return special.advance(machine, args[0])
    machine.guards.append((StopIteration,))
    try:
        return special.advance(machine, args[0])
    except Thrown as error:
        if StopIteration not in error.failure.ancestry():
            raise
        return args[1]
    finally:
        machine.guards.pop()


# ---- numbers


def _extreme(name: str, op: ast.cmpop) -> Callable[[PythonMachine, Args, Kwargs], object]:
    """``min`` and ``max``."""

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        values = list(args) if len(args) != 1 else machine.items(args[0])
        if isinstance(values, NotKnown) or length(values) is None:
            return NotKnown(f"{name}()", values.why) if isinstance(values, NotKnown) else NotKnown(f"{name}()")
        if not values:
            if "default" in kwargs:
                return kwargs["default"]
            raise thrown(ValueError, f"{name}() iterable argument is empty")
        key = kwargs.get("key")
        keys = values if key is None else [machine.call(key, [one], {}) for one in values]
        best = 0
        for index in range(1, len(values)):
            better = special.truth(machine, special.compare(machine, op, keys[index], keys[best]))
            if better is None:
                unknown = next((one for one in keys if isinstance(one, NotKnown)), None)
                return NotKnown(f"{name}()", unknown.why) if unknown else NotKnown(f"{name}()")
            best = index if better else best
        return values[best]

    return call


def _sum(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    values = machine.items(args[0]) if args else NotKnown("sum()")
    if isinstance(values, NotKnown):
        return values
    total = argument(args, kwargs, 1, "start", 0)
    for one in values:
        total = special.binary(machine, ast.Add(), total, one)
    return total


def _by_method(name: str, *methods: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    """A built-in function that a class of the package may define for its objects."""
    known = _plain(name)

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        if args and special.is_own(args[0]):
            made = special.converted(machine, args[0], methods)
            if made is not ABSENT:
                return machine.call(special.hook(machine, args[0], methods[0]), args[1:], {}) if len(args) > 1 else made
            if special.plain(args[0]) is args[0]:
                raise thrown(TypeError, f"{name}() cannot take '{special.type_name(args[0])}' object")
            args = [special.plain(args[0]), *args[1:]]
        return known(machine, args, kwargs)

    return call


def _divmod(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    for receiver, name, other in zip(args, ("__divmod__", "__rdivmod__"), args[::-1], strict=False):
        method = special.hook(machine, receiver, name)
        if method is not None:
            return machine.call(method, [other], {})
    return _plain("divmod")(machine, args, kwargs)


def _pow(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    return special.binary(machine, ast.Pow(), *args) if len(args) == 2 else _plain("pow")(machine, args, kwargs)


def _hash(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    digest = special.digest(machine, args[0]) if args else None
    return digest if args and special.is_own(args[0]) and isinstance(digest, int) else NotKnown("hash()")


def _repr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return special.shown(machine, args[0]) if args else NotKnown("repr()")


def _format(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return special.formatted(machine, args[0], args[1] if len(args) > 1 else "") if args else NotKnown("format()")


def _awaiting(name: str, method: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    def call(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        value = args[0] if args else NotKnown(name)
        if isinstance(value, GeneratorObject):
            return value.advance(machine) if name == "anext" else value
        found = special.hook(machine, value, method)
        return NotKnown(f"{name}()") if found is None else machine.call(found, [], {})

    return call


def _plain(name: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    function = getattr(builtins, name)

    def call(_machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        if name == "pow" and len(args) == 2 and any(isinstance(one, int) and abs(one) > 64 for one in args):
            return NotKnown("pow()")
        if not concrete(args) or not concrete(kwargs):
            unknown = next((one for one in args if isinstance(one, NotKnown)), None)
            return NotKnown(f"{name}()", unknown.why) if unknown else NotKnown(f"{name}()")
        return attempt(f"{name}()", function, *args, **kwargs)

    return call


def _callable(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    value = args[0] if args else None
    if isinstance(value, Instance):
        method = special.hook(machine, value, "__call__")
        return NotKnown("callable()") if isinstance(method, NotKnown) else method is not None
    if isinstance(value, Lazy):
        return False
    return (
        NotKnown("callable()")
        if isinstance(value, NotKnown)
        else isinstance(value, (PythonFunction, Bound, Class, Modelled, Wrapped, type))
    )


class OpenFile(Modelled):
    """A file of the package that is open for reading, or what Linux says of the processor."""

    __slots__ = ("path",)

    def __init__(self, path: object) -> None:
        self.path = path

    def attribute(self, machine: PythonMachine, name: str) -> object:
        """``read``, and its lines."""
        if name == "read":
            return Native("read", lambda m, _args, _kwargs: read_text(m, self.path))
        if name in {"readlines", "__iter__"}:
            return Native(name, lambda m, _args, _kwargs: _lines(read_text(m, self.path)))
        return NotKnown(f"file.{name}")


class OpenBytes(Modelled):
    """A file of the package that is open for reading bytes: code looks at the headers of libraries."""

    __slots__ = ("inside", "position")

    def __init__(self, inside: str) -> None:
        self.inside, self.position = inside, 0

    def attribute(self, machine: PythonMachine, name: str) -> object:
        """``read``, ``seek`` and ``tell``."""
        methods = {"read": self._read, "seek": self._seek, "tell": lambda _m, _a, _k: self.position}
        return Native(name, methods[name]) if name in methods else NotKnown(f"file.{name}")

    def _read(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        size = argument(args, kwargs, 0, "size", -1)
        try:
            data = machine.files.read(self.inside)
        except InputError:
            return NotKnown("file.read()", Why.ENVIRONMENT)
        if not isinstance(size, int):
            return NotKnown("file.read()")
        found = data[self.position :] if size < 0 else data[self.position : self.position + size]
        self.position += len(found)
        return found

    def _seek(self, _machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        offset = argument(args, kwargs, 0, "offset")
        if len(args) > 1 or not isinstance(offset, int) or offset < 0:
            return NotKnown("file.seek()")
        self.position = offset
        return offset


def _lines(content: object) -> object:
    return content.splitlines(keepends=True) if isinstance(content, str) else content


def _open(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    path, mode = special.path(machine, argument(args, kwargs, 0, "file")), argument(args, kwargs, 1, "mode", "r")
    known = as_text(path)
    inside = None if known is None else machine.files.inside(known)
    if mode in {"r", "rt"} and text_of_processor(machine, known) is not None:
        return OpenFile(known)
    if known is None or inside is None or mode not in {"r", "rt", "rb"}:
        if isinstance(mode, str) and mode.startswith("r"):
            _look_for(machine, path)
        return NotKnown(f"open({described(path)})", Why.ENVIRONMENT)
    if inside not in machine.files.members:
        raise thrown(FileNotFoundError, f"[Errno 2] No such file or directory: {known!r}")
    return OpenBytes(inside) if mode == "rb" else OpenFile(known)


def _look_for(machine: PythonMachine, path: object) -> None:
    """Raise if a file that is not of the package is not there; who expects that leaves it to the machine."""
    there = exists(machine, path, "file")
    if isinstance(there, NotKnown) and machine.catches(FileNotFoundError):
        spot = (machine.place().line, -1)
        there = machine.decide(f"{described(path)} is there", Why.ENVIRONMENT, spot, default=True)
    if there is False:
        raise thrown(FileNotFoundError, f"[Errno 2] No such file or directory: {as_text(path)!r}")


def _import(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if not args or not isinstance(args[0], str):
        return NotKnown("__import__()")
    machine.import_module(args[0])
    return machine.modules[args[0].partition(".")[0]]


def _property(_machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    getter, setter, deleter = (
        argument(args, kwargs, number, name) for number, name in enumerate(("fget", "fset", "fdel"))
    )
    return Wrapped("property", getter, setter, deleter)


def _wrapper(kind: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    return lambda _machine, args, _kwargs: Wrapped(kind, args[0]) if args else NotKnown(kind)


BUILTINS: dict[str, object] = {
    name: value
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
BUILTINS.update(
    {
        one.__name__: one
        for one in (
            str,
            int,
            float,
            bool,
            bytes,
            list,
            tuple,
            dict,
            set,
            frozenset,
            object,
            type,
            range,
            slice,
            complex,
        )
    }
)
BUILTINS.update(
    {
        "True": True,
        "False": False,
        "None": None,
        "__debug__": True,
        "NotImplemented": NotImplemented,
        "Ellipsis": ...,
    }
)
BUILTINS.update(
    natives(
        "builtins",
        print=_print,
        hasattr=_hasattr,
        getattr=_getattr,
        setattr=_setattr,
        delattr=_delattr,
        isinstance=_isinstance,
        issubclass=_issubclass,
        exit=_exit,
        quit=_exit,
        len=_len,
        sorted=_sorted,
        enumerate=_enumerate,
        map=_map,
        filter=_filter,
        zip=_zip,
        reversed=_reversed,
        iter=_iter,
        any=_quantified(decisive=True),
        all=_quantified(decisive=False),
        next=_next,
        anext=_awaiting("anext", "__anext__"),
        aiter=_awaiting("aiter", "__aiter__"),
        callable=_callable,
        property=_property,
        staticmethod=_wrapper("staticmethod"),
        classmethod=_wrapper("classmethod"),
        repr=_repr,
        ascii=_repr,
        abs=_by_method("abs", "__abs__"),
        min=_extreme("min", ast.Lt()),
        max=_extreme("max", ast.Gt()),
        sum=_sum,
        ord=_plain("ord"),
        chr=_plain("chr"),
        hex=_by_method("hex", "__index__"),
        bin=_by_method("bin", "__index__"),
        oct=_by_method("oct", "__index__"),
        round=_by_method("round", "__round__"),
        divmod=_divmod,
        hash=_hash,
        id=lambda _m, _a, _k: NotKnown("id()"),
        format=_format,
        pow=_pow,
    )
)
# What is compiled is run from its text.
BUILTINS["compile"] = Native("compile", lambda _m, args, _k: args[0] if args else NotKnown("compile()"))
BUILTINS["open"] = Native("open", _open)
BUILTINS["__import__"] = natives("builtins", import_=_import)["import"]


class Builtins(Modelled):
    """The module ``builtins``: what code puts there is known everywhere."""

    __slots__ = ("machine", "names")

    def __init__(self, machine: PythonMachine) -> None:
        self.machine = machine
        machine.builtins = self.names = dict(BUILTINS)

    def attribute(self, machine: PythonMachine, name: str) -> object:
        """One of them."""
        return self.names.get(name) or NotKnown(name)

    def put(self, name: str, value: object) -> None:
        """Set one. Code that is not read, such as the standard library's, then calls a function of the package."""
        if hasattr(builtins, name) and isinstance(value, (PythonFunction, Bound, Instance)):
            self.machine.gap(f"builtins.{name} is replaced: where other code calls it is not followed")
        self.names[name] = value


MODELS: dict[str, Callable[[PythonMachine], object]] = {"builtins": Builtins}
"""Modules by name."""
