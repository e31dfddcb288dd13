"""x86-64: the calling convention of the SysV psABI 1.0, section 3.2, and the vector instructions that icicle lacks."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Final

from abiscan.emulation.arch.memory import Memory
from abiscan.emulation.arch.runtime_x86_64 import runtime
from abiscan.emulation.arch.values import VariableArguments
from abiscan.emulation.arch.vex import extensions, is_x87, suspects
from abiscan.emulation.processor import Processor
from abiscan.regex import regex

if TYPE_CHECKING:
    from abiscan.emulation.arch.data_flow import DataFlow
    from abiscan.emulation.arch.vector import VectorUnit
    from abiscan.emulation.arch.x87 import Unit


class X8664:
    """The x86-64 processor under the System V ABI."""

    name: ClassVar[str] = "x86_64"
    arguments: ClassVar[tuple[str, ...]] = ("RDI", "RSI", "RDX", "RCX", "R8", "R9")
    registers: ClassVar[tuple[str, ...]] = (*arguments, "RAX", "RBX", "RBP", "R10", "R11", "R12", "R13", "R14", "R15")
    vectors: ClassVar[tuple[str, ...]] = tuple(f"XMM{number}_Q{half}" for number in range(16) for half in "ab")
    result: ClassVar[str] = "RAX"
    second_result: ClassVar[str] = "RDX"
    # psABI, figure 3.36; the last is the return address, which has no register of its own.
    dwarf: ClassVar[tuple[str, ...]] = (
        *("RAX", "RDX", "RCX", "RBX", "RSI", "RDI", "RBP", "RSP"),
        *(f"R{number}" for number in range(8, 16)),
        "RIP",
    )
    dwarf_stack_pointer: ClassVar[int] = 7
    kept: ClassVar[frozenset[str]] = frozenset({"RBX", "RBP", "R12", "R13", "R14", "R15"})
    number_registers: ClassVar[tuple[str, ...]] = tuple(f"XMM{number}" for number in range(8))
    landing: ClassVar[tuple[str, str]] = ("RAX", "RDX")
    kept_parts: ClassVar[frozenset[str]] = frozenset(
        part for name in sorted(kept) for part in (name, f"{name}.low", f"{name}.high")
    )
    result_parts: ClassVar[tuple[str, ...]] = (
        *("RAX", "RAX.low", "RAX.high", "RDX", "RDX.low", "RDX.high", "XMM0", "XMM1", "x87"),
    )
    argument_parts: ClassVar[tuple[str, ...]] = tuple(
        part for name in arguments for part in (name, f"{name}.low", f"{name}.high")
    )
    # Variant II of thread-local storage: the thread pointer holds its own address, the variables lie below it.
    thread_pointer: ClassVar[str] = "FS_OFFSET"
    thread_pointer_offset: ClassVar[int] = 0
    hidden_result: ClassVar[str | None] = None  # the address of a result in memory is the first argument
    link: ClassVar[str | None] = None
    system_call: ClassVar[str] = "RAX"
    exits: ClassVar[frozenset[int]] = frozenset((60, 231))
    has_x87: ClassVar[bool] = True
    pairs_numbers: ClassVar[bool] = True
    tells_features: ClassVar[bool] = False  # ``cpuid`` does, and the machine has none
    names_data: ClassVar[bool] = True

    # Relocation types, psABI table 4.9.
    absolute: ClassVar[int] = 1  # R_X86_64_64
    slots: ClassVar[tuple[int, ...]] = (6, 7)  # R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT
    stub_slot: ClassVar[int] = 7
    relative: ClassVar[int] = 8
    irelative: ClassVar[int] = 37
    tls_module: ClassVar[int] = 16  # R_X86_64_DTPMOD64
    tls_offset: ClassVar[int] = 17  # R_X86_64_DTPOFF64
    tls_thread_offset: ClassVar[int] = 18  # R_X86_64_TPOFF64
    tls_descriptor: ClassVar[int] = 36  # R_X86_64_TLSDESC

    helpers: ClassVar[bytes] = b""
    return_zero: ClassVar[bytes] = b"\x31\xc0\xc3"  # xor eax, eax; ret

    def allocator(self, top: int, otherwise: int) -> bytes:
        """Return the code of a bump allocator whose heap pointer is the word at ``top``.

        The word before each block has its size. More than 1 MiB at once is left to the function at ``otherwise``.
        """
        return b"".join(
            (
                b"\x48\x81\xff\x00\x00\x10\x00",  # cmp rdi, 0x100000
                b"\x77\x1e",  # ja to the last two
                b"\x48\xb9" + top.to_bytes(8, "little"),  # mov rcx, top
                b"\x48\x8b\x01",  # mov rax, [rcx]
                b"\x48\x89\x78\xf8",  # mov [rax - 8], rdi
                b"\x48\x8d\x54\x38\x1f",  # lea rdx, [rax + rdi + 31]
                b"\x48\x83\xe2\xf0",  # and rdx, -16
                b"\x48\x89\x11",  # mov [rcx], rdx
                b"\xc3",  # ret
                b"\x48\xb8" + otherwise.to_bytes(8, "little"),  # mov rax, otherwise
                b"\xff\xe0",  # jmp rax
            )
        )

    def runtime(self, allocate: int, double_of: Callable[[str], int]) -> dict[str, bytes]:
        """Return the code of the imported functions that initialisers call most often, by name; position-independent.

        :param allocate: the function that ``allocator`` made
        :param double_of: where the double of a function is, for what is too rare to have code
        """
        return runtime(allocate, double_of)

    def enter(self, vm: Processor, return_to: int) -> None:
        """Push the return address onto a stack aligned as the ABI requires at a call, with the direction flag clear."""
        vm.reg_write("DF", 0)
        stack = (vm.sp & ~0xF) - 8
        vm.mem_write(stack, return_to.to_bytes(8, "little"))
        vm.sp = stack

    def leave(self, vm: Processor) -> int:
        """Pop the return address."""
        stack = vm.sp
        vm.sp = stack + 8
        (address,) = vm.mem_words(stack, 1)
        return address

    def return_address(self, vm: Processor) -> int:
        """Return the word on top of the stack."""
        (address,) = vm.mem_words(vm.sp, 1)
        return address

    def stack_after_return(self, vm: Processor) -> int:
        """Return the address above the return address."""
        return int(vm.sp) + 8

    def hand_result(self, vm: Processor, result: int, arguments: tuple[int, ...]) -> tuple[int, ...]:  # noqa: ARG002
        """Put the address before the arguments (psABI, 3.2.3)."""
        return (result, *arguments)

    def sets_result(self, read: Callable[[int, int], bytes], return_address: int) -> None:  # noqa: ARG002
        """Return None: the address of the result is an argument here."""
        return

    def variable_arguments(self, words: Callable[[int, int], tuple[int, ...]], address: int) -> VariableArguments:
        """Return how far it is: in the 48 bytes of saved registers, and in the 176 with those for numbers.

        psABI, figure 3.34.
        """
        at, overflow, saved = words(address, 3)
        return VariableArguments(
            overflow=overflow,
            saved=saved,
            offset=at & 0xFFFF_FFFF,
            end=48,
            number_saved=saved,
            number_offset=at >> 32,
            number_end=176,
        )

    def return_object(self, vm: Processor, address: int) -> None:
        """Set ``rax`` to the address: so does a function that returns an object in memory (psABI, 3.2.3)."""
        vm.reg_write("RAX", address)

    def decode(self, address: int, code: bytes) -> DataFlow | None:
        """Return what the first instruction of ``code`` reads and writes, which is at ``address``; None if it
        is none.
        """
        from abiscan.emulation.arch.data_flow import decode_x86_64

        return decode_x86_64(address, code)

    def data_of(self, address: int, code: bytes, most: int) -> tuple[list[tuple[int, int]], int, int]:
        """Return the data that the code of a function uses, and how many instructions and bytes were read."""
        from abiscan.emulation.arch.data_flow import data_of_x86_64

        return data_of_x86_64(address, code, most)

    def number_part(self, register: str) -> str:
        """Return the low eight bytes of one of ``number_registers``, as the emulator calls them."""
        return f"{register}_Qa"

    def parts_of(self, register: str) -> tuple[str, ...]:
        """Return the parts of one of ``arguments``."""
        return register, f"{register}.low", f"{register}.high"

    def suspects(self, code: bytes) -> list[int]:
        """Find what icicle gets wrong, of vectors and of the x87, and ``cpuid``, which it answers as some machine."""
        return [*suspects(code), *(match.start() for match in _CPUID_CODE.finditer(code))]

    def extensions(self, code: bytes) -> list[int]:
        """Find the instructions of SSE3 and newer."""
        return extensions(code)

    def is_stepped_over(self, code: bytes) -> bool:
        """Whether it is one of VEX, EVEX or the x87, or ``cpuid``."""
        return code.startswith((_CPUID, *_VECTOR_PREFIXES)) or is_x87(code)

    @staticmethod
    def signal_of(code: bytes) -> int | None:
        """Return the signal that an instruction raises which no program of a user may execute."""
        match = _SIGNALLING.match(code)
        return next(number for name, number in _SIGNALS.items() if match[name]) if match else None

    def step_over(self, vm: Processor, memory: Memory, code: bytes) -> str | None:
        """Execute one instruction for vectors or of the x87, or ``cpuid``, which reports no features here."""
        if code.startswith(_CPUID):
            for register in _CPUID_RESULTS:
                vm.reg_write(register, memory.unknown_answer(_CPUID_NAME, vm.pc, _CPUID_RESULTS) & 0xFFFF_FFFF)
            vm.pc += len(_CPUID)
            return None
        if self.signal_of(code) is not None:
            return _vector_unit().text_of(vm, code)
        if is_x87(code):
            return x87_unit(memory).execute(vm, memory, code)
        return _vector_unit().execute(vm, memory, code)


# Intel SDM 2A and 2B, and what Linux makes of the exceptions (arch/x86/kernel/traps.c). Invalid opcodes: ud0, ud1, ud2,
# and those that 64-bit mode has not. Of int3 and int1. Privileged: hlt, cli, sti, ports, lgdt and the like, control
# registers, model-specific registers, caches; software interrupts other than those of system calls.
_SIGNALLING: Final = regex(
    rb"[\x40-\x4f]?(?:(?P<invalid>\x0f[\x0b\xb9\xff]|[\x06\x07\x0e\x16\x17\x1e\x1f\x27\x2f\x37\x3f\x60\x61\x82\x9a\xce\xd4\xd6\xea]|\xf0\x90)"
    rb"|(?P<trap>\xcc|\xcd\x03|\xf1)"
    rb"|(?P<privileged>[\xf4\xfa\xfb\xe4-\xe7\xec-\xef\x6c-\x6f]|\x0f[\x06-\x09\x20-\x23\x30\x32\x35]"
    rb"|\x0f\x01(?:[\x10-\x17\x18-\x1f\x50-\x5f\x90-\x9f]|\xf8)|\xcd[^\x03\x80]))",
    re.DOTALL,
)
_SIGNALS: Final = {"invalid": 4, "trap": 5, "privileged": 11}
_CPUID: Final = b"\x0f\xa2"
_CPUID_CODE: Final = regex(_CPUID)
# Instructions with these prefixes are executed by ``vector``, which icicle does not know or gets wrong.
_VECTOR_PREFIXES: Final = (b"\xc4", b"\xc5", b"\x62")
_CPUID_NAME: Final = "cpuid"
_CPUID_RESULTS: Final = ("RAX", "RBX", "RCX", "RDX")


def x87_unit(memory: Memory) -> Unit:
    """Return the x87 of a machine."""
    if memory.floats is None:
        from abiscan.emulation.arch.x87 import Unit

        memory.floats = Unit()
    unit: Unit = memory.floats
    return unit


@functools.cache
def _vector_unit() -> VectorUnit:
    from abiscan.emulation.arch.vector import VectorUnit

    return VectorUnit()
