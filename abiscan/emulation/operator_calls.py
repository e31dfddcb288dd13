"""What an operator without arguments returns: its kernel is run in the emulator, after the initialisers of its object.

Packages define such operators for their Python code to ask what they were built with: ``torchvision::_cuda_version``.
Functions of a module made with pybind11 are called in the same way, if the object exports the C++ function. A result
is only given if nothing but the code of the package decides it: a kernel that asks the machine, torch or CUDA has none
here.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Final, TypeVar

from abiscan.binary.elf import ElfFile, SharedObject
from abiscan.emulation.emulator import Stop
from abiscan.emulation.loader import BASE
from abiscan.emulation.recovery import DAMAGE, Recovery
from abiscan.emulation.strings import COW, CXX11
from abiscan.regex import regex
from abiscan.registrations import NotRun, RegisteredKernel

_INSTRUCTIONS: Final = 100_000
_ABI_VERSION: Final = "aoti_torch_abi_version"
_KEY_SET: Final = 0  # of a kernel without arguments that asks for it, which none does
_STRING_SIZE: Final = 32
_WITHOUT_ARGUMENTS: Final = regex(r"[\w:.]*\(\)\s*->\s*(?P<result>.*)", re.ASCII)
_RESULT_NAME: Final = regex(r"(?<=[\w?)])\s+\w+$")

# The functions that do here exactly what they do on every machine.
_FAITHFUL: Final = regex(
    r"(__)?(mem(cpy|move|set|cmp|chr)|bcmp|str(n?len|n?cmp|chr|rchr|str|n?cpy|cat|dup)|[mc]alloc|realloc|free)(_chk)?$"
    r"|torch_new_stable_ivalue$|_Zn[wa]|_Zd[la]|_ZNK?S[ts]|_ZSt(?!\d+__throw)|_ZSt\w*__ostream_insert|_ZNSo|_ZNSi"
    r"|__cxa_(guard|atexit)|__tls_get_addr$|(__)?v?snprintf(_chk)?$|sprintf$|(__isoc23_)?strtou?ll?$|ato(i|ll?)$"
)
_SIGNATURE: Final = regex(rb"\0\(\) -> (\w+)\0", re.ASCII)
"""What pybind11 keeps of the types of a function without arguments."""
_Result = TypeVar("_Result")
_MACHINE_FUNCTIONS: Final = regex(r"_ZNK?St(6thread|6chrono|13random_device|6locale)|_ZNK?St8ios_base")


def call(
    file: ElfFile,
    facts: SharedObject,
    operator: str,
    schema: str,
    argument_tail: int | None,
    siblings: Sequence[ElfFile],
    abi_version: int | None,
) -> int | bool | str | NotRun | None:
    """Call an operator of an object: see ``abiscan.emulation.call_operator``."""
    takes_nothing = _WITHOUT_ARGUMENTS.fullmatch(schema)
    if takes_nothing is None:
        return NotRun(reason="it takes arguments")
    returns = _RESULT_NAME.sub("", takes_nothing["result"].strip())
    try:
        recovery = Recovery(file, facts, argument_tail, siblings)
    except DAMAGE as error:
        return NotRun(reason=f"the file is damaged: {error}")
    with contextlib.closing(recovery.process):
        try:
            return _Caller(recovery, abi_version).call(operator, returns)
        except DAMAGE as error:
            return NotRun(reason=f"the file is damaged: {error}")
        except Stop as stop:
            return NotRun(reason=stop.reason)


def call_function(file: ElfFile, facts: SharedObject, name: str) -> int | bool | NotRun | None:
    """Call a function of a module: see ``abiscan.emulation.call_function``."""
    symbols = [symbol for symbol in facts.symbols.starting_with("_Z") if _is_function(symbol, name)]
    signatures = {match[1].decode() for match in file.search_data(_SIGNATURE)}
    is_bound = next(file.find_in_data(b"\0" + name.encode() + b"\0"), None) is not None
    if len(symbols) != 1 or len(signatures) != 1 or not is_bound or facts.pybind11_internals is None:
        return NotRun(reason="its C++ function is unknown")
    try:
        recovery = Recovery(file, facts, None, ())
    except DAMAGE as error:
        return NotRun(reason=f"the file is damaged: {error}")
    with contextlib.closing(recovery.process):
        try:
            return _Caller(recovery, None).call_function(symbols[0], signatures.pop())
        except DAMAGE as error:
            return NotRun(reason=f"the file is damaged: {error}")
        except Stop as stop:
            return NotRun(reason=stop.reason)


def _is_function(symbol: str, name: str) -> bool:
    """Whether a mangled name is that of a function without parameters, in whatever namespace."""
    own = f"{len(name)}{name}"
    return symbol == f"_Z{own}v" or (symbol.startswith("_ZN") and symbol.endswith(f"{own}Ev"))


class _Caller:
    def __init__(self, recovery: Recovery, abi_version: int | None) -> None:
        self._recovery = recovery
        self._process = recovery.process
        self._answers = {} if abi_version is None else {_ABI_VERSION: abi_version}
        # What the torch in question answers is known, so it counts neither as unknown nor as an answer of the machine.
        find = recovery.find
        recovery.find = lambda name: (lambda _: self._answers[name]) if name in self._answers else find(name)

    def call(self, operator: str, returns: str) -> int | bool | str | NotRun | None:
        self._initialise()
        registered = self._recovery.recorder.registered()
        kernels = [kernel for kernel in registered.kernels if kernel.operator == operator]
        if len(kernels) != 1:
            return NotRun(reason=f"it has {len(kernels)} kernels")
        result: int | bool | str | NotRun | None
        kernel, self._process.called = kernels[0], {}
        unboxed = self._recovery.state.unboxed.get(kernel.order)
        if kernel.abi_version is not None and kernel.functions:
            result = self._stable(kernel.functions[0] + BASE, returns)
        elif unboxed is not None:
            result = self._unboxed(unboxed, kernel)
        else:
            return NotRun(reason="its kernel is boxed")
        return self._unless_unknown(result, "its kernel")

    def call_function(self, symbol: str, returns: str) -> int | bool | NotRun | None:
        """Run the initialisers, then a function that the object exports."""
        address = self._process.image.definition_of(symbol)
        if address is None:
            return NotRun(reason="the function is not there")
        self._initialise()
        self._process.called = {}
        result = _of_type(self._run(address + BASE), returns)
        return self._unless_unknown(result, "it")

    def _initialise(self) -> None:
        for image in reversed(self._process.images):  # as ld.so does: what is needed comes first
            for address in image.initialisers():
                self._recovery.emulate(address)

    def _unless_unknown(self, result: _Result, caller_name: str) -> _Result | NotRun:
        """Return the result, unless something that was called may give another one on another machine."""
        unknown = sorted(name for name in self._process.called if name not in self._answers and not _is_faithful(name))
        return NotRun(reason=f"{caller_name} calls {unknown[0]}") if unknown else result

    def _stable(self, function: int, returns: str) -> int | bool | NotRun | None:
        """Call ``void f(StableIValue* stack, uint64_t, uint64_t)``:
        ``torch/csrc/stable/stableivalue_conversions.h``.
        """
        # A stack of one ``StableIValue``: without arguments, it is only for the result.
        stack = self._process.allocate(8)
        self._run(function, stack, 0, 1 if returns != "()" else 0)
        value = self._process.machine.word(stack)
        if returns.endswith("?"):  # a pointer to the value, null for none
            if not value:
                return None
            value, returns = self._process.machine.word(value), returns[:-1]
        return _of_type(value, returns)

    def _unboxed(self, unboxed: tuple[int, int], kernel: RegisteredKernel) -> int | bool | str | NotRun | None:
        """Call the unboxed function, whose type says where its result is (Itanium C++ ABI, 5.1.5)."""
        functor, function = unboxed
        machine, arch = self._process.machine, self._process.arch
        match (kernel.signature or "").removeprefix("Do"):
            case "FvvE":
                self._run(function, functor, _KEY_SET)
                return None
            case "FlvE":
                return _of_type(self._run(function, functor, _KEY_SET), "int")
            case "FbvE":
                return _of_type(self._run(function, functor, _KEY_SET), "bool")
            case "FSt8optionalIlEvE":  # in two registers: the value, then whether there is one
                value = self._run(function, functor, _KEY_SET)
                return _of_type(value, "int") if int(machine.vm.reg_read(arch.second_result)) & 1 else None
            case "FSsvE" | "FNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEvE" as signature:
                place = self._process.allocate(_STRING_SIZE)
                self._run(function, *arch.hand_result(machine.vm, place, (functor, _KEY_SET)))
                strings = COW if signature == "FSsvE" else CXX11
                return strings.read(self._process, place).decode()
            case signature:
                return NotRun(reason=f"its kernel is of type {signature}")

    def _run(self, function: int, *arguments: int) -> int:
        result = self._recovery.attempt(function, arguments, _INSTRUCTIONS)
        if isinstance(result, Stop):
            raise result
        return result


def _of_type(value: int, returns: str) -> int | bool | NotRun | None:
    if returns == "int":
        return value - (1 << 64) if value >> 63 else value
    if returns == "bool":
        return bool(value & 1)
    return None if returns == "()" else NotRun(reason=f"it returns {returns}")


def _is_faithful(name: str) -> bool:
    return _FAITHFUL.match(name) is not None and _MACHINE_FUNCTIONS.match(name) is None
