"""For which dispatch keys ``torch.library`` registers kernels, as the dispatcher of torch 2.13.0 says."""

from __future__ import annotations

import pytest

from abiscan.python.package.model import Registers
from tests.unit.python.packages import FakeWorld, reading_of

DEFINED = (
    "import torch\nfrom torch import Tensor\ntorch.library.Library('ns', 'FRAGMENT').define('f(Tensor x) -> Tensor')\n"
)
CUSTOM = "@torch.library.custom_op('ns::g', mutates_args=()OPTION)\ndef g(x: Tensor) -> Tensor: return x.clone()\n"


@pytest.mark.parametrize(
    ("code", "keys"),
    [
        # Asked with ``_dispatch_has_kernel_for_dispatch_key`` of torch._C.
        ("torch.library.register_kernel('ns::f', None, lambda x: x)", ["CompositeExplicitAutograd"]),
        ("torch.library.register_kernel('ns::f', 'cuda', lambda x: x)", ["CUDA"]),
        ("torch.library.register_kernel('ns::f', ['cpu', 'cuda'], lambda x: x)", ["CPU", "CUDA"]),
        (
            CUSTOM.replace("OPTION", ""),
            ["CompositeExplicitAutograd"],
        ),
        (
            CUSTOM.replace("OPTION", ", device_types='cpu'"),
            ["CPU"],
        ),
    ],
)
def test_the_keys_of_a_kernel(code: str, keys: list[str]) -> None:
    (outcome,) = reading_of({"pkg/__init__.py": f"{DEFINED}{code}\n"}, FakeWorld(torch_version="2.13.0")).imports
    assert (outcome.raised, outcome.gaps) == (None, ())
    assert [one.key for one in outcome.registrations if one.what is Registers.KERNEL] == keys
