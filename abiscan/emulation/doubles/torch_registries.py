"""Doubles of torch's other registries: those for backends, and every ``c10::Registry``.

An entry of a backend is made by one call of torch. A registry is an object of torch that inlined code fills: here it
is an empty one whenever code asks for it, for what is entered twice would end the process; and what is found in it
afterwards is an entry. ``c10::Registry`` (``c10/util/Registry.h``) begins with its ``unordered_map``, of which there
are two more, the first of them with the priorities; some registries are nothing but one such table, and so is the set
of keys of ``AcceleratorAllocatorConfig`` (``c10/core/AllocatorConfig.h``), torch's own of which are not in it here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Final

from abiscan.binary import registration_api as api
from abiscan.emulation.doubles import SharedDoubles
from abiscan.emulation.emulator import Stop
from abiscan.emulation.process import Call
from abiscan.emulation.torch_state import TorchState
from abiscan.regex import regex
from abiscan.registrations import ALLOCATOR, ALLOCATOR_SETTINGS

# The registry of each function, and the arguments with the key and the priority, if there are any.
_CALLS: Final = {
    api.REGISTER_DEVICE_GUARD: ("device-guard", 1, None),
    api.SET_ALLOCATOR_WITH_PRIORITY: (ALLOCATOR, 0, 2),
    api.SET_ALLOCATOR: (ALLOCATOR, 0, None),
    api.SET_STORAGE: ("storage", 0, None),
    api.REGISTER_HOOKS: ("privateuse1-hooks", None, None),
    api.REGISTER_GENERATOR: ("privateuse1-generator", None, None),
    api.REGISTER_PROFILER: ("privateuse1-profiler", None, None),
    api.REGISTER_ACTIVITY_PROFILER: ("privateuse1-activity-profiler", None, None),
}
_SIZE: Final = regex(r"\d+")
_HOOK: Final = r"_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig19getConfigParserHook"
_PROFILERS: Final = r"_ZN5torch8profiler4impl27PrivateUse1ProfilerRegistry8instanceE"
_FUNCTION_SIZE: Final = 32  # sizeof(std::function)
_FIRST, _COUNT = 16, 24  # in a std::unordered_map
_PRIORITIES: Final = (1, 2, 3)  # RegistryPriority
_PRIORITIES_AT: Final = 56
_TABLES_AT: Final = (0, _PRIORITIES_AT, 120)  # in a c10::Registry: two, two flags, one more
_BUCKETS: Final = 251  # so many that every entry has a bucket of its own, and the order of entries is kept
_MAX_ENTRIES: Final = 10_000
_TEXT: Final = regex(r"[\x20-\x7e]+")


class FilledRegistries:
    """The registries that the code of an object fills."""

    def __init__(self, state: TorchState) -> None:
        self.state = state
        self._tables: dict[str, int] = {}  # the address of each, by name
        state.recorder.settle = self.collect

    def table(self, name: str) -> int:
        """Return the address of a registry, which code finds empty."""
        # Whatever was entered before this call gets its place before what the caller registers next.
        self.collect()
        if name not in self._tables:
            self._tables[name] = self.state.process.bind(f"registry {name}")
            self._empty(self._tables[name])
        return self._tables[name]

    def collect(self) -> None:
        """Record the entries that were added since the last call."""
        for name, address in self._tables.items():
            if entries := self.entries(address):
                self._empty(address)
                for key, priority in entries:
                    self.state.recorder.registry(name, key, priority)

    def entries(self, registry: int) -> list[tuple[str | int, int | None]]:
        """Return the keys in a registry, and their priorities if it has any, in the order in which they were added."""
        priorities = dict(self._table_nodes(registry + _PRIORITIES_AT))
        keys = [key for key, _ in self._table_nodes(registry)]
        machine = self.state.process.machine
        entries: list[tuple[str | int, int | None]] = []
        for key in reversed(keys):  # a new node becomes the first
            node = priorities.get(key)
            behind = None if node is None else node + (self.state.strings.size if isinstance(key, str) else 4)
            priority = None if behind is None else machine.word(behind) & 0xFFFF_FFFF
            entries.append((key, priority if priority in _PRIORITIES else None))
        return entries

    def _empty(self, registry: int) -> None:
        for offset in _TABLES_AT:
            self.state.write_table(registry + offset, _BUCKETS)

    def _table_nodes(self, table: int) -> Iterator[tuple[str | int, int]]:
        """Yield the keys in a table and their addresses."""
        machine = self.state.process.machine
        with contextlib.suppress(Stop):  # a function that failed may have left invalid entries
            # All nodes of a ``std::unordered_map`` are one list, whatever bucket they are in (bits/hashtable.h).
            node = machine.word(table + _FIRST)
            for _ in range(min(machine.word(table + _COUNT), _MAX_ENTRIES)):
                if not node:
                    break
                yield self._key(node + 8), node + 8
                node = machine.word(node)

    def _key(self, address: int) -> str | int:
        """Return a ``std::string``, or a number."""
        try:
            text = self.state.string(address)
        except Stop:
            text = ""
        if _TEXT.fullmatch(text):
            return text
        return int.from_bytes(self.state.process.machine.read(address, 4), "little", signed=True)


TORCH_REGISTRIES: Final = SharedDoubles[FilledRegistries]()


def _entry(registry: str, key: int | None, priority: int | None) -> Callable[[FilledRegistries, Call], None]:
    def double(registries: FilledRegistries, call: Call) -> None:
        values = (None if index is None else call.argument(index) & 0xFF for index in (key, priority))
        registries.state.recorder.registry(registry, *values)

    return double


for pattern, call_of in _CALLS.items():
    TORCH_REGISTRIES.matching(pattern)(_entry(*call_of))


@TORCH_REGISTRIES.matching(api.NAME_BACKEND)
def _rename_privateuse1_backend(registries: FilledRegistries, call: Call) -> None:
    registries.state.recorder.registry("privateuse1-backend", registries.state.string(call.argument(0)))


@TORCH_REGISTRIES.matching(*api.FILLED)
def _registry_function(registries: FilledRegistries, call: Call) -> int:
    return registries.table(function_name(call.name))


@TORCH_REGISTRIES.matching(r"_ZN3c108demangleE", r"_ZN3c108demangleB5cxx11E")
def _demangle(registries: FilledRegistries, call: Call) -> None:
    """Leave a name mangled: it is the help text of an entry, the name of its class."""
    result = call.result
    registries.state.strings.create(call.process, result, call.machine.text(call.argument(0)))


@TORCH_REGISTRIES.matching(_PROFILERS)
def _profilers_registry(_: FilledRegistries, call: Call) -> int:
    """Return one object, of which inlined code does not look at anything."""
    return call.process.bind("registry of profilers")


@TORCH_REGISTRIES.matching(_HOOK)
def _registered_hook(_: FilledRegistries, call: Call) -> int:
    return call.process.allocate(_FUNCTION_SIZE)


def function_name(mangled: str) -> str:
    """Return the name of a registry: the last part of a nested name, ``f`` of ``_ZN2at1fEv``, or the class of
    settings.
    """
    if re.match(api.ALLOCATOR_SETTINGS, mangled):
        return ALLOCATOR_SETTINGS
    at, name = len("_ZN"), mangled
    while size := _SIZE.match(mangled, at):
        name = mangled[size.end() : size.end() + int(size[0])]
        at = size.end() + int(size[0])
    return name
