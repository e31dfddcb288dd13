"""The differences between processors: registers, calling convention, relocations, instructions missing in icicle."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from abiscan.binary.elf import Machine
from abiscan.emulation.arch import code_aarch64, code_x86_64
from abiscan.emulation.arch.aarch64 import Aarch64
from abiscan.emulation.arch.memory import Memory
from abiscan.emulation.arch.values import Swept, VariableArguments
from abiscan.emulation.arch.x86_64 import X8664
from abiscan.emulation.processor import Processor

if TYPE_CHECKING:
    from abiscan.emulation.arch.data_flow import DataFlow


class Arch(Protocol):
    """One processor architecture, for the machine and the loader. Stateless."""

    name: ClassVar[str]
    arguments: ClassVar[tuple[str, ...]]
    registers: ClassVar[tuple[str, ...]]  # the general registers, except the stack pointer
    vectors: ClassVar[tuple[str, ...]]  # the vector registers; where one has several names, those that cover it
    result: ClassVar[str]
    second_result: ClassVar[str]
    # Parts of registers as ``data_flow`` names them: those that a function keeps, returns results in, has arguments in.
    kept_parts: ClassVar[frozenset[str]]
    result_parts: ClassVar[tuple[str, ...]]
    argument_parts: ClassVar[tuple[str, ...]]
    number_registers: ClassVar[tuple[str, ...]]  # those of floating-point arguments, the first that of a result
    dwarf: ClassVar[tuple[str, ...]]  # the registers by their DWARF numbers, as far as unwinding needs them
    dwarf_stack_pointer: ClassVar[int]
    kept: ClassVar[frozenset[str]]  # the registers that a function leaves as they were, except the stack pointer
    landing: ClassVar[tuple[str, str]]  # what a landing pad is given: the exception, and what it is for
    thread_pointer: ClassVar[str]
    thread_pointer_offset: ClassVar[int]
    hidden_result: ClassVar[str | None]
    link: ClassVar[str | None]  # the register of the return address; None where it is on the stack
    system_call: ClassVar[str]  # the register of the number of a system call
    exits: ClassVar[frozenset[int]]  # the numbers of ``exit`` and ``exit_group``
    has_x87: ClassVar[bool]  # whether ``long double`` is the format of the x87
    pairs_numbers: ClassVar[bool]  # whether both parts of a ``float _Complex`` are passed in one register
    tells_features: ClassVar[bool]  # whether ``getauxval`` is how programs ask which optional features there are
    names_data: ClassVar[bool]  # whether an instruction names the data that it uses: see ``data_of``
    absolute: ClassVar[int]
    slots: ClassVar[tuple[int, ...]]
    stub_slot: ClassVar[int]  # the one of them that only stubs use
    relative: ClassVar[int]
    irelative: ClassVar[int]
    tls_module: ClassVar[int]
    tls_offset: ClassVar[int]
    tls_thread_offset: ClassVar[int]
    tls_descriptor: ClassVar[int]

    return_zero: ClassVar[bytes]
    helpers: ClassVar[bytes]  # code that step_over uses

    def allocator(self, top: int, otherwise: int) -> bytes:
        """Return the code of a function that takes memory from where the word at ``top`` points, and moves it on.

        The word before it tells its size. More than 1 MiB at once is left to the function at ``otherwise``.
        """

    def runtime(self, allocate: int, double_of: Callable[[str], int]) -> dict[str, bytes]:
        """Return the code of the imported functions that initialisers call most often, by name; position-independent.

        :param allocate: the function that ``allocator`` made
        :param double_of: where the double of a function is, for what is too rare to have code
        """

    def enter(self, vm: Processor, return_to: int) -> None:
        """Make it look as if a call had just been made whose return address is ``return_to``."""

    def leave(self, vm: Processor) -> int:
        """Undo a call: take the return address, as the return instruction would, and give it."""

    def return_address(self, vm: Processor) -> int:
        """Return the return address at the very entry of a function."""

    def stack_after_return(self, vm: Processor) -> int:
        """Return the stack pointer that the caller has, at the very entry of a function."""

    def hand_result(self, vm: Processor, result: int, arguments: tuple[int, ...]) -> tuple[int, ...]:
        """Return the arguments of a call of a function that returns an object in memory, at ``result``."""

    def sets_result(self, read: Callable[[int, int], bytes], return_address: int) -> bool | None:
        """Whether the code before a call says where an object in memory is to be; None where an argument does.

        :param read: returns so many bytes at an address
        """

    def variable_arguments(self, words: Callable[[int, int], tuple[int, ...]], address: int) -> VariableArguments:
        """Return how far in its arguments a ``va_list`` is.

        :param words: returns so many words at an address
        """

    def return_object(self, vm: Processor, address: int) -> None:
        """Set the result of a function that returned an object in memory at ``address``."""

    def suspects(self, code: bytes) -> list[int]:
        """Return where in ``code`` an instruction may begin that is to be done by ``step_over`` in any case.

        Its first four bytes decide, or fewer.
        """

    def extensions(self, code: bytes) -> list[int]:
        """Return where in ``code`` an instruction may begin that not every processor has, of those that are not
        suspects.
        """

    def is_stepped_over(self, code: bytes) -> bool:
        """Whether an instruction that the native processor does not know is for ``step_over``, and not for icicle."""

    def decode(self, address: int, code: bytes) -> DataFlow | None:
        """Return what the first instruction of ``code`` reads and writes, which is at ``address``; None if it
        is none.
        """

    def data_of(self, address: int, code: bytes, most: int) -> tuple[list[tuple[int, int]], int, int]:
        """Return the data that code uses (``DataFlow.data``), and how many instructions and bytes were read.

        :param most: how many instructions to read at most
        """

    def number_part(self, register: str) -> str:
        """Return the low eight bytes of one of ``number_registers``, as the emulator calls them."""

    def parts_of(self, register: str) -> tuple[str, ...]:
        """Return the parts of one of ``arguments``."""

    def signal_of(self, code: bytes) -> int | None:
        """Return the number of the signal that an instruction is there for on Linux; None for all others."""

    def step_over(self, vm: Processor, memory: Memory, code: bytes) -> str | None:
        """Execute an instruction that the emulator lacks, the first of ``code``.

        :returns: None when it is done, else the text of the instruction
        """


class Code(Protocol):
    """What can be told from the code of an architecture without executing it."""

    IS_SWEPT: bool
    """Whether it can be searched for what it needs of the processor."""

    STUB_ENTRIES: tuple[int, ...]
    """How far before its jump a stub of the procedure linkage table may begin."""

    def jumps_through_slots(self, content: memoryview, address: int) -> Iterator[tuple[int, int]]:
        """Return the jumps through words in code that lies at ``address``, each with the address of its word."""

    def calls_through_slots(self, content: memoryview, address: int) -> Iterator[tuple[int, int]]:
        """Return where the calls through words return to, each with the address of its word."""

    def calls(self, content: memoryview, address: int, targets: Collection[int]) -> Iterator[tuple[int, int, bool]]:
        """Return the relative calls and jumps to some addresses: see ``call_at``."""

    def call_at(self, code: bytes, place: int, address: int) -> tuple[int, int, bool]:
        """Return a relative call or jump: where it returns to, where it leads, whether it is a jump.

        A jump returns nowhere: it is told where that itself lies.
        """

    def links(self, code: bytes, start: int) -> Iterator[tuple[str, AbstractSet[int]]]:
        """Return what the code of a function leads to: code, a word, several words, or an address of any kind."""

    def beginnings(self, near: int, end: int) -> range:
        """Return where to begin to decode, so that instructions end at ``end``."""

    def sweep(self, code: bytes, address: int) -> Swept:
        """Return where instructions need an extension or ask for one, the calls, the data, and how much was read."""

    def instructions(self, code: bytes, address: int) -> list[tuple[int, bool]]:
        """Return the instructions that code consists of, and which are branches; none if it is not all instructions."""


ARCHITECTURES: Final[dict[Machine, Arch]] = {Machine.X86_64: X8664(), Machine.AARCH64: Aarch64()}
CODE: Final[dict[Machine, Code]] = {Machine.X86_64: code_x86_64, Machine.AARCH64: code_aarch64}
