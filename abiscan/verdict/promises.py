"""From the metadata of a target to what one extension in it is compared with."""

from __future__ import annotations

from abiscan.cpu.processors import Cpu
from abiscan.cpu.variants import admitted_cpu, unknown_to_cpus
from abiscan.extension.examined import ExaminedExtension
from abiscan.gpu.variants import NAMESPACE, GpuPromise, promise_of_gpus, unknown_to_gpus
from abiscan.inputs.variants import WheelVariant
from abiscan.linkage.promises import Promise, Promises


def promised_cpu(examined: ExaminedExtension) -> Cpu | None:
    """Return the least processor that the wheel of an extension admits; None if it says nothing of processors."""
    variant = examined.target.metadata.variant if examined.target.metadata else None
    return admitted_cpu(variant, examined.facts.machine) if variant else None


def promises_of(examined: ExaminedExtension, cpu: Cpu | None) -> Promises:
    """Return what the metadata say about an extension.

    :param cpu: the least processor that its wheel admits
    """
    package, metadata = examined.target.package, examined.target.metadata
    if metadata is None:
        return Promises()
    required = metadata.requires_torch
    return Promises(
        package=package.name if package else "",
        package_version=metadata.version,
        wheel=metadata.wheel,
        requires_torch=required if required and not required.admits_all else None,
        variant=_read_promise(examined, metadata.variant, cpu) if metadata.variant else None,
    )


def _read_promise(examined: ExaminedExtension, variant: WheelVariant, cpu: Cpu | None) -> Promise:
    return Promise(
        variant=variant,
        cpu=cpu,
        code=examined.owner.features_in_code(examined.facts.machine) if cpu and cpu.features else None,
        gpu=_of_gpus(examined, variant),
        unknown=(*unknown_to_cpus(variant), *unknown_to_gpus(variant)),
    )


def _of_gpus(examined: ExaminedExtension, variant: WheelVariant) -> GpuPromise | None:
    if not any(stated.namespace == NAMESPACE for stated in variant.properties):
        return None
    code = examined.gpu
    if code is not None and code.code.gaps:  # what could not be read may be code for a GPU
        code = None
    from abiscan.extension.gpu import first_driver

    driver = first_driver(code, examined.facts.needed)
    has_code = code is not None and any(container.entries for container in code.containers)
    return promise_of_gpus(variant, driver, code.on if code and has_code else None, code.code.entries if code else ())
