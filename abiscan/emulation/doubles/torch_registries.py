"""Doubles of torch's other registries: those of backends, and every ``c10::Registry``.

An entry of a backend is made by one call of torch. A registry is an object of torch that inlined code fills: here it is
an empty one, and what is in it after each function is an entry. ``c10::Registry`` (``c10/util/Registry.h``) begins with
its ``unordered_map``, of which there are two more; some registries are nothing but such a table, and so is the set of
keys of ``AcceleratorAllocatorConfig`` (``c10/core/AllocatorConfig.h``), torch's own of which are not in it here.
"""

from __future__ import annotations

import contextlib
import re
from typing import Final

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.machine import Stop
from abiscan.emulation.process import Call, Double
from abiscan.emulation.torch_state import TorchState

# What is registered, and which argument says for what, if any does.
_CALLS: Final = {
    r"_ZN3c104impl24DeviceGuardImplRegistrarC[12]E": ("device-guard", 1),
    r"_ZN3c1012SetAllocatorENS_10DeviceTypeE": ("allocator", 0),
    r"_ZN3c1020SetStorageImplCreateENS_10DeviceTypeE": ("storage", 0),
    r"_ZN2at33RegisterPrivateUse1HooksInterfaceE": ("privateuse1-hooks", None),
    r"_ZN2at18_GeneratorRegisterC[12]E": ("privateuse1-generator", None),
    r"_ZN5torch8profiler4impl26registerPrivateUse1MethodsE": ("privateuse1-profiler", None),
}
_REGISTRY: Final = r"_ZN\d\w*Registry(?:B5cxx11)?Ev$"
_SIZE: Final = re.compile(r"\d+")
_KEYS: Final = r"_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig14getMutableKeys"
_HOOK: Final = r"_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig19getConfigParserHook"
_KEYS_NAME: Final = "AcceleratorAllocatorConfig"
_FUNCTION_SIZE: Final = 32  # sizeof(std::function)
_FIRST, _COUNT = 16, 24  # in a std::unordered_map
_TABLES_AT: Final = (0, 56, 120)  # in a c10::Registry: two, two flags, one more
_MAX_ENTRIES: Final = 10_000
_TEXT: Final = re.compile(r"[\x20-\x7e]+")


class Registries:
    """The registries that the code of an object fills."""

    def __init__(self, state: TorchState) -> None:
        self._state = state
        self._tables: dict[str, int] = {}  # the address of each, by name
        self._entered: dict[str, set[str | int]] = {}

    def table(self, name: str) -> int:
        """The address of a registry, which is empty at first."""
        if name not in self._tables:
            self._tables[name] = address = self._state.process.bind(f"registry {name}")
            for offset in _TABLES_AT:
                self._state.write_table(address + offset)
        return self._tables[name]

    def collect(self) -> None:
        """Record what has been entered since the last time."""
        for name, address in self._tables.items():
            known = self._entered.setdefault(name, set())
            for key in reversed(self._keys(address)):  # a new node becomes the first
                if key not in known:
                    known.add(key)
                    self._state.recorder.registry(name, key)

    def _keys(self, table: int) -> list[str | int]:
        machine = self._state.process.machine
        found: list[str | int] = []
        with contextlib.suppress(Stop):  # a function that came to nothing may have left nonsense
            node = machine.word(table + _FIRST)
            while node and len(found) < min(machine.word(table + _COUNT), _MAX_ENTRIES):
                found.append(self._key(node + 8))
                node = machine.word(node)
        return found

    def _key(self, address: int) -> str | int:
        """A ``std::string``, or a number."""
        try:
            text = self._state.string(address)
        except Stop:
            text = ""
        if _TEXT.fullmatch(text):
            return text
        return int.from_bytes(self._state.process.machine.read(address, 4), "little", signed=True)


def torch_registries(state: TorchState, registries: Registries) -> Doubles:
    """The doubles of what gives a registry, and of what makes an entry by itself."""
    doubles = Doubles()

    def entry(what: str, index: int | None) -> Double:
        def double(call: Call) -> None:
            state.recorder.registry(what, None if index is None else call.argument(index) & 0xFF)

        return double

    for pattern, (what, index) in _CALLS.items():
        doubles.matching(pattern)(entry(what, index))

    @doubles.matching(r"_ZN3c1028register_privateuse1_backendE")
    def _rename(call: Call) -> None:
        state.recorder.registry("privateuse1-backend", state.string(call.argument(0)))

    @doubles.matching(_REGISTRY)
    def _registry(call: Call) -> int:
        return registries.table(_function_name(call.name))

    @doubles.matching(r"_ZN3c108demangleE", r"_ZN3c108demangleB5cxx11E")
    def _demangle(call: Call) -> None:
        """The help text of an entry is the name of its class: as it is mangled."""
        result = call.result
        state.strings.create(call.process, result, call.machine.text(call.argument(0)))

    @doubles.matching(_KEYS)
    def _keys(_: Call) -> int:
        return registries.table(_KEYS_NAME)

    @doubles.matching(_HOOK)
    def _hook(call: Call) -> int:
        return call.process.allocate(_FUNCTION_SIZE)

    return doubles


def _function_name(mangled: str) -> str:
    """The last part of a nested name: ``f`` of ``_ZN2at1fEv``."""
    at, name = len("_ZN"), mangled
    while size := _SIZE.match(mangled, at):
        name = mangled[size.end() : size.end() + int(size[0])]
        at = size.end() + int(size[0])
    return name
