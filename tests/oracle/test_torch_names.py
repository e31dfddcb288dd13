"""What is said of torch's names, compared with the torch that runs: in its modules, and in packages that use them."""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.inputs import interpreter
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Raised
from abiscan.python.reading import PackageReader
from abiscan.python.torch_api.compiled_names import DTYPES_SINCE
from abiscan.python.torch_api.torch_classes import CLASSES
from abiscan.python.torch_api.torch_names import TorchNames
from abiscan.rules import missing_torch_name
from abiscan.torches import embedded_names, release_sets, unlisted_torch_names
from abiscan.torches.name_history import history
from tests import live_torch
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

RELEASE: Final = live_torch.version() or ""

pytestmark = pytest.mark.skipif(
    RELEASE not in embedded_names.releases(), reason="needs a torch whose release is embedded"
)

_OF_RELEASES: Final = (
    *(embedded_names.was_there, embedded_names.was_compiled),
    *(embedded_names.is_written, embedded_names.signatures_of),
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
MORE_ITEMS: Final = (
    *("torch.distributed.tensor", "torch.distributed.fsdp", "torch.ao.quantization", "torch.ao.nn.quantized"),
    *("torch.utils.cpp_extension", "torch.utils.tensorboard", "torch.onnx", "torch._inductor.lowering"),
    *("torch._dynamo.config", "torch.fx.experimental.proxy_tensor", "torch.nn.utils.parametrize", "torch._export"),
)
"""Modules that ``import torch`` does not import."""


@pytest.fixture(scope="module")
def modules() -> dict[str, list[str]]:
    return dict(json.loads(live_torch.run(_MODULES, *MORE_ITEMS, check=True).stdout))


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


def test_the_files_on_disk_say_the_same(modules: dict[str, list[str]], folder: Path) -> None:
    own = TorchNames(unlisted_torch_names._Folder(folder), *_OF_RELEASES)
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


def test_no_attribute_of_a_class_is_lacking_that_is_there(torch_names: TorchNames) -> None:
    real: dict[str, list[str]] = json.loads(live_torch.run(_ATTRIBUTES, *sorted(CLASSES), check=True).stdout)

    assert sum(map(len, real.values())) > 1000
    assert not [(cls, name) for cls, bound in real.items() for name in bound if torch_names.lacks(cls, name)]
    assert all(torch_names.lacks(cls, "abiscan_nope") for cls in CLASSES - {"torch.jit.ScriptModule"})


def test_the_files_of_the_installed_torch_are_those_of_its_release(tmp_path: Path, folder: Path) -> None:
    assert is_on_disk(unlisted_torch_names.names(folder, tmp_path))


def test_every_release_has_the_digest_of_its_files() -> None:
    bits = embedded_names.table().marks_of(embedded_names.SOURCES).values()
    assert sum(bit.bit_count() for bit in bits) == len(embedded_names.releases())


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


@functools.cache
def python_raises(**sources: str) -> list[str] | None:
    """Return the class and the text of what the import of ``pack`` raises, of sources by the names of its modules."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pack").mkdir()
        for module, source in sources.items():
            (Path(folder) / f"pack/{module}.py").write_text(source)
        raised: list[str] | None = json.loads(live_torch.run(_IMPORT, folder, check=True).stdout.splitlines()[-1])
    return raised


@pytest.fixture(scope="module")
def folder() -> Path:
    """The folder of the installed torch."""
    installed = interpreter.installed_torch()
    assert installed
    return installed


@pytest.fixture(scope="module", params=[False, True], ids=["a release", "on disk"])
def torch_names(
    request: pytest.FixtureRequest, names: TorchNames, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> TorchNames:
    """The names of the torch, by its release alone and as it is installed."""
    return unlisted_torch_names.names(folder, tmp_path_factory.mktemp("digest")) if request.param else names


def is_on_disk(names: TorchNames) -> bool:
    return isinstance(names.source, unlisted_torch_names._ReleaseFiles)


def said_to_raise(sources: Mapping[str, str], world: FakeWorld, around: Surroundings | None) -> list[str | None] | None:
    """Return what the import of ``pack`` is said to raise."""
    raised = reading_of(sources, world, around).imports[0].raised
    assert raised is None or isinstance(raised, Raised)
    return None if raised is None else [raised.exception, raised.message]


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
    "module_of_a_name_that_is_set_on_something": "class A: ...\na = A()\na.nope = 1\nimport torch.nope",
    "module_that_code_makes": "import sys, types\nm = types.ModuleType('torch.nope')\nm.x = 1\n"
    "sys.modules['torch.nope'] = m\nfrom torch.nope import x",
    "module_that_code_makes_by_its_last_name": "import sys, types\nfor name in ['nope']:\n"
    "    sys.modules['torch.' + name] = types.ModuleType(name)\nimport torch.nope",
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


@pytest.mark.parametrize("source", CASES.values(), ids=CASES)
def test_raises_what_python_raises(source: str, torch_names: TorchNames, folder: Path) -> None:
    raised = python_raises(__init__=source)
    if raised is not None and not is_on_disk(torch_names):  # a release has no folder
        raised = [raised[0], raised[1].replace(f"{folder.parent}/", "")]
    world = FakeWorld(torch_names=torch_names, operators=frozenset({"aten::add", "aten::add.str", "aten::len"}))
    around = Surroundings(torch_folder=folder) if is_on_disk(torch_names) else None

    assert said_to_raise({"pack/__init__.py": source}, world, around) == raised


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
    "not_imported": "import torch\ntorch.cuda.comm",
    "not_imported_deeper": "from torch import nn\nimport json\nX = nn.utils.prune.l1_unstructured",
    "not_imported_annotation": "import torch\ndef f(x: torch.utils.benchmark.Timer): ...",
    "not_imported_asked_for": "import torch\nassert not hasattr(torch.quantization, 'quantize_fx')",
    "imported_as_a_name": "import torch\nfrom torch.utils import benchmark\ntorch.utils.benchmark.Timer",
    "imported_in_a_function": "import torch\ndef g():\n    import torch.cuda.comm\ng()\ntorch.cuda.comm.broadcast",
    "imported_by_torch": "import torch\ntorch.utils.data.DataLoader, torch.optim.lr_scheduler, torch.profiler.profile",
    "made_for_what_moved": "import torch.distributed._tensor.device_mesh\nfrom torch.distributed._tensor import Shard",
}


@pytest.mark.parametrize("source", AT_IMPORT.values(), ids=AT_IMPORT)
def test_a_module_of_a_package_raises_what_python_raises(source: str, torch_names: TorchNames, folder: Path) -> None:
    package = "from . import sub\n"
    predicted = said_to_raise(
        {"pack/__init__.py": package, "pack/sub.py": source},
        FakeWorld(torch_names=torch_names),
        Surroundings(torch_folder=folder),
    )

    assert predicted == python_raises(__init__=package, sub=source)


_HAS_ATTRIBUTES: Final = """
import json, sys, torch
parts = [name.rpartition(".") for name in sys.argv[1:]]
print(json.dumps([f"{a}.{b}" for a, _, b in parts if a in sys.modules and hasattr(sys.modules[a], b)]))
"""


def test_what_import_torch_does_not_import(names: TorchNames) -> None:
    unloaded = [name for name in embedded_names.table().marks_of(release_sets.UNLOADED) if names.is_unloaded(name)]

    assert len(unloaded) > 100
    assert json.loads(live_torch.run(_HAS_ATTRIBUTES, *unloaded, check=True).stdout) == []


def test_which_element_types_there_are(names: TorchNames) -> None:
    code = (
        "import json, torch\nprint(json.dumps([a for a in dir(torch) if isinstance(getattr(torch, a), torch.dtype)]))"
    )
    there = set(json.loads(live_torch.run(code, check=True).stdout))

    assert {name for name in DTYPES_SINCE if names.has("torch", name)} == there & DTYPES_SINCE.keys()
    assert all(names.has("torch", name) is not False for name in there)


KEYWORDS: Final = {
    "keyword": "import torch\ntorch.set_default_device(gadget=1)",
    "keyword_of_a_module": "from torch.nn import functional as F\nF.relu(1, inplaced=True)",
    "keyword_of_a_name": "from torch.nn.utils.rnn import pad_sequence\npad_sequence([], gadget=1)",
    "keyword_guarded": "import torch\ntry:\n    torch.set_default_device(gadget=1)\nexcept TypeError:\n    pass",
    "keyword_there": "import torch\ntorch.nn.functional.relu(torch.ones(1), inplace=True)\ntorch.compile(dynamic=True)",
}


@pytest.mark.parametrize("source", KEYWORDS.values(), ids=KEYWORDS)
def test_a_keyword_that_a_function_does_not_take(source: str, torch_names: TorchNames) -> None:
    predicted = said_to_raise({"pack/__init__.py": source}, FakeWorld(torch_names=torch_names), None)

    assert predicted == python_raises(__init__=source)


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
        "import torch\ndef f():\n    torch.ops.aten._multinomial_alias_setup(f)",
        "import torch\ndef f():\n    torch.library.register_fake('aten::_multinomial_alias_setup')(f)",
        "import torch._inductor.config as config\ndef f():\n    config.abi_compatible = True",
    ],
)
def test_a_function_that_uses_a_missing_name_raises(body: str, tmp_path: Path, names: TorchNames) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack/__init__.py").write_text(body)
    real: Any = json.loads(live_torch.run(_CALL, tmp_path, check=True).stdout.splitlines()[-1])
    reader = PackageReader(TextSources({"pack/__init__.py": body}), ["pack"])

    uses = reader.later_uses(FakeWorld(torch_names=names))

    (finding,) = missing_torch_name.list_findings(uses, history(uses[0].name), "pack", f"torch {RELEASE}", RELEASE)
    assert finding.says == real[1]


_SIGNATURES: Final = """
import inspect, json, sys, torch
def text_of(function, is_method):
    parts, starred = [], False
    parameters = list(inspect.signature(function, follow_wrapped=False).parameters.values())[is_method:]
    for number, parameter in enumerate(parameters):
        kind, name = parameter.kind, parameter.name
        if kind is parameter.VAR_KEYWORD or kind is parameter.VAR_POSITIONAL:
            name = ("**" if kind is parameter.VAR_KEYWORD else "*") + name
        elif kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred |= kind in (parameter.VAR_POSITIONAL, parameter.KEYWORD_ONLY)
        parts.append(name + ("=" if parameter.default is not parameter.empty else ""))
        after = parameters[number + 1].kind if number + 1 < len(parameters) else None
        if kind is parameter.POSITIONAL_ONLY and after is not kind:
            parts.append("/")
    return ",".join(parts)
found = {}
for name, module in list(sys.modules.items()):
    if name.partition(".")[0] == "torch":
        for bound, value in list(vars(module).items()):
            if inspect.isfunction(value):
                found[f"{name}.{bound}"] = text_of(value, False)
            elif inspect.isclass(value) and inspect.isfunction(vars(value).get("__init__")):
                found[f"{name}.{bound}"] = text_of(value.__init__, True)
print(json.dumps(found))
"""


def test_the_parameters_of_what_is_called(names: TorchNames) -> None:
    found = json.loads(live_torch.run(_SIGNATURES, check=True).stdout)
    known = {name: callee.parameters for name in found if (callee := names.callee(name))}
    # A function that warns of its removal passes on whatever it gets; of one that takes all, nothing is said.
    differing = {name: text for name, text in known.items() if text != found[name]}
    wrong = {name: text for name, text in differing.items() if "**" not in found[name] and "**" not in text}

    assert len(known) > 5000
    assert len([name for name in known if name.startswith("torch.optim.")]) > 40
    assert wrong == {}
