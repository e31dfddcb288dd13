"""What a package shows of its own conditions: how long it takes to find."""

from __future__ import annotations

import re
import time

import pytest

from abiscan.python.later import settled_conditions
from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from tests.unit.python.packages import FakeWorld, TextSources


def test_a_source_of_many_calls_is_gone_through_in_little_time() -> None:
    # All names that a source binds were counted anew for each of its calls, as in the large models of transformers.
    calls = "".join(f"def f{number}(x):\n    require_value(x)\n" for number in range(2_000))
    source = f"import torch\nfrom .checks import require_value\n{calls}def g(x):\n    return torch.symeig(x)\n"
    checks = "def require_value(x):\n    if x is None:\n        raise ValueError\n"
    files = {"pack/__init__.py": "", "pack/sub.py": source, "pack/checks.py": checks}
    reader = PackageReader(TextSources(files), ["pack"])
    before = time.process_time()
    (use,) = reader.later_uses(FakeWorld(torch_names=embedded_names.names("2.13.0")))
    assert use.name == "torch.symeig"
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("checks", "is_own"),
    [
        ("def require_value(x):\n    if x is None:\n        raise ValueError\n", True),
        ("from .checks import require_value\n", True),
        # It is another one, of which nobody knows whether it lets old torches pass.
        ("from other import *\n", False),
        ("from other import require_value\n", False),
        ("from .checks import require_value\nfrom other import require_value\n", False),
        ("from other import *\ndef other(x):\n    pass\n", False),
    ],
)
def test_only_a_function_of_the_package_is_known_to_check_values_alone(checks: str, is_own: bool) -> None:
    source = f"import torch\n{checks}def f(x):\n    require_value(x)\n    return torch.symeig(x)\n"
    own = "def require_value(x):\n    if x is None:\n        raise ValueError\n"
    files = {"pack/__init__.py": "", "pack/sub.py": source, "pack/checks.py": own}
    found = PackageReader(TextSources(files), ["pack"]).later_uses(
        FakeWorld(torch_names=embedded_names.names("2.13.0"))
    )
    assert [use.name for use in found if not use.doubtful] == (["torch.symeig"] if is_own else [])


@pytest.mark.parametrize(
    ("source", "is_made"),
    [
        ("def there(): pass", True),
        ("if a:\n    async def  there(): pass", True),
        ("x = 1\n    there: bool = False", True),
        ("there = a == b", True),
        ("there == b", False),
        ("if there:\n    x = 1", False),
        ("nowhere.there = 1", False),
        ("undef there(): pass", False),
        ("therefore = 1", False),
    ],
)
def test_what_may_make_a_flag(source: str, *, is_made: bool) -> None:
    assert settled_conditions._may_make(source.encode(), b"there") is is_made
    line = re.compile(r"(?m)\bdef[ \t]+there\b|^[ \t]*there\b[^=\n]*=(?!=)")
    assert (line.search(source) is not None) is is_made
