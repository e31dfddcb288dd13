"""From the properties of a variant wheel to what one extension in it is compared with."""

from __future__ import annotations

from abiscan.cpu.processors import Cpu
from abiscan.cpu.variants import admitted_cpu, unknown_to_cpus
from abiscan.extension.examined import ExaminedExtension
from abiscan.gpu.variants import NAMESPACE, GpuPromise, promise_of_gpus, unknown_to_gpus
from abiscan.inputs.variants import WheelVariant
from abiscan.linkage.promise import Promise


def promised_cpu(examined: ExaminedExtension) -> Cpu | None:
    """Return the least processor that the wheel of an extension admits; None if it says nothing of processors."""
    variant = _find_variant(examined)
    return admitted_cpu(variant, examined.facts.machine) if variant else None


def read_promise(examined: ExaminedExtension, cpu: Cpu | None) -> Promise | None:
    """Return what the wheel of an extension says of the systems that it is for; None if it is of no variant.

    :param cpu: the least processor that it admits
    """
    variant = _find_variant(examined)
    if variant is None:
        return None
    return Promise(
        variant=variant,
        cpu=cpu,
        code=examined.owner.features_in_code(examined.facts.machine) if cpu and cpu.features else None,
        gpu=_of_gpus(examined, variant),
        unknown=(*unknown_to_cpus(variant), *unknown_to_gpus(variant)),
    )


def _find_variant(examined: ExaminedExtension) -> WheelVariant | None:
    return examined.target.metadata.variant if examined.target.metadata else None


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
