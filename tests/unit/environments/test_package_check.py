from __future__ import annotations

import pytest

from abiscan.environments.package_check import CheckedPackage
from abiscan.findings import Effect, Evidence, Finding
from tests.unit.report.reports import failure, result


@pytest.mark.parametrize(
    ("rule", "effect", "library", "kind"),
    [
        ("missing-library", Effect.LOAD_FAILS, "libtorch_cuda.so", "CUDA"),
        ("missing-library", Effect.LOAD_FAILS, "libc10_hip.so", "ROCm"),
        ("missing-library", Effect.LOAD_FAILS, "libtorch_xpu.so", "XPU"),
        ("missing-library", Effect.LOAD_FAILS, "libpng16.so.16", None),
        ("missing-library", Effect.NOTE, "libtorch_cuda.so", None),
        ("undefined-symbol", Effect.LOAD_FAILS, "libtorch_cuda.so", None),
    ],
)
def test_the_kind_of_torch_whose_libraries_are_lacking(
    rule: str, effect: Effect, library: str, kind: str | None
) -> None:
    finding = Finding(rule=rule, effect=effect, message="", fix="", evidence=(Evidence(subject=library),))
    assert CheckedPackage(results=(failure(findings=(finding,)),), package=None).torch_kind == kind
    assert CheckedPackage(results=(result(),), package=None).torch_kind is None
