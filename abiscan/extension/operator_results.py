"""Compute what operators without arguments return that the libraries of a package register."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from abiscan.binary.elf import SharedObject
from abiscan.binary.ownership import is_torch_library
from abiscan.dispatch.keys import DispatchKeys
from abiscan.emulation import call_operator
from abiscan.extension.inventory import argument_tail
from abiscan.inputs.files import ElfSource, Files
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.model import Closure, Module
from abiscan.linkage.registering import Registering
from abiscan.registrations import NotRun, Phase, RegisteredKernel, Registrations

Result = int | bool | str | NotRun | None

# The keys of kernels that torch calls where no argument has a key. No key stands for CompositeImplicitAutograd.
_WITHOUT_ARGUMENTS = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", None)


class OperatorProvider(Struct, frozen=True, kw_only=True):
    """An object in a process, and what it registers.

    :ivar source: its file
    :ivar facts: what the file says
    :ivar registrations: what it registers
    :ivar keys: the numbers of dispatch keys, by name
    :ivar built_for: the releases that it may have been built for, oldest first
    :ivar siblings: the libraries of the package that define functions which it imports
    """

    source: ElfSource
    facts: SharedObject
    registrations: Registrations
    keys: DispatchKeys
    built_for: Sequence[TorchVersion]
    siblings: tuple[ElfSource, ...] = ()

    @property
    def identity(self) -> tuple[str, ...]:
        """The fingerprints of everything that its code consists of."""
        return tuple(file.identify_version() for file in (self.source, *self.siblings))

    def kernels_of(self, operator: str) -> Iterator[RegisteredKernel]:
        """Yield the kernels that loading it registers for an operator, their dispatch keys by name."""
        for kernel in self.registrations.kernels:
            if kernel.operator == operator and kernel.phase is Phase.STATIC_INIT:
                key = kernel.dispatch_key
                yield replace(kernel, dispatch_key=self.keys.name(key) if isinstance(key, int) else key)


def list_providers(
    source: ElfSource, closure: Closure, registering: Registering, files: Files
) -> Iterator[tuple[str, OperatorProvider]]:
    """Yield an extension that was loaded, and the libraries that it brings along, by their paths."""
    first, *bundled_modules = closure.modules
    brought = [
        (module, registering.bundled[module.name]) for module in bundled_modules if module.name in registering.bundled
    ]
    for module, registrations in ((first, registering.own), *brought):
        file = source if module is first else files.find_source(module.path)
        if file is not None and module.facts is not None:
            yield (
                module.path,
                OperatorProvider(
                    source=file,
                    facts=module.facts,
                    registrations=registrations,
                    keys=registering.keys_built_for,
                    built_for=registering.built_for,
                    siblings=tuple(_find_siblings(module, closure, files)),
                ),
            )


def _find_siblings(module: Module, closure: Closure, files: Files) -> Iterator[ElfSource]:
    """Yield the libraries of the same load that define a function which a module imports."""
    for sibling in closure.new:
        if sibling is module or sibling.facts is None or module.facts is None or is_torch_library(sibling.name):
            continue
        source = files.find_source(sibling.path)
        if source is not None and any(sibling.facts.symbols.find(name) for name in module.facts.imports):
            yield source


def compute_result(
    registrants: Iterable[OperatorProvider], operator: str, torch: TorchVersion | None, results: dict[object, Result]
) -> Result:
    """Compute what an operator returns, called without arguments.

    :param torch: kernels of the stable ABI ask for its version
    :param results: what was computed before, by the code that was run; results are added to it
    """
    providers = tuple(registrants)
    schemas = {
        registered_operator.schema
        for registrant in providers
        for registered_operator in registrant.registrations.operators
        if registered_operator.name == operator
        and registered_operator.phase is Phase.STATIC_INIT
        and not registered_operator.jit_only
    }
    kernels = [(registrant, kernel) for registrant in providers for kernel in registrant.kernels_of(operator)]
    schema = schemas.pop() if len(schemas) == 1 else None
    if schema is None:
        return NotRun(reason="no library of the package defines it")
    # Of several kernels, the dispatcher chooses by keys that a call without arguments does not show.
    if len(kernels) != 1 or kernels[0][1].dispatch_key not in _WITHOUT_ARGUMENTS:
        return NotRun(reason="which of its kernels is called is not known")
    registrant, _ = kernels[0]
    # The same code gives the same result, in whichever target it is.
    identity = (operator, torch, *registrant.identity)
    if identity not in results:
        results[identity] = call_operator(
            registrant.source.open_elf(),
            registrant.facts,
            operator,
            schema,
            argument_tail=argument_tail(registrant.built_for, registrant.facts.machine),
            siblings=[sibling.open_elf() for sibling in registrant.siblings],
            abi_version=_abi_version(torch),
        )
    return results[identity]


def _abi_version(torch: TorchVersion | None) -> int | None:
    """Return ``TORCH_ABI_VERSION`` (``torch/headeronly/version.h``)."""
    return None if torch is None else torch.major << 56 | torch.minor << 48 | torch.micro << 40
