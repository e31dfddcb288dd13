"""Questions for subclasses of a class of torch that lost them: ``StepLR.__mro__`` in 1.13.1, 2.0.0 and 2.13.0."""

from __future__ import annotations

import pytest

from abiscan.python.reading import PackageReader
from abiscan.rules.lost_torch_base import list_findings
from abiscan.torches import embedded_names
from abiscan.torches.name_history import history
from tests.unit.python.packages import FakeWorld, TextSources

ASKS = "import torch\ndef is_one(x): return isinstance(x, torch.optim.lr_scheduler._LRScheduler)\n"
IMPORTS = "from torch.optim.lr_scheduler import _LRScheduler\n"
NEW = "torch.optim.lr_scheduler.LRScheduler"


@pytest.mark.parametrize(
    ("source", "release", "line"),
    [
        (ASKS, "2.0.0", 2),
        (ASKS, "2.13.0", 2),
        (ASKS, "1.13.1", None),
        (ASKS.replace("isinstance(x, ", "issubclass(x, (str, ").replace("r)", "r))"), "2.0.0", 2),
        ("from torch.optim.lr_scheduler import _LRScheduler as L\nF = lambda x: isinstance(x, L)\n", "2.0.0", 2),
        ("import torch\nclass A(torch.optim.lr_scheduler._LRScheduler): ...\n", "2.0.0", None),
        (f"{ASKS}# of an LRScheduler\n", "2.0.0", 2),
        (f"{ASKS}X = getattr(torch.optim.lr_scheduler, 'LRScheduler', None)\n", "2.0.0", None),
        (f"{ASKS}def g(x): return isinstance(x, {NEW})\n", "2.0.0", None),
        ("import torch\ndef f(x): return isinstance(x, torch.optim.Optimizer)\n", "2.0.0", None),
        ("from torch.optim import lr_scheduler as S\nF = lambda x: isinstance(x, S._LRScheduler)\n", "2.0.0", 2),
        # What looks for its subclasses: cthoyt/class-resolver#48, narumiruna/mlconfig#60.
        (f"{IMPORTS}R = Resolver.from_subclasses(_LRScheduler, suffix='LR')\n", "2.0.0", 2),
        (f"{IMPORTS}register = functools.partial(_register, superclass=_LRScheduler)\n", "2.0.0", 2),
        (f"{IMPORTS}ALL = _LRScheduler.__subclasses__()\n", "2.0.0", 2),
        (f"{IMPORTS}ALL = _LRScheduler.__subclasses__()\n", "1.13.1", None),
        (f"{IMPORTS}R = Resolver(_LRScheduler, base=_LRScheduler)\n", "2.0.0", None),
        (f"{IMPORTS}assert make_subclass(A)(_LRScheduler)\n", "2.0.0", None),
        # It is asked where torch has it, or of another class of that name.
        (ASKS.replace("return", "return torch.__version__ < '2' and"), "2.0.0", None),
        (ASKS.replace(" return", "\n  if torch.__version__ < '2': return"), "2.0.0", None),
        (ASKS.replace(" return", "\n  if torch.__version__ >= '2': return x.step\n  return"), "2.0.0", None),
        (ASKS.replace(" return", "\n  assert torch.__version__ < '2'\n  return"), "2.0.0", None),
        # What kind something is of says nothing of the version: huggingface/trl#225.
        (ASKS.replace(" return", "\n  if isinstance(x, SUPPORTED): raise ValueError\n  return"), "2.0.0", 4),
        (ASKS.replace("r)", "r) if torch.__version__ < '2' else x.step"), "2.0.0", None),
        (f"{ASKS}def g(x): return isinstance(x, compat._LRScheduler)\n", "2.0.0", 2),
        (f"{IMPORTS}def g(_LRScheduler, x): return isinstance(x, _LRScheduler)\n", "2.0.0", None),
    ],
)
def test_what_counts(source: str, release: str, line: int | None) -> None:
    reader = PackageReader(TextSources({"pack/__init__.py": source}), ["pack"])
    found = reader.base_questions(FakeWorld(torch_names=embedded_names.names(release)))
    assert [question.line for question in found] == ([] if line is None else [line])


def test_the_finding_names_what_no_longer_derives_from_it() -> None:
    reader = PackageReader(TextSources({"pack/__init__.py": ASKS}), ["pack"])
    found = reader.base_questions(FakeWorld(torch_names=embedded_names.names("2.0.0")))
    (finding,) = list_findings(found, history(found[0].successor), "pack", "torch 2.0.0")
    assert "ExponentialLR" in (finding.symptom or "")
    assert finding.fix == "use torch 1.4.0-1.13.1, where they do, or a version of pack for torch 2.0.0"
