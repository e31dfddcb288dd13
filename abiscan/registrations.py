"""What code registers with torch, as plain data: the vocabulary of those who recover it and those who check it.

Each registration is one call of torch, with what the code passes; the numbers of dispatch keys mean what the torch that
reads them means by them. ``Registrations.in_order`` has all of them in the one order in which the code makes the calls,
and a view for each kind. Of the functions that run on a call nobody knows in which order they are called, nor whether:
theirs is that of the file.

``order`` counts the calls of torch that register. ``library`` is the ``Library`` that something was registered in, None
for what needs none.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias, TypeVar

from msgspec import Struct

from abiscan.cpu.needs import CpuUse
from abiscan.gaps import Gap

LOOKUPS: Final = "lookups"
"""The stage of the gaps that concern operators that are looked up, and no registration."""

ALLOCATOR: Final = "allocator"
ALLOCATOR_SETTINGS: Final = "AcceleratorAllocatorConfig"
BACKEND_NAME: Final = "privateuse1-backend"
"""Registries, as ``Registry.what`` has them."""

TEXT_OF_TORCH: Final = "\1"
"""Stands for what torch says in ``RegisteredOperator.failure``."""

ALIAS_ANALYSIS: Final = ("INTERNAL_SPECIAL_CASE", "CONSERVATIVE", "FROM_SCHEMA", "PURE_FUNCTION")
"""``c10::AliasAnalysisKind`` (``ATen/core/dispatch/OperatorOptions.h``), the same in every release."""

_MAJOR: Final = 2  # of every release with the stable ABI
_STABLE_CALLS: Final = ("aoti_torch_call_dispatcher", "torch_call_dispatcher")
_THROWING: Final = ("c10::Dispatcher::findSchemaOrThrow", *_STABLE_CALLS)


def version_of(number: int) -> str | None:
    """Return the release in a ``TORCH_ABI_VERSION``: ``2.10.0`` for 0x020A000000000000; None if it is none."""
    major, minor, patch = number >> 56, number >> 48 & 0xFF, number >> 40 & 0xFF
    # torch/headeronly/version.h: a byte each for major, minor and patch at the top, and zeros below.
    return f"{major}.{minor}.{patch}" if major == _MAJOR and not number & 0xFF_FFFF_FFFF else None


class Phase(enum.Enum):
    """When a registration happens: as the object is loaded, as its module is imported, or when somebody calls it."""

    STATIC_INIT = "static-init"
    MODULE_INIT = "module-init"
    ON_CALL = "on-call"


class LibraryKind(enum.Enum):
    """The macro that opened a library, in the order of ``torch::Library::Kind``."""

    DEF = "def"
    IMPL = "impl"
    FRAGMENT = "fragment"

    @property
    def macro(self) -> str:
        """Its name in ``torch/library.h``."""
        return "TORCH_LIBRARY" if self is LibraryKind.DEF else f"TORCH_LIBRARY_{self.name}"


class Library(Struct, frozen=True, kw_only=True):
    """One ``torch::Library``.

    :ivar namespace: None for the wildcard ``_``
    :ivar dispatch_key: the number in the machine code, which means what the torch that the extension was built for
        means by it, or the name where the code gives a name (stable ABI)
    :ivar file: the source file, as the compiler left it
    :ivar line: the line in it
    :ivar stable: whether it is one of the stable ABI
    :ivar quotes: whether the extension's own error messages there quote torch's, as from the headers of 2.13 on
    """

    kind: LibraryKind
    namespace: str | None
    dispatch_key: int | str | None
    file: str | None
    line: int | None
    phase: Phase
    order: int
    stable: bool = False
    quotes: bool = False

    @property
    def place(self) -> str:
        """The source line: ``ops.cpp:12``."""
        return f"{self.file or '?'}:{self.line or 0}"

    @property
    def debug(self) -> str:
        """The text that torch stores with each registration in it."""
        return f"registered at {self.place}"


class _InLibrary(Struct, frozen=True, kw_only=True):
    """What may be registered in a library: it has the source line of that."""

    library: Library | None
    phase: Phase
    order: int

    @property
    def file(self) -> str | None:
        """The source file, as the compiler left it."""
        return self.library.file if self.library else None

    @property
    def line(self) -> int | None:
        """The line in it."""
        return self.library.line if self.library else None


class RegisteredKernel(_InLibrary, frozen=True, kw_only=True):
    """One kernel.

    :ivar dispatch_key: as in ``Library``; None is torch's "no key" (CompositeImplicitAutograd from 1.8 on)
    :ivar signature: the C++ function type, mangled (``FN2at6TensorERKS0_E``), None for a kernel given boxed
    :ivar inferred_schema: ``(Tensor _0) -> Tensor _0``, None where torch infers none
    :ivar abi_version: the version of the torch whose headers a stable-ABI extension was compiled with
    :ivar functions: where its code begins, in the file's own space: the function that torch calls, and the one that it
        is made from
    :ivar stable: whether it takes ``StableIValue``s
    :ivar failure: as in ``RegisteredOperator``
    :ivar debug: the text that ``CppFunction::debug`` sets instead of the library's
    """

    operator: str
    dispatch_key: int | str | None
    signature: str | None = None
    inferred_schema: str | None = None
    boxed: bool = False
    fallthrough: bool = False
    abi_version: int | None = None
    functions: tuple[int, ...] = ()
    stable: bool = False
    failure: str | None = None
    debug: str | None = None

    @property
    def text(self) -> str:
        """The name as it is most likely written."""
        return _as_written(self.operator, self.library)


class RegisteredOperator(_InLibrary, frozen=True, kw_only=True):
    """One definition.

    :ivar name: ``ns::name`` or ``ns::name.overload``
    :ivar schema: the whole text, as written; None where neither it nor the type of the C++ function was readable
    :ivar inferred: whether torch makes the schema from the C++ function
    :ivar tags: the numbers of ``at::Tag`` of the torch that the extension was built for
    :ivar jit_only: whether it is in TorchScript's own registry (``torch::jit::RegisterOperators``), which the
        dispatcher does not know
    :ivar alias_analysis: the number of ``c10::AliasAnalysisKind`` given with it, None where none is, and in code built
        on 2.1 or newer, where nothing depends on it
    :ivar typevars: whether ``torch::schema`` allows type variables, None where the overload of ``def()`` decides
    :ivar failure: what the code of the stable ABI throws if this call fails, with ``TEXT_OF_TORCH`` where it quotes
        torch; None if that is not known
    :ivar kernels: those that the same call passes
    """

    name: str
    schema: str | None
    inferred: bool
    tags: tuple[int, ...] = ()
    jit_only: bool = False
    alias_analysis: int | None = None
    typevars: bool | None = None
    failure: str | None = None
    kernels: tuple[RegisteredKernel, ...] = ()

    @property
    def text(self) -> str:
        """The schema or the name, as it is most likely written."""
        return _as_written(self.name if self.inferred or self.schema is None else self.schema, self.library)

    @property
    def is_unread(self) -> bool:
        """Whether it has a schema that could not be read, so that nothing can be said about it.

        Torch refuses a name with a kernel without a C++ type, for there is no schema.
        """
        # Without a schema of its own, an operator takes that of a kernel with a C++ type; a boxed one or a fallthrough
        # has none.
        if self.schema is not None:
            return False
        return not self.inferred or any(not (kernel.boxed or kernel.fallthrough) for kernel in self.kernels)


def _as_written(text: str, library: Library | None) -> str:
    """Return a text as it most likely stands in the source: without the namespace of its own library."""
    return text if library is None else text.removeprefix(f"{library.namespace}::")


class RegisteredFallback(_InLibrary, frozen=True, kw_only=True):
    """A kernel for every operator that has none of its own for its key.

    :ivar debug: as in ``RegisteredKernel``
    """

    dispatch_key: int | str | None
    fallthrough: bool = False
    debug: str | None = None


class CustomClass(Struct, frozen=True, kw_only=True):
    """A ``torch::class_``.

    :ivar name: ``ns.Name``
    :ivar methods: in the order of their definition
    """

    name: str
    methods: tuple[str, ...]
    phase: Phase
    order: int


class Registry(Struct, frozen=True, kw_only=True):
    """An entry of another of torch's registries.

    :ivar what: which registry it is
    :ivar key: the number or name that is entered
    :ivar priority: that of allocators and of every ``c10::Registry``, None for the others
    """

    what: str
    key: int | str | None
    priority: int | None = None
    phase: Phase
    order: int

    @property
    def names_backend(self) -> bool:
        """Whether it is no entry but the name of the PrivateUse1 backend (``c10::register_privateuse1_backend``)."""
        return self.what == BACKEND_NAME

    @property
    def is_shared(self) -> bool:
        """Whether torch has entries of its own in the same registry: a ``c10::Registry``, or allocator settings."""
        return self.what == ALLOCATOR_SETTINGS or (self.priority is not None and self.what != ALLOCATOR)


class ProcessEnd(Struct, frozen=True, kw_only=True):
    """A static initialiser ends the process, on every machine and every torch.

    :ivar cause: how: "throws std::runtime_error, which nothing catches"
    :ivar text: what ``what()`` says, or else what is printed
    :ivar symbol: the function where it happens, as far as it has a name
    :ivar signal: the number of the signal that it gets, None where it calls what ends it
    """

    cause: str
    text: str
    symbol: str | None
    signal: int | None = None
    phase: Phase
    order: int


Registration: TypeAlias = (
    Library | RegisteredOperator | RegisteredKernel | RegisteredFallback | CustomClass | Registry | ProcessEnd
)
_Kind = TypeVar("_Kind")


class Lookup(Struct, frozen=True, kw_only=True):
    """An operator that the code fetches by name when it runs.

    :ivar function: the function of torch that it fetches it with
    :ivar address: where that call returns to (where it lies, if it is a jump), in the file's own space; None for
        ``at::_ops``, where the object imports a function of the operator's own
    :ivar abi_version: the version of the torch whose headers the call was compiled with, where the call passes it
    """

    operator: str
    function: str
    address: int | None
    abi_version: int | None = None

    @property
    def is_stable_call(self) -> bool:
        """Whether it calls the operator with ``StableIValue``s."""
        return self.function in _STABLE_CALLS

    @property
    def throws(self) -> bool:
        """Whether torch throws ``Could not find schema`` where it does not have the operator."""
        return self.function in _THROWING


class GpuKernel(Struct, frozen=True, kw_only=True):
    """A kernel for GPUs: its mangled name, its stub on the host, and the container that has its code, by address.

    A kernel whose template several object files use is in the container of each.
    """

    name: str
    stub: int
    container: int


class Registrations(Struct, frozen=True, kw_only=True, dict=True):
    """Everything recovered from one object.

    :ivar in_order: the registrations, in the order of the calls
    :ivar cpu: the features of the processor that code uses while the object is loaded, without asking for them
    :ivar debug_at: the offset of the last member, ``debug_``, in the ``torch::CppFunction`` objects that the code
        makes, which tells releases apart; None where it makes none of which this shows
    :ivar doubtful_from: the first ``order`` that may be another one in a real process, since something was decided
        before it that is not known here; None where all is certain
    """

    in_order: tuple[Registration, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    gpu_kernels: tuple[GpuKernel, ...] = ()
    gaps: tuple[Gap, ...] = ()
    cpu: tuple[CpuUse, ...] = ()
    debug_at: int | None = None
    doubtful_from: int | None = None

    @functools.cached_property
    def libraries(self) -> tuple[Library, ...]:
        """The libraries that are opened."""
        return tuple(self._of_kind(Library))

    @functools.cached_property
    def operators(self) -> tuple[RegisteredOperator, ...]:
        """The definitions."""
        return tuple(self._of_kind(RegisteredOperator))

    @functools.cached_property
    def kernels(self) -> tuple[RegisteredKernel, ...]:
        """The kernels, registered separately or with a definition."""
        return tuple(
            kernel
            for record in self.in_order
            if isinstance(record, RegisteredOperator | RegisteredKernel)
            for kernel in (record.kernels if isinstance(record, RegisteredOperator) else (record,))
        )

    @functools.cached_property
    def fallbacks(self) -> tuple[RegisteredFallback, ...]:
        """The fallbacks."""
        return tuple(self._of_kind(RegisteredFallback))

    @functools.cached_property
    def classes(self) -> tuple[CustomClass, ...]:
        """The custom classes."""
        return tuple(self._of_kind(CustomClass))

    @functools.cached_property
    def registries(self) -> tuple[Registry, ...]:
        """The entries of other registries."""
        return tuple(self._of_kind(Registry))

    @property
    def ends(self) -> tuple[ProcessEnd, ...]:
        """Where the process ends."""
        return tuple(self._of_kind(ProcessEnd))

    @property
    def compiled_with(self) -> str | None:
        """The newest torch whose headers the code records; None if it records none."""
        # What was compiled with it needs at least that.
        recorded = (*(kernel.abi_version for kernel in self.kernels), *(lookup.abi_version for lookup in self.lookups))
        return version_of(max(filter(None, recorded), default=0))

    @property
    def may_end_load(self) -> bool:
        """Whether the process ends while the object is loaded, or may end for all that is known."""
        return bool(self.ends) or any(gap.decides for gap in self.gaps)

    def dispatched_in(self, phase: Phase) -> Iterator[Registration]:
        """Yield what comes to the dispatcher in a phase, in order, as far as it could be read."""
        for record in self.in_order:
            # What could not be read is a gap already; to guess at it would decide about all that comes behind.
            unseen = isinstance(record, RegisteredOperator) and (record.jit_only or record.is_unread)
            if record.phase is phase and not unseen:
                yield record

    def _of_kind(self, kind: type[_Kind]) -> Iterator[_Kind]:
        return (record for record in self.in_order if isinstance(record, kind))


class NotRun(Struct, frozen=True, kw_only=True):
    """Why nobody knows what an operator returns."""

    reason: str


class TorchRegistrations(Struct, frozen=True, kw_only=True):
    """What the libraries of a torch register.

    :ivar libraries: by name
    :ivar keys: what its dispatch keys are called, by number
    :ivar aliases: the keys that stand for several others: those that each includes
    :ivar registries: what is in each ``c10::Registry``, and the keys of allocator settings
    """

    libraries: Mapping[str, Registrations]
    keys: Mapping[int, str]
    aliases: Mapping[int, frozenset[int]]
    registries: tuple[Registry, ...]
