"""The extension has no code for this GPU.

**What it finds.** With `--gpu`: operators none of whose kernels have code that the GPU runs. If no operator could be
connected with its kernels, the whole file. Operators only some of whose kernels lack code are a `note`: they may choose
another kernel on that GPU. And a torch that itself has no code for the GPU, so that no build of the extension helps.

**Why it fails.** Machine code runs on GPUs of the same major compute capability, from the minor version on that it was
compiled for (`sm_80` on 8.6, but not on 9.0); code for `sm_90a` runs on 9.0 alone, that for `sm_100f` on its family.
PTX (`compute_80`) is translated for every newer GPU. Loading the extension does not show this: the first launch of such
a kernel raises.

**Fix.** Build the extension with the GPU's architecture in `TORCH_CUDA_ARCH_LIST` (`PYTORCH_ROCM_ARCH` for ROCm), or
install a version of the package that has code for it.

**Limits.** Which kernels an operator launches is told from its machine code: all that it can reach count. That a
kernel has code for a GPU does not mean that it works there: it may consist of an error message. Code that is made at
run time (NVRTC, Triton) is not in the file, and Python code may choose another implementation.

**Example.** `CUDA error: no kernel image is available for execution on the device`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.gpu.compatibility import Choice, CodeFit
from abiscan.gpu.devices import Gpu
from abiscan.gpu.model import targets_of
from abiscan.gpu.outcome import GpuOutcome
from abiscan.linkage.linkage import Linkage
from abiscan.rules.gpu_code import advise_architecture, evidence_of_file, list_failures
from abiscan.torches.architectures import builds_with_code_for
from abiscan.torches.model import TorchRelease
from abiscan.words import listed, plural

_SAYS = "CUDA error: no kernel image is available for execution on the device"


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for each GPU on which operators fail, and a note on those of which only some kernels lack
    code. That torch itself has none for a GPU is a finding of its own: no build of the extension helps then.
    """
    for gpu, runs in linkage.hardware.torch_runs.items():
        if not runs:
            yield of_torch(linkage.load.release, gpu)
    yield from list_failures(RULE.name, CodeFit.NONE, linkage, _format_cause, _format_fix, _SAYS)
    for outcome in linkage.hardware.gpus:
        # An operator that has kernels for several GPUs chooses one at run time; that it can reach another is no
        # failure.
        if partial := outcome.partial:
            yield Finding(
                rule=RULE.name,
                effect=Effect.NOTE,
                message=(
                    f"{plural(len(partial), 'operator')} of {linkage.load.name} can launch kernels without code for "
                    f"{outcome.gpu}, and others with it: {listed(partial)}"
                ),
                evidence=tuple(
                    Evidence(
                        subject=name,
                        object=linkage.load.name,
                        instead=f"{len(outcome.operators[name]) - count} of {len(outcome.operators[name])} kernels run",
                    )
                    for name, count in partial.items()
                ),
                fix="no action needed if the operator chooses its kernels by the GPU",
                confidence=Confidence.POSSIBLE,
            )


def of_library(name: str, outcome: GpuOutcome) -> Iterator[Finding]:
    """Yield the finding about a library of a package that does not use torch, if a GPU runs none of its code."""
    if not outcome.file_fits(CodeFit.NONE):
        return
    yield Finding(
        rule=RULE.name,
        effect=Effect.CALL_FAILS,
        message=f"{name} on {outcome.gpu}: {_format_cause(outcome, outcome.file)}",
        evidence=(evidence_of_file(name, outcome),),
        fix=_format_fix(outcome, outcome.file, {name: targets_of(outcome.every)}),
        says=_SAYS if outcome.gpu.gfx is None else None,
    )


def of_torch(release: TorchRelease, gpu: Gpu) -> Finding:
    """Return the finding about a torch that has no code for a GPU."""
    builds = builds_with_code_for(gpu, release.machine)
    return Finding(
        rule=RULE.name,
        effect=Effect.CALL_FAILS,
        message=f"{release} itself has no code for {gpu}: its own operators raise there",
        evidence=(Evidence(subject=str(release)),),
        fix=f"use a torch with code for it{f': {builds}' if builds else ''}",
        says=_SAYS,
    )


def _format_cause(outcome: GpuOutcome, choice: Choice) -> str:  # noqa: ARG001 - there is nothing to say about no code
    return "no code that this GPU runs"


def _format_fix(outcome: GpuOutcome, choice: Choice, targets: Mapping[str, tuple[str, ...]]) -> str:  # noqa: ARG001
    return f"{advise_architecture(outcome.gpu, targets)}, or install a version that has code for it"


RULE = rule("no-kernel-image", __doc__, find_problems)
