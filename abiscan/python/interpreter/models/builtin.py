"""Python's built-in functions and types."""

from __future__ import annotations

import ast
import builtins
import collections.abc
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from abiscan.errors import InputError
from abiscan.python.interpreter import attributes, special
from abiscan.python.interpreter.builtin_methods import sort_values
from abiscan.python.interpreter.filesystem import (
    TextOptions,
    as_text,
    note_made,
    path_exists,
    read_text,
    reading_as,
    text_of_processor,
)
from abiscan.python.interpreter.iteration import Enumerated, GeneratorObject, Lazy, number_items
from abiscan.python.interpreter.later_builtins import CLASSES, NAMES
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import LooksAround, Modelled, Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Model, Namespace, native_functions, take_argument
from abiscan.python.interpreter.models.torch_module import (
    OptimizerClass,
    TorchClass,
    TorchModule,
    has_name,
    knows_names,
)
from abiscan.python.interpreter.operations import attempt_operation, describe_value
from abiscan.python.interpreter.values import (
    ABSENT,
    Bound,
    Class,
    Instance,
    MoreItems,
    NotKnown,
    PerhapsAbsent,
    PythonError,
    PythonFunction,
    PythonModule,
    Thrown,
    Why,
    Wrapped,
    as_scalar,
    class_of,
    is_concrete,
    known_length,
    thrown,
)
from abiscan.python.language.dynamic_names import absolute_name
from abiscan.python.package.model import Channel


def _model_print(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    words = [special.text(machine, argument) for argument in args]
    machine.tell(Channel.PRINT, " ".join(map(str, words)) if is_concrete(words) else None)
    return None


def _model_hasattr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    args = [*args[:1], *map(as_scalar, args[1:])]
    if len(args) != 2 or not isinstance(args[1], str):
        return NotKnown("hasattr()")
    if type(args[0]) in _BUILT_IN and args[1] not in _NEWER:
        return hasattr(args[0], args[1])
    try:
        attribute = machine.get_attribute(args[0], args[1])
    except Thrown as error:
        if AttributeError not in error.failure.ancestry():
            raise
        return False
    # The attribute may be there without being known. In this order, it may be a listed name, the names of the target's
    # torch may tell, and the source of an installed one.
    if not isinstance(attribute, NotKnown) or (isinstance(args[0], Namespace) and args[1] in args[0].names):
        return True
    if isinstance(args[0], TorchModule) and (there := args[0].has(machine, args[1])) is not None:
        return there
    torch = describe_value(args[0])
    if isinstance(args[0], TorchClass) and knows_names(machine):
        if (there := has_name(machine, torch, args[1])) is not None:
            return there
    elif torch.startswith("torch."):
        there = machine.library.torch_mentions(torch, args[1])
        if there is not None:
            return there
    value = None if isinstance(attribute, PerhapsAbsent) else args[0]
    if isinstance(value, Instance) and not value.cls.is_open() and value.cls.find("__getattr__") is None:
        return args[1] in value.attributes or args[1] in _OF_EVERY_OBJECT
    return NotKnown(f"hasattr({describe_value(args[0])}, {args[1]!r})", attribute.why)


def _model_getattr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    args = [*args[:1], *map(as_scalar, args[1:2]), *args[2:]]
    if len(args) < 2 or not isinstance(args[1], str):
        return NotKnown("getattr()")
    if isinstance(args[0], NotKnown):
        machine.note_possible_uses(args[0], [args[1]])
        # What follows the chain of decorators would never come to its end.
        if args[1] == "__wrapped__" and len(args) > 2:
            return args[2]
    try:
        return machine.get_attribute(args[0], args[1])
    except Thrown as error:
        if len(args) < 3 or AttributeError not in error.failure.ancestry():
            raise
        return args[2]


def _model_setattr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    args = [*args[:1], *map(as_scalar, args[1:2]), *args[2:]]
    if len(args) == 3 and isinstance(args[1], str):
        attributes.set_attribute(machine, args[0], args[1], args[2])
    elif args:
        attributes.set_any(args[0])
    return None


def _model_delattr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) == 2 and isinstance(args[1], str):
        attributes.delete_attribute(machine, args[0], args[1])
    return None


def _model_isinstance(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) != 2:
        return NotKnown("isinstance()")
    value, requested = args
    if type(value) in _BUILT_IN and type(requested) is type:
        return isinstance(value, requested)
    answer = _is_instance(machine, value, requested)
    if answer is not False:
        return answer
    classes = _flatten_classes(requested)
    # A protocol goes by the attributes of the value (_ProtocolMeta in Lib/typing.py), which are not compared.
    if any(map(_is_protocol, classes)) or (isinstance(value, PythonFunction) and value.may_be_replaced):
        return NotKnown("isinstance()")
    kind = type(value) if type(value) in _BUILT_IN else class_of(value)
    return _is_virtual_subclass(machine, kind, classes)


def _is_virtual_subclass(machine: PythonMachine, kind: object, classes: list[object]) -> object:
    """Return whether an abstract class of the package counts a class as its own that does not derive from it.

    As ``__subclasscheck__`` (Lib/_py_abc.py): its ``__subclasshook__``, or what was registered for it or for a class
    that derives from it.
    """
    waiting = list(classes) if isinstance(kind, (Class, type)) else []
    seen = set[int]()
    while waiting:
        cls = waiting.pop(0)
        if not isinstance(cls, Class) or id(cls) in seen or not machine.is_abstract(cls):
            continue
        seen.add(id(cls))
        machine.count_steps()
        hook = cls.find("__subclasshook__", ABSENT)
        if hook is not ABSENT:
            function = hook.function if isinstance(hook, Wrapped) else hook
            answer = machine.call(Bound(function, cls), [kind], {})
            if isinstance(answer, NotKnown) or answer is True:
                return answer
            if answer is False:
                continue
        registered = cls.names.get("__abiscan_registered__", ())
        if not isinstance(registered, tuple):
            return NotKnown("isinstance()")
        for base in registered:
            answer = _is_subclass(machine, [kind, base], [base])
            if answer is not False:
                return answer
        waiting += (*registered, *cls.subclasses)
    return False


def _is_protocol(cls: object) -> bool:
    bases = cls.bases if isinstance(cls, Class) else ()
    return any(isinstance(base, Class) and (base.module, base.name) == ("typing", "Protocol") for base in bases)


def _is_instance(machine: PythonMachine, value: object, classes: object) -> object:
    # As object_recursive_isinstance (Objects/abstract.c): an ``__instancecheck__`` of the package decides, else the
    # ancestry. No is only what is certain: every class in question must be known.
    requested = _possible_classes(value, _flatten_classes(classes))
    for cls in requested:
        hook = special.special_method(machine, cls, "__instancecheck__") if isinstance(cls, Class) else None
        if hook is not None and not isinstance(hook, NotKnown):
            return machine.call(hook, [value], {})
    if isinstance(value, NotKnown):
        if any(isinstance(cls, NotKnown) and cls.origin == ("type", value.key) for cls in requested):
            return True
        return NotKnown(f"isinstance({value.name}, {describe_value(classes)})", value.why)
    if isinstance(value, (Instance, PythonError)):
        ancestry = value.cls.ancestry() if isinstance(value, Instance) else value.ancestry()
        if any(item is cls for item in ancestry for cls in requested) or object in requested:
            return True
        return (
            NotKnown("isinstance()") if any(isinstance(item, NotKnown) for item in (*ancestry, *requested)) else False
        )
    if isinstance(value, (PythonFunction, Lazy, Bound)) and all(isinstance(item, (type, Class)) for item in requested):
        return object in requested
    # The value is a class itself: an object of its metaclass.
    if isinstance(value, Class) and value.metaclass is not None:
        return type in requested or any(cls in value.metaclass.ancestry() for cls in requested)
    if isinstance(value, Class) and all(isinstance(item, (type, Class)) for item in requested):
        return type in requested or object in requested
    if isinstance(value, (Modelled, PythonFunction, Bound, Class)) and not is_concrete(value):
        return NotKnown("isinstance()")
    requested = _as_asked_of(type(value), requested)
    known_classes = tuple(item for item in requested if isinstance(item, type))
    if known_classes and isinstance(value, known_classes):
        return True
    return NotKnown("isinstance()") if any(isinstance(item, (NotKnown, Modelled)) for item in requested) else False


def _as_asked_of(kind: type, classes: list[object]) -> list[object]:
    """Return classes, the abstract ones of the standard library by themselves where a built-in type is asked about."""
    return [_real_class(cls) for cls in classes] if kind in _BUILT_IN else classes


def _real_class(cls: object) -> object:
    """Return what an abstract class of the standard library is; any other class as it is."""
    module, _, name = cls.name.rpartition(".") if isinstance(cls, NotKnown) else ("", "", "")
    real: object = None
    if module == "collections.abc":
        real = getattr(collections.abc, name, None)
    elif module == "typing":
        real = getattr(getattr(typing, name, None), "__origin__", None)
    elif module == "numbers":
        import numbers  # few packages ask for its classes

        real = getattr(numbers, name, None)
    return real if isinstance(real, type) else cls


_BUILT_IN: Final = frozenset({
    str, bytes, int, float, complex, bool, type(None), list, dict, set, frozenset, range, tuple,
})  # fmt: skip
_NEWER: Final = frozenset({
    "__buffer__", "__class_getitem__", "__complex__", "__getstate__", "__ior__", "__or__", "__reversed__", "__ror__",
})  # fmt: skip
"""The special methods that some of these have since a later Python than the first one that is read for."""
_OF_EVERY_OBJECT: Final = frozenset({"__module__", *dir(object)}) - _NEWER
_KINDS_OF_PYTHON = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    list,
    dict,
    set,
    frozenset,
    range,
    type,
    PythonFunction,
    PythonModule,
)


def _possible_classes(value: object, classes: list[object]) -> list[object]:
    """Return the classes that a value may be an object of, as far as its kind tells."""
    if isinstance(value, PythonModule) and any(
        isinstance(cls, Class) and (cls.module, cls.name) == ("types", "ModuleType") for cls in classes
    ):
        return [object]
    # A number or a text is no object of a class of torch or numpy: none of those has an ``__instancecheck__`` that says
    # so.
    if isinstance(value, _KINDS_OF_PYTHON) or (isinstance(value, Instance) and not value.cls.is_open()):
        classes = [cls for cls in classes if not (isinstance(cls, TorchClass) or _is_of_numpy(cls))]
    kind = _kind_of(value)
    if kind is None:
        return classes
    named = [(cls, _type_by_name(cls)) for cls in classes]
    return [cls if real is None else object for cls, real in named if real is None or issubclass(kind, real)]


def _kind_of(value: object) -> type | None:
    """Return the type that Python gives a value, where that is certain."""
    if isinstance(value, PythonFunction):
        is_replaced = value.may_be_replaced or value.scope.module.file is None
        return None if is_replaced else types.FunctionType
    if isinstance(value, Bound):
        return None if _kind_of(value.function) is None else types.MethodType
    if isinstance(value, Class) and value.metaclass is None and not value.is_open():
        return type
    return type(value) if type(value) in _BUILT_IN else None


def _type_by_name(cls: object) -> type | None:
    """Return the type of functions, methods and the like that a name of ``types`` stands for."""
    module, _, name = cls.name.partition(".") if isinstance(cls, (NotKnown, Native)) else ("", "", "")
    if isinstance(cls, PythonFunction):
        module, name = cls.scope.module.name, cls.name
    real = getattr(types, name, None) if module == "types" else None
    return real if isinstance(real, type) else None


def _is_of_numpy(cls: object) -> bool:
    """Whether a value that is not known is a class that numpy itself defines: ``numpy.float`` was Python's own once."""
    if not isinstance(cls, NotKnown):
        return False
    top, _, name = cls.name.partition(".")
    return top == "numpy" and name in _NUMPY_CLASSES


_NUMPY_CLASSES: Final = frozenset({
    "bool_", "byte", "bytes_", "cdouble", "character", "clongdouble", "complex128", "complex64", "complexfloating",
    "csingle", "datetime64", "double", "dtype", "flexible", "float16", "float32", "float64", "floating", "generic",
    "half", "inexact", "int16", "int32", "int64", "int8", "int_", "intc", "integer", "intp", "longdouble", "longlong",
    "matrix", "memmap", "ndarray", "number", "object_", "poly1d", "recarray", "record", "short", "signedinteger",
    "single", "str_", "timedelta64", "ubyte", "ufunc", "uint16", "uint32", "uint64", "uint8", "uintc", "uintp",
    "ulonglong", "unsignedinteger", "ushort", "void", "ma.MaskedArray", "random.Generator", "random.RandomState",
})  # fmt: skip
"""The classes that numpy has had by these names since 1.19."""


def _flatten_classes(classes: object) -> list[object]:
    """Return classes, and those in tuples and unions of them."""
    if not isinstance(classes, (tuple, types.UnionType)):
        return [classes]
    flat: list[object] = []
    waiting: list[object] = [classes]
    # A tuple that occurs twice is asked once.
    seen: set[int] = set()
    while waiting:
        inner = waiting.pop(0)
        if isinstance(inner, types.UnionType):  # ``list | tuple``
            waiting[:0] = inner.__args__
        elif not isinstance(inner, tuple):
            flat.append(inner)
        elif id(inner) not in seen:
            seen.add(id(inner))
            waiting[:0] = inner
    return flat


def _model_issubclass(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    requested = _flatten_classes(args[1]) if len(args) == 2 else []
    answer = _is_subclass(machine, args, requested)
    return _is_virtual_subclass(machine, args[0], requested) if answer is False else answer


def _is_subclass(machine: PythonMachine, args: Args, requested: list[object]) -> object:
    for cls in requested:
        hook = special.special_method(machine, cls, "__subclasscheck__") if isinstance(cls, Class) else None
        if hook is not None and not isinstance(hook, NotKnown):
            return machine.call(hook, [args[0]], {})
    if requested and isinstance(args[0], type):
        requested = _as_asked_of(args[0], requested)
        if all(isinstance(item, type) for item in requested):
            return attempt_operation("issubclass()", issubclass, args[0], tuple(requested))
        if all(isinstance(item, (Class, type)) for item in requested):
            return issubclass(args[0], tuple(item for item in requested if isinstance(item, type)))
    if requested and isinstance(args[0], Class):
        if object in requested or any(item in args[0].ancestry() for item in requested):
            return True
        if not args[0].is_open() and all(isinstance(item, (Class, type)) for item in requested):
            return False
    if requested and isinstance(args[0], TorchClass) and any(_is_optimizer_base(item) for item in requested):
        return isinstance(args[0], OptimizerClass) or _is_optimizer_base(args[0]) or NotKnown("issubclass()")
    return NotKnown("issubclass()")


def _is_optimizer_base(value: object) -> bool:
    return isinstance(value, TorchClass) and value.name == "torch.optim.Optimizer"


def _model_isclass(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    value = args[0] if args else NotKnown("nothing")
    if isinstance(value, (Class, type, TorchClass)):
        return True
    is_other = isinstance(value, (TorchModule, PythonModule, PythonFunction)) or is_concrete(value)
    return False if is_other else NotKnown("inspect.isclass()")


def _model_getmro(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return machine.get_attribute(args[0], "__mro__") if args else NotKnown("inspect.getmro()")


def _make_check_of_type(cls: str) -> Model:
    """Return a function of ``inspect`` that tells whether a value is of a type that ``types`` names."""

    def check(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        return _model_isinstance(machine, [*args[:1], NotKnown(f"types.{cls}")], {})

    return check


def _model_isabstract(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    value = args[0] if args else NotKnown("nothing")
    # CPython decides when a class is made, and abc.update_abstractmethods again.
    if isinstance(value, Class) and not value.is_open():
        is_changed = any(isinstance(kind, Class) and kind.is_changed for kind in value.ancestry())
        unknown = is_changed and machine.is_abstract(value)
        return NotKnown("inspect.isabstract()") if unknown else bool(machine.abstract_methods(value))
    # As inspect.py: what is no class is not abstract.
    if isinstance(value, (TorchModule, PythonModule, PythonFunction)) or is_concrete(value):
        return False
    return NotKnown("inspect.isabstract()")


def _model_exit(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    raise thrown(SystemExit, args[0] if args else None)


def _model_len(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return special.size_of(machine, args[0]) if args else NotKnown("len()")


def _model_sorted(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    values = machine.items(args[0]) if args else []
    return values if isinstance(values, NotKnown) else sort_values(machine, values, [], kwargs)


# ---- iterators


def _iterate_sources(machine: PythonMachine, values: Iterable[object]) -> list[Iterator[object]] | NotKnown:
    """Return an iterator over each of several values."""
    sources = []
    for value in values:
        source = machine.iterate(value)
        if isinstance(source, NotKnown):
            return source
        sources.append(source)
    return sources


def _model_zip(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    sources = _iterate_sources(machine, args)
    if isinstance(sources, NotKnown):
        return sources
    return Lazy("zip()", _zip_sources(sources, strict=kwargs.get("strict") is True) if sources else iter(()))


def _zip_sources(sources: list[Iterator[object]], *, strict: bool) -> Iterator[object]:
    while True:
        results = []
        for number, source in enumerate(sources):
            item = next(source, ABSENT)
            if item is ABSENT:
                # The lengths differ if a later source ends first, or if the first one ends and another has more
                # (zip_next in Python/bltinmodule.c).
                if strict and number:
                    raise thrown(ValueError, _differing_lengths(number, "shorter"))
                ends = (place for place, entry in enumerate(sources) if place and next(entry, ABSENT) is not ABSENT)
                if strict and (place := next(ends, None)) is not None:
                    raise thrown(ValueError, _differing_lengths(place, "longer"))
                return
            results.append(item)
        more_items = next((item for item in results if isinstance(item, MoreItems)), None)
        yield more_items or tuple(results)


def _model_chain(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return Lazy("chain()", _chained(machine, args))


def _chain_from(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    source = machine.iterate(args[0]) if args else NotKnown("chain.from_iterable()")
    return source if isinstance(source, NotKnown) else Lazy("chain.from_iterable()", _chained(machine, source))


def _chained(machine: PythonMachine, sources: Iterable[object]) -> Iterator[object]:
    for source in sources:
        machine.count_steps()
        items = machine.iterate(source)
        if isinstance(items, NotKnown):
            yield MoreItems(items.name, items.why)
        else:
            yield from items


def _differing_lengths(place: int, kind: str) -> str:
    before = "argument 1" if place == 1 else f"arguments 1-{place}"
    return f"zip() argument {place + 1} is {kind} than {before}"


def _model_reversed(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    value = args[0] if args else NotKnown("reversed()")
    method = special.special_method(machine, value, "__reversed__")
    if method is not None:
        return machine.call(method, [], {})
    values = machine.items(value)
    return values if isinstance(values, NotKnown) else Lazy("reversed()", iter(values[::-1]))


def _model_iter(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if len(args) == 2:
        return Lazy("iter()", _call_until(machine, args[0], args[1]))
    if args and (isinstance(args[0], Lazy) or special.special_method(machine, args[0], "__iter__") is not None):
        return (
            args[0]
            if isinstance(args[0], Lazy)
            else machine.call(special.special_method(machine, args[0], "__iter__"), [], {})
        )
    source = machine.iterate(args[0]) if args else NotKnown("iter()")
    return source if isinstance(source, NotKnown) else Lazy("iter()", source)


def _call_until(machine: PythonMachine, function: object, end: object) -> Iterator[object]:
    while True:
        machine.count_steps()
        item = machine.call(function, [], {})
        same = special.equal(machine, item, end)
        # In doubt, this is the end: an item that is never equal would make the iteration endless.
        if same is not False:
            return
        yield item


def _model_enumerate(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    source = machine.iterate(args[0]) if args else NotKnown("enumerate()")
    start = take_argument(args, kwargs, 1, "start", 0)
    if isinstance(source, NotKnown) or not isinstance(start, int):
        return NotKnown("enumerate()")
    if type(args[0]) is list:
        return Enumerated(source, args[0], start)
    return Lazy("enumerate()", number_items(source, start))


def _model_map(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    sources = _iterate_sources(machine, args[1:]) if len(args) > 1 else NotKnown("map()")
    if isinstance(sources, NotKnown):
        machine.note_possible_call(NotKnown("map()"), args[0] if args else None)
        return sources
    passed = _zip_sources(sources, strict=False)
    return Lazy("map()", (_map_item(machine, args[0], item) for item in passed))


def _map_item(machine: PythonMachine, function: object, item: object) -> object:
    if isinstance(item, MoreItems):
        machine.note_possible_call(NotKnown("map()"), function)
        return item
    assert isinstance(item, tuple)
    return machine.call(function, list(item), {})


def _model_filter(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    source = machine.iterate(args[1]) if len(args) == 2 else NotKnown("filter()")
    if isinstance(source, NotKnown):
        machine.note_possible_call(NotKnown("filter()"), args[0] if args else None)
        return source
    return Lazy("filter()", _filter_items(machine, args[0], source))


def _filter_items(machine: PythonMachine, test: object, source: Iterator[object]) -> Iterator[object]:
    for item in source:
        if isinstance(item, MoreItems):
            machine.note_possible_call(NotKnown("filter()"), test)
            yield item
            continue
        is_true = special.truth_of(machine, item if test is None else machine.call(test, [item], {}))
        if is_true is None:
            yield MoreItems("filter()")
        elif is_true:
            yield item


def _make_quantifier(*, decisive: bool) -> Callable[[PythonMachine, Args, Kwargs], object]:
    def call(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        source = machine.iterate(args[0]) if args else NotKnown("any()")
        if isinstance(source, NotKnown):
            return NotKnown(f"any({source.name})", source.why)
        # An item that decides makes up for those that are not known, before it and after it.
        unknown: NotKnown | None = None
        for item in source:
            is_true = special.truth_of(machine, item)
            if is_true is decisive:
                return decisive
            if is_true is None and unknown is None:
                unknown = item.single() if isinstance(item, NotKnown) else NotKnown("any()")
        return unknown or (not decisive)

    return call


def _model_next(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    if not args:
        return NotKnown("next()")
    if len(args) == 1:
        return _next_single(machine, args[0])
    machine.guards.append((StopIteration,))
    try:
        return _next_single(machine, args[0])
    except Thrown as error:
        if StopIteration not in error.failure.ancestry():
            raise
        return args[1]
    finally:
        machine.guards.pop()


def _next_single(machine: PythonMachine, iterator: object) -> object:
    item = special.next_item(machine, iterator)
    return item.single() if isinstance(item, NotKnown) else item


# ---- numbers


def _make_extreme(name: str, op: ast.cmpop) -> Callable[[PythonMachine, Args, Kwargs], object]:
    """Return the model of ``min`` or ``max``."""

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        values = list(args) if len(args) != 1 else machine.items(args[0])
        if isinstance(values, NotKnown) or known_length(values) is None:
            return NotKnown(f"{name}()", values.why) if isinstance(values, NotKnown) else NotKnown(f"{name}()")
        if not values:
            if "default" in kwargs:
                return kwargs["default"]
            raise thrown(ValueError, NotKnown("the text of the error"))  # Python 3.12 has another than 3.11
        key = kwargs.get("key")
        keys = values if key is None else [machine.call(key, [value], {}) for value in values]
        # Of equal values, the first is the one: only a better one replaces it.
        best = 0
        for index in range(1, len(values)):
            better = special.truth_of(machine, special.compare_values(machine, op, keys[index], keys[best]))
            if better is None:
                unknown = next((value for value in keys if isinstance(value, NotKnown)), None)
                return NotKnown(f"{name}()", unknown.why) if unknown else NotKnown(f"{name}()")
            best = index if better else best
        return values[best]

    return call


def _model_sum(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    values = machine.items(args[0]) if args else NotKnown("sum()")
    if isinstance(values, NotKnown):
        return NotKnown(f"sum({values.name})", values.why)
    total = take_argument(args, kwargs, 1, "start", 0)
    for item in values:
        total = special.apply_binary(machine, ast.Add(), total, item)
    return total


def _by_method(name: str, *methods: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    """Return a built-in function that a class of the package may define for its objects."""
    make_plain = _make_plain(name)

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        if args and special.is_own(args[0]):
            made = special.convert_by(machine, args[0], methods)
            if made is not ABSENT:
                return (
                    machine.call(special.special_method(machine, args[0], methods[0]), args[1:], {})
                    if len(args) > 1
                    else made
                )
            if special.plain_value(args[0]) is args[0]:
                raise thrown(TypeError, f"{name}() cannot take '{special.type_name(args[0])}' object")
            args = [special.plain_value(args[0]), *args[1:]]
        return make_plain(machine, args, kwargs)

    return call


def _by_index(name: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    """Return a built-in function of a number, which ``__index__`` gives for an object of the package."""
    make_plain = _make_plain(name)

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        if args and special.is_own(args[0]):
            number = special.convert_by(machine, args[0], ("__index__",))
            if number is ABSENT and special.plain_value(args[0]) is args[0]:
                raise thrown(TypeError, f"'{special.type_name(args[0])}' object cannot be interpreted as an integer")
            args = [special.plain_value(args[0]) if number is ABSENT else number]
        return make_plain(machine, args, kwargs)

    return call


def _model_divmod(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    for receiver, name, operand in zip(args, ("__divmod__", "__rdivmod__"), args[::-1], strict=False):
        method = special.special_method(machine, receiver, name)
        if method is not None:
            return machine.call(method, [operand], {})
    return _make_plain("divmod")(machine, args, kwargs)


def _model_pow(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    return (
        special.apply_binary(machine, ast.Pow(), *args) if len(args) == 2 else _make_plain("pow")(machine, args, kwargs)
    )


def _model_hash(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    digest = special.hash_of(machine, args[0]) if args else None
    return NotKnown("hash()") if digest is None else digest


def _model_repr(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return special.repr_of(machine, args[0]) if args else NotKnown("repr()")


def _model_ascii(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return special.ascii_of(machine, args[0]) if args else NotKnown("ascii()")


def _model_format(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return special.format_value(machine, args[0], args[1] if len(args) > 1 else "") if args else NotKnown("format()")


def _make_awaiting(name: str, method: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    def call(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        value = args[0] if args else NotKnown(name)
        if isinstance(value, GeneratorObject):
            return value.advance(machine) if name == "anext" else value
        member = special.special_method(machine, value, method)
        return NotKnown(f"{name}()") if member is None else machine.call(member, [], {})

    return call


_MOST_OF = {"pow": 1 << 64, "round": 1_000}


def _make_plain(name: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    function = getattr(builtins, name)

    def call(_machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        # A remainder of a power, and rounding to a place before the point, take long with large numbers.
        most = _MOST_OF.get(name)
        if most is not None and any(isinstance(item, int) and abs(item) > most for item in args[1:]):
            return NotKnown(f"{name}()")
        if not is_concrete(args) or not is_concrete(kwargs):
            unknown = next((item for item in args if isinstance(item, NotKnown)), None)
            return NotKnown(f"{name}()", unknown.why) if unknown else NotKnown(f"{name}()")
        return attempt_operation(f"{name}()", function, *args, **kwargs)

    return call


def _model_callable(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    value = args[0] if args else None
    if isinstance(value, Instance):
        method = special.special_method(machine, value, "__call__")
        return NotKnown("callable()") if isinstance(method, NotKnown) else method is not None
    if isinstance(value, Lazy):
        return False
    if isinstance(value, NotKnown) and not isinstance(value, TorchClass):
        return NotKnown("callable()")
    return isinstance(value, (PythonFunction, Bound, Class, Modelled, TorchClass, Wrapped, type))


class OpenFile(Modelled):
    """A file of the package that is open for reading, or what Linux says of the processor."""

    __slots__ = ("how", "path")

    def __init__(self, path: object, how: TextOptions) -> None:
        self.path, self.how = path, how

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return ``read``, and its lines."""
        if name == "read":
            return Native("read", lambda m, _args, _kwargs: self.read(m))
        if name in {"readlines", "__iter__"}:
            return Native(name, lambda m, _args, _kwargs: _split_lines(self.read(m)))
        return NotKnown(f"file.{name}")

    def read(self, machine: PythonMachine) -> object:
        """Return its text."""
        return read_text(machine, self.path, self.how)


class NewFile(Modelled):
    """A file outside of the package that is open for writing: what ``json.dump`` alone has written is known."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what is not known: it may write something, unless it is what ``with`` asks for."""
        if not name.startswith("__"):
            self.put_text(machine, NotKnown("file.read()", Why.ENVIRONMENT))
        return NotKnown(f"open({describe_value(self.path)}).{name}", Why.ENVIRONMENT)

    def put_text(self, machine: PythonMachine, text: object) -> None:
        """Note what is in the file once it is closed."""
        resolved = machine.files.system.resolved(self.path)
        is_first = resolved not in machine.made_texts
        machine.made_texts[resolved] = text if is_first else NotKnown("file.read()", Why.ENVIRONMENT)


class OpenBytes(Modelled):
    """A file of the package that is open for reading bytes: code looks at the headers of libraries."""

    __slots__ = ("inside", "position")

    def __init__(self, inside: str) -> None:
        self.inside, self.position = inside, 0

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return ``read``, ``seek`` and ``tell``."""
        methods = {"read": self._model_read, "seek": self._model_seek, "tell": lambda _m, _a, _k: self.position}
        return Native(name, methods[name]) if name in methods else NotKnown(f"file.{name}")

    def _model_read(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        size = take_argument(args, kwargs, 0, "size", -1)
        try:
            content = machine.files.read(self.inside)
        except InputError:
            return NotKnown("file.read()", Why.ENVIRONMENT)
        if not isinstance(size, int):
            return NotKnown("file.read()")
        taken = content[self.position :] if size < 0 else content[self.position : self.position + size]
        self.position += len(taken)
        return taken

    def _model_seek(self, _machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        offset = take_argument(args, kwargs, 0, "offset")
        if len(args) > 1 or not isinstance(offset, int) or offset < 0:
            return NotKnown("file.seek()")
        self.position = offset
        return offset


def _split_lines(content: object) -> object:
    return content.splitlines(keepends=True) if isinstance(content, str) else content


def _model_open(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    path, mode = (
        special.as_path(machine, take_argument(args, kwargs, 0, "file")),
        take_argument(args, kwargs, 1, "mode", "r"),
    )
    plain_path = as_text(path)
    inside = None if plain_path is None else machine.files.inside(plain_path)
    how = reading_as(args, kwargs, 3)
    if mode in {"r", "rt"} and text_of_processor(machine, plain_path) is not None:
        return OpenFile(plain_path, how)
    # Only files of the package are read. Of any other it matters whether it is there.
    if plain_path is None or inside is None or mode not in {"r", "rt", "rb"}:
        if isinstance(mode, str) and mode.startswith("r"):
            _look_for(machine, path)
            if plain_path is not None and mode in {"r", "rt"} and isinstance(read_text(machine, plain_path), str):
                return OpenFile(plain_path, how)
        else:
            note_made(machine, path, "file")
            if plain_path is not None and inside is None and mode in {"w", "wt"}:
                return NewFile(plain_path)
        return NotKnown(f"open({describe_value(path)})", Why.ENVIRONMENT)
    if inside not in machine.files.members:
        raise thrown(FileNotFoundError, f"[Errno 2] No such file or directory: {plain_path!r}")
    return OpenBytes(inside) if mode == "rb" else OpenFile(plain_path, how)


def _look_for(machine: PythonMachine, path: object) -> None:
    """Raise if a file of others does not exist; where the code expects that, both ways are followed."""
    there = path_exists(machine, path, "file")
    if isinstance(there, NotKnown) and machine.catches(FileNotFoundError):
        spot = (machine.place().line, -1)
        there = machine.decide(f"{describe_value(path)} is there", Why.ENVIRONMENT, spot, default=True)
    if there is False:
        raise thrown(FileNotFoundError, f"[Errno 2] No such file or directory: {as_text(path)!r}")


def _model_import(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name, names = take_argument(args, kwargs, 0, "name"), take_argument(args, kwargs, 3, "fromlist", ())
    level = take_argument(args, kwargs, 4, "level", 0)
    around = take_argument(args, kwargs, 1, "globals")
    if isinstance(name, str) and level and isinstance(level, int):
        package = around.get("__package__") if isinstance(around, dict) else None
        name = absolute_name(package, "." * level + name) if isinstance(package, str) else NotKnown(f"{name!r}")
    if not isinstance(name, str):
        machine.imports_unknown(name)
        return NotKnown("__import__()")
    module = machine.import_module(name)
    # _handle_fromlist (Lib/importlib/_bootstrap.py): of what is listed, submodules are imported.
    is_listed = special.truth_of(machine, names)
    if is_listed is False and not level:
        return machine.modules[name.partition(".")[0]]
    if is_listed is not True:
        return NotKnown("__import__()")
    for part in names if isinstance(names, (list, tuple)) else ():
        if isinstance(part, str) and machine.library.locate(f"{name}.{part}") is not None:
            machine.import_module(f"{name}.{part}")
    return module


def _model_property(_machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    getter, setter, deleter = (
        take_argument(args, kwargs, number, name) for number, name in enumerate(("fget", "fset", "fdel"))
    )
    return Wrapped("property", getter, setter, deleter)


def _make_wrapper(kind: str) -> Callable[[PythonMachine, Args, Kwargs], object]:
    return lambda _machine, args, _kwargs: Wrapped(kind, args[0]) if args else NotKnown(kind)


BUILTINS: dict[str, object] = {
    name: value
    for name, value in {**vars(builtins), **CLASSES}.items()
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
    native_functions(
        "builtins",
        print=_model_print,
        hasattr=_model_hasattr,
        getattr=_model_getattr,
        setattr=_model_setattr,
        delattr=_model_delattr,
        isinstance=_model_isinstance,
        issubclass=_model_issubclass,
        exit=_model_exit,
        quit=_model_exit,
        len=_model_len,
        sorted=_model_sorted,
        enumerate=_model_enumerate,
        map=_model_map,
        filter=_model_filter,
        zip=_model_zip,
        reversed=_model_reversed,
        iter=_model_iter,
        any=_make_quantifier(decisive=True),
        all=_make_quantifier(decisive=False),
        next=_model_next,
        anext=_make_awaiting("anext", "__anext__"),
        aiter=_make_awaiting("aiter", "__aiter__"),
        callable=_model_callable,
        property=_model_property,
        staticmethod=_make_wrapper("staticmethod"),
        classmethod=_make_wrapper("classmethod"),
        repr=_model_repr,
        ascii=_model_ascii,
        abs=_by_method("abs", "__abs__"),
        min=_make_extreme("min", ast.Lt()),
        max=_make_extreme("max", ast.Gt()),
        sum=_model_sum,
        ord=_make_plain("ord"),
        chr=_make_plain("chr"),
        hex=_by_index("hex"),
        bin=_by_index("bin"),
        oct=_by_index("oct"),
        round=_by_method("round", "__round__"),
        divmod=_model_divmod,
        hash=_model_hash,
        id=lambda _m, _a, _k: NotKnown("id()"),
        format=_model_format,
        pow=_model_pow,
    )
)
BUILTINS.update({name: LooksAround(name) for name in ("super", "globals", "locals", "vars", "exec", "eval", "dir")})
# What is compiled is run from its text.
BUILTINS["compile"] = Native("compile", lambda _m, args, _k: args[0] if args else NotKnown("compile()"))
BUILTINS["open"] = Native("open", _model_open)
BUILTINS["__import__"] = native_functions("builtins", import_=_model_import)["import"]


def _make_inspect(_machine: PythonMachine) -> object:
    from abiscan.python.interpreter.models import signatures  # few packages ask for the parameters of functions

    return Namespace(
        "inspect",
        {
            **native_functions(
                "inspect",
                isclass=_model_isclass,
                isabstract=_model_isabstract,
                getmro=_model_getmro,
                isfunction=_make_check_of_type("FunctionType"),
                ismethod=_make_check_of_type("MethodType"),
            ),
            **signatures.NAMES,
        },
    )


def _make_itertools(_machine: PythonMachine) -> object:
    chain = Native(
        "itertools.chain", _model_chain, {"from_iterable": Native("itertools.chain.from_iterable", _chain_from)}
    )
    return Namespace("itertools", {"chain": chain})


class Builtins(Modelled):
    """The module ``builtins``: what code puts there is known everywhere."""

    __slots__ = ("machine", "names")

    def __init__(self, machine: PythonMachine) -> None:
        # The machine looks names up in this very dict, so that it sees what code puts into the module.
        self.machine = machine
        self.names = machine.builtins

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return a built-in function or type."""
        return self.names if name == "__dict__" else self.names.get(name) or NotKnown(name)

    def put(self, machine: PythonMachine, name: str, value: object) -> None:
        """Set a name. Code that is not read, such as the standard library's, then calls a function of the package."""
        if name in NAMES and isinstance(value, (PythonFunction, Bound, Instance)):
            self.machine.gap(f"builtins.{name} is replaced: where other code calls it is not followed")
        self.names[name] = value


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    "builtins": Builtins,
    "inspect": _make_inspect,
    "itertools": _make_itertools,
}
"""Modules by name."""
