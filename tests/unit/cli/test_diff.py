from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import abiscan
from abiscan.cli import main
from tests.elf_builder import uses
from tests.fakes import extension
from tests.schemas import is_valid, validate

pytestmark = pytest.mark.slow

SAMPLES = Path(__file__).resolve().parents[3] / "sample_binaries"

# torch 2.7 moved x86_64 wheels to the C++11 string.
OLD_ERROR = "_ZN3c105ErrorC2ENS_14SourceLocationESs"


@pytest.fixture(autouse=True, scope="module")
def compared_once() -> Iterator[None]:
    """Two torches are compared once, whatever is printed of it."""
    compare = abiscan.diff

    @functools.cache
    def comparison(old: str, new: str, used_by: str | None, machine: str) -> abiscan.Comparison:
        return compare(old, new, used_by=used_by, machine=machine)

    def compare_once(
        old: str,
        new: str,
        *,
        used_by: str | None,
        machine: str,
        session: object,  # noqa: ARG001 - it keeps nothing here
    ) -> abiscan.Comparison:
        return comparison(old, new, used_by, machine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(abiscan, "diff", compare_once)
        yield


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, ["diff", *arguments])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.6.0", "2.7.0"),
        pytest.param("1.13.1", "2.0.0", marks=pytest.mark.long),
        pytest.param("2.13.0", "2.13.0", marks=pytest.mark.long),
    ],
)
def test_the_json_is_as_its_schema_says(old: str, new: str) -> None:
    document = json.loads(run(old, new, "--format", "json"))
    validate(document, "diff")
    assert document["version"] == 1
    assert not is_valid({**document, "extra": 1}, "diff")
    # Every field is needed.
    short = {name: value[:2] if isinstance(value, list) else value for name, value in document.items()}
    assert is_valid(short, "diff")
    for field in short:
        assert not is_valid({name: value for name, value in short.items() if name != field}, "diff")


def test_a_class_whose_member_changed_has_no_line_of_its_own() -> None:
    """torch 2.9.0 gave the union in c10::IValue a member, in the same place as the others: c10/core/ivalue.h."""

    def layouts(*words: str) -> dict[str, str]:
        lines = [line.removeprefix("layout ") for line in run(*words).splitlines() if line.startswith("layout ")]
        return {name: text for name, _, text in (line.partition(": ") for line in lines)}

    union, all_of_it = "c10::IValue::Payload::TriviallyCopyablePayload", layouts("2.8.0", "2.9.1", "-v")
    folded = layouts("2.8.0", "2.9.1")
    repeated = [name for name, text in all_of_it.items() if text.endswith(f"({union}): as_uint (uint64_t) is new at 0")]
    assert len(repeated) > 20
    assert folded.keys() < all_of_it.keys()
    assert folded.keys() & set(repeated) == set()
    assert folded[union].startswith("as_uint (uint64_t) is new at 0 (also in ")


def test_numbers_are_compared() -> None:
    document = json.loads(run("2.6.0", "2.7.0", "--format", "json"))
    (libc10,) = (change for change in document["symbols"] if change["library"] == "libc10.so")
    assert OLD_ERROR in libc10["removed"]
    keys = {change["key"]: (change["old"], change["new"]) for change in document["dispatch_keys"]}
    assert keys["CPU"] == (49, 50)  # c10/core/DispatchKey.h
    # torch.stft of 2.7 takes align_to_window.
    (stft,) = (change for change in document["schemas_changed"] if change["operator"] == "aten::stft")
    assert stft["new"] == stft["old"].replace("return_complex=None", "return_complex=None, bool? align_to_window=None")
    assert document["old_api_version"] != document["new_api_version"]


def test_a_release_does_not_differ_from_itself() -> None:
    document = json.loads(run("2.6.0", "2.6.0", "--format", "json"))
    assert (document["symbols"], document["dispatch_keys"]) == ([], [])
    assert (document["schemas_changed"], document["dispatch_changed"]) == ([], [])
    assert document["old_api_version"] == document["new_api_version"]


@pytest.mark.long
def test_builds_with_and_without_cuda_differ_in_little_else() -> None:
    document = json.loads(run("2.13.0", "2.13.0+cu130", "--format", "json"))
    assert document["old"] == "torch 2.13.0+cpu"
    assert not document["cuda_compared"]
    assert (document["operators_added"], document["operators_removed"], document["schemas_changed"]) == ([], [], [])
    assert len(document["dispatch_changed"]) < 10


def test_an_extension_limits_the_answer() -> None:
    # sample_binaries/README.md: it uses at::_ops::align_as::call, which 2.6.0 exports and 2.13.0 does not.
    target = SAMPLES / "undefined_symbol_signature" / "undefined_symbol_signature.so"
    document = json.loads(run("2.6.0", "2.13.0", "--used-by", str(target), "--format", "json"))
    removed = {name for change in document["symbols"] for name in change["removed"]}
    assert "_ZN2at4_ops8align_as4callERKNS_6TensorES4_" in removed
    assert len(removed) < 10


def test_text_counts_symbols_and_lists_them_when_asked(tmp_path: Path) -> None:
    user = extension(undefined=uses(OLD_ERROR)).write(tmp_path / "_C.so")
    short, long = run("2.6.0", "2.7.0").splitlines(), run("2.6.0", "2.7.0", "-v", "--used-by", str(user)).splitlines()
    assert short[0] == "torch 2.6.0+cu124 → torch 2.7.0+cu126"
    removed, added = (
        sum(int(line.split(": ")[1].split()[place]) for line in short if line.startswith("symbols "))
        for place in (0, 2)
    )
    assert short[1].startswith(f"  {removed} symbols removed, ")
    assert added > 0
    (renumbered,) = (line for line in short if line.startswith("dispatch keys with another number: "))
    assert renumbered.endswith(" (use -v to show all)")
    assert "dispatch key CPU: 49 → 50" in long
    assert any(line.startswith("symbols libc10.so: ") for line in short)
    symbol = "  - c10::Error::Error(c10::SourceLocation, std::string)"
    assert [line for line in long if line.startswith("symbols")] == ["symbols libc10.so: 1 removed, 0 added"]
    assert (symbol in long, symbol in short) == (True, False)


def test_what_is_no_torch_is_one_line_and_exits_with_2(tmp_path: Path) -> None:
    assert run("2.6.0", str(tmp_path / "none"), code=2).startswith(f"abiscan: {tmp_path / 'none'}: does not exist")


@pytest.mark.parametrize("words", [("--format", "markdown"), ("--extra", "gpu")])
def test_what_is_for_locks_is_not_for_torches(words: tuple[str, str]) -> None:
    output = run("2.6.0", "2.7.0", *words, code=2)
    assert "--format markdown and the options for locks are for two locks" in output


# abiscan releases: 2.12.1 has a CUDA build only, 2.13.0 one of each kind.
@pytest.mark.parametrize(
    ("old", "new", "compared"),
    [
        ("2.12.1", "2.13.0", ("2.12.1+cu130", "2.13.0+cu130")),
        ("2.13.0", "2.14.0", ("2.13.0+cu130", "2.14.0+cu130")),
        ("2.12.1", "2.13.0+cpu", ("2.12.1+cu130", "2.13.0+cpu")),
        ("2.13.0", "2.13.0", ("2.13.0+cpu", "2.13.0+cpu")),
        ("2.13.0+cu130", "2.13.0", ("2.13.0+cu130", "2.13.0+cpu")),
    ],
)
def test_a_number_means_the_build_that_is_like_the_other_side(old: str, new: str, compared: tuple[str, str]) -> None:
    # With what one library uses, the comparison is a short one.
    document = json.loads(run(old, new, "--used-by", str(SAMPLES / "loads/loads.so"), "--format", "json"))
    assert (document["old"], document["new"]) == tuple(f"torch {build}" for build in compared)
    assert document["cuda_compared"] == (compared[0].endswith("cpu") == compared[1].endswith("cpu"))


def test_with_an_extension_the_last_lines_say_what_its_author_must_do() -> None:
    sample = SAMPLES / "layout_drift/crossing.so"
    run = CliRunner().invoke(main, ["diff", "2.8.0", "2.9.1", "--used-by", str(sample)])
    assert run.stdout.splitlines()[-1] == "recompile, because of: c10::IValue, torch::CppFunction"
    assert "recompile" not in CliRunner().invoke(main, ["diff", "2.8.0", "2.8.0"]).stdout
