"""Names of packages next to torch that packages use as they are imported, in the versions that go with a torch or that
a wheel requires.

What each version has was asked of real ones: ``python -c "import triton.ops"`` with Triton 3.1.0 and 3.2.0, and
``hasattr`` in numpy 1.23.5, 1.24.4, 1.26.4, 2.0.2 and 2.4.6; ``tests/oracle/test_companion_names.py`` does so again.
What torchvision and torchaudio lack is what users of basicsr, pytorchvideo and speechbrain reported.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.python.package.installed import Surroundings, installed_in
from abiscan.python.package.library import LARGEST_ALWAYS_RUN, PythonCode
from abiscan.python.package.model import Raised
from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources, reading_of


def raised(code: str, release: str = "2.6.0", cuda: str | None = "12.4", required: str = "torch") -> str | None:
    files = {
        "pack/__init__.py": "from . import sub\n",
        "pack/sub.py": code,
        "pack-1.dist-info/METADATA": f"Name: pack\nRequires-Dist: {required}\n\n",
    }
    names = embedded_names.names(release)
    (outcome,) = reading_of(files, FakeWorld(torch_names=names, cuda=cuda, torch_version=f"{release}+cu124")).imports
    return f"{outcome.raised.exception}: {outcome.raised.message}" if isinstance(outcome.raised, Raised) else None


NO_OPS = "ModuleNotFoundError: No module named 'triton.ops'"
FOUND = "import importlib.util as u\nif u.find_spec('{}') is None: raise OSError"


@pytest.mark.parametrize(
    ("code", "release", "expected"),
    [
        ("from triton.ops.matmul_perf_model import early_config_prune", "2.6.0", NO_OPS),
        ("from triton.ops.matmul_perf_model import early_config_prune", "2.5.1", None),
        ("if X:\n    import triton.ops".replace("X", "1 + 1"), "2.6.0", NO_OPS),
        ("import triton\nX = triton.ops", "2.6.0", "AttributeError: module 'triton' has no attribute 'ops'"),
        ("import triton\nX = triton.ops", "2.5.1", None),
        ("from triton.language import libdevice", "2.6.0", "ImportError: None"),
        ("from triton.language import libdevice", "2.0.0", None),
        (
            "import triton.language as tl\ndef f(x=tl.libdevice): ...",
            "2.6.0",
            "AttributeError: module 'triton.language' has no attribute 'libdevice'",
        ),
        ("try:\n    import triton.ops\nexcept ImportError: pass", "2.6.0", None),
        ("import triton\nif hasattr(triton, 'ops'): raise OSError", "2.6.0", None),
        ("import triton\ntriton.ops = 1\nX = triton.ops", "2.6.0", None),
        (FOUND.format("triton"), "2.6.0", None),
        (FOUND.format("triton.ops"), "2.6.0", "OSError: "),
        (
            "import triton.language as tl\nX = tl.dot, tl.math.exp, tl.extra\nimport triton._C.libtriton",
            "2.6.0",
            None,
        ),
    ],
)
def test_triton_is_the_one_that_torch_requires(code: str, release: str, expected: str | None) -> None:
    assert raised(code, release) == expected


def test_a_torch_without_cuda_requires_none() -> None:
    assert raised("from triton.ops import x", cuda=None) is None


@pytest.mark.parametrize(
    ("code", "required", "expected"),
    [
        ("import numpy as np\nX = np.float_", "numpy>=2.0", "AttributeError: None"),
        ("import numpy as np\nX = np.float_", "numpy (>=2,<3)", "AttributeError: None"),
        ("import numpy as np\ndef f(x=np.float_): ...", "numpy==2.1.1", "AttributeError: None"),
        ("from numpy import in1d", "numpy~=2.4", "ImportError: None"),
        ("from numpy.compat import py3k", "numpy>=2.3", "ModuleNotFoundError: No module named 'numpy.compat'"),
        ("from numpy import in1d", "numpy~=2.0", None),
        ("import numpy as np\nX = np.float_", "numpy>=1.20", None),
        ("import numpy as np\nX = np.float_", "numpy", None),
        ("import numpy as np\nX = np.float_", "numpy>=2.0; python_version > '3.8'", None),
        ("import numpy as np\nX = np.float64, np.random.rand, np.core, np.typing.NDArray", "numpy>=2.0", None),
        ("import numpy.core.multiarray\nfrom numpy.lib import stride_tricks", "numpy>=2.0", None),
        ("import numpy.distutils", "numpy==1.26.4", None),
        ("import numpy as np\nnp.float, np.MachAr, np.unicode", "numpy==1.23.5", None),  # by its __getattr__
        ("import numpy as np\nnp.unicode", "numpy==1.24.4", "AttributeError: None"),
    ],
)
def test_numpy_is_one_that_the_wheel_requires(code: str, required: str, expected: str | None) -> None:
    assert raised(code, required=required) == expected


@pytest.mark.parametrize(
    ("version", "is_final", "expected"),
    [("2.4.6", True, "numpy"), ("2.4.6", False, None), ("1.26.4", True, "nothing")],  # asked of numpy 1.26.4 and 2.4.6
)
def test_a_name_that_the_installed_numpy_lacks_is_certain(
    version: str, is_final: bool, expected: str | None, tmp_path: Path
) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").touch()
    (tmp_path / f"numpy-{version}.dist-info").mkdir()
    around = Surroundings(installed=installed_in((tmp_path,)), folders=(tmp_path,), is_final=is_final)
    world = FakeWorld(torch_names=embedded_names.names("2.13.0"), torch_version="2.13.0")
    (outcome,) = reading_of({"p.py": "import numpy as np\nX = np.float_\n"}, world, around).imports
    of_other = outcome.raised.of_other if isinstance(outcome.raised, Raised) else "nothing"
    assert of_other == expected


NO_TENSOR = "ModuleNotFoundError: No module named 'torchvision.transforms.functional_tensor'"
NO_BACKENDS = "AttributeError: module 'torchaudio' has no attribute 'list_audio_backends'"
NO_LEGACY = "ModuleNotFoundError: No module named 'torchtext.legacy'"
NO_OPTION = "AttributeError: module 'torchvision.io' has no attribute '_HAS_VIDEO_OPT'"
OF_BACKENDS = (
    "import torchaudio\nif int(torchaudio.__version__.split('.')[1]) >= 1: X = torchaudio.list_audio_backends()"
)


@pytest.mark.parametrize(
    ("code", "release", "required", "expected"),
    [
        ("from torchvision.transforms.functional_tensor import rgb_to_grayscale", "2.2.0", "torch", NO_TENSOR),
        ("from torchvision.transforms.functional_tensor import rgb_to_grayscale", "2.1.2", "torch", None),
        # No version of torchvision fits both: nothing is known of the one that is there.
        ("import torchvision.transforms.functional_tensor", "2.2.0", "torchvision<0.17", None),
        ("import torchvision.transforms.functional_tensor", "2.2.0", "torchvision>=0.15", NO_TENSOR),
        # Who uses a torch that is not allowed has the torchvision that goes with it.
        (
            "import torchvision.transforms.functional_tensor",
            "2.2.0",
            "torch<2.2\nRequires-Dist: torchvision<0.17",
            NO_TENSOR,
        ),
        ("try:\n    import torchvision.transforms.functional_tensor\nexcept ImportError: pass", "2.2.0", "torch", None),
        (OF_BACKENDS, "2.9.0", "torchaudio", NO_BACKENDS),
        (OF_BACKENDS, "2.8.0", "torchaudio", None),
        ("import torchaudio\nif not torchaudio.__version__.endswith('+cu124'): raise OSError", "2.6.0", "torch", None),
        # Backends bind it by ``setattr``.
        ("import torchaudio\nX = torchaudio.load", "1.13.0", "torchaudio", None),
        # joeynmt/joeynmt#168 and lightly-ai/lightly#1904
        ("from torchtext.legacy.data import Dataset", "1.11.0", "torch", NO_LEGACY),
        ("from torchtext.legacy.data import Dataset", "1.10.2", "torch", None),
        ("from torchtext.legacy.data import Dataset", "1.7.0", "torch", None),  # none names that torch
        ("from torchvision import io\nif io._HAS_VIDEO_OPT: pass", "2.11.0", "torch", NO_OPTION),
        ("from torchvision import io\nif io._HAS_VIDEO_OPT: pass", "2.10.0", "torch", None),
        ("import torchvision\nX = torchvision.models.resnet18, torchvision.io.read_image", "2.13.0", "torch", None),
    ],
)
def test_what_requires_torch_is_that_for_the_torch_for_the_torch(
    code: str, release: str, required: str, expected: str | None
) -> None:
    assert raised(code, release, required=required) == expected


@pytest.mark.parametrize(
    ("body", "required", "names"),
    [
        ("import numpy as np\ndef f(x):\n    return np.float_(x)", "numpy>=2", ["numpy.float_"]),
        (
            "import numpy as np\ndef f(x):\n    return np.trapz(x), np.in1d(x)",
            "numpy>=2.4",
            ["numpy.in1d", "numpy.trapz"],
        ),
        ("def f(x):\n    from triton.ops import matmul", "torch", ["triton.ops"]),
        ("import torch, triton\ndef f(x):\n    if hasattr(torch._C, 'abs'): return 1\n    triton.ops", "torch", []),
        (
            "def f(x):\n    import torchvision.transforms.functional_tensor",
            "torch",
            ["torchvision.transforms.functional_tensor"],
        ),
        ("import numpy as np\ndef f(x):\n    return np.float_(x)", "numpy>=1.20", []),
        ("import numpy as np\ndef f(x):\n    return np.never_was(x)", "numpy>=2", []),
        ("import numpy as np\ndef f(x):\n  if NEW: return x\n  return np.float_(x)", "numpy>=2", []),
        ("import numpy as np\ndef f(x):\n  try: np.float_\n  except AttributeError: pass", "numpy>=2", []),
        ("import numpy as np\ndef f(x, np): return np.float_(x)", "numpy>=2", []),
        ("def f(x):\n  try:\n    from triton.ops import matmul\n  except ImportError: pass", "torch", []),
        ("import numpy as np\nif hasattr(np, 'float_'):\n  f = np.float_", "numpy>=2", []),
    ],
)
def test_what_functions_use_later(body: str, required: str, names: list[str]) -> None:
    files = {"pack/__init__.py": body, "pack-1.dist-info/METADATA": f"Name: pack\nRequires-Dist: {required}\n\n"}
    world = FakeWorld(torch_names=embedded_names.names("2.6.0"), cuda="12.4", torch_version="2.6.0")

    assert [use.name for use in PackageReader(TextSources(files), ["pack"]).later_uses(world)] == names


def test_of_names_that_are_there_nobody_asks_where_they_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a look at the text for each of them: scipy has 20,000."""
    asked: list[str] = []
    uses_at_import = PythonCode.uses_at_import

    def ask(code: PythonCode, path: str, name: str) -> bool:
        asked.append(name)
        return uses_at_import(code, path, name)

    monkeypatch.setattr(PythonCode, "uses_at_import", ask)
    large = "#" * LARGEST_ALWAYS_RUN
    assert raised(f"{large}\nimport triton.language as tl\nX = tl.dot\nY = tl.libdevice\n") is not None
    assert "triton.language.libdevice" in asked
    assert "triton.language.dot" not in asked
