"""What an extension registers, as plain data: the result of emulating it.

``order`` puts everything into the one order in which the code registers it, across all the lists: it counts the calls
of torch that register. What one call registers, a definition together with its kernels, has the same. Of the
functions that run on a call nobody knows in which order they are called, nor whether: theirs is that of the file.

``library`` is the ``order`` of the ``Library`` that something was registered in, None for what needs none.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from abiscan.cpu.needs import CpuUse

LOOKUPS: Final = "lookups"
"""The stage of the gaps that concern operators that are looked up, and no registration."""

ALLOCATOR: Final = "allocator"
ALLOCATOR_SETTINGS: Final = "AcceleratorAllocatorConfig"
"""Registries, as ``Registry.what`` has them."""

TEXT_OF_TORCH: Final = "\1"
"""Stands for what torch says in ``RegisteredOperator.failure``."""

_MAJOR: Final = 2  # of every release with the stable ABI
_STABLE_CALLS: Final = ("aoti_torch_call_dispatcher", "torch_call_dispatcher")
_THROWING: Final = ("c10::Dispatcher::findSchemaOrThrow", *_STABLE_CALLS)


def version_of(number: int) -> str | None:
    """The release in a ``TORCH_ABI_VERSION``: ``2.10.0`` for 0x020A000000000000; None if it is none."""
    major, minor, patch = number >> 56, number >> 48 & 0xFF, number >> 40 & 0xFF
    return f"{major}.{minor}.{patch}" if major == _MAJOR and not number & 0xFF_FFFF_FFFF else None


class Phase(enum.Enum):
    """When a registration happens: as the object is loaded, as its module is imported, or when somebody calls it."""

    STATIC_INIT = "static-init"
    MODULE_INIT = "module-init"
    ON_CALL = "on-call"


class LibraryKind(enum.Enum):
    """The macro that opened a library: ``TORCH_LIBRARY``, ``_FRAGMENT``, ``_IMPL`` (``torch::Library::Kind``)."""

    DEF = "def"
    FRAGMENT = "fragment"
    IMPL = "impl"


class Library(Struct, frozen=True, kw_only=True):
    """One ``torch::Library``.

    ``namespace`` is None for the wildcard ``_``. ``dispatch_key`` is the number in the machine code, which means what
    the torch that the extension was built for means by it, or the name where the code gives a name (stable ABI).
    ``file`` and ``line`` are those of the source, as the compiler left them. ``stable`` is one of the stable ABI, and
    ``quotes`` tells that the extension's own error messages there quote torch's, as from the headers of 2.13 on.
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


class RegisteredOperator(Struct, frozen=True, kw_only=True):
    """One definition. ``name`` is ``ns::name`` or ``ns::name.overload``; ``schema`` the whole text, as written.

    ``inferred`` tells that torch makes the schema from the C++ function. ``schema`` is None where neither was readable.
    ``tags`` are the numbers of ``at::Tag`` of the torch that the extension was built for. ``jit_only`` marks those
    of TorchScript's own registry (``torch::jit::RegisterOperators``), which the dispatcher does not know.
    ``alias_analysis`` is the number of ``c10::AliasAnalysisKind`` given with it, None where none is, and in code built
    on 2.1 or newer, where nothing depends on it. ``typevars`` tells whether ``torch::schema`` allows type variables,
    None where the overload of ``def()`` decides.
    ``failure`` is what the code of the stable ABI throws if this call fails, with ``TEXT_OF_TORCH`` where it quotes
    torch; None if that is not known.
    """

    name: str
    schema: str | None
    inferred: bool
    tags: tuple[int, ...]
    jit_only: bool
    file: str | None
    line: int | None
    phase: Phase
    order: int
    library: int | None
    alias_analysis: int | None = None
    typevars: bool | None = None
    failure: str | None = None


class RegisteredKernel(Struct, frozen=True, kw_only=True):
    """One kernel. ``dispatch_key`` as in ``Library``; None is torch's "no key" (CompositeImplicitAutograd from 1.8 on).

    ``signature`` is the C++ function type, mangled (``FN2at6TensorERKS0_E``), None for a kernel given boxed.
    ``inferred_schema`` is ``(Tensor _0) -> Tensor _0``, None where torch infers none. ``abi_version`` is the version
    of the torch whose headers a stable-ABI extension was compiled with; ``stable`` marks kernels that take
    ``StableIValue``s. ``functions`` are where its code begins, in the file's own
    space: the function that torch calls, and the one that it is made from. ``failure`` is as in ``RegisteredOperator``.
    """

    operator: str
    dispatch_key: int | str | None
    signature: str | None
    inferred_schema: str | None
    boxed: bool
    fallthrough: bool
    abi_version: int | None
    file: str | None
    line: int | None
    phase: Phase
    order: int
    library: int | None
    functions: tuple[int, ...] = ()
    stable: bool = False
    failure: str | None = None


class GpuKernel(Struct, frozen=True, kw_only=True):
    """A kernel for GPUs: its mangled name, its stub on the host, and the container that has its code, by address.

    A kernel whose template several object files use is in the container of each.
    """

    name: str
    stub: int
    container: int


class RegisteredFallback(Struct, frozen=True, kw_only=True):
    """A kernel for every operator that has none of its own for ``dispatch_key``."""

    dispatch_key: int | str | None
    fallthrough: bool
    file: str | None
    line: int | None
    phase: Phase
    order: int
    library: int | None


class CustomClass(Struct, frozen=True, kw_only=True):
    """A ``torch::class_``: ``name`` is ``ns.Name``; ``methods`` in the order of their definition."""

    name: str
    methods: tuple[str, ...]
    phase: Phase
    order: int


class Registry(Struct, frozen=True, kw_only=True):
    """An entry of another of torch's registries: ``what`` names it, ``key`` is the number or name entered.

    ``priority`` is that of allocators and of every ``c10::Registry``, None for the others.
    """

    what: str
    key: int | str | None
    priority: int | None = None
    phase: Phase
    order: int

    @property
    def is_shared(self) -> bool:
        """Whether torch has entries of its own in the same registry: a ``c10::Registry``, or allocator settings."""
        return self.what == ALLOCATOR_SETTINGS or (self.priority is not None and self.what != ALLOCATOR)


class ProcessEnd(Struct, frozen=True, kw_only=True):
    """A static initialiser ends the process, on every machine and every torch.

    ``cause`` says how: "throws std::runtime_error, which nothing catches"; ``text`` is what ``what()`` says, or else
    what is printed. ``symbol`` is the function where it happens, as far as it has a name.
    """

    cause: str
    text: str
    symbol: str | None
    phase: Phase
    order: int


class Lookup(Struct, frozen=True, kw_only=True):
    """An operator that the code fetches by name when it runs, with torch's ``function``.

    ``address`` is where that call returns to (where it lies, if it is a jump), in the file's own space; None for
    ``at::_ops``, where the object imports a function of the operator's own. ``abi_version`` is the version of the torch
    whose headers the call was compiled with, where the call passes it.
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


class EmulationGap(Struct, frozen=True, kw_only=True):
    """Something that could not be read: where (``address`` in the file's own space, nearest symbol) and why.

    Of a function that was ``started`` and did not get to its end, ``address`` is the program counter, or, where it
    stopped in an imported function, where that would have returned to. ``called`` is that function, or the one called
    last, if that has no double and so just returned zero. ``lost`` counts the calls that register and that it did not
    get to, by what they register. ``ends`` tells that the process may end there, while the object is loaded, or behind
    that place, in what would have been registered.
    """

    stage: str
    reason: str
    address: int | None
    symbol: str | None
    started: int | None = None
    called: str | None = None
    lost: tuple[tuple[str, int], ...] = ()
    ends: bool = False


class Registrations(Struct, frozen=True, kw_only=True):
    """Everything recovered from one object, each list in the order in which the code registers.

    ``cpu`` has the features of the processor that code uses while the object is loaded, without asking for them.

    ``doubtful_from`` is the first ``order`` that may be another one in a real process, since something was decided
    before it that is not known here; None where all is certain.

    ``debug_at`` is the offset of the last member, ``debug_``, in the ``torch::CppFunction`` objects that the code
    makes, which tells releases apart; None where it makes none of which this shows.
    """

    libraries: tuple[Library, ...] = ()
    operators: tuple[RegisteredOperator, ...] = ()
    kernels: tuple[RegisteredKernel, ...] = ()
    fallbacks: tuple[RegisteredFallback, ...] = ()
    classes: tuple[CustomClass, ...] = ()
    registries: tuple[Registry, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    gpu_kernels: tuple[GpuKernel, ...] = ()
    ends: tuple[ProcessEnd, ...] = ()
    gaps: tuple[EmulationGap, ...] = ()
    cpu: tuple[CpuUse, ...] = ()
    debug_at: int | None = None
    doubtful_from: int | None = None


class NotRun(Struct, frozen=True, kw_only=True):
    """Why nobody knows what an operator returns."""

    reason: str


class TorchRegistrations(Struct, frozen=True, kw_only=True):
    """What the libraries of a torch register, by library, and what its dispatch keys are called, by number.

    ``aliases`` are the keys that stand for several others: those that each includes. ``registries`` is what is in each
    ``c10::Registry``, and the keys of allocator settings.
    """

    libraries: Mapping[str, Registrations]
    keys: Mapping[int, str]
    aliases: Mapping[int, frozenset[int]]
    registries: tuple[Registry, ...]
