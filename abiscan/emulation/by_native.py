"""The native processor: what it does not know, it hands to icicle, and goes on with the result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from abiscan.emulation.arch import ARCHITECTURES
from abiscan.emulation.processor import AccessError, Stopped, Vectors
from abiscan.native import ARCHITECTURE
from abiscan.native._core import Core

if TYPE_CHECKING:
    from abiscan.emulation.icicle_fallback import IcicleFallback

_LONGEST: Final = 15  # bytes of an instruction
_PAGE: Final = 0x1000
_UNALIGNED: Final = "processor exception ExecUnaligned"  # as icicle has it
_ARCHES: Final = {arch.name: arch for arch in ARCHITECTURES.values()}


class NativeProcessor(Core):
    """A processor in its initial state, without memory.

    :param most_pages: how many pages can ever be mapped
    """

    misreads_vectors = False
    remembers_code = False

    def __init__(self, architecture: str, most_pages: int) -> None:
        super().__init__(architecture, most_pages)
        self.architecture = architecture
        self._arch = _ARCHES[architecture]
        self._most_pages = most_pages
        self.other = ""
        self._alignment = 1 if architecture == ARCHITECTURE else 4  # of instructions
        # Only those of x86-64 have parts without names.
        self.vectors: Vectors = _Vectors(self) if architecture == ARCHITECTURE else [bytes(64)] * 32
        self.masks = [0] * 8
        self._breakpoints: set[int] = set()
        self._fallback: IcicleFallback | None = None

    def add_breakpoint(self, address: int) -> None:
        """Stop before the instruction at ``address`` is executed."""
        self._breakpoints.add(address)
        super().add_breakpoint(address)

    def remove_breakpoint(self, address: int) -> None:
        """Do not stop there any more."""
        self._breakpoints.discard(address)
        super().remove_breakpoint(address)

    def run(self) -> int:
        """Run until something happens, and return what."""
        while True:
            stopped = super().run()
            if stopped == Stopped.UNKNOWN:
                stopped = self._by_icicle(several=True)
            if stopped != Stopped.NOT:
                return stopped

    def step(self) -> int:
        """Execute one instruction, whether there is a breakpoint or not; return why it could not be done."""
        stopped = super().step()
        return self._by_icicle(several=False) if stopped == Stopped.UNKNOWN else stopped

    def _by_icicle(self, *, several: bool) -> int:
        """Have icicle execute the instruction; ``several`` if it may go on with those after it."""
        if self.pc % self._alignment:
            self.other = _UNALIGNED
            return Stopped.OTHER
        code = self.code_at(self.pc)
        if self._arch.is_stepped_over(code):
            return Stopped.UNKNOWN
        if self._arch.signal_of(code) is not None:  # icicle goes on behind some of them
            self.icount += 1
            return Stopped.UNKNOWN
        if self._fallback is None:
            from abiscan.emulation.icicle_fallback import IcicleFallback

            self._fallback = IcicleFallback(self, self._arch, self._most_pages, self._breakpoints)
        stopped = self._fallback.run(several=several)
        self.other = self._fallback.other
        return stopped

    def code_at(self, address: int) -> bytes:
        """Return the bytes of one instruction and those behind it, as far as they are mapped."""
        try:
            return self.mem_read(address, _LONGEST)
        except AccessError:
            return self.mem_read(address, min(_LONGEST, _PAGE - address % _PAGE))

    def note_extension(self, address: int) -> None:
        """Do nothing: it sees each instruction."""

    def forget_code(self) -> None:
        """Do nothing: none is remembered."""

    def close(self) -> None:
        """Give back the memory, and icicle's processor if there is one."""
        if self._fallback is not None:
            self._fallback.close()
            self._fallback = None


class _Vectors:
    """The 32 vector registers, 64 bytes each."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def __getitem__(self, number: int) -> bytes:
        return self._core.vector(number)

    def __setitem__(self, number: int, value: bytes) -> None:
        self._core.set_vector(number, value)
