"""Exceptions of C++ in the emulated process: finds the handler, runs the cleanups on the way, or ends the process.

An exception is where it is in a real process: ``__cxa_refcounted_exception`` of libstdc++ (``unwind-cxx.h``) lies
before the object that was thrown, so code with the runtime linked into it finds what it looks for. The way is the two
phases of "Itanium C++ ABI: Exception Handling", level I; a frame of a double has nothing to catch or to clean up.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from abiscan.binary.mangling import demangle_type
from abiscan.emulation.arch import Arch
from abiscan.emulation.emulator import CANARY, RETURN, SIGABRT, Emulator, ProcessTermination, Stop
from abiscan.emulation.loader import Image
from abiscan.emulation.type_information import TypeInformation

if TYPE_CHECKING:
    from abiscan.emulation.frames import FrameEntry, Frames, FrameState, Landing

HEADER_SIZE: Final = 128
UNWIND_HEADER: Final = 32  # sizeof(_Unwind_Exception), the last part of the header
_CLASS: Final = int.from_bytes(b"GNUCC++\0", "big")
_DEPENDENT_CLASS: Final = _CLASS | 1
# From the _Unwind_Exception backwards.
_TYPE, _DESTRUCTOR, _NEXT, _HANDLERS, _SWITCH, _ADJUSTED = -80, -72, -48, -40, -36, -8
_MAX_FRAMES: Final = 4_000


class _Process(Protocol):
    """The process that throws: see ``EmulatedProcess``."""

    machine: Emulator
    arch: Arch
    types: TypeInformation

    def image_at(self, address: int) -> Image | None:
        """Return the object that an address belongs to."""

    def allocate(self, size: int) -> int:
        """Return fresh, cleared memory."""


class _Call(Protocol):
    """The call of a double: see ``process.Call``."""

    return_address: int


class Unwinding(Exception):  # noqa: N818 - not an error: the emulated code goes on elsewhere
    """An exception is on its way to a handler: a double that called the object back ends by it.

    ``state`` is where the code goes on that called a double at ``depth``; None for the double that throws.
    """

    def __init__(self, exception: int, state: FrameState | None = None, depth: int = _MAX_FRAMES) -> None:
        super().__init__(exception)
        self.exception = exception
        self.state = state
        self.depth = depth


class _Frame(NamedTuple):
    depth: int
    state: FrameState
    function: FrameEntry
    frames: Frames
    landing: Landing | None


class _Handler(NamedTuple):
    depth: int
    frame: int
    filter: int


class Exceptions:
    """The exceptions of one process, by the addresses of their ``_Unwind_Exception``."""

    def __init__(self, process: _Process) -> None:
        self._process = process
        self._frames: dict[int, Frames | None] = {}
        self._handlers: dict[int, _Handler] = {}
        self.caught: list[int] = []
        """Those whose handlers run, the innermost last."""
        self._rethrown: set[int] = set()
        self.in_flight = 0
        self.kept: set[int] = set()  # that an exception_ptr has pointed to

    # Objects

    def new(self, size: int) -> int:
        """Return room for an exception object, behind its header."""
        return self._process.allocate(size + HEADER_SIZE) + HEADER_SIZE

    def begin(self, thrown: int, type_: int, destructor: int) -> int:
        """Fill in the header of an exception object; return its ``_Unwind_Exception``."""
        machine, exception = self._process.machine, thrown - UNWIND_HEADER
        # The other members of ``__cxa_exception`` stay zero: nothing here calls the handlers that it keeps.
        machine.set_word(exception + _TYPE, type_)
        machine.set_word(exception + _DESTRUCTOR, destructor)
        machine.set_word(exception, _CLASS)
        return exception

    def object_of(self, exception: int) -> int:
        """Return the object that was thrown; a dependent exception, which ``std::rethrow_exception`` throws, points to
        it.
        """
        machine = self._process.machine
        is_dependent = machine.word(exception) == _DEPENDENT_CLASS
        return machine.word(exception + _TYPE) if is_dependent else exception + UNWIND_HEADER

    def type_of(self, exception: int) -> int:
        """Return its ``std::type_info``."""
        return self._process.machine.word(self.object_of(exception) - UNWIND_HEADER + _TYPE)

    def adjusted(self, exception: int) -> int:
        """Return the address that the handler is given, which may be that of a base."""
        return self._process.machine.word(exception + _ADJUSTED)

    # Throwing

    def throw(self, call: _Call, exception: int) -> None:
        """Find the handler of an exception, and go there.

        :raises Unwinding: there is one
        :raises ProcessTermination: there is none
        """
        # Phase 1 changes no frame, so a throw that nothing catches is reported where it happened.
        with self._process.machine.taint.unseen():
            handler = self._find(exception, self.state_of(call))
        if handler is None:
            raise self.end_of(call.return_address, exception)
        self._handlers[exception] = handler
        self.in_flight += 1
        raise Unwinding(exception)

    def is_caught(self, call: _Call, type_: int) -> bool:
        """Whether an exception of a type would be caught if the called function threw it."""
        exception = self.begin(self.new(64), type_, 0)
        try:
            with self._process.machine.taint.unseen():
                return self._find(exception, self.state_of(call)) is not None
        except Stop:
            return False

    def unwind(self, call: _Call, unwinding: Unwinding) -> None:
        """Go on with an exception that has come out of the double that was called.

        :raises Unwinding: it goes on further out
        """
        # Between the two lie frames of Python: each double on the way ends by the same exception, the innermost first.
        if unwinding.depth < self._process.machine.depth:
            raise unwinding
        self._go_on(unwinding.exception, unwinding.state or self.state_of(call))

    def _go_on(self, exception: int, state: FrameState) -> None:
        """Enter the next landing pad on the way, from where the code is in ``state``.

        :raises Unwinding: it is in the code that called the double that runs
        """
        handler = self._handlers.get(exception)
        if handler is None:
            raise Stop("an exception goes on that was not thrown here", state.pc)
        depth = self._process.machine.depth
        # Phase 2. Frames are told apart by their depth and their canonical frame address: one function may be on the
        # stack many times, by recursion.
        for frame in self._walk(state):  # nothing that a double has read is on this way
            if frame.depth < depth:
                raise Unwinding(exception, frame.state, frame.depth)
            if frame.landing is None:
                continue
            is_handler = (frame.depth, frame.frames.cfa(frame.function, frame.state)) == handler[:2]
            if is_handler and frame.landing.terminates:
                raise self.end_of(frame.state.pc, exception)
            # A cleanup is entered with selector 0, and resumes here by ``_Unwind_Resume``.
            if is_handler or 0 in frame.landing.filters:
                self._enter(frame, exception, handler.filter if is_handler else 0)
                if is_handler:
                    del self._handlers[exception]
                return
        raise Stop("the handler of an exception was lost", state.pc)

    def _enter(self, frame: _Frame, exception: int, selector: int) -> None:
        vm, arch = self._process.machine.vm, self._process.arch
        # Only the registers that a function keeps for its caller are defined in a landing pad, and the two with
        # arguments.
        for number, name in enumerate(arch.dwarf):
            if name in arch.kept:
                vm.reg_write(name, frame.state.registers[number])
        vm.sp = frame.state.registers[arch.dwarf_stack_pointer]
        assert frame.landing is not None
        for name, value in zip(arch.landing, (exception, selector & 0xFFFF_FFFF_FFFF_FFFF), strict=True):
            vm.reg_write(name, value)
        vm.pc = frame.landing.pad
        self._process.machine.taint.land()

    def _find(self, exception: int, state: FrameState) -> _Handler | None:
        """Search for the first frame that catches the exception, or lets none pass: phase 1."""
        machine = self._process.machine
        for frame in self._walk(state):
            landing = frame.landing
            if landing is None:
                continue
            place = frame.depth, frame.frames.cfa(frame.function, frame.state)
            # A frame that lets nothing pass ends the search: frames further out are never asked (``noexcept``).
            if landing.terminates:
                return None
            for number in landing.filters:
                adjusted = self._matches(landing, number, exception)
                if adjusted is not None:
                    machine.set_word(exception + _ADJUSTED, adjusted)
                    machine.write(exception + _SWITCH, struct.pack("<i", number))
                    return _Handler(*place, number)
        return None

    def _matches(self, landing: Landing, number: int, exception: int) -> int | None:
        """Return what a handler sees of the exception, None if the action is not a handler for it."""
        types, thrown, place = self._process.types, self.type_of(exception), self.object_of(exception)
        # Positive filters are indexes of caught types, negative ones of exception specifications, 0 is a cleanup.
        if number > 0:
            requested = landing.types(number)
            if not requested:
                return self._process.machine.word(place) if types.kind(thrown) == "__pointer_type_info" else place
            seen = types.caught(requested, thrown, place)
            # A class of another library may have bases that no file here tells: a guess would end the process, or not.
            if seen is None and not types.is_known(thrown) and not types.is_same(requested, thrown):
                raise Stop(f"whether {types.name(requested)} catches {types.name(thrown)} is not known", 0)
            return seen
        if number < 0:
            allowed = landing.specification(-number - 1)
            if all(types.caught(type_, thrown, place) is None for type_ in allowed):
                return place
        return None

    def _walk(self, state: FrameState) -> Iterator[_Frame]:
        """Yield the frames, the innermost first, up to where no call frame information leads on."""
        from abiscan.emulation.frames import FrameState

        machine = self._process.machine
        depth = machine.depth
        for _ in range(_MAX_FRAMES):
            # A return to Python: the walk goes on in the code that called the double, with the registers that it kept.
            while state.pc == RETURN:
                depth -= 1
                boundary = machine.boundary(depth)
                if boundary is None:
                    return
                registers = {**state.registers, self._process.arch.dwarf_stack_pointer: boundary.stack}
                state = FrameState(registers, boundary.pc)
            image = self._process.image_at(state.pc)
            frames = self._frames_of(image) if image is not None else None
            # The return address lies behind the call, which may be the last instruction of its function: one byte back
            # is in it.
            function = frames.function_at(state.pc - 1) if frames is not None else None
            if frames is None or function is None:
                return
            yield _Frame(depth, state, function, frames, frames.landing(function, state.pc))
            state = frames.caller(function, state)

    def locals_at(self, call: _Call, address: int, most: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a frame from an address in the stack on that hold neither registers nor a stack
        protector.
        """
        for frame in self._frames_from(call):
            cfa = frame.frames.cfa(frame.function, frame.state)
            if address >= cfa:
                continue
            saved = [place for place in frame.frames.saved(frame.function, frame.state) if place >= address]
            end = min(address + most, cfa, *saved)
            # The stack protector lies between local variables and saved registers: nothing behind it is a local.
            for at in range(address, end - 7, 8):
                if self._process.machine.word(at) == CANARY:
                    end = at
                    break
            yield address, end - address
            return

    def _frames_from(self, call: _Call) -> list[_Frame]:
        with self._process.machine.taint.unseen():
            return list(self._walk(self.state_of(call)))

    def _frames_of(self, image: Image) -> Frames | None:
        from abiscan.emulation.frames import Frames

        if image.base not in self._frames:
            header = image.frame_header
            stack = self._process.arch.dwarf_stack_pointer
            self._frames[image.base] = Frames(self._process.machine, header, stack) if header is not None else None
        return self._frames[image.base]

    def state_of(self, call: _Call) -> FrameState:
        """Return the registers where the called function returns to."""
        from abiscan.emulation.frames import FrameState

        arch, vm = self._process.arch, self._process.machine.vm
        registers = {number: int(vm.reg_read(name)) for number, name in enumerate(arch.dwarf)}
        registers[arch.dwarf_stack_pointer] = arch.stack_after_return(vm)
        return FrameState(registers, call.return_address)

    # Handlers

    def begin_catch(self, exception: int) -> int:
        """Do what ``__cxa_begin_catch`` does; return what the handler sees."""
        # An exception that is thrown again and caught further out has a handler once more, and is not destroyed in
        # between.
        if exception in self._rethrown:
            self._rethrown.discard(exception)
        self.in_flight = max(self.in_flight - 1, 0)
        self.caught.append(exception)
        return self.adjusted(exception)

    def end_catch(self) -> int | None:
        """Do what ``__cxa_end_catch`` does; return the exception if it is not needed any more."""
        if not self.caught:
            return None
        exception = self.caught.pop()
        # libstdc++ counts handlers and references; here it is enough to know that none is left.
        needed = exception in self.caught or exception in self._rethrown or exception in self.kept
        return None if needed else exception

    def rethrow(self, call: _Call) -> None:
        """Execute ``throw;``."""
        if not self.caught:
            raise ProcessTermination(
                "the code calls std::terminate", call.return_address, _WITHOUT_EXCEPTION, signal=SIGABRT
            )
        exception = self.caught[-1]
        self._rethrown.add(exception)
        self.throw(call, exception)

    def destructor_of(self, exception: int) -> int:
        """Return the destructor of the object that was thrown, 0 if it has none."""
        return self._process.machine.word(exception + _DESTRUCTOR)

    # The end

    def end_of(self, address: int, exception: int | None) -> ProcessTermination:
        """Return how ``std::terminate`` ends the process (libsupc++, ``vterminate.cc``: what it prints)."""
        if exception is None:
            return ProcessTermination("the code calls std::terminate", address, _WITHOUT_EXCEPTION, signal=SIGABRT)
        name = self._process.types.name(self.type_of(exception))
        shown = demangle_type(name.removeprefix("*"))
        text = f"terminate called after throwing an instance of '{shown}'"
        reason = f"the code throws {shown}, which nothing catches"
        return ProcessTermination(reason, address, self.what(exception) or text, signal=SIGABRT)

    def what(self, exception: int) -> str | None:
        """Return ``what()`` of a thrown object, None where it has none, or where that is not known."""
        process, types = self._process, self._process.types
        place = self.object_of(exception)
        if not any(types.name(part.type) == "St9exception" for part in types.within(self.type_of(exception), place)):
            return None
        try:
            function = process.machine.word(process.machine.word(place) + _WHAT)
            return process.machine.text(process.machine.call(function, place)).decode("utf-8", "backslashreplace")
        except (Stop, Unwinding):
            return None


_WHAT: Final = 16  # in the virtual table of std::exception, behind two destructors
_WITHOUT_EXCEPTION: Final = "terminate called without an active exception"
