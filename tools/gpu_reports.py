"""What users reported of GPUs on which operators fail, against what abiscan says of the same wheels.

Each report names a wheel, a GPU and what failed there; all are public issues of the projects. The wheels are downloaded
with pip. It prints each report, and exits with 1 if abiscan says otherwise.

    python -m tools.gpu_reports                    # downloads 3 GB, takes minutes
    python -m tools.gpu_reports vllm==0.11.0       # the reports on one wheel
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from abiscan.binary.elf import Machine
from abiscan.extension.examined import examine
from abiscan.extension.gpu import ExtensionGpu
from abiscan.gpu.compatibility import CodeFit
from abiscan.gpu.devices import find_gpu
from abiscan.gpu.drivers import Driver
from abiscan.inputs.session import Session
from tools.wheels import download


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happens on a GPU to operators of a file, or, without operators, to the whole file."""

    issue: str
    wheel: str
    file: str
    gpu: str
    operators: tuple[str, ...] = ()
    driver: str | None = None
    fit: CodeFit = CodeFit.NONE

    @property
    def sort_key(self) -> tuple[str, str]:
        """The wheel first."""
        return self.wheel, self.issue


_VLLM: Final = "vllm==0.11.0"
_SGLANG: Final = "sglang-kernel==0.4.7"
REPORTS: Final = (
    Report(
        issue="vllm-project/vllm#31700, #37140",
        wheel=_VLLM,
        file="_vllm_fa2_C.abi3.so",
        gpu="H100",
        driver="560.35.03",
        operators=("_vllm_fa2_C::varlen_fwd",),
        fit=CodeFit.PTX_TOO_NEW,
    ),
    Report(
        issue="vllm-project/vllm#30855",
        wheel=_VLLM,
        file="vllm/_C.abi3.so",
        gpu="GB10",
        operators=("_C::scaled_fp4_quant", "_C::silu_and_mul_nvfp4_quant"),
    ),
    Report(
        issue="vllm-project/vllm#22783, #21274",
        wheel=_VLLM,
        file="vllm/_C.abi3.so",
        gpu="RTX 5090",
        operators=("_C::cutlass_scaled_fp4_mm",),
    ),
    Report(
        issue="vllm-project/vllm#23911",
        wheel=_VLLM,
        file="vllm/_C.abi3.so",
        gpu="RTX 4090",
        operators=("_C::machete_mm",),
    ),
    Report(
        issue="sgl-project/sglang#38515",
        wheel=_SGLANG,
        file="sm100/common_ops.abi3.so",
        gpu="RTX 2080 Ti",
        operators=("sgl_kernel::rmsnorm",),
    ),
    Report(
        issue="sgl-project/sglang#24302",
        wheel=_SGLANG,
        file="sm100/common_ops.abi3.so",
        gpu="RTX 2080",
        operators=("sgl_kernel::gemma_rmsnorm", "sgl_kernel::gemma_fused_add_rmsnorm"),
    ),
    Report(
        issue="sgl-project/sglang#37640",
        wheel=_SGLANG,
        file="infllm_ops.cpython-310-x86_64-linux-gnu.so",
        gpu="GB10",
    ),
    Report(
        issue="sgl-project/sglang#29317",
        wheel="sglang-kernel==0.4.4@aarch64",
        file="flashmla_ops.abi3.so",
        gpu="GB10",
        operators=("sgl_kernel::dense_prefill_fwd",),
    ),
    Report(
        issue="facebookresearch/xformers#1224, #1251",
        wheel="xformers==0.0.30",
        file="_C_flashattention3.so",
        gpu="RTX 5090",
    ),
    # The wheels of flash-attention are not on the package index. This one has its FlashAttention-3.
    Report(
        issue="Dao-AILab/flash-attention#1785, #1966",
        wheel=_SGLANG,
        file="flash_ops.abi3.so",
        gpu="RTX 5090",
        operators=("sgl_kernel::fwd",),
    ),
)


def differences(report: Report, code: ExtensionGpu) -> Iterator[str]:
    """What abiscan says otherwise; nothing if it agrees."""
    target = find_gpu(report.gpu)
    assert target is not None, report.gpu
    outcome = code.on(target, Driver.parse(report.driver) if report.driver else None)
    if not report.operators and outcome.file.fit is not report.fit:
        yield f"the file: {outcome.file.fit.value}"
    for operator in report.operators:
        choice = outcome.failing.get(operator)
        if choice is None or choice.fit is not report.fit:
            known = "it runs" if operator in outcome.operators else "it launches nothing that is known"
            yield f"{operator}: {choice.fit.value if choice else known}"


def main() -> int:
    """Print what is said of each report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="*", metavar="NAME==VERSION[@MACHINE]", help="only the reports on these")
    arguments = parser.parse_args()
    reports = [one for one in REPORTS if not arguments.wheels or one.wheel in arguments.wheels]
    wrong = 0
    for wheel, of_wheel in itertools.groupby(sorted(reports, key=lambda one: one.sort_key), lambda one: one.wheel):
        with tempfile.TemporaryDirectory() as folder:
            name, _, machine = wheel.partition("@")
            path = download(name, Path(folder), python="3.12", machine=Machine(machine or "x86_64"))
            if path is None:
                raise SystemExit(f"{wheel}: there is no wheel")
            target = examine(path, Session(folder=Path(folder) / "store"))
            for report in of_wheel:
                (extension,) = (one for one in target.extensions if one.path.endswith(report.file))
                code = extension.gpu
                found = list(differences(report, code)) if code else ["no code for GPUs"]
                wrong += bool(found)
                what = ", ".join(report.operators) or report.file
                print(f"{report.issue}: {what} of {wheel} on {report.gpu}: {'; '.join(found) or report.fit.value}")
    print(f"{len(reports) - wrong} of {len(reports)} reports are reproduced")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
