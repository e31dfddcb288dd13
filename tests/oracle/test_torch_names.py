"""What is said of torch's names, compared with the torch that runs: in its modules, and in packages that use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.inputs import interpreter
from abiscan.python.installed import Surroundings
from abiscan.python.model import Raised
from abiscan.python.reading import PackageReader
from abiscan.python.torch_classes import CLASSES
from abiscan.python.torch_names import TorchNames
from abiscan.rules import missing_torch_name
from abiscan.torches import embedded_names, unlisted_torch_names
from abiscan.torches.name_history import history
from tests import live_torch
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

RELEASE: Final = live_torch.version() or ""

pytestmark = pytest.mark.skipif(
    RELEASE not in embedded_names.table().releases, reason="needs a torch whose release is embedded"
)

_MODULES: Final = """
import importlib, json, sys, types
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except Exception:
        pass
modules = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "torch"}
print(json.dumps({name: sorted(dir(module)) for name, module in modules.items()
                  if isinstance(module, types.ModuleType)}))
"""
FURTHER: Final = (
    *("torch.distributed.tensor", "torch.distributed.fsdp", "torch.ao.quantization", "torch.ao.nn.quantized"),
    *("torch.utils.cpp_extension", "torch.utils.tensorboard", "torch.onnx", "torch._inductor.lowering"),
    *("torch._dynamo.config", "torch.fx.experimental.proxy_tensor", "torch.nn.utils.parametrize", "torch._export"),
)
"""Modules that ``import torch`` does not import."""


@pytest.fixture(scope="module")
def modules() -> dict[str, list[str]]:
    return dict(json.loads(live_torch.run(_MODULES, *FURTHER, check=True).stdout))


@pytest.fixture(scope="module")
def names() -> TorchNames:
    known = embedded_names.names(RELEASE)
    assert known
    return known


def test_no_name_is_lacking_that_is_there(modules: dict[str, list[str]], names: TorchNames) -> None:
    lacking = {(module, name) for module, bound in modules.items() for name in bound if names.lacks(module, name)}

    assert len(modules) > 700
    assert not lacking
    assert not [module for module in modules if names.has_module(module) is False]


def test_the_files_on_disk_say_the_same(modules: dict[str, list[str]]) -> None:
    folder = interpreter.installed_torch()
    assert folder
    own = TorchNames(unlisted_torch_names._Folder(folder), embedded_names.was_there)
    some = ("torch", "torch.library", "torch.nn", "torch.nn.functional", "torch.cuda", "torch._C", "torch.amp")

    assert not [(module, name) for module in some for name in modules[module] if own.lacks(module, name)]


_ATTRIBUTES: Final = """
import json, sys, torch, torch.library, torch.optim, torch.utils.data
def resolve(name):
    value = torch
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value
print(json.dumps({name: [*dir(resolve(name)), *dir(type(resolve(name)))] for name in sys.argv[1:]}))
"""


@pytest.mark.parametrize("on_disk", [False, True])
def test_no_attribute_of_a_class_is_lacking_that_is_there(tmp_path: Path, *, on_disk: bool, names: TorchNames) -> None:
    folder = interpreter.installed_torch()
    assert folder
    known = unlisted_torch_names.names(folder, tmp_path) if on_disk else names
    real: dict[str, list[str]] = json.loads(live_torch.run(_ATTRIBUTES, *sorted(CLASSES), check=True).stdout)

    assert sum(map(len, real.values())) > 1000
    assert not [(cls, name) for cls, bound in real.items() for name in bound if known.lacks(cls, name)]
    assert all(known.lacks(cls, "abiscan_nope") for cls in CLASSES - {"torch.jit.ScriptModule"})


def test_the_files_of_the_installed_torch_are_those_of_its_release(tmp_path: Path) -> None:
    folder = interpreter.installed_torch()
    assert folder
    assert isinstance(unlisted_torch_names.names(folder, tmp_path).source, unlisted_torch_names._ReleaseFiles)


def test_every_release_has_the_digest_of_its_files() -> None:
    bits = embedded_names.table().releases_of(embedded_names.SOURCES).values()
    assert sum(bit.bit_count() for bit in bits) == len(embedded_names.table().releases)


def test_most_names_are_certain(modules: dict[str, list[str]], names: TorchNames) -> None:
    bound = [(module, name) for module, several in modules.items() for name in several if not name.startswith("__")]
    certain = [pair for pair in bound if names.has(*pair)]

    assert len(certain) > 0.75 * len(bound)


_IMPORT: Final = """
import json, sys
sys.path.insert(0, sys.argv[1])
try:
    import pack
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
else:
    print("null")
"""
CASES: Final = {
    "attribute": "import torch\ntorch.nope",
    "attribute_of_a_module": "import torch\ntorch.library.nope",
    "decorator": "import torch\n@torch.cuda.amp.nope\ndef f(x): ...",
    "call_of_what_is_compiled": "import torch\ntorch._C._nope()",
    "base_class": "import torch\nclass A(torch.nn.Nope): ...",
    "alias": "import torch.nn.functional as F\nF.nope",
    "from_torch": "from torch import nope",
    "from_a_module": "from torch.library import nope",
    "from_what_is_compiled": "from torch._C import nope",
    "from_a_module_with_a_hook": "from torch.utils.cpp_extension import nope",
    "module": "import torch.nope",
    "module_in_no_package": "import torch.amp.autocast_mode.nope",
    "module_that_is_gone": "import torch._six",
    "module_that_moved": "from torch.onnx._globals import GLOBALS",
    "overload": "import torch\ntorch.ops.aten.add.Nope",
    "operator": "import torch\ntorch.ops.aten.nope_op",
    "guarded": "import torch\ntry:\n    from torch import nope\nexcept ImportError:\n    nope = 1\nassert nope == 1",
    "asked_for": "import torch\nassert not hasattr(torch, 'nope')\nassert getattr(torch, 'nope', 3) == 3",
    "asked_for_and_there": "import torch\nif hasattr(torch, 'compile'):\n    raise OSError('there')",
    "set_before": "import torch\ntorch.mine = 3\nassert torch.mine == 3",
    "attribute_of_a_class": "import torch\ntorch.Tensor.nope",
    "attribute_of_a_compiled_class": "import torch\ntorch.Generator.nope",
    "attribute_in_a_class": "import torch.nn as nn\nclass A(nn.Module):\n    x = nn.Module.nope",
    "attribute_of_a_library": "import torch\ntorch.library.Library('abiscan_nope', 'FRAGMENT').nope",
    "attribute_of_a_class_asked_for": "import torch\nassert not hasattr(torch.Tensor, 'nope')\n"
    "assert hasattr(torch.nn.Module, 'register_module') and getattr(torch.Tensor, 'nope', 3) == 3",
    "module_with_a_compiled_name": "import torch.relu",
    "there": "import torch\nfrom torch import nn, Tensor, float32, randn\nfrom torch._C import _jit_script_compile\n"
    "torch.special.erf, torch.int8, torch.cuda.FloatTensor, torch.strided, torch.ops.aten.add.str, torch.ops.aten.len",
    "made_by_code": "import torch\ntorch._dynamo.config.suppress_errors\ntorch.backends.cudnn.enabled",
    "no_file": "import torch.classes, torch.ops",
}


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_raises_what_python_raises(name: str, tmp_path: Path, *, on_disk: bool, names: TorchNames) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text(CASES[name] + "\n")
    real: Any = json.loads(live_torch.run(_IMPORT, tmp_path, check=True).stdout.splitlines()[-1])
    folder = interpreter.installed_torch()
    assert folder
    operators = frozenset({"aten::add", "aten::add.str", "aten::len"})
    world = FakeWorld(
        torch_names=unlisted_torch_names.names(folder, tmp_path) if on_disk else names, operators=operators
    )
    around = Surroundings(torch_folder=folder) if on_disk else None

    raised = reading_of({"pack/__init__.py": CASES[name] + "\n"}, world, around).imports[0].raised

    assert raised is None or isinstance(raised, Raised)
    said = None if raised is None else [raised.exception, raised.message]
    if real is not None and not on_disk:  # a release has no folder
        real[1] = real[1].replace(f"{folder.parent}/", "")
    assert said == real


AT_IMPORT: Final = {
    "annotation": "import torch\ndef f(x: torch.nope): ...",
    "annotation_in_lines": "import torch\ndef f(\n    x: torch.Tensor,\n    y: torch.nope = None,\n): ...",
    "annotation_of_a_method": "from torch import nn\nclass A:\n    async def f(self) -> nn.Nope: ...",
    "annotation_with_a_value": "import torch\nx: torch.nope = None",
    "annotation_as_text": "import torch\ndef f(x: 'torch.nope'): ...",
    "called": "import torch\ndef g():\n    torch.nope\ng()",
    "made": "import torch\nclass A:\n    def __init__(self):\n        torch.nn.nope\nA()",
    "decorating": "def wrap(f):\n    from torch import nope\n@wrap\ndef g(): ...",
    "keyword": "import torch\n@torch.compile(nope=True)\ndef f(): ...",
    "keyword_of_a_name": "from torch.amp import custom_fwd\n@custom_fwd(device_type='cpu', nope=1)\ndef f(): ...",
    "keyword_of_a_private_module": "import torch\nf = torch._dynamo.disable(\n    nope=1\n)",
    "keyword_of_an_operator": "import torch\n@torch.library.register_fake('aten::add', nope=1)\ndef f(): ...",
    "option": "import torch._dynamo\ntorch._dynamo.config.print_graph_breaks",
    "option_set": "import torch._inductor.config as c\nc.c_shim_version = 1",
    "option_there": "import torch._dynamo\ntorch._dynamo.config.verbose = True\ntorch._dynamo.config.patch",
    "part_of_what_moved": "from torch.distributed._tensor.ops.utils import x",
    "made_for_what_moved": "import torch.distributed._tensor.device_mesh\nfrom torch.distributed._tensor import Shard",
}


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("name", AT_IMPORT)
def test_a_module_of_a_package_raises_what_python_raises(
    name: str, tmp_path: Path, *, on_disk: bool, names: TorchNames
) -> None:
    files = {"pack/__init__.py": "from . import sub\n", "pack/sub.py": AT_IMPORT[name] + "\n"}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    real: Any = json.loads(live_torch.run(_IMPORT, tmp_path, check=True).stdout.splitlines()[-1])
    folder = interpreter.installed_torch()
    assert folder
    known = unlisted_torch_names.names(folder, tmp_path) if on_disk else names

    raised = reading_of(files, FakeWorld(torch_names=known), Surroundings(torch_folder=folder)).imports[0].raised

    assert raised is None or isinstance(raised, Raised)
    assert (None if raised is None else [raised.exception, raised.message]) == real


KEYWORDS: Final = {
    "keyword": "import torch\ntorch.set_default_device(gadget=1)",
    "keyword_of_a_module": "from torch.nn import functional as F\nF.relu(1, inplaced=True)",
    "keyword_of_a_name": "from torch.nn.utils.rnn import pad_sequence\npad_sequence([], gadget=1)",
    "keyword_guarded": "import torch\ntry:\n    torch.set_default_device(gadget=1)\nexcept TypeError:\n    pass",
    "keyword_there": "import torch\ntorch.nn.functional.relu(torch.ones(1), inplace=True)\ntorch.compile(dynamic=True)",
}


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("name", KEYWORDS)
def test_a_keyword_that_a_function_does_not_take(
    name: str, tmp_path: Path, *, on_disk: bool, names: TorchNames
) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text(KEYWORDS[name] + "\n")
    real: Any = json.loads(live_torch.run(_IMPORT, tmp_path, check=True).stdout.splitlines()[-1])

    folder = interpreter.installed_torch()
    assert folder
    world = FakeWorld(torch_names=unlisted_torch_names.names(folder, tmp_path) if on_disk else names)

    raised = reading_of({"pack/__init__.py": KEYWORDS[name] + "\n"}, world).imports[0].raised

    assert raised is None or isinstance(raised, Raised)
    assert (None if raised is None else [raised.exception, raised.message]) == real


_CALL: Final = """
import json, sys
sys.path.insert(0, sys.argv[1])
import pack
try:
    pack.f()
except Exception as error:
    print(json.dumps([type(error).__name__, str(error)]))
else:
    print("null")
"""


@pytest.mark.parametrize(
    "body",
    [
        "import torch\ndef f():\n    torch.autograd.profiler.format_time(1.0)",
        "import torch\ndef f():\n    torch._six.inf",
        "def f():\n    from torch._six import inf",
        "def f():\n    import torch.onnx._globals",
        "import torch.onnx\ndef f():\n    torch.onnx.dynamo_export",
    ],
)
def test_a_function_that_uses_a_missing_name_raises(body: str, tmp_path: Path, names: TorchNames) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text(body)
    real: Any = json.loads(live_torch.run(_CALL, tmp_path, check=True).stdout.splitlines()[-1])
    reader = PackageReader(TextSources({"pack/__init__.py": body}), ["pack"])

    uses = reader.later_uses(FakeWorld(torch_names=names))

    (finding,) = missing_torch_name.list_findings(uses, history(uses[0].name), "pack", f"torch {RELEASE}")
    assert finding.says == real[1]
