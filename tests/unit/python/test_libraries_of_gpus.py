"""Libraries of CUDA and ROCm that a package loads by a path of its user's machine."""

from __future__ import annotations

import pytest

from abiscan.python.package.model import Answer
from tests.unit.python.packages import reading_of

PATH = "/usr/local/cuda/lib64/libcudart.so.12"


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (f"if os.path.exists({PATH!r}):\n    ctypes.CDLL({PATH!r}, mode=ctypes.RTLD_GLOBAL)\n", None),
        (f"try:\n    ctypes.CDLL({PATH!r})\nexcept OSError:\n    pass\n", None),
        (f"ctypes.CDLL({PATH!r})\n", Answer.UNKNOWN),
    ],
)
def test_one_is_there_or_not_and_does_nothing_else(code: str, raised: Answer | None) -> None:
    (outcome,) = reading_of({"p/__init__.py": f"import ctypes, os\n{code}"}).imports
    assert (outcome.raised, outcome.gaps) == (raised, ())
    if raised:
        assert [condition.text for condition in outcome.conditions] == [f"{PATH} exists"]


def test_another_library_may_do_anything() -> None:
    (outcome,) = reading_of({"p/__init__.py": "import ctypes\nctypes.CDLL('/opt/own/libown.so.1')\n"}).imports
    assert [gap.partition(": ")[2] for gap in outcome.gaps] == [
        "a library outside of the package is loaded: /opt/own/libown.so.1 (ctypes.CDLL)"
    ]
