"""What the rules on code for GPUs share: one finding for each GPU and cause, with every operator as evidence."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from abiscan.findings import Effect, Evidence, Finding
from abiscan.gpu.compatibility import Choice, CodeFit
from abiscan.gpu.devices import Gpu
from abiscan.gpu.model import targets_of
from abiscan.gpu.outcome import GpuOutcome
from abiscan.linkage.linkage import Linkage
from abiscan.words import listed, plural

_SHOWN: Final = 4


def list_failures(
    rule: str,
    fit: CodeFit,
    linkage: Linkage,
    cause: Callable[[GpuOutcome, Choice], str],
    fix: Callable[[GpuOutcome, Choice, Mapping[str, tuple[str, ...]]], str],
    says: str | None,
) -> Iterator[Finding]:
    """Yield a finding for each GPU on which operators fail in one way, or else the whole file does.

    :param cause: why, for the best code that the runtime finds
    :param says: the first line of torch's error with CUDA; with ROCm its text depends on the version
    """
    load = linkage.load
    for outcome in linkage.hardware.gpus:
        subject = f"{load.name} on {outcome.gpu}"
        # Each rule has one way to fail, so an operator is in one finding for each GPU.
        failing = {name: choice for name, choice in outcome.failing.items() if choice.fit is fit}
        if failing:
            first = next(iter(failing.values()))
            selected = f": {plural(len(failing), 'operator')}: {listed(failing, _SHOWN)}"
        elif outcome.file_fits(fit):
            first, selected = outcome.file, ""
        else:
            continue
        targets = {name: targets_of(outcome.code[name]) for name in failing}
        evidence = tuple(
            Evidence(subject=name, object=load.name, instead=_format_targets(targets[name])) for name in failing
        )
        yield Finding(
            rule=rule,
            effect=Effect.CALL_FAILS,
            message=f"{subject}: {cause(outcome, first)}{_torch_too(linkage, outcome.gpu)}{selected}",
            evidence=evidence or (evidence_of_file(load.name, outcome),),
            fix=fix(outcome, first, targets or {load.name: targets_of(outcome.every)}),
            # HIP's text for it changes with its version, and a quotation has to be exact.
            says=says if outcome.gpu.gfx is None else None,
        )


def evidence_of_file(name: str, outcome: GpuOutcome) -> Evidence:
    """Return what GPUs a file has code for."""
    return Evidence(subject=name, instead=_format_targets(targets_of(outcome.every)))


def _format_targets(targets: tuple[str, ...]) -> str:
    return f"code for {', '.join(targets)}" if targets else "no code"


def _torch_too(linkage: Linkage, gpu: Gpu) -> str:
    runs = linkage.hardware.torch_runs.get(gpu)
    if runs is None:
        return ""
    return f"; {linkage.load.release} itself has {'code' if runs else 'none'} for it"


def advise_architecture(gpu: Gpu, targets: Mapping[str, tuple[str, ...]]) -> str:
    """Return how to compile for a GPU: what ``TORCH_CUDA_ARCH_LIST``, or ``PYTORCH_ROCM_ARCH``, needs to have.

    :param targets: what there is code for, by operator
    """
    if gpu.gfx is not None:
        return f"build the extension with {gpu.gfx} in PYTORCH_ROCM_ARCH"
    architectures = tuple(dict.fromkeys(itertools.chain.from_iterable(targets.values())))
    # ``sm_90a`` and ``sm_100f`` are for one GPU, or one family (CUDA C++ Programming Guide, "Feature set compiler
    # targets").
    exact = [target for target in architectures if target.endswith(("a", "f"))]
    family = gpu.capability // 10
    if exact and len(exact) == len(architectures) and not any(_family_of(target) == family for target in exact):
        # Such code uses what other GPUs do not have: their compiler refuses its source, or leaves it out.
        return f"choose another implementation on this GPU: this one is written for {listed(exact, _SHOWN)} alone"
    name = f"{family}.{gpu.capability % 10}{'a' if exact and len(exact) == len(architectures) else ''}"
    return f"build the extension with {name} in TORCH_CUDA_ARCH_LIST"


def _family_of(target: str) -> int:
    return int(target.rpartition("_")[2].rstrip("af")) // 10
