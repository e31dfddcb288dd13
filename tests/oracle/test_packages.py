"""The recorded imports of whole packages, by ``tools/package_truth.py``.

For the wheels, set ``ABISCAN_CORPUS`` to a folder for them, which they are downloaded into.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import msgspec.structs
import pytest

from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict
from abiscan.results.verdict import How
from tests.oracle import corpus
from tests.oracle.corpus import needs_corpus, shared_work  # noqa: F401
from tools import package_truth
from tools.package_truth import Import

RAISES: Final = Import(
    package="pkg",
    version="1.0",
    module="pkg",
    torch="2.13.0+cpu",
    outcome="raises",
    exception="OSError",
    text="Could not load this library: pkg/_C.so",
    cause="pkg/_C.so: undefined symbol: f",
    others=(),
)
FAILURE: Final = ImportFailure(
    how=How.RAISES, exception=RAISES.exception, message=RAISES.text, file="pkg/__init__.py", line=1, cause=RAISES.cause
)


def predicted(error: ImportFailure | None = None, **changes: Any) -> PackageResult:
    verdict = PackageVerdict.IMPORT_FAILS if error else PackageVerdict.WORKS
    fields = {"name": "pkg", "version": "1.0", "torch": "2.13.0", "torch_build": "2.13.0+cpu", "module": "pkg"}
    return PackageResult(**{"target": "pkg.whl", **fields, "verdict": verdict, "error": error, **changes})


@needs_corpus
@pytest.mark.parametrize(
    "of_a_kind", [True, pytest.param(False, marks=pytest.mark.long)], ids=["one of each", "others"]
)
def test_every_recorded_import_is_predicted(of_a_kind: bool) -> None:
    """One torch on which a package ends so, and in the long tests all others."""
    imports = package_truth.recorded()
    assert len(imports) == 68
    kinds = {(one.package, one.outcome, one.exception): one for one in imports}
    chosen = [one for one in imports if (one in kinds.values()) is of_a_kind]
    wrong = {
        str(one): found
        for one, package in package_truth.predict(chosen, corpus.folder())
        if (found := list(package_truth.differences(one, package)))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("recorded", "package", "differs"),
    [
        (RAISES, predicted(FAILURE), False),
        (RAISES, predicted(), True),
        (RAISES, predicted(msgspec.structs.replace(FAILURE, exception="ImportError")), True),
        (RAISES, predicted(msgspec.structs.replace(FAILURE, message="Could not load")), True),
        (RAISES, predicted(msgspec.structs.replace(FAILURE, cause=None)), True),
        (RAISES, None, True),
        (dataclasses.replace(RAISES, outcome="signal"), predicted(FAILURE), True),
        (
            dataclasses.replace(RAISES, outcome="signal"),
            predicted(msgspec.structs.replace(FAILURE, how=How.ABORTS)),
            False,
        ),
        (dataclasses.replace(RAISES, outcome="ok"), predicted(FAILURE), True),
        (dataclasses.replace(RAISES, outcome="ok"), predicted(verdict=PackageVerdict.UNKNOWN), True),
        (dataclasses.replace(RAISES, outcome="ok"), predicted(verdict=PackageVerdict.WORKS_WITHOUT), False),
        (dataclasses.replace(RAISES, outcome="ok"), predicted(), False),
        (dataclasses.replace(RAISES, outcome="ok"), None, False),
    ],
)
def test_what_differs_from_a_record(recorded: Import, package: PackageResult | None, differs: bool) -> None:
    assert bool(list(package_truth.differences(recorded, package))) is differs
