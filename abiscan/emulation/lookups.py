"""Finds the operators that the code of an object fetches by name when it runs.

Through ``at::_ops`` the import itself says which. All other ways hand a name to a function of torch, whose double takes
note of it (``doubles.torch_lookups``) when the call is executed. Few of these calls lie in what is run anyway, and most
lie deep in functions that need real tensors to get there. But a constant name is put together just before the call.
So of a call that was not executed the instructions just before it are run by themselves: first one, then more of them,
until the function gets whole texts. Nothing is known of what came before, so registers and stack then hold what is no
text: what is read was made by these instructions, or is constant. Where even the whole function does not get there,
the name is no constant, and the call is a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from abiscan.elf import Machine
from abiscan.emulation.aten import operators_behind
from abiscan.emulation.call_sites import CallSite, Functions, instructions_before
from abiscan.emulation.doubles.torch_lookups import function_called
from abiscan.emulation.loader import BASE
from abiscan.emulation.model import LOOKUPS, Gap, Lookup
from abiscan.emulation.process import Process
from abiscan.emulation.recorder import NAMESPACE_SEPARATOR, Recorder

_STRUCTS: Final = "at::_ops"
_INSTRUCTIONS: Final = 3_000
_AREA: Final = 0x400
# Gives a name a number: what comes of it is seen elsewhere, and most of the time it is no operator's.
_NAMES_ONLY: Final = ("c10::Symbol::fromQualString",)
# The domains of symbols that name no operator (ATen/core/interned_strings.h).
_NO_OPERATORS: Final = frozenset({"attr", "dimname", "namespaces", "onnx", "scope", "user", "_caffe2"})


def imported_operators(imports: Iterable[str]) -> Iterator[Lookup | Gap]:
    """The operators whose structs in ``at::_ops`` an object imports members of."""
    seen = set()
    for symbol in sorted(imports):
        operators = operators_behind(symbol)
        if operators is None or operators in seen:
            continue
        seen.add(operators)
        if len(operators) == 1:
            yield Lookup(operator=operators[0], function=_STRUCTS, address=None)
        else:
            reason = f"of {' or '.join(operators)}" if operators else "of no release that is known"
            yield Gap(stage=LOOKUPS, reason=f"a struct in {_STRUCTS} {reason}", address=None, symbol=symbol)


class LookupReader:
    """Reads the names at calls of the functions that fetch operators by name.

    :param run: runs the function at an emulated address, with arguments, for at most a number of instructions
    """

    def __init__(
        self, process: Process, machine: Machine, recorder: Recorder, run: Callable[[int, Sequence[int], int], object]
    ) -> None:
        self._process = process
        self._machine = machine
        self._recorder = recorder
        self._run = run
        self._functions = Functions(process.image)
        self._areas = process.allocate(_AREA * len(process.arch.registers))

    def read(self, sites: Iterable[CallSite]) -> Iterator[Lookup | Gap]:
        """What is fetched at these calls, a gap for each at which it cannot be told."""
        executed: dict[int | None, set[str]] = {}
        for lookup in self._recorder.lookups:
            executed.setdefault(lookup.address, set()).add(lookup.operator)
        for site in sites:
            function = function_called(site.target) or site.target
            # A call that leaves its function returns to where that one would have: nothing tells it by its address.
            names = executed.get(BASE + site.address) if not site.is_jump else None
            names = names or self._read_one(site)
            for name in sorted(names):
                if name.partition(NAMESPACE_SEPARATOR)[0] not in _NO_OPERATORS:
                    yield Lookup(operator=name, function=function, address=site.address)
            if not names and function not in _NAMES_ONLY:
                reason = f"what {function} is asked for is not a constant"
                symbol = self._process.image.nearest_symbol(site.address)
                yield Gap(stage=LOOKUPS, reason=reason, address=site.address, symbol=symbol)

    def _read_one(self, site: CallSite) -> set[str]:
        start = self._functions.containing(site.address - (not site.is_jump))
        if start is None:
            return set()
        before = instructions_before(self._process.image, self._machine, site.address, start)
        for first in (*(before if site.is_jump else before[1:]), start):
            self._process.machine.forget(self._areas, _AREA)
            seen = len(self._recorder.lookups)
            self._run(BASE + first, (), _INSTRUCTIONS)
            names = {
                lookup.operator
                for lookup in self._recorder.lookups[seen:]
                if lookup.address == BASE + site.address or (site.is_jump and not self._is_own(lookup.address))
            }
            if names:
                return names
        return set()

    def _is_own(self, address: int | None) -> bool:
        return address is not None and self._process.image.contains(address)
