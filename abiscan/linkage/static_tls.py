"""The static block of thread-local variables: how much room a load finds in it.

Each thread has one, whose size glibc fixes when the program starts: the variables of the libraries that are there by
then, and a surplus for those that are loaded later and whose code finds its variables by a fixed distance from the
thread pointer. Sources: glibc, elf/dl-tls.c (``_dl_determine_tlsoffset``, ``_dl_tls_static_surplus_init``) and
elf/dl-reloc.c (``_dl_try_allocate_static_tls``); they are the same in versions 2.17 to 2.41, but for tunables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from abiscan.binary.elf import ThreadVariables
from abiscan.linkage.model import Module, Process

_SURPLUS: Final = 1664
_ALIGNMENT: Final = 64  # TCB_ALIGNMENT
_NOTHING: Final = ThreadVariables(size=0, alignment=1, lead=0)


class StaticBlock:
    """The room that is left in the static block of a process.

    :param started: the modules that the program started with
    """

    def __init__(self, started: Iterable[Module]) -> None:
        self._placed = dict.fromkeys(started)
        used, alignment = 0, _ALIGNMENT
        for block in filter(None, map(_variables, self._placed)):
            alignment = max(alignment, block.alignment)
            first = -block.lead % max(block.alignment, 1)
            used = _round_up(used + block.size - first, block.alignment) + first
        self._alignment = alignment
        self._free = _round_up(used + _SURPLUS, alignment) - used

    @classmethod
    def of_process(cls, process: Process) -> StaticBlock:
        """Return the block after everything that a process has loaded."""
        # Of an unknown interpreter, no more is known than that it has the surplus.
        block = cls(_startup_modules(process)) if process.has_python else cls(())
        for module in process.modules:
            for _, reference in module.facts.static_tls if module.facts else ():
                if reference is None:
                    block.make_room(module)
        return block

    def make_room(self, module: Module) -> bool:
        """Place the variables of a module, unless they are placed already; return whether there was room."""
        if module in self._placed or module.facts is None:
            return True
        block = module.facts.thread_variables or _NOTHING
        needed, alignment = block.size + block.lead, max(block.alignment, 1)
        if alignment > self._alignment or needed > self._free:
            return False
        self._placed[module] = None
        # The distance of all blocks from the thread pointer is a multiple of their alignment.
        self._free = (self._free - needed) // alignment * alignment + block.lead
        return True


def _variables(module: Module) -> ThreadVariables | None:
    return module.facts.thread_variables if module.facts else None


def _startup_modules(process: Process) -> Iterator[Module]:
    """Yield what was loaded when the interpreter started: the interpreter, and what it needs, directly or not."""
    started = dict.fromkeys(process.modules[:1])
    queue = list(started)
    for module in queue:
        for name in module.facts.needed if module.facts else ():
            library = process.names.get(name)
            if library is not None and library not in started:
                started[library] = None
                queue.append(library)
    return iter(started)


def _round_up(size: int, alignment: int) -> int:
    return -(-size // max(alignment, 1)) * max(alignment, 1)
