"""What is taken of the module of torch for a device that is computed: torch.cpu has set_device since 2.4, and no
``device`` at all (``dir(torch.cpu)`` of 2.13.0 has the one and not the other).
"""

from __future__ import annotations

import pytest

from abiscan.python.reading import PackageReader
from abiscan.rules.missing_torch_name import list_findings
from abiscan.torches import embedded_names
from abiscan.torches.name_history import history
from tests.unit.python.packages import FakeWorld, TextSources

OF_ACCELERATE = """import torch
class State:
    def set_device(self):
        if self.device is not None:
            return
        device = str(self.kind).lower()
        if device not in ("cpu", "gpu", "xla"):
            raise ValueError(device)
        if device == "xla":
            self.device = xm()
        else:
            if device == "gpu":
                device = "cuda"
            module = getattr(torch, device)
            module.set_device(self.device)
"""
"""As in accelerate 0.33.0: huggingface/accelerate#2954."""
OF_FLA = """import torch
def available():
    try:
        return triton.backend
    except BaseException:
        return 'cpu'
device = available() if available() != 'hip' else 'cuda'
lib = getattr(torch, device)
if check('2.4'):
    device = 'cuda' if device == 'cpu' else device
    def context(index):
        return lib.device(index)
"""
"""As in fla-core 0.4.1: vllm-project/llm-compressor#2075."""


def found(source: str, release: str) -> list[tuple[str, str]]:
    reader = PackageReader(TextSources({"pack/__init__.py": source}), ["pack"])
    uses = reader.later_uses(FakeWorld(torch_names=embedded_names.names(release)))
    return [(use.name, use.function) for use in uses if use.how == "device"]


@pytest.mark.parametrize(
    ("source", "release", "expected"),
    [
        (OF_ACCELERATE, "2.1.0", ("torch.cpu.set_device", "set_device")),
        (OF_ACCELERATE, "2.13.0", None),
        (OF_FLA, "2.13.0", ("torch.cpu.device", "context")),
        # Nothing shows that it may be a CPU, or the code knows what to do there.
        (OF_ACCELERATE.replace('"cpu", ', ""), "2.1.0", None),
        (OF_ACCELERATE.replace('== "xla"', '== "cpu"'), "2.1.0", None),
        (OF_ACCELERATE.replace('"xla":', '"cpu":\n            return\n        elif device == "xla":'), "2.1.0", None),
        (OF_ACCELERATE.replace("if self.device is not None", "if self.on_cpu"), "2.1.0", None),
        (OF_ACCELERATE.replace('if device == "gpu"', "if device"), "2.1.0", None),
        (OF_ACCELERATE.replace("else:\n", "elif torch.cuda.is_available():\n"), "2.1.0", None),
        (OF_FLA.replace("return lib", "return lib is None or lib"), "2.13.0", None),
        (OF_FLA.replace("if check('2.4')", "try"), "2.13.0", None),
        (OF_FLA.replace("return 'cpu'", "return 'cuda'"), "2.13.0", None),
        (f"{OF_FLA}lib = None\n", "2.13.0", None),
    ],
)
def test_what_counts(source: str, release: str, expected: tuple[str, str] | None) -> None:
    assert found(source, release) == ([expected] if expected else [])


CHOSEN = "import torch\ndevice = 'cuda' if torch.cuda.is_available() else 'cpu'\nmod = getattr(torch, device)\n"
GIVEN = (
    "import torch\ndef f(device):\n  if device not in ('cpu', 'cuda'): raise ValueError\n"
    "  mod = getattr(torch, device)\n"
)
USE = "mod.get_device_name()\n"


@pytest.mark.parametrize("source", [f"{CHOSEN}def f():\n  {USE}", f"{GIVEN}  with torch.no_grad(): {USE}"])
def test_what_fails_on_cpus(source: str) -> None:
    assert found(source, "2.13.0") == [("torch.cpu.get_device_name", "f")]


@pytest.mark.parametrize(
    "source",
    [
        f"{CHOSEN}def f():\n  assert torch.cuda.is_available()\n  {USE}",
        f"{CHOSEN}assert device != 'cpu'\ndef f():\n  {USE}",
        f"{CHOSEN}def f():\n  with suppress(AttributeError): {USE}",
        f"{CHOSEN}@requires_cuda\ndef f():\n  {USE}",
        f"{CHOSEN}def f_cuda():\n  {USE}",
        f"{CHOSEN}def f():\n  import zz as mod\n  {USE}",
        f"{CHOSEN}def mod(): ...\ndef f():\n  {USE}",
        f"{CHOSEN}on_host = device == 'cpu'\ndef f():\n  if on_host: return\n  {USE}",
        f"{CHOSEN}kind = device\ndef f():\n  if kind == 'cpu': return\n  {USE}",
        f"{CHOSEN}mod.get_device_name = len\ndef f():\n  {USE}",
        f"{CHOSEN}setattr(mod, 'get_device_name', len)\ndef f():\n  {USE}",
        f"{CHOSEN}def f(): return [{USE.strip()} for i in '1' if device == 'cuda']\n",
        f"import torch\ndef f():\n  device = 'cuda'\n  mod = getattr(torch, device)\n  {USE}  device = 'cpu'\n",
        f"{GIVEN}  match device:\n    case 'cuda': {USE}",
        f"{GIVEN}  while device == 'cuda': {USE}",
        f"{GIVEN}  with torch.no_grad():\n    if device == 'cpu': return\n  {USE}",
        f"{GIVEN}  for i in '1':\n    if device == 'cpu': return\n  {USE}",
        f"{GIVEN}  if device == 'cpu': sys.exit(1)\n  {USE}",
    ],
)
def test_what_may_not_run_on_cpus(source: str) -> None:
    assert not found(source, "2.13.0")


def test_the_finding_says_where_it_fails() -> None:
    reader = PackageReader(TextSources({"pack/__init__.py": OF_ACCELERATE}), ["pack"])
    uses = reader.later_uses(FakeWorld(torch_names=embedded_names.names("2.1.0")))
    (finding,) = list_findings(uses, history(uses[0].name), "pack", "torch 2.1.0", "2.1.0")
    assert finding.message.endswith("pack uses it in 1 function, where the device is a CPU")
    assert finding.says == "module 'torch.cpu' has no attribute 'set_device'"
