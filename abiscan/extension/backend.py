"""Which backend an extension provides, inferred from what it registers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from abiscan.binary.elf import Machine
from abiscan.dispatch.adapters import table_of
from abiscan.dispatch.coverage import backend_of, core_operators, device_key, key_in
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.operators import Operators
from abiscan.emulation.model import Registrations
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.registering import Backend
from abiscan.torches import embedded, embedded_operators

# Whatever the build at hand has: nobody brings these to a torch built without them.
_OF_EVERY_TORCH: Final = frozenset({"CPU", "CUDA", "HIP"})
_MAKERS: Final = frozenset({"aten::empty.memory_format", "aten::empty_strided"})


def meant_backend(
    registered: Sequence[Registrations], built_for: Sequence[TorchVersion]
) -> tuple[str, DispatchKeys] | None:
    """The backend that most kernels are for, as the torch calls it that the extension was built for, and its keys.

    :param built_for: the releases that it can have been built for, oldest first
    """
    versions = built_for or embedded.versions()[-1:]
    readings = {keys.minor: keys for keys in map(keys_of, versions)}
    devices = {device_key(key) for key in registry(registered, "device-guard") if isinstance(key, int)}
    keys = (kernel.dispatch_key for each in registered for kernel in each.kernels)
    return backend_of(keys, readings.values(), [device for device in devices if device is not None])


def registry(registered: Iterable[Registrations], what: str) -> set[int | str | None]:
    """What extensions have entered in one of torch's other registries."""
    return {each.key for one in registered for each in one.registries if each.what == what}


def brought_backend(
    registered: Sequence[Registrations],
    built_for: Sequence[TorchVersion],
    version: TorchVersion,
    machine: Machine,
    operators_of: Callable[[Collection[str] | None], Operators],
) -> Backend | None:
    """The backend that an extension brings to a torch; None if it is one that this torch has kernels for itself.

    :param version: of the torch
    :param operators_of: those operators of the torch, all for None
    """
    found = meant_backend(registered, built_for)
    if found is None or found[0] in _OF_EVERY_TORCH:
        return None
    meant, reading = found
    makers = operators_of(_MAKERS)  # a few operators are found faster than all
    key = key_in(makers.keys.values(), meant)
    if key is None or _is_own(makers, key):
        return None
    operators = operators_of(None)
    before = [each for each in built_for if keys_of(each).minor == reading.minor]
    old = embedded_operators.operators(str(before[-1]), machine) if before and version not in before else None
    return Backend(
        key=key,
        table=table_of(version.minor_version, operators, registered),
        before=table_of(before[-1].minor_version, old, registered) if old else None,
        before_key=meant,
        before_version=before[-1] if before else None,
        core=core_operators(operators) or newest_core(machine),
    )


def _is_own(operators: Operators, key: str) -> bool:
    """Whether a torch can make a tensor of a backend by itself."""
    return any(kernel.key == key and kernel.operator in _MAKERS for kernel in operators.kernels)


def newest_core(machine: Machine) -> frozenset[str]:
    """The core set of the newest release: old ones tag none."""
    return core_operators(embedded_operators.operators(str(embedded.versions(machine)[-1]), machine))
