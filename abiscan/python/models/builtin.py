"""Python's built-in functions and types."""

from __future__ import annotations

import builtins
from collections.abc import Callable

from abiscan.errors import InputError
from abiscan.python.filesystem import as_text, read_text
from abiscan.python.hosts import sort_values, text, truth
from abiscan.python.machine import PythonMachine
from abiscan.python.model import Told
from abiscan.python.modelled import Modelled, Native
from abiscan.python.models.namespace import Args, Kwargs, Namespace, argument, natives
from abiscan.python.operations import attempt, described
from abiscan.python.values import (
    Bound,
    Class,
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
    words = [text(machine, one) for one in args]
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


def _setattr(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    from abiscan.python.attributes import put

    if len(args) == 3 and isinstance(args[1], str):
        put(args[0], args[1], args[2])
    elif args and isinstance(args[0], PythonModule):
        args[0].open_ = True
    return None


def _isinstance(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) != 2:
        return NotKnown("isinstance()")
    value, classes = args
    wanted = classes if isinstance(classes, tuple) else (classes,)
    if isinstance(value, NotKnown):
        return NotKnown(f"isinstance({value.name}, {described(classes)})", value.why)
    if isinstance(value, (Instance, PythonError)):
        ancestry = value.cls.ancestry() if isinstance(value, Instance) else value.ancestry()
        if any(one is cls for one in ancestry for cls in wanted):
            return True
        return NotKnown("isinstance()") if any(isinstance(one, NotKnown) for one in (*ancestry, *wanted)) else False
    if isinstance(value, (Modelled, PythonFunction, Bound, Class)) and not concrete(value):
        return NotKnown("isinstance()")
    known = tuple(one for one in wanted if isinstance(one, type))
    if known and isinstance(value, known):
        return True
    return NotKnown("isinstance()") if any(isinstance(one, (NotKnown, Modelled)) for one in wanted) else False


def _issubclass(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) == 2 and all(isinstance(one, type) for one in args):
        return attempt("issubclass()", issubclass, *args)
    return NotKnown("issubclass()")


def _exit(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    raise thrown(SystemExit, *args[:1])


def _len(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    value = args[0] if args else NotKnown("len()")
    if isinstance(value, (str, bytes, list, tuple, dict, set, frozenset, range)):
        known = attempt("len()", length, value)
        return NotKnown(f"len({described(value)})") if known is None else known
    if isinstance(value, Instance) and isinstance(value.cls.find("__len__"), PythonFunction):
        return machine.call(machine.attribute(value, "__len__"), [], {})
    return NotKnown(f"len({described(value)})", value.why) if isinstance(value, NotKnown) else NotKnown("len()")


def _sorted(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    values = machine.items(args[0]) if args else []
    return values if isinstance(values, NotKnown) else sort_values(machine, values, [], kwargs)


def _many(function: Callable[[list[list[object]]], object]) -> Callable[[PythonMachine, Args, Kwargs], object]:
    def call(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        lists = []
        for arg in args:
            values = machine.items(arg)
            if isinstance(values, NotKnown):
                return values
            lists.append(values)
        return function(lists)

    return call


def _enumerate(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    values = machine.items(args[0]) if args else []
    start = argument(args, kwargs, 1, "start", 0)
    if isinstance(values, NotKnown) or not isinstance(start, int):
        return NotKnown("enumerate()")
    return [(start + index, value) for index, value in enumerate(values)]


def _map(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    values = machine.items(args[1]) if len(args) == 2 else NotKnown("map()")
    return values if isinstance(values, NotKnown) else [machine.call(args[0], [one], {}) for one in values]


def _filter(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    values = machine.items(args[1]) if len(args) == 2 else NotKnown("filter()")
    if isinstance(values, NotKnown):
        return values
    kept = [(one, truth(one if args[0] is None else machine.call(args[0], [one], {}))) for one in values]
    return NotKnown("filter()") if any(known is None for _, known in kept) else [one for one, known in kept if known]


def _quantified(*, decisive: bool) -> Callable[[PythonMachine, Args, Kwargs], object]:
    def call(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        values = machine.items(args[0]) if args else NotKnown("any()")
        if isinstance(values, NotKnown):
            return NotKnown(f"any({values.name})", values.why)
        known = [truth(one) for one in values]
        if decisive in known:
            return decisive
        return (
            next((one for one in values if isinstance(one, NotKnown)), NotKnown("any()"))
            if None in known
            else not decisive
        )

    return call


def _next(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    values = machine.items(args[0]) if args else NotKnown("next()")
    if isinstance(values, NotKnown):
        return values.part("[0]")
    if values:
        first = values[0]
        if isinstance(args[0], list):
            args[0].pop(0)
        return first
    if len(args) > 1:
        return args[1]
    raise thrown(StopIteration)


def _plain(name: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    function = getattr(builtins, name)

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        if name in {"min", "max", "sum"} and args:
            values = machine.items(args[0]) if len(args) == 1 or name == "sum" else None
            args = [values, *args[1:]] if values is not None else args
            if callable(kwargs.get("key")) or "key" in kwargs:
                return NotKnown(f"{name}()")
        if name == "pow" and len(args) == 2 and any(isinstance(one, int) and abs(one) > 64 for one in args):
            return NotKnown("pow()")
        if not concrete(args) or not concrete(kwargs):
            unknown = next((one for one in args if isinstance(one, NotKnown)), None)
            return NotKnown(f"{name}()", unknown.why) if unknown else NotKnown(f"{name}()")
        return attempt(f"{name}()", function, *args, **kwargs)

    return call


def _callable(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    value = args[0] if args else None
    return (
        NotKnown("callable()")
        if isinstance(value, (NotKnown, Instance))
        else isinstance(value, (PythonFunction, Bound, Class, Modelled, Wrapped, type))
    )


class OpenFile(Modelled):
    """A file of the package that is open for reading."""

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
    path, mode = argument(args, kwargs, 0, "file"), argument(args, kwargs, 1, "mode", "r")
    known = as_text(path)
    inside = None if known is None else machine.files.inside(known)
    if known is None or inside is None or mode not in {"r", "rt", "rb"}:
        return NotKnown(f"open({described(path)})", Why.ENVIRONMENT)
    if inside not in machine.files.members:
        raise thrown(FileNotFoundError, f"[Errno 2] No such file or directory: {known!r}")
    return OpenBytes(inside) if mode == "rb" else OpenFile(known)


def _import(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if not args or not isinstance(args[0], str):
        return NotKnown("__import__()")
    machine.import_module(args[0])
    return machine.modules[args[0].partition(".")[0]]


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
        "NotImplemented": NotKnown("NotImplemented"),
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
        isinstance=_isinstance,
        issubclass=_issubclass,
        exit=_exit,
        quit=_exit,
        len=_len,
        sorted=_sorted,
        enumerate=_enumerate,
        map=_map,
        filter=_filter,
        zip=_many(lambda lists: list(zip(*lists, strict=False))),
        reversed=_many(lambda lists: lists[0][::-1]),
        iter=_many(lambda lists: lists[0]),
        any=_quantified(decisive=True),
        all=_quantified(decisive=False),
        next=_next,
        callable=_callable,
        property=_wrapper("property"),
        staticmethod=_wrapper("staticmethod"),
        classmethod=_wrapper("classmethod"),
        repr=_plain("repr"),
        abs=_plain("abs"),
        min=_plain("min"),
        max=_plain("max"),
        sum=_plain("sum"),
        ord=_plain("ord"),
        chr=_plain("chr"),
        hex=_plain("hex"),
        bin=_plain("bin"),
        oct=_plain("oct"),
        round=_plain("round"),
        divmod=_plain("divmod"),
        hash=lambda _m, _a, _k: NotKnown("hash()"),
        id=lambda _m, _a, _k: NotKnown("id()"),
        format=lambda machine, args, _k: text(machine, args[0]) if len(args) == 1 else NotKnown("format()"),
        pow=_plain("pow"),
    )
)
# What is compiled is run from its text.
BUILTINS["compile"] = Native("compile", lambda _m, args, _k: args[0] if args else NotKnown("compile()"))
BUILTINS["open"] = Native("open", _open)
BUILTINS["__import__"] = natives("builtins", import_=_import)["import"]
