"""The search for a way out: how long it takes, and what it comes to in that time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from abiscan.environments.model import Unmet
from abiscan.environments.package_check import CheckedPackage, Problem
from abiscan.hooks import remedies
from abiscan.hooks.install import Inspection, Inspector
from abiscan.hooks.pip import Pip
from abiscan.hooks.plan import Plan, Planned
from abiscan.hooks.pytorch_index import name_builds
from abiscan.hooks.remedies import find_remedies, limit_time
from abiscan.inputs.session import Session
from abiscan.results.changes import PackageChange


def lacking(name: str) -> Problem:
    """A distribution that requires another one, which is named after it."""
    missing = Unmet(subject=f"{name} 1.0", requirement=f"{name}-helper>=1", name=f"{name}-helper", there=None)
    return Problem(
        name=name, version="1.0", source=Path(name), checked_package=CheckedPackage(results=()), unmet=(missing,)
    )


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., remedies.Remedies]:
    """A search where each requirement can be had, and what it leads to is examined by a function."""

    def plan(self: Pip, words: list[str], **_: Any) -> Plan:
        (name,) = [word.partition(">=")[0] for word in words]
        planned = Planned(name=name, version="1.0", url=None, wheel=True, requires=())
        return Plan(python=self.python, packages=(planned,))

    def find(
        examine: Callable[[str], None], names: list[str], sizes: dict[str, int] | None = None
    ) -> remedies.Remedies:
        def inspect(*_: Any, requested: set[str]) -> Inspection:
            for name in requested:
                examine(name)
            return Inspection(torch="2.13.0+cpu", problems=(), notes=())

        def changes(plan: Plan, *_: Any) -> tuple[PackageChange, ...]:
            names = [planned.name for planned in plan.packages]
            return tuple(
                PackageChange(name=name, before=None, after="1.0", size=(sizes or {}).get(name, 1)) for name in names
            )

        monkeypatch.setattr(Inspector, "inspect_plan", inspect)
        monkeypatch.setattr(remedies, "list_changes", changes)
        session = limit_time(Session(folder=tmp_path))
        inspector = Inspector(tmp_path, (), session)
        return find_remedies([*map(lacking, names)], (), "2.13.0+cpu", Pip("python"), inspector, session)

    monkeypatch.setattr(Pip, "plan_install", plan)
    monkeypatch.setattr(remedies, "solve", lambda *_: None)
    return find


def test_a_search_ends_in_time_with_what_it_has(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "SECONDS", 0.1)

    def take_long_for_slow(name: str) -> None:
        while name == "slow":
            pass

    begin = time.process_time()
    result = search(take_long_for_slow, ["quick", "slow", "later"])
    assert time.process_time() - begin < 1
    assert [remedy.remedies for remedy in result.remedies] == [("quick",)]
    assert [problem.name for problem in result.unfinished] == ["slow", "later"]


def test_gigabytes_come_last(search: Callable[..., remedies.Remedies]) -> None:
    result = search(lambda _: None, ["large", "small"], {"large-helper": 3 << 30})
    assert [remedy.remedies for remedy in result.remedies] == [("small",), ("large",)]
    assert result.unfinished == ()


@pytest.mark.parametrize(
    ("name", "torch", "lacking_kind", "version"),
    [
        ("torchvision", "2.13.0+cpu", "CUDA", "0.28.0+cpu"),
        ("torchvision", "2.13.0+cpu", None, None),
        ("torchvision", "2.13.0+cu130", "CUDA", None),
        ("xformers", "2.13.0+cpu", "CUDA", None),  # which has no build for CPUs
    ],
)
def test_a_build_of_pytorch_is_named_without_an_index(
    name: str, torch: str, lacking_kind: str | None, version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckedPackage, "torch_kind", lacking_kind)
    broken = Problem(name=name, version="0.28.0", source=Path(name), checked_package=CheckedPackage(results=()))
    result = name_builds([broken], torch, Pip("python"))
    assert [(remedy.changes[0].after, remedy.examined) for remedy in result] == ([(version, False)] if version else [])
    words = f" install --no-deps {name}=={version} --index-url https://download.pytorch.org/whl/cpu"
    assert all(remedy.command.endswith(words) for remedy in result)
    assert all(remedy.advice == f"{name}=={version} is on PyTorch's own index, which was not read" for remedy in result)
