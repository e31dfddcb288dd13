"""GPUs and drivers in the properties of variant wheels: the namespace ``nvidia``.

What the properties mean is defined by their provider, ``nvidia-variant-provider``: ``cuda_version_lower_bound`` is the
least version of CUDA that the driver may have, ``cuda_version_upper_bound`` the first that it may not have, and
``sm_arch`` an architecture as CMake writes it, with machine code (``90_real``) or PTX (``90_virtual``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from msgspec import Struct

from abiscan.gpu.compatibility import Choice, CodeFit, fits_gpu
from abiscan.gpu.devices import KNOWN_CAPABILITIES, Gpu
from abiscan.gpu.drivers import Driver, driver_of_cuda
from abiscan.gpu.model import CodeKind, Container, Entry
from abiscan.gpu.outcome import GpuOutcome
from abiscan.inputs.variants import VariantProperty, VersionProperty, WheelVariant, lowest_first
from abiscan.regex import regex

NAMESPACE: Final = "nvidia"
LOWER: Final = "cuda_version_lower_bound"
UPPER: Final = "cuda_version_upper_bound"
_ARCHITECTURE: Final = "sm_arch"
_SM: Final = regex(r"([0-9]{2,3})[af]?_(real|virtual)")


class StatedGpu(NamedTuple):
    """A GPU that a property stands for; ``is_real`` if it says that there is machine code for it."""

    stated: VariantProperty
    gpu: Gpu
    is_real: bool


class GpuPromise(Struct, frozen=True, kw_only=True):
    """What the properties of a wheel say about GPUs, next to what one extension in it needs.

    :ivar lower: the least version of CUDA that drivers have which are admitted, None for any: one value is enough
    :ivar upper: the first version that they do not have, None for any: of several, the last
    :ivar driver: the first driver that runs the extension, None if that is not known
    :ivar outcomes: what each GPU runs that is stated, with the oldest driver that is admitted
    :ivar unstated: targets of machine code that no property admits a GPU for
    """

    lower: VersionProperty | None
    upper: VersionProperty | None
    driver: Driver | None
    outcomes: tuple[tuple[StatedGpu, GpuOutcome], ...] = ()
    unstated: tuple[str, ...] = ()


def stated_gpus(variant: WheelVariant) -> tuple[StatedGpu, ...]:
    """Return the GPUs that a variant is for."""
    matches = ((stated, _SM.fullmatch(stated.value)) for stated in variant.list_values(NAMESPACE, _ARCHITECTURE))
    return tuple(
        StatedGpu(stated, Gpu(name=f"sm_{match[1]}", capability=int(match[1])), match[2] == "real")
        for stated, match in matches
        if match
    )


def promise_of_gpus(
    variant: WheelVariant,
    driver: Driver | None,
    run_on: Callable[[Gpu, Driver | None], GpuOutcome] | None = None,
    entries: Iterable[Entry] = (),
) -> GpuPromise | None:
    """Compare what a variant says about GPUs with an extension; None if it says nothing of them.

    :param driver: the first driver that runs the extension, None if that is not known
    :param run_on: what a GPU with a driver runs of it; None if it has no code for GPUs
    :param entries: the code in it
    """
    if not any(stated.namespace == NAMESPACE for stated in variant.properties):
        return None
    # "Variant properties": a system needs one of the values, so the most permissive of several decides.
    lower = next(iter(lowest_first(variant.list_values(NAMESPACE, LOWER))), None)
    upper = next(reversed(lowest_first(variant.list_values(NAMESPACE, UPPER))), None)
    oldest = driver_of_cuda(lower.version) if lower else None
    gpus = stated_gpus(variant) if run_on else ()
    return GpuPromise(
        lower=lower,
        upper=upper,
        driver=driver,
        outcomes=tuple((stated_gpu, run_on(stated_gpu.gpu, oldest)) for stated_gpu in gpus if run_on),
        unstated=unstated_targets(variant, entries),
    )


def unstated_targets(variant: WheelVariant, entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the targets of machine code none of whose GPUs a variant admits.

    The provider gives a GPU each ``_real`` value of its major version up to its own, so newer ones are admitted, too.
    """
    capabilities = [stated_gpu.gpu.capability for stated_gpu in stated_gpus(variant)]
    targets = {
        entry.target: entry.architecture
        for entry in entries
        if entry.kind is CodeKind.CUBIN
        # nvidia_variant_provider/plugin.py, get_supported_configs
        and not any(entry.architecture // 10 * 10 <= capability <= entry.architecture for capability in capabilities)
    }
    return tuple(sorted(targets, key=lambda target: targets[target])) if capabilities else ()


def unknown_to_gpus(variant: WheelVariant) -> tuple[VariantProperty, ...]:
    """Return the properties in this namespace whose meaning is not known."""
    understood: set[VariantProperty] = {stated_gpu.stated for stated_gpu in stated_gpus(variant)}
    for feature in (LOWER, UPPER):
        understood |= {bound.stated for bound in lowest_first(variant.list_values(NAMESPACE, feature))}
    return tuple(stated for stated in variant.properties if stated.namespace == NAMESPACE and stated not in understood)


def lower_bound_of(version: tuple[int, int]) -> VariantProperty:
    """Return the property of code that needs a driver with a version of CUDA."""
    return VariantProperty(NAMESPACE, LOWER, f"{version[0]}.{version[1]}")


def architecture_property(entry: Entry) -> VariantProperty | None:
    """Return the property that is true of a piece of code; None if there is none for code of its kind.

    Code for one GPU alone (``sm_100a``) has one only where no newer GPU of its major version is known: the provider
    gives such a GPU that property, too.
    """
    if entry.gfx is not None or entry.kind is CodeKind.LTO:
        return None
    # The GPUs that the provider gives the property of this architecture: those of its major version, from it on.
    family = range(entry.architecture, entry.architecture // 10 * 10 + 10)
    gpus = (Gpu(name="", capability=capability) for capability in KNOWN_CAPABILITIES if capability in family)
    if entry.variant == "a" and not all(fits_gpu(entry, gpu) for gpu in gpus):
        return None
    kind = "virtual" if entry.kind is CodeKind.PTX else "real"
    return VariantProperty(NAMESPACE, _ARCHITECTURE, f"{entry.architecture}_{kind}")


def lacking(outcome: GpuOutcome) -> dict[str, Choice]:
    """Return the operators without code that a GPU runs, with the best that there is for them.

    Operators whose code is for certain GPUs alone (``sm_90a``) do not count: on others, something else is chosen. If no
    operator runs, all of them count.
    """
    failing = outcome.failing
    if len(failing) == len(outcome.operators):
        return failing
    return {name: choice for name, choice in failing.items() if any(map(_is_general, outcome.code[name]))}


def _is_general(container: Container) -> bool:
    # The letters a and f: code that uses what only one GPU, or one family, has.
    return any(entry.kind is not CodeKind.LTO and not entry.variant for entry in container.entries)


def runs_all(outcome: GpuOutcome) -> bool:
    """Tell whether a GPU runs the operators, or, if none is connected with its kernels, anything of the file."""
    return not lacking(outcome) if outcome.operators else outcome.file.fit.runs


def is_translated(outcome: GpuOutcome) -> bool:
    """Tell whether a GPU runs it, but nothing of it without translation by the driver."""
    fits = {choice.fit for choices in outcome.operators.values() for choice in choices} or {outcome.file.fit}
    return CodeFit.JIT in fits and CodeFit.NATIVE not in fits
