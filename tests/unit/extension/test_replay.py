"""Which objects of a process are replayed, in which order, and what is left of them for others.

The objects are samples; how they need each other is made up here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import msgspec.structs
import pytest

from abiscan.binary.elf import Machine
from abiscan.dispatch.operators import Rewording
from abiscan.dispatch.outcomes import OutcomeKind
from abiscan.extension.examined import ExaminedTarget
from abiscan.extension.replay import Replayer
from abiscan.inputs.files import Files
from abiscan.inputs.sources import Extension, read_target
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.model import Closure, Module, Resolution
from abiscan.linkage.registering import Registering
from abiscan.torches import embedded
from abiscan.torches.embedded_operators import EmbeddedOperators
from abiscan.torches.torch import EmbeddedTorch
from tests.registrations import registering

SAMPLES: Final = Path(__file__).parents[3] / "sample_binaries/registration_conflicts"
TORCH: Final = "2.13.0"
OWNER: Final = SAMPLES / "duplicate_library-twice.so"


class Loads:
    """Loads of samples into one process."""

    def __init__(self, torch: str = TORCH) -> None:
        self.files = Files()
        self.release = embedded.release(torch, Machine.X86_64, self.files)
        self.replayer = Replayer(torch=EmbeddedTorch(build=torch, files=self.files), files=self.files)

    def load(self, path: Path, *needed: Path, keep: bool = False) -> Registering:
        (examined,) = ExaminedTarget(read_target(path, self.files, "/site", "/site/torch")).extensions
        resolution = self.resolution(examined.extension, needed)
        registering = self.replayer.replay(examined, resolution, self.release)
        if keep:
            self.replayer.keep(examined, resolution, registering)
        return registering

    def resolution(self, extension: Extension, needed: tuple[Path, ...]) -> Resolution:
        root = Module(path=extension.location, facts=extension.facts)
        others = [Module(path=str(path), facts=self.files.object_at(str(path)), loader=root) for path in needed]
        closure = Closure(modules=(root, *others), new=(root, *others), needed={root: tuple(others)}, missing=())
        return Resolution(closure=closure, missing_versions=(), undefined=(), unchecked=(), error=None)


@pytest.fixture
def loads() -> Loads:
    return Loads()


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A copy of a library that owns a namespace."""
    return Path(shutil.copy(OWNER, tmp_path / "libneeded.so"))


def met(registering: Registering) -> str | None:
    assert registering.failure is not None
    return registering.failure.conflicts_with


def test_what_is_needed_registers_first(loads: Loads, library: Path) -> None:
    registering = loads.load(OWNER, library)
    assert list(registering.bundled) == ["libneeded.so"]
    assert met(registering) == "libneeded.so"
    assert registering.failure is not None
    assert registering.failure.object == OWNER.name
    assert registering.failure.aborts


def test_a_library_that_is_loaded_already_does_not_register_again(loads: Loads, library: Path) -> None:
    assert loads.load(library, keep=True).failure is None
    other = SAMPLES / "impl_without_def.so"
    assert loads.load(other, library).failure is None
    assert met(loads.load(OWNER)) == "libneeded.so"


def test_what_is_not_kept_is_gone(loads: Loads, library: Path) -> None:
    assert loads.load(library).failure is None
    assert loads.load(OWNER).failure is None


def test_what_does_not_load_is_not_kept(loads: Loads, library: Path) -> None:
    assert loads.load(library, keep=True).failure is None
    assert loads.load(OWNER, keep=True).failure is not None
    copy = Path(shutil.copy(OWNER, library.with_name("another.so")))
    assert met(loads.load(copy)) == "libneeded.so"


@pytest.mark.parametrize(
    ("name", "shares"),
    [
        ("_D.cpython-311-x86_64-linux-gnu.so", True),
        ("_D.abi3.so", True),
        ("_D.cpython-312-x86_64-linux-gnu.so", False),
        ("_D.cpython-311t-x86_64-linux-gnu.so", False),
    ],
)
def test_files_for_different_pythons_share_no_process(loads: Loads, tmp_path: Path, name: str, *, shares: bool) -> None:
    first = Path(shutil.copy(OWNER, tmp_path / "_C.cpython-311-x86_64-linux-gnu.so"))
    second = Path(shutil.copy(OWNER, tmp_path / name))

    assert loads.load(first, keep=True).failure is None
    assert (loads.load(second).failure is not None) is shares


def test_an_operator_that_no_extension_of_the_target_defines_is_dead(loads: Loads, tmp_path: Path) -> None:
    folder = tmp_path / "pkg"
    folder.mkdir()
    for name in ("impl_without_def.so", "duplicate_library-twice.so"):
        shutil.copy(SAMPLES / name, folder / name)
    target = ExaminedTarget(read_target(folder, loads.files, "/site", "/site/torch"))
    examined = next(each for each in target.extensions if each.path == "impl_without_def.so")
    registering = loads.replayer.replay(examined, loads.resolution(examined.extension, ()), loads.release)
    assert [reaction.outcome.subject for reaction in registering.reactions] == ["aten::refine_names"]


@pytest.mark.parametrize("macro", ["TORCH_LIBRARY", "RegisterOperators"])
def test_nothing_is_said_of_a_definition_whose_inferred_schema_was_not_read(macro: str) -> None:
    """torch refuses a definition without a schema; this one has one, which is not known here."""
    steps: list[dict[str, Any]]
    steps = [{"library": "TORCH_LIBRARY", "namespace": "mine"}, {"def": "op", "signature": "FN2at6TensorERKS0_E"}]
    if macro == "RegisterOperators":
        steps = [{"op": "mine::op", "kernels": [{"inferred": None}]}]
    steps += [
        {"library": "TORCH_LIBRARY_IMPL", "namespace": "mine", "key": "CPU"},
        {"impl": "op", "signature": "FN2at6TensorERKS0_E", "inferred": "(Tensor _0) -> Tensor _0"},
    ]
    found = registering({"registers": steps, "has": {}}, "mine.so", TorchVersion("2.13.0"))
    assert found is not None
    assert found.reactions == ()


def test_what_torch_says_is_in_its_own_words(loads: Loads, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = loads.load(OWNER, library).failure
    assert known is not None
    assert known.outcome.message is not None
    look_up = EmbeddedOperators.look_up
    now = {known.outcome.message.id: (Rewording("Only a single TORCH_LIBRARY can", "No second TORCH_LIBRARY may"),)}
    monkeypatch.setattr(
        EmbeddedOperators,
        "look_up",
        lambda source, names=None: msgspec.structs.replace(look_up(source, names), reworded=now),
    )
    reworded = Loads().load(OWNER, library).failure  # another torch
    assert reworded is not None
    assert reworded.outcome.message is not None
    assert reworded.outcome.message.text == known.outcome.message.text.replace(
        "Only a single TORCH_LIBRARY can", "No second TORCH_LIBRARY may"
    )
    assert reworded.outcome.message.text.startswith("No second TORCH_LIBRARY may be used to register")
    assert (known.outcome.message.exact, reworded.outcome.message.exact) == (True, False)


def test_what_torch_only_warns_of_is_kept(loads: Loads, tmp_path: Path) -> None:
    """A kernel of the next library takes its place, of which torch warns as well."""
    sample = SAMPLES / "impl_without_def.so"
    assert [each.outcome.kind for each in loads.load(sample, keep=True).reactions] == [OutcomeKind.DEAD]
    copy = Path(shutil.copy(sample, tmp_path / "copy.so"))
    assert [each.outcome.kind for each in loads.load(copy).reactions] == [OutcomeKind.OVERRIDES, OutcomeKind.DEAD]


def test_what_a_release_says_is_in_its_words() -> None:
    """To tell it, torch 2.13 asks for the namespace, which the wildcard does not have (library.cpp)."""
    words = [Loads(torch).load(SAMPLES / "library_block_misuse-def_of_all.so").failure for torch in ("2.4.0", TORCH)]
    texts = [failure.outcome.message.text for failure in words if failure and failure.outcome.message]
    assert [text.partition(" (")[0] for text in texts] == [
        "TORCH_LIBRARY: cannot define TORCH_LIBRARY with the wildcard namespace _",
        "bad optional access",
    ]
