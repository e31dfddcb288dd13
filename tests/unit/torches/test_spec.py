"""How users name a torch."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.torches import embedded
from abiscan.torches.torch import (
    ReleaseNumber,
    TorchAt,
    TorchChoice,
    drop_duplicates,
    each_build,
    torch_choice,
    torch_choices,
)


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ("2.6.0", ["2.6.0"]),
        ("2.6", ["2.6.0"]),
        ("torch==2.6.0", ["2.6.0"]),
        ("torch == 2.13.0+cu130", ["2.13.0+cu130"]),
        ("===2.6.0", ["2.6.0"]),
        ("torch>=2.5,<2.7", ["2.5.0", "2.5.1", "2.6.0"]),
        ("==2.5.*", ["2.5.0", "2.5.1"]),
        ("torch==2.5.*", ["2.5.0", "2.5.1"]),
        ("==2.5.1,!=2.6.0", ["2.5.1"]),
    ],
)
def test_a_requirement_means_the_releases_that_it_allows(spec: str, numbers: list[str]) -> None:
    assert list(torch_choices(spec)) == list(map(ReleaseNumber, numbers))


def test_latest_is_the_newest_embedded_release() -> None:
    assert torch_choice("latest") == ReleaseNumber(str(max(version for version, _, _ in embedded.builds())))


def test_a_file_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latest").mkdir()
    assert torch_choices("latest") == (TorchAt(Path("latest")),)


@pytest.mark.parametrize(("spec", "fix"), [("latst", "did you mean latest"), ("elsewhere", "pass a release number")])
def test_what_is_no_torch_is_told_at_once(spec: str, fix: str) -> None:
    with pytest.raises(InputError, match="does not exist, and is not a release number") as error:
        torch_choice(spec)
    assert error.value.fix.startswith(fix)


def test_an_address_is_no_torch_and_its_password_is_not_shown() -> None:
    with pytest.raises(InputError, match="does not exist, and is not a release number") as error:
        torch_choice("https://user:secret@index.example/torch.whl")
    assert error.value.subject == "https://index.example/torch.whl"


@pytest.mark.parametrize(
    ("number", "nearest"),
    [("2.99.0", "2.14.1, 2.15.0"), ("2.6.9", "2.5.1, 2.6.0, 2.7.0, 2.7.1"), ("1.0", "1.4.0, 1.5.0")],
)
def test_the_nearest_releases_are_named(number: str, nearest: str) -> None:
    machine = next(machine for _, machine, build in embedded.builds() if build == "2.13.0+cpu")
    with pytest.raises(InputError) as error:
        embedded.release(number, machine, Files())
    assert error.value.fix == f"the nearest are {nearest}; abiscan releases lists all"


def test_a_build_that_is_named_twice_is_one() -> None:
    """On x86_64, 2.13.0 stands for the CPU build; the CUDA build is another one."""

    def numbers(*chosen: str) -> list[TorchChoice]:
        return drop_duplicates(map(ReleaseNumber, chosen))

    for first, second in (("2.13.0", "2.13.0+cpu"), ("2.13.0+cpu", "2.13.0")):
        assert numbers(first, second) == [ReleaseNumber("2.13.0")]
    assert numbers("2.6.0", "2.6.0+cu124") == [ReleaseNumber("2.6.0")]
    assert numbers("2.12.0+cu130", "2.12.0") == [ReleaseNumber("2.12.0+cu130")]  # the only build of all machines
    assert len(numbers("2.13.0", "2.13.0+cu130", "2.12.0")) == 3
    assert len(numbers("2.99.0", "2.98.0")) == 2


def test_a_release_is_all_its_builds_and_a_build_is_itself() -> None:
    builds = {build for _, _, build in embedded.builds() if build.partition("+")[0] == "2.13.0"}
    assert {"2.13.0+cpu", "2.13.0+cu130"} <= builds
    found = [choice.number for choice in each_build([ReleaseNumber("2.13.0")]) if isinstance(choice, ReleaseNumber)]
    assert found[0] == "2.13.0"
    assert {*found[1:]} < builds
    assert "2.13.0+cu130" in found  # 2.13.0 itself stands for the CPU build
    for choice in (ReleaseNumber("2.13.0+cpu"), TorchAt(Path("/torch")), ReleaseNumber("2.99.0")):
        assert [*each_build([choice])] == [choice]


@pytest.mark.parametrize(
    ("build", "major"),
    [("2.6.0+cu126", "12"), ("2.6.0+cu118", "11"), ("2.13.0+cu130", "13"), ("2.6.0+cpu", None), ("2.6.0", None)],
)
def test_the_cuda_of_a_build(build: str, major: str | None) -> None:
    assert embedded.cuda_of(build) == major
