"""Functions of a package that refuse a torch themselves: what counts, and what does not."""

from __future__ import annotations

import pytest

from abiscan.python.reading import PackageReader
from abiscan.rules.refused_by_package import list_findings
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

ASKS = "from lightning_utilities.core.imports import RequirementCache\n_NEW = RequirementCache('torch>=2.1.0')\n"
"""Of litdata 0.2.2; RequirementCache asks for what is installed."""
REFUSES = "def f(x):\n  if not _NEW:\n    raise ImportError('torch 2.1 is needed')\n"
PARSED = "import torch\nfrom packaging.version import Version\n"
OLD = "Version(torch.__version__) < Version('2.1')"


def refusals(files: dict[str, str], release: str = "2.0.0") -> list[tuple[str, str]]:
    reader = PackageReader(TextSources(files), ["pack"])
    found = reader.own_refusals(FakeWorld(torch_names=embedded_names.names(release)))
    return [(refusal.function, refusal.error) for refusal in found]


SAYS = ("f", "ImportError: torch 2.1 is needed")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{ASKS}{REFUSES}".replace("_NEW", "_TORCH"), SAYS),
        (f"{PARSED}def f(x):\n  if {OLD}:\n    raise ImportError('torch 2.1 is needed')\n", SAYS),
        (f"{PARSED}class A:\n  def f(self):\n    if {OLD}: raise ImportError\n", ("A.f", "ImportError")),
        (
            f"{PARSED}def f(x):\n  v = torch.__version__\n  assert Version(v) >= Version('2.1'), 'torch'\n",
            ("f", "AssertionError: torch"),
        ),
        (f"{PARSED}def f(x):\n  assert not {OLD}, f'torch {{x}}'\n", ("f", "AssertionError: torch …")),
        (f"{PARSED}def f(x):\n  if x: return 1\n  if {OLD}: raise ImportError\n", None),
        (f"{PARSED}def f(x):\n  if x and {OLD}: raise ImportError\n", None),
        (f"{PARSED}def f(torch):\n  if {OLD}: raise ImportError\n", None),
        (f"{PARSED}def f(x):\n  if {OLD}: print('torch')\n", None),
        ("import torch\ndef f(x):\n  if torch.cuda.is_available(): raise ImportError\n", None),
    ],
)
def test_what_counts(body: str, expected: tuple[str, str] | None) -> None:
    assert refusals({"pack/__init__.py": body}) == ([expected] if expected else [])


@pytest.mark.parametrize(("release", "told"), [("2.0.1", True), ("2.1.0", False)])
def test_a_constant_of_another_module(release: str, *, told: bool) -> None:
    constants = ASKS.replace("_NEW", "_TORCH_2_1")
    importing = f"from pack.constants import _TORCH_2_1\n{REFUSES.replace('_NEW', '_TORCH_2_1')}"
    files = {"pack/__init__.py": importing, "pack/constants.py": constants}
    assert refusals(files, release) == ([SAYS] if told else [])
    # What the constant is made of there may be something else here.
    made = "from packaging.version import Version\nimport torch\nV = Version(torch.__version__)\n_TORCH_2_1 = V > V\n"
    assert not refusals({**files, "pack/constants.py": made}, release)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("RequirementCache('torch<2.1')", True),
        ("RequirementCache('torch>=2.1')", False),
        ("RequirementCache('torchvision<9')", False),
        ("RequirementCache('?')", False),
        ("compare_version('torch', operator.lt, '2.1.0')", True),
        ("compare_version('torch', operator.ge, '2.1.0')", False),
        ("compare_version('torch', operator.nope, '2.1.0')", False),
        ("compare_version('numpy', operator.lt, '2.1.0')", False),
    ],
)
def test_what_asks_for_the_torch_that_is_installed(condition: str, *, told: bool) -> None:
    files = {"pack/__init__.py": f"TORCH = {condition}\ndef f(x):\n  if TORCH: raise ImportError\n"}
    assert bool(refusals(files)) is told


def test_modules_that_import_from_each_other_end() -> None:
    files = {
        "pack/__init__.py": f"from pack.a import _TORCH_2_1\n{REFUSES.replace('_NEW', '_TORCH_2_1')}",
        "pack/a.py": "from pack.b import _TORCH_2_1",
        "pack/b.py": "from pack.a import _TORCH_2_1",
    }
    assert not refusals(files)


def test_one_finding_for_all_functions() -> None:
    files = {"pack/__init__.py": f"{PARSED}def f(): assert not {OLD}, 'torch'\ndef g():\n  if {OLD}: raise OSError\n"}
    reader = PackageReader(TextSources(files), ["pack"])
    found = reader.own_refusals(FakeWorld(torch_names=embedded_names.names("2.0.0")))
    (finding,) = list_findings(found, "pack", "torch 2.0.0")
    assert finding.message == "pack refuses torch 2.0.0 in 2 functions"
    assert [(item.subject, item.object) for item in finding.evidence] == [
        ("pack/__init__.py:3", "f"),
        ("pack/__init__.py:5", "g"),
    ]
    assert not list(list_findings((), "pack", "torch 2.1.0"))
