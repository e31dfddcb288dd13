"""Recovers what torch's own libraries register, which define the registration API themselves.

All of them are brought into one process, each one's initialisers run after those of what it needs, as ld.so does.
Doubles stand in for just the functions of the API's boundary, at their very entry; every template, every type and every
helper of torch runs as it is. To stand in for more would swallow code that registers.
"""

from __future__ import annotations

import contextlib
import functools
import re
import struct
from collections.abc import Mapping
from typing import Final

import msgspec.structs

from abiscan.binary import registration_api as api
from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.cpython import CPYTHON, fill_datum
from abiscan.emulation.doubles.cxx_strings import CXX_STRINGS
from abiscan.emulation.doubles.exceptions import EXCEPTIONS
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.doubles.libstdcxx import LIBSTDCXX
from abiscan.emulation.doubles.numbers import NUMBERS
from abiscan.emulation.doubles.paths import PATHS
from abiscan.emulation.doubles.streams import STREAMS
from abiscan.emulation.doubles.system import SYSTEM
from abiscan.emulation.doubles.torch import torch_doubles
from abiscan.emulation.doubles.torch_registries import FilledRegistries, function_name
from abiscan.emulation.emulator import Stop
from abiscan.emulation.loader import Image
from abiscan.emulation.process import Double, EmulatedProcess
from abiscan.emulation.recorder import Recorder
from abiscan.emulation.recovery import DAMAGE
from abiscan.emulation.strings import abi_in
from abiscan.emulation.torch_state import TorchState
from abiscan.errors import NotElfError
from abiscan.gaps import Gap
from abiscan.regex import regex
from abiscan.registrations import Phase, Registrations, Registry, TorchRegistrations

_STAGE: Final = "emulation of torch"
_INSTRUCTIONS_PER_FUNCTION: Final = 50_000_000
_CALLS_PER_FUNCTION: Final = 1_000_000
_MOST_CODE_PAGES: Final = 800  # what icicle makes of them takes 80 MB, and most code runs once
_HEAP_PER_FUNCTION: Final = 0x1000_0000  # OpenBLAS takes its buffers, and uses none of them


def _names(*beginnings: str) -> re.Pattern[bytes]:
    """Return a pattern for whole mangled names that begin with one of these regular expressions."""
    return re.compile("|".join(f"(?:{beginning.removesuffix('$')})[A-Za-z0-9_]*" for beginning in beginnings).encode())


# The boundary: functions that open a library, define, implement, and create or read schemas for that.
_BOUNDARY: Final = _names(
    *(api.OPEN_LIBRARY, api.DEFINE, api.DEFINE_WITH_KERNEL, api.IMPLEMENT, api.FALL_BACK),
    *(api.REGISTER_OPERATOR, api.REGISTER_JIT_OPERATOR, api.REGISTER_DEVICE_GUARD),
    r"_ZN5torch3jit(?:11parseSchema|17parseSchemaOrName|9parseName)E",
    r"_ZN3c106detail12infer_schema20make_function_schemaE",
)
# Objects of kernels contain nothing that is recorded, and there are many.
_WITHOUT_EFFECT: Final = regex(rb"_ZN5torch11CppFunctionD[12]Ev")
# These create objects that other code of torch uses, so they are executed, and only observed.
_OBSERVED: Final = _names(api.REGISTER_CLASS, api.REGISTER_METHOD)
_NAMED: Final = regex(rb"_ZTVN3c10[0-9]+[A-Za-z]*TypeE|_ZN3c10(?:[0-9]+[A-Za-z]*)?18fallthrough_kernel[A-Za-z0-9_]*")
_VTABLE: Final = "_ZTV"
_VTABLE_HEAD: Final = 16  # a virtual pointer leads past the offset to top and the type information


_REGISTRIES: Final = _names(*api.FILLED)
_INFER: Final = regex(rb"_ZN3c106detail12infer_schema20make_function_schemaE[A-Za-z0-9_]*")
# A function of the Arm Compute Library, which sets the number of threads while torch is loaded.
_SCHEDULER: Final = "_ZN11arm_compute9Scheduler3getEv"
_VIRTUAL: Final = "a virtual function without effect"
_VIRTUAL_FUNCTIONS: Final = 32
_NO_TYPE: Final = "a function that gives no type"
_SCHEMA_SIZE: Final = 256  # more than any release's FunctionSchema takes
_KEY_NAME: Final = regex(rb"_ZN3c108toStringENS_(?:11DispatchKey|12TensorTypeId)E")
# Exists since 1.12, when dispatch keys became pairs of a functionality and a backend, and got 16 bits.
_BACKEND_COMPONENT: Final = regex(rb"_ZN3c108toStringENS_16BackendComponentE")
_IS_INCLUDED: Final = regex(rb"_ZN3c1017isIncludedInAliasENS_11DispatchKeyES0_")
_DEFINITIONS: Final = (
    *(_BOUNDARY, _OBSERVED, _NAMED, _WITHOUT_EFFECT, _REGISTRIES),
    *(_INFER, _KEY_NAME, _BACKEND_COMPONENT, _IS_INCLUDED),
)
_UNKNOWN_KEY: Final = "UNKNOWN"  # _TENSOR_TYPE_ID; from 1.12 on also Unknown and what is put together with it
_NO_BACKEND: Final = "Undefined"
_MAX_KEYS: Final = 256
_INSTRUCTIONS_PER_QUESTION: Final = 100_000


def recover_torch(files: Mapping[str, ElfFile], machine: Machine) -> TorchRegistrations:
    """Return what torch's libraries register, without running them.

    :param files: the libraries by name, each after its dependencies
    :param machine: the machine that they are built for
    :raises NotElfError: one of them is damaged
    """
    try:
        with contextlib.closing(_TorchProcess(files, machine)) as process:
            libraries = process.run()
            keys = process.keys()
            aliases, registries = process.aliases(keys), process.registries()
    except NotElfError:
        raise
    except (*DAMAGE, Stop) as error:
        name = next(iter(files.values())).subject
        raise NotElfError(name, f"it or a library next to it is damaged: {error}", "install torch again") from error
    return TorchRegistrations(libraries=libraries, keys=keys, aliases=aliases, registries=registries)


class _TorchProcess:
    """The libraries of a torch in one emulated process."""

    def __init__(self, files: Mapping[str, ElfFile], machine: Machine) -> None:
        self.names = tuple(files)
        self.recorder = Recorder()
        self.gaps: list[Gap] = []
        self._find: dict[str, Double | None] = {}
        # One process for all: what one library defines another one imports, and statics of inlined functions are
        # shared.
        first, *remaining = files.values()
        self._lookup = finder((EXCEPTIONS, LIBC, NUMBERS, STREAMS, CXX_STRINGS, LIBSTDCXX, PATHS, SYSTEM, CPYTHON))
        self.process = EmulatedProcess(first, machine, self._find_double, fill_datum, remaining)
        boundary, observed, named = map(self._defined, (_BOUNDARY, _OBSERVED, _NAMED))
        state = TorchState(self.process, frozenset(boundary.values()), self.recorder)
        self._registries = FilledRegistries(state)
        torch = finder(torch_doubles(state, self._registries))
        self._find = {name: torch(name) for name in (*boundary.values(), *observed.values())}
        # torch opens a library of its own while it is loaded, which exists and defines no operators.
        self._find["dlopen"] = lambda _: 1
        self._find[_SCHEDULER] = lambda _: self._blank_object()
        state.wide_keys = bool(self._defined(_BACKEND_COMPONENT))
        state.schemas.known_tail = self._argument_tail(state)
        for address, name in boundary.items():
            self.process.plant(address, name)
        for address in self._defined(_WITHOUT_EFFECT):
            self.process.skip(address)
        for address, name in observed.items():
            self.process.observe(address, name)
        for address, name in named.items():
            self.process.call_it(address + (_VTABLE_HEAD if name.startswith(_VTABLE) else 0), name)

    def close(self) -> None:
        """End the process."""
        self.process.close()

    def _blank_object(self) -> int:
        """Return an object whose virtual functions have no effect."""
        functions = [self.process.bind(_VIRTUAL)] * _VIRTUAL_FUNCTIONS
        table = self.process.store(struct.pack(f"<{len(functions)}Q", *functions))
        return self.process.store(struct.pack("<Q", table))

    def _argument_tail(self, state: TorchState) -> int | None:
        """Return ``sizeof(c10::Argument)`` without its string, from a schema that torch itself creates for one
        argument.

        The argument is of no type, which torch takes for a tensor. None up to 1.5, which made schemas inline.
        """
        process, strings = self.process, state.strings
        self._find[_NO_TYPE] = lambda call: call.machine.write(call.result, bytes(16))
        definition = process.store(struct.pack("<QQ", *[process.bind(_NO_TYPE)] * 2))  # from 1.13 on of two functions
        for address, name in self._defined(_INFER).items():
            texts = [process.allocate(strings.size) for _ in range(2)] if abi_in(name) else []
            for text in texts:
                strings.create(process, text, b"")
            result = process.allocate(_SCHEMA_SIZE)
            # With names, the number of results, 0, is on the stack, which is still empty.
            self.ask(address, *texts, definition, 1, definition, 0, result=result)
            begin, end = process.machine.words(result + 2 * strings.size, 2)
            if end > begin:
                return end - begin - strings.size
        return None

    def _defined(self, pattern: re.Pattern[bytes]) -> dict[int, str]:
        """Return the definitions of the libraries with such names, by address."""
        return {address: name for address, name in self._definitions if pattern.fullmatch(name.encode())}

    @functools.cached_property
    def _definitions(self) -> list[tuple[int, str]]:
        """The definitions of the libraries that any pattern here asks for: each table of symbols is read once."""
        images = self.process.images
        return [
            (image.base + symbol.value, symbol.name) for image in images for symbol in image.definitions(*_DEFINITIONS)
        ]

    def _find_double(self, name: str) -> Double | None:
        if name not in self._find:
            self._find[name] = self._lookup(name)
        return self._find[name]

    def run(self) -> dict[str, Registrations]:
        """Run all initialisers."""
        registrations = {}
        for name, image in zip(self.names, self.process.images, strict=True):
            before, gaps = self.recorder.count, len(self.gaps)
            for address in image.initialisers():
                self.emulate(image, address)
                # Between two functions, since code whose translation is dropped must not be running.
                if self.process.machine.code_pages > _MOST_CODE_PAGES:
                    self.process.forget_code()
            recorded = self.recorder.registered(before)
            registrations[name] = msgspec.structs.replace(recorded, gaps=tuple(self.gaps[gaps:]))
        return registrations

    def emulate(self, image: Image, address: int) -> None:
        """Run one function to its end; a gap if it does not finish."""
        try:
            with self.process.budget(_HEAP_PER_FUNCTION, _CALLS_PER_FUNCTION):
                self.process.machine.start(address, (), _INSTRUCTIONS_PER_FUNCTION)
        except Stop as stop:
            offset = (stop.address if image.contains(stop.address) else address) - image.base
            symbol = image.nearest_symbol(offset)
            self.gaps.append(Gap(stage=_STAGE, reason=stop.reason, address=offset, symbol=symbol))

    def ask(self, address: int, *arguments: int, result: int | None = None) -> int | None:
        """Return the result of a torch function, None if it does not finish.

        :param result: the address for an object that it returns in memory
        """
        if result is not None:
            arguments = self.process.arch.hand_result(self.process.machine.vm, result, arguments)
        self.process.call_limit = self.process.calls + _CALLS_PER_FUNCTION
        try:
            return self.process.machine.start(address, arguments, _INSTRUCTIONS_PER_QUESTION)
        except Stop:
            return None

    def keys(self) -> dict[int, str]:
        """Return the names of the dispatch keys by number, from ``c10::toString``."""
        names = {}
        for address in self._defined(_KEY_NAME):
            # torch's own code tells: numbers differ from release to release, and no header comes with the library.
            for number in range(_MAX_KEYS):
                text = self.ask(address, number)
                name = self.process.machine.text(text).decode() if text else _UNKNOWN_KEY
                # The first number of a functionality's keys belongs to no backend: SparseUndefined.
                if not name.upper().startswith(_UNKNOWN_KEY) and not (number and name.endswith(_NO_BACKEND)):
                    names[number] = name
        return names

    def aliases(self, keys: Mapping[int, str]) -> dict[int, frozenset[int]]:
        """Return the keys that each alias key includes (``c10::isIncludedInAlias``). Alias keys are the last of all."""
        aliases: dict[int, frozenset[int]] = {}
        for address in self._defined(_IS_INCLUDED):
            for alias in sorted(keys, reverse=True):
                includes = functools.partial(self._includes, address, alias)
                members = frozenset(filter(includes, keys))
                if not members - {alias}:  # an ordinary key includes itself alone
                    break
                aliases[alias] = members
        # torch reports that every alias includes every alias: aliases have no bit in a set of keys.
        return {alias: members - aliases.keys() for alias, members in aliases.items()}

    def _includes(self, address: int, alias: int, key: int) -> bool:
        return bool((self.ask(address, key, alias) or 0) & 1)

    def registries(self) -> tuple[Registry, ...]:
        """Return the entries that the initialisers add to each ``c10::Registry``, and the keys of allocator
        settings.
        """
        entries: list[Registry] = []
        for address, name in sorted(self._defined(_REGISTRIES).items(), key=lambda item: item[1]):
            registry = self.ask(address)
            registry_name = function_name(name)
            for key, priority in self._registries.entries(registry) if registry else ():
                order = len(entries)
                entries.append(
                    Registry(what=registry_name, key=key, priority=priority, phase=Phase.STATIC_INIT, order=order)
                )
        return tuple(entry for entry in entries if entry.is_shared)
