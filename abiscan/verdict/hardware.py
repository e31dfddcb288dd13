"""From what the user calls a GPU and a driver to what is checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from abiscan.cpu.processors import NATIVE as CPU_OF_THIS_MACHINE
from abiscan.cpu.processors import Cpu, cpu, names, native_cpu
from abiscan.errors import InputError
from abiscan.gpu.devices import NAMES, Gpu, Hardware, find_gpu
from abiscan.gpu.drivers import Driver
from abiscan.words import did_you_mean

if TYPE_CHECKING:
    from abiscan.inputs.target_system import LinuxSystem

NATIVE: Final = "native"


def hardware_of(
    gpus: Sequence[str], driver: str | None, cpus: Sequence[str] = (), system: str | None = None
) -> Hardware:
    """Return the GPUs, the driver of those of NVIDIA, and processors; ``native`` for those of this machine.

    :param system: the name of a system, or the root folder of one

    :raises InputError: one of them is not known
    """
    by_name: dict[Gpu, None] = {}
    own_driver: Driver | None = None
    for text in gpus:
        if text.lower() == NATIVE:
            native = native_hardware()
            if not native.gpus:
                problem = "no GPU of this machine was found: neither nvidia-smi nor rocm_agent_enumerator lists one"
                raise InputError(text, problem, "name the GPU: --gpu 9.0")
            by_name.update(dict.fromkeys(native.gpus))
            own_driver = native.driver
        else:
            by_name[_make_gpu(text)] = None
    processors = tuple(dict.fromkeys(map(_make_cpu, cpus)))
    return Hardware(
        gpus=tuple(by_name),
        driver=own_driver if driver is None else _make_driver(driver),
        cpus=processors,
        system=_make_system(system) if system is not None else None,
    )


def described(hardware: Hardware) -> dict[str, str | None] | None:
    """Return the system that the user named as reports have it; None if there is none."""
    system = hardware.system
    if system is None:
        return None
    families = {"glibc": "GLIBC", "libstdcxx": "GLIBCXX", "cxxabi": "CXXABI", "libgcc": "GCC", "zlib": "ZLIB"}
    return {"name": system.name, **{key: system.newest.get(family) for key, family in families.items()}}


def _make_system(text: str) -> LinuxSystem:
    from abiscan.inputs.target_system import target_system  # few runs name one

    return target_system(text)


def cpu_question(named: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the processors with their features, by default this one: what an answer that is kept depends on.

    :raises InputError: one of them is not known
    """
    native = native_cpu()
    cpus = hardware_of((), None, named).cpus or ((native,) if native else ())
    return [(cpu.name, sorted(cpu.features)) for cpu in cpus]


def native_hardware() -> Hardware:
    """Return the GPUs of this machine, as far as the tools of their drivers list them."""
    from abiscan.inputs.gpu_tools import native_driver, native_gpus

    # AMD's tool names no driver, and NVIDIA's driver may be there without the tool that lists GPUs.
    natives = native_gpus()
    driver = next((native.driver for native in natives if native.driver), native_driver())
    gpus = filter(None, (_named(native.name, native.target) for native in natives))
    return Hardware(gpus=tuple(dict.fromkeys(gpus)), driver=Driver.parse(driver) if driver else None)


def _named(name: str, target: str) -> Gpu | None:
    gpu = find_gpu(target)
    return Gpu(name=name, capability=gpu.capability, gfx=gpu.gfx) if gpu else None


def _make_gpu(text: str) -> Gpu:
    gpu = find_gpu(text)
    if gpu is None:
        similar = did_you_mean(text.upper(), NAMES)
        fix = f"{similar} Otherwise pass its compute capability" if similar else "pass its compute capability"
        raise InputError(text or '""', "is not a GPU that abiscan knows", f"{fix}: --gpu 12.0")
    return gpu


def _make_cpu(text: str) -> Cpu:
    processor = native_cpu() if text.lower() == CPU_OF_THIS_MACHINE else cpu(text)
    if processor is not None:
        return processor
    if text.lower() == CPU_OF_THIS_MACHINE:
        raise InputError(text, "the features of this processor are not known", "name a level: --cpu x86-64-v3")
    similar = did_you_mean(text.lower(), names())
    fix = f"{similar} Otherwise pass a level" if similar else "pass a level"
    raise InputError(text or '""', "is not a processor that abiscan knows", f"{fix}: --cpu x86-64-v3")


def _make_driver(text: str) -> Driver:
    version = Driver.parse(text)
    if version is None:
        raise InputError(text or '""', "is not a version of NVIDIA's driver", "pass one like 570.26")
    return version
