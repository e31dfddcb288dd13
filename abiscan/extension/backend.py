"""Which backend an extension provides, inferred from what it registers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

from abiscan.binary.elf import Machine
from abiscan.dispatch.adapters import table_of
from abiscan.dispatch.coverage import backend_of, core_operators, device_key, key_in
from abiscan.dispatch.keys import DispatchKeys, keys_of
from abiscan.dispatch.operators import Operators
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.registering import Backend
from abiscan.registrations import Registrations
from abiscan.torches import embedded, embedded_operators

# These depend on the build of torch: no extension adds them.
_BUILT_IN_BACKENDS: Final = frozenset({"CPU", "CUDA", "HIP"})
_MAKERS: Final = frozenset({"aten::empty.memory_format", "aten::empty_strided"})


def meant_backend(
    registered: Sequence[Registrations], built_for: Sequence[TorchVersion]
) -> tuple[str, DispatchKeys] | None:
    """Infer the backend that most kernels are for, and the keys of the torch that the extension was built for.

    :param built_for: the releases that the extension may have been built for, oldest first
    """
    # Without a clue, the numbers are read as the newest release reads them.
    versions = built_for or embedded.versions()[-1:]
    readings = {keys.minor: keys for keys in map(keys_of, versions)}
    devices = {device_key(key) for key in keys_in_registry(registered, "device-guard") if isinstance(key, int)}
    keys = (kernel.dispatch_key for registrations in registered for kernel in registrations.kernels)
    return backend_of(keys, readings.values(), [device for device in devices if device is not None])


def keys_in_registry(registered: Iterable[Registrations], name: str) -> set[int | str | None]:
    """Collect the keys of the entries that extensions add to one of torch's other registries."""
    return {entry.key for registrations in registered for entry in registrations.registries if entry.what == name}


def brought_backend(
    registered: Sequence[Registrations],
    built_for: Sequence[TorchVersion],
    version: TorchVersion,
    machine: Machine,
    operators_of: Callable[[Collection[str] | None], Operators],
) -> Backend | None:
    """Find the backend that an extension provides for a torch; return None if this torch already has kernels for it.

    :param version: the version of the torch
    :param operators_of: returns the torch's operators with the given names, or all operators for None
    """
    backend = meant_backend(registered, built_for)
    if backend is None or backend[0] in _BUILT_IN_BACKENDS:
        return None
    built_key, built_keys = backend
    # An extension with kernels that create tensors has the backend; without them, no other kernel is ever called.
    makers = operators_of(_MAKERS)  # looking up a few operators is faster than looking up all
    # The key of the same backend may have another number, and another name, in this torch.
    key = key_in(makers.keys.values(), built_key)
    if key is None or _is_own(makers, key):
        return None
    operators = operators_of(None)
    # The table before is that of the release whose keys were read, to tell what the new torch has changed.
    before = [release for release in built_for if keys_of(release).minor == built_keys.minor]
    old = embedded_operators.operators(str(before[-1]), machine) if before and version not in before else None
    return Backend(
        key=key,
        table=table_of(version.minor_version, operators, registered),
        before=table_of(before[-1].minor_version, old, registered) if old else None,
        before_key=built_key,
        before_version=before[-1] if before else None,
        core=core_operators(operators) or newest_core(machine),
    )


def _is_own(operators: Operators, key: str) -> bool:
    """Tell whether a torch can create a tensor on a backend without an extension."""
    return any(kernel.key == key and kernel.operator in _MAKERS for kernel in operators.kernels)


def newest_core(machine: Machine) -> frozenset[str]:
    """Return the core operators of the newest release: old releases tag none."""
    return core_operators(embedded_operators.operators(str(embedded.versions(machine)[-1]), machine))
