"""The only code that fits this GPU is PTX, and the driver must be new enough to translate it.

**What it finds.** With `--gpu`: operators whose kernels have no machine code for the GPU, but PTX. With `--driver`, if
that driver does not know the version of PTX, they fail; without, a `note` says which driver is needed.

**Why it fails.** The driver translates PTX when a kernel is loaded, and knows the versions of PTX up to that of its own
CUDA. That a driver runs programs of newer minor versions of CUDA does not include PTX.

**Fix.** Update the driver, or build the extension with the GPU's own architecture, which needs no translation.

**Limits.** A `cuda-compat` package can make an older driver translate newer PTX. The first driver for PTX 9.2 and later
is not known.

**Example.** `CUDA error: the provided PTX was compiled with an unsupported toolchain.`
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.gpu.compatibility import Choice, CodeFit
from abiscan.gpu.drivers import cuda_of_ptx, driver_for_ptx
from abiscan.gpu.outcome import GpuOutcome
from abiscan.linkage.linkage import Linkage
from abiscan.rules.gpu_code import advise_architecture, list_failures
from abiscan.words import listed, plural

_SAYS = "CUDA error: the provided PTX was compiled with an unsupported toolchain."


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for each GPU on which operators need translation."""
    load = linkage.load
    yield from list_failures(RULE.name, CodeFit.PTX_TOO_NEW, linkage, _format_cause, _format_fix, _SAYS)
    for outcome in linkage.hardware.gpus:
        translated = outcome.translated
        # As in ``gpu_code``: the file as a whole, if no operator is known.
        if not translated and not outcome.operators and outcome.file.fit is CodeFit.JIT:
            translated = {load.name: outcome.file}
        # With a driver, the answer is certain: it fails, which is the finding above, or it works, which is none.
        if translated and outcome.driver is None:
            # The newest PTX decides which driver will do for all of them.
            newest = max(translated.values(), key=_ptx_version)
            selected = f": {plural(len(translated), 'operator')}: {listed(translated)}" if outcome.operators else ""
            yield Finding(
                rule=RULE.name,
                effect=Effect.NOTE,
                message=(
                    f"{load.name} on {outcome.gpu}: only PTX fits, which the driver translates when it is first "
                    f"used; {_format_need(newest)}{selected}"
                ),
                evidence=tuple(Evidence(subject=name, object=load.name) for name in translated),
                fix=f"pass --driver to have it checked, or {advise_architecture(outcome.gpu, {})}",
            )


def _ptx_version(choice: Choice) -> tuple[int, int]:
    return choice.entry.ptx_isa if choice.entry and choice.entry.ptx_isa else (0, 0)


def _format_need(choice: Choice) -> str:
    major, minor = _ptx_version(choice)
    driver = driver_for_ptx((major, minor))
    cuda = cuda_of_ptx((major, minor))
    if driver:
        return f"PTX {major}.{minor} needs driver {driver} or newer"
    of_cuda = f"CUDA {cuda[0]}.{cuda[1]}" if cuda else "the CUDA that compiled it"
    return f"PTX {major}.{minor} needs the driver of {of_cuda} or newer"


def _format_cause(outcome: GpuOutcome, choice: Choice) -> str:
    return f"only PTX fits, and {_format_need(choice)}, not {outcome.driver}"


def _format_fix(outcome: GpuOutcome, choice: Choice, targets: Mapping[str, tuple[str, ...]]) -> str:  # noqa: ARG001
    driver = driver_for_ptx(_ptx_version(choice))
    update = f"update the driver to {driver} or newer" if driver else "update the driver"
    return f"{update}, or {advise_architecture(outcome.gpu, {})}"


RULE = rule("ptx-too-new", __doc__, find_problems)
