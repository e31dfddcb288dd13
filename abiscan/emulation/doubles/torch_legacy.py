"""Doubles of the other registration APIs: ``RegisterOperators`` of c10 and of the JIT, classes, backends.

Sources: ``ATen/core/op_registration/op_registration.h``, ``torch/csrc/jit/runtime/operator.h`` (``csrc/jit/operator.h``
up to 1.4), ``torch/custom_class_detail.h``, ``c10/core/impl/DeviceGuardImplInterface.h``.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from abiscan.emulation.cpp_function import Function, read_function
from abiscan.emulation.doubles import Doubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call
from abiscan.emulation.torch_state import Schema, TorchState

# sizeof(KernelRegistrationConfig): key, KernelFunction (32, 40, 24), signature, schema; up to 1.5 a KernelFunction of
# 64 bytes and no signature. In the order of how likely they are where nothing else tells.
_CONFIG_SIZES: Final = (64, 72, 56, 80)
_MAX_KERNELS_SIZE: Final = 1 << 16
_NAME: Final = re.compile(r"[\w.:<>-]+\s*(?:\(|$)", re.ASCII)
_CLASS_MAP: Final = "map of custom classes"
_FLAT_MAP: Final = struct.Struct("<QQbb2xfQ")
_ENTRY: Final = struct.Struct("<b7xQQQ")  # distance from where it belongs, type_info, shared_ptr<ClassType>
_FARTHEST, _EMPTY, _END, _SHORTEST_SEARCH = 127, -1, 0, 3
_DOCUMENTED: Final = re.compile(r"S\w?_(Ss|S\w?_)RKSt9type_info")  # a text by value after two by reference
_CLASS_PREFIX: Final = "__torch__.torch.classes."


def torch_legacy(state: TorchState) -> Doubles:
    """The doubles of everything that registers without ``torch::Library``."""
    doubles = Doubles()
    _register_operators(state, doubles)
    _jit_operators(state, doubles)
    _classes(state, doubles)
    return doubles


def _register_operators(state: TorchState, doubles: Doubles) -> None:
    recorder = state.recorder

    @doubles.matching(r"_ZN3c1017RegisterOperators25checkSchemaAndRegisterOp_EONS0_7OptionsE")
    def _register(call: Call) -> None:
        options = call.argument(1)
        # optional<variant<OperatorName, FunctionSchema>>: the flag is before the value or behind it, eight bytes either
        # way, so what follows is where it is.
        flag_first = not _is_string(state, options)
        given = state.read_name_or_schema(options + 8 if flag_first else options)
        if not given.name:
            raise Stop("a definition without a name", call.return_address)
        kernels = options + state.schema_size + 16
        begin, end = call.machine.words(kernels, 2)
        functions = _kernels(state, begin, end, flag_first=flag_first)
        inferred = next((function.schema.arguments for function in functions if function.schema), None)
        definition = recorder.define(
            None,
            given.name + (given.arguments or ""),
            inferred=inferred,
            alias_analysis=state.read_optional_byte(kernels + 24) if flag_first else None,
        )
        for function in functions:
            recorder.kernel(
                None,
                definition.name,
                function.key,
                signature=function.signature,
                inferred=function.schema.arguments if function.schema else None,
                boxed=function.boxed,
                fallthrough=function.fallthrough,
                definition=definition,
            )


def _is_string(state: TorchState, address: int) -> bool:
    """Whether a string lies at ``address`` that is, or begins with, the name of an operator or class."""
    try:
        text = state.string(address)
    except Stop:
        return False
    return _NAME.match(text) is not None


def _kernels(state: TorchState, begin: int, end: int, *, flag_first: bool) -> list[Function]:
    """The elements of a ``std::vector<KernelRegistrationConfig>``, whose size is one that puts every schema last."""
    machine, size = state.process.machine, end - begin
    if not 0 < size <= _MAX_KERNELS_SIZE:
        return []
    words = machine.words(begin, size // 8)
    ends = [8 * at + 8 for at, word in enumerate(words) if machine.is_heap(word) and state.marked_schema(word)]
    fitting = [each for each in _CONFIG_SIZES if size % each == 0]
    each = min(fitting, key=lambda each: sum(where % each != 0 for where in ends), default=None)
    if each is None:
        raise Stop(f"kernels of a size that no release has ({size} bytes in total)", machine.vm.pc)
    return [read_function(state, at, each // 8, flag_first=flag_first) for at in range(begin, end, each)]


def _jit_operators(state: TorchState, doubles: Doubles) -> None:
    @doubles.matching(r"_ZN5torch3jit16registerOperatorEONS0_8OperatorE")
    def _register(call: Call) -> None:
        """The schema is the first member: as text not parsed yet, or a ``FunctionSchema``, which begins with its name.

        Up to 1.4 there are both, a ``shared_ptr<FunctionSchema>``, then an ``optional<string>``; in 1.5 an ``either``
        of the two, which begins with a word or two of its own.
        """
        operator = call.argument(0)
        places = (operator, operator + 8, operator + 24, *call.machine.words(operator, 3))
        at = next((at for at in places if _is_string(state, at)), None)
        if at is None:
            raise Stop("a JIT operator without a readable schema", call.return_address)
        text = state.string(at)
        if "(" not in text:
            schema = state.marked_schema(at)
            text = schema.name + (schema.arguments or "") if schema else state.read_operator_name(at)
        state.recorder.define(None, text, jit_only=True)

    @doubles.matching(r"_ZNK3c106Symbol12toQualStringE")
    def _symbol_text(call: Call) -> int:
        number = call.machine.word(call.argument(0)) & 0xFFFF_FFFF
        text = call.process.allocate(state.strings.size)
        state.strings.create(call.process, text, state.symbol_text(number).encode())
        return call.machine.word(text)


def _classes(state: TorchState, doubles: Doubles) -> None:
    recorder = state.recorder
    holders: dict[int, int] = {}  # the type_info of what holds a class, and the class

    @doubles.matching(r"_ZN3c1021getCustomClassTypeMapE")
    def _map(_: Call) -> int:
        """Up to 1.11: the table from ``typeid`` to classes, in which inlined code searches, and up to 1.9 enters."""
        return _class_map(state)

    def write_map(address: int, classes: dict[int, int]) -> None:
        """Put classes into a ``ska::flat_hash_map``, for code that searches there from the first or second entry on.

        An entry that is as far away from where it belongs as can be is always looked at; so is the next. Where a search
        begins its hash tells: with two slots, of which the first one's content is in the second one, too.
        """
        entries = [*list(classes.items())[:1], *classes.items()]
        table = b"".join(_ENTRY.pack(_FARTHEST, key, *state.shared(value)) for key, value in entries)
        table += _ENTRY.pack(_EMPTY, 0, 0, 0) + _ENTRY.pack(_END, 0, 0, 0)
        state.process.machine.write(address, _FLAT_MAP.pack(state.process.store(table), 1, 63, len(entries), 0.5, 0))

    @doubles.matching(r"_ZN5torch6detail10class_baseC[12]E")
    def _open(call: Call) -> None:
        """(this, namespace, name, documentation, type_info of the holder, type_info of the capsule)."""
        if not state.string(call.argument(2)):
            raise Stop("a class without a name", call.return_address)
        this, name = call.argument(0), f"{state.string(call.argument(1))}.{state.string(call.argument(2))}"
        recorder.custom_class(name)
        first = 4 if _DOCUMENTED.search(call.name) else 3
        for index in (first, first + 1):
            holder = state.type_info_name(call.argument(index))
            if holder is not None:
                state.class_names[holder] = name
                holders[call.argument(index)] = state.type_object(_CLASS_PREFIX + name)
        write_map(_class_map(state), holders)
        state.strings.create(call.process, this, (_CLASS_PREFIX + name).encode())
        state.write_shared(this + state.strings.size, state.type_object(_CLASS_PREFIX + name))

    @doubles.matching(r"_ZN5torch6detail10class_base16withNewArgumentsE")
    def _with_defaults(call: Call) -> None:
        result = call.result
        schema = state.read_schema(call.argument(0))
        state.write_schema(result, schema or Schema("", None))

    @doubles.matching(r"_ZN5torch25registerCustomClassMethodE")
    def _add_method(call: Call) -> None:
        """A ``unique_ptr<Function>``, which lives on under its class."""
        recorder.method(*_method_name(state, call.machine.word(call.argument(0))))

    methods: dict[tuple[int, str], int] = {}

    @doubles.matching(r"_ZN3c109ClassType9addMethodE")
    def _attach_method(call: Call) -> None:
        methods[call.argument(0), _method_name(state, call.argument(1))[1]] = call.argument(1)

    @doubles.matching(r"_ZNK3c109ClassType(9get|10find)MethodE")
    def _get_method(call: Call) -> int:
        return methods.get((call.argument(0), state.string(call.argument(1))), 0)

    @doubles.matching(r"_ZN5torch19registerCustomClassESt10shared_ptrIN3c109ClassTypeE")
    def _register_class(call: Call) -> None:
        """Up to 1.7 the constructor of ``class_`` is inlined; the class is made by ``ClassType::create``.

        Whoever calls it today gives a class a second name.
        """
        text = state.qualified_name(call.machine.word(call.argument(0)))
        recorder.custom_class(text.removeprefix(_CLASS_PREFIX))

    @doubles.matching(r"_ZN3c109ClassType6createE")
    def _create_class(call: Call) -> None:
        """(optional<QualifiedName>, ...): the whole name follows its parts, and the flag is before or behind."""
        result = call.result
        name = call.argument(0)
        at = next((at for at in (name + 24, name + 32) if _is_string(state, at)), None)
        state.write_shared(result, state.type_object(state.string(at) if at is not None else "?"))


def _class_map(state: TorchState) -> int:
    """The address of the table of custom classes, empty at first.

    Up to 1.6 it is a ``std::unordered_map``, then ``ska::flat_hash_map`` (``c10/util/flat_hash_map.h``): entries,
    number of slots less one, shift of the hash, longest search, load, size.
    """
    address, known = state.process.bind(_CLASS_MAP), _CLASS_MAP in state.made
    if not known and not state.has_flat_class_map:
        state.write_table(address)
    elif not known:
        entries = _ENTRY.pack(_EMPTY, 0, 0, 0) * _SHORTEST_SEARCH + _ENTRY.pack(_END, 0, 0, 0)
        table = _FLAT_MAP.pack(state.process.store(entries), 0, 63, _SHORTEST_SEARCH, 0.5, 0)
        state.process.machine.write(address, table)
    state.made.add(_CLASS_MAP)
    return address


def _method_name(state: TorchState, function: int) -> tuple[str, str]:
    """(class, method) of a ``jit::Function``: virtual pointer, then its qualified name (the parts, then the whole)."""
    class_name, _, method = state.string(function + 8 + 24).rpartition(".")
    return class_name.removeprefix(_CLASS_PREFIX), method
