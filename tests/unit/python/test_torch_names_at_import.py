"""Names of torch that are used as a package is imported, though not by the body of a module that is run anyway."""

from __future__ import annotations

import pytest

from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import Answer, Raised, Reading
from abiscan.python.package.sources import PackageFiles
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

ANNOTATION = "import torch\ndef f(x: torch.nope): ...\n"


def reading(code: str, release: str = "2.13.0", **world: object) -> Reading:
    files = {"pack/__init__.py": "from . import sub\n", "pack/sub.py": code}
    return reading_of(files, FakeWorld(torch_names=embedded_names.names(release), **world))  # type: ignore[arg-type]


def raised(code: str, release: str = "2.13.0", **world: object) -> str | None:
    outcome = reading(code, release, **world).imports[0].raised
    return f"{outcome.exception}: {outcome.message}" if isinstance(outcome, Raised) else None


@pytest.mark.parametrize(
    ("release", "is_listed"), [("1.6.0", False), ("1.7.0", True), ("1.7.1", True), ("1.8.0", False)]
)
def test_what_a_module_lists_and_lacks(release: str, *, is_listed: bool) -> None:
    """From torch/utils/data/__init__.py of the four releases; euagendas/m3inference#12 reports it."""
    text = "AttributeError: module 'torch.utils.data' has no attribute 'BatchSamplerDistributedSamplerDataset'"
    for code, fails in {"import *": is_listed, "import Dataset": False}.items():
        assert raised(f"from torch.utils.data {code}", release, torch_version=release) == (text if fails else None)


@pytest.mark.parametrize(
    ("code", "release", "fails"),
    [
        # huggingface/transformers#47480.
        ("from torch.distributed.tensor import DTensor", "2.4.0", True),
        ("from torch.distributed.tensor import DTensor", "2.5.0", False),
        # torch/csrc/tensor/python_tensor.cpp makes them; torch 2.13.0 has all of them.
        ("from torch import FloatTensor, uint1", "2.13.0", False),
        ("from torch.cuda import FloatTensor", "2.13.0", False),
        ("import torch.sparse\ntorch.sparse.FloatTensor, torch.cuda.sparse.DoubleTensor", "2.13.0", False),
    ],
)
def test_the_type_of_a_tensor(code: str, release: str, *, fails: bool) -> None:
    text = "ImportError: cannot import name 'DTensor' from 'torch.distributed.tensor'"
    message = raised(code, release, torch_version=release)
    assert message is None if not fails else (message or "").startswith(text)


NOPE = "AttributeError: module 'torch' has no attribute 'nope'"


@pytest.mark.parametrize(
    "code",
    [
        ANNOTATION,
        "import torch\ndef f(\n    x: torch.Tensor,\n    y: torch.nope = None,\n) -> None:\n    return x",
        "import torch\ndef f(x) -> list[torch.nope]: ...",
        "import torch\nclass A:\n    async def f(self, *x: torch.nope): ...",
        "import torch\nx: torch.nope = None",
        "import torch\nclass A:\n    x: torch.Tensor | torch.nope",
        "import torch\ndef g():\n    torch.nope\ng()",
        "import torch\nclass A:\n    def __init__(self):\n        self.x = torch.nope\nX = A()",
        "import torch\ndef wrap(f):\n    torch.nope\n    return f\n@wrap\ndef g(): ...",
        "import torch\ndef g():\n    torch.nope\ndef h():\n    g()\nh()",
    ],
)
def test_what_runs_at_import_raises(code: str) -> None:
    assert raised(code) == NOPE


@pytest.mark.parametrize(
    "code",
    [
        "from __future__ import annotations\n" + ANNOTATION,
        "import torch\ndef f(x: 'torch.nope'): ...",
        "import torch\ndef g():\n    x: torch.nope = None\ng()",
        "import torch\ndef g():\n    torch.nope\n",
        "import torch\nclass A:\n    def f(self):\n        torch.nope\nA()",
        'import torch\ndef f(x):\n    """\n    def f(x: torch.nope): ...\n    """\n',
        "import torch\nif hasattr(torch, 'nope'):\n    def f(x: torch.nope): ...",
        "import torch\ntry:\n    def f(x: torch.nope): ...\nexcept AttributeError:\n    pass",
        "import torch\ntorch.nope = int\ndef f(x: torch.nope): ...",
        "import torch\nif True: torch.nope = int\ndef f(x: torch.nope): ...",
        "import torch\ndef g():\n    if hasattr(torch, 'nope'):\n        torch.nope\ng()",
    ],
)
def test_what_does_not_run_or_is_guarded_raises_nothing(code: str) -> None:
    assert raised(code) is None


def test_python_3_14_evaluates_no_annotations() -> None:
    assert raised(ANNOTATION, python=(3, 13)) == NOPE
    assert raised(ANNOTATION, python=(3, 14)) is None


def test_a_python_that_is_not_known_is_one_that_the_release_runs_in() -> None:
    # Python 3.14 came in October 2025; there is no torch 2.5.1 for it.
    assert raised(ANNOTATION, python=Answer.UNKNOWN, newest_python=(3, 13)) == NOPE
    either = reading(ANNOTATION, python=Answer.UNKNOWN, newest_python=(3, 14)).imports
    assert {"Python is older than 3.14" in str(outcome.conditions) for outcome in either} == {True}


@pytest.mark.parametrize(
    ("code", "release", "text"),
    [
        # custom_fwd is defined in torch.amp.autocast_mode; compile has overloads; disable is private, and got its
        # reason in 2.8.
        (
            "from torch.amp import custom_fwd\n@custom_fwd(device_type='cuda', nope=1)\ndef f(): ...",
            "2.13.0",
            "custom_fwd() got an unexpected keyword argument 'nope'",
        ),
        (
            "import torch\n@torch.compile(nope=True)\ndef f(): ...",
            "2.13.0",
            "compile() got an unexpected keyword argument 'nope'",
        ),
        (
            "import torch\n@torch._dynamo.disable(reason='x')\ndef f(): ...",
            "2.5.1",
            "disable() got an unexpected keyword argument 'reason'",
        ),
        ("import torch\n@torch._dynamo.disable(reason='x')\ndef f(): ...", "2.8.0", None),
        (
            "import torch\n@torch.library.register_fake('a::b', nope=1)\ndef f(): ...",
            "2.13.0",
            "register_fake() got an unexpected keyword argument 'nope'",
        ),
        ("import torch\nf = torch.compile(\n    fullgraph=True, options={'a': dict(nope=1)}\n)", "2.13.0", None),
        ("import torch\ndef f():\n    return torch.compile(nope=True)", "2.13.0", None),
    ],
)
def test_a_keyword_that_a_function_does_not_take_raises(code: str, release: str, text: str | None) -> None:
    assert raised(code, release) == (None if text is None else f"TypeError: {text}")


def test_a_class_that_is_imported_from_has_no_file() -> None:
    # A running torch 2.13.0 says "No module named 'torch.nn.Module'", in a subclass of ImportError.
    outcome = reading("from torch.nn.Module import nope").imports[0].raised
    assert isinstance(outcome, Raised)
    assert (outcome.exception, outcome.message) == ("ImportError", None)


def test_an_option_that_a_release_does_not_have_can_neither_be_read_nor_set() -> None:
    # print_graph_breaks is of torch 2.0; a running 2.13.0 says so of it (tests/oracle/test_torch_names.py).
    here = "import torch._dynamo\ntorch._dynamo.config.suppress_errors = True"
    assert raised(here) is None
    for code in ("torch._dynamo.config.print_graph_breaks", "torch._dynamo.config.print_graph_breaks = True"):
        text = raised(f"import torch._dynamo\n{code}")
        assert text == "AttributeError: torch._dynamo.config.print_graph_breaks does not exist"
    assert raised("import torch._dynamo.config as c\nif hasattr(c, 'print_graph_breaks'):\n    raise OSError") is None
    assert raised("import torch._dynamo.config as c\nc.patch, c.save_config") is None


@pytest.mark.parametrize(
    ("text", "is_set"),
    [
        ("x: torch.nope = 1", False),
        ("def f(a: int, x: torch.nope = 1): ...", False),
        ("x: int | torch.nope = 1", False),
        ("torch.nope = 1", True),
        ("try: torch.nope = 1\nexcept TypeError: ...", True),
        ("if a: torch.nope = 1", True),
        ("else_ = 1\nif a: ...\nelse: torch.nope = 1", True),
        ("torch.nope: int = 1", True),
        ("setattr(torch, 'nope', 1)", True),
    ],
)
def test_an_annotation_with_a_value_sets_nothing(text: str, *, is_set: bool) -> None:
    code = PythonCode(PackageFiles(TextSources({"pack/__init__.py": text})), ["pack"], (3, 11))

    assert code.may_set("nope") is is_set


NOT_IMPORTED = "AttributeError: module 'torch.utils' has no attribute 'benchmark'"
USE = "torch.utils.benchmark.Timer"
NO_FX = "AttributeError: module 'torch' has no attribute 'fx'"


@pytest.mark.parametrize(
    ("code", "release", "text"),
    [
        (f"import torch\n{USE}", "2.13.0", NOT_IMPORTED),
        (f"import torch, numpy\n{USE}", "2.4.1", NOT_IMPORTED),
        (f"import torch.utils.benchmark\n{USE}", "2.13.0", None),
        # A package that is not read may import it.
        (f"import torch, torchvision\n{USE}", "2.13.0", None),
        (f"import torch\ntorch.utils.benchmark = 1\n{USE}", "2.13.0", None),
        (f"import torch\nfor name in ['torch.utils.benchmark']:\n    __import__(name)\n{USE}", "2.13.0", None),
        # Nothing compiled is called ``torch.fx``; torchvision imports it since 0.11, which requires 1.10.0.
        ("import torch\ntorch.fx.wrap", "1.9.1", NO_FX),
        ("import torch, torchvision\ntorch.fx.wrap", "1.9.1", NO_FX),
        ("import torch, torchvision\ntorch.fx.wrap", "1.10.0", None),
        ("import torch, torchmetrics\ntorch.fx.wrap", "1.9.1", None),
        ("import torch\ntorch.fx.wrap", "1.13.1", None),
        # torch._inductor, which torch.compile imports, imports it.
        ("import torch\ntorch.utils.cpp_extension", "2.13.0", None),
    ],
)
def test_a_module_that_nothing_imported_is_no_attribute(code: str, release: str, text: str | None) -> None:
    assert raised(code, release) == text


@pytest.mark.parametrize(
    ("use", "release", "text"),
    [
        # Both are methods of torch 2.12.1, and not of 2.13.0; the first is compiled.
        ("torch.Tensor.align_as", "2.13.0", "AttributeError: type object 'Tensor' has no attribute 'align_as'"),
        ("torch.Tensor.align_to", "2.13.0", "AttributeError: type object 'Tensor' has no attribute 'align_to'"),
        ("torch.Tensor.align_as", "2.12.1", None),
        ("torch.Tensor.nope_of_optree", "2.13.0", None),
    ],
)
def test_a_package_that_may_bring_names_brings_none_that_torch_had(use: str, release: str, text: str | None) -> None:
    assert raised(f"import optree, torch\n{use}", release) == text


REGISTERED = """
import inspect, torch
known = {}
def register(cls):
    if cls.__name__ in known:
        raise KeyError(f"{cls.__name__} is already registered")
    known[cls.__name__] = cls
for name in dir(torch.optim):
    value = getattr(torch.optim, name)
    if inspect.isclass(value) and issubclass(value, torch.optim.Optimizer):
        register(value)
"""


@pytest.mark.parametrize(
    ("name", "release", "text"),
    [
        ("Adafactor", "2.4.0", None),
        ("Adafactor", "2.5.0", "KeyError: 'Adafactor is already registered'"),
        ("Muon", "2.8.0", None),
        ("Muon", "2.9.0", "KeyError: 'Muon is already registered'"),
        ("Optimizer", "1.8.0", "KeyError: 'Optimizer is already registered'"),
        ("lr_scheduler", "2.13.0", None),
    ],
)
def test_a_name_that_a_registry_took_from_torch_is_taken(name: str, release: str, text: str | None) -> None:
    assert raised(f"{REGISTERED}class {name}: ...\nregister({name})\n", release) == text


def test_submodules_whose_names_are_deleted_may_be_listed_or_not() -> None:
    assert raised("import torch\nif 'adam' in dir(torch.optim):\n    raise ValueError\n") is None
    assert raised("import torch\nif 'Adam' in dir(torch.optim):\n    raise ValueError\n") == "ValueError: "


def test_a_package_that_only_some_way_imports_brings_no_names() -> None:
    way = "import importlib.util, torch\ndef has_mlu():\n    if importlib.util.find_spec('torch_mlu') is None:\n"
    way += "        return False\n    import torch_mlu\n    return torch.mlu.is_available()\nMLU = has_mlu()\n"
    assert raised(f"{way}torch.compiler\n", "2.0.1") == "AttributeError: module 'torch' has no attribute 'compiler'"
    assert raised("import torch, torch_mlu\ntorch.compiler\n", "2.0.1") is None


@pytest.mark.parametrize(
    ("code", "release", "expected"),
    [
        # hpcaitech/ColossalAI#2673.
        ("x = d._reduce_scatter_base if 'reduce_scatter_tensor' not in dir(d) else 0", "1.9.1", "_reduce_scatter_base"),
        ("x = d._reduce_scatter_base if 'reduce_scatter_tensor' not in dir(d) else 0", "1.12.1", None),
        ("x = 0 if 'reduce_scatter_tensor' in dir(d) else d.nope", "2.13.0", None),
        ("x = 0 if 'nope' in dir(d) else d.nope", "2.13.0", "nope"),
    ],
)
def test_a_name_that_dir_lists(code: str, release: str, expected: str | None) -> None:
    error = expected and f"AttributeError: module 'torch.distributed' has no attribute '{expected}'"
    assert raised(f"import torch.distributed as d\n{code}", release) == error


@pytest.mark.parametrize("code", ["'nn' in dir(torch)", "sorted(dir(torch.distributed))[0] == 'a'", "3 in dir(torch)"])
def test_what_dir_does_not_tell(code: str) -> None:
    """A submodule may be listed only once it has been imported."""
    (outcome,) = reading_of(
        {"pack/__init__.py": f"import torch, torch.distributed\nif {code}:\n    torch.ops.load_library('a.so')\n"},
        FakeWorld(torch_names=embedded_names.names("2.13.0")),
    ).imports
    assert not isinstance(outcome.raised, Raised)


@pytest.mark.parametrize(
    ("code", "claim"),
    [
        ("x = dir(torch)\nx.append('zzz')", "'zzz' in x"),
        ("x = dir(torch.nn)\nx.extend(['new'])", "'new' in x"),
        ("x = dir(torch)\nx.remove('compile')", "'compile' not in x"),
        ("x = dir(torch)\nx.clear()", "'compile' not in x"),
        ("del torch.compile", "'compile' not in dir(torch)"),
        ("delattr(torch, 'compile')", "not hasattr(torch, 'compile')"),
        ("torch.__dir__ = lambda: ['new']", "'compile' not in dir(torch)"),
        ("del torch.optim.Adam", "'Adam' not in dir(torch.optim)"),
    ],
)
def test_what_code_changed_of_a_list_or_of_torch(code: str, claim: str) -> None:
    """All of these hold with torch 2.13.0."""
    assert raised(f"import torch\n{code}\nif not ({claim}):\n    raise ValueError\n") is None


@pytest.mark.parametrize(("text", "of_torch"), [("raise AttributeError(\"'torch.x'\")", False), ("torch.nope", True)])
def test_a_name_that_a_module_does_not_make(text: str, *, of_torch: bool) -> None:
    """The words of a package are no sign that torch lacks a name."""
    files = {"p/__init__.py": "from .b import foo\n", "p/b.py": f"import torch\ndef __getattr__(name):\n    {text}\n"}
    (outcome,) = reading_of(files, FakeWorld(torch_names=embedded_names.names("2.13.0"))).imports
    assert isinstance(outcome.raised, Raised)
    assert (outcome.raised.exception, outcome.raised.of_torch) == ("ImportError", of_torch)
