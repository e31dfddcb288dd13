from __future__ import annotations

import pytest

from abiscan.results.doctor import DistributionState, ImportTrial, ModuleState, Origin
from abiscan.results.package import PackageVerdict

WORKS, FAILS, UNKNOWN = PackageVerdict.WORKS, PackageVerdict.IMPORT_FAILS, PackageVerdict.UNKNOWN


@pytest.mark.parametrize(
    ("verdict", "trial", "differs"),
    [
        (WORKS, None, False),
        (WORKS, ImportTrial(works=True), False),
        (WORKS, ImportTrial(works=False, error="ImportError"), True),
        (WORKS, ImportTrial(works=None), False),  # it did not end in time
        (PackageVerdict.WORKS_WITHOUT, ImportTrial(works=True), False),
        (FAILS, ImportTrial(works=False), False),
        (FAILS, ImportTrial(works=True), True),
        (UNKNOWN, ImportTrial(works=False), False),
    ],
)
def test_whether_an_import_came_to_something_else(
    verdict: PackageVerdict, trial: ImportTrial | None, differs: bool
) -> None:
    assert ModuleState(name="pkg", verdict=verdict, imported=trial).differs is differs


@pytest.mark.parametrize(
    ("verdicts", "failing"),
    [((WORKS, FAILS, FAILS), ("m1", "m2")), ((FAILS, FAILS), ()), ((WORKS, UNKNOWN), ()), ((UNKNOWN, FAILS), ())],
)
def test_modules_are_named_where_others_work(verdicts: tuple[PackageVerdict, ...], failing: tuple[str, ...]) -> None:
    modules = tuple(ModuleState(name=f"m{number}", verdict=verdict) for number, verdict in enumerate(verdicts))
    state = DistributionState(name="pkg", version="1", origin=Origin.INDEX, verdict=FAILS, modules=modules)
    assert state.failing_modules == failing


@pytest.mark.parametrize(
    ("errors", "lacking"),
    [
        ({}, ()),
        ({"pkg.a": "ImportError: a"}, ("works but for pkg.a: ImportError: a",)),
        ({"pkg.a": None}, ("works but for pkg.a",)),
        # The reason is that of the first.
        ({"pkg.a": "ImportError: a", "pkg.b": "OSError: b"}, ("works but for pkg.a, pkg.b: ImportError: a",)),
    ],
)
def test_what_a_distribution_works_without(errors: dict[str, str | None], lacking: tuple[str, ...]) -> None:
    failing = (ModuleState(name=name, verdict=FAILS, error=error) for name, error in errors.items())
    modules = (ModuleState(name="pkg", verdict=WORKS), *failing)
    state = DistributionState(name="pkg", version="1", origin=Origin.INDEX, verdict=WORKS, modules=modules)
    assert state.lacking == lacking


def test_modules_that_fail_for_something_else_are_told_apart() -> None:
    """nvidia-resiliency-ext 0.4.1 beside a torchvision that fails: one of its two modules needs CUPTI."""
    modules = (
        ModuleState(name="pkg.a", verdict=FAILS, error="RuntimeError: no operator (pkg/a.py:3)"),
        ModuleState(name="pkg.b", verdict=FAILS, error="RuntimeError: no operator (pkg/b.py:7)"),
        ModuleState(name="cupti", verdict=FAILS, error="ImportError: libcupti.so.12: cannot open shared object file"),
    )
    state = DistributionState(
        name="pkg", version="1", origin=Origin.INDEX, verdict=FAILS, modules=modules, error=modules[0].error
    )
    assert state.failing_modules == ("pkg.a", "pkg.b")
    assert state.lacking == ("fails also for cupti: ImportError: libcupti.so.12: cannot open shared object file",)


def test_a_submodule_that_is_lost_is_told_once() -> None:
    lost = ModuleState(name="pkg.a", verdict=FAILS, error="ImportError: a")
    state = DistributionState(
        name="pkg",
        version="1",
        origin=Origin.INDEX,
        verdict=PackageVerdict.WORKS_WITHOUT,
        modules=(ModuleState(name="pkg", verdict=WORKS), lost),
        without=("works without pkg.a, whose import fails - ImportError: a",),
    )
    assert state.lacking == state.without
