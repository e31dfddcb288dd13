"""The operators that a backend cannot run on a torch, from a dispatch table with all registrations."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from msgspec import Struct

from abiscan.dispatch.calls import failure_message, find_delegates, find_failure, takes_backend
from abiscan.dispatch.keys import DispatchKeys
from abiscan.dispatch.operators import Operators
from abiscan.dispatch.table import AUTOGRAD_OTHER, DispatchTable, EntrySource

ESSENTIAL: Final = frozenset(
    {
        "aten::_copy_from",
        "aten::_copy_from_and_resize",
        "aten::_local_scalar_dense",
        "aten::_reshape_alias",
        "aten::as_strided",
        "aten::copy_",
        "aten::empty.memory_format",
        "aten::empty_strided",
        "aten::resize_",
        "aten::set_.source_Storage_storage_offset",
        "aten::view",
    }
)
"""The operators for creating, copying, viewing and reading tensors: without them, a backend can do nothing."""

_COPIES: Final = frozenset({"aten::_copy_from", "aten::_copy_from_and_resize"})
_COPIED: Final = frozenset({"CPU", "CUDA", "HIP"})  # for which torch's own copy_ does all

_DEVICES: Final = frozenset(
    {
        *("CPU", "CUDA", "HIP", "XLA", "MPS", "IPU", "XPU", "HPU", "VE", "Lazy", "MTIA", "MAIA", "ORT", "MSNPU", "MLC"),
        *("FPGA", "Vulkan", "Metal", "OpenGL", "OpenCL", "IDEEP", "PrivateUse1", "PrivateUse2", "PrivateUse3"),
    }
)
_RENAMED: Final = ({"MSNPU", "ORT", "MAIA"},)
_DEVICE_TYPES: Final = {
    **dict(enumerate(("CPU", "CUDA", "MKLDNN", "OpenGL", "OpenCL", "IDEEP", "HIP", "FPGA", "MAIA", "XLA", "Vulkan"))),
    **dict(enumerate(("Metal", "XPU", "MPS", "Meta", "HPU", "VE", "Lazy", "IPU", "MTIA", "PrivateUse1"), 11)),
}
_OLD_SUFFIXES: Final = ("_TensorId", "TensorId")  # up to 1.5
_REFERENCE: Final = "CPU"
_META: Final = "Meta"
_PYTHON_META: Final = (1, 13)


class MissingKernel(Struct, frozen=True, kw_only=True):
    """An operator that raises.

    :ivar operator: the operator
    :ivar key: the key without a kernel
    :ivar message: torch's message, without the table that it appends from 1.7 on
    :ivar exact: false if a part of the message is unknown
    :ivar essential: whether no tensor can be created, moved, viewed or read without it
    :ivar core: whether it is in torch's core set, or an operator in it calls it
    :ivar general: whether the CPU has a kernel, so that it is not specific to one kind of device or layout
    :ivar reached_from: operators for which torch has a kernel for every backend that calls this one: they raise the
        same error
    """

    operator: str
    key: str
    message: str
    exact: bool
    essential: bool
    core: bool
    general: bool
    reached_from: tuple[str, ...]

    @property
    def rank(self) -> tuple[bool, bool, bool, bool, str]:
        """The sort key: the most used operators come first."""
        return not self.essential, not self.core, not self.general, not self.reached_from, self.operator


class Coverage(Struct, frozen=True, kw_only=True):
    """The operators of a torch, for one backend.

    :ivar backend: the dispatch key of the backend
    :ivar served: how many operators run, by the source of their kernel
    :ivar missing: those that raise, sorted by use
    :ivar ambiguous: operators with both a composite kernel and one of a backend without an autograd key of its own:
        they raise, too
    :ivar unknown: names that were requested, but that this torch does not have
    """

    backend: str
    served: Mapping[EntrySource, int]
    missing: tuple[MissingKernel, ...]
    ambiguous: tuple[str, ...]
    unknown: tuple[str, ...]


def measure_coverage(
    table: DispatchTable,
    backend: str,
    core: frozenset[str],
    names: Collection[str] | None = None,
    *,
    backend_name: str | None = None,
    worded: bool = True,
) -> Coverage:
    """Find out what a tensor of ``backend`` alone can do.

    :param core: torch's core operators
    :param names: only these, and what they reach; a name without overload stands for all overloads
    :param backend_name: the backend's own name, if it has renamed PrivateUse1
    :param worded: whether the messages of missing kernels are wanted, which take longer than the rest; else empty
    """
    operators = table.operators.operators
    requested = _select_operators(operators, names)
    considered = [name for name in requested if name in operators and takes_backend(table, operators[name])]
    # An operator whose kernel only calls another one is served by torch, but fails in that other: both are looked at,
    # and the failure is counted once, for the operator without a kernel.
    reached = find_delegates(table, backend, considered)
    callers: dict[str, list[str]] = {}
    for caller, callee in reached.items():
        callers.setdefault(callee, []).append(caller)
    served: Counter[EntrySource] = Counter()
    missing, ambiguous = [], []
    for name in dict.fromkeys((*considered, *callers)):
        failed = find_failure(table, name, backend)
        if failed is None:
            if _is_ambiguous(table, name, backend):
                ambiguous.append(name)
            else:
                source = table.source(name, backend)
                served[EntrySource.AUTOGRAD if source is EntrySource.MISSING else source] += 1
            continue
        raised = failure_message(table, failed, backend_name) if worded else None
        # From 1.13 on, Python code registers Meta kernels: without them, the list of backends in the message is not
        # complete.
        complete = table.release < _PYTHON_META or table.source(name, _META) is not EntrySource.MISSING
        missing.append(
            MissingKernel(
                operator=name,
                key=failed.key,
                message=raised.text if raised else "",
                exact=(raised is None or raised.exact) and complete,
                essential=name in ESSENTIAL and not (name in _COPIES and base_of(backend) in _COPIED),
                core=not core.isdisjoint((name, *callers.get(name, ()))),
                general=table.source(name, _reference_key(table)) is not EntrySource.MISSING,
                reached_from=tuple(sorted(callers.get(name, ()))),
            )
        )
    return Coverage(
        backend=backend,
        served=dict(served),
        missing=tuple(sorted(missing, key=lambda kernel: kernel.rank)),
        ambiguous=tuple(sorted(ambiguous)),
        unknown=tuple(name for name in requested if name not in operators),
    )


def _select_operators(operators: Mapping[str, object], names: Collection[str] | None) -> list[str]:
    """Return the operators that are meant by names: all if None, and all overloads of a name without overload."""
    if names is None:
        return list(operators)
    overloads: dict[str, list[str]] = {}
    for name in operators:
        overloads.setdefault(name.partition(".")[0], []).append(name)
    matches = ([name] if name in operators else overloads.get(name, [name]) for name in names)
    return list(dict.fromkeys(itertools.chain.from_iterable(matches)))


def _reference_key(table: DispatchTable) -> str:
    """Return the key of the CPU, as this release names it."""
    return next((key for key in table.keys if base_of(key) == _REFERENCE), _REFERENCE)


def _is_ambiguous(table: DispatchTable, name: str, backend: str) -> bool:
    """Tell whether an autograd entry before the backend's kernel raises: the backend has no autograd key of its own."""
    is_other = backend in table.backends_of(AUTOGRAD_OTHER)
    return is_other and table.source(name, AUTOGRAD_OTHER) is EntrySource.AMBIGUOUS


def base_of(key: str) -> str:
    """Strip a key of the suffix that only old releases add to its name."""
    for suffix in _OLD_SUFFIXES:
        key = key.removesuffix(suffix)
    return key


def key_in(keys: Iterable[str], requested: str) -> str | None:
    """Find the key of a release that another release, or the user, calls ``requested``; return None if it has none."""
    names = {base_of(key).lower(): key for key in keys}
    same = next((group for group in _RENAMED if base_of(requested) in group), {base_of(requested)})
    return next((names[name.lower()] for name in sorted(same) if name.lower() in names), None)


def backend_of(
    keys: Iterable[int | str | None], readings: Iterable[DispatchKeys], devices: Collection[str] = ()
) -> tuple[str, DispatchKeys] | None:
    """Find the backend that most kernels are for, and the keys in which it is; return None if they are for no backend.

    There are several readings of the numbers if an extension may have been built for several releases. A backend for
    which the extension also registers a device guard is preferred; then the one with the most kernels for a device,
    rather than for one of torch's own layouts; among equals, the last.

    :param readings: the keys of the releases that the extension may have been built for
    :param devices: the devices for which the extension registers a device guard, named like their keys
    """
    numbers = Counter(keys)
    best: tuple[tuple[bool, int], str, DispatchKeys] | None = None
    # Later readings win among equals (>=): the newest release is the likeliest.
    for reading in readings:
        for key, count in numbers.items():
            name = reading.name(key) if isinstance(key, int) else key
            if name is None or base_of(name) not in _DEVICES:
                continue
            score = base_of(name) in devices, count
            if best is None or score >= best[0]:
                best = score, name, reading
    return best[1:] if best else None


def device_key(number: int) -> str | None:
    """Return the key of a device type by its number (``c10/core/DeviceType.h``, the same in every release)."""
    return _DEVICE_TYPES.get(number)


def core_operators(operators: Operators) -> frozenset[str]:
    """Return the operators that torch tags as its core set; empty for releases without tags."""
    return frozenset(name for name, operator in operators.operators.items() if "core" in operator.tags)
