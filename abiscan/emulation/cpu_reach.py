"""Which features of the processor some functions may use, as far as their code itself says so; nothing is executed.

What an operator does depends on its arguments, so the question is what its kernel can reach: the functions that it
leads to, found as in ``call_graph``. A function that asks what the processor has decides about what comes behind the
question, its own code and whatever it leads to. It asks if it executes ``cpuid``, reads data that a function which does
so writes, calls a small function that tells the answer, or imports one by a name that says so.
"""

from __future__ import annotations

import bisect
import functools
import posixpath
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from abiscan.binary.elf import ElfFile, Machine
from abiscan.cpu.instructions import features_of
from abiscan.cpu.needs import CpuReach, CpuUse
from abiscan.emulation import native
from abiscan.emulation.arch import ARCHITECTURES, CODE
from abiscan.emulation.arch.values import Swept
from abiscan.emulation.call_graph import CalledFunctions, CallGraph
from abiscan.emulation.call_sites import Functions, callers_of, code_in
from abiscan.emulation.loader import Image
from abiscan.errors import NotElfError
from abiscan.regex import regex

_CPUID: Final = b"\x0f\xa2"
_LONGEST: Final = 15
_SMALL: Final = 1024  # bytes of a function that does little but check the CPU
_WRITER: Final = 512  # of one that keeps the answer of another
_STRUCTURE: Final = 64  # bytes of the structure with the result of a check, whose members code reads
_MOST_FUNCTIONS: Final = 1 << 16
_MOST_CODE: Final = 1 << 26
_MOST_STEPS: Final = 1 << 19  # functions that are passed, for all operators of a file
_DEPTH: Final = 3  # of functions that pass an answer on
_GUARD: Final = "__cxa_guard_acquire"
# cpuinfo, compilers' own, torch's, oneDNN's, OpenBLAS's: imports whose names say that they tell what the processor has.
_TELLS: Final = regex(
    r"^cpuinfo_(has|get|initialize|isa)|^__cpu_(model|features2?|indicator_init)$|^__get_cpuid"
    r"|get_cpu_capability|DispatchStubImpl(12get_call_ptr|15choose_cpu_impl)|(?i:(has|is|supports?)_?(avx|amx|sse|vnni))"
    r"|(?i:(avx|amx|vnni)\w*_?support)|^get(aux|cpu)|mayiuse|effective_cpu_isa"
)

Place = tuple[int, int]
"""A function: the number of its object, and where it starts in the file's own space."""


class _Code(NamedTuple):
    """What the code of a function tells, each thing with its offset.

    :ivar is_whole: whether it was read to its end
    """

    size: int
    features: tuple[tuple[str, int], ...]
    questions: tuple[int, ...]
    calls: tuple[tuple[int, int], ...]
    data: tuple[tuple[int, int], ...]
    is_whole: bool


class _Callee(NamedTuple):
    """What a call leads to.

    :ivar is_named: whether its name says that it tells what the processor has
    :ivar place: None where no object defines it
    """

    is_named: bool
    place: Place | None


class _Object:
    """The code of one object."""

    def __init__(self, file: ElfFile, machine: Machine) -> None:
        self.image = Image(file, ARCHITECTURES[machine], lambda _: 0, lambda _: 0, lambda at: at)
        self._machine = machine
        self._functions = Functions(self.image)
        self.calls = CalledFunctions(self.image, machine)
        self._code: dict[int, _Code] = {}
        # Half a million functions are visited, most of them several times.
        self.reads_answer = functools.cache(self._reads_answer)
        """Whether data holds a result of the detection of processor features."""

    @property
    def starts(self) -> Sequence[int]:
        """Where its functions start."""
        return self._functions.starts

    def code(self, start: int) -> _Code:
        """Return what the code of a function tells."""
        if start not in self._code:
            code = self._functions.code_of(start)
            extensions, questions, calls, content, end = _sweep(self._machine, code, start)
            features: dict[str, int] = {}
            for at in extensions:
                for feature in features_of(self._machine, code[at : at + _LONGEST]):
                    features.setdefault(feature, at)
            self._code[start] = _Code(
                len(code), tuple(features.items()), tuple(questions), tuple(calls), tuple(content), end == len(code)
            )
        return self._code[start]

    @functools.cached_property
    def _imports(self) -> dict[int, int]:
        slots = self.image.import_slots()
        return slots.by_stub | slots.others

    @functools.cached_property
    def _pointers(self) -> dict[int, int]:
        return self.image.own_pointers()

    def callee(self, target: int) -> int | str | None:
        """Return what is called at an address: a function of the object, or the name of one that it imports."""
        slot = self.calls.stubs.get(target)
        if slot is None:
            return target if target in self._known else None
        return self._imported(slot) or self._pointers.get(slot)

    def _imported(self, slot: int) -> str | None:
        number = self._imports.get(slot)
        return None if number is None else self.image.symbol(number).name

    @functools.cached_property
    def _known(self) -> frozenset[int]:
        return frozenset(self._functions.starts)

    @functools.cached_property
    def answers(self) -> frozenset[int]:
        """The data that tell what the processor has.

        Functions that execute ``cpuid``, and the small ones that call them, keep there what they learn; or else they
        are pointers to the former.
        """
        asking = self._asking()
        # A library checks once and keeps the result in data, which only the functions that check write.
        writers = set(asking)
        if asking and len(self._known) < _MOST_FUNCTIONS:
            writers |= {start for start in self._direct_callers(asking) if self.code(start).size <= _WRITER}
        # Read-only data, such as tables that the function uses, is dropped: a result must be in writable memory.
        kept = {datum for start in writers for _, place in self.code(start).data if (datum := self._find_datum(place))}
        pointers = {at for at, target in self._pointers.items() if target in asking} if asking else set[int]()
        return frozenset({*filter(self._can_change, kept), *pointers})

    def _asking(self) -> set[int]:
        results: set[int] = set()
        for view, address in code_in(self.image):
            content = bytes(view)
            # Two bytes that may be part of another instruction: decoding the function, in ``code``, tells.
            at = content.find(_CPUID)
            while at >= 0:
                start = self._functions.containing(address + at)
                if start is not None and self.code(start).questions:
                    results.add(start)
                at = content.find(_CPUID, at + 1)
        return results

    def _direct_callers(self, targets: AbstractSet[int]) -> set[int]:
        """Return the functions that call some functions of the object directly."""
        stubs = [stub for stub, slot in self.calls.stubs.items() if self._pointers.get(slot) in targets]
        return callers_of(self.image, self._machine, self._functions, {*targets, *stubs})

    def _find_datum(self, place: int) -> int | None:
        """Return the datum at a place, or the one that a word of the global offset table leads to; None for other such
        words.
        """
        if place in self._pointers:
            return self._pointers[place]
        return None if self.image.is_relocated(self.image.base + place) else place

    def _reads_answer(self, place: int) -> bool:
        name = self._imported(place)
        if name is not None:
            return _TELLS.search(name) is not None
        at = self._find_datum(place)
        if at is None or place in self.answers:
            return at is not None
        # Code may read a member of the structure whose beginning was written.
        after = bisect.bisect_right(self._in_order, at)
        return after > 0 and at - self._in_order[after - 1] < _STRUCTURE

    @functools.cached_property
    def _in_order(self) -> list[int]:
        return sorted(self.answers)

    def is_writable(self, place: int) -> bool:
        """Whether code can change what is at a place."""
        datum = self._find_datum(place)
        return datum is not None and self._can_change(datum)

    def _can_change(self, address: int) -> bool:
        return self.image.is_writable(self.image.base + address)


class Reach:
    """What functions of some objects reach.

    :param files: the object, and the libraries that define what it imports, in the order in which they are searched
    :raises NotElfError: a table of an object is damaged
    """

    def __init__(self, files: Sequence[ElfFile], machine: Machine) -> None:
        self._objects = [_Object(file, machine) for file in files]
        self._graph = CallGraph([object_.calls for object_ in self._objects])
        self._steps = _MOST_STEPS
        self._after: dict[Place, tuple[Place, ...]] = {}
        self._names = [posixpath.basename(file.subject) for file in files]
        self._questions: dict[Place, int | None] = {}
        self._tells: dict[tuple[Place, int], bool] = {}
        self._callees: list[dict[int, _Callee]] = [{} for _ in files]

    def of(self, roots: Iterable[int]) -> CpuReach:
        """Return what some functions of the first object reach."""
        # Two passes: first the code that is reached without a check, then the code behind one. A function that is
        # reached both ways counts as reached without, so the order matters.
        unasked: dict[str, CpuUse] = {}
        behind: set[str] = set()
        seen, guarded = set[Place](), set[Place]()
        waiting, after = deque[Place]((0, root) for root in roots), deque[Place]()
        left, is_whole = _MOST_CODE, True
        first = next(iter(waiting), (0, 0))[1]
        while waiting and left > 0 and len(seen) < self._steps:
            place = waiting.popleft()
            if place in seen:
                continue
            seen.add(place)
            code, question = self._make_code(place), self._find_question(place)
            left -= code.size
            is_whole &= code.is_whole
            for feature, offset in code.features:
                # Code before the first check runs without its result, the first time at least.
                if question is None or offset < question:
                    if feature not in unasked:
                        unasked[feature] = self._use(feature, place, offset, first)
                else:
                    behind.add(feature)
            (waiting if question is None else after).extend(self._next(place))
            # Functions that are called before the check run unchecked; everything else that the function leads to is
            # behind it.
            if question is not None:
                called = (self._find_callee(place[0], target).place for at, target in code.calls if at < question)
                waiting.extend(filter(None, called))
        while after and left > 0 and len(seen) + len(guarded) < self._steps:
            place = after.popleft()
            if place in seen or place in guarded:
                continue
            guarded.add(place)
            code = self._make_code(place)
            left -= code.size
            behind.update(feature for feature, _ in code.features)
            after.extend(self._next(place))
        self._steps -= len(seen) + len(guarded)
        return CpuReach(
            uses=tuple(unasked[feature] for feature in sorted(unasked)),
            behind=tuple(sorted(behind - unasked.keys())),
            is_whole=is_whole and not waiting and not after,
        )

    def everything(self) -> frozenset[str] | None:
        """Return the features that any function of the first object uses; None if that is not known."""
        features: set[str] = set()
        left = _MOST_CODE
        for start in self._objects[0].starts:
            code = self._objects[0].code(start)
            left -= code.size
            if not code.is_whole or left < 0:
                return None
            features.update(feature for feature, _ in code.features)
        return frozenset(features)

    def _use(self, feature: str, place: Place, offset: int, first: int) -> CpuUse:
        number, start = place
        return CpuUse(
            feature=feature,
            address=start + offset,
            symbol=self._objects[number].image.symbol_around(start + offset),
            initialiser=first,
            source=None,
            in_module=False,
            library=self._names[number] if number else None,
        )

    def _make_code(self, place: Place) -> _Code:
        number, start = place
        return self._objects[number].code(start)

    def _next(self, place: Place) -> tuple[Place, ...]:
        if place not in self._after:
            self._after[place] = self._graph.next_places(place)
        return self._after[place]

    def _find_question(self, place: Place) -> int | None:
        """Return where a function first asks what the processor has; None if it does not."""
        if place not in self._questions:
            self._questions[place] = min(self._asks(place, _DEPTH), default=None)
        return self._questions[place]

    def _asks(self, place: Place, depth: int) -> list[int]:
        number, start = place
        code, of = self._make_code(place), self._objects[number]
        result = [*code.questions, *(at for at, datum in code.data if of.reads_answer(datum))]
        calls = [at for at, target in code.calls if self._is_told(self._find_callee(number, target), depth)]
        imports = of.calls.led_to(start).imports
        # A function-local static is read on a fast path in front of ``__cxa_guard_acquire`` (Itanium C++ ABI, 3.3.3).
        if calls and _GUARD in imports:  # the result is kept in a variable, which is read before the call
            calls += [at for at, datum in code.data if of.is_writable(datum)]
        if not result and not calls and any(map(_TELLS.search, imports)):
            result.append(min((at for at, _ in code.calls), default=0))
        return result + calls

    def _is_told(self, callee: _Callee, depth: int) -> bool:
        """Whether a callee only tells what the processor has."""
        if callee.is_named or callee.place is None or not depth:
            return callee.is_named
        key = callee.place, depth
        if key not in self._tells:
            # The depth is a part of the key: an answer for a shallow search does not hold for a deeper one.
            self._tells[key] = False  # of one that leads to itself
            self._tells[key] = self._only_tells(callee.place, depth - 1)
        return self._tells[key]

    def _find_callee(self, number: int, target: int) -> _Callee:
        callees = self._callees[number]
        if target not in callees:
            callee = self._objects[number].callee(target)
            if isinstance(callee, str):
                definition = self._graph.find_definition(callee)
                callees[target] = _Callee(_TELLS.search(callee) is not None, definition)
            else:
                callees[target] = _Callee(is_named=False, place=None if callee is None else (number, callee))
        return callees[target]

    def _only_tells(self, place: Place, depth: int) -> bool:
        code = self._make_code(place)
        # A large function does more than check, and the rest of it may be what the check guards.
        if code.size > _SMALL and not code.questions:
            return False
        if code.features or not self._asks(place, depth):
            return False
        return not any(self._make_code(after).features for after in self._next(place))


def reached_features(
    files: Sequence[ElfFile], machine: Machine, roots: Iterable[Iterable[int]]
) -> list[CpuReach | None]:
    """Return, for each group of functions, what it may use of the processor; None if that is not known.

    :param files: the object, and the libraries that define what it imports, in the order in which they are searched
    :param roots: where the functions of each group start, in the object's own space
    """
    groups = [list(group) for group in roots]
    if not CODE[machine].IS_SWEPT:
        return [None] * len(groups)
    try:
        reach = Reach(files, machine)
        return [reach.of(group) for group in groups]
    except (NotElfError, struct.error, ValueError, IndexError, OverflowError):
        return [None] * len(groups)


def features_in(file: ElfFile, machine: Machine) -> frozenset[str] | None:
    """Return the features that any code of an object uses; None if that is not known."""
    if not CODE[machine].IS_SWEPT:
        return None
    try:
        return Reach([file], machine).everything()
    except (NotElfError, struct.error, ValueError, IndexError, OverflowError):
        return None


def _sweep(machine: Machine, code: bytes, address: int) -> Swept:
    if machine.value == native.ARCHITECTURE and native.is_available():
        from abiscan.emulation.native._core import sweep

        return sweep(code, address)
    return CODE[machine].sweep(code, address)
