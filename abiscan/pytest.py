"""A plugin of pytest: tests that a wheel works on releases of torch, none of which needs to be installed.

``assert_works`` is for a test of all releases; for one test per release, a test with the parameter ``torch_release`` is
run once for each release that its marker names::

    @pytest.mark.torch_releases(">=2.6")
    def test_the_wheel(torch_release):
        assert_works("dist/pkg-1.0-cp312-cp312-linux_x86_64.whl", torch_release)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from abiscan.api import TargetLike, TorchLike
    from abiscan.results.answers import ReportAnswer
    from abiscan.results.check import Report

_MARKER: Final = "torch_releases"
_PARAMETER: Final = "torch_release"


def assert_works(target: TargetLike, torch: TorchLike | None = None, *, python: str | None = None) -> None:
    """Fail unless a wheel, a library or an installed package works on a torch, or on all releases of a specifier.

    What cannot be told fails as well.

    :param torch: a release, a specifier such as ``>=2.6``, or a folder; by default the torch of the environment
    :param python: the interpreter whose torch and installed packages are used
    """
    __tracebackhide__ = True
    import abiscan

    try:
        report = abiscan.check(target, torch, python=python)
    except abiscan.AbiscanError as error:
        pytest.fail(str(error), pytrace=False)
    if problems := list(_problems_of(report)):
        pytest.fail("\n".join(problems), pytrace=False)


def _problems_of(report: Report) -> Iterator[str]:
    yield from map(str, report.unchecked)
    for answer in report.answers:
        if answer.fails() or answer.verdict in ("unknown", "works-without"):
            yield from _describe(answer)


def _describe(answer: ReportAnswer) -> Iterator[str]:
    yield f"{answer.name} on {answer.torch}: {answer.verdict}{f' - {answer.error}' if answer.error else ''}"
    if answer.cause:
        yield f"  cause: {answer.cause}"
    for cause in answer.causes:
        if cause.harmful:
            yield f"  {cause.finding.rule}: {cause.finding.message}"
            yield f"    fix: {cause.finding.fix}"
    if answer.verdict == "unknown":
        yield from (f"  {gap.stage}: {gap.reason}" for gap in answer.gaps)


def releases(specifier: str) -> tuple[str, ...]:
    """Return the releases of torch inside abiscan that a specifier admits, oldest first.

    :raises InputError: it admits none
    """
    from abiscan.errors import InputError
    from abiscan.torches import embedded

    admitted = embedded.admitted_releases(specifier)
    if not admitted:
        raise InputError(specifier, "is no version specifier", "pass one such as >=2.6")
    return tuple(map(str, admitted))


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", f"{_MARKER}(specifier): run the test once for each release of torch, as its parameter {_PARAMETER}"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once for each release that its marker names."""
    marker = metafunc.definition.get_closest_marker(_MARKER)
    if marker is not None and _PARAMETER in metafunc.fixturenames:
        metafunc.parametrize(_PARAMETER, releases(*marker.args))
