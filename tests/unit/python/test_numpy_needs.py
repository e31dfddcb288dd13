"""The numpy that packages need: names that newer ones lack, and the arrays of a torch that was compiled for numpy 1.

What each numpy has is what ``hasattr`` says of the real one. That torch 2.2.2 says "Numpy is not available" beside
numpy 2 is what securefederatedai/openfederatedlearning#999 reports.
"""

from __future__ import annotations

import pytest

from abiscan.python.package.installed import Surroundings
from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

METADATA = "Metadata-Version: 2.1\nName: pack\nVersion: 1\n"


def needs(
    code: str,
    *,
    release: str = "2.13.0",
    requires: str = "numpy",
    newest: tuple[int, int] | None = None,
    **around: object,
) -> list[tuple[str, str | None]]:
    files = {
        "pack/__init__.py": f"import torch, numpy as np\n{code}",
        "pack-1.dist-info/METADATA": f"{METADATA}Requires-Dist: {requires}\n",
    }
    world = FakeWorld(torch_names=embedded_names.names(release), newest_python=newest)
    found = PackageReader(TextSources(files), ["pack"]).numpy_needs(world, Surroundings(**around))  # type: ignore[arg-type]
    return [(need.below, need.name) for need in found]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def f(): return np.Inf", [("2.0", "numpy.Inf")]),
        ("class A:\n  def f(self, x): return x.astype(np.float)", [("1.24", "numpy.float")]),
        ("def f(): return np.Inf if np.less else -np.Inf", [("2.0", "numpy.Inf")]),
        ("def f(x: np.float_): ...", [("2.0", "numpy.float_")]),
        ("def f(k): return np.math.factorial(k)", [("2.0", "numpy.math")]),
        ("def f(k): return np.linalg.norm(k)", []),
        ("def f():\n  from numpy import product", [("2.0", "numpy.product")]),
        ("import numpy.linalg\ndef f(): return numpy.Inf", [("2.0", "numpy.Inf")]),
        ("import numpy.linalg\ndef f():\n  del numpy\n  return numpy.Inf", []),
        ("def f():\n  try: return np.Inf\n  except ValueError: return 0", [("2.0", "numpy.Inf")]),
        ("def f(): return np.inf, np.nan, np.float64", []),
        ("def f():\n  try: return np.Inf\n  except AttributeError: return np.inf", []),
        ("def f(): return np.Inf if np.__version__ < '2' else np.inf", []),
        ("IS_NP2 = False\ndef f(): return np.Inf if not IS_NP2 else np.inf", []),
        ("IS_NUMPY_2 = False\ndef f():\n  if not IS_NUMPY_2:\n    return np.Inf", []),
        ("if not hasattr(np, 'Inf'): np.Inf = np.inf\ndef f(): return np.Inf", []),
        ("def f(): return getattr(np, 'Inf', None) or np.Inf", []),
        ("import jax.numpy as np\ndef f(): return np.Inf", []),
        ("def f():\n  with suppress(AttributeError): return np.Inf", []),
        # What has left a function, or the module, does not come to it.
        ("NP2 = int(np.__version__[0]) >= 2\ndef f():\n  if NP2: return np.inf\n  return np.Inf", []),
        ("NEW = int(np.__version__[0]) >= 2\ndef f():\n  if NEW: return np.inf\n  return np.Inf", []),
        ("def new(): return np.__version__ >= '2'\ndef f():\n  if new(): raise TypeError\n  return np.Inf", []),
        ("v = np.__version__\nNEW = int(v[0]) >= 2\ndef f():\n  if NEW: return np.inf\n  return np.Inf", []),
        ("def f():\n  for x in y:\n    if NP2: continue\n    np.Inf", []),
        ("def f():\n  with x:\n    if NP2: return np.inf\n  return np.Inf", []),
        ("def f():\n  assert int(np.__version__[0]) < 2\n  return np.Inf", []),
        ("def f(): return np.Inf\nif np.__version__ >= '2': raise ImportError", []),
        ("def f():\n  x = np.Inf\n  if NP2: return 0\n  return x", [("2.0", "numpy.Inf")]),
        ("def f():\n  if NP2: x = 0\n  return np.Inf", [("2.0", "numpy.Inf")]),
        ("def f():\n  if NP2: return 0\ndef g(): return np.Inf", [("2.0", "numpy.Inf")]),
        ("if sys.version_info < (3, 8): raise ImportError\ndef f(): return np.Inf", [("2.0", "numpy.Inf")]),
        ("import numpy\ndef f(x):\n  if numpy.any(x): return 0\n  return np.Inf", [("2.0", "numpy.Inf")]),
        ("import numpy\ndef f(x):\n  y = numpy.any(x)\n  if y: return 0\n  return np.Inf", [("2.0", "numpy.Inf")]),
        # Conditions of other forms.
        ("x = np.__version__ < '2' and np.Inf", []),
        ("x = np.__version__ >= '2' or np.Inf", []),
        ("match np.__version__[0]:\n  case '1': x = np.Inf", []),
        ("while np.__version__ < '2':\n  np.Inf\n  break", []),
        ("x = [np.Inf for _ in y if np.__version__ < '2']", []),
        ("x = {1: lambda: np.Inf, 2: lambda: np.inf}[int(np.__version__[0])]()", []),
        ("@skip_if(np.__version__ >= '2')\ndef f(): return np.Inf", []),
        # Names that are not numpy, or not only.
        ("def f(np): return np.Inf", []),
        ("f = lambda np: np.Inf", []),
        ("def f():\n  np = object()\n  return np.Inf", []),
        ("for np in []: np.Inf", []),
        ("with open('x') as np: np.Inf", []),
        ("class np: Inf = 1\nnp.Inf", []),
        ("def np(): ...\nnp.Inf", []),
        ("try: x\nexcept OSError as np: np.Inf", []),
        ("import numpy as numpy\ndef f(): return numpy.Inf", [("2.0", "numpy.Inf")]),
        ("def f(x): return x(np=np.Inf)", [("2.0", "numpy.Inf")]),
    ],
)
def test_names_that_went(code: str, expected: list[tuple[str, str]]) -> None:
    assert needs(code) == expected


def test_annotations_that_are_not_evaluated() -> None:
    files = {"pack/__init__.py": "from __future__ import annotations\nimport numpy as np\ndef f(x: np.float_): ..."}
    reader = PackageReader(TextSources(files), ["pack"])

    assert not reader.numpy_needs(FakeWorld(torch_names=embedded_names.names("2.13.0")))


@pytest.mark.parametrize(
    ("requires", "newest", "expected"),
    [
        ("numpy>=1.26", None, [("2.0", "numpy.Inf")]),
        ("numpy<2", None, []),
        ("numpy>=2", None, []),  # none that may be installed has it: that is no condition
        ("numpy", (3, 8), []),  # there is no numpy 2 for it
        ("numpy", (3, 9), [("2.0", "numpy.Inf")]),
    ],
)
def test_what_may_be_installed(
    requires: str, newest: tuple[int, int] | None, expected: list[tuple[str, str | None]]
) -> None:
    assert needs("def f(): return np.Inf", requires=requires, newest=newest) == expected


@pytest.mark.parametrize(
    ("code", "release", "requires", "expected"),
    [
        ("def f(x): return x.detach().numpy()", "2.2.2", "numpy", [("2.0", None)]),
        ("def f(x): return x[0].cpu().float().squeeze(0).numpy().max()", "2.2.2", "numpy", [("2.0", None)]),
        ("def f(x): return torch.from_numpy(x)", "1.13.1", "scipy", [("2.0", None)]),
        ("def f(x): return x.cpu().numpy()", "2.3.0", "numpy", []),
        ("def f(x): return x.cpu().numpy()", "2.2.2", "numpy<2", []),
        ("def f(x): return torch.sum(x)", "2.2.2", "numpy", []),
        # A tensor of others, what a docstring shows, what is caught.
        ("def f(x): return x.numpy()", "2.2.2", "numpy", []),
        ("import jax\ndef f(x): return x.detach().numpy()", "2.2.2", "numpy", []),
        ("import os, \\\n  jax\ndef f(x): return x.detach().numpy()", "2.2.2", "numpy", []),
        ("def f(x):\n  '>>> x.cpu().numpy()'", "2.2.2", "numpy", []),
        ("def f(x):\n  try: return x.cpu().numpy()\n  except Exception: return x.tolist()", "2.2.2", "numpy", []),
    ],
)
def test_arrays_of_a_torch_for_numpy_1(
    code: str, release: str, requires: str, expected: list[tuple[str, str | None]]
) -> None:
    assert needs(code, release=release, requires=requires) == expected


def test_a_numpy_that_is_known_is_no_condition() -> None:
    assert not needs("def f(): return np.Inf", planned=(("numpy", "2.1.0"),))


def test_a_package_without_numpy() -> None:
    files = {
        "pack/__init__.py": "import torch\ndef f(x):\n  import numpy\n  return x.cpu().numpy()",
        "pack/tests/test_it.py": "import torch, numpy\ntorch.from_numpy(numpy.ones(1))",
    }
    reader = PackageReader(TextSources(files), ["pack"])

    assert not reader.numpy_needs(FakeWorld(torch_names=embedded_names.names("2.2.2")))


@pytest.mark.parametrize(
    ("code", "lines", "calls"),
    [
        ("x = np.Inf\ndef f(): return 1", [2], []),
        ("def f():\n  return np.Inf", [], ["f"]),
        ("class A:\n  x = np.Inf\n  def f(self):\n    def g():\n      return np.Inf", [3], ["A.f.g"]),
        ("class A:\n  def __f(self): return np.Inf", [], ["A.__f"]),
        ("@g(np.Inf)\ndef f(x=1):\n  if x:\n    return np.Inf\nnp.Inf", [2, 6], ["f"]),
    ],
)
def test_what_a_module_does_is_told_from_what_its_functions_do(code: str, lines: list[int], calls: list[str]) -> None:
    files = {"pack/__init__.py": f"import numpy as np\n{code}", "pack-1.dist-info/METADATA": METADATA}
    world = FakeWorld(torch_names=embedded_names.names("2.13.0"))
    (need,) = PackageReader(TextSources(files), ["pack"]).numpy_needs(world, Surroundings())
    assert [line.line for line in need.lines] == lines
    assert [use.function for use in need.calls] == calls
