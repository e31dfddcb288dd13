"""Connect operators with code for GPUs: which launches which kernels, and what each container has for them."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from abiscan.binary.elf import SharedObject
from abiscan.binary.ownership import cuda_runtime, gpu_library
from abiscan.gpu import drivers
from abiscan.gpu.devices import Gpu
from abiscan.gpu.drivers import Driver
from abiscan.gpu.model import Compression, Container, GpuCode, targets_of
from abiscan.gpu.outcome import GpuOutcome, outcome_of
from abiscan.gpu.reader import read_gpu_code
from abiscan.inputs.files import ElfSource, random_access
from abiscan.registrations import GpuKernel, RegisteredKernel, Registrations
from abiscan.words import listed

if TYPE_CHECKING:
    from abiscan.extension.inventory import Inventory

_KEYS: Final = ("CUDA", "HIP")
_NEWEST_OF: Final = {"10": (10, 2), "11": (11, 8), "12": (12, 9)}  # major versions without further releases
_RUNTIMES: Final = ("cudart", "amdhip64")
_LOADERS: Final = {
    "code made at run time is not in the file": ("nvrtcCompileProgram", "hiprtcCompileProgram"),
    "code that is loaded as data is not recognised": (
        *("cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuModuleLoad", "cuLibraryLoadData"),
        *("cudaLibraryLoadData", "hipModuleLoad", "hipModuleLoadData", "hipModuleLoadDataEx"),
    ),
}


class Stub(NamedTuple):
    """The place of the host's function for a GPU kernel.

    :ivar number: 0 for the extension itself, then its libraries in order
    :ivar address: its virtual address there
    """

    number: int
    address: int


class LinkedLibrary(Struct, frozen=True, kw_only=True):
    """A library of the same package.

    :ivar source: its file
    :ivar registrations: recovers what it registers
    """

    source: ElfSource
    registrations: Callable[[], Registrations]


class ExtensionGpu(Struct, frozen=True, kw_only=True, dict=True):
    """The code for GPUs in one extension, and its kernels.

    :ivar code: that in the extension itself
    :ivar linked: that in libraries of the same package that the extension needs
    :ivar kernels: the registered kernels of all these, by their stubs on the host
    :ivar launches: for each kernel of an operator that launches any, their stubs
    :ivar runtime: the major version of the runtime that the extension is linked with, None if there is none
    :ivar driver: the first driver that runs it, None if unknown
    :ivar gaps: what is unknown, one sentence each
    """

    code: GpuCode
    linked: tuple[GpuCode, ...]
    kernels: Mapping[Stub, tuple[GpuKernel, ...]]
    launches: Mapping[RegisteredKernel, frozenset[Stub]]
    runtime: str | None
    driver: Driver | None
    gaps: tuple[str, ...]

    @functools.cached_property
    def _containers(self) -> dict[tuple[int, int], Container]:
        codes = enumerate((self.code, *self.linked))
        return {(number, container.address): container for number, code in codes for container in code.containers}

    @property
    def containers(self) -> tuple[Container, ...]:
        """The containers of the extension itself, or if it has none, those of the libraries that it needs."""
        return self.code.containers or tuple(self._containers.values())

    def is_for_maker_of(self, gpu: Gpu) -> bool:
        """Tell whether it is code for NVIDIA's or AMD's GPUs as this one is: code for others says nothing about it."""
        entries = itertools.chain.from_iterable(code.entries for code in (self.code, *self.linked))
        return any((entry.gfx is None) == (gpu.gfx is None) for entry in entries)

    def containers_of(self, stub: Stub) -> tuple[Container, ...]:
        """Return the containers with the code of a GPU kernel."""
        places = dict.fromkeys((stub.number, kernel.container) for kernel in self.kernels.get(stub, ()))
        return tuple(self._containers[place] for place in places if place in self._containers)

    def targets(self, kernel: RegisteredKernel) -> tuple[str, ...] | None:
        """Return the targets that a kernel of an operator has code for; None if it is not known to launch anything."""
        stubs = self.launches.get(kernel, frozenset())
        return targets_of(container for stub in stubs for container in self.containers_of(stub)) if stubs else None

    @functools.cached_property
    def operators(self) -> dict[str, tuple[tuple[Container, ...], ...]]:
        """The operators that launch GPU kernels, and the containers of each of those kernels."""
        stubs: dict[str, set[Stub]] = defaultdict(set)
        for kernel, launched in self.launches.items():
            stubs[kernel.operator] |= launched
        return {operator: tuple(map(self.containers_of, sorted(launched))) for operator, launched in stubs.items()}

    @functools.cached_property
    def _outcomes(self) -> dict[tuple[Gpu, Driver | None], GpuOutcome]:
        return {}

    def on(self, gpu: Gpu, driver: Driver | None = None) -> GpuOutcome:
        """Tell what runs on a GPU.

        :param driver: its driver; None for one that knows everything
        """
        if (gpu, driver) not in self._outcomes:
            toolkit = self.code.toolkit
            if toolkit is None and self.runtime is not None:
                toolkit = _NEWEST_OF.get(self.runtime)
            self._outcomes[gpu, driver] = outcome_of(self.operators, self.containers, toolkit, gpu, driver)
        return self._outcomes[gpu, driver]


def read_extension_gpu(
    source: ElfSource,
    facts: SharedObject,
    inventory: Inventory | None,
    linked: Sequence[LinkedLibrary] = (),
) -> ExtensionGpu | None:
    """Read the code for GPUs in an extension, and in the libraries that its operators call.

    Return None if there is none.

    :param inventory: what the extension registers; None to leave its operators out
    :param linked: the libraries of the same package that it needs, in the order in which they are searched
    """
    registrations = inventory.registrations if inventory else None
    own = _code_of(source)
    # Only from operators do calls lead into other libraries.
    libraries = linked if registrations and registrations.kernels else ()
    codes = (own, *(_code_of(library.source) for library in libraries))
    if not any(code.containers or code.gaps for code in codes):
        return None
    kernels: dict[Stub, list[GpuKernel]] = defaultdict(list)
    # A library without containers has no kernels, so that its registrations need not be recovered.
    for number, code in enumerate(codes) if registrations else ():
        of_object = registrations if number == 0 else libraries[number - 1].registrations() if code.containers else None
        for kernel in of_object.gpu_kernels if of_object else ():
            kernels[Stub(number, kernel.stub)].append(kernel)
    # Following calls takes long, so a library is searched only if some library has code for GPUs.
    searched = libraries if any(code.containers for code in codes[1:]) else ()
    files = [source, *(library.source for library in searched)]
    reached = _find_launches(files, facts, registrations.kernels, kernels.keys()) if registrations and kernels else {}
    if not reached and not own.containers and not own.gaps:
        return None
    runtimes = map(gpu_library, facts.needed)
    runtime = next((library.version for library in runtimes if library and library.stem in _RUNTIMES), None)
    return ExtensionGpu(
        code=own,
        linked=codes[1:],
        kernels={stub: tuple(of_stub) for stub, of_stub in kernels.items()},
        launches=reached,
        runtime=runtime.partition(".")[0] if runtime else None,
        driver=_first_driver(own, runtime),
        gaps=(*_code_gaps(own, facts, registrations), *_unconnected_operators(inventory, reached)),
    )


def first_driver(gpu: ExtensionGpu | None, needed: Iterable[str]) -> Driver | None:
    """Return the first driver that runs an extension; None if it needs none, or that is not known.

    :param gpu: None if it has no code for GPUs itself
    :param needed: the libraries that it is linked with
    """
    if gpu is not None:
        return gpu.driver
    majors = (version.partition(".")[0] for name in needed if (version := cuda_runtime(name)))
    return next((drivers.driver_for_runtime(int(major)) for major in majors if major.isdigit()), None)


def _code_of(source: ElfSource) -> GpuCode:
    """Read the containers of a file."""
    with random_access(source) as read:
        return read_gpu_code(read, source.size)


def _find_launches(
    files: Sequence[ElfSource], facts: SharedObject, kernels: Sequence[RegisteredKernel], stubs_to_find: Iterable[Stub]
) -> dict[RegisteredKernel, frozenset[Stub]]:
    """Find the stubs that each kernel of an operator reaches through calls."""
    # The graph needs the emulator's loader, which takes long to import.
    from abiscan.emulation.call_graph import reached_functions

    functions = [kernel.functions for kernel in kernels]
    reached = reached_functions([file.open_elf() for file in files], facts.machine, functions, frozenset(stubs_to_find))
    return {kernel: frozenset(map(Stub._make, stubs)) for kernel, stubs in zip(kernels, reached, strict=True) if stubs}


def _first_driver(code: GpuCode, runtime: str | None) -> Driver | None:
    """Return the first driver that has the file's runtime, and knows how its code is compressed."""
    major = runtime.partition(".")[0] if runtime else str(code.toolkit[0]) if code.toolkit else ""
    is_cuda = any(entry.gfx is None for entry in code.entries)
    needed = [drivers.driver_for_runtime(int(major))] if is_cuda and major.isdigit() else []
    if is_cuda and any(entry.compression is Compression.ZSTD for entry in code.entries):
        needed.append(drivers.ZSTD)
    return max(filter(None, needed), default=None)


def _unconnected_operators(inventory: Inventory | None, reached: Collection[RegisteredKernel]) -> Iterable[str]:
    """Yield a gap for the operators with a kernel for GPUs that launches nothing, as far as is known."""
    # If no operator is connected, that is one gap of its own, and not one for each.
    if inventory is None or not reached:
        return
    for_gpus = {number for number, name in inventory.keys.names.items() if name in _KEYS}
    connected = {kernel.operator for kernel in reached}
    left = dict.fromkeys(
        kernel.operator
        for kernel in inventory.registrations.kernels
        if (kernel.dispatch_key in for_gpus or kernel.dispatch_key in _KEYS) and kernel.operator not in connected
    )
    if left:
        yield f"no GPU kernel was found for {listed(left)}: it is unknown whether there is code for a GPU"


def _code_gaps(code: GpuCode, facts: SharedObject, registrations: Registrations | None) -> Iterable[str]:
    """Yield what is unknown of the code for GPUs."""
    yield from code.gaps
    for reason, functions in _LOADERS.items():
        if used := next((name for name in functions if name in facts.imports), None):
            yield f"calls {used}: {reason}"
    if any(container.relocatable for container in code.containers):
        yield "has relocatable code for GPUs, which may be linked at run time"
    if registrations is not None and code.containers and not registrations.gpu_kernels:
        yield "has code for GPUs, but no kernel was seen to be registered: operators were not connected with it"
