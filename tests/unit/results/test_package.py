"""What the result for a package says about the reason of a failure."""

from __future__ import annotations

import pytest

from abiscan.python.model import HowLoaded
from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict, UsedLibrary
from abiscan.results.verdict import How, Verdict


@pytest.mark.parametrize(
    ("exception", "message", "is_for_another"),
    [
        ("ModuleNotFoundError", "No module named 'triton'", True),
        ("ModuleNotFoundError", "No module named 'google.protobuf'; 'google' is not a package", True),
        ("ImportError", "cannot import name 'create_repo' from 'transformers.utils.hub' (/x/hub.py)", True),
        ("ImportError", "cannot import name 'gone' from 'torch.library' (/x/torch/library.py)", False),
        ("ModuleNotFoundError", "No module named 'torch._six'", False),
        ("ModuleNotFoundError", "No module named 'pkg._C'", False),
        ("ModuleNotFoundError", "No module named '_core'", False),
        ("ImportError", "libcudart.so.12: cannot open shared object file: No such file or directory", False),
        ("RuntimeError", "No module named 'triton'", False),
        ("ImportError", None, False),
    ],
)
def test_whether_the_import_fails_for_want_of_another_package(
    exception: str, message: str | None, is_for_another: bool
) -> None:
    library = UsedLibrary(
        path="_core.cpython-311-x86_64-linux-gnu.so",
        loaded_at=None,
        how=HowLoaded.IMPORT,
        used=True,
        verdict=Verdict.FAILS,
    )
    package = PackageResult(
        target="pkg",
        name="the-package",
        version="1.0",
        torch="2.13.0",
        torch_build="2.13.0+cpu",
        module="pkg",
        verdict=PackageVerdict.IMPORT_FAILS,
        error=ImportFailure(
            how=How.RAISES, exception=exception, message=message, file="pkg/__init__.py", line=1, cause=None
        ),
        libraries=(library,),
    )
    assert package.fails_for_another is is_for_another
