"""Attributes of torch's classes: read from sources, and used in the reading of packages."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from abiscan.python.language.module_names import class_attributes
from abiscan.python.package.model import Raised
from abiscan.python.torch_api.torch_classes import missing_attribute, read_class
from abiscan.torches import embedded_names, unlisted_torch_names
from tests.unit.python.packages import FakeWorld, reading_of

SOURCES = {
    "torch": "from .nn import *\nfrom torch._tensor import Tensor\n",
    "torch._tensor": (
        "import torch\nclass Tensor(torch._C.TensorBase):\n"
        "    def __init__(self): self.of_object = 1\n    def method(self): ...\n    alias = method\n"
        "Tensor.set_later = None\nsetattr(Tensor, 'set_by_name', 1)\n"
    ),
    "torch.nn": "from .modules import Module\nfrom .parameter import *\n",
    "torch.nn.modules": "class Module:\n    def forward(self): ...\n",
    "torch.nn.parameter": (
        "from torch._C import _Meta\nimport torch\nclass Meta(type(torch._C)): ...\n"
        "class Parameter(torch.Tensor, metaclass=_Meta):\n    own = 1\n"
    ),
    "torch.autograd": "from .function import Function\n",
    "torch.autograd.function": (
        "import six\nclass Meta(type):\n    def of_meta(cls): ...\n"
        "class Function(six.with_metaclass(Meta, object)):\n    def apply(self): ...\n"
    ),
    "torch.utils.data": (
        "from abc import ABC\nfrom typing import Generic, TypeVar\nT = TypeVar('T')\n"
        "if True:\n    class Dataset(Generic[T], ABC):\n        first = 1\n"
        "else:\n    class Dataset:\n        second = 1\n"
        "class DataLoader(unknown()):\n    x = 1\n"
    ),
}


def read(module: str) -> tuple[ast.Module, bool] | None:
    return (ast.parse(SOURCES[module]), f"{module}." in "\n".join(SOURCES)) if module in SOURCES else None


@pytest.mark.parametrize(
    ("cls", "there", "perhaps", "is_compiled"),
    [
        ("torch.Tensor", {"method", "alias"}, {"of_object", "set_later", "set_by_name"}, True),
        ("torch.nn.Module", {"forward"}, {"mro"}, False),
        ("torch.nn.Parameter", {"own", "method"}, {"of_object"}, True),
        ("torch.autograd.Function", {"apply", "of_meta"}, {"mro"}, False),
        ("torch.utils.data.Dataset", set[str](), {"first", "second", "_is_protocol", "register"}, False),
        ("torch.Size", set[str](), {"count", "index"}, True),
    ],
)
def test_attributes_come_from_bodies_bases_and_metaclasses(
    cls: str, there: set[str], perhaps: set[str], *, is_compiled: bool
) -> None:
    names = read_class(cls, read)

    assert names is not None
    assert there <= names.there
    assert perhaps <= names.possible
    assert not names.there & names.possible
    assert names.stars == ({"torch._C"} if is_compiled else set())
    assert not names.is_open


def test_a_class_with_a_base_that_is_not_known_may_have_any_attribute() -> None:
    names = read_class("torch.utils.data.DataLoader", read)

    assert names is not None
    assert names.is_open


@pytest.mark.parametrize("cls", ["torch.optim.Optimizer", "torch.nn.Linear"])
def test_nothing_is_said_of_other_classes(cls: str) -> None:
    assert read_class(cls, read) is None


def test_a_computed_name_opens_a_class() -> None:
    attributes = class_attributes(ast.parse("class A: ...\nfor n in 'ab':\n    setattr(A, n, 1)\n"), "A")

    assert attributes is not None
    assert attributes.is_open


RELEASE = "2.13.0"


def raised(code: str) -> Raised | None:
    world = FakeWorld(torch_names=embedded_names.names(RELEASE))
    outcome = reading_of({"pack/__init__.py": code}, world).imports[0]
    assert outcome.raised is None or isinstance(outcome.raised, Raised)
    return outcome.raised


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import torch\ntorch.Tensor.nope", "type object 'Tensor' has no attribute 'nope'"),
        ("from torch import Tensor as T\nT.nope", "type object 'Tensor' has no attribute 'nope'"),
        ("from torch import nn\nclass A:\n    x = nn.Module.no", "type object 'Module' has no attribute 'no'"),
        ("import torch\ntorch.Generator.nope", "type object 'torch._C.Generator' has no attribute 'nope'"),
        ("import torch\ntorch.library.Library('a', 'DEF').nope", "'Library' object has no attribute 'nope'"),
    ],
)  # fmt: skip
def test_an_attribute_that_a_class_lacks_raises(code: str, text: str) -> None:
    error = raised(code)

    assert error is not None
    assert (error.exception, error.message) == ("AttributeError", text)


@pytest.mark.parametrize(
    "code",
    [
        "if hasattr(torch.Tensor, 'nope'):\n    raise OSError",
        "if not hasattr(torch.nn.Module, 'register_module'):\n    raise OSError",
        "if getattr(torch.Tensor, 'nope', 3) != 3:\n    raise OSError",
        "try:\n    torch.Tensor.nope\nexcept AttributeError:\n    pass",
        "torch.Tensor.nope = 3\ntorch.Tensor.nope",
        "for name in ('a_b', 'c_d'):\n    setattr(torch.Tensor, name, 3)\ntorch.Tensor.a_b",
        "torch.Tensor.add_, torch.Tensor.mro, torch.nn.Module._Module__x, torch.device.type, torch.Tensor.__nope__",
        "torch.library.Library('a', 'DEF').define",
    ],
)
def test_guarded_names_and_those_that_may_be_there_raise_nothing(code: str) -> None:
    assert raised(f"import torch\n{code}\n") is None


def test_the_files_of_a_torch_tell_the_same(tmp_path: Path) -> None:
    for module, source in SOURCES.items():
        is_package = (read(module) or (None, False))[1]
        path = tmp_path.joinpath(*module.split("."))
        path = path / "__init__.py" if is_package else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    names = unlisted_torch_names.names(tmp_path / "torch", tmp_path)

    assert names.has("torch.nn.Module", "forward") is True
    assert names.lacks("torch.nn.Module", "nope")
    assert not names.lacks("torch.utils.data.DataLoader", "nope")
    assert not names.lacks("torch.nn.Linear", "nope")


def test_a_name_of_a_class_was_there_if_some_release_has_it() -> None:
    names = embedded_names.names(RELEASE)

    assert names is not None
    assert names.was_there("torch.nn.Module.register_full_backward_hook")
    assert not names.was_there("torch.nn.Module.nope")


def test_errors_have_the_name_that_python_has() -> None:
    assert missing_attribute("torch.nn.Parameter", "x") == "type object 'Parameter' has no attribute 'x'"
    assert missing_attribute("torch.Size", "x") == "type object 'torch.Size' has no attribute 'x'"
