"""Classes: how a ``class`` statement makes one, and how calling one makes an object.

In the order of Python's data model (3.3.3): the metaclass is found, prepares the names, and is called with what the
body has bound; ``type.__new__`` then tells the names (``__set_name__``) and the base (``__init_subclass__``).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Final

from abiscan.python.interpreter import attributes, special
from abiscan.python.interpreter.builtin_methods import construct_built_in
from abiscan.python.interpreter.models import enum_
from abiscan.python.interpreter.models.dataclasses_ import DataField, is_annotated, is_field
from abiscan.python.interpreter.statements import Statements, with_parameters
from abiscan.python.interpreter.values import (
    ABSENT,
    Class,
    HasAttributes,
    Instance,
    MoreItems,
    NotKnown,
    PythonError,
    PythonFunction,
    Scope,
    Thrown,
    Wrapped,
    class_of,
    order_conflict,
    thrown,
)
from abiscan.python.language.late_bodies import docstring_of
from abiscan.python.language.private_names import written_name
from abiscan.python.language.refusals import missing_arguments, too_many_arguments

_STEPS_OF_A_CLASS: Final = 150
"""How many steps take as long as making a class; without them, a loop around one takes minutes to its limit."""
_OF_CLASSES: Final = frozenset({"__init_subclass__", "__class_getitem__"})
"""The functions that get the class without a decorator: type_new_classmethod in Objects/typeobject.c."""
_PLAIN = (list, dict, set, frozenset, str, bytes, int, float, tuple)
"""The built-in types whose value an object of a class that derives from them has inside."""


class ClassMaking(Statements):
    """Makes classes and objects."""

    def bound(self, member: object, receiver: object, cls: Class | None) -> object:
        """Return what a name found in a class gives when it is taken from an object, or from the class (no
        receiver).
        """
        return attributes.bind(self, member, receiver, cls)

    def members(self, cls: Class) -> list[object] | None:
        """Return the members of an enumeration, None if the class is none."""
        return enum_.enumeration_members(self, cls)

    def member_named(self, cls: Class, name: object) -> object:
        """Return the member that an enumeration has by a name; None if it has none, an unknown if that is not known."""
        return enum_.member_named(cls, name)

    def define_class(self, node: ast.ClassDef, scope: Scope) -> object:
        """Return what a ``class`` statement makes, before its decorators."""
        self.count_steps(_STEPS_OF_A_CLASS)
        scope = with_parameters(node, scope)
        bases = tuple(self._evaluate_bases(node, scope))
        passed = {
            keyword.arg: self.evaluate(keyword.value, scope) for keyword in node.keywords if keyword.arg is not None
        }
        named = passed.pop("metaclass", None)
        metaclass = self._choose_metaclass(named, bases)
        # ``names`` is what the body binds. A metaclass may prepare some of them, or watch what is bound; its mapping is
        # copied, so it sees the names only once the body has run.
        name = written_name(node)
        qualified = scope.qualify(name)
        names: dict[str, object] = {
            "__doc__": docstring_of(node),
            "__module__": scope.module.name,
            "__qualname__": qualified,
        }
        prepare = None if metaclass is None else metaclass.find("__prepare__")
        if prepare is not None:
            prepared = special.plain_value(self.call(self.bound(prepare, None, metaclass), [name, bases], dict(passed)))
            if isinstance(prepared, Mapping):
                names |= {str(key): value for key, value in prepared.items() if isinstance(key, str)}
        inner = Scope(names, scope.module, scope, is_class=True, prefix=f"{qualified}.")
        self.execute_whole(node.body, inner)
        annotated = [
            keyword.target.id
            for keyword in node.body
            if isinstance(keyword, ast.AnnAssign) and isinstance(keyword.target, ast.Name)
        ]
        # Only the text of an annotation counts: whether it is ClassVar, InitVar or KW_ONLY. Those that act are
        # evaluated where the statement is.
        if annotated:
            names["__annotations__"] = {
                keyword.target.id: NotKnown(self.source_of(keyword.annotation))
                for keyword in node.body
                if isinstance(keyword, ast.AnnAssign) and isinstance(keyword.target, ast.Name)
            }
        arguments: list[object] = [name, bases, names]
        if metaclass is None:
            # A metaclass that is not known may take the keywords.
            is_of_type = named is None or named is type
            return self.make_class(None, arguments, dict(passed) if is_of_type else {})
        return self.call(metaclass, arguments, dict(passed))

    def _evaluate_bases(self, node: ast.ClassDef, scope: Scope) -> list[object]:
        results: list[object] = []
        for base in node.bases:
            if isinstance(base, ast.Starred):
                more = self.items(self.evaluate(base.value, scope))
                results.extend([more] if isinstance(more, NotKnown) else more)
                continue
            value = self.evaluate(base, scope)
            # An object among the bases names classes in its place (PEP 560). Python passes it all bases; here it gets
            # none.
            entries = special.special_method(self, value, "__mro_entries__") if isinstance(value, Instance) else None
            if entries is not None and not isinstance(entries, NotKnown):
                more = self.items(self.call(entries, [()], {}))
                results.extend([more] if isinstance(more, NotKnown) else more)
            else:
                results.append(value)
        return results

    def _choose_metaclass(self, named: object, bases: tuple[object, ...]) -> Class | None:
        """Return the metaclass of a class of the package, None for ``type`` and for one that is not known.

        :raises Thrown: none of those that are known derives from all others
        """
        # _PyType_CalculateMetaclass in Objects/typeobject.c: of the one that is named and those of the bases, the one
        # that derives from all others.
        kinds = [base.metaclass for base in bases if isinstance(base, Class) and base.metaclass is not None]
        if isinstance(named, Class) and named.host() is type:
            kinds.insert(0, named)
        elif isinstance(named, Class):
            return named  # a function in the place of a metaclass is called as it is
        chosen = next((kind for kind in kinds if all(rival in kind.ancestry() for rival in kinds)), None)
        unclear = isinstance(named, NotKnown) or any(kind.is_open() for kind in kinds) or self.is_speculative
        if chosen is None and kinds and not unclear:
            raise thrown(TypeError, _METACLASS_CONFLICT)
        return chosen

    def derive_class(self, args: list[object], kwargs: dict[str, object]) -> object:
        """Execute ``type(name, bases, names)``: the metaclass of the bases makes the class, and initialises it."""
        # type_new and type_call in Objects/typeobject.c.
        bases = args[1] if isinstance(args[1], tuple) else ()
        metaclass = self._choose_metaclass(None, bases)
        if metaclass is None and type(args[2]) is dict and any(map(enum_.is_enumeration, bases)):
            # EnumType.__new__ (Lib/enum.py) needs what its ``__prepare__`` gives, which nobody calls here.
            raise thrown(AttributeError, "'dict' object has no attribute '_member_names'")
        return self.make_class(None, args, kwargs) if metaclass is None else self.instantiate(metaclass, args, kwargs)

    def make_class(self, metaclass: Class | None, args: list[object], kwargs: dict[str, object]) -> object:
        """Execute ``type.__new__``: return a class, made of its name, bases and names."""
        names = special.plain_value(args[2]) if len(args) > 2 else None
        if not isinstance(args[0], str) or not isinstance(names, dict):
            return NotKnown("type.__new__()")
        bases = args[1] if isinstance(args[1], tuple) else ()
        own = {str(name): value for name, value in names.items() if isinstance(name, str)}
        qualified = own.pop("__qualname__", args[0])
        made = Class(args[0], bases, own, str(own.get("__module__", "")), str(qualified), metaclass=metaclass)
        self.count_steps(len(made.ancestry()))
        annotations = own.get("__annotations__")
        made.annotated.extend(map(str, annotations) if isinstance(annotations, dict) else ())
        if not self.is_speculative and (rivals := order_conflict(bases)):
            raise thrown(TypeError, f"{_ORDER_CONFLICT} {', '.join(rival.name for rival in rivals)}")
        for base in bases:
            if isinstance(base, Class):
                base.subclasses.append(made)
        # As type_new (Objects/typeobject.c): ``__set_name__`` of each member first, then ``__init_subclass__`` of the
        # base.
        for name, value in list(own.items()):
            inner = getattr(value, "function", value)
            # The class whose body has defined the function is what ``super()`` starts from, even if another class takes
            # the function over later.
            if isinstance(inner, PythonFunction) and inner.owner is None:
                inner.owner = made
            if name in _OF_CLASSES and isinstance(value, PythonFunction):
                own[name] = Wrapped("classmethod", value)
            if isinstance(value, Instance) and (hook := value.cls.find("__set_name__")) is not None:
                self._set_name(self.bound(hook, value, value.cls), value, made, name)
        for slot in attributes.slots_of(self, made) or ():
            if not slot.startswith("__"):  # ``__dict__``, ``__weakref__``
                own.setdefault(slot, Wrapped("slot", slot))
        enum_.finish_enumeration(self, made)
        # EnumType.__new__ (Lib/enum.py) takes one for itself.
        self._tell_base(made, {key: kwargs[key] for key in kwargs if key != "boundary" or made.enumeration is None})
        return made

    def _set_name(self, hook: object, value: Instance, made: Class, name: str) -> None:
        try:
            self.call(hook, [made, name], {})
        except Thrown as error:
            # Up to 3.11, type_new_set_names wraps the error; since then, it adds a note to it, which is not in its
            # text.
            if not self.before(3, 12):
                raise
            text = f"Error calling __set_name__ on '{value.cls.name}' instance '{name}' in '{made.name}'"
            loads = set(error.failure.loads)
            raise Thrown(
                PythonError(RuntimeError, (text,), cause=error.failure, at=self.place(), loads=loads)
            ) from None

    def _tell_base(self, made: Class, kwargs: dict[str, object]) -> None:
        """Execute ``__init_subclass__`` of the nearest ancestor that has one."""
        for base in made.ancestry()[1:]:
            hook = base.names.get("__init_subclass__") if isinstance(base, Class) else None
            if hook is not None:
                self.call(self.bound(hook, None, made), [], kwargs)
                return
            # A base that is not known may have the method, and would be asked before those after it.
            if not isinstance(base, (Class, type)):
                return
        if kwargs and not self.is_speculative and made.host() is None:
            raise thrown(TypeError, f"{made.qualified}.__init_subclass__() takes no keyword arguments")

    # ---- objects

    def instantiate(self, cls: Class, args: list[object], kwargs: dict[str, object]) -> object:
        """Execute ``type.__call__``: return an object of a class, made and initialised."""
        # Calling an enumeration looks a member up: its metaclass overrides ``__call__`` (Lib/enum.py).
        member = enum_.by_value(self, cls, args, kwargs)
        if member is not None:
            return member
        new = cls.find("__new__", ABSENT)
        if cls.host() is type:
            made = self._made_by_metaclass(cls, new, args, kwargs)
        elif new is ABSENT:
            made = self.create(cls, args, kwargs)
        else:
            made = self.call(getattr(new, "function", new), [cls, *args], kwargs)
        # What ``__new__`` returns is initialised only if it is an object of the class: type_call in
        # Objects/typeobject.c.
        kind = class_of(made)
        if kind is None or cls not in kind.ancestry():
            return made
        initialise = kind.find("__init__", ABSENT)
        if initialise is not ABSENT and isinstance(initialise, NotKnown) and isinstance(made, Instance):
            self.call(initialise, [made, *args], kwargs)
            return NotKnown(f"{cls.name}()")  # it may have any attribute
        if initialise is not ABSENT:
            result = self.call(self.bound(initialise, made, kind), args, kwargs)
            if result is not None and isinstance(result, (str, int, float, list, tuple, dict, Instance)):
                raise thrown(TypeError, f"__init__() should return None, not '{special.type_name(result)}'")
        elif isinstance(made, Instance):
            self._initialise_plainly(made, args, kwargs, takes_none=new is ABSENT)
        return made

    def _made_by_metaclass(self, cls: Class, new: object, args: list[object], kwargs: dict[str, object]) -> object:
        if new is ABSENT:
            return self.make_class(cls, args, kwargs if cls.find("__init__") is None else {})
        return self.call(getattr(new, "function", new), [cls, *args], kwargs)

    def create(self, cls: Class, args: list[object], kwargs: dict[str, object]) -> object:
        """Execute ``object.__new__``: return an object of a class, which is not initialised yet."""
        host = cls.host()
        if host is not None and issubclass(host, BaseException):
            return PythonError(cls, tuple(args))
        if host in _PLAIN:
            # ``list``, ``dict`` and ``set`` are filled by ``__init__``: one of the package decides what goes in. The
            # immutable types get their value in ``__new__``.
            own = cls.find("__init__", ABSENT) is not ABSENT
            passed = [] if own and host in {list, dict, set} else args
            return Instance(cls, inner=construct_built_in(self, host, passed, {} if own else kwargs))
        missing = sorted(name for name in self.abstract_methods(cls))
        if missing:
            # object_new in Objects/typeobject.c, whose words changed in 3.9 and in 3.12.
            plural = "s" if len(missing) > 1 or self.before(3, 9) else ""
            text = f"with abstract method{plural} {', '.join(missing)}"
            if self.since(3, 12):
                text = f"without an implementation for abstract method{plural} {', '.join(map(repr, missing))}"
            raise thrown(TypeError, f"Can't instantiate abstract class {cls.name} {text}")
        return Instance(cls)

    def is_abstract(self, cls: Class) -> bool:
        """Whether it derives from ``ABC``, or is made by ``ABCMeta``."""
        return any(map(_is_abstract_base, cls.ancestry()))

    def abstract_methods(self, cls: Class) -> set[str]:
        """Return the abstract methods that no derived class has overridden."""
        if not self.is_abstract(cls):
            return set()
        names = {name for ancestor in cls.ancestry() if isinstance(ancestor, Class) for name in ancestor.names}
        member = ((name, cls.find(name)) for name in names)
        functions = ((name, getattr(value, "function", value)) for name, value in member)
        return {
            name
            for name, value in functions
            if isinstance(value, PythonFunction) and value.attributes.get("__isabstractmethod__") is True
        }

    def _initialise_plainly(
        self, made: Instance, args: list[object], kwargs: dict[str, object], *, takes_none: bool
    ) -> None:
        """Do what happens to an object whose classes have no ``__init__``: that of a named tuple sets its fields."""
        cls = made.cls
        if cls.is_open():
            self.fill_in(cls, made, args, kwargs)
        # object_new (Objects/typeobject.c) refuses arguments only if the class overrides neither ``__new__`` nor
        # ``__init__``.
        elif takes_none and (args or kwargs) and cls.host() is None and not self.is_speculative:
            raise thrown(TypeError, f"{cls.name}() takes no arguments")

    def fill_in(self, cls: Class, made: HasAttributes, args: list[object], kwargs: dict[str, object]) -> None:
        """Do what the ``__init__`` does that a dataclass or a named tuple makes of its fields."""
        if not cls.is_dataclass and not cls.fields():
            return
        if cls.shape is None:
            cls.shape = _shape_of(cls)
        fields, given, positional = cls.shape
        # An unknown number of arguments may fill any field after those that come before it.
        more_arguments = next((argument for argument in args if isinstance(argument, MoreItems)), None)
        if more_arguments is not None:
            made.attributes.update({name: more_arguments.part(f".{name}") for name in given})
            args = args[: args.index(more_arguments)]
        made.attributes.update(zip(positional, args, strict=False))
        made.attributes.update(kwargs)
        # As _init_fn (Lib/dataclasses.py): what was not passed comes from the class, or from a factory, which is called
        # each time. A field without either is lacking.
        lacking = []
        for name in fields:
            if name in made.attributes:
                continue
            default = cls.find(name, ABSENT)
            if isinstance(default, DataField):
                default = default.default if default.factory is None else self.call(default.factory, [], {})
            if default is not ABSENT and not is_annotated(cls, name, "InitVar"):
                made.attributes[name] = default
            if default is ABSENT and _is_given(cls, name):
                lacking.append(name)
        is_open = any(kind is not None and kind.is_open() for kind in (cls, class_of(made)))
        if cls.is_dataclass and not is_open and not self.is_speculative and more_arguments is None:
            _check_arguments(cls, positional, args, kwargs)
            _check_fields(cls, fields, lacking, args, kwargs)
        # It gets the fields that are InitVar, in their order, and no others.
        finish = (class_of(made) or cls).find("__post_init__")
        if isinstance(finish, PythonFunction):
            only_given = [
                made.attributes.get(name, cls.find(name)) for name in fields if is_annotated(cls, name, "InitVar")
            ]
            self.call_function(finish, [made, *only_given], {})

    def call_function(self, function: PythonFunction, args: list[object], kwargs: dict[str, object]) -> object:
        """Run a function of the package."""
        raise NotImplementedError


_METACLASS_CONFLICT: Final = (
    "metaclass conflict: the metaclass of a derived class must be a (non-strict) subclass of the metaclasses of all its"
    " bases"
)


_ORDER_CONFLICT: Final = "Cannot create a consistent method resolution\norder (MRO) for bases"


def _is_abstract_base(ancestor: object) -> bool:
    """Whether objects of classes that derive from it need all abstract methods: ``ABC``, or one made by ``ABCMeta``."""
    if not isinstance(ancestor, Class):
        return False
    metaclass = ancestor.metaclass
    makers = () if metaclass is None else metaclass.ancestry()
    return "__abiscan_abstract__" in ancestor.names or any(
        isinstance(maker, Class) and (maker.module, maker.name) == ("abc", "ABCMeta") for maker in makers
    )


def _shape_of(cls: Class) -> tuple[list[str], list[str], list[str]]:
    """Return the fields of a dataclass or named tuple, those that ``__init__`` takes, and those of them by position."""
    fields = [name for name in cls.fields() if is_field(cls, name)]
    given = [name for name in fields if _is_given(cls, name)]
    return fields, given, [name for name in given if name not in cls.keyword_fields]


def _is_given(cls: Class, name: str) -> bool:
    """Whether ``__init__`` has an argument for a field."""
    member = cls.find(name, ABSENT)
    return not isinstance(member, DataField) or member.in_init


def _check_arguments(cls: Class, positional: list[str], args: list[object], kwargs: dict[str, object]) -> None:
    """Raise what Python raises if a dataclass gets more arguments than it has fields for them."""
    if len(args) <= len(positional):
        return
    values = [cls.find(name, ABSENT) for name in positional]
    values = [value.default if isinstance(value, DataField) and not value.factory else value for value in values]
    defaults = len(values) - values.count(ABSENT)
    keywords = len(cls.keyword_fields & kwargs.keys())
    name = f"{cls.qualified or cls.name}.__init__"
    raise thrown(TypeError, too_many_arguments(name, len(positional) + 1, defaults, len(args) + 1, keywords))


def _check_fields(
    cls: Class, fields: list[str], lacking: list[str], args: list[object], kwargs: dict[str, object]
) -> None:
    """Raise what Python raises if a dataclass gets arguments that are no fields, or lacks some."""
    unclear = any(isinstance(argument, NotKnown) for argument in args)
    second = next((name for name in kwargs if name not in fields), None)
    if unclear or any("InitVar" in str(getattr(argument, "name", "")) for argument in _annotations_of_bases(cls)):
        return
    name = f"{cls.qualified or cls.name}.__init__"
    if second is not None:
        raise thrown(TypeError, f"{name}() got an unexpected keyword argument '{second}'")
    if lacking:
        by_position_first = sorted(lacking, key=cls.keyword_fields.__contains__)
        raise thrown(TypeError, missing_arguments(name, by_position_first, cls.keyword_fields))


def _annotations_of_bases(cls: Class) -> list[object]:
    result = (ancestor.names.get("__annotations__") for ancestor in cls.ancestry() if isinstance(ancestor, Class))
    return [value for ancestor in result if isinstance(ancestor, dict) for value in ancestor.values()]
