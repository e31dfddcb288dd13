from __future__ import annotations

import pytest

from abiscan.inputs.torch_build import TorchBuild

# As setup.py of torch wrote it into the wheels of these releases.
TEXT_1_4 = "__version__ = '1.4.0'\ndebug = False\ncuda = '10.1'\ngit_version = '7f73f1d'\n"
TEXT_2_13 = """from typing import Optional

__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'rocm', 'xpu']
__version__ = '2.13.0+cpu'
debug = False
cuda: Optional[str] = None
git_version = 'abc'
hip: Optional[str] = None
xpu: Optional[str] = None
"""


def test_a_build_with_cuda() -> None:
    build = TorchBuild.parse(TEXT_1_4)
    assert (build.version, build.cuda, build.hip) == ("1.4.0", "10.1", None)


def test_a_build_without() -> None:
    assert TorchBuild.parse(TEXT_2_13) == TorchBuild(version="2.13.0+cpu")


def test_a_file_that_says_nothing() -> None:
    assert TorchBuild.parse("git_version = 'x'\n") == TorchBuild()


@pytest.mark.parametrize(
    ("build", "folder"),
    [
        (TorchBuild(), "cpu"),
        (TorchBuild(cuda="13.0"), "cu130"),
        (TorchBuild(hip="6.4"), "rocm64"),
    ],
)
def test_the_accelerator_of_a_build(build: TorchBuild, folder: str) -> None:
    assert build.accelerator == folder
