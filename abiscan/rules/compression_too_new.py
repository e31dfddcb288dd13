"""The code for this GPU is compressed in a way that the driver does not know.

**What it finds.** With `--gpu` and `--driver`: operators whose kernels have code that fits the GPU, but compressed with
zstd, on a driver before 550.54.14.

**Why it fails.** The driver decompresses the code when a kernel is loaded. Older drivers only know LZ4. `nvcc` 13
compresses with zstd unless told otherwise.

**Fix.** Update the driver to 550.54.14 or newer, or compile with `nvcc --compress-mode=none`.

**Limits.** A `cuda-compat` package can bring a newer driver library along.

**Example.** `CUDA error: device kernel image is invalid`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from abiscan.findings import Finding, rule
from abiscan.gpu.compatibility import Choice, CodeFit
from abiscan.gpu.drivers import ZSTD
from abiscan.gpu.outcome import GpuOutcome
from abiscan.linkage.linkage import Linkage
from abiscan.rules.gpu_code import list_failures

_SAYS = "CUDA error: device kernel image is invalid"


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for each GPU on which operators fail."""
    yield from list_failures(RULE.name, CodeFit.COMPRESSION_TOO_NEW, linkage, _format_cause, _format_fix, _SAYS)


def _format_cause(outcome: GpuOutcome, choice: Choice) -> str:
    target = choice.entry.target if choice.entry else "it"
    return f"the code for {target} is compressed with zstd, which needs driver {ZSTD} or newer, not {outcome.driver}"


def _format_fix(outcome: GpuOutcome, choice: Choice, targets: Mapping[str, tuple[str, ...]]) -> str:  # noqa: ARG001
    return f"update the driver to {ZSTD} or newer, or compile with nvcc --compress-mode=none"


RULE = rule("compression-too-new", __doc__, find_problems)
