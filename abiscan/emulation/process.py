"""The emulated process: the object, its heap, its thread, and what its imports are bound to.

An imported symbol gets a slot of ``IMPORT_SLOT`` bytes. To code that reads it, it is a datum (zeroes, or what
``_fill`` puts there: a ``std::type_info`` knows its name, a vtable leads to functions). Code that jumps there calls
the *double* of that name: a Python function of this package that does what the real one does to the process, or
records it. A function without a double returns zero, and ``taint`` follows what becomes of that.
"""

from __future__ import annotations

import contextlib
import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation.arch import ARCHITECTURES
from abiscan.emulation.arch.x86_64 import x87_unit
from abiscan.emulation.emulator import (
    CANARY,
    CODE_BASE,
    HEAP_BASE,
    HEAP_SIZE,
    IMPORT_BASE,
    IMPORT_SLOT,
    PAGE_SIZE,
    Emulator,
    Stop,
)
from abiscan.emulation.environment import VARIABLES
from abiscan.emulation.exceptions import Exceptions, Unwinding
from abiscan.emulation.loader import Image
from abiscan.emulation.processor import AccessError
from abiscan.emulation.shared_ids import shared_ids
from abiscan.emulation.stream_layouts import stream_layout
from abiscan.emulation.taint import AnswerDecision
from abiscan.emulation.type_information import BASES, ROOT, VTABLES, TypeInformation
from abiscan.emulation.unknown_answers import written
from abiscan.regex import regex

Double = Callable[["Call"], "int | None"]

ADDRESS_OF: Final = "&"
"""Before the name of a function: whether the process has the function, instead of what it returns."""

_THREAD_POINTER: Final = HEAP_BASE + 0x10_0000  # the heap proper starts above the thread's block
_HEAP_START: Final = HEAP_BASE + 0x20_0000
_HEAP_END: Final = HEAP_BASE + HEAP_SIZE
_HEAP_TOP: Final = HEAP_BASE  # the word there is the address of the first free byte
_MOST_TLS: Final = 0x8_0000  # bytes of thread-local variables
_BETWEEN: Final = 16  # bytes between allocations; the size of each is stored right before it
_MAX_ALLOCATION: Final = 0x1000_0000
_VTABLE_FUNCTIONS: Final = IMPORT_SLOT // 8 - 2
_DOUBLE_OF: Final = "double of "  # before the name of a function that has code of its own as well
_ARGUMENTS: Final = (b"python3", b"script.py")
_CODE_SLOT: Final = 256
_ALLOCATORS: Final = ("_Znwm", "_Znam")
_STRING_ENDS: Final = ("D1", "D2", "10_M_dispose")
# Memory is never reused, and the process never ends.
_WITHOUT_EFFECT: Final = (
    *("_ZdlPv", "_ZdlPvm", "_ZdaPv", "_ZdaPvm", "_ZdlPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "free"),
    *("__cxa_atexit", "__cxa_thread_atexit", "__cxa_thread_atexit_impl", "atexit", "__cxa_finalize"),
    *("_ZNSt8ios_base4InitC1Ev", "_ZNSt8ios_base4InitD1Ev", "_ZSt21ios_base_library_initv"),
    *("_ZNSs4_Rep10_M_destroyERKSaIcE", "_ZNSs4_Rep10_M_disposeERKSaIcE", "_ZNSaIcEC1Ev", "_ZNSaIcED1Ev"),
    *("_ZNSaIcEC2Ev", "_ZNSaIcEC1ERKS_", "_ZNSaIcEC2ERKS_", "_ZNSaIcED2Ev", "_ZNSt6localeD1Ev"),
    *("_ZNSsD1Ev", "_ZNSsD2Ev", *(f"_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE{m}Ev" for m in _STRING_ENDS)),
    *("pthread_mutex_lock", "pthread_mutex_unlock", "pthread_rwlock_wrlock", "pthread_rwlock_unlock"),
    *("__cudaRegisterFunction", "__cudaRegisterVar", "__cudaRegisterFatBinaryEnd"),
)
# Functions whose doubles keep their arguments in Python, where no instruction can read them.
_KEEPS: Final = regex(r"_ZN[KR]*(5torch|3c10|2at)|aoti_torch|torch_|_?Py|__(cuda|hip)")
# Names that every process with torch and Python has.
_NAMES_IN_EVERY_PROCESS: Final = regex(r"_Z|_?Py|_?_?pthread_|__cxa_|_Unwind_|__(?:cuda|hip)|aoti_|torch_|c10_")
_WORD_SIZE: Final = 8
# The virtual functions of std::basic_streambuf, in their order.
_STRINGBUF_FUNCTIONS: Final = tuple(
    f"stringbuf {member}"
    for member in (
        *("destroy", "delete", "imbue", "setbuf", "seekoff", "seekpos", "sync", "showmanyc", "xsgetn", "underflow"),
        *("uflow", "pbackfail", "xsputn", "overflow"),
    )
)
_DOUBLE: Final = 64  # bits
_STREAM_TABLE: Final = 24


class EmulatedProcess:
    """One object, ready to have its functions called.

    :param find_double: returns the double of an imported function, by its mangled name; None if there is none
    :param fill_datum: gives an imported datum its content, by its name and address
    :param siblings: more objects of the process: what has no double, but is defined in one of them, is that
    """

    def __init__(
        self,
        file: ElfFile,
        machine: Machine,
        find_double: Callable[[str], Double | None],
        fill_datum: Callable[[EmulatedProcess, str, int], None],
        siblings: Sequence[ElfFile] = (),
    ) -> None:
        self._find_double = find_double
        self._fill_datum = fill_datum
        self._native: dict[str, int] = {}
        self._slots: dict[str, int] = {"": IMPORT_BASE}  # the first slot is where functions return to
        self._names: list[str] = [""]
        self._doubles: dict[int, tuple[str, Double | None]] = {}
        self._tls_imports: dict[str, int] = {}
        self._own_names: dict[int, str] = {}
        # What doubles remember of objects that live in the process, by address.
        self.texts: dict[int, bytes] = {}
        # Stands for each std::string that cannot be read; None where that ends the function.
        self.unknown_text: bytes | None = None
        self.environment = dict(VARIABLES)
        self.own_variables: set[bytes] = set()  # environment variables that the code itself has set or removed
        self.random_numbers: Iterator[int] | None = None  # of rand(); None if other code may have called it before
        self._threads = 1
        self.thread = 1  # the running one
        self.thread_results: dict[int, int] = {}
        self.locale = 0
        self.character_tables: dict[str, int] = {}  # of <ctype.h>, by the function that locates each
        self.capsules: dict[int, int] = {}
        self.items: dict[int, dict[bytes | int, int]] = {}  # of dictionaries
        self.attributes: dict[int, dict[bytes | int, int]] = {}
        self.python_version = "3.11"
        self.answered_with_zero: str | None = None  # the import that was called last, if it has no double
        self.decisions: list[AnswerDecision] = []
        self.decided_at: int | None = None  # what ``count`` was at the first of them
        self.count: Callable[[], int] = lambda: 0
        self.called: dict[str, None] = {}  # the imports that were called, in order
        self._called_before: tuple[str, ...] | None = None
        self.calls = 0
        self.call_limit = 0
        self.heap_limit = _HEAP_END
        self.call_sites: set[int] = set()
        self.arch = ARCHITECTURES[machine]
        self.types = TypeInformation(self)
        self.exceptions = Exceptions(self)
        # The order matters: binding a symbol fills its slot, which takes memory, so the machine is there before the
        # images.
        self.machine = Emulator(self.arch, self._page_in, self._call_out, self._decide)
        # The object itself is the first: what it defines wins over what its siblings define, as ld.so searches.
        self.images: list[Image] = []
        for number, item in enumerate((file, *siblings)):
            taken = self.images[-1].tls_end if self.images else 0
            binders = (self.bind, self._bind_tls, self._bind_resolver)
            self.images.append(Image(item, self.arch, *binders, number=number, tls_taken=taken))
        self.image = self.images[0]
        for image in self.images:
            image.may_lack = self._may_lack
        self._native = self._set_up_code()
        # Their code in the emulator returns 0 and keeps no state; ``trylock`` has to know which thread holds a mutex.
        if any(image.mentions(b"pthread_mutex_trylock") for image in self.images):
            for name in ("pthread_mutex_lock", "pthread_mutex_unlock"):
                self.ask_double(name)
        self._set_up_thread()
        for address, value in shared_ids(self.image):
            self.machine.set_word(address, value)

    def close(self) -> None:
        """End the process: nothing of it can be read any more."""
        self.machine.close()

    # Memory

    def allocate(self, size: int, alignment: int = 16) -> int:
        """Return fresh, cleared memory.

        :raises Stop: more than any initialiser needs
        """
        if size > _MAX_ALLOCATION:
            raise Stop(f"allocation of {size} bytes", self.machine.vm.pc)
        with self.machine.taint.unseen():
            # The native allocator moves the same word, so that both always agree on the first free
            # byte.
            address = -(-self.machine.word(_HEAP_TOP) // alignment) * alignment
            # The gap behind each allocation holds the size of the next one: ``realloc`` and ``malloc_usable_size`` ask
            # for it.
            top = address + (max(size, 1) + 15 & ~15) + _BETWEEN
            if top > self.heap_limit:
                raise Stop("memory budget exhausted", self.machine.vm.pc)
            self.machine.set_word(_HEAP_TOP, top)
            self.machine.set_word(address - 8, size)
        return address

    @functools.cached_property
    def program_arguments(self) -> tuple[int, int, int]:
        """``argc``, ``argv`` and ``environ`` of a Python that runs a script, which initialisers are given (glibc)."""
        arguments = [self.store(text + b"\0") for text in _ARGUMENTS]
        variables = [self.store(b"%b=%b\0" % item) for item in self.environment.items()]
        argv, environ = (self.store(struct.pack(f"<{len(a) + 1}Q", *a, 0)) for a in (arguments, variables))
        return len(arguments), argv, environ

    @contextlib.contextmanager
    def budget(self, heap: int, calls: int) -> Iterator[None]:
        """Limit the bytes of heap that a function may take, and the calls of imported functions that it may make.

        If a function takes more, or changes the end of the heap, all memory that it was given is freed.
        """
        top = self.heap_top()
        self.heap_limit, self.call_limit = top + heap, self.calls + calls
        try:
            yield
        finally:
            if not top <= self.heap_top() <= self.heap_limit:
                self.release(top)
            self.heap_limit = _HEAP_END

    def heap_top(self) -> int:
        """Return where the next allocation will be."""
        return self.machine.word(_HEAP_TOP)

    def release(self, top: int) -> None:
        """Free everything that was allocated since ``heap_top`` was ``top``."""
        # From the next page on: the page of ``top`` is still in use.
        start = -(-top // PAGE_SIZE) * PAGE_SIZE
        self.machine.clear(start, _HEAP_END - start)
        self.machine.set_word(_HEAP_TOP, start)

    def forget_code(self) -> None:
        """Free the memory that translated code takes: see ``Emulator.forget_code``."""
        self.machine.forget_code(self.heap_top(), IMPORT_BASE + IMPORT_SLOT * len(self._names))

    def size_of(self, address: int) -> int:
        """Return the requested size of the allocation at ``address``, 0 where none can be."""
        return self.machine.word(address - 8) if self.machine.is_heap(address) else 0

    def store(self, content: bytes) -> int:
        """Return the address of a fresh copy of ``content``."""
        address = self.allocate(len(content))
        self.machine.write(address, content)
        return address

    def _page_in(self, address: int) -> bool:
        image = self.image_at(address)
        loaded = image.page(address) if image is not None else None
        if loaded is None:
            return False
        content, writable, executable = loaded
        self.machine.map_page(address, content, writable=writable, executable=executable)
        # The words can be guarded only now that their page is mapped.
        if image is not None and image.unknown_words:
            taint = self.machine.taint
            for at, name in image.unknown_words:
                taint.mark(at, _WORD_SIZE, 0)  # it may have been marked before its page was mapped
                taint.mark(at, _WORD_SIZE, taint.answer(ADDRESS_OF + name, at))
            image.unknown_words.clear()
        return True

    def _set_up_code(self) -> dict[str, int]:
        """Map code for the functions that initialisers call most, and for those that have nothing to do."""
        self.machine.set_word(_HEAP_TOP, _HEAP_START)

        def double_of(name: str) -> int:
            return self.bind(_DOUBLE_OF + name)

        codes: dict[tuple[str, ...], bytes] = {
            _ALLOCATORS: self.arch.allocator(_HEAP_TOP, double_of(_ALLOCATORS[0])),
            _WITHOUT_EFFECT: self.arch.return_zero,
            **{(name,): code for name, code in self.arch.runtime(CODE_BASE, double_of).items()},
        }
        page = b"".join(code.ljust(_CODE_SLOT, b"\0") for code in codes.values()).ljust(PAGE_SIZE, b"\0")
        self.machine.map_page(CODE_BASE, page, writable=False, executable=True)
        places = range(CODE_BASE, CODE_BASE + PAGE_SIZE, _CODE_SLOT)
        return {name: place for place, names in zip(places, codes, strict=False) for name in names}

    def _set_up_thread(self) -> None:
        machine = self.machine
        machine.vm.reg_write(self.arch.thread_pointer, _THREAD_POINTER)
        # At 0x28 is what the stack protector of x86-64 compares (glibc, sysdeps/x86_64/nptl/tls.h: ``stack_guard``).
        machine.set_word(_THREAD_POINTER, _THREAD_POINTER)  # %fs:0 holds the thread pointer itself
        machine.set_word(_THREAD_POINTER + 0x28, CANARY)
        self._set_up_variables()

    def _set_up_variables(self) -> None:
        """Set the thread-local variables to their initial values."""
        for image in self.images:
            if image.tls is not None and image.tls_end < _MOST_TLS:
                initial = bytes(image.file.data[image.tls.offset : image.tls.offset + image.tls.file_size])
                self.machine.write(_THREAD_POINTER + image.tls_start, initial.ljust(image.tls.size, b"\0"))

    def thread_variable(self, module: int, offset: int) -> int:
        """Return the address of a thread-local variable, from the two words that ``__tls_get_addr`` is given."""
        start = next((image.tls_start for image in self.images if image.module == module), 0)
        return (_THREAD_POINTER + start + offset) & 0xFFFF_FFFF_FFFF_FFFF

    def imported_thread_variable(self, name: str) -> int:
        """Return the address of a thread-local variable that the object imports."""
        return _THREAD_POINTER + self._bind_tls(name)

    def new_thread(self) -> int:
        """Return the number of a new thread; the one that everything else runs in has number 1."""
        self._threads += 1
        return self._threads

    def run_thread(self, number: int, function: int, argument: int) -> None:
        """Run a new thread to its end, with thread-local variables of its own."""
        machine, before = self.machine, self.thread
        places = [
            (_THREAD_POINTER + image.tls_start, image.tls.size, image)
            for image in self.images
            if image.tls is not None and image.tls_end < _MOST_TLS
        ]
        # There is one block of thread-local variables: those of the waiting thread are saved, and restored afterwards.
        with machine.taint.unseen():
            saved = [machine.read(at, size) for at, size, _ in places]
            self._set_up_variables()
        # It runs to its end at once. No two threads run at the same time, so no thread ever waits for a lock that
        # another one could release.
        self.thread = number
        try:
            self.thread_results[number] = machine.call(function, argument, is_thread=True)
        finally:
            self.thread = before
        with machine.taint.unseen():
            for (at, _, _), content in zip(places, saved, strict=True):
                machine.write(at, content)

    # Objects

    def image_at(self, address: int) -> Image | None:
        """Return the object that ``address`` belongs to, None if there is none."""
        for image in self.images:
            if image.contains(address):
                return image
        return None

    def import_at(self, address: int) -> str | None:
        """Return the imported function to whose slot or code ``address`` belongs."""
        place = address // _CODE_SLOT * _CODE_SLOT
        return self.name_at(address) or next((name for name, at in self._native.items() if at == place), None)

    def caller(self) -> int | None:
        """Return where the innermost function returns to; None if the stack does not tell."""
        try:
            return self.arch.return_address(self.machine.vm)
        except (AccessError, OverflowError):
            return None

    def is_code(self, address: int) -> bool:
        """Whether ``address`` lies in an executable segment of an object."""
        image = self.image_at(address)
        return image is not None and image.is_code(address)

    def plant(self, address: int, name: str) -> None:
        """Put the double of ``name`` in the place of the function at ``address``, which an object defines itself."""
        self.machine.divert(address, self.bind(name))

    def skip(self, address: int) -> None:
        """Let the function at ``address``, which an object defines itself, do nothing."""
        image = self.image_at(address)
        if image is not None:
            image.patches[address] = self.arch.return_zero

    def observe(self, address: int, name: str) -> None:
        """Let the double of ``name`` see each call of the function at ``address``, which does its work itself."""
        double = self._find_double(name)
        if double is None:
            return
        seen_by = double

        def see() -> None:
            seen_by(Call(self, name))

        self.machine.observe(address, see)

    def call_it(self, address: int, name: str) -> None:
        """Give the function or datum at ``address``, which an object defines itself, a name for ``name_at``."""
        self._own_names[address] = name

    def _find_definition(self, name: str) -> int | None:
        """Return where an object defines ``name``; None if none does, or if a double stands in for it."""
        # A double comes first even where a sibling has the function: what it does would be lost in emulated code.
        if len(self.images) == 1 or not name or self._find_double(name) is not None:
            return None
        for image in self.images:
            symbol = image.find(name)
            if symbol is not None:
                return image.address_of(symbol)
        return None

    # Imports

    def _may_lack(self, name: str) -> bool:
        """Whether a function that need not be there may be missing: nobody knows."""
        return not (_NAMES_IN_EVERY_PROCESS.match(name) or self.has_double(name) or self._find_definition(name))

    def ask_double(self, name: str) -> None:
        """Call the double of a function although code would do for it, since its arguments are of interest."""
        self._native.pop(name, None)

    def has_double(self, name: str) -> bool:
        """Whether what the function ``name`` does is known."""
        return name in self._native or self._find_double(name) is not None

    def bind(self, name: str) -> int:
        """Return the address of the import slot for ``name``."""
        # A symbol has one address in a process, whoever refers to it: code compares addresses of functions and of
        # types.
        slot = self._slots.get(name) or self._native.get(name)
        if slot is None:
            defined = self._find_definition(name)
            slot = self._slots[name] = IMPORT_BASE + IMPORT_SLOT * len(self._names) if defined is None else defined
            if defined is None:
                self._names.append(name)
                self._fill(name, slot)
        return slot

    def name_at(self, address: int) -> str | None:
        """Return the imported symbol whose slot holds ``address``, or what ``call_it`` was told."""
        index = (address - IMPORT_BASE) // IMPORT_SLOT
        return self._names[index] if 0 < index < len(self._names) else self._own_names.get(address)

    def _bind_tls(self, name: str) -> int:
        for image in self.images:
            symbol = image.find(name)
            if symbol is not None:
                return image.tls_start + symbol.value
        return self._tls_imports.setdefault(name, 0x8_0000 + 64 * len(self._tls_imports))

    def _bind_resolver(self, address: int) -> int:
        return self.bind(f"ifunc:{address:x}")

    def _fill(self, name: str, slot: int) -> None:
        """Fill a datum with what inlined code relies on (Itanium C++ ABI, 2.9.5 and 2.5)."""
        # The order matters: the general cases of ``_ZTV`` and ``_ZTI`` are behind the classes that inlined code looks
        # into.
        if name.startswith("_ZTT"):  # a table of virtual tables: all lead to the virtual table of the class
            table = self.bind("_ZTV" + name[4:]) + _STREAM_TABLE
            self.machine.write(slot, table.to_bytes(8, "little") * (IMPORT_SLOT // 8))
        elif name.startswith("_ZTV") and (layout := stream_layout(name)):
            functions = [self.bind("virtual function of " + name)] * 2
            words = [word for offset, top in layout for word in (offset, top, self.bind("_ZTI" + name[4:]), *functions)]
            self.machine.write(slot, struct.pack(f"<{len(words)}q", *words))
        # Both destructors and ``what()`` are what a handler calls on an exception that the library made.
        elif name.startswith("_ZTV") and name[4:] in (*BASES, ROOT):
            inner = name[5:-1] if name[4] == "N" else name[4:]
            members: tuple[str, ...] = (
                f"_ZN{inner}D1Ev",
                f"_ZN{inner}D0Ev",
                f"_ZNK{inner}4whatEv",
                f"_ZNK{inner}22what_without_backtraceEv",
            )
            self.machine.write(slot, struct.pack("<6Q", 0, self.bind("_ZTI" + name[4:]), *map(self.bind, members)))
        elif name.startswith(("_ZTVNSt7__cxx1115basic_stringbufIc", "_ZTVSt15basic_stringbufIc")):
            functions = [0, self.bind("_ZTI" + name[4:]), *map(self.bind, _STRINGBUF_FUNCTIONS)]
            self.machine.write(slot, struct.pack(f"<{len(functions)}Q", *functions))
        elif name.startswith("_ZTVNSt3pmr"):  # two destructors, then these
            of_resources = (f"pmr {subject}" for subject in ("destroy", "delete", "allocate", "deallocate", "is equal"))
            self.machine.write(slot, struct.pack("<7Q", 0, self.bind("_ZTI" + name[4:]), *map(self.bind, of_resources)))
        # Offset to top, type information, then functions (Itanium C++ ABI, 2.5.2): whichever is called, it has a name.
        elif name.startswith("_ZTV"):
            functions = [0, self.bind("_ZTI" + name[4:])]
            functions += [self.bind("virtual function of " + name)] * _VTABLE_FUNCTIONS
            self.machine.write(slot, struct.pack(f"<{len(functions)}Q", *functions))
        elif name.startswith("_ZTIP"):  # a pointer to a type that every program has, constant or not
            text, target = self.store(name[4:].encode() + b"\0"), name[5:].removeprefix("K")
            pointer = (
                self.bind(VTABLES["__pointer_type_info"]) + 16,
                text,
                int(name[5] == "K"),
                self.bind("_ZTI" + target),
            )
            self.machine.write(slot, struct.pack("<4Q", *pointer))
        elif name.startswith("_ZTI"):
            text = self.store(name[4:].encode() + b"\0")
            base = BASES.get(name[4:])
            # Only single public bases are known of imported classes, which is what the exceptions of the libraries
            # have.
            kind = "__class_type_info" if base is None else "__si_class_type_info"
            parts = (self.bind(VTABLES[kind]) + 16, text, self.bind("_ZTI" + base) if base else 0)
            self.machine.write(slot, struct.pack("<3Q", *parts))
        elif name.startswith(("Py", "_Py", "_ZSt")):
            self._fill_datum(self, name, slot)

    def _call_out(self, address: int) -> None:
        # Slots are found by their address: most calls are of few functions, and looking a double up takes patterns.
        named = self._doubles.get(address)
        if named is None:
            # Only the first byte of a slot is a function; the others are members of a datum whose content nobody filled
            # in.
            if address % IMPORT_SLOT:
                name = self.name_at(address)
                raise Stop(f"jump into data: {name}", self.arch.return_address(self.machine.vm), name)
            name = self.name_at(address) or ""
            if name.startswith("ifunc:"):
                self._jump_to_chosen(int(name[6:], 16))
                return
            name = name.removeprefix(_DOUBLE_OF)
            named = self._doubles[address] = (name, self._find_double(name))
        name, double = named
        self.called[name] = None
        call = Call(self, name)
        self.answered_with_zero = name if double is None else None
        if call.return_address not in self.call_sites and self.image_at(call.return_address) is not None:
            self.call_sites.add(call.return_address)
        self.calls += 1
        if self.calls > self.call_limit:
            raise Stop("call budget exhausted", call.return_address, name)
        taint = self.machine.taint
        # From here on, what the double reads counts for what it returns: a double is one instruction to whoever follows
        # answers.
        outer, taint.read = taint.read, 0
        try:
            # Zero is null, false or success. It is a guess, so what becomes of it is followed.
            if double is None:
                label = self._answer(call)
                call.finish(self.machine.answer)
            else:
                result = double(call)
                label = taint.read
                call.finish(result)
            if taint.is_used:
                if label and double is not None and _KEEPS.match(name):
                    taint.decide(label, call.return_address, "what is registered")
                taint.returned(label)
        except Unwinding as unwinding:
            self.exceptions.unwind(call, unwinding)
        except Stop as stop:
            # What it was called for inside the object, through a pointer, may have stopped at a place of its own.
            # Report the innermost place in the object: users can look at that, and not at a double.
            if self.image_at(stop.address) is None or stop.address == call.return_address:
                stop.address, stop.called = call.return_address, stop.called or name
            raise
        finally:
            taint.read = outer

    def _decide(self, decision: AnswerDecision) -> None:
        # From the first decision on, the run may differ from a real one: what was called before is certain.
        if self.decided_at is None:
            self.decided_at = self.count()
            self._called_before = tuple(self.called)
        self.decisions.append(decision)

    @property
    def surely_called(self) -> tuple[str, ...]:
        """The imports that were called before something was decided that is not known here."""
        return tuple(self.called) if self._called_before is None else self._called_before

    def _answer(self, call: Call) -> int:
        """Return the label of what a function without a double returns and writes: zero, and nothing."""
        taint = self.machine.taint
        label = taint.answer(call.name, call.return_address)
        if label:
            for address, size in written(call):
                taint.mark(address, size, label)
        return label

    def _jump_to_chosen(self, resolver: int) -> None:
        """Go on in the function that an indirect function's resolver chooses, with the registers as they are."""
        # ld.so runs a resolver while it relocates the object. Here a page is relocated at any time, also in the middle
        # of other code, so the resolver waits for a call.
        vm, arch = self.machine.vm, self.arch
        saved = [vm.reg_read(name) for name in arch.arguments]
        stack, link = vm.sp, arch.return_address(vm)
        target = self.machine.call(resolver)
        for name, value in zip(arch.arguments, saved, strict=True):
            vm.reg_write(name, value)
        vm.sp = stack
        if arch.link is not None:
            vm.reg_write(arch.link, link)
        vm.pc = target


class Call:
    """One call of an imported function: its arguments, and the process it acts upon.

    Arguments are read when they are asked for: ask before calling back into the emulated code.
    """

    __slots__ = ("_hidden", "_shift", "machine", "name", "process", "return_address")

    def __init__(self, process: EmulatedProcess, name: str) -> None:
        self.process = process
        self.machine = process.machine
        self.name = name
        vm = self.machine.vm
        self.return_address = process.arch.return_address(vm)
        self._hidden: int | None = None
        self._shift = 0

    def answer_is_unknown(self) -> None:
        """Note that what is returned is not known, after all."""
        self.machine.taint.read |= self.machine.taint.answer(self.name, self.return_address)

    def outcome_is_unknown(self, how: str) -> None:
        """Note that something is decided here and now by what is not known."""
        taint = self.machine.taint
        taint.decide(taint.answer(self.name, self.return_address), self.return_address, how)

    def decide_by_what_was_read(self) -> None:
        """Note that what has been read decides what is done, which need not show in what is written."""
        taint = self.machine.taint
        taint.decide(taint.read, self.return_address, "what is read")
        taint.read = 0

    def store_unknown(self, content: bytes) -> int:
        """Return the address of a fresh copy of ``content``, which is known to be there, while its content is not."""
        address = self.process.store(content)
        self.machine.taint.mark(address, len(content), self.machine.taint.answer(self.name, self.return_address))
        return address

    @property
    def result(self) -> int:
        """Where the caller wants the object that this function returns in memory. Ask before any argument."""
        if self._hidden is None:
            register = self.process.arch.hidden_result
            if register is None:
                self._hidden, self._shift = self.argument(0), 1
            else:
                self._hidden = self.machine.vm.reg_read(register)
        return self._hidden

    def argument(self, index: int) -> int:
        """Return an integer or pointer argument, counted from 0, ``this`` and pointers to by-value objects included."""
        index += self._shift
        # Integers and pointers take registers in order, then words of the stack (SysV psABI 3.2.3, AAPCS64 6.8.2).
        names, machine = self.process.arch.arguments, self.machine
        registers = len(names)
        if index < registers:
            name, taint = names[index], machine.taint
            if taint.registers:
                taint.read |= taint.label_in(self.process.arch.parts_of(name))
            return machine.vm.reg_read(name)
        return machine.word(self.process.arch.stack_after_return(machine.vm) + 8 * (index - registers))

    def number(self, index: int, bits: int = 64) -> float:
        """Return a ``double`` or ``float`` argument, of those counted from 0."""
        taint, name = self.machine.taint, self.process.arch.number_registers[index]
        taint.read |= taint.label_in((name,)) if taint.registers else 0
        content = self.machine.vm.reg_read(self.process.arch.number_part(name)).to_bytes(8, "little")
        (value,) = struct.unpack_from("<d" if bits == _DOUBLE else "<f", content)
        return float(value)

    def complex_number(self, index: int) -> tuple[float, float]:
        """Return a ``float _Complex`` argument: both parts in one register, or each in one of its own."""
        if not self.process.arch.pairs_numbers:
            return self.number(index, 32), self.number(index + 1, 32)
        name = self.process.arch.number_registers[index]
        content = self.machine.vm.reg_read(self.process.arch.number_part(name)).to_bytes(8, "little")
        real, imaginary = struct.unpack("<2f", content)
        return float(real), float(imaginary)

    def long_number(self, index: int) -> float:
        """Return a ``long double`` argument of x86-64, of those counted from 0: they lie in the stack."""
        from abiscan.emulation.arch.x87 import unpacked

        return float(unpacked(self.machine.read(self.machine.vm.sp + 8 + 16 * index, 10)))

    def give_long_number(self, value: float) -> None:
        """Set the result of a function of x86-64 that returns a ``long double``."""
        x87_unit(self.machine).push(value)

    @staticmethod
    def packed(value: float, bits: int) -> bytes:
        """Return the bytes of a ``double`` or ``float``."""
        if bits == _DOUBLE:
            return struct.pack("<d", value)
        try:
            return struct.pack("<f", value)
        except OverflowError:
            return struct.pack("<f", float("inf") if value > 0 else float("-inf"))

    def give_number(self, value: float, bits: int = 64) -> None:
        """Set the result of a function that returns a ``double`` or ``float``."""
        arch = self.process.arch
        content = int.from_bytes(self.packed(value, bits), "little")
        self.machine.vm.reg_write(arch.number_part(arch.number_registers[0]), content)

    def give_numbers(self, *values: float) -> None:
        """Set the result of a function that returns several ``double``: a ``double _Complex``."""
        arch = self.process.arch
        for name, value in zip(arch.number_registers, values, strict=False):
            content = int.from_bytes(self.packed(value, _DOUBLE), "little")
            self.machine.vm.reg_write(arch.number_part(name), content)

    def give_second(self, value: int) -> None:
        """Set the second word of a result of two words, in registers."""
        self.machine.vm.reg_write(self.process.arch.second_result, value)

    def repeated(self, character: int, count: int) -> bytes:
        """Return a character from one argument, repeated as another argument says.

        :raises Stop: more than any initialiser needs
        """
        times = self.argument(count)
        if times > _MAX_ALLOCATION:
            raise Stop(f"string of {times} bytes", self.return_address)
        return bytes((self.argument(character) & 0xFF,)) * times

    def views(self, first: int, count: int) -> list[tuple[int, int]]:
        """Return ``count`` consecutive arguments of two words each, such as ``c10::ArrayRef``, from argument ``first``
        on.

        One that the registers left cannot hold as a whole lies in the stack (SysV psABI 3.2.3, AAPCS64 6.8.2 C.12).
        """
        results, registers = [], len(self.process.arch.arguments) - self._shift
        position, in_stack = first, registers
        for _ in range(count):
            if position + 2 <= registers:
                at, position = position, position + 2
            else:
                at, in_stack = in_stack, in_stack + 2
            results.append((self.argument(at), self.argument(at + 1)))
        return results

    def finish(self, result: int | None) -> None:
        """Return to the caller, with ``result`` (an integer or a pointer; None for none)."""
        arch, vm = self.process.arch, self.machine.vm
        if self._hidden is not None:
            arch.return_object(vm, self._hidden)
        elif result is not None:
            vm.reg_write(arch.result, result & 0xFFFF_FFFF_FFFF_FFFF)
        vm.pc = arch.leave(vm)
