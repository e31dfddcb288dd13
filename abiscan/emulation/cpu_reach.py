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
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from abiscan import native
from abiscan.binary.elf import ElfFile, Machine
from abiscan.cpu.instructions import features_of
from abiscan.cpu.needs import CpuReach, CpuUse
from abiscan.emulation.arch import ARCHITECTURES, CODE
from abiscan.emulation.arch.values import Swept
from abiscan.emulation.call_graph import CalledFunctions, CallGraph
from abiscan.emulation.call_sites import Functions, callers_of, functions_naming, windows_of_code
from abiscan.emulation.loader import Image
from abiscan.errors import NotElfError
from abiscan.regex import regex

_CPUID: Final = regex(rb"\x0f\xa2")
_LONGEST: Final = 15
_SMALL: Final = 1024  # bytes of a function that does little but check the CPU
_WRITER: Final = 512  # of one that keeps the answer of another
_STRUCTURE: Final = 64  # bytes of the structure with the result of a check, whose members code reads
_MOST_FUNCTIONS: Final = 1 << 16
_MOST_CODE: Final = 1 << 26
_MOST_STEPS: Final = 1 << 19  # functions that are passed, for all operators of a file
_MOST_ASKING: Final = 1 << 17  # functions that may ask, each of which is decoded: libtorch_cpu.so has 59,000
_DEPTH: Final = 3  # of functions that pass an answer on
_GUARD: Final = "__cxa_guard_acquire"
# cpuinfo, compilers' own, torch's, oneDNN's, OpenBLAS's: imports whose names say that they tell what the processor has.
_TELLS: Final = regex(
    r"^cpuinfo_(has|get|initialize|isa)|^__cpu_(model|features2?|indicator_init)$|^__get_cpuid"
    r"|get_cpu_capability|DispatchStubImpl(12get_call_ptr|15choose_cpu_impl)|(?i:(has|is|supports?)_?(avx|amx|sse|vnni))"
    r"|(?i:(avx|amx|vnni)\w*_?support)|^get(aux|cpu)|mayiuse|effective_cpu_isa"
)


class _TooMany(Exception):  # noqa: N818 - it says what was found
    """More functions may ask what the processor has than are decoded."""


class _Code(NamedTuple):
    """What the code of a function needs: each feature with its first offset.

    :ivar is_whole: whether it was read to its end
    """

    size: int
    features: tuple[tuple[str, int], ...]
    is_whole: bool


class _References(NamedTuple):
    """Where the code of a function executes ``cpuid``, and what it calls and names, each with its offset."""

    questions: list[int]
    calls: list[tuple[int, int]]
    data: list[tuple[int, int]]


class _Callee(NamedTuple):
    """What a call leads to.

    :ivar is_named: whether its name says that it tells what the processor has
    :ivar place: see ``CallGraph``; None where no object defines it
    """

    is_named: bool
    place: int | None


class _Object:
    """The code of one object."""

    def __init__(self, file: ElfFile, machine: Machine) -> None:
        self.image = Image(file, ARCHITECTURES[machine], lambda _: 0, lambda _: 0, lambda at: at)
        self._machine = machine
        self._functions = Functions(self.image)
        self._sweep = _sweep_of(machine)
        self.calls = CalledFunctions(self.image, machine)
        self.references = functools.cache(self._read_references)
        """Returns what the code of a function asks, calls and names, which matters for few of them."""
        self.reads_answer = functools.cache(self._reads_answer)
        """Returns whether data holds a result of the detection of processor features."""

    @property
    def starts(self) -> Sequence[int]:
        """Where its functions start."""
        return self._functions.starts

    def code(self, start: int) -> _Code:
        """Return what the code of a function needs."""
        code = self._functions.code_of(start)
        extensions, _, _, _, end = self._sweep(code, start)
        features: dict[str, int] = {}
        for at in extensions:
            for feature in features_of(self._machine, code[at : at + _LONGEST]):
                features.setdefault(feature, at)
        return _Code(len(code), tuple(features.items()), end == len(code))

    def _read_references(self, start: int) -> _References:
        _, questions, calls, data, _ = self._sweep(self._functions.code_of(start), start)
        return _References(questions, calls, data)

    @functools.cached_property
    def _imports(self) -> dict[int, int]:
        slots = self.image.import_slots()
        return slots.by_stub | slots.others

    @functools.cached_property
    def imported(self) -> frozenset[str]:
        """The names of the functions that the object imports."""
        return frozenset(filter(None, map(self._imported, self._imports)))

    @functools.cached_property
    def _pointers(self) -> dict[int, int]:
        return self.image.own_pointers()

    def callee(self, target: int) -> int | str | None:
        """Return what is called at an address: a function of the object, or the name of one that it imports."""
        slot = self.calls.slot_of(target)
        if slot is None:
            return target if self.lists(target) else None
        return self._imported(slot) or self._pointers.get(slot)

    def _imported(self, slot: int) -> str | None:
        number = self._imports.get(slot)
        return None if number is None else self.image.symbol(number).name

    @functools.cached_property
    def answers(self) -> frozenset[int]:
        """The data that tell what the processor has.

        Functions that execute ``cpuid``, and the small ones that call them, keep there what they learn; or else they
        are pointers to the former.
        """
        # A library checks once and keeps the result in data, which only the functions that check write.
        asking = self._asking
        writers = set(asking)
        if asking and len(self.starts) < _MOST_FUNCTIONS:
            writers |= {start for start in self.callers(asking) if self.code(start).size <= _WRITER}
        # Read-only data, such as tables that the function uses, is dropped: a result must be in writable memory.
        data = (place for start in writers for _, place in self.references(start).data)
        kept = {datum for place in data if (datum := self._find_datum(place))}
        pointers = {at for at, target in self._pointers.items() if target in asking} if asking else set[int]()
        return frozenset({*filter(self._can_change, kept), *pointers})

    @functools.cached_property
    def _asking(self) -> frozenset[int]:
        """The functions that execute ``cpuid``."""
        # Two bytes that may be part of another instruction: decoding the function tells.
        candidates = {
            self._functions.containing(address + match.start())
            for content, address in windows_of_code(self.image)
            for match in _CPUID.finditer(content)
        }
        if len(candidates) > _MOST_ASKING:
            raise _TooMany
        return frozenset(start for start in candidates if start is not None and self.references(start).questions)

    def callers(self, targets: AbstractSet[int], names: AbstractSet[str] = frozenset()) -> set[int]:
        """Return the functions that call some functions of the object, or imports, directly or through stubs."""
        slots = {slot for slot in self._imports if self._imported(slot) in names} if names else set[int]()
        if targets:
            slots.update(at for at, target in self._pointers.items() if target in targets)
        called = {*targets, *self.calls.stubs(slots)}
        return callers_of(self.image, self._machine, self._functions, called)

    def may_ask(self) -> Iterable[int]:
        """Return functions among which are all that ask by themselves."""
        telling = {slot for slot in self._imports if _is_telling(self._imported(slot) or "")}
        bounds = [(at, at + 1) for at in (*telling, *self.calls.stubs(telling))]
        if self.answers:
            starts, end = sorted(self.answers), max(self.answers) + _STRUCTURE
            bounds += ((at, at + _STRUCTURE) for at in starts)
            near = (at for at, target in self._pointers.items() if starts[0] <= target < end)
            bounds += ((at, at + 1) for at in near if self.reads_answer(at))
        return {*self._asking, *functions_naming(self.image, self._functions, bounds)}

    def lists(self, start: int) -> bool:
        """Whether a function is one of those that the object lists."""
        return self._functions.is_start(start)

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
            return _is_telling(name)
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
        self._names = [posixpath.basename(file.subject) for file in files]
        self._callees: list[dict[int, _Callee]] = [{} for _ in files]
        self._telling = frozenset[int]()
        # Half a million functions are visited, most of them several times.
        self._code = functools.cache(self._read_code)
        """Returns what the code of a function needs."""
        self._question = functools.cache(lambda place: min(self._asks(place), default=None))
        """Returns where a function first asks what the processor has; None if it does not."""

    def of(self, roots: Iterable[int]) -> CpuReach:
        """Return what some functions of the first object reach."""
        if self._asking is None:  # what is behind a question is not known
            return CpuReach(uses=(), behind=(), is_whole=False)
        # Two passes: first the code that is reached without a check, then the code behind one. A function that is
        # reached both ways counts as reached without, so the order matters.
        unasked: dict[str, CpuUse] = {}
        behind: set[str] = set()
        waiting, after = deque(dict.fromkeys(self._graph.place_of(0, root) for root in roots)), deque[int]()
        first = self._graph.function_at(waiting[0])[1] if waiting else 0
        seen, steps = set(waiting), self._steps
        left, is_whole = _MOST_CODE, True
        unlisted = {root for root in waiting if not self._is_listed(root)}
        asking = self._asking | unlisted if unlisted else self._asking
        while waiting and left > 0 and steps > 0:
            place = waiting.popleft()
            steps -= 1
            code, question = self._code(place), self._question(place) if place in asking else None
            left -= code.size
            is_whole &= code.is_whole
            for feature, offset in code.features:
                # Code before the first check runs without its result, the first time at least.
                if question is None or offset < question:
                    if feature not in unasked:
                        unasked[feature] = self._use(feature, place, offset, first)
                else:
                    behind.add(feature)
            places: Iterable[int] = self._graph.next_places(place)
            if question is not None:
                # Functions that are called before the check run unchecked; everything else that the function leads to
                # is behind it.
                after.extend(places)
                places = self._called_before(place, question)
            new = [place for place in places if place not in seen]
            seen.update(new)
            waiting.extend(new)
        while after and left > 0 and steps > 0:
            place = after.popleft()
            if place in seen:
                continue
            seen.add(place)
            steps -= 1
            code = self._code(place)
            left -= code.size
            behind.update(feature for feature, _ in code.features)
            after.extend(self._graph.next_places(place))
        self._steps = steps
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

    def _use(self, feature: str, place: int, offset: int, first: int) -> CpuUse:
        number, start = self._graph.function_at(place)
        return CpuUse(
            feature=feature,
            address=start + offset,
            symbol=self._objects[number].image.symbol_around(start + offset),
            initialiser=first,
            source=None,
            in_module=False,
            library=self._names[number] if number else None,
        )

    def _read_code(self, place: int) -> _Code:
        number, start = self._graph.function_at(place)
        return self._objects[number].code(start)

    def _called_before(self, place: int, offset: int) -> Iterable[int]:
        """Return the functions that a function calls before some of its code."""
        number, start = self._graph.function_at(place)
        calls = self._objects[number].references(start).calls
        callees = (self._find_callee(number, target).place for at, target in calls if at < offset)
        return dict.fromkeys(callee for callee in callees if callee is not None)

    @functools.cached_property
    def _asking(self) -> frozenset[int] | None:
        """The functions that may ask what the processor has, None if they are too many; with them, those that only tell
        it are known.
        """
        try:
            return self._find_asking()
        except _TooMany:
            return None

    def _find_asking(self) -> frozenset[int]:
        # Few functions do, so they are searched for: from what is asked to those who ask it.
        asking = set[int]()
        for number, object_ in enumerate(self._objects):
            asking.update(self._graph.place_of(number, start) for start in object_.may_ask())
            definitions = map(self._graph.find_definition, object_.imported)
            asking.update(place for place in definitions if place is not None and not self._is_listed(place))
        for _ in range(_DEPTH):
            if len(asking) > _MOST_ASKING:
                raise _TooMany
            telling = frozenset(filter(self._only_tells, asking))
            if telling == self._telling:
                break
            self._telling = telling
            asking.update(self._callers(telling))
        return frozenset(asking)

    def _callers(self, places: AbstractSet[int]) -> Iterator[int]:
        """Yield the functions that call some functions directly, or through stubs."""
        for number, object_ in enumerate(self._objects):
            names = {name for name in object_.imported if self._graph.find_definition(name) in places}
            own = {start for of, start in map(self._graph.function_at, places) if of == number}
            for start in object_.callers(own, names):
                yield self._graph.place_of(number, start)

    def _is_listed(self, place: int) -> bool:
        """Whether a function is one of those that its object lists, which have been searched."""
        number, start = self._graph.function_at(place)
        return self._objects[number].lists(start)

    def _asks(self, place: int) -> list[int]:
        number, start = self._graph.function_at(place)
        of = self._objects[number]
        references = of.references(start)
        result = [*references.questions, *(at for at, datum in references.data if of.reads_answer(datum))]
        calls = [at for at, target in references.calls if self._is_told(self._find_callee(number, target))]
        imports = of.calls.led_to(start).imports
        # A function-local static is read on a fast path in front of ``__cxa_guard_acquire`` (Itanium C++ ABI, 3.3.3).
        if calls and _GUARD in imports:  # the result is kept in a variable, which is read before the call
            calls += [at for at, datum in references.data if of.is_writable(datum)]
        if not result and not calls and any(map(_is_telling, imports)):
            result.append(min((at for at, _ in references.calls), default=0))
        return result + calls

    def _is_told(self, callee: _Callee) -> bool:
        """Whether a callee only tells what the processor has."""
        return callee.is_named or callee.place in self._telling

    def _find_callee(self, number: int, target: int) -> _Callee:
        callees = self._callees[number]
        if target not in callees:
            callee = self._objects[number].callee(target)
            if isinstance(callee, str):
                callees[target] = _Callee(_is_telling(callee), self._graph.find_definition(callee))
            else:
                place = None if callee is None else self._graph.place_of(number, callee)
                callees[target] = _Callee(is_named=False, place=place)
        return callees[target]

    def _only_tells(self, place: int) -> bool:
        number, start = self._graph.function_at(place)
        code = self._code(place)
        # A large function does more than check, and the rest of it may be what the check guards.
        if code.size > _SMALL and not self._objects[number].references(start).questions:
            return False
        if code.features or not self._asks(place):
            return False
        return not any(self._code(after).features for after in self._graph.next_places(place))


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


@functools.cache
def _is_telling(name: str) -> bool:
    """Whether the name of an import says that it tells what the processor has."""
    return _TELLS.search(name) is not None


def _sweep_of(machine: Machine) -> Callable[[bytes, int], Swept]:
    if machine.value == native.ARCHITECTURE and native.is_available():
        from abiscan.native._core import sweep

        return sweep
    return CODE[machine].sweep
