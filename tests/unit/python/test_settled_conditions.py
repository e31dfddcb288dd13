"""What a package shows of its own conditions: how long it takes to find."""

from __future__ import annotations

import time

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
