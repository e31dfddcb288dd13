"""Functions of a package that refuse a torch themselves: what counts, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from abiscan.findings import Confidence
from abiscan.python.language import late_bodies
from abiscan.python.reading import PackageReader
from abiscan.rules.refused_by_package import list_findings
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

ASKS = "from lightning_utilities.core.imports import RequirementCache\n_NEW = RequirementCache('torch>=2.1.0')\n"
"""Of litdata 0.2.2; RequirementCache asks for what is installed."""
LIGHTNING = "from lightning_utilities.core.imports import RequirementCache, compare_version\n"
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
        ("import torch\ndef f(x):\n  assert torch.__version__[:3] == '2.9', 'torch'\n", ("f", "AssertionError: torch")),
        (
            "import torch\ndef f(x):\n  assert int(torch.__version__.split('.')[1]) > 0, 'torch'",
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


NEVER = "raise ImportError('torch')"
IF_NEW = f"if torch.__version__ >= '2': {NEVER}\n"
SPLIT = "import torch\nMAJOR, MINOR = (int(part) for part in torch.__version__.split('.')[:2])\n"


@pytest.mark.parametrize(
    "body",
    [
        f"  if {OLD}: return x\n  assert not {OLD}, 'torch'\n",
        f"  if {OLD}:\n    if x: return x\n    {NEVER}\n",
        f"  try: return x()\n  except OSError: pass\n  {IF_NEW}",
        f"  for i in x: return i\n  {IF_NEW}",
        f"  while x: return x\n  {IF_NEW}",
        f"  with x: return x\n  {IF_NEW}",
        f"  match x:\n    case 1: return 2\n  {IF_NEW}",
        f"  raise OSError\n  {IF_NEW}",
    ],
)
def test_what_leaves_before_it(body: str) -> None:
    assert not refusals({"pack/__init__.py": f"{PARSED}def f(x):\n{body}"})


@pytest.mark.parametrize(
    "source",
    [
        f"{SPLIT}def f(x): assert (MAJOR, MINOR) == (2, 0), 'torch'\n",
        f"{SPLIT}def f(x):\n  if MAJOR != (2,): {NEVER}\n",
        f"from pack import shim as torch\ndef f(x):\n  {IF_NEW}",
        f"import torch\ndef f(x):\n  import fake as torch\n  {IF_NEW}",
        f"import torch\nfrom pack.shim import *\ndef f(x):\n  {IF_NEW}",
        f"import torch\ntry: pass\nexcept OSError as torch: pass\ndef f(x):\n  {IF_NEW}",
    ],
)
def test_what_is_not_the_version_of_torch(source: str) -> None:
    assert not refusals({"pack/__init__.py": source})


@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("", "from x import OLD_TORCH"),
        ("", "def OLD_TORCH(): ..."),
        ("", "for OLD_TORCH in x: pass"),
        ("", "with x as OLD_TORCH: pass"),
        ("", "match x:\n    case [OLD_TORCH]: pass"),
        ("", "match x:\n    case {'a': 1, **OLD_TORCH}: pass"),
        ("try: pass\nexcept OSError as OLD_TORCH: pass\n", "pass"),
        ("def allow():\n  global OLD_TORCH\n  OLD_TORCH = False\n", "pass"),
        ("OLD_TORCH &= False\n", "pass"),
        ("from pack.other import *\n", "pass"),
    ],
)
def test_names_that_may_stand_for_something_else(before: str, first: str) -> None:
    asking = f"{PARSED}OLD_TORCH = {OLD}\n{{}}def f(x):\n  {{}}\n  if OLD_TORCH: {NEVER}\n"
    assert refusals({"pack/__init__.py": asking.format("", "pass")})
    assert not refusals({"pack/__init__.py": asking.format(before, first)})


@pytest.mark.parametrize(("limit", "told"), [("2.1", True), ("1.0", False)])
def test_a_function_is_evaluated_where_it_is_defined(limit: str, *, told: bool) -> None:
    is_old = f"{PARSED}from pack.limits import LIMIT\ndef is_old_torch(): return Version(torch.__version__) < LIMIT\n"
    asking = (
        f"from pack.old import is_old_torch\nLIMIT = '9'\ndef f(x):\n  LIMIT = '1.9'\n  if is_old_torch(): {NEVER}\n"
    )
    files = {"pack/__init__.py": asking, "pack/old.py": is_old, "pack/limits.py": f"LIMIT = '{limit}'\n"}
    assert bool(refusals(files)) is told


def test_the_last_definition_counts() -> None:
    assert not refusals({"pack/__init__.py": f"import torch\ndef f(x):\n  {IF_NEW}def f(x): return x\n"})


@pytest.mark.parametrize(("release", "told"), [("2.0.1", True), ("2.1.0", False)])
def test_a_constant_of_another_module(release: str, *, told: bool) -> None:
    constants = ASKS.replace("_NEW", "_TORCH_2_1")
    importing = f"from pack.constants import _TORCH_2_1\n{REFUSES.replace('_NEW', '_TORCH_2_1')}"
    files = {"pack/__init__.py": importing, "pack/constants.py": constants}
    assert refusals(files, release) == ([SAYS] if told else [])
    # What the constant is made of is looked up where it stands.
    made = f"{PARSED}V = Version('2.1')\n_TORCH_2_1 = Version(torch.__version__) >= V\n"
    files = {"pack/__init__.py": f"V = '9'\n{importing}", "pack/constants.py": made}
    assert refusals(files, release) == ([SAYS] if told else [])


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("RequirementCache('torch<2.1')", True),
        ("RequirementCache('torch>=2.1')", False),
        ("RequirementCache('torchvision<9')", False),
        ("RequirementCache('?')", False),
        ("RequirementCache('torch')", False),
        ("RequirementCache('torch @ http://x')", False),
        ("RequirementCache('torch<2.1; python_version<\"3\"')", False),
        ("compare_version('torch', operator.lt, '2.1.0')", True),
        ("compare_version('torch', operator.ge, '2.1.0')", False),
        ("compare_version('torch', operator.nope, '2.1.0')", False),
        ("compare_version('numpy', operator.lt, '2.1.0')", False),
    ],
)
def test_what_asks_for_the_torch_that_is_installed(condition: str, *, told: bool) -> None:
    source = f"{LIGHTNING}TORCH = {condition}\ndef f(x):\n  if TORCH: raise ImportError\n"
    assert bool(refusals({"pack/__init__.py": source})) is told
    # A package may have functions of that name itself.
    own = "def compare_version(*a): return False\nclass RequirementCache: ...\n"
    assert not refusals({"pack/__init__.py": source.replace(LIGHTNING, own)})
    assert not refusals({"pack/__init__.py": source.replace(LIGHTNING, "from pack.own import *\n")})


def test_modules_that_import_from_each_other_end() -> None:
    files = {
        "pack/__init__.py": f"from pack.a import _TORCH_2_1\n{REFUSES.replace('_NEW', '_TORCH_2_1')}",
        "pack/a.py": "from pack.b import _TORCH_2_1",
        "pack/b.py": "from pack.a import _TORCH_2_1",
    }
    assert not refusals(files)


def test_one_finding_for_all_functions() -> None:
    files = {
        "pack/__init__.py": f"{PARSED}def f():\n  assert not {OLD}, 'torch'\ndef g():\n  if {OLD}: raise OSError\n"
    }
    reader = PackageReader(TextSources(files), ["pack"])
    found = reader.own_refusals(FakeWorld(torch_names=embedded_names.names("2.0.0")))
    (finding,) = list_findings(found, "pack", "torch 2.0.0")
    assert finding.message == "pack refuses torch 2.0.0 in 2 functions"
    assert finding.confidence is Confidence.POSSIBLE
    assert [(item.subject, item.object) for item in finding.evidence] == [
        ("pack/__init__.py:4", "f"),
        ("pack/__init__.py:6", "g"),
    ]
    assert not list(list_findings((), "pack", "torch 2.1.0"))


def test_functions_without_such_a_line_are_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    parse_body = late_bodies._parse_body

    def parse(node: Any, kind: Any) -> None:
        parsed.append(node.name)
        parse_body(node, kind)

    monkeypatch.setattr(late_bodies, "_parse_body", parse)
    filler = "".join(f"  x = x + {number}\n" for number in range(400))
    refusing = f"def f(x):\n{filler}  if {OLD}:\n    raise ImportError('torch 2.1 is needed')\n"
    source = f"{PARSED}def before(x):\n{filler}{refusing}async def after(x):\n{filler}"
    assert refusals({"pack/a.py": source, "pack/__init__.py": ""}) == [SAYS]
    assert parsed == ["f"]


@pytest.mark.parametrize("is_imported", [True, False])
def test_a_folder_of_programs_counts_if_the_package_imports_it(*, is_imported: bool) -> None:
    """As in ``vietocr/tool``."""
    imports = "from .tool.predictor import f\n" if is_imported else ""
    source = f"{ASKS}{REFUSES}".replace("_NEW", "_TORCH")
    files = {"pack/__init__.py": imports, "pack/tool/__init__.py": "", "pack/tool/predictor.py": source}
    assert refusals(files) == [SAYS] * is_imported
