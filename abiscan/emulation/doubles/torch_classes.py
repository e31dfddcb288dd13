"""Doubles of ``torch::class_``: ``torch/{custom_class, custom_class_detail}.h``, ``ATen/core/class_type.h``."""

from __future__ import annotations

import struct
from typing import Final

from abiscan.binary import registration_api as api
from abiscan.emulation.doubles import SharedDoubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call
from abiscan.emulation.schema_objects import Schema
from abiscan.emulation.torch_state import TorchState
from abiscan.regex import regex

_CLASS_MAP: Final = "map of custom classes"
_FLAT_MAP: Final = struct.Struct("<QQbb2xfQ")
_ENTRY: Final = struct.Struct("<b7xQQQ")  # distance from where it belongs, type_info, shared_ptr<ClassType>
_FARTHEST, _EMPTY, _END, _SHORTEST_SEARCH = 127, -1, 0, 3
_DOCUMENTED: Final = regex(r"S\w?_(Ss|S\w?_)RKSt9type_info")  # a text by value after two by reference
_CLASS_PREFIX: Final = "__torch__.torch.classes."


class Classes:
    """The custom classes of one process: the table in which inlined code looks them up, and their methods."""

    def __init__(self, state: TorchState) -> None:
        self.state = state
        self.methods: dict[tuple[int, str], int] = {}  # a ClassType and the name of a method -> the jit::Function
        self._holders: dict[int, int] = {}  # the type_info of a holder -> the class
        self._map: int | None = None

    def hold(self, type_info: int, type_: int) -> None:
        """Map the ``type_info`` of a holder to a class in the table."""
        self._holders[type_info] = type_

    def map(self) -> int:
        """Return the address of the table of custom classes, empty at first.

        Up to 1.6 it is a ``std::unordered_map``, then ``ska::flat_hash_map`` (``c10/util/flat_hash_map.h``): entries,
        number of slots less one, shift of the hash, longest search, load, size.
        """
        if self._map is None:
            self._map = self.state.process.bind(_CLASS_MAP)
            if self.state.has_flat_class_map:
                entries = _ENTRY.pack(_EMPTY, 0, 0, 0) * _SHORTEST_SEARCH + _ENTRY.pack(_END, 0, 0, 0)
                table = _FLAT_MAP.pack(self.state.process.store(entries), 0, 63, _SHORTEST_SEARCH, 0.5, 0)
                self.state.process.machine.write(self._map, table)
            else:
                self.state.write_table(self._map)
        return self._map

    def write_map(self) -> None:
        """Put the classes into a ``ska::flat_hash_map``, for code that searches from the first or second entry on.

        An entry that is as far away from where it belongs as can be is always looked at; so is the next. Where a search
        begins its hash tells: with two slots, of which the first one's content is in the second one, too.
        """
        # ``flat_hash_map::find`` goes on while the distance of an entry is at least that of the search
        # (flat_hash_map.h): with the greatest distance in every entry it looks at all of them, and at the empty one it
        # ends.
        entries = [*list(self._holders.items())[:1], *self._holders.items()]
        table = b"".join(_ENTRY.pack(_FARTHEST, key, *self.state.types.shared(value)) for key, value in entries)
        table += _ENTRY.pack(_EMPTY, 0, 0, 0) + _ENTRY.pack(_END, 0, 0, 0)
        content = _FLAT_MAP.pack(self.state.process.store(table), 1, 63, len(entries), 0.5, 0)
        self.state.process.machine.write(self.map(), content)

    def method_name(self, function: int) -> tuple[str, str]:
        """Return the class and the name of a ``jit::Function``: virtual pointer, then its qualified name."""
        class_name, _, method = self.state.string(function + 8 + 24).rpartition(".")
        return class_name.removeprefix(_CLASS_PREFIX), method


TORCH_CLASSES: Final = SharedDoubles[Classes]()


@TORCH_CLASSES.matching(r"_ZN3c1021getCustomClassTypeMapE")
def _get_custom_class_type_map(classes: Classes, _: Call) -> int:
    """Return the table from ``typeid`` to classes, which inlined code searches up to 1.11, and fills up to 1.9."""
    return classes.map()


@TORCH_CLASSES.matching(api.OPEN_CLASS)
def _class_base_constructor(classes: Classes, call: Call) -> None:
    """Begin a custom class. Takes (this, namespace, name, documentation, type_info of the holder, type_info of the
    capsule).
    """
    state = classes.state
    if not state.string(call.argument(2)):
        raise Stop("a class without a name", call.return_address)
    this_address, name = call.argument(0), f"{state.string(call.argument(1))}.{state.string(call.argument(2))}"
    state.recorder.custom_class(name)
    first = 4 if _DOCUMENTED.search(call.name) else 3
    for index in (first, first + 1):
        holder = state.type_info_name(call.argument(index))
        if holder is not None:
            state.class_names[holder] = name
            classes.hold(call.argument(index), state.types.object_of(_CLASS_PREFIX + name))
    classes.write_map()
    state.strings.create(call.process, this_address, (_CLASS_PREFIX + name).encode())
    state.types.write_shared(this_address + state.strings.size, state.types.object_of(_CLASS_PREFIX + name))


@TORCH_CLASSES.matching(r"_ZN5torch6detail10class_base(16withNewArguments|22withNewArgumentsStatic)E")
def _class_base_with_new_arguments(classes: Classes, call: Call) -> None:
    result = call.result
    schema = classes.state.schemas.read(call.argument(0))
    classes.state.schemas.write(result, schema or Schema("", None))


@TORCH_CLASSES.matching(api.REGISTER_METHOD)
def _register_custom_class_method(classes: Classes, call: Call) -> None:
    """Take a ``unique_ptr<Function>``, whose object torch keeps: else the caller would destroy it."""
    holder = call.argument(0)
    classes.state.recorder.method(*classes.method_name(call.machine.word(holder)))
    call.machine.set_word(holder, 0)


@TORCH_CLASSES.matching(r"_ZN3c109ClassType9addMethodE")
def _class_type_add_method(classes: Classes, call: Call) -> None:
    classes.methods[call.argument(0), classes.method_name(call.argument(1))[1]] = call.argument(1)


@TORCH_CLASSES.matching(r"_ZN3c109ClassType(15addStaticMethod|11addProperty|12addAttribute)E")
def _class_type_add_other(_: Classes, call: Call) -> None:
    """Do nothing: neither is recorded."""


@TORCH_CLASSES.matching(r"_ZNK3c109ClassType(9get|10find)MethodE")
def _class_type_get_method(classes: Classes, call: Call) -> int:
    return classes.methods.get((call.argument(0), classes.state.string(call.argument(1))), 0)


@TORCH_CLASSES.matching(api.REGISTER_CLASS)
def _register_custom_class(classes: Classes, call: Call) -> None:
    """Register the class that ``ClassType::create`` makes: up to 1.7 the constructor of ``class_`` is inlined.

    Whoever calls it today gives a class a second name.
    """
    text = classes.state.types.qualified_name(call.machine.word(call.argument(0)))
    classes.state.recorder.custom_class(text.removeprefix(_CLASS_PREFIX))


@TORCH_CLASSES.matching(r"_ZN3c109ClassType6createE")
def _class_type_create(classes: Classes, call: Call) -> None:
    """Make the type of a custom class. Takes (optional<QualifiedName>, ...); the whole name follows its parts, and
    the flag is before or behind.
    """
    state, result = classes.state, call.result
    name = call.argument(0)
    at = next((at for at in (name + 24, name + 32) if state.is_name_at(at)), None)
    state.types.write_shared(result, state.types.object_of(state.string(at) if at is not None else "?"))
