"""Which torch an extension was built for, by each kind of clue alone. What releases have comes from torch itself:
``nm -D`` of their libraries, and the lines of their headers."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.binary.elf import Machine, SourceLine
from abiscan.extension.built_for import BuiltFor, Kind, infer_built_for, with_keys
from abiscan.inputs.files import Files
from abiscan.inputs.sources import read_target
from abiscan.torches.headers import releases_asserting
from tests.elf_builder import Elf, uses
from tests.fakes import extension, wheel

OLD_STRING = "_ZN3c105ErrorC2ENS_14SourceLocationESs"  # in libc10.so of 1.6.0 to 2.6.0
TRACING = "_ZN2at23SavedTensorDefaultHooks11set_tracingEb"  # in libtorch_cpu.so from 2.5.0 on


def assertion(place: str, root: str = "/build/site-packages/torch/include/") -> bytes:
    file, _, line = place.partition(":")
    return f'x INTERNAL ASSERT FAILED at "{root}{file}":{line}, please report a bug to PyTorch. '.encode()


def found(folder: Path, *extensions: Elf, metadata: str = "", name: str = "x.whl") -> list[BuiltFor]:
    members = {f"pkg/{number}.so": each.build() for number, each in enumerate(extensions)}
    path = wheel(folder / name, {**members, "x-1.dist-info/METADATA": metadata.encode()})
    return list(infer_built_for(read_target(path, Files(), "/site", "/site/torch")).values())


def releases(built: BuiltFor) -> list[str]:
    return list(map(str, built.releases))


def test_imports_bound_it_from_both_sides(tmp_path: Path) -> None:
    (built,) = found(tmp_path, extension(undefined=uses(OLD_STRING, TRACING)))
    assert releases(built) == ["2.5.0", "2.5.1", "2.6.0"]
    (clue,) = built.clues
    assert clue.seen == f"imports {TRACING} (in torch since 2.5.0) and {OLD_STRING} (in torch up to 2.6.0)"


def test_names_that_no_release_exports_tell_nothing(tmp_path: Path) -> None:
    (built,) = found(tmp_path, extension(undefined=uses("_ZN2at7nowhereEv")))
    assert built == BuiltFor(releases=(), clues=())


def test_one_name_in_fifty_may_be_the_package_s_own(tmp_path: Path) -> None:
    # With the new string only 2.7 and newer, with the old one only 2.6 and older: no release has both.
    new = "_ZN3c105ErrorC2ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
    (built,) = found(tmp_path, extension(undefined=uses(OLD_STRING, new)))
    assert built.releases == ()


@pytest.mark.parametrize(
    "root",
    [
        "/opt/conda/lib/python3.11/site-packages/torch/include/",
        "/usr/include/torch/include/",
        "external/torch_includes/",
        "",
    ],
)
def test_a_line_of_a_header_tells_the_release(root: str, tmp_path: Path) -> None:
    # There stands `TORCH_INTERNAL_ASSERT(extra_meta_ && extra_meta_->symbolic_shape_meta_)` in these three alone.
    (built,) = found(tmp_path, extension(texts=(assertion("c10/core/TensorImpl.h:1799", root),)))
    assert releases(built) == ["2.13.0", "2.14.0", "2.14.1"]
    assert [clue.kind for clue in built.clues] == [Kind.HEADERS]
    assert "c10/core/TensorImpl.h:1799" in built.clues[0].seen


def test_a_line_without_an_assertion_tells_nothing() -> None:
    assert releases_asserting(SourceLine("/x/c10/core/TensorImpl.h", 1)) is None
    assert releases_asserting(SourceLine("/x/main.cpp", 17)) is None


def test_extensions_of_one_wheel_narrow_each_other(tmp_path: Path) -> None:
    one, other = found(tmp_path, extension(undefined=uses(OLD_STRING)), extension(undefined=uses(TRACING)))
    assert releases(one) == releases(other) == ["2.5.0", "2.5.1", "2.6.0"]
    assert one.clues[-1].kind is Kind.SIBLINGS


def test_packages_in_a_folder_do_not(tmp_path: Path) -> None:
    extension(undefined=uses(OLD_STRING)).write(tmp_path / "one" / "_C.so")
    extension(undefined=uses(TRACING)).write(tmp_path / "other" / "_C.so")
    built = infer_built_for(read_target(tmp_path, Files(), "/site", "/site/torch"))
    assert releases(built["one/_C.so"])[-1] == "2.6.0"
    assert releases(built["one/_C.so"])[0] == "1.6.0"
    assert releases(built["other/_C.so"])[0] == "2.5.0"


def test_metadata_come_last_and_contradict_nothing(tmp_path: Path) -> None:
    elf = extension(undefined=uses(OLD_STRING, TRACING))
    (pinned,) = found(tmp_path, elf, metadata="Requires-Dist: torch==2.5.1\n")
    assert releases(pinned) == ["2.5.1"]
    (wrong,) = found(tmp_path, elf, metadata="Requires-Dist: torch==2.9.1\n")
    assert releases(wrong) == ["2.5.0", "2.5.1", "2.6.0"]


def test_the_version_of_a_wheel_may_name_its_torch(tmp_path: Path) -> None:
    elf = extension(undefined=uses(OLD_STRING, TRACING))
    (built,) = found(tmp_path, elf, metadata="Version: 2.1.2+pt26cu124\n")
    assert releases(built) == ["2.6.0"]
    assert built.clues[-1].kind is Kind.WHEEL_VERSION


def test_numbers_that_are_no_key_rule_releases_out() -> None:
    nothing = BuiltFor(releases=(), clues=())
    built = with_keys(nothing, [2, 69], Machine.X86_64)  # of c10::DispatchKey, 69 is one from 1.13 on
    assert releases(built)[0] == "1.13.0"
    assert built.clues[-1].kind is Kind.DISPATCH_KEYS
    assert with_keys(nothing, [], Machine.X86_64) == nothing
