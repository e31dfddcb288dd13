"""What the standard library of newer Pythons lacks, where it is not known which Python runs a package.

What is raised, and from which version on, was seen with Python 3.7 to 3.13.
"""

from __future__ import annotations

import pytest

from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Answer
from abiscan.python.reading import PackageReader
from tests.unit.python.packages import FakeWorld, TextSources


def needs(
    code: str,
    *,
    torch: str = "2.2.0",
    pythons: tuple[tuple[int, int], tuple[int, int]] = ((3, 8), (3, 12)),
    files: dict[str, str] | None = None,
    around: Surroundings | None = None,
) -> list[tuple[tuple[int, int], str, bool]]:
    reader = PackageReader(TextSources({"p/__init__.py": code, **(files or {})}), ["p"])
    oldest, newest = pythons
    world = FakeWorld(torch_version=torch, python=Answer.UNKNOWN, oldest_python=oldest, newest_python=newest)
    return [(need.below, need.why.partition(": ")[2], need.is_refused) for need in reader.python_needs(world, around)]


@pytest.mark.parametrize(
    ("code", "below", "error"),
    [
        # percevalw/nlstruct#6, neuralmagic/sparseml#1065
        ("from collections import Mapping\n", (3, 10), "ImportError: cannot import name 'Mapping' from 'collections'"),
        ("import imp\n", (3, 12), "ModuleNotFoundError: No module named 'imp'"),
        (
            "import inspect\nx = inspect.getargspec(f)\n",
            (3, 11),
            "AttributeError: module 'inspect' has no attribute 'getargspec'",
        ),
        (
            "import asyncio as a\n@a.coroutine\ndef f(): ...\n",
            (3, 11),
            "AttributeError: module 'asyncio' has no attribute 'coroutine'",
        ),
        (
            "import collections\ndef f(x: collections.Mapping): ...\n",
            (3, 10),
            "AttributeError: module 'collections' has no attribute 'Mapping'",
        ),
        (
            "import collections\nclass A:\n    x: int\n    y = collections.Set\nimport imp\n",
            (3, 10),
            "AttributeError: module 'collections' has no attribute 'Set'",
        ),
        # huggingface/accelerate#2379
        (
            "from distutils import spawn\n",
            (3, 12),
            "ModuleNotFoundError: No module named 'distutils' (setuptools brings it back)",
        ),
    ],
)
def test_what_newer_pythons_lack(code: str, below: tuple[int, int], error: str) -> None:
    assert needs(code) == [(below, error, False)]
    assert needs(code, pythons=(below, (3, 12))) == [(below, error, True)]
    assert not needs(code, pythons=((3, 7), (3, below[1] - 1)))


@pytest.mark.parametrize(
    "code",
    [
        "from collections.abc import Mapping\n",
        "try:\n    from collections.abc import Mapping\nexcept ImportError:\n    from collections import Mapping\n",
        "try:\n    from collections import Mapping\nexcept ImportError:\n    from collections.abc import Mapping\n",
        "try:\n    import imp\nexcept ModuleNotFoundError:\n    imp = None\n",
        "import sys\nif sys.version_info < (3, 10):\n    from collections import Mapping\n",
        "import collections\ndef f(): return collections.Mapping\n",
        "from __future__ import annotations\nimport collections\ndef f(x: collections.Mapping): ...\n",
        "import collections\nx = collections.Mapping if A else None\n",
        "import collections.abc\ncollections.Mapping = collections.abc.Mapping\nx = collections.Mapping\n",
        "from p import collections\nx = collections.Mapping\n",
        "def f():\n    import imp\n",
        "import imp_of_ours\n",
        "from . import imp\n",
    ],
)
def test_what_does_not_need_them(code: str) -> None:
    assert not needs(code)


def test_distutils_that_something_brings() -> None:
    # The metadata of torch's wheels: setuptools on Python 3.12 from 2.4.0 on, and nothing in 2.2 and 2.3.
    code = "from distutils.version import LooseVersion\n"
    assert [bool(needs(code, torch=torch)) for torch in ("2.2.0", "2.3.1", "2.4.0", "2.13.0")] == [1, 1, 0, 0]
    metadata = "Metadata-Version: 2.1\nName: p\nVersion: 1\nRequires-Dist: setuptools\n"
    assert not needs(code, files={"p-1.dist-info/METADATA": metadata})
    assert not needs(code, around=Surroundings(installed=lambda name: name == "setuptools"))


def test_which_sources_count() -> None:
    code = {"p/one/two/deep.py": "import imp\n", "p/tests/test_a.py": "import imp\n", "setup.py": "import imp\n"}
    assert not needs("", files=code)
    assert needs("from .one.two import deep\n", files=code)
