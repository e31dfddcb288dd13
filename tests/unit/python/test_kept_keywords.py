"""Keywords in dictionaries, files of settings and defaults of optimizers, which a class of torch does not take."""

from __future__ import annotations

import pytest

from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

PLATEAU = "from torch.optim.lr_scheduler import ReduceLROnPlateau\n"
# As torch 2.13.0 says.
VERBOSE = "ReduceLROnPlateau.__init__() got an unexpected keyword argument 'verbose'"
DECOUPLED = "AdamW.__init__() got an unexpected keyword argument 'decoupled_weight_decay'"


def told_of(files: dict[str, str], release: str) -> list[tuple[str, str, int, bool]]:
    reader = PackageReader(TextSources({"pack/__init__.py": PLATEAU, **files}), ["pack"])
    uses = reader.later_uses(FakeWorld(torch_names=embedded_names.names(release)))
    return [(use.error, use.file, use.line, use.doubtful) for use in uses]


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        # sb-ai-lab/LightAutoML#173
        ("pack/c.yml", "a: 1\nscheduler_params: { 'patience': 5, 'factor': 0.5, 'verbose': True }\n", 2),
        ("pack/c.json", '{"s": {"patience": 5, "factor": 0.5, "verbose": true}}', 1),
        ("pack/c.py", "def f():\n  return {'patience': 5, 'factor': 0.5, 'verbose': True}\n", 2),
        ("pack/c.yml", "x: { 'patience': 5, 'factor': 0.5 }\nverbose: True\n", None),
        ("pack/c.yml", "x: { 'patience': 5, 'verbose': True }\n", None),
        ("pack/c.yml", "x: { 'patience': 5, 'factor': 0.5, 'verbose': True, 'epochs': 3 }\n", None),
        ("pack/c.py", "if new:\n  d = {}\nelse:\n  d = {'patience': 5, 'factor': 0.5, 'verbose': True}\n", None),
        ("tests/c.py", "d = {'patience': 5, 'factor': 0.5, 'verbose': True}\n", None),
        ("pack/c.txt", "x: { 'patience': 5, 'factor': 0.5, 'verbose': True }\n", None),
    ],
)
def test_keywords_that_are_kept(file: str, text: str, line: int | None) -> None:
    assert told_of({file: text}, "2.7.0") == ([(VERBOSE, file, line, True)] if line else [])
    assert not told_of({file: text}, "2.6.0")
    assert not told_of({file: text, "pack/__init__.py": ""}, "2.7.0")


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (
            "def f(kw, optimizer):\n  for k, v in optimizer.defaults.items():\n    kw.setdefault(k, v)\n",
            2,
        ),  # pykeen#1569
        ("def f(kw, optimizer):\n  for k, v in optimizer.defaults.items():\n    kw[k] = v\n", 2),
        ("def f(self, p): return type(self.optimizer)(p, **self.optimizer.defaults)\n", 1),
        ("def f(kw, opt): kw.update(opt.defaults)\n", 1),
        ("def f(settings, optimizer): settings.update(**optimizer.defaults)\n", None),  # mmengine, which logs them
        ("def f(d, optimizer):\n  d.update(**optimizer.defaults)\n  return A(p, **d)\n", 2),
        ("def f(group, optimizer):\n  for k, v in optimizer.defaults.items():\n    group[k] = v\n", None),  # allennlp
        ("def f(optimizer): return dict(**optimizer.defaults)\n", None),
        ("def f(optimizer):\n  for k, v in optimizer.defaults.items():\n    print(k, v)\n", None),
        ("def f(parser): return dict(**parser.defaults)\n", None),
        ("def f(optimizer):\n  d = dict(**optimizer.defaults)\n  d.pop('decoupled_weight_decay')\n", None),
    ],
)
def test_defaults_that_are_passed_on(body: str, line: int | None) -> None:
    # torch 2.13.0 makes each of its other optimizers so.
    files = {"pack/opt.py": body}
    assert told_of(files, "2.13.0") == ([(DECOUPLED, "pack/opt.py", line, True)] if line else [])
    assert not told_of(files, "2.6.0")
