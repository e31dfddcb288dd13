"""What the operators of one extension may use of the processor when they are called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from abiscan.binary.elf import SharedObject
from abiscan.cpu.needs import CpuReach, CpuUse
from abiscan.inputs.files import ElfSource
from abiscan.registrations import RegisteredKernel


def find_operator_needs(
    source: ElfSource, facts: SharedObject, kernels: Sequence[RegisteredKernel], linked: Sequence[ElfSource]
) -> dict[str, CpuReach]:
    """Find what each operator may use: what its kernels reach. Operators of which nothing is known are left out.

    :param linked: the libraries of the same package that the extension needs, in the order in which they are searched
    """
    # The graph needs the emulator's loader, which takes long to import.
    from abiscan.emulation.cpu_reach import reached_features

    with_code = [kernel for kernel in kernels if kernel.functions]
    files = [file.open_elf() for file in (source, *linked)] if with_code else []
    reached = reached_features(files, facts.machine, [kernel.functions for kernel in with_code])
    by_operator: defaultdict[str, list[CpuReach]] = defaultdict(list)
    for kernel, reach in zip(with_code, reached, strict=True):
        if reach is not None:
            by_operator[kernel.operator].append(reach)
    return {operator: _join_reaches(kernels) for operator, kernels in by_operator.items()}


def _join_reaches(kernels: Sequence[CpuReach]) -> CpuReach:
    """Join what the kernels of an operator reach; what one of them uses for certain is no longer behind a question."""
    uses: dict[str, CpuUse] = {}
    for kernel in kernels:
        for use in kernel.uses:
            uses.setdefault(use.feature, use)
    behind = {feature for kernel in kernels for feature in kernel.behind}
    return CpuReach(
        uses=tuple(uses[feature] for feature in sorted(uses)),
        behind=tuple(sorted(behind - uses.keys())),
        is_whole=all(kernel.is_whole for kernel in kernels),
    )
