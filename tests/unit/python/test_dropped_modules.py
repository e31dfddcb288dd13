"""Imports of ``pkg_resources``, which setuptools 82 no longer has: which count, and what settles it."""

from __future__ import annotations

import sys

import pytest

from abiscan.python.package.installed import Surroundings
from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources

IMPORT = "import pkg_resources\n"


def dropped(
    code: str,
    required: str = "setuptools",
    torch: str = "2.13.0",
    files: dict[str, str] | None = None,
    **around: object,
) -> list[tuple[str, list[int]]]:
    metadata = f"Metadata-Version: 2.1\nName: pack\nVersion: 1\nRequires-Dist: {required}\n"
    sources = {
        "pack/__init__.py": "from . import version\n",
        "pack/version.py": code,
        "pack-1.dist-info/METADATA": metadata,
        **(files or {}),
    }
    reader = PackageReader(TextSources(sources), ["pack"])
    world = FakeWorld(torch_version=torch, torch_names=embedded_names.names(torch))
    found = reader.dropped_imports(world, Surroundings(**around))  # type: ignore[arg-type]
    return [(item.module, [line.line for line in item.lines]) for item in found]


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (IMPORT, [1]),  # facebookresearch/fairchem#1762
        ("import os\nfrom pkg_resources import get_distribution as g\nimport a, pkg_resources.extern\n", [2, 3]),
        ("class A:\n    import pkg_resources\n", [2]),
        ("try:\n    import pkg_resources\nexcept ValueError:\n    pass\n", [2]),
        ("try:\n    import pkg_resources\nexcept (OSError, AttributeError):\n    pass\n", [2]),
        ("try:\n    import pkg_resources\nfinally:\n    pass\n", [2]),
        ("with warnings.catch_warnings():\n    import pkg_resources\n", [2]),
        # Lightning-AI/utilities#195: lightning 2.1.1, which has the word "modules" as well
        ("'modules'\n__import__('pkg_resources').declare_namespace(__name__)\n", [2]),
        ("import importlib\nx = importlib.import_module('pkg_resources')\n", [2]),
    ],
)
def test_an_import_that_may_fail(code: str, lines: list[int]) -> None:
    assert dropped(code) == [("pkg_resources", lines)]


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    import pkg_resources\n",
        "try:\n    import pkg_resources\nexcept ImportError:\n    pkg_resources = None\n",
        "try:\n    import pkg_resources\nexcept (OSError, ModuleNotFoundError):\n    pass\n",
        "try:\n    import pkg_resources\nexcept:\n    pass\n",
        "ERRORS = (ImportError,)\ntry:\n    import pkg_resources\nexcept ERRORS:\n    pass\n",
        "with suppress(ImportError):\n    import pkg_resources\n",
        "with optional() as wanted:\n    import pkg_resources\n",
        "import sys, types\nsys.modules.setdefault('pkg_resources', types.ModuleType('a'))\nimport pkg_resources\n",
        "if A:\n    import pkg_resources\n",
        "from . import pkg_resources\n",
        "'import pkg_resources'\n",
        "x = lambda: __import__('pkg_resources')\n",
        "x = A and __import__('pkg_resources')\n",
        "try:\n    __import__('pkg_resources')\nexcept ImportError:\n    pass\n",
    ],
)
def test_an_import_that_need_not_run(code: str) -> None:
    assert not dropped(code)


def test_what_requires_a_release_that_has_it() -> None:
    # torch's own metadata: 2.11 and 2.12 require setuptools<82, 2.10 and 2.13 do not.
    assert [bool(dropped(IMPORT, torch=torch)) for torch in ("2.10.0", "2.11.0", "2.12.1", "2.13.0")] == [1, 0, 0, 1]
    required = ("setuptools<82", "setuptools==69.5.1", "setuptools>=61", "setuptools!=82.0.0", "setuptools<=82.0.0")
    assert [bool(dropped(IMPORT, requirement)) for requirement in required] == [0, 0, 1, 1, 1]


def test_what_is_known_to_be_there() -> None:
    assert not dropped(IMPORT, installed=lambda _name: True)
    assert not dropped(IMPORT, files={"pkg_resources/__init__.py": ""})
    assert not dropped("", files={"tests/test_pack.py": IMPORT})
    assert not dropped(IMPORT, files={"pack/shim.py": "import sys\nsys.modules['pkg_resources'] = sys\n"})


def test_what_has_no_word_of_it_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "abiscan.python.later.dropped_modules", None)
    assert not dropped("import torch.onnx, setuptools\n", torch="1.13.1")
    with pytest.raises(ImportError):
        dropped(IMPORT)


@pytest.mark.parametrize(
    ("torch", "told"),
    # torch/utils/cpp_extension.py of these wheels: "from pkg_resources import packaging" from 1.8.0 to 2.1.2.
    [("1.7.1", False), ("1.8.0", True), ("1.13.1", True), ("2.1.2", True), ("2.2.0", False), ("2.13.0", False)],
)
@pytest.mark.parametrize(
    "code",
    [
        "import torch.utils.cpp_extension\n",
        "from torch.utils import cpp_extension as c\n",
        "from torch.utils.cpp_extension import load\n",
    ],
)
def test_what_torch_itself_imports(code: str, torch: str, *, told: bool) -> None:
    assert dropped(code, torch=torch) == ([("torch.utils.cpp_extension", [1])] if told else [])


def test_another_module_of_that_name() -> None:
    assert not dropped("from pack import cpp_extension\nfrom torch.utils import cpp_extension2\n", torch="1.13.1")


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"pack/__init__.py": "", "pack/utils/__init__.py": "from ..version import A\n"}, True),  # torchtnt 0.2.4
        ({"pack/__init__.py": "from .deep.a import b\n", "pack/deep/a/b.py": "import pack.version\n"}, True),
        ({"pack/__init__.py": ""}, False),
        ({"pack/__init__.py": "if TYPE_CHECKING:\n    from . import version\n"}, False),
        ({"pack/__init__.py": "def f():\n    import pack.version\n"}, False),
        ({"pack/__init__.py": "", "pack/_setup/__init__.py": "from ..version import A\n"}, False),
        ({"pack/__init__.py": "", "pack/models/one/__init__.py": "from ...version import A\n"}, False),
    ],
)
def test_which_sources_count(files: dict[str, str], *, told: bool) -> None:
    assert bool(dropped(IMPORT, files=files)) is told


@pytest.mark.parametrize(
    ("files", "required", "told"),
    [
        # The wheel of torchdata 0.9.0 has the module, that of 0.10.0 has neither it nor dataloader2.
        ({"pack/version.py": "import torchdata.datapipes.iter as p\n"}, "numpy", "torchdata.datapipes"),
        ({"pack/version.py": "from torchdata import dataloader2\n"}, "torchdata", "torchdata.dataloader2"),
        ({"pack/version.py": "import torchdata.datapipes\n"}, "torchdata<0.10", None),
        ({"pack/version.py": "import torchdata.datapipes\n"}, "torchdata~=0.7; extra == 'ml'", "torchdata.datapipes"),
        ({"pack/version.py": "import torchdata.datapipes\n"}, "torchdata<0.9; extra == 'ml'", None),
        ({"pack/version.py": "import torchdata.nodes\n"}, "torchdata", None),
    ],
)
def test_what_torchdata_dropped(files: dict[str, str], required: str, told: str | None) -> None:
    assert [module for module, _ in dropped("", required, files=files)] == ([told] if told else [])


@pytest.mark.parametrize(("required", "told"), [("torchdata; extra == 'ml'", True), ("numpy", False)])
def test_a_package_further_inside(required: str, *, told: bool) -> None:
    # chanzuckerberg/cellxgene-census#685: only users of the extra import it.
    files = {"pack/new/ml/__init__.py": "from .data import D\n", "pack/new/ml/data.py": "import torchdata.datapipes\n"}
    assert bool(dropped("", required, files=files)) is told


@pytest.mark.parametrize(
    ("user", "told"),
    [
        (
            "def f():\n    def g():\n        from .version import _C\n    return g\n",
            True,
        ),  # nerfstudio-project/gsplat#899
        ("class A:\n    def f(self):\n        from . import version\n", True),
        ("def f():\n    if A:\n        from . import version\n", False),
        ("def f():\n    try:\n        from . import version\n    except ImportError:\n        pass\n", False),
    ],
)
def test_what_functions_import_to_compile(user: str, *, told: bool) -> None:
    files = {"pack/__init__.py": user}
    assert bool(dropped("import torch.utils.cpp_extension\n", torch="2.0.1", files=files)) is told
    assert not dropped(IMPORT, files=files)
