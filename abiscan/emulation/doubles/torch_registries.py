"""Doubles of torch's other registries: those of backends, and every ``c10::Registry``.

An entry of a backend is made by one call of torch. A registry is an object of torch that inlined code fills: here it
is an empty one whenever code asks for it, for what is entered twice would end the process; and what is found in it
afterwards is an entry. ``c10::Registry`` (``c10/util/Registry.h``) begins with its ``unordered_map``, of which there
are two more, the first of them with the priorities; some registries are nothing but one such table, and so is the set
of keys of ``AcceleratorAllocatorConfig`` (``c10/core/AllocatorConfig.h``), torch's own of which are not in it here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.model import ALLOCATOR, ALLOCATOR_SETTINGS
from abiscan.emulation.process import Call, Double
from abiscan.emulation.torch_state import TorchState

# What is registered, and which arguments say for what and with which priority, if any do.
_CALLS: Final = {
    r"_ZN3c104impl24DeviceGuardImplRegistrarC[12]E": ("device-guard", 1, None),
    r"_ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorEh": (ALLOCATOR, 0, 2),
    r"_ZN3c1012SetAllocatorENS_10DeviceTypeEPNS_9AllocatorE$": (ALLOCATOR, 0, None),
    r"_ZN3c1020SetStorageImplCreateENS_10DeviceTypeE": ("storage", 0, None),
    r"_ZN2at33RegisterPrivateUse1HooksInterfaceE": ("privateuse1-hooks", None, None),
    r"_ZN2at18_GeneratorRegisterC[12]E": ("privateuse1-generator", None, None),
    r"_ZN5torch8profiler4impl26registerPrivateUse1MethodsE": ("privateuse1-profiler", None, None),
}
REGISTRY: Final = r"_ZN\d\w*Registry(?:B5cxx11)?Ev"
"""The functions that give a registry."""

_SIZE: Final = re.compile(r"\d+")
SETTINGS: Final = r"_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig14getMutableKeys\w*"
"""The function that gives the keys of allocator settings."""

_HOOK: Final = r"_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig19getConfigParserHook"
_FUNCTION_SIZE: Final = 32  # sizeof(std::function)
_FIRST, _COUNT = 16, 24  # in a std::unordered_map
_PRIORITIES: Final = (1, 2, 3)  # RegistryPriority
_PRIORITIES_AT: Final = 56
_TABLES_AT: Final = (0, _PRIORITIES_AT, 120)  # in a c10::Registry: two, two flags, one more
_BUCKETS: Final = 251  # so many that every entry becomes the first of its own, and the order of entries is kept
_MAX_ENTRIES: Final = 10_000
_TEXT: Final = re.compile(r"[\x20-\x7e]+")


class Registries:
    """The registries that the code of an object fills."""

    def __init__(self, state: TorchState) -> None:
        self._state = state
        self._tables: dict[str, int] = {}  # the address of each, by name
        state.recorder.settle = self.collect

    def table(self, name: str) -> int:
        """The address of a registry, which is empty."""
        self.collect()
        if name not in self._tables:
            self._tables[name] = self._state.process.bind(f"registry {name}")
            self._empty(self._tables[name])
        return self._tables[name]

    def collect(self) -> None:
        """Record what has been entered since the last time."""
        for name, address in self._tables.items():
            if entries := self.entries(address):
                self._empty(address)
                for key, priority in entries:
                    self._state.recorder.registry(name, key, priority)

    def entries(self, registry: int) -> list[tuple[str | int, int | None]]:
        """The keys in a registry, and their priorities where it has any, in the order in which they were entered."""
        priorities = dict(self._nodes(registry + _PRIORITIES_AT))
        keys = [key for key, _ in self._nodes(registry)]
        machine = self._state.process.machine
        found: list[tuple[str | int, int | None]] = []
        for key in reversed(keys):  # a new node becomes the first
            node = priorities.get(key)
            behind = None if node is None else node + (self._state.strings.size if isinstance(key, str) else 4)
            priority = None if behind is None else machine.word(behind) & 0xFFFF_FFFF
            found.append((key, priority if priority in _PRIORITIES else None))
        return found

    def _empty(self, registry: int) -> None:
        for offset in _TABLES_AT:
            self._state.write_table(registry + offset, _BUCKETS)

    def _nodes(self, table: int) -> Iterator[tuple[str | int, int]]:
        """The keys in a table and where each lies."""
        machine = self._state.process.machine
        with contextlib.suppress(Stop):  # a function that came to nothing may have left nonsense
            node = machine.word(table + _FIRST)
            for _ in range(min(machine.word(table + _COUNT), _MAX_ENTRIES)):
                if not node:
                    break
                yield self._key(node + 8), node + 8
                node = machine.word(node)

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

    def entry(what: str, key: int | None, priority: int | None) -> Double:
        def double(call: Call) -> None:
            given = (None if index is None else call.argument(index) & 0xFF for index in (key, priority))
            state.recorder.registry(what, *given)

        return double

    for pattern, call_of in _CALLS.items():
        doubles.matching(pattern)(entry(*call_of))

    @doubles.matching(r"_ZN3c1028register_privateuse1_backendE")
    def _rename(call: Call) -> None:
        state.recorder.registry("privateuse1-backend", state.string(call.argument(0)))

    @doubles.matching(REGISTRY + "$")
    def _registry(call: Call) -> int:
        return registries.table(function_name(call.name))

    @doubles.matching(r"_ZN3c108demangleE", r"_ZN3c108demangleB5cxx11E")
    def _demangle(call: Call) -> None:
        """The help text of an entry is the name of its class: as it is mangled."""
        result = call.result
        state.strings.create(call.process, result, call.machine.text(call.argument(0)))

    @doubles.matching(SETTINGS)
    def _settings(call: Call) -> int:
        return registries.table(function_name(call.name))

    @doubles.matching(_HOOK)
    def _hook(call: Call) -> int:
        return call.process.allocate(_FUNCTION_SIZE)

    return doubles


def function_name(mangled: str) -> str:
    """What a registry is called: the last part of a nested name, ``f`` of ``_ZN2at1fEv``, or the class of settings."""
    if re.match(SETTINGS, mangled):
        return ALLOCATOR_SETTINGS
    at, name = len("_ZN"), mangled
    while size := _SIZE.match(mangled, at):
        name = mangled[size.end() : size.end() + int(size[0])]
        at = size.end() + int(size[0])
    return name
