"""An extension loaded into the process of a torch: what the loader and the hardware do, and what was promised."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from msgspec import Struct, field

from abiscan.binary.elf import SharedObject
from abiscan.binary.ownership import cuda_runtime
from abiscan.cpu.needs import CpuNeeds
from abiscan.cpu.processors import Cpu
from abiscan.gpu.devices import Gpu
from abiscan.gpu.outcome import GpuOutcome
from abiscan.inputs.interpreter import Interpreter
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.illegal_instruction import IllegalInstruction, illegal_instructions
from abiscan.linkage.layout_drift import LayoutDrift
from abiscan.linkage.model import LoadError, Resolution, UndefinedSymbol
from abiscan.linkage.promises import Promises
from abiscan.linkage.registering import Registering
from abiscan.linkage.unknown_torch_data import Lack, lacks_of
from abiscan.torches.model import TorchRelease
from abiscan.torches.string_abi import uses_cxx11_strings


class ExtensionLoad(Struct, frozen=True, kw_only=True, dict=True):
    """What the loader, Python and torch do with an extension.

    :ivar name: the base name of the extension
    :ivar facts: what its file says
    :ivar release: the torch that it is loaded into
    :ivar interpreter: the Python that imports it, None if unknown
    :ivar torch_libraries: all libraries of the torch by base name, loaded or not
    :ivar resolution: None if the extension is built for a different machine, so there is nothing to resolve
    :ivar error: the error that ends the load, None if it succeeds
    :ivar siblings: the libraries next to the extension, by base name
    :ivar here: whether libraries were looked for on this system; for a release number they are not
    :ivar registering: the registrations with torch, None if there are none
    :ivar with_suggestions: whether rules look for what the torch has in place of what it lacks
    :ivar defined_in_python: where the package's Python code defines an operator, by operator: ``pkg/ops.py:16``
    :ivar drifts: the class layouts that differ from those that the extension, or a library that it brings along, was
        compiled with
    :ivar built_for: the releases that the extension may have been built for, oldest first; empty if unknown
    :ivar found_only_next_to_file: libraries next to a single file that no search path leads to
    """

    name: str
    facts: SharedObject
    release: TorchRelease
    interpreter: Interpreter | None
    torch_libraries: Mapping[str, SharedObject]
    resolution: Resolution | None
    error: LoadError | None
    siblings: Mapping[str, SharedObject] = field(default_factory=dict)
    here: bool = True
    registering: Registering | None = None
    with_suggestions: bool = True
    defined_in_python: Mapping[str, str] = field(default_factory=dict)
    drifts: tuple[LayoutDrift, ...] = ()
    built_for: tuple[TorchVersion, ...] = ()
    found_only_next_to_file: tuple[str, ...] = ()

    @property
    def fails_before_registering(self) -> bool:
        """Whether ``ld.so`` gives up, so how torch would react to registrations is only told where it is explained."""
        return self.resolution is not None and self.resolution.error is not None

    @property
    def lacks(self) -> tuple[Lack, ...]:
        """What is unknown about the torch, of all that matters for the extension."""
        return tuple(lacks_of(str(self.release), self.release.torch_version, self.drifts, self.registering))

    @property
    def undefined(self) -> tuple[UndefinedSymbol, ...]:
        """The undefined symbols of the extension and of the libraries that it brings along."""
        return self.resolution.undefined if self.resolution else ()

    @functools.cached_property
    def torch_cuda(self) -> str | None:
        """The major version of CUDA that this torch was built for; None if it has no CUDA."""
        for name in ("libc10_cuda.so", "libtorch_cpu.so"):  # in 1.11 to 1.13, only the second needs CUDA
            library = self.torch_libraries.get(name)
            for version in map(cuda_runtime, library.needed if library else ()):
                if version:
                    return version.partition(".")[0]
        return None

    @functools.cached_property
    def torch_uses_cxx11_strings(self) -> bool | None:
        """Whether this torch was built with the C++11 ``std::string``; None if unknown."""
        return uses_cxx11_strings(self.torch_libraries)


class HardwareFit(Struct, frozen=True, kw_only=True, dict=True):
    """How an extension fares on the GPUs and processors that it is checked for.

    :ivar gpus: what each GPU runs of the extension
    :ivar gpu_gaps: what is unknown about that
    :ivar torch_runs: whether torch itself has code for those GPUs, as far as that is known
    :ivar cpu: what the load needs of the processor, None if nothing was emulated
    :ivar cpus: the processors that this is compared with
    :ivar torch_cpu: what torch itself needs of them
    """

    gpus: tuple[GpuOutcome, ...] = ()
    gpu_gaps: tuple[str, ...] = ()
    torch_runs: Mapping[Gpu, bool] = field(default_factory=dict)
    cpu: CpuNeeds | None = None
    cpus: tuple[Cpu, ...] = ()
    torch_cpu: tuple[str, ...] = ()

    @functools.cached_property
    def illegal(self) -> tuple[IllegalInstruction, ...]:
        """The places where loads end on processors that lack what they need."""
        return illegal_instructions(self.cpu, self.cpus)


class Linkage(Struct, frozen=True, kw_only=True):
    """One load, analysed: the input of every rule."""

    load: ExtensionLoad
    hardware: HardwareFit = HardwareFit()
    promises: Promises = Promises()
