"""Files that packages load and that a torch may refuse: which loads show that they are more than tensors."""

from __future__ import annotations

import ast

import pytest

from abiscan.python.reading import PackageReader
from abiscan.python.torch_api.changed_defaults import kept_as_modules, whole_loads
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

LOADS_GRAPHS = "class A:\n  def f(self): self.d, self.s = torch.load(self.paths[0])\n"


def is_told(body: str, release: str = "2.13.0") -> bool:
    reader = PackageReader(TextSources({"pack/__init__.py": f"import torch\n{body}"}), ["pack"])
    return bool(reader.open_loads(FakeWorld(torch_names=embedded_names.names(release))))


@pytest.mark.parametrize(
    ("body", "release", "told"),
    [
        # stanfordnlp/stanza#1429, yzhangcs/parser#148: really raise UnpicklingError with torch 2.6.
        ("def f(p):\n  c = torch.load(p)\n  return M(c['config'])", "2.6.0", True),
        ("def f(p):\n  c = torch.load(p)\n  return M(c['config'])", "2.5.1", False),
        ("def f(p): return torch.load(p)['args']", "2.13.0", True),
        ("def f(p):\n  c = torch.load(p, map_location='cpu')\n  m, a = c, c.get('hyper_parameters')", "2.13.0", True),
        (
            "import torch as th\nclass A:\n  def f(self, p):\n    c = th.load(p)\n    self.v = V(c['vocab'])",
            "2.13.0",
            True,
        ),
        # LucasAlegre/morl-baselines#158.
        ("import torch as th\ndef f(self, p):\n  c = th.load(p)\n  self.b = c['replay_buffer']", "2.6.0", True),
        # snap-stanford/ogb#497: a dataset of graphs, saved and loaded as torch_geometric does.
        (
            f"{LOADS_GRAPHS}  def g(self, d): torch.save(self.collate(d), self.paths[0])",
            "2.6.0",
            True,
        ),
        (
            f"{LOADS_GRAPHS}  def g(self, m): torch.save(m.state_dict(), self.paths[0])",
            "2.6.0",
            False,
        ),
        ("def f(m, s): m.load_state_dict(torch.load(s.a))\ndef g(d, s): torch.save(d, s.a)", "2.6.0", False),
        ("def f(s):\n  d = torch.load(s.a)\n  return d['mu']\ndef g(d, s): torch.save(d, s.a)", "2.6.0", False),
        ("def f(p): return torch.load(p)\ndef g(d, p): torch.save(d, p)", "2.6.0", False),
        ("def f(s): return torch.load(s.a)\ndef g(d, s): torch.save(d, s.b)", "2.6.0", False),
        ("def f(p, m): m.load_state_dict(torch.load(p)['state_dict'])", "2.13.0", False),
        ("def f(p):\n  c = torch.load(p)\n  return c['epoch'], c['model']", "2.13.0", False),
        ("def f(p, o):\n  c = torch.load(p)\n  return o['config']", "2.13.0", False),
        ("def f(p): return torch.load(p, weights_only=False)['args']", "2.13.0", False),
        ("def f(p):\n  torch.serialization.add_safe_globals([A])\n  return torch.load(p)['args']", "2.13.0", False),
        ("def f(p): return json.load(p)['args']\ng = torch.load", "2.13.0", False),
    ],
)
def test_a_file_that_keeps_objects(body: str, release: str, *, told: bool) -> None:
    assert is_told(body, release) is told


OF_OMEGACONF = "import omegaconf\nclass M(L):\n  def __init__(self, config): self.save_hyperparameters(config)\n"
OF_ARGUMENTS = "class M(L):\n  def __init__(self, config{}, lr=1): self.save_hyperparameters({})\n"
TAKES_STATE = "def f(p, m):\n  c = torch.load(p)\n  m.load_state_dict(c.get('state_dict') or c)\n"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        # pytorch-tabular/pytorch_tabular#548.
        (f"{OF_OMEGACONF}{TAKES_STATE}", True),
        (f"{OF_OMEGACONF}def load(f): return torch.load(f, map_location='cpu')", True),
        (f"{OF_OMEGACONF}def f(p): return torch.load(p)['state_dict']", True),
        (f"{OF_ARGUMENTS.format('', '')}{TAKES_STATE}", True),
        (f"{OF_ARGUMENTS.format(': Config', 'logger=False')}{TAKES_STATE}", True),
        # The items of a namespace, and those of a dictionary, are kept as they are.
        (OF_OMEGACONF.replace("import omegaconf\n", "") + TAKES_STATE, False),
        (f"{OF_ARGUMENTS.format(': dict[str, int]', '')}{TAKES_STATE}", False),
        (f"{OF_ARGUMENTS.format('', 'ignore=[{!r}]'.format('config'))}{TAKES_STATE}", False),
        (f"import omegaconf\n{OF_ARGUMENTS.format('', repr('lr'))}{TAKES_STATE}", False),
        (f"{OF_OMEGACONF.replace('(config)', '(lr)')}{TAKES_STATE}", False),
        (f"{OF_OMEGACONF}def f(p, m): m.load_state_dict(torch.load(p)['model'])", False),
        (f"{OF_OMEGACONF}{TAKES_STATE.replace('(p)', '(p, weights_only=True)')}", False),
        (TAKES_STATE, False),
    ],
)
def test_a_checkpoint_of_lightning(body: str, *, told: bool) -> None:
    """What of it torch 2.13 refuses: a ``DictConfig``, and objects of other classes."""
    assert is_told(body) is told


OF_RATES = "import numpy as np\ndef g(o): return LambdaLR(o, {})\n"
OF_FUNCTION = "import numpy as np\ndef g(o):\n  def h(i):\n    {}\n  return lr_scheduler.LambdaLR(o, lr_lambda=h)\n"
RESUMES = "def f(p, o):\n  c = torch.load(p)\n  o.load_state_dict(c['optimizers'])\n"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        # nerfstudio-project/nerfstudio#3702.
        (f"{OF_FUNCTION.format('r = np.exp(-i)*2; return max(r, 0)')}{RESUMES}", True),
        (f"{OF_RATES.format('lambda i: 0.5 * (1 + np.cos(i))')}{RESUMES}", True),
        (f"{OF_RATES.format('lambda i: 0.5 ** i')}{RESUMES}", False),
        (f"{OF_RATES.format('lambda i: float(np.cos(i))')}{RESUMES}", False),
        (f"{OF_FUNCTION.format('r = np.exp(-i).item(); return max(r, 0)')}{RESUMES}", False),
        (f"{OF_FUNCTION.format('np.seterr(); return 3')}{RESUMES}", False),
        (OF_RATES.format("lambda i: np.cos(i)") + RESUMES.replace("optimizers", "model"), False),
        (OF_RATES.format("lambda i: np.cos(i)") + RESUMES.replace("(p)", "(p, weights_only=True)"), False),
        (RESUMES, False),
    ],
)
def test_a_learning_rate_of_numpy(body: str, *, told: bool) -> None:
    """``{"optimizers": o.state_dict()}`` has a ``numpy.float64`` then: torch 2.13 refuses the file."""
    assert is_told(body) is told


def test_functions_that_are_parsed_when_they_are_asked_for() -> None:
    """Those of a module deeper down, whose text is searched for what loads something."""
    body = f"import torch\ndef f(p):\n  c = torch.load(p)\n  {'a' * 99} = 3\n  return c['args']\n"
    sources = TextSources({"pack/__init__.py": "", "pack/deep/__init__.py": "", "pack/deep/part.py": body})
    reader = PackageReader(sources, ["pack"])
    (load,) = reader.open_loads(FakeWorld(torch_names=embedded_names.names("2.13.0")))
    assert (load.file, load.line) == ("pack/deep/part.py", 3)


@pytest.mark.parametrize(
    ("saved", "told"),
    [
        # Whether torch 2.13 says UnpicklingError: Weights only load failed, with A a class of this module.
        ("A()", True),
        ("(A(), 3)", True),
        ("[A() for _ in range(2)]", True),
        ("[1, 2]", False),
        ("'text'", False),
        ("torch.zeros(3)", False),
        ("(torch.zeros(2), 3)", False),
        ("torch.zeros(3).detach().cpu()", False),
        ("torch.Size([3])", False),
        ("collections.Counter('ab')", False),
        ("collections.OrderedDict(a=1)", False),
    ],
)
def test_what_is_saved_in_the_same_place(saved: str, *, told: bool) -> None:
    assert is_told(f"def f(): return torch.load('m.pt')\ndef g(): torch.save({saved}, 'm.pt')") is told
    assert is_told(f"def f(): return torch.load('m.pt')\ndef g():\n  x = {saved}\n  torch.save(x, 'm.pt')") is told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("class A:\n  def f(self): return torch.load(self.p)\n  def g(self): torch.save(self.make(), self.p)", True),
        ("class A:\n  def f(self): return torch.load(self.p)\n  def g(self): torch.save(self, self.p)", True),
        ("class A:\n  def f(self): return torch.load(self.p)\nclass B:\n  def g(self): torch.save(B(), self.p)", False),
        ("class A:\n  def f(self, i): return torch.load(i.p)\n  def g(self, i): torch.save(A(), i.p)", False),
        ("def f(s): return torch.load(s.a)\ndef g(s): torch.save(A(), s.a)", False),
        ("def f(): return torch.load('a')\ndef g(d): torch.save(d, 'a')", False),  # what it is, is not known
        ("def f():\n  z: object = torch.load('a')\n  return z['mu']\ndef g(): torch.save(A(), 'a')", False),
        ("def f():\n  if z := torch.load('a'): return z['mu']\ndef g(): torch.save(A(), 'a')", False),
    ],
)
def test_what_is_the_same_place(body: str, *, told: bool) -> None:
    assert is_told(body) is told


@pytest.mark.parametrize(
    "body",
    [
        "def f(s):\n  c = torch.load('m')\n  x" + "".join(f".a{i}()" for i in range(250)),
        "def f(s):\n  c = torch.load('m')\n  s.x[0x" + "f" * 5000 + "]()",
        "def f(s): return torch.load('m')\ndef h(d): torch.save(A(), " + " + ".join(["'a'"] * 400) + ")",
        "def f(s): return torch.load('m')\ndef h(d): torch.save(A(), 'a'[0x" + "f" * 5000 + "])",
    ],
    ids=["chain", "number", "path", "number in a path"],
)
def test_what_cannot_be_written(body: str) -> None:
    compile(body, "pack/__init__.py", "exec")

    assert is_told(f"{body}\ndef g(): torch.save(A(), 'm')")


def test_a_class_that_cannot_be_written() -> None:
    chain = "x" + "".join(f".a{i}()" for i in range(250))
    body = f"class A:\n  def f(self, p):\n    {chain}.y = torch.load(p)\n    {chain}.eval()\n    torch.save({chain}, p)"
    compile(body, "pack/__init__.py", "exec")
    tree = ast.parse(body)

    assert not list(whole_loads(tree))
    assert not list(kept_as_modules(tree.body[0]))  # type: ignore[arg-type]


SAVES = "import numpy as np\nclass A:\n  def save(self, p): torch.save({'m': self.m.state_dict(), 'k': %s}, p)\n"
LOADS = "  def load(self, p):\n    c = torch.load(p)\n    self.put(c)\n  def put(self, checkpoint): checkpoint['k']\n"


@pytest.mark.parametrize(
    ("value", "more", "told"),
    [
        # Whether torch 2.6 says UnpicklingError: Weights only load failed of a file with the value.
        ("np.random.get_state()", "", True),  # pykeen/pykeen#1494
        ("np.mean([1.0])", "", True),
        ("(1, self.a)", "  def f(self): self.a.append(np.mean([1]))\n", True),  # MIC-DKFZ/nnUNet#2717
        ("self.a", "  def f(self): self.a = np.mean([1])\n", True),
        ("self.a + 1", "  def f(self): self.a = np.mean([1])\n", True),
        ("float(np.mean([1.0]))", "", False),
        ("np.mean([1.0]).item()", "", False),
        ("np.inf", "", False),
        ("self.a", "  def f(self): self.a = 1\n", False),
        ("torch.random.get_rng_state()", "", False),
    ],
)
def test_what_a_checkpoint_of_its_own_keeps(value: str, more: str, *, told: bool) -> None:
    assert is_told(SAVES % value + LOADS + more, "2.6.0") is told
    assert not is_told(SAVES % value + LOADS + more, "2.5.1")


@pytest.mark.parametrize(
    ("key", "bound", "told"),
    [
        ("best_performance", "value", True),  # alex-petrenko/sample-factory#313: what an evaluation returns
        ("_best_ema", "self.logger.log['ema'][-1]", True),  # hhaentze/MRSegmentator#19
        ("best_performance", "float(value)", False),
        ("best_performance", "value.item()", False),
        ("best_epoch", "value", False),
        ("epoch", "value", False),
    ],
)
def test_what_was_measured(key: str, bound: str, *, told: bool) -> None:
    makes = f"  def make(self): return {{'{key}': self.b, 'm': self.m.state_dict()}}\n"
    saves = "  def save(self, p): torch.save(self.make(), p)\n"
    asks = f"  def load(self, p): return torch.load(p)\n  def put(self, ckpt): self.b = ckpt.get('{key}')\n"
    measures = f"  def __init__(self): self.b = -1.0\n  def f(self, value): self.b = {bound}\n"
    assert is_told(f"class A:\n{measures}{makes}{saves}{asks}", "2.6.0") is told


@pytest.mark.parametrize(
    ("load", "told"),
    [
        ("c = torch.load(p); self.m.load_state_dict(c)", False),  # one of the optimizer, beside that of the generators
        ("c = torch.load(p); s = self.m.scatter_full_optim_state_dict(c); self.o.load_state_dict(s)", False),
        ("c = torch.load(p); c['x'] = 1; self.m.load_state_dict(c)", False),
        ("c = torch.load(p); self.load_state_dict(c)", True),
        ("c = torch.load(p); self.m.load_state_dict(c['m'])", True),
        ("c = torch.load(p); c.get('k'); self.m.load_state_dict(c)", True),
    ],
)
def test_a_state_is_none_of_the_checkpoints_with_values_of_numpy(load: str, *, told: bool) -> None:
    saves = SAVES % "np.mean([1])"
    assert is_told(f"{saves}  def load(self, p): {load}\n  def put(self, ckpt): ckpt['k']", "2.6.0") is told


def test_a_key_that_nothing_asks_for() -> None:
    saves = SAVES % "np.mean([1])"
    assert not is_told(saves + LOADS.replace("checkpoint['k']", "checkpoint['m']"))
    assert not is_told(saves + "  def load(self, p, ckpt): m.load_state_dict(torch.load(p)); ckpt['k']")


@pytest.mark.parametrize(
    ("body", "said", "told"),
    [
        ("def load_torch_state(f): return torch.load(f)", "False", True),  # flairNLP/flair#3607
        ("def load_torch_state(f): return torch.load(f)", "True", False),
        ("def load_data(f): return torch.load(f)", "True", True),
        ("def f(p, o):\n  c = torch.load(p)\n  Checkpoint.load_objects(o, checkpoint=c)", "True", True),  # hyrax#537
        ("def f(p, m):\n  c = torch.load(p)\n  m.load_state_dict(c)", "False", False),
        ("def f(p, m):\n  c = torch.load(p)\n  m.put(state_dict=c)", "False", False),
        ("def f(p):\n  c = torch.load(p)\n  return len(c)", "False", False),
        ("def f(p): return torch.load(p)['epoch']", "False", False),
    ],
)
def test_what_is_handed_on_by_who_knows_the_argument(body: str, said: str, *, told: bool) -> None:
    knows = f"def other(p): m.load_state_dict(torch.load(p, weights_only={said}))\n"
    assert is_told(f"{knows}{body}", "2.6.0") is told
    assert not is_told(f"{knows.replace(f', weights_only={said}', '')}{body}", "2.6.0")
