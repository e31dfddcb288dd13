"""Finds the operators that the code of an object looks up by name when it runs.

With ``at::_ops``, the import itself shows which. In all other cases, a name is passed to a function of torch, and its
double records it (``doubles.torch_lookups``) when the call is executed. Few of these calls are in code that is run
anyway, and most are deep in functions that need real tensors to get there. But a constant name is put together just
before the call. So for a call that was not executed, the code just before it is run in isolation: from the start of the
block that ends with the call, then from the starts of the blocks before that one, until the function gets whole texts.
If an instruction fails, the run starts again after it. The state before the run is unknown, so registers and stack
contain values that are not texts (``emulator.Unknown``): a text that is read was made by these instructions, or is
constant. A constant that the function has put into a register or its frame long before is found by following the ways
to the block backwards (``constants``). If even that does not help, the name is not constant, and the call is a gap.

A symbol need not be known completely if its domain has no operators: ``"attr::" + name`` does not look one up.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from abiscan.binary.elf import Machine
from abiscan.emulation.arch.constants import FRAME_POINTER, Constants, Location
from abiscan.emulation.aten import operators_behind
from abiscan.emulation.call_sites import CallSite, Functions, instructions_before
from abiscan.emulation.doubles.torch_lookups import function_called, is_operator
from abiscan.emulation.emulator import PAGE_SIZE, UNKNOWN_SIZE
from abiscan.emulation.process import EmulatedProcess
from abiscan.emulation.recorder import Recorder
from abiscan.gaps import Gap
from abiscan.registrations import LOOKUPS, Lookup

_STRUCTS: Final = "at::_ops"
_INSTRUCTIONS: Final = 3_000
_WORD: Final = struct.Struct("<Q")
_FRAME_WORDS, _FRAME_AT = 0x800, 0x3000  # of a frame with constants, and where its pointer points
_FRAME_SIZE: Final = _FRAME_WORDS * _WORD.size
_FRAME: Final = range(_FRAME_SIZE - _WORD.size + 1)  # where a word is within it
_UNKNOWN_TEXT: Final = b"\xff"
_Called: TypeAlias = tuple[str, "int | None"]  # the name of an operator, and the version that the call passes


def imported_operators(imports: Iterable[str]) -> Iterator[Lookup | Gap]:
    """Yield the operators whose structs in ``at::_ops`` an object imports members of."""
    seen = set()
    for symbol in sorted(imports):
        operators = operators_behind(symbol)
        if operators is None or operators in seen:
            continue
        seen.add(operators)
        if len(operators) == 1:
            yield Lookup(operator=operators[0], function=_STRUCTS, address=None)
        else:
            reason = f"could be that of {' or '.join(operators)}" if operators else "is in no known release"
            yield Gap(stage=LOOKUPS, reason=f"the imported struct of {_STRUCTS} {reason}", address=None, symbol=symbol)


class LookupReader:
    """Reads the names passed to the functions that look up operators.

    :param run: runs the function at an emulated address, with arguments, for at most a number of instructions
    """

    def __init__(
        self,
        process: EmulatedProcess,
        machine: Machine,
        recorder: Recorder,
        run: Callable[[int, Sequence[int], int], object],
    ) -> None:
        self._process = process
        self._machine = machine
        self._recorder = recorder
        self._run = run
        self._functions = Functions(process.image)
        self._constants = Constants(process.arch.name, self._functions.code_of)
        self._frame = process.allocate(_FRAME_SIZE, PAGE_SIZE)
        self._unknown = process.machine.unknown(process.allocate(UNKNOWN_SIZE, PAGE_SIZE))

    def read(self, sites: Iterable[CallSite]) -> Iterator[Lookup | Gap]:
        """Yield the operators that these calls look up, and a gap for each call where the operator is unknown."""
        self._process.unknown_text = _UNKNOWN_TEXT
        executed: dict[int | None, set[_Called]] = {}
        # Calls that were executed anyway say what they look up, with all that led to it: no other run is more certain.
        for lookup in self._recorder.lookups:
            executed.setdefault(lookup.address, set()).add((lookup.operator, lookup.abi_version))
        for site in sites:
            function = function_called(site.target) or site.target
            # A call that leaves its function returns to where that one would have: nothing tells it by its address.
            names = executed.get(self._process.image.base + site.address) if not site.is_jump else None
            names = names or self._read_one(site)
            for name, version in sorted(names, key=str):
                if is_operator(name):
                    yield Lookup(operator=name, function=function, address=site.address, abi_version=version)
            if not names:
                reason = f"calls {function} with a name that is not a constant"
                symbol = self._process.image.nearest_symbol(site.address)
                yield Gap(stage=LOOKUPS, reason=reason, address=site.address, symbol=symbol)

    def _read_one(self, site: CallSite) -> set[_Called]:
        start = self._functions.containing(site.address - (not site.is_jump))
        if start is None:
            return set()
        before = instructions_before(self._process.image, self._machine, site.address, start)
        # Only for instructions that end right at the next one: ``before`` was decoded as one piece.
        following = {instruction.address: after.address for instruction, after in itertools.pairwise(before)}
        heads = [
            instruction.address
            for number, instruction in enumerate(before)
            if not number or before[number - 1].is_branch
        ]
        # The shortest piece first: the less code runs, the less of it needs what is unknown.
        for head in (*reversed(heads), start):
            first: int | None = head
            while first is not None:
                names = self._names_from(first, site)
                if names:
                    return names
                # Skip the instruction that failed. An address before ``first`` would lead round in circles.
                stopped = self._process.machine.vm.pc - self._process.image.base
                first = following.get(stopped) if stopped >= first else None
        for head, constants in self._constants_at(heads, start, site):
            names = self._names_from(head, site, constants)
            if names:
                return names
        return set()

    def _constants_at(
        self, heads: Sequence[int], start: int, site: CallSite
    ) -> Iterator[tuple[int, Mapping[Location, int]]]:
        """Yield the heads, the last one first, with the constants that hold there and at every head behind it."""
        # The run goes through all heads behind its own: a constant must hold at each of them, since nothing sets it
        # again.
        agreed: frozenset[tuple[Location, int]] | None = None
        for head in reversed(heads):
            constants = frozenset(self._constants.at(head, start, range(heads[0], site.address)).items())
            agreed = constants if agreed is None else agreed & constants
            if agreed:
                yield head, dict(agreed)

    def _names_from(self, first: int, site: CallSite, constants: Mapping[Location, int] | None = None) -> set[_Called]:
        """Return the names that are passed to the call if the code is run from ``first``.

        :param constants: what is known of registers and frame there
        """
        # Each run starts from the same unknown state: nothing that an earlier one left may look like a text.
        self._process.machine.forget(self._unknown)
        if constants:
            self._put(constants)
        seen = len(self._recorder.lookups)
        base = self._process.image.base
        self._run(base + first, (), _INSTRUCTIONS)
        return {
            (lookup.operator, lookup.abi_version)
            for lookup in self._recorder.lookups[seen:]
            # A jump returns to the caller of its function, which is outside of the object in such a run.
            if lookup.address == base + site.address or (site.is_jump and not self._is_own(lookup.address))
        }

    def _put(self, constants: Mapping[Location, int]) -> None:
        """Make registers, and words of a frame of which nothing else is known, hold constants."""
        machine = self._process.machine
        pointer = machine.vm.reg_read(FRAME_POINTER)
        content = bytearray(_WORD.pack(pointer) * _FRAME_WORDS)
        for location, constant in constants.items():
            if isinstance(location, str):
                machine.vm.reg_write(location, self._process.image.base + constant)
            elif (at := _FRAME_AT + location) in _FRAME:
                _WORD.pack_into(content, at, self._process.image.base + constant)
        machine.write(self._frame, bytes(content))
        machine.vm.reg_write(FRAME_POINTER, self._frame + _FRAME_AT)

    def _is_own(self, address: int | None) -> bool:
        return address is not None and self._process.image.contains(address)
