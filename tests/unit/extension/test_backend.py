"""Which backend an extension provides, and the torch that it is compared with."""

from __future__ import annotations

from abiscan.binary.elf import Machine
from abiscan.extension.backend import brought_backend
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded_operators
from tests.registrations import registrations

REGISTERED = registrations([
    {"library": "TORCH_LIBRARY_IMPL", "namespace": "aten", "key": "PrivateUse1"},
    {"impl": "empty.memory_format"},
    {"impl": "tanh"},
])  # fmt: skip


def test_what_a_newer_torch_changes_is_seen_from_the_one_that_was_built_for() -> None:
    built, new = TorchVersion("2.6.0"), TorchVersion("2.9.1")
    operators = embedded_operators.operators("2.9.1", Machine.X86_64)
    found = brought_backend([REGISTERED], [built], new, Machine.X86_64, lambda _: operators)
    assert found is not None
    assert (found.key, found.before_key, found.before_version) == ("PrivateUse1", "PrivateUse1", built)
    assert found.before is not None
    same = brought_backend([REGISTERED], [new], new, Machine.X86_64, lambda _: operators)
    assert same is not None
    assert (same.before, same.before_version) == (None, new)
