"""Attributes of values: ``getattr``, ``setattr``."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from types import FunctionType
from typing import Any, Final, TypeGuard

from msgspec.structs import replace

from abiscan.inputs import observed_fs
from abiscan.python.interpreter import special
from abiscan.python.interpreter.builtin_methods import HostMethod, type_of
from abiscan.python.interpreter.filesystem import path_attribute
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.operations import attempt_operation, describe_value
from abiscan.python.interpreter.values import (
    ABSENT,
    EVERYDAY,
    VIEWS,
    WAITING,
    Bound,
    Class,
    Instance,
    NotKnown,
    PerhapsAbsent,
    PythonError,
    PythonFunction,
    PythonModule,
    Stage,
    Thrown,
    Wrapped,
    class_of,
    is_concrete,
    more_items,
    note_added,
    thrown,
)
from abiscan.python.language.late_bodies import docstring_of
from abiscan.python.language.private_names import name_inside
from abiscan.python.package import standard
from abiscan.python.package.added_names import may_add_in
from abiscan.python.package.model import Answer
from abiscan.python.torch_api.torch_names import COMPANIONS
from abiscan.regex import regex


def get(machine: PythonMachine, value: object, name: str) -> object:
    """Return ``value.name``; raises AttributeError only where Python certainly would."""
    kind = type(value)
    return (GETTERS.get(kind) or getter_of(kind))(machine, value, name)


def getter_of(kind: type) -> Callable[[PythonMachine, Any, str], object]:
    """Return what takes an attribute of values of a type, the first that fits."""
    getter = GETTERS.get(kind)
    if getter is None:
        getters: list[tuple[type, Callable[[PythonMachine, Any, str], object]]] = [
            (NotKnown, _of_unknown),
            (PythonModule, of_module),
            (Modelled, lambda machine, value, name: value.get_attribute(machine, name)),
            (Instance, _of_instance),
            (Class, _of_class),
            (PythonFunction, _of_function),
            (Wrapped, _of_wrapped),
            (Bound, _of_bound),
            (PythonError, _of_failure),
            (object, lambda _machine, value, name: _of_host(value, name)),
        ]
        getter = GETTERS[kind] = next(getter for cls, getter in getters if issubclass(kind, cls))
    return getter


GETTERS: Final[dict[type, Callable[[PythonMachine, Any, str], object]]] = {}
"""What takes an attribute of values of each type, of those that were met."""


def _of_unknown(machine: PythonMachine, value: NotKnown, name: str) -> object:
    full = f"{value.name}.{name}"
    is_module = machine.modules.get(value.name) is value
    if full in machine.models and is_module:
        return machine.import_module(full)
    if name == "__name__" and is_module and _is_foreign(value.name):
        return value.name  # as _init_module_attrs sets it (Lib/importlib/_bootstrap.py); ``os.path`` has another one
    if is_module and machine.has_lost(value.name, name):
        raise machine.lacking_in_python(value.name, AttributeError, f"module '{value.name}' has no attribute '{name}'")
    if name == "__version__" and is_module and machine.library.find(value.name) is None:
        return machine.library.surroundings.module_version(value.name) or value.get_attribute(machine, name)
    # What numpy and the packages next to torch have is known by their versions.
    is_asked = is_module and not name.startswith("__") and value.name.partition(".")[0] not in COMPANIONS
    is_asked = is_asked and _is_foreign(value.name)
    error = machine.error_of_attribute(value.name, name) if is_asked else None
    if error is not None:
        raise error
    submodule = machine.modules.get(full) if is_asked else None
    if isinstance(submodule, NotKnown) and machine.library.surroundings.keeps_submodule(value.name, name):
        return submodule
    return value.get_attribute(machine, name)


def _is_foreign(module: str) -> bool:
    return standard.has_module(module.partition(".")[0], Answer.UNKNOWN) is False


OWN_NAMES: Final = ("__name__", "__doc__", "__package__", "__spec__", "__file__", "__path__", "__builtins__")
"""What the import system binds in a module (language reference, 5.4.6); ``__path__`` in packages alone."""
_HOSTS: Final = (str, bytes, int, float, list, tuple, dict, set, frozenset)
_MODULE_ATTRIBUTES: Final = (
    "__cached__", "__class__", "__doc__", "__getattribute__", "__loader__", "__setattr__",
)  # fmt: skip
"""What every module has, and is not modelled."""
_BINDS_ANY: Final = regex(
    rb"\b(?:globals|locals|vars)\(\)\s*(?:\[(?![^\[\]\n]*\][ \t]*(?:[\n\r)}.(]|$))|\.(?:update|setdefault)\b)"
)
"""What binds a name by its text: an item of the namespace, where it is not at the end of an expression."""


class _SpecOfModule(NotKnown, frozen=True, kw_only=True):
    """The ``__spec__`` of a module, of which the names are known."""

    module: str
    package: str

    def get_attribute(self, machine: object, name: str) -> object:
        """Return its name, or that of its package; anything else is not known."""
        return {"name": self.module, "parent": self.package}.get(name) or self.part(f".{name}")


def binds_any(machine: PythonMachine, module: PythonModule) -> bool:
    """Whether code of a module binds names by their text, in a part of it that may have been passed over."""
    return module.file is not None and _BINDS_ANY.search(machine.library.source(module.file)) is not None


def may_have(machine: PythonMachine, module: PythonModule, name: str) -> bool:
    """Whether a module may have a name that its body does not seem to bind."""
    # An item of its ``__dict__`` was set, and its key is not known.
    is_open = module.open_ or not all(isinstance(key, str) for key in module.names)
    if is_open or binds_any(machine, module):
        return True
    is_filled = machine.library.may_be_filled(module.name, name, machine.extensions.values())
    return is_filled or others_may_add(machine, module.name, name)


def others_may_add(machine: PythonMachine, module: str, name: str) -> bool:
    """Whether modules of others, imported so far, may give a module a name, or put another one in its place."""
    if not machine.library.surroundings.folders:  # there is no source of theirs
        return False
    top = module.partition(".")[0]
    tops = {other: other.partition(".")[0] for other in machine.modules}
    others = (other for other, own in tops.items() if own not in {top, "torch"} and machine.library.find(own) is None)
    sources = (machine.library.surroundings.source(other) for other in others)
    return any(source is not None and may_add_in(observed_fs.read_file(source), module, name) for source in sources)


def hides_binding(machine: PythonMachine, module: PythonModule, name: str) -> bool:
    """Whether a submodule is all that is known by this name, and a body that is yet to run may bind something else."""
    # ``from .f import f`` makes the submodule a name of its package, and then the function. Of a body that was passed
    # over, only the former has been done.
    return (
        (module.stage is Stage.DEFERRED or module.stage is Stage.SKIMMED)
        and isinstance(module.names.get(name), PythonModule)
        and module.file is not None
        and machine.library.may_rebind(module.file, module.name, name)
    )


def of_module(machine: PythonMachine, module: PythonModule, name: str) -> object:
    """Return an attribute of a module of the package: a name of its body, a submodule, or what its ``__getattr__``
    gives.
    """
    # In the order of module_getattro (Objects/moduleobject.c): the names that the module has, then its ``__getattr__``,
    # then the error.
    names = module.names
    if name in names and (module.stage is Stage.DONE or not hides_binding(machine, module, name)):
        value = names[name]
        return machine.settle(value) if type(value) in WAITING else value
    package = module.name if module.folders else module.name.rpartition(".")[0]
    attributes = {
        "__name__": module.name,
        "__dict__": module.names,
        "__package__": package,
        "__spec__": _SpecOfModule("__spec__", module=module.name, package=package),
        "__builtins__": machine.builtins,
        "__dir__": Native("__dir__", partial(_list_module, module)),
        **{own: NotKnown(own) for own in _MODULE_ATTRIBUTES},
    }
    if name in attributes:
        return attributes[name]
    if name == "__file__" and module.file is not None:
        return machine.files.system.place(module.file)
    if name == "__path__" and module.folders:
        return [machine.files.system.place(folder) for folder in module.folders]
    # The body of a deferred module has bound nothing yet. It runs now, which ends this stage: the second look cannot
    # come here again.
    if module.stage is Stage.DEFERRED:
        machine.catch_up(module)
        return of_module(machine, module, name)
    # A circle of imports: only the imports of the module are followed, so how much of its body would have run is not
    # known.
    if module.stage is Stage.SKIMMED:
        return NotKnown(f"{module.name}.{name}")
    if f"{module.name}.{name}" in machine.modules:
        return machine.modules[f"{module.name}.{name}"]
    # ``asked`` ends the recursion of a hook that takes the same name of its own module, as a fallback to
    # ``getattr(sys.modules[__name__], name)`` does: inside of the hook, that name is not known.
    hook = module.names.get("__getattr__")
    if isinstance(hook, PythonFunction) and name not in module.asked:
        module.asked.add(name)
        try:
            return machine.call(hook, [name], {})
        finally:
            module.asked.discard(name)
    if hook is not None or may_have(machine, module, name):
        return NotKnown(f"{module.name}.{name}")
    # From here on the name is certainly absent. The message is that of module_getattro while ``__spec__._initializing``
    # is set.
    if module.stage is Stage.RUNNING:
        reason = " (most likely due to a circular import)"
        raise thrown(AttributeError, f"partially initialized module '{module.name}' has no attribute '{name}'{reason}")
    raise thrown(AttributeError, f"module '{module.name}' has no attribute '{name}'")


def names_in(machine: PythonMachine, module: PythonModule) -> list[str] | None:
    """Return the names that a module has, in their order; None if they are not known."""
    if module.stage is Stage.DEFERRED:
        machine.catch_up(module)
    if module.stage is not Stage.DONE or module.open_ or not all(isinstance(name, str) for name in module.names):
        return None
    own = (*OWN_NAMES, "__cached__", "__loader__")
    return list(dict.fromkeys((*(name for name in own if name != "__path__" or module.folders), *module.names)))


def _list_module(
    module: PythonModule, machine: PythonMachine, _args: list[object], _kwargs: dict[str, object]
) -> object:
    names = names_in(machine, module)
    return NotKnown(f"{module.name}.__dir__()") if names is None else names


def _of_instance(machine: PythonMachine, value: Instance, name: str) -> object:
    own = value.attributes.get(name, ABSENT)
    if own is not ABSENT and not value.cls.has_either(name, "__getattribute__"):
        return machine.settle(own)
    hook = value.cls.find("__getattribute__")
    if hook is None:
        return found_in(machine, value, name)
    # As slot_tp_getattr_hook (Objects/typeobject.c): ``__getattr__`` is asked after any AttributeError, whether
    # ``__getattribute__`` raises it itself or code that it calls does.
    try:
        return machine.call(machine.bound(hook, value, value.cls), [name], {})
    except Thrown as error:
        if AttributeError not in error.failure.ancestry() or value.cls.find("__getattr__") is None:
            raise
    return machine.call(machine.bound(value.cls.find("__getattr__"), value, value.cls), [name], {})


def method_of(value: Instance, name: str) -> PythonFunction | None:
    """Return the function that an object gives as its method; None if it may give anything else by that name."""
    member = None if name in value.attributes else value.cls.find(name)
    if type(member) is PythonFunction and value.cls.find("__getattribute__") is None:
        return member
    return None


def found_in(machine: PythonMachine, value: Instance, name: str) -> object:
    """Return what ``object.__getattribute__`` finds; if that is nothing, what ``__getattr__`` gives."""
    hook = value.cls.find("__getattr__")
    try:
        member = _own_attribute(machine, value, name)
    except Thrown as error:
        if hook is None or AttributeError not in error.failure.ancestry():
            raise
        # Python cannot tell this error of a property from an absent attribute, so ``__getattr__`` hides it.
        return machine.call(machine.bound(hook, value, value.cls), [name], {})
    if member is not ABSENT:
        return member
    if hook is None or _is_built_in(value, name):
        return _attribute_beyond_package(machine, value, value.cls, name)
    try:
        return machine.call(machine.bound(hook, value, value.cls), [name], {})
    except Thrown as error:
        # A base that is not known may have it, and is asked before ``__getattr__``.
        if _may_inherit(value.cls) and not {AttributeError, LookupError}.isdisjoint(error.failure.ancestry()):
            return NotKnown(f"{value.cls.name}.{name}")
        raise


def _may_inherit(cls: Class) -> bool:
    """Whether a base that is not known may have an attribute of any name; the type of modules has but special ones."""
    return cls.is_open() and not any(
        isinstance(base, Class) and (base.module, base.name) == ("types", "ModuleType") for base in cls.ancestry()
    )


def _is_built_in(value: Instance, name: str) -> bool:
    """Whether an object has an attribute from ``object``, or from the built-in type that its class derives from."""
    return hasattr(type(value.inner) if isinstance(value.inner, _HOSTS) else object, name)


def _own_attribute(machine: PythonMachine, value: Instance, name: str) -> object:
    """Return an attribute that an object or its class has, ABSENT if there is none."""
    # In the order of _PyObject_GenericGetAttrWithDict (Objects/object.c): a data descriptor of the class, the object's
    # own dictionary, anything else of the class.
    member = machine.settle(value.cls.find(name, ABSENT))
    if member is not ABSENT and is_data_descriptor(member):
        return machine.bound(member, value, value.cls)
    # It has no ``__set__`` (Lib/functools.py): its first value goes into the object's dictionary, and hides it from
    # then on.
    if isinstance(member, Wrapped) and member.kind == "cached_property" and name not in value.attributes:
        value.attributes[name] = machine.call(member.function, [value], {})
    if name in value.attributes:
        return machine.settle(value.attributes[name])
    if name == "__class__":
        return value.cls
    if name == "__dict__":
        return value.attributes
    if member is not ABSENT and not (isinstance(member, Wrapped) and member.kind == "slot"):
        return machine.bound(member, value, value.cls)
    # What may have been put into ``__dict__`` may be by any name.
    has_more = not EVERYDAY.issuperset(map(type, value.attributes))
    return PerhapsAbsent(f"{value.cls.name}.{name}") if has_more else ABSENT


def _attribute_beyond_package(machine: PythonMachine, value: object, cls: Class, name: str) -> object:
    """Return an attribute that no class of the package has: one of a built-in type, of what is not known, or none."""
    if isinstance(value, Instance) and value.inner is not None:
        try:
            return _of_host(value.inner, name)
        except Thrown as error:
            if AttributeError not in error.failure.ancestry():
                raise
            raise thrown(AttributeError, f"'{cls.name}' object has no attribute '{name}'") from None
    method = default_method(name, value)
    if method is not None:
        return method
    # An AttributeError ends most imports, so it is raised only if nothing unseen can have the name: no base outside of
    # the package, no slot, and no statement that may not have run.
    if (
        cls.is_open()
        or name in _OF_OBJECTS
        or machine.is_speculative
        or cls.host() is not None
        or cls.names.get("__slots__")
    ):
        return NotKnown(f"{cls.name}.{name}")
    raise thrown(AttributeError, f"'{cls.name}' object has no attribute '{name}'")


def is_data_descriptor(value: object) -> bool:
    """Whether a member of the class hides an attribute of the same name in the object itself."""
    if isinstance(value, Wrapped):
        return value.kind == "property"
    return isinstance(value, Instance) and any(value.cls.find(name) is not None for name in ("__set__", "__delete__"))


def _of_class(machine: PythonMachine, cls: Class, name: str) -> object:
    # In the order of type_getattro (Objects/typeobject.c): a data descriptor of the metaclass, the class with its
    # bases, anything else of the metaclass.
    meta = ABSENT if cls.metaclass is None else machine.settle(cls.metaclass.find(name, ABSENT))
    if meta is not ABSENT and is_data_descriptor(meta):
        return machine.bound(meta, cls, cls.metaclass)
    member = machine.settle(cls.find(name, ABSENT))
    if member is not ABSENT:
        # ``ABC`` stands for its metaclass: a base that is not known goes before it, wherever it is.
        if cls.is_open() and any(name in base.names for base in cls.ancestry() if _is_abc(base)):
            return NotKnown(f"{cls.name}.{name}")
        return machine.bound(member, None, cls)
    if meta is not ABSENT:
        return machine.bound(meta, cls, cls.metaclass)
    attributes = {
        "__name__": cls.name,
        "__qualname__": cls.qualified or cls.name,
        "__module__": cls.module,
        "__bases__": cls.bases or (object,),
        "__dict__": cls.names,
        "__class__": cls.metaclass or type,
        "__doc__": None,
        "__subclasses__": Native("__subclasses__", lambda _machine, _args, _kwargs: list(cls.subclasses)),
        "mro": Native("mro", lambda _machine, _args, _kwargs: [*cls.ancestry(), object]),
    }
    if name in attributes:
        return attributes[name]
    if name == "__mro__":
        return (*cls.ancestry(), object)
    host = cls.host()
    if host is not None and name != "__new__" and hasattr(host, name):
        return Native(name, partial(_make_from_keys, cls)) if name == "fromkeys" else HostMethod(host, name)
    method = default_method(name)
    if method is not None:
        return method
    # The ``__getattr__`` of the class itself is for its objects, and says nothing about the class.
    hook = None if cls.metaclass is None else cls.metaclass.find("__getattr__")
    if hook is not None:
        return machine.call(machine.bound(hook, cls, cls.metaclass), [name], {})
    is_open = cls.is_open() or (cls.metaclass is not None and cls.metaclass.is_open())
    if is_open or name in _OF_CLASSES or machine.is_speculative:
        return NotKnown(f"{cls.name}.{name}")
    raise thrown(AttributeError, f"type object '{cls.name}' has no attribute '{name}'")


def _is_abc(base: object) -> TypeGuard[Class]:
    return isinstance(base, Class) and (base.module, base.name) == ("abc", "ABC")


def bind(machine: PythonMachine, member: object, receiver: object, cls: Class | None) -> object:
    """Return what a name found in a class gives when it is taken from an object, or from the class itself (no
    receiver).
    """
    member = machine.settle(member)
    # What ``__get__`` of each kind returns: cm_descr_get and sm_descr_get in Objects/funcobject.c, property_descr_get
    # in Objects/descrobject.c. Taken from a class, a property is itself.
    if isinstance(member, Wrapped):
        if member.kind == "staticmethod":
            return member.function
        if member.kind == "classmethod":
            return Bound(member.function, cls)
        if receiver is not None and member.kind in {"property", "cached_property"}:
            return machine.call(member.function, [receiver], {})
        return Bound(member, receiver) if receiver is not None else member
    if receiver is not None and (isinstance(member, PythonFunction) or getattr(member, "binds", False)):
        return Bound(member, receiver)
    if isinstance(member, Instance) and (get := member.cls.find("__get__")) is not None:
        return machine.call(machine.bound(get, member, member.cls), [receiver, cls], {})
    return member


def _of_bound(machine: PythonMachine, value: Bound, name: str) -> object:
    attributes = {"__self__": value.receiver, "__func__": value.function}
    return attributes[name] if name in attributes else of_inner(machine, value.function, name)


def of_inner(machine: PythonMachine, function: object, name: str) -> object:
    """Return an attribute of what stands before a function: that of the function; if that has none, it is not known."""
    try:
        return get(machine, function, name)
    except Thrown:
        if not isinstance(function, PythonFunction):
            raise
        return NotKnown(f"{function.name}.{name}")


def _of_wrapped(machine: PythonMachine, value: Wrapped, name: str) -> object:
    """Return an attribute of what a decorator made; the further functions of a property are decorators, too."""
    if value.kind == "property":
        decorators: dict[str, Callable[[object], Wrapped]] = {
            "getter": lambda function: replace(value, function=function),
            "setter": lambda function: replace(value, setter=function),
            "deleter": lambda function: replace(value, deleter=function),
        }
        if name in decorators:
            return Native(name, lambda _machine, args, _kwargs: decorators[name](args[0] if args else None))
        parts = {"fget": value.function, "fset": value.setter, "fdel": value.deleter}
        if name in parts:
            return parts[name]
    if name == "__func__":
        return value.function
    return of_inner(machine, value.function, name)


def _of_function(machine: PythonMachine, function: PythonFunction, name: str) -> object:
    if name in function.attributes:
        return machine.settle(function.attributes[name])
    if function.may_be_renamed and name in {"__name__", "__qualname__"}:
        return NotKnown(f"{function.name}.{name}")
    if name == "__name__":
        return function.name
    if name == "__qualname__":
        return function.qualified or function.name
    if name == "__module__":
        return function.scope.module.name
    if name == "__doc__":
        return docstring_of(function.node)
    if name == "__call__":
        return function
    if name == "__get__":
        return Native(name, lambda machine, args, _kwargs: machine.bound(function, args[0] if args else None, None))
    if name == "__annotations__" and "__wrapped__" in function.attributes:
        return get(machine, function.attributes["__wrapped__"], name)
    if name == "__annotations__" and not isinstance(function.node, ast.Lambda):
        args = (*function.node.args.posonlyargs, *function.node.args.args, *function.node.args.kwonlyargs)
        nodes = {argument.arg: argument.annotation for argument in args} | {"return": function.node.returns}
        return {key: machine.evaluate(node, function.scope) for key, node in nodes.items() if node is not None}
    return function.attributes if name == "__dict__" else _lacking_in_function(machine, function, name)


def _lacking_in_function(machine: PythonMachine, function: PythonFunction, name: str) -> NotKnown:
    """Return what an attribute is that a function does not seem to have.

    :raises Thrown: it certainly has none
    """
    is_modelled = function.scope.module.file is None
    has_any = not EVERYDAY.issuperset(map(type, function.attributes))
    if name in _OF_FUNCTIONS or is_modelled or has_any or function.may_be_replaced or machine.is_speculative:
        return NotKnown(f"{function.name}.{name}")
    raise thrown(AttributeError, f"'function' object has no attribute '{name}'")


def _of_failure(machine: PythonMachine, failure: PythonError, name: str) -> object:
    if name in failure.attributes:
        return failure.attributes[name]
    special.arguments_of(machine, failure)
    attributes = {
        "args": failure.args,
        "__class__": failure.cls,
        "__cause__": failure.cause,
        "__context__": failure.context,
    }
    if name in attributes:
        return attributes[name]
    if name == "msg":
        return special.text(machine, failure)
    if name == "with_traceback":
        return Native(name, lambda _machine, _args, _kwargs: failure)
    if name in {"add_note", "__traceback__", "__suppress_context__"}:
        return Native(name, lambda _machine, _args, _kwargs: None) if name == "add_note" else NotKnown(name)
    if isinstance(failure.cls, Class):
        match = failure.cls.find(name, ABSENT)
        if match is not ABSENT:
            return machine.bound(match, failure, failure.cls)
        if (hook := failure.cls.find("__getattr__")) is not None:
            return machine.call(machine.bound(hook, failure, failure.cls), [name], {})
    if name in {"exceptions", "message"} and len(failure.args) == 2 and is_group(failure):
        return tuple(more_items(machine.items(failure.args[1]))) if name == "exceptions" else failure.args[0]
    return default_method(name, failure) or NotKnown(f"{failure.name()}.{name}")


def is_group(failure: PythonError) -> bool:
    """Whether it is an exception that holds others."""
    return any(getattr(ancestor, "__name__", "") == "BaseExceptionGroup" for ancestor in failure.ancestry())


# ---- object and type


def default_method(name: str, receiver: object = ABSENT) -> object:
    """Return a method that ``object`` or ``type`` has, for classes that do not define it; None if they have none."""
    method = _DEFAULTS.get(name)
    if method is None:
        return None
    return method if receiver is ABSENT or name in {"__new__", "__class_getitem__"} else Bound(method, receiver)


def _model_new(machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
    if not args or not isinstance(args[0], Class):
        return NotKnown("__new__()")
    if args[0].host() is type:
        return machine.make_class(args[0], args[1:], kwargs)
    return machine.create(args[0], args[1:], kwargs)


def _model_initialise(machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
    if args and isinstance(args[0], PythonError):
        args[0].args = tuple(args[1:])
    # ``list.__init__(self, items)`` of a class that derives from ``list``: it is the ``inner`` value that gets the
    # items.
    if args and isinstance(args[0], Instance) and isinstance(args[0].inner, (list, dict, set)) and (args[1:] or kwargs):
        method = "extend" if isinstance(args[0].inner, list) else "update"
        machine.call(_of_host(args[0].inner, method), args[1:], kwargs)
    return None


def _model_set(machine: PythonMachine, args: list[object], _kwargs: dict[str, object]) -> object:
    if len(args) == 3 and isinstance(args[1], str):
        set_plainly(machine, args[0], args[1], args[2])
    return None


def _model_delete(machine: PythonMachine, args: list[object], _kwargs: dict[str, object]) -> object:
    if len(args) == 2 and isinstance(args[1], str):
        delete_plainly(machine, args[0], args[1])
    return None


def _model_get(machine: PythonMachine, args: list[object], _kwargs: dict[str, object]) -> object:
    if len(args) != 2 or not isinstance(args[1], str):
        return NotKnown("__getattribute__()")
    if not isinstance(args[0], Instance):
        return machine.get_attribute(args[0], args[1])
    # ``object.__getattribute__`` does not ask ``__getattr__``, which the same lookup would do here: a copy of the
    # class, in which that name is None, hides those of the class and of its bases.
    cls = args[0].cls
    apart = Class(cls.name, tuple(cls.bases), {**cls.names, "__getattr__": None})
    return found_in(machine, Instance(apart, args[0].attributes, args[0].inner), args[1])


def _model_called(machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
    return machine.instantiate(args[0], args[1:], kwargs) if isinstance(args[0], Class) else NotKnown("__call__()")


def _nothing(_machine: PythonMachine, _args: list[object], _kwargs: dict[str, object]) -> object:
    return None


def _same_object(_machine: PythonMachine, args: list[object], _kwargs: dict[str, object]) -> object:
    return args[0] is args[1] or NotImplemented


_DEFAULTS = {
    name: Native(f"object.{name}", function)
    for name, function in {
        "__new__": _model_new, "__init__": _model_initialise, "__setattr__": _model_set, "__delattr__": _model_delete,
        "__getattribute__": _model_get, "__call__": _model_called, "__init_subclass__": _nothing,
        "__eq__": _same_object,
        "__prepare__": lambda _machine, _args, _kwargs: {},
    }.items()
}  # fmt: skip


def _of_built_in_type(value: type, name: str) -> object:
    if name in {"__name__", "__qualname__"}:
        return value.__name__
    if name == "__module__" and value.__module__ == "builtins":
        return value.__module__
    # ``object.__new__(cls)`` and ``Exception.__init__(self, …)`` get objects of the package, which the real methods
    # would refuse.
    if name == "__new__" or value in (object, type, BaseException, Exception):
        method = default_method(name)
        if method is not None:
            return method
    member = getattr(value, name, None)
    if isinstance(member, tuple) and is_concrete(member):  # __mro__, __bases__
        return member
    if hasattr(value, name):
        return HostMethod(value, name)
    if value in (object, *_HOSTS) and name not in _OF_CLASSES:
        raise thrown(AttributeError, f"type object '{value.__name__}' has no attribute '{name}'")
    return NotKnown(f"{value.__name__}.{name}")


def _make_from_keys(cls: Class, machine: PythonMachine, args: list[object], kwargs: dict[str, object]) -> object:
    """Model ``cls.fromkeys`` of a class that derives from ``dict``: it makes an object of that class."""
    items = HostMethod(dict, "fromkeys").call(machine, args, kwargs)
    made = machine.call(cls, [], {}) if isinstance(items, dict) else items
    for key, value in items.items() if isinstance(items, dict) else ():
        special.set_item(machine, made, key, value)
    return made


def _of_host(value: object, name: str) -> object:
    if name == "__class__":
        return type_of(value)
    if isinstance(value, type):
        return _of_built_in_type(value, name)
    if isinstance(value, (range, slice)) and name in {"start", "stop", "step"}:
        return getattr(value, name)
    if isinstance(value, (int, float)) and name in {"real", "imag"}:
        return getattr(value, name)
    if isinstance(value, PurePath):
        return path_attribute(value, name)
    is_plain = getattr(type(value), "is_plain", False)
    if (is_plain and hasattr(value, name)) or (hasattr(type(value), "_fields") and hasattr(type(value), name)):
        member = attempt_operation(name, getattr, value, name)
        return HostMethod(value, name) if callable(member) else member
    if name.startswith("__") and name not in _CONTAINER_METHODS and (name in _GIVEN or hasattr(value, name)):
        return NotKnown(f"{describe_value(value)}.{name}")
    if hasattr(value, name):
        return HostMethod(value, name)
    if name == "mapping":
        return NotKnown(f"{type(value).__name__}.mapping")
    if isinstance(value, (*_HOSTS, type(None), *VIEWS)):
        raise thrown(AttributeError, f"'{type(value).__name__}' object has no attribute '{name}'")
    return NotKnown(f"{describe_value(value)}.{name}")


_GIVEN: Final = frozenset({
    # Since Python 3.8 to 3.14, on objects of some types.
    "__buffer__", "__release_buffer__", "__type_params__", "__static_attributes__", "__firstlineno__", "__annotate__",
    "__class_getitem__", "__complex__", "__getstate__", "__or__", "__ror__", "__ior__", "__reversed__",
    # What ``abc``, ``dataclasses``, ``enum``, ``functools``, ``typing``, ``warnings`` and the import system set.
    "__abstractmethods__", "__isabstractmethod__", "__dataclass_fields__", "__dataclass_params__", "__match_args__",
    "__replace__", "__members__", "__wrapped__", "__final__", "__override__", "__no_type_check__", "__deprecated__",
    "__orig_bases__", "__orig_class__", "__origin__", "__args__", "__parameters__", "__metadata__", "__supertype__",
    "__protocol_attrs__", "__non_callable_proto_members__", "__callable_proto_members_only__", "__total__",
    "__required_keys__", "__optional_keys__", "__readonly_keys__", "__mutable_keys__", "__closed__", "__extra_items__",
    "__signature__", "__slots__", "__weakref__", "__builtins__", "__loader__", "__spec__", "__path__", "__file__",
    "__package__", "__cached__", "__annotations__", "__module__",
})  # fmt: skip
"""What a value may have that no code of the package gives it, besides what all of its kind have."""
_OF_OBJECTS: Final = _GIVEN.union(dir(object))
_OF_CLASSES: Final = _GIVEN.union(dir(type))
_OF_FUNCTIONS: Final = _GIVEN.union(dir(FunctionType))
_CONTAINER_METHODS = frozenset({
    "__getitem__", "__setitem__", "__delitem__", "__contains__", "__len__", "__iter__", "__add__", "__eq__",
    "__iadd__", "__iand__", "__imul__", "__ior__", "__isub__", "__ixor__",
})  # fmt: skip
"""Special methods that code calls by their names, on lists, dicts and texts."""


def set_attribute(machine: PythonMachine, value: object, name: str, new: object) -> None:
    """Execute ``value.name = new``, where that can be remembered."""
    cls = class_of(value)
    hook = None if cls is None else cls.find("__setattr__")
    if cls is not None and hook is not None:
        machine.call(machine.bound(hook, value, cls), [name, new], {})
    else:
        set_plainly(machine, value, name, new, bypass_frozen=False)


def set_plainly(machine: PythonMachine, value: object, name: str, new: object, *, bypass_frozen: bool = True) -> None:
    """Execute ``object.__setattr__``.

    :param bypass_frozen: whether what a frozen dataclass forbids is done all the same
    """
    # A data descriptor of the class goes before the object's own dictionary: _PyObject_GenericSetAttrWithDict in
    # Objects/object.c.
    if isinstance(value, (Instance, Class, PythonError)):
        cls = class_of(value)
        member = ABSENT if cls is None else cls.find(name, ABSENT)
        if cls is not None and isinstance(member, Wrapped) and member.kind == "property":
            if member.setter is None:
                raise thrown(AttributeError, f"property '{name}' of '{cls.name}' object has no setter")
            machine.call(member.setter, [value, new], {})
            return
        if isinstance(member, Instance) and (setter := member.cls.find("__set__")) is not None:
            machine.call(machine.bound(setter, member, member.cls), [value, new], {})
            return
        # A frozen dataclass forbids it by a ``__setattr__`` of its own (_frozen_get_del_attr in Lib/dataclasses.py),
        # which ``object.__setattr__(self, …)`` bypasses, as ``__post_init__`` often does.
        if cls is not None and cls.is_frozen and not bypass_frozen:
            from dataclasses import FrozenInstanceError  # its import takes long, and few packages need it

            raise thrown(FrozenInstanceError, f"cannot assign to field '{name}'")
        if cls is not None and isinstance(value, Instance) and _has_only_slots(machine, cls, name):
            raise thrown(AttributeError, f"'{cls.name}' object has no attribute '{name}'")
        _put_own(machine, value, name, new)
    elif isinstance(value, PythonModule):
        if name == "__class__":
            _change_class(machine, value, new)
        _put(machine, value.names, name, new)
    elif isinstance(value, PythonFunction):
        _put(machine, value.attributes, name, new)
    elif isinstance(value, Modelled):
        value.put(machine, name, new)


def _put(machine: PythonMachine, names: dict[str, object], name: str, new: object) -> None:
    """Set an attribute; one that code may not set after all is not known, nor whether it is there."""
    if machine.is_speculative:
        new = PerhapsAbsent(f".{name}") if names.get(name, ABSENT) is ABSENT else NotKnown(f".{name}")
    names[name] = new


def _put_own(machine: PythonMachine, value: Instance | Class | PythonError, name: str, new: object) -> None:
    """Set what no class of an object has a say in."""
    if name == "__dict__" and isinstance(value, Instance):
        # With ``self.__dict__ = self``, the items of a dict are its attributes.
        names = special.plain_value(new)
        if isinstance(names, dict) and not machine.is_speculative:
            value.attributes = names
        else:
            set_any(value)
    elif name == "args" and isinstance(value, PythonError):
        value.args = tuple(more_items(machine.items(new)))
    else:
        _put(machine, _own_names(value), name, new)


def set_any(value: object) -> None:
    """Note that an attribute is set whose name is not known."""
    if isinstance(value, PythonModule):
        value.open_ = True
    elif isinstance(value, Class):
        value.has_more = True
    elif isinstance(value, (Instance, PythonFunction)):
        note_added(value.attributes)  # type: ignore[arg-type]  # its keys are texts, and the mark that it adds


def _own_names(value: Instance | Class | PythonError) -> dict[str, object]:
    """Return what an object has of its own, in order to change it."""
    if not isinstance(value, Class):
        return value.attributes
    value.shape, value.is_changed = None, True
    return value.names


def _change_class(machine: PythonMachine, module: PythonModule, cls: object) -> None:
    """Note that the class of a module becomes one of the package: what its names then give is not followed."""
    module.open_ = True
    functions = (
        [function for function in cls.names.values() if isinstance(function, (PythonFunction, Wrapped))]
        if isinstance(cls, Class)
        else []
    )
    inner = [getattr(function, "function", function) for function in functions]
    if any(isinstance(function, PythonFunction) and machine.library.acts(function.node) for function in inner):
        machine.gap(f"the class of the module {module.name} becomes {describe_value(cls)}, which is not followed")


def _has_only_slots(machine: PythonMachine, cls: Class, name: str) -> bool:
    """Whether every class behind an object says which attributes it may have, and none has this one."""
    # One class without ``__slots__`` among the ancestors gives every object a dictionary (language reference, 3.3.2.4).
    if cls.is_open() or "__slots__" not in cls.names:
        return False
    for ancestor in cls.ancestry():
        if not isinstance(ancestor, Class):
            continue
        slots = slots_of(machine, ancestor)
        if slots is None or name in slots or "__dict__" in slots:
            return False
    return True


def slots_of(machine: PythonMachine, cls: Class) -> list[str] | None:
    """Return the names of the attributes that the ``__slots__`` of a class list; None if it has none, or they are not
    known.
    """
    slots = cls.names.get("__slots__")
    names = [slots] if isinstance(slots, str) else machine.items(slots) if slots is not None else None
    if names is None or isinstance(names, NotKnown):
        return None
    return [name_inside(slot, cls.name) for slot in names if isinstance(slot, str)]


def delete_attribute(machine: PythonMachine, value: object, name: str) -> None:
    """Execute ``del value.name``."""
    cls = class_of(value)
    hook = None if cls is None else cls.find("__delattr__")
    if cls is not None and hook is not None:
        machine.call(machine.bound(hook, value, cls), [name], {})
    else:
        delete_plainly(machine, value, name)


def delete_plainly(machine: PythonMachine, value: object, name: str) -> None:
    """Execute ``object.__delattr__``."""
    cls = class_of(value)
    member = ABSENT if cls is None else cls.find(name, ABSENT)
    if isinstance(member, Wrapped) and member.kind == "property" and member.deleter is not None:
        machine.call(member.deleter, [value], {})
        return
    if isinstance(member, Instance) and (deleter := member.cls.find("__delete__")) is not None:
        machine.call(machine.bound(deleter, member, member.cls), [value], {})
        return
    if isinstance(value, (Class, PythonModule)):
        names = _own_names(value) if isinstance(value, Class) else value.names
    elif isinstance(value, (Instance, PythonError, PythonFunction)):
        names = value.attributes
    else:
        if isinstance(value, Modelled):
            value.delete(name)
        return
    if machine.is_speculative:
        names.update(dict.fromkeys(names.keys() & {name}, PerhapsAbsent(f".{name}")))
    elif names.pop(name, ABSENT) is ABSENT and isinstance(value, Instance) and cls is not None and not cls.is_open():
        raise thrown(AttributeError, f"'{cls.name}' object has no attribute '{name}'")
