"""From an object's bytes to its registrations: the stages of the emulation in order."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import struct
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from abiscan.binary import registration_api as api
from abiscan.binary.elf import ElfFile, SharedObject
from abiscan.binary.mangling import demangle
from abiscan.cpu.needs import CpuAtLoad, CpuGap
from abiscan.emulation.call_sites import CallSite, Functions, find_call_sites
from abiscan.emulation.cpu_uses import CpuUses
from abiscan.emulation.doubles import finder
from abiscan.emulation.doubles.calendar import CALENDAR
from abiscan.emulation.doubles.cpython import CPYTHON, fill_datum, module_functions, new_module
from abiscan.emulation.doubles.cxx_strings import CXX_STRINGS
from abiscan.emulation.doubles.error_codes import ERROR_CODES
from abiscan.emulation.doubles.exceptions import EXCEPTIONS
from abiscan.emulation.doubles.gpu_runtime import GPU_RUNTIME, GpuKernels
from abiscan.emulation.doubles.libc import LIBC
from abiscan.emulation.doubles.libstdcxx import LIBSTDCXX
from abiscan.emulation.doubles.numbers import NUMBERS
from abiscan.emulation.doubles.paths import PATHS
from abiscan.emulation.doubles.streams import STREAMS, fill_console
from abiscan.emulation.doubles.system import SYSTEM
from abiscan.emulation.doubles.torch import torch_doubles
from abiscan.emulation.doubles.torch_lookups import function_called
from abiscan.emulation.doubles.torch_registries import FilledRegistries
from abiscan.emulation.doubles.wide_characters import WIDE_CHARACTERS
from abiscan.emulation.emulator import (
    OUT_OF_INSTRUCTIONS,
    SIGABRT,
    SIGFPE,
    SIGILL,
    SIGSEGV,
    SIGTRAP,
    ProcessTermination,
    Stop,
)
from abiscan.emulation.environment import asks_machine, is_as_in_torch
from abiscan.emulation.loader import Image
from abiscan.emulation.lookups import LookupReader, imported_operators
from abiscan.emulation.named_data import data_of
from abiscan.emulation.process import ADDRESS_OF, Double, EmulatedProcess
from abiscan.emulation.processor import AccessError
from abiscan.emulation.recorder import NAMESPACE_SEPARATOR, Recorder
from abiscan.emulation.taint import AnswerDecision
from abiscan.emulation.torch_state import TorchState
from abiscan.emulation.tracing import traced
from abiscan.errors import NotElfError
from abiscan.gaps import Gap
from abiscan.regex import regex
from abiscan.registrations import (
    Library,
    LibraryKind,
    Lookup,
    Phase,
    RegisteredKernel,
    RegisteredOperator,
    Registration,
    Registrations,
)

if TYPE_CHECKING:
    from abiscan.emulation.call_graph import CallGraph

_STAGE: Final = "emulation"
_INSTRUCTIONS_PER_FUNCTION: Final = 20_000_000
_INSTRUCTIONS_ON_CALL: Final = 1_000_000  # with meaningless arguments, longer runs find nothing more
_INSTRUCTIONS_OF_FAILURE: Final = 50_000  # until the text is made and thrown
_INSTRUCTIONS_PER_OBJECT: Final = 120_000_000
_CALLS_PER_FUNCTION: Final = 300_000
_HEAP_PER_FUNCTION: Final = 0x400_0000
# True, and a success that is no zero; -1, which is negative if signed and huge if unsigned; a huge
# ``int``.
_OTHER_ANSWERS: Final = (1, 0xFFFF_FFFF_FFFF_FFFF, 0x7FFF_FFFF)
_HEAP_OF_LIBRARIES: Final = 0x3000_0000  # OpenBLAS takes a buffer for each processor, and uses none of them
_ARGUMENT_SIZE: Final = 4096
_MOST_INSTRUCTIONS_READ: Final = 20_000  # of one part, that may write what others read
_MOST_NAMES_KEPT: Final = 1 << 18  # of data, for the functions of one object
_DATUM_SIZE: Final = 16
_ARGUMENTS: Final = 6
_MOST_CODE: Final = 1 << 23  # of one object, that is looked at for what was lost
_MAX_ON_CALL: Final = 2_000
_MOST_OPERATORS_ON_CALL: Final = 1_000  # of one function: no library has as many

# What only extensions of 1.7 and newer have: what inserts into a table of c10/util/flat_hash_map.h, which is too long
# to be inlined, or, from 1.8 on, a part of class_ that is in torch and inserts by itself.
_FLAT_MAP: Final = b"_ZN3ska8detailv317sherwood_v3_table"
_CLASS_BASE: Final = b"_ZN5torch6detail10class_baseC"
_HARMLESS_CALLS: Final = frozenset(
    {"__cxa_atexit", "__cxa_finalize", "calloc", "free", "malloc", "memcpy", "memmove", "memset", "strcmp", "strlen"}
)
"""The functions that code may call if its end by a signal is to be certain."""
_SIGNALS: Final = {
    SIGILL: "Illegal instruction",
    SIGTRAP: "Trace/breakpoint trap",
    SIGABRT: "Aborted",
    SIGFPE: "Floating point exception",
    SIGSEGV: "Segmentation fault",
}
# A "?" for a type, and not one behind it: see TypeObjects.text.
_UNKNOWN_TYPE: Final = regex(r"(?<![\w\])])\?")
_TEXT: Final = regex(r'"(?:\\.|[^"\\])*"')  # the default of an argument
# What the code that reads a damaged file or emulated process may raise: errors about the values that it has read. Any
# other one is a mistake of that code, which must not look like the file's.
DAMAGE: Final = (NotElfError, AccessError, OverflowError, ValueError, struct.error, RecursionError, IndexError)


def recover(
    file: ElfFile, facts: SharedObject, argument_tail: int | None, syntax_error: Callable[[str], str | None]
) -> Registrations:
    """Recover everything that an object registers, without running it: see ``abiscan.emulation.recover``."""

    try:
        recovery = Recovery(file, facts, argument_tail)
    except DAMAGE as error:
        return Registrations(gaps=(Gap(stage=_STAGE, reason=f"damaged: {error}"),))
    recovery.state.syntax_error = syntax_error
    with contextlib.closing(recovery):
        result = recovery.run()
        image = recovery.process.image
    decisions = list(recovery.decisions())
    elsewhere = [decision for asked in recovery.asked for decision in asked.decisions if decision not in decisions]
    # A decision in an initialiser that registers nothing may be stored, and take effect elsewhere. If instructions name
    # their data (``data_of``), the data that they may have written are tracked (``mark_written``). On other processors,
    # the object is run again with other answers, and the registrations are compared.
    is_followed = recovery.process.arch.names_data
    alternatives = () if is_followed or not elsewhere else _registered_otherwise(file, facts, argument_tail)
    if any(recovery.in_static != item for item in alternatives):
        decisions += elsewhere
    gaps = (_dependence(decision, image) for decision in decisions)
    return replace(result, gaps=(*result.gaps, *dict.fromkeys(gaps)))


def cpu_at_load(file: ElfFile, facts: SharedObject) -> CpuAtLoad:
    """Find the features of the processor that an object uses while it is loaded: see ``abiscan.emulation``."""
    try:
        recovery = Recovery(file, facts, None)
    except DAMAGE as error:
        return CpuAtLoad(unread=(CpuGap(place=f"damaged: {error}"),))
    # These are the libraries that a package brings along, not only extensions.
    recovery.most_memory = _HEAP_OF_LIBRARIES
    with contextlib.closing(recovery):
        with recovery.reported():
            recovery.initialise()
            recovery.initialise_modules()
        uses, image = recovery.cpu.uses, recovery.process.image
        initialisers = {address - image.base for address in image.initialisers()}
        unread = _cpu_gaps(file, facts, recovery.gaps, initialisers, uses.keys())
        return CpuAtLoad(uses=tuple(uses.values()), unread=unread)


def _cpu_gaps(
    file: ElfFile,
    facts: SharedObject,
    gaps: Sequence[Gap],
    initialisers: Container[int],
    used: AbstractSet[str],
) -> tuple[CpuGap, ...]:
    """Return where code stopped, and what the rest may use: what the initialiser leads to, or anything in a module's
    code.
    """
    if not gaps:
        return ()
    from abiscan.emulation.cpu_reach import features_in, reached_features

    all_features = features_in(file, facts.machine)
    by_name: dict[CpuGap, None] = {}
    # Features that were used are reported with their places: the gap is about others that may be used.
    for gap in gaps:
        features = all_features
        if gap.started is not None and gap.started in initialisers and (all_features is None or all_features - used):
            (reach,) = reached_features([file], facts.machine, [[gap.started]])
            features = frozenset(use.feature for use in reach.uses) if reach and reach.is_whole else all_features
        left = None if features is None else tuple(sorted(features - used))
        if left is None or left:
            by_name[CpuGap(place=_in_words(gap), features=left)] = None
    return tuple(by_name)


def called_at_start(file: ElfFile, facts: SharedObject) -> tuple[str, ...]:
    """Find the imported functions that static initialisers call: see ``abiscan.emulation``."""
    try:
        recovery = Recovery(file, facts, None)
    except DAMAGE:
        return ()
    with contextlib.closing(recovery):
        with recovery.reported():
            recovery.initialise()
        return recovery.process.surely_called


def _in_words(gap: Gap) -> str:
    return f"{gap.reason} at {gap.address:#x}" if gap.address is not None else gap.reason


def _registered_otherwise(
    file: ElfFile, facts: SharedObject, argument_tail: int | None
) -> Iterator[tuple[object, ...]]:
    """Yield what the static initialisers register when unknown answers have other values."""
    for answer in _OTHER_ANSWERS:
        with contextlib.closing(Recovery(file, facts, argument_tail)) as recovery:
            recovery.process.machine.answer = answer
            recovery.process.machine.taint.is_off = True
            with recovery.reported():
                recovery.initialise()
            yield recovery.in_static


def _without_order(record: Registration) -> Registration:
    """Return a registration without its place among the others."""
    library: Library | None = getattr(record, "library", None)
    return replace(record, order=0, **({"library": replace(library, order=0)} if library else {}))


def _claims(record: Registration) -> TypeGuard[Library]:
    """Tell whether a registration opens a library that claims its namespace."""
    return isinstance(record, Library) and record.kind is LibraryKind.DEF


def _dependence(decision: AnswerDecision, image: Image) -> Gap:
    result = decision.source
    name = demangle(result.function.removeprefix(ADDRESS_OF))
    is_address = result.function.startswith(ADDRESS_OF)
    call = name if name.endswith(")") else f"{name}()"
    subject = f"whether anything defines {name}, which" if is_address else f"{call}, whose result"
    address = result.address - image.base if image.contains(result.address) else None
    return Gap(
        stage=_STAGE,
        reason=f"registrations may depend on {subject} cannot be predicted",
        address=address,
        symbol=None if address is None else image.nearest_symbol(address),
        called=result.function,
    )


def _fill(process: EmulatedProcess, name: str, slot: int) -> None:
    (fill_console if name.startswith("_Z") else fill_datum)(process, name, slot)


Datum: TypeAlias = tuple[int, int]
"""An address that an instruction names, and how many bytes are there; 0 for a word, which may lead to them."""
Part: TypeAlias = Callable[["Recovery"], object]
"""Runs one initialiser, or what the import of a module runs."""


class Asked(Struct, frozen=True, kw_only=True):
    """A part of a run in which unknown answers decided.

    :ivar start: its first function, in the file's own space
    """

    start: int
    registered: bool
    decisions: tuple[AnswerDecision, ...]


class Recovery:
    """One object in an emulated process of its own.

    :param siblings: more objects of that process, which define functions that the object imports
    """

    def __init__(
        self, file: ElfFile, facts: SharedObject, argument_tail: int | None, siblings: Sequence[ElfFile] = ()
    ) -> None:
        self.facts = facts
        self.recorder = Recorder()
        self.gaps: list[Gap] = []
        self.asked: list[Asked] = []
        self.doubtful_from: int | None = None
        self.in_static: tuple[object, ...] = ()
        self.in_load: set[int | None] = set()  # the static initialisers that were started
        self.not_executed: list[CallSite] = []
        self.most_instructions = _INSTRUCTIONS_PER_FUNCTION
        self.most_memory = _HEAP_PER_FUNCTION
        self.sites: list[CallSite] = []
        self.lookups: list[Lookup] = []
        # The process binds symbols while it is made, before there are doubles: those of torch need the process
        # themselves.
        self.find: Callable[[str], Double | None] = lambda _: None
        self.process = EmulatedProcess(file, facts.machine, self._find_double, _fill, siblings)
        self.state = state = TorchState(self.process, facts.imports, self.recorder)
        state.schemas.known_tail = argument_tail
        self.process.count = lambda: self.recorder.count
        # Which table inlined code fills with custom classes depends on the release: 1.7 and newer have that of c10.
        state.has_flat_class_map |= any(map(self.process.image.mentions, (_FLAT_MAP, _CLASS_BASE)))
        self.cpu = CpuUses(self.process, facts.machine)
        self.registries = FilledRegistries(state)
        self._named: dict[int, tuple[Sequence[Datum], int]] = {}  # see ``named_by``
        self._names_left = _MOST_NAMES_KEPT
        self.gpu = GpuKernels()
        runtime = GPU_RUNTIME.of(self.gpu)
        self.process.ask_double("__cudaRegisterFunction")
        self.find = finder(
            (
                *torch_doubles(state, self.registries),
                EXCEPTIONS,
                LIBC,
                NUMBERS,
                WIDE_CHARACTERS,
                CALENDAR,
                ERROR_CODES,
                STREAMS,
                CXX_STRINGS,
                LIBSTDCXX,
                PATHS,
                SYSTEM,
                CPYTHON,
                runtime,
            )
        )

    def _find_double(self, name: str) -> Double | None:
        return self.find(name)

    def close(self) -> None:
        """End the process."""
        self.process.close()

    def run(self) -> Registrations:
        """Recover everything, with a gap for what could not be read."""
        looking: list[CallSite] = []
        with self.reported():
            looking = self.recover()
        # Only what is recorded up to here counts: what follows runs code out of order.
        registrations = self.result()
        with self.reported():
            self.look_up(looking)  # runs parts of functions: what they register then means nothing
        failures = self.failures() if self.state.stable_returns else {}
        return replace(
            registrations,
            in_order=tuple(
                replace(record, failure=failures[record.order])
                if record.order in failures and isinstance(record, RegisteredOperator | RegisteredKernel)
                else record
                for record in registrations.in_order
            ),
            lookups=tuple(self.lookups),
            gaps=tuple(self.gaps),
        )

    def failures(self) -> dict[int, str]:
        """Return what the code throws where a call of the stable ABI fails, by the order of the registration.

        The code behind the first call of each function is run as if that had failed: the rest of a text is constant.
        """
        process = self.process
        texts: dict[str, str] = {}
        # The code behind a call may make the first call of another function, which nothing has registered with.
        for function, address in tuple(self.state.stable_returns.items()):
            # The checks of the stable ABI throw on any code but 0; the text is put together behind the call.
            process.machine.answer_call(1)
            ended = self.attempt(address, (1,), _INSTRUCTIONS_OF_FAILURE)
            if isinstance(ended, ProcessTermination) and ended.text:
                texts[function] = ended.text
        return {order: texts[name] for order, name in self.state.stable_calls.items() if name in texts}

    def recover(self) -> list[CallSite]:
        """Run everything that registers; return the calls that look up operators."""
        image = self.process.image
        slots = image.slots_of(lambda name: bool(api.registered_by(name) or function_called(name)))
        self.sites = sites = find_call_sites(image, self.facts.machine, slots)
        registering = [site for site in sites if api.is_registration(site.target)]
        for site in registering:
            # A call that is the last thing a function does pushes no return address: its own place is watched instead.
            if site.is_jump:
                self.process.machine.watch(self.process.image.base + site.address)

        self.initialise()
        # What the initialisers led to lies all over the file; little of it is needed again.
        image.file.let_go(0, len(image.file.data))
        # Importing a module runs much code that registers nothing, so it is run only where static initialisers left
        # something.
        if self.missing(registering):
            self.initialise_modules()
        self.process.machine.taint.is_off = True  # from here on arguments mean nothing
        # A call that another initialiser reaches is not lost; what a function does with meaningless arguments does not
        # count.
        self.not_executed = [site for site in registering if not self.is_executed(site)]
        self.gaps = [gap if gap.started is None else self.with_unreached(gap, gap.started) for gap in self.gaps]
        if self.missing(registering):
            self.recorder.phase = Phase.ON_CALL
            self.emulate_callers(registering)
        self.report_missing(registering)
        self.report_unknown()
        return [site for site in sites if function_called(site.target)]

    def initialise(self) -> None:
        """Run the static initialisers, and before them what chooses functions while the object is relocated."""
        process, image = self.process, self.process.image
        choosing = image.choosing()
        for address, relocated in choosing.items():
            before = dict(process.called)
            ended = self.attempt(address, (), _INSTRUCTIONS_ON_CALL)
            called = [name for name in process.called if name not in before]
            early = [name for name in called if relocated is not None and not image.is_relocated_by(name, relocated)]
            if early:  # the stub jumps to where it would be in an object at address 0
                process.called = before
                reason = f"the code calls {early[0]}, which is not relocated yet,"
                ended = ProcessTermination(reason, address, _SIGNALS[SIGSEGV], signal=SIGSEGV)
            # The chosen function is determined at the call: here, it only matters whether the process ends.
            if isinstance(ended, Stop) and self.ends_process(ended):
                self.record_end(ended, address)
        for address in {
            at for name, at in image.choosing_for_others() if self.facts.symbols.find(name)
        } - choosing.keys():
            ended = self.attempt(address, (), _INSTRUCTIONS_ON_CALL)
            if isinstance(ended, Stop) and self.ends_process(ended):
                self.report_stop(ended, address, ends=True)  # whether anybody refers to the function is not known here
        for address in self.process.image.initialisers():
            self.in_load.add(self.own(address))
            self.run_part(functools.partial(Recovery.initialise_by, address=address), self.own(address))
        # The order of a record depends on the records before it, which may differ when other answers are tried.
        self.in_static = tuple(map(_without_order, self.recorder.since(0)))

    def initialise_by(self, address: int) -> None:
        """Run one initialiser with what ``main`` gets: the number of arguments, they, the environment."""
        self.emulate(address, *self.process.program_arguments)

    def initialise_modules(self) -> None:
        """Run what the import of its Python modules runs."""
        for module in self.facts.python_modules:
            start = self.process.image.definition_of("PyInit_" + module)
            self.run_part(functools.partial(Recovery.initialise_module, name=module), start)

    def look_up(self, sites: list[CallSite]) -> None:
        """Find the operators that are looked up by name."""
        results: Iterable[Lookup | Gap] = imported_operators(self.facts.imports)
        if sites:
            reader = LookupReader(self.process, self.facts.machine, self.recorder, self.attempt)
            results = itertools.chain(results, reader.read(sites))
        for result in results:
            if isinstance(result, Gap):
                self.gaps.append(result)
            else:
                self.lookups.append(result)

    def result(self) -> Registrations:
        """Return what has been recorded so far."""
        recorder = self.recorder
        return Registrations(
            in_order=tuple(filter(None, map(self.as_readable, recorder.in_order))),
            gpu_kernels=tuple(self.gpu.kernels),
            gaps=tuple(self.gaps),
            cpu=tuple(self.cpu.uses.values()),
            doubtful_from=self.doubtful_from,
            debug_at=next(iter(recorder.debug_at)) if len(recorder.debug_at) == 1 else None,
        )

    def as_readable(self, record: Registration) -> Registration | None:
        """Return a registration with what is readable of its schemas; None for one without a name."""
        match record:
            case RegisteredOperator() if self.is_named(record.name, record.phase):
                may_be_unreadable = record.inferred or record.name in self.recorder.built
                schema = self.readable(record.name, record.schema) if may_be_unreadable else record.schema
                return replace(record, schema=schema, kernels=tuple(map(self.with_readable_schema, record.kernels)))
            case RegisteredKernel() if self.is_named(record.operator, record.phase):
                return self.with_readable_schema(record)
        return None if isinstance(record, RegisteredOperator | RegisteredKernel) else record

    def with_readable_schema(self, kernel: RegisteredKernel) -> RegisteredKernel:
        """Return a kernel with what is readable of its schema."""
        return replace(kernel, inferred_schema=self.readable(kernel.operator, kernel.inferred_schema))

    def is_named(self, operator: str, phase: Phase) -> bool:
        """Whether a registration has a name; a gap for one that takes it from arguments, which mean nothing here."""
        if phase is not Phase.ON_CALL or operator.rpartition(NAMESPACE_SEPARATOR)[2]:
            return True
        reason = "a function that the code calls later registers an operator under a name that it is given"
        if not any(gap.reason == reason for gap in self.gaps):
            self.report(reason, None)
        return False

    def readable(self, operator: str, schema: str | None) -> str | None:
        """Return a schema; None, with a gap, if it was put together in memory and has a part that is not known."""
        if schema is None or not _UNKNOWN_TYPE.search(_TEXT.sub("", schema)):
            return schema
        reason = f"the schema that torch infers for {operator} has an unknown type"
        if operator in self.recorder.built:
            reason = f"the schema that the code builds for {operator} has an unknown type or default"
        if not any(gap.reason == reason for gap in self.gaps):
            self.report(reason, None)
        return None

    # Roots

    def run_part(self, part: Part, start: int | None) -> None:
        """Run a part, and remember what unknown answers decided in it."""
        process, recorder = self.process, self.recorder
        before, decided, gaps = recorder.count, len(process.decisions), len(self.gaps)
        part(self)
        if start is not None:
            self.cpu.take(start, recorder.places_since(before), in_module=recorder.phase is not Phase.STATIC_INIT)
        decisions = tuple(process.decisions[decided:])
        if decisions and self.doubtful_from is None:
            self.doubtful_from = process.decided_at
        # A part that stopped has a gap of its own already, which says more than what decided in it.
        if decisions and start is not None and len(self.gaps) == gaps:
            registered = any(True for _ in recorder.since(before))
            if not registered:
                self.mark_written(start, decisions)
            self.asked.append(Asked(start=start, registered=registered, decisions=decisions))

    def mark_written(self, start: int, decisions: Sequence[AnswerDecision]) -> None:
        """Follow what a part might have written on another way: the data that its functions use."""
        process, image = self.process, self.process.image
        # If the branch had gone the other way, data that no instruction of this run has touched might be different. So
        # all data that the functions of the part name are marked, and code that reads them later depends on the answer,
        # too.
        taint = process.machine.taint
        labels = [taint.answer_again(decision.source) for decision in decisions]
        label = functools.reduce(operator.or_, labels, 0)
        if not (label and process.arch.names_data):
            return
        left = _MOST_INSTRUCTIONS_READ
        named: dict[Datum, None] = {}  # many functions name the same data
        for function in self.functions_reached(start):
            if not left:
                break
            content, count = self.named_by(function, left)
            named.update(dict.fromkeys(content))
            left -= count
        for address, length in named:
            place = process.machine.word(address) if image.is_relocated(address) else address
            if self.is_written(place) and (length or place != address):
                taint.mark(place, length if place == address else _DATUM_SIZE, label)

    def named_by(self, function: int, most: int) -> tuple[Sequence[Datum], int]:
        """Return the data that a function names, if code can change them or what they lead to, and how many
        instructions were read.

        :param most: how many instructions to read at most
        """
        # Initialisers lead to the same functions: in torch-xla, to each of them 20 times.
        known = self._named.get(function)
        if known is None:
            known = self._read_named(function, _MOST_INSTRUCTIONS_READ)
            if len(known[0]) <= self._names_left:
                self._names_left -= len(known[0])
                self._named[function] = known
        return known if known[1] <= most else self._read_named(function, most)

    def _read_named(self, function: int, most: int) -> tuple[Sequence[Datum], int]:
        process, image = self.process, self.process.image
        content, count = data_of(process.arch, image.base + function, self.functions.code_of(function), most)
        leading = [
            (address, length)
            for address, length in content
            if self.is_written(address) or (image.contains(address) and image.is_relocated(address))
        ]
        return leading, count

    def is_written(self, address: int) -> bool:
        """Whether an address is in what code of the object may write."""
        return self.process.image.contains(address) and self.process.image.is_writable(address)

    def decisions(self) -> Iterator[AnswerDecision]:
        """Yield what unknown answers decided in parts that register something, or would on another way."""
        for asked in self.asked:
            if self.may_register(asked):
                yield from asked.decisions

    def may_register(self, asked: Asked) -> bool:
        """Whether a part registers something, or would on another way."""
        if asked.registered or not self.not_executed:
            return asked.registered
        reached = self.functions_reached(asked.start)
        return any(self.function_of(site) in reached for site in self.not_executed)

    def emulate(self, address: int, *arguments: int) -> int | None:
        """Run one function to its end and return its result; None, and a gap, if it does not finish."""
        result = self.attempt(address, arguments, self.most_instructions)
        if isinstance(result, Stop):
            if self.ends_process(result):
                self.record_end(result, address)
            else:
                self.report_stop(result, address)
            return None
        return result

    def ends_process(self, result: Stop) -> bool:
        """Whether a function ends the process, or never returns.

        A signal says so only of code by itself: what functions of other libraries return may be wrong here.
        """
        if isinstance(result, ProcessTermination):
            return True
        has_end = result.signal is not None or result.reason == OUT_OF_INSTRUCTIONS
        return has_end and self.recorder.phase is Phase.STATIC_INIT and _HARMLESS_CALLS.issuperset(self.process.called)

    def record_end(self, result: Stop, started: int) -> None:
        """Record that a function ends the process, with a gap."""
        ends = self.recorder.phase is Phase.STATIC_INIT
        # Only an end that depends on nothing but the code is one that users will see; any other one stays a gap.
        if result.reason != OUT_OF_INSTRUCTIONS and self.is_as_in_torch() and self.is_everywhere_so():
            ends = False
            symbol = None if (at := self.own(result.address)) is None else self.process.image.nearest_symbol(at)
            if isinstance(result, ProcessTermination):
                text = result.text or _SIGNALS.get(result.signal or 0, "")
                self.recorder.end(result.reason.removeprefix("the code "), text, symbol, result.signal)
            elif result.signal is not None:
                cause = f"gets the signal {result.signal}: {result.reason}"
                self.recorder.end(cause, _SIGNALS[result.signal], symbol, result.signal)
        self.report_stop(result, started, ends=ends)

    def is_as_in_torch(self) -> bool:
        """Whether all answers that a static initialiser got from torch are those of a real one."""
        return self.recorder.phase is Phase.STATIC_INIT and all(map(is_as_in_torch, self.process.called))

    def is_everywhere_so(self) -> bool:
        """Whether an initialiser does the same on every machine."""
        return not (self.gaps or self.process.decisions or any(map(asks_machine, self.process.called)))

    @traced
    def attempt(self, address: int, arguments: Sequence[int], instructions: int) -> int | Stop:
        """Run one function without recording a gap. Each function has its own budgets, and there is a total one."""
        process, machine = self.process, self.process.machine
        # An object with many slow functions must not take minutes: what is left of the total bounds each of them.
        left = _INSTRUCTIONS_PER_OBJECT - machine.vm.icount
        process.answered_with_zero = None
        if left <= 0:
            return Stop("instruction budget for the whole object exhausted", address)
        with process.budget(self.most_memory, _CALLS_PER_FUNCTION):
            try:
                return machine.start(address, tuple(arguments), min(left, instructions))
            # A double that reads invalid data fails in Python: that ends the run of the function.
            except DAMAGE as error:
                return self.placed(Stop(f"{type(error).__name__}: {error}", machine.vm.pc))
            except Stop as stop:
                return self.placed(stop)
            finally:
                self.registries.collect()

    def initialise_module(self, name: str) -> None:
        """Run the code that importing the Python module runs."""
        self.recorder.phase = Phase.MODULE_INIT
        address = self.process.image.definition_of("PyInit_" + name)
        if address is None:
            return
        definition: int | None = 0
        # A module made with pybind11 returns null to a Python that it was not built for.
        for python in self.facts.pybind11_python or (self.process.python_version,):
            if definition == 0:
                self.process.python_version = python
                definition = self.emulate(self.process.image.base + address)
        for function in module_functions(self.process, definition) if definition else ():
            self.emulate(function, new_module(self.process))

    def emulate_callers(self, sites: list[CallSite]) -> None:
        """Run each function that still contains a call that was not executed, as if it had been called."""
        # Arguments that are readable but meaningless: code that needs real ones stops there. Then zeroes, for code that
        # branches on a small number.
        blank = tuple(self.process.allocate(_ARGUMENT_SIZE) for _ in range(_ARGUMENTS))
        base = self.process.image.base
        # The initialisers have run, and would register everything twice.
        tried = {address - base for address in self.process.image.initialisers()}
        limit = len(tried) + _MAX_ON_CALL
        # A function that opens a library calls the small ones that need an open library and fail on their own.
        for site in sorted(sites, key=lambda site: not api.opens_registration(site.target)):
            start = self.function_of(site)
            if start is None or start in tried or self.is_executed(site) or len(tried) >= limit:
                continue
            tried.add(start)
            budget = _INSTRUCTIONS_PER_FUNCTION if api.opens_registration(site.target) else _INSTRUCTIONS_ON_CALL
            for arguments in (blank, (0,) * _ARGUMENTS):
                if not self.is_executed(site):
                    self.call_later(start, arguments, budget)

    def call_later(self, start: int, arguments: Sequence[int], budget: int) -> None:
        """Run a function with arguments that mean nothing, and drop what it registers if that means nothing either."""
        recorder = self.recorder
        before = recorder.count
        # A namespace has one ``TORCH_LIBRARY`` in a process, so a function that opens it again would end it.
        at_load = (record for record in recorder.in_order if record.phase is not Phase.ON_CALL)
        opened = {record.namespace for record in at_load if _claims(record)}
        self.attempt(self.process.image.base + start, arguments, budget)
        defined = sum(isinstance(record, RegisteredOperator) for record in recorder.since(before))
        if defined > _MOST_OPERATORS_ON_CALL:
            recorder.drop(before)
            reason = f"a function that the code calls later registers more than {_MOST_OPERATORS_ON_CALL} operators"
            self.report(f"{reason} if its arguments mean nothing", start)
        # Such a function is a part of an initialiser that stopped, and has run once.
        if any(_claims(record) and record.namespace in opened for record in recorder.since(before)):
            recorder.drop(before)

    # Completeness

    def is_executed(self, site: CallSite) -> bool:
        """Whether the call was reached."""
        # Calls are known by where they return to, jumps by where they lie: both are file addresses of the site.
        reached = self.process.machine.reached if site.is_jump else self.process.call_sites
        return site.address + self.process.image.base in reached

    def missing(self, sites: list[CallSite]) -> bool:
        """Whether a call was not reached."""
        return not all(self.is_executed(site) for site in sites)

    def report_missing(self, sites: list[CallSite]) -> None:
        """Report a gap for each call that was not reached."""
        for site in sites:
            if not self.is_executed(site):
                self.report(f"a call to {site.target} was not reached", site.address)

    def report_unknown(self) -> None:
        """Report a gap for each part of torch's registration API that has no double."""
        for name in sorted(api.unknown_names(self.facts.imports)):
            reason = f"{name} is an unknown part of torch's registration API: what it registers was not recovered"
            self.gaps.append(Gap(stage=_STAGE, reason=reason, address=None, symbol=name))

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Turn what ends the recovery itself, outside of the functions that it runs, into a gap."""
        try:
            yield
        except DAMAGE as error:
            self.report(f"damaged: {error}", None)
        except Stop as stop:  # functions left no memory for what the recovery itself puts there
            self.report(stop.reason, None)

    def report(self, reason: str, address: int | None) -> None:
        """Add a gap."""
        symbol = None if address is None else self.process.image.nearest_symbol(address)
        self.gaps.append(Gap(stage=_STAGE, reason=reason, address=address, symbol=symbol))

    def placed(self, stop: Stop) -> Stop:
        """Move a stop to the place in the object that led to it."""
        process = self.process
        # A stop in an import slot or on the heap means nothing to users: the caller in the object does.
        if self.own(stop.address) is not None:
            stop.called = stop.called or process.answered_with_zero
        else:
            stop.called = stop.called or process.import_at(stop.address)
            stop.address = process.caller() or stop.address
        return stop

    def report_stop(self, stop: Stop, started: int, *, ends: bool = False) -> None:
        """Report that a function did not get to its end."""
        address = self.own(stop.address) or self.own(started)
        self.gaps.append(
            Gap(
                stage=_STAGE,
                reason=stop.reason,
                address=address,
                symbol=None if address is None else self.process.image.nearest_symbol(address),
                started=self.own(started),
                called=stop.called,
                decides=ends,
            )
        )

    def with_unreached(self, gap: Gap, started: int) -> Gap:
        """Return a gap with what was lost; behind it, a static initialiser that registers may end the process."""
        ends = gap.decides or (started in self.in_load and self.registers(started))
        return replace(gap, lost=self.unreached_registrations(gap, started), decides=ends)

    def registers(self, started: int) -> bool:
        """Whether a function leads to calls that register, whether or not they were executed."""
        registering = [site for site in self.sites if api.registered_by(site.target)]
        if not registering:
            return False
        reached = self.functions_reached(started)
        return any(self.function_of(site) in reached for site in registering)

    def unreached_registrations(self, gap: Gap, started: int) -> tuple[tuple[str, int], ...]:
        """Return the calls that register, that nothing executed, and that the stopped function leads to.

        What was called where it stopped did not do its work.
        """
        lost = [
            (site, subject)
            for site in self.sites
            # The call at which the function stopped was reached, and has not done its work either.
            if (subject := api.registered_by(site.target))
            and (site.address == gap.address or not self.is_executed(site))
        ]
        if not lost:
            return ()
        reached = self.functions_reached(started)
        within = (subject for site, subject in lost if self.function_of(site) in reached)
        return tuple(Counter(within).items())

    def functions_reached(self, start: int) -> set[int]:
        """Return the function at ``start``, and those of the object that it leads to."""
        return {function for _, function in self._calls.reached([start])}

    def function_of(self, site: CallSite) -> int | None:
        """Return the function of the object that a call is in."""
        return self.functions.containing(site.address - (not site.is_jump))

    @functools.cached_property
    def functions(self) -> Functions:
        """The functions of the object."""
        return Functions(self.process.image)

    @functools.cached_property
    def _calls(self) -> CallGraph:
        from abiscan.emulation.call_graph import CalledFunctions, CallGraph

        return CallGraph([CalledFunctions(self.process.image, self.facts.machine, _MOST_CODE)])

    def own(self, address: int) -> int | None:
        """Return the file address for an emulated address, None if it is not in the object."""
        return address - self.process.image.base if self.process.image.contains(address) else None
