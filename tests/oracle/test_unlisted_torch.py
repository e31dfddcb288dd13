"""A torch that is not embedded: the installed one, under versions that no release has, with and without its data.

What is said about the real one is what real loads have shown (``test_samples``), so the same files under any other name
must give the same answers; where something is unknown about them, the answer must say so.
"""

from __future__ import annotations

import functools
import importlib.util
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.dispatch import acceptance, stable, wordings
from abiscan.dispatch.messages import word_message
from abiscan.dispatch.operators import Operators
from abiscan.dispatch.wordings import reword
from abiscan.emulation import torch_libraries
from abiscan.findings import Effect
from abiscan.inputs.session import Session
from abiscan.inputs.version import MinorVersion, TorchVersion
from abiscan.results.check import Report, Result
from abiscan.results.verdict import Verdict
from abiscan.rules import RULES
from abiscan.torches import (
    architectures,
    clang,
    embedded_declarations,
    embedded_operators,
    embedded_python,
    embedded_registries,
    from_libs,
    layouts,
    unlisted_torch_headers,
)
from abiscan.torches.api_version import format_schema
from abiscan.torches.clang import Clang
from abiscan.torches.torch import TorchAt
from abiscan.verdict.torch_set import CheckRequest, TorchSet
from tests import live_torch
from tests.fakes import SAMPLES, elf_samples
from tests.oracle.test_samples import TORCH

VERSIONS: Final = ("2.16.0", "2.13.1", "2.14.0a0+git0123456", "2.13.0a0+nv25.1", "3.0.0.dev20270101")
EVERY: Final = tuple(
    str(path.relative_to(SAMPLES))
    for path in elf_samples()
    if path.parent.name not in ("registrations", "lib")  # one source by many compilers; a library that is needed
)
DRIFTING: Final = ("layout_drift/crossing.so", "layout_drift/on_use.so", "layout_drift/device_guard.so")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        live_torch.version() != TORCH,
        reason=f"needs torch {TORCH}, for which the samples are made; here is {live_torch.build()}",
    ),
]

Make = Callable[..., Path]
Hide = Callable[[], None]


def made(folder: Path, version: str, without: tuple[str, ...] = ()) -> Path:
    """A torch of the files of the installed one, with another version, without some of its folders."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.submodule_search_locations
    real = Path(spec.submodule_search_locations[0])
    package = folder / "torch"
    package.mkdir(parents=True)
    for path in real.iterdir():
        if path.name not in ("version.py", *without):
            (package / path.name).symlink_to(path)
    (package / "version.py").write_text(f"__version__ = '{version}'\n", "utf-8")
    return package


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes each torch once, in a folder of its own: no test writes to it, and what is kept of its headers stands."""
    return functools.cache(lambda *of: made(tmp_path_factory.mktemp("torch"), *of))


@pytest.fixture(autouse=True)
def _no_clang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler, except where a test brings one."""
    monkeypatch.setattr(clang, "find_clang", lambda: None)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all, since reading libtorch takes seconds."""
    return tmp_path_factory.mktemp("cache")


def results(torch: Path, cache: Path, samples: tuple[str, ...] = ()) -> dict[str, Result]:
    """The result of each sample in a process of its own; the torch is read once for all of them."""
    torch_set = TorchSet(CheckRequest(targets=(), torches=(TorchAt(torch),), rules=tuple(RULES)), Session(folder=cache))
    (name,) = torch_set.names
    return {sample: torch_set.check(SAMPLES / sample, name)[0] for sample in samples or EVERY}


def answer(result: Result) -> tuple[object, ...]:
    """What a result says, apart from the version, and from the notes on where the layouts are from."""
    rules = {finding.rule for finding in result.findings if finding.effect is not Effect.NOTE}
    return result.verdict, result.predicted_error and result.predicted_error.how, rules, result.undefined_symbols


@pytest.fixture(scope="module")
def real(cache: Path) -> Mapping[str, Result]:
    """The results on the installed torch, as it is."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.submodule_search_locations
    return results(Path(spec.submodule_search_locations[0]), cache)


@pytest.fixture(scope="module")
def one_of_each(real: Mapping[str, Result]) -> tuple[str, ...]:
    """A sample for each set of rules and each error, and those that drift."""
    kinds = {
        (frozenset(finding.rule for finding in result.findings), answer(result)[:2]): name
        for name, result in real.items()
    }
    return (*DRIFTING, *sorted(set(kinds.values()).difference(DRIFTING)))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_same_files_under_another_version(
    version: str, make: Make, cache: Path, real: Mapping[str, Result]
) -> None:
    found = results(make(version), cache, EVERY if version == VERSIONS[0] else DRIFTING)
    assert {sample: answer(result) for sample, result in found.items()} == {
        sample: answer(real[sample]) for sample in found
    }
    assert not [gap for result in found.values() for gap in result.gaps if gap.rules]


def hide_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded_operators, "find_build", lambda *_: None)


@pytest.mark.parametrize("version", ["2.16.0", "2.13.0a0+nv25.1"])  # reading the operators takes ten seconds each time
def test_other_files_with_the_same_headers(
    version: str, make: Make, cache: Path, real: Mapping[str, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_identity(monkeypatch)
    found = results(make(version), cache, DRIFTING)
    for sample, result in found.items():
        assert answer(result) == answer(real[sample]), sample
        said = [finding.message for finding in result.findings if "is not embedded" in finding.message]
        assert len(said) == 1
        assert "its headers declare them alike" in said[0]


def test_other_files_without_headers(make: Make, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hide_identity(monkeypatch)
    found = results(make("2.16.0", ("include",)), cache, DRIFTING)
    for sample, result in found.items():
        assert {rule for gap in result.gaps for rule in gap.rules} == {"layout-drift", "vtable-drift"}, sample
        assert Report(results=(result,)).exit_code(Effect.ABORTS, strict=True) == 1
    # Its registrations pass objects whose layout is unknown; the others only share classes in later calls.
    assert found["layout_drift/crossing.so"].verdict is Verdict.UNKNOWN
    assert Report(results=(found["layout_drift/crossing.so"],)).exit_code(Effect.ABORTS, strict=False) == 3


def hide_acceptance(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_identity(monkeypatch)
    older = {minor: answers for minor, answers in acceptance._read_answers().items() if minor < (2, 12)}
    monkeypatch.setattr(acceptance, "_read_answers", lambda: older)


def hide_crossing(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_identity(monkeypatch)
    _, *rows = stable._read_lines()
    older = [["seen", "2.9.1"], *([kind, since if since == "2.7" else "-"] for kind, since in rows)]
    monkeypatch.setattr(stable, "_read_lines", lambda: older)
    monkeypatch.setattr(stable, "_crossing_since", stable._crossing_since.__wrapped__)


WITHOUT: Final[Mapping[str, Callable[[pytest.MonkeyPatch], object]]] = {
    "layouts": lambda patch: patch.setattr(layouts, "is_known", lambda *_: False),
    "declarations": lambda patch: patch.setattr(embedded_declarations, "releases_declaring", lambda *_: ()),
    "registries": lambda patch: patch.setattr(embedded_registries, "entries", lambda *_: None),
    "operators": hide_identity,
    "headers": lambda patch: patch.setattr(unlisted_torch_headers, "headers_of", lambda *_: None),
    "keys": lambda patch: patch.setattr(torch_libraries._TorchProcess, "keys", lambda _: {}),
    "tags": lambda patch: patch.setattr(from_libs, "_find_tags", lambda *_: None),
    "assertions": lambda patch: patch.setattr(from_libs, "read_assertions", lambda *_: {}),
    "acceptance": hide_acceptance,
    "types that cross": hide_crossing,
    "definitions in Python": lambda patch: patch.setattr(embedded_python, "definitions", lambda _: None),
    "architectures": lambda patch: patch.setattr(architectures, "_read_embedded", dict),
}
# What is read is stored by version: a torch that is read otherwise needs one of its own.
READ_OTHERWISE: Final = {"keys": "2.16.1", "tags": "2.16.2", "assertions": "2.16.3"}


@pytest.mark.parametrize("name", WITHOUT)
def test_without_some_data_every_rule_answers_or_says_that_it_cannot(
    name: str,
    make: Make,
    cache: Path,
    real: Mapping[str, Result],
    one_of_each: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    WITHOUT[name](monkeypatch)
    if name in READ_OTHERWISE:
        hide_identity(monkeypatch)
    for sample, result in results(make(READ_OTHERWISE.get(name, "2.16.0")), cache, one_of_each).items():
        silent = {rule for gap in result.gaps for rule in gap.rules}
        expected = {finding.rule for finding in real[sample].findings if finding.effect is not Effect.NOTE}
        assert expected <= {finding.rule for finding in result.findings} | silent, sample
        assert result.verdict in (real[sample].verdict, Verdict.UNKNOWN), sample
        if answer(result) != answer(real[sample]):
            assert silent, sample
            assert Report(results=(result,)).exit_code(Effect.ABORTS, strict=True) == 1, sample


def test_schemas_are_printed_as_its_dispatcher_does(
    make: Make, cache: Path, monkeypatch: pytest.MonkeyPatch, running: Operators
) -> None:
    """The libraries have them as they were written: ``p=2`` for a float, two spaces, ``int[2] x=[0, 0]``."""
    hide_identity(monkeypatch)
    session = Session(folder=cache)
    torch = TorchAt(make("2.16.0")).open(session.files(), session).for_linux()
    read = torch.operators(torch.release_for(Machine.X86_64)).look_up()
    own = {name: operator.schema for name, operator in running.operators.items()}
    found = {name: format_schema(operator.schema) for name, operator in read.operators.items()}
    assert len(found) > 3000
    assert {name: text for name, text in found.items() if name in own and text != own[name]} == {}
    as_written = {name for name, operator in read.operators.items() if name in own and operator.schema != own[name]}
    assert "aten::cdist" in as_written  # so the comparison shows something


def as_debian_has_it(package: Path, site: Path) -> Path:
    """Libraries with versions in their names in a folder of the system; the package has links to them and to headers.

    As the files of python3-torch, libtorch1.13 and libtorch-dev 1.13.1 are.
    """
    folder, headers = site / "usr/lib/x86_64-linux-gnu", site / "usr/include"
    torch = site / "usr/lib/python3/dist-packages/torch"
    for each in (folder, headers, torch / "lib", torch / "include"):
        each.mkdir(parents=True)
    for library in sorted((package / "lib").glob("*.so")):
        (folder / f"{library.name}.2.16.0").symlink_to(library)
        (folder / f"{library.name}.2.16").symlink_to(f"{library.name}.2.16.0")
        (torch / "lib" / library.name).symlink_to(f"../../../../x86_64-linux-gnu/{library.name}.2.16")
    for name in ("ATen", "c10", "caffe2", "torch"):
        (headers / name).symlink_to((package / "include" / name).resolve())
        (torch / "include" / name).symlink_to(f"../../../../../include/{name}")
    for path in package.glob("*.*"):
        (torch / path.name).symlink_to(path)
    return torch


def as_nvidia_has_it(package: Path, site: Path) -> Path:
    """The whole package, in the folder that the release notes of its containers name."""
    torch = site / "usr/local/lib/python3.12/dist-packages/torch"
    torch.mkdir(parents=True)
    for path in package.iterdir():
        (torch / path.name).symlink_to(path)
    return torch


@pytest.mark.parametrize("arrange", [as_debian_has_it, as_nvidia_has_it])
def test_the_same_files_where_others_have_them(
    arrange: Callable[[Path, Path], Path],
    make: Make,
    cache: Path,
    real: Mapping[str, Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hide_identity(monkeypatch)
    torch = arrange(make("2.13.0a0+nv25.1"), tmp_path / "root")
    found = results(torch, cache, (*DRIFTING, "undefined_symbol_signature/undefined_symbol_signature.so"))
    assert {sample: answer(result) for sample, result in found.items()} == {
        sample: answer(real[sample]) for sample in found
    }
    assert not [gap for result in found.values() for gap in result.gaps if gap.rules]


@pytest.mark.parametrize(("id_", "old"), [("K3", (2, 0)), ("K3", (2, 4)), ("N1", (1, 8)), ("K7", (1, 8))])
def test_what_torch_reworded_is_found_in_its_libraries(id_: str, old: MinorVersion) -> None:
    """Judged by what a release printed before, the libraries give what torch has printed since."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0], "lib")
    libraries = [ElfFile.open(folder / name) for name in ("libc10.so", "libtorch_cpu.so")]
    found = wordings.compare_messages(libraries, old)
    names = ("namespace", "previous", "debug", "operator", "operator_debug", "key", "name", "keys", "table")
    values: dict[str, Any] = {name: f"<{name}>" for name in names}
    before, since = (word_message(id_, release, **values).text for release in (old, TorchVersion(TORCH).minor_version))
    said = reword(word_message(id_, old, **values), found.reworded, found.absent).text
    assert before != since
    # Up to 2.0, the warning did not say that it is the only one.
    assert said == since or (old == (2, 0) and since.endswith(said))


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A torch with a new member in ``torch::CppFunction``, which every registration passes."""
    hide_identity(monkeypatch)
    package = made(tmp_path, "2.16.0", ("include",))
    shutil.copytree((package / "lib").resolve().parent / "include", package / "include")
    header = package / "include/torch/library.h"
    text = header.read_text("utf-8")
    assert MEMBER in text
    header.write_text(text.replace(MEMBER, f"  long added_;\n{MEMBER}"), "utf-8")
    return package


BUILT_FOR: Final = "2.8.0"  # the newest release that crossing.so is like
MEMBER: Final = "  std::string debug_;\n"
CLANGS: Final = {"libclang": "abiscan[layouts] is not installed", "a program": "there is no clang++ on this machine"}


FIND: Final = clang.find_clang


def clang_or_skip(kind: str, monkeypatch: pytest.MonkeyPatch) -> Clang:
    if kind == "libclang":
        monkeypatch.setattr(shutil, "which", lambda *_: None)
    else:
        monkeypatch.setattr(importlib.util, "find_spec", lambda *_: None)
    found = FIND()
    if found is None:
        pytest.skip(CLANGS[kind])
    return found


@pytest.mark.parametrize("kind", CLANGS)
def test_a_changed_declaration_is_laid_out_by_clang(
    kind: str, changed: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = clang_or_skip(kind, monkeypatch)
    monkeypatch.setattr(clang, "find_clang", lambda: found)
    (result,) = results(changed, cache, ("layout_drift/crossing.so",)).values()
    # The 8 bytes come before debug_, so all of the sizes and places follow from those of the release.
    built_for, release = (
        layouts.find_layout("torch::CppFunction", number, Machine.X86_64) for number in (BUILT_FOR, TORCH)
    )
    assert built_for is not None
    assert release is not None
    (was,) = (field.offset for field in built_for.fields if field.name == "debug_")
    (at,) = (field.offset for field in release.fields if field.name == "debug_")
    (drift,) = (
        finding for finding in result.findings if finding.effect is Effect.ABORTS and finding.rule == "layout-drift"
    )
    seen = {evidence.subject for evidence in drift.evidence}
    assert f"torch::CppFunction: debug_ moved from {was} to {at + 8}" in seen
    assert f"torch::CppFunction: added_ (long) is new at {at}" in seen
    assert f"torch::CppFunction: {built_for.size} → {release.size + 8} bytes" in seen
    assert result.verdict is Verdict.FAILS
    said = [finding.message for finding in result.findings if "clang laid out" in finding.message]
    assert said == ["torch 2.16.0 is not embedded: clang laid out 1 class from its headers"]
    assert not [gap for gap in result.gaps if "layout-drift" in gap.rules]


def test_a_changed_declaration_is_a_gap_without_clang(changed: Path, cache: Path) -> None:
    (result,) = results(changed, cache, ("layout_drift/crossing.so",)).values()
    (gap,) = (gap for gap in result.gaps if "layout-drift" in gap.rules)
    assert "torch::CppFunction" in gap.reason
    assert "abiscan[layouts]" in gap.reason
    assert result.verdict is Verdict.UNKNOWN
