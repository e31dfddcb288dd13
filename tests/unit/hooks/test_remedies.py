"""The search for a way out: how long it takes, and what it comes to in that time."""

from __future__ import annotations

import shlex
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest
from packaging.requirements import Requirement

from abiscan.environments.model import Unmet, WholeEnvironment
from abiscan.environments.package_check import CheckedPackage, Problem
from abiscan.hooks import gate, pytorch_index, remedies, solution
from abiscan.hooks.install import Inspection, Inspector, InstallerError
from abiscan.hooks.pip import Pip
from abiscan.hooks.plan import Plan, Planned
from abiscan.hooks.pytorch_index import name_builds
from abiscan.hooks.remedies import find_remedies, limit_time
from abiscan.hooks.solution import Task
from abiscan.inputs import interpreter
from abiscan.inputs.packages import Distribution
from abiscan.inputs.session import Session
from abiscan.results.changes import PackageChange
from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict
from abiscan.results.verdict import How

EMPTY = WholeEnvironment(python=None, distributions=())


def lacking(name: str) -> Problem:
    """A distribution that requires another one, which is named after it."""
    missing = Unmet(subject=f"{name} 1.0", requirement=f"{name}-helper>=1", name=f"{name}-helper", there=None)
    return Problem(
        name=name, version="1.0", source=Path(name), checked_package=CheckedPackage(results=()), unmet=(missing,)
    )


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., remedies.Remedies]:
    """A search where each requirement can be had, and what it leads to is examined by a function: it says what fails
    after an installation of some names.
    """

    def plan(self: Pip, words: Sequence[str], **_: Any) -> Plan:
        names = {word.partition(">=")[0].partition("==")[0] for word in words}
        # The newest of one requires another torch, unless that is pinned.
        names ^= {"torch"} & names or ({"torch"} if "newer-helper" in names else set())
        planned = (Planned(name=name, version="1.0", url=None, wheel=True, requires=()) for name in sorted(names))
        return Plan(python=self.python, packages=tuple(planned))

    def find(
        examine: Callable[[str, set[str]], str | Problem | None],
        broken: Sequence[str | Problem],
        sizes: dict[str, int] | None = None,
        changes: Callable[..., tuple[PackageChange, ...]] | None = None,
        followers: dict[str, list[str]] | None = None,
    ) -> remedies.Remedies:
        def inspect(_: Inspector, plan: Plan, requested: set[str]) -> Inspection:
            names = {planned.name for planned in plan.packages}
            failing = [problem for name in sorted(requested) if (problem := examine(name, names)) is not None]
            return Inspection(torch="2.13.0+cpu", problems=tuple(map(as_problem, failing)), notes=())

        def all_new(plan: Plan, *_: Any, **_options: Any) -> tuple[PackageChange, ...]:
            names = [planned.name for planned in plan.packages]
            return tuple(
                PackageChange(name=name, before=None, after="1.0", size=(sizes or {}).get(name, 1)) for name in names
            )

        monkeypatch.setattr(Inspector, "inspect_plan", inspect)
        monkeypatch.setattr(remedies, "list_changes", changes or all_new)
        session = limit_time(Session(folder=tmp_path))
        inspector = Inspector(tmp_path, (), session)
        problems = [*map(as_problem, broken)]
        return find_remedies(problems, (), "2.13.0+cpu", Pip("python"), inspector, session, followers or {})

    monkeypatch.setattr(Pip, "plan_install", plan)
    monkeypatch.setattr(Pip, "list_versions", lambda *_: ())
    monkeypatch.setattr(interpreter, "search_path", lambda _: ())
    monkeypatch.setattr(remedies, "solve", lambda *_: None)
    return find


def as_problem(item: str | Problem) -> Problem:
    return lacking(item) if isinstance(item, str) else item


def commands_of(result: remedies.Remedies) -> dict[tuple[str, ...], list[str]]:
    return {remedy.remedies: shlex.split(remedy.command)[3:] for remedy in result.remedies}


def test_a_search_ends_in_time_with_what_it_has(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)  # however busy the machine is

    def take_long_for_slow(name: str, _: set[str]) -> None:
        while name == "slow":
            pass

    begin = time.process_time()
    lacks_nothing = msgspec.structs.replace(lacking("old"), unmet=())
    result = search(take_long_for_slow, [lacks_nothing, "slow", "later"])
    assert [remedy.remedies for remedy in result.remedies] == [("slow", "later")]  # and not what it is no remedy for
    result = search(take_long_for_slow, ["quick", "slow", "later"])
    assert time.process_time() - begin < 2
    assert [remedy.remedies for remedy in result.remedies if remedy.examined] == [("quick",)]
    unproved = [remedy for remedy in result.remedies if not remedy.examined]
    assert [remedy.remedies for remedy in unproved] == [("slow",), ("later",)]
    assert all("there was no time to examine whether it is enough" in str(remedy.advice) for remedy in unproved)
    assert result.unfinished == ()


def test_what_lacks_nothing_is_solved_first(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """torchvision for another torch, beside a package that lacks fifteen others: another torchvision is found soon."""
    solved: list[tuple[tuple[str, ...], bool]] = []
    monkeypatch.setattr(remedies, "solve", lambda task, *_: solved.append((task.names, task.same_torch)))
    lacks_nothing = msgspec.structs.replace(lacking("old"), unmet=())
    search(lambda name, _: lacking(name), ["lacking", lacks_nothing])
    alone = [(names, same_torch) for names, same_torch in solved if len(names) == 1]
    assert alone[0] == (("old",), True)
    assert sorted(alone) == [(("lacking",), False), (("lacking",), True), (("old",), False), (("old",), True)]


def test_what_is_installed_already_is_no_way_out(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``fit`` finds that the newest version works by itself, and does not look at what it fails for here."""
    monkeypatch.setattr(remedies, "solve", solution.solve)
    fitting = {"one": "1.0"}
    monkeypatch.setattr(solution, "newest_fitting", lambda *_: fitting)
    monkeypatch.setattr(solution, "list_changes", lambda *_, **_options: ())
    real = Pip.plan_install

    def plan(self: Pip, words: Sequence[str], **options: Any) -> Plan:
        planned = real(self, [word for word in words if not word.startswith("-")], **options)
        return msgspec.structs.replace(planned, packages=()) if "one==1.0" in words else planned

    monkeypatch.setattr(Pip, "plan_install", plan)
    problem = msgspec.structs.replace(lacking("one"), unmet=())
    assert commands_of(search(lambda *_: None, [problem])) == {}
    fitting["one"] = "2.0"
    assert commands_of(search(lambda *_: None, [problem])) == {("one",): ["one==2.0"]}


def test_a_search_ends_where_an_object_is_no_longer_there(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a finaliser raises, CPython prints and drops."""
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)

    class Held:
        pass

    def take_time(seconds: float) -> None:
        begin = time.process_time()
        while time.process_time() - begin < seconds:
            pass

    def take_long_for_slow(name: str, _: set[str]) -> None:
        if name == "slow":
            held = Held()
            weakref.finalize(held, take_time, 0.5)
            del held
            take_time(5)

    begin = time.process_time()
    search(take_long_for_slow, ["slow", "later"])
    assert time.process_time() - begin < 3


@pytest.mark.parametrize(
    ("breaks", "expected"),
    [((), [("frame", "learns")]), (("learns",), [("frame",)]), (("new",), [])],
    ids=["all", "some", "what worked"],
)
def test_the_numpy_that_packages_were_compiled_for(
    search: Callable[..., remedies.Remedies], breaks: tuple[str, ...], expected: list[tuple[str, ...]]
) -> None:
    broken = [msgspec.structs.replace(lacking(name), unmet=(), other="numpy<2") for name in ("frame", "learns")]

    def examine(name: str, names: set[str]) -> Problem | None:
        if "new" in breaks and "numpy<2" in names:
            return lacking("new")
        is_broken = "numpy<2" not in names or name in breaks
        return lacking(name) if is_broken else None

    result = search(examine, broken)
    assert commands_of(result) == {names: ["numpy<2"] for names in expected}


def test_the_numpy_that_was_not_examined_is_for_those_that_were_compiled_for_it(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    old, other, lacks = msgspec.structs.replace(lacking("old"), unmet=(), other="numpy<2"), lacking("other"), "lacks"
    other = msgspec.structs.replace(other, unmet=())

    def take_long(name: str, names: set[str]) -> str:
        while "numpy<2" in names:
            pass
        return name

    (remedy,) = search(take_long, [old, other, lacks]).remedies
    assert (remedy.remedies, remedy.examined) == (("old",), False)
    assert str(remedy.advice).startswith("another numpy is needed by old: ")


def take_long(seconds: float = 5.0) -> None:
    begin = time.process_time()
    while time.process_time() - begin < seconds:
        pass


def test_what_was_not_examined_is_for_those_whose_requirements_it_brings(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As transformers refuses the tokenizers that is there, where what datasets lacks is installed."""
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    helper = lacking("refuses").unmet[0]
    other = Unmet(subject="refuses 1.0", requirement="tokens<0.19", name="tokens", there="0.22")
    refuses = msgspec.structs.replace(lacking("refuses"), unmet=(helper, other))
    needs_it = msgspec.structs.replace(lacking("needs-it"), requires=frozenset({"refuses"}))
    result = search(lambda *_: take_long(), [refuses, needs_it, lacking("lacks")])
    assert [(remedy.remedies, remedy.examined) for remedy in result.remedies] == [(("lacks",), False)]


def test_what_was_not_examined_and_changes_no_more_than_what_was_is_no_other_command(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As numpy<2 for pandas, where numpy<2,>=1.20 is what matplotlib requires."""
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    lacks = msgspec.structs.replace(lacking("plots"), other="plots-helper")
    frame = msgspec.structs.replace(lacking("frame"), unmet=(), other="plots-helper")
    result = search(lambda name, _: take_long() if name == "frame" else None, [lacks, frame])
    assert commands_of(result) == {("plots", "frame"): ["plots-helper>=1"]}
    assert "the same may be enough for frame, which there was no time to examine" in str(result.remedies[0].advice)


def test_what_there_was_no_time_to_plan_is_named(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the setuptools that still has pkg_resources, beside packages that lack a lot."""
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    monkeypatch.setattr(Pip, "list_versions", lambda *_: take_long())
    metrics = msgspec.structs.replace(lacking("metrics"), unmet=(), other="setuptools<82")
    vision = Unmet(subject="lacks 1.0", requirement="torchvision", name="torchvision", there=None)
    result = search(lambda *_: take_long(), [metrics, msgspec.structs.replace(lacking("lacks"), unmet=(vision,))])
    index = "https://download.pytorch.org/whl/cpu"
    assert commands_of(result) == {
        ("metrics",): ["setuptools<82"],
        ("lacks",): ["--no-deps", "torchvision==0.28.0+cpu", "--index-url", index],
    }
    assert str(result.remedies[0].advice).startswith("another setuptools is needed by metrics: install it")
    assert not any(remedy.examined for remedy in result.remedies)


def test_what_pip_takes_too_long_to_plan_is_named(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    monkeypatch.setattr(Pip, "plan_install", lambda *_, **__: take_long())
    metrics = msgspec.structs.replace(lacking("metrics"), unmet=(), other="setuptools<82")
    assert commands_of(search(lambda *_: None, [metrics])) == {("metrics",): ["setuptools<82"]}


def test_what_fails_for_more_is_not_named_with_what_is_not_there(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No plan is made at all: that of trl, which requires transformers, is enough only with that of transformers."""
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    monkeypatch.setattr(Pip, "plan_install", lambda *_, **_options: take_long())
    other = Unmet(subject="transformers 4.0", requirement="tokens<0.19", name="tokens", there="0.22")
    refuses = msgspec.structs.replace(lacking("transformers"), unmet=(*lacking("transformers").unmet, other))
    trl = msgspec.structs.replace(lacking("trl"), requires=frozenset({"transformers"}))
    user_of_trl = msgspec.structs.replace(lacking("user"), requires=frozenset({"trl"}))
    result = search(lambda *_: None, [refuses, user_of_trl, trl, lacking("learns"), lacking("frame")])
    assert commands_of(result) == {("learns", "frame"): ["learns-helper>=1", "frame-helper>=1"]}


@pytest.fixture
def datasets(monkeypatch: pytest.MonkeyPatch) -> None:
    """datasets requires huggingface-hub>=1.0, and has it."""
    there = (("datasets", "5.0", ("hub>=1.0",)), ("hub", "2.4", ()), ("old", "1.0", ()), ("learns", "1.0", ()))
    distributions = tuple(
        Distribution(name=name, version=version, site="/env", objects=(), requires=requires, source=None)
        for name, version, requires in there
    )
    environment = WholeEnvironment(python=None, distributions=distributions)
    monkeypatch.setattr(WholeEnvironment, "installed", lambda _: environment)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> list[list[str]]:
    """What pip was asked for: it has versions 0.36, 2.4 and 3.0 of hub, and takes the newest."""
    request.getfixturevalue("search")  # whose pip this one replaces
    asked = list[list[str]]()

    def plan(self: Pip, words: Sequence[str], **_: Any) -> Plan:
        asked.append(list(words))
        wanted = [Requirement(word) for word in words if not word.startswith("-")]
        versions = dict[str, str]()
        for name in dict.fromkeys(item.name for item in wanted):
            known = ("3.0", "2.4", "0.36") if name == "hub" else ("1.0",)
            fitting = [one for one in known if all(one in item.specifier for item in wanted if item.name == name)]
            if not fitting:
                raise InstallerError(1)
            versions[name] = fitting[0]
        packages = (
            Planned(name=name, version=version, url=None, wheel=True, requires=()) for name, version in versions.items()
        )
        return Plan(python=self.python, packages=tuple(packages))

    monkeypatch.setattr(Pip, "plan_install", plan)
    return asked


@pytest.mark.usefixtures("datasets", "planned")
@pytest.mark.parametrize("has_time", [False, True])
def test_what_takes_from_another_what_it_requires_is_not_proposed(
    *, has_time: bool, search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As huggingface-hub<1.0 for an old transformers: pip only warns that datasets requires 1.0."""
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    older = Unmet(subject="old 1.0", requirement="hub<1.0", name="hub", there="2.4")
    old = msgspec.structs.replace(lacking("old"), unmet=(older,))
    result = search(lambda *_: None if has_time else take_long(), [old, lacking("learns")])
    assert commands_of(result) == {("learns",): ["learns-helper>=1"]}
    assert [remedy.examined for remedy in result.remedies] == [has_time]


@pytest.mark.usefixtures("datasets", "planned")
def test_what_needs_an_older_release_than_others_is_upgraded(
    search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As h5py that was compiled for numpy 1, and numba that refuses numpy 2, where pandas requires that."""
    older = Unmet(subject="refuses 1.0", requirement="hub<1.0", name="hub", there="2.4")
    compiled = msgspec.structs.replace(lacking("compiled"), unmet=(), other="hub<1.0")
    refuses = msgspec.structs.replace(lacking("refuses"), unmet=(older,))
    hopeless = msgspec.structs.replace(compiled, name="hopeless")

    def examine(name: str, names: set[str]) -> str | None:
        return None if name in names and name != "hopeless" else name

    result = search(examine, [compiled, hopeless, refuses])
    assert commands_of(result) == {("compiled", "refuses"): ["--upgrade", "compiled", "refuses"]}
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    result = search(lambda *_: take_long(), [compiled, refuses, "slow"])
    assert commands_of(result) == {
        ("slow",): ["slow-helper>=1"],
        ("compiled", "refuses"): ["--upgrade", "compiled", "refuses"],
    }
    assert not any(remedy.examined for remedy in result.remedies)


@pytest.mark.parametrize("has_time", [False, True])
def test_what_becomes_of_those_that_fail_for_another(
    *, has_time: bool, search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As confection, which works once pydantic does, and thinc, which was compiled for another numpy."""
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    raises = ImportFailure(how=How.RAISES, exception="ValueError", message="No.", file=None, line=None, cause=None)
    package = PackageResult(
        target="thinc", name="thinc", version="1.0", torch=None, torch_build=None, module="thinc",
        verdict=PackageVerdict.IMPORT_FAILS, error=raises,
    )  # fmt: skip
    checked = CheckedPackage(results=(), package=package)
    fails = msgspec.structs.replace(lacking("thinc"), checked_package=checked)

    def examine(name: str, _: set[str]) -> Problem | None:
        if name == "thinc" and not has_time:
            take_long()
        return fails if name == "thinc" else None

    (remedy,) = search(examine, ["pydantic"], followers={"pydantic": ["confection", "thinc"]}).remedies
    assert (remedy.remedies, remedy.advice) == (
        (("pydantic", "confection"), "thinc fails then for something else: ValueError: No.")
        if has_time
        else (
            ("pydantic",),
            "confection, thinc fail for the same reason, and then perhaps for another one: run abiscan doctor again",
        )
    )


@pytest.mark.usefixtures("datasets")
def test_what_others_require_is_asked_for_with_the_rest(
    search: Callable[..., remedies.Remedies], planned: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = WholeEnvironment.installed(None)
    other = Distribution(name="keeps", version="1.0", site="/", objects=(), requires=("hub!=3.0",), source=None)
    environment = WholeEnvironment(python=None, distributions=(*there.distributions, other))
    monkeypatch.setattr(WholeEnvironment, "installed", lambda _: environment)
    another = Unmet(subject="old 1.0", requirement="hub!=2.3", name="hub", there="2.3")
    result = search(lambda *_: None, [msgspec.structs.replace(lacking("old"), unmet=(another,))])
    assert commands_of(result) == {("old",): ["hub!=2.3", "hub!=3.0"]}
    assert planned == [["hub!=2.3"], ["hub!=2.3", "hub!=3.0"]]


@pytest.mark.parametrize("planned", [False, True])
def test_a_version_that_was_found_is_named_though_there_was_no_time_to_verify_it(
    *, planned: bool, search: Callable[..., remedies.Remedies], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remedies, "SECONDS", 0.3)
    monkeypatch.setattr(remedies, "_WAITING", 1_000)
    monkeypatch.setattr(remedies, "solve", solution.solve)
    monkeypatch.setattr(solution, "newest_fitting", lambda *_: {"old": "2.0"})
    real = Pip.plan_install

    def plan(self: Pip, words: Sequence[str], **options: Any) -> Plan:
        if not planned:
            take_long()
        return real(self, words, **options)

    monkeypatch.setattr(Pip, "plan_install", plan)
    (remedy,) = search(lambda *_: take_long(), [msgspec.structs.replace(lacking("old"), unmet=())]).remedies
    assert (remedy.remedies, remedy.examined) == (("old",), False)
    assert shlex.split(remedy.command)[3:] == ["old==2.0"]
    assert [change.name for change in remedy.changes] == (["old"] if planned else [])
    assert str(remedy.advice).startswith("another version is needed by old: install it, and run abiscan doctor again")


def test_what_a_version_requires_that_is_replaced_does_not_count() -> None:
    """As transformers 4 requires tokenizers<0.19, where sentence-transformers requires transformers>=5."""
    sentence = wanting(("transformers>=5", "4.37.2"))
    items = (("transformers 4.37.2", "tokenizers<0.19", "0.22.1"), ("tokenizers 0.22.1", "hub>=1", None))
    below = tuple(
        Unmet(subject=subject, requirement=text, name=Requirement(text).name, there=there)
        for subject, text, there in items
    )
    wanted = pytorch_index.list_wanted(
        [msgspec.structs.replace(sentence, unmet=(*sentence.unmet, *below))], "2.13.0+cpu", replacing=True
    )
    assert list(wanted.values()) == ["transformers>=5", "hub>=1"]


def test_gigabytes_come_last(search: Callable[..., remedies.Remedies]) -> None:
    result = search(lambda *_: None, ["large", "small"], {"large-helper": 3 << 30})
    assert [remedy.remedies for remedy in result.remedies] == [("small",), ("large",)]
    assert result.unfinished == ()


def test_one_installation_for_all_that_is_missing(search: Callable[..., remedies.Remedies]) -> None:
    """What still fails then is left out."""
    result = search(lambda name, _: "hopeless" if name == "hopeless" else None, ["one", "hopeless", "other"])
    assert commands_of(result) == {("one", "other"): ["one-helper>=1", "other-helper>=1"]}


def test_what_is_little_to_install_is_examined_before_the_rest(search: Callable[..., remedies.Remedies]) -> None:
    """As tokenizers, which takes seconds, beside pandas, pyarrow and six others for datasets."""
    many = tuple(Unmet(subject="much 1.0", requirement=f"part{n}", name=f"part{n}", there=None) for n in range(8))
    examined = list[str]()
    result = search(
        lambda name, _: examined.append(name), [msgspec.structs.replace(lacking("much"), unmet=many), "little", "other"]
    )
    assert examined == ["little", "other", "much"]
    assert commands_of(result) == {
        ("little", "other"): ["little-helper>=1", "other-helper>=1"],
        ("much",): [item.name for item in many],
    }


def test_what_works_with_more_is_not_examined_with_less(search: Callable[..., remedies.Remedies]) -> None:
    """Nor is what fails with everything that it requires examined with that alone, if nothing was replaced."""
    examined = list[str]()

    def examine(name: str, _: set[str]) -> str | None:
        examined.append(name)
        return "hopeless" if name == "hopeless" else None

    result = search(examine, ["one", "hopeless"])
    assert commands_of(result) == {("one",): ["one-helper>=1"]}
    assert examined == ["hopeless", "one"]


def test_what_was_examined_counts_though_nobody_knows_in_time_how_large_it_is(
    search: Callable[..., remedies.Remedies],
) -> None:
    def take_too_long(*_: object, **_options: object) -> tuple[PackageChange, ...]:
        raise remedies.OutOfTimeError

    (remedy,) = search(lambda *_: None, ["one"], changes=take_too_long).remedies
    assert (remedy.remedies, remedy.examined, remedy.bytes) == (("one",), True, None)
    assert [(change.name, change.after) for change in remedy.changes] == [("one-helper", "1.0")]


def test_what_breaks_something_else_is_not_proposed(search: Callable[..., remedies.Remedies]) -> None:
    result = search(lambda _, there: "sound" if "one-helper" in there else None, ["one", "other"])
    assert commands_of(result) == {("other",): ["other-helper>=1"]}


def test_torch_stays_where_something_is_missing(search: Callable[..., remedies.Remedies]) -> None:
    assert commands_of(search(lambda *_: None, ["newer"])) == {("newer",): ["newer-helper>=1", "torch==2.13.0"]}


def test_a_missing_package_that_goes_with_torch(search: Callable[..., remedies.Remedies]) -> None:
    """Which version that is is known, and where its build for CPUs is: what needs it fails until it is there."""
    index = "https://download.pytorch.org/whl/cpu"
    unmet = Unmet(subject="timm 1.0", requirement="torchvision", name="torchvision", there=None)
    timm = msgspec.structs.replace(lacking("timm"), unmet=(unmet, *lacking("timm").unmet))
    clip = msgspec.structs.replace(lacking("clip"), cause="timm")
    result = search(lambda name, _: {"timm": timm, "clip": clip}.get(name), [timm, clip])
    assert commands_of(result) == {
        ("timm",): ["torchvision==0.28.0+cpu", "timm-helper>=1", "--extra-index-url", index],
        ("clip",): ["clip-helper>=1"],
    }


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
    result = name_builds([broken], torch, Pip("python"), EMPTY)
    assert [(remedy.changes[0].after, remedy.examined) for remedy in result] == ([(version, False)] if version else [])
    words = f" install --no-deps {name}=={version} --index-url https://download.pytorch.org/whl/cpu"
    assert all(remedy.command.endswith(words) for remedy in result)
    assert all(remedy.advice == f"{name}=={version} is on PyTorch's own index, which was not read" for remedy in result)


def test_builds_without_an_index_are_one_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckedPackage, "torch_kind", "CUDA")
    broken = [
        Problem(name=name, version=version, source=Path(name), checked_package=CheckedPackage(results=()))
        for name, version in (("torchvision", "0.28.0"), ("torchaudio", "2.11.1"))
    ]
    (remedy,) = name_builds(broken, "2.13.0+cpu", Pip("python"), EMPTY)
    assert remedy.remedies == ("torchvision", "torchaudio")
    assert " install --no-deps torchvision==0.28.0+cpu torchaudio==2.11.1+cpu --index-url " in remedy.command


@pytest.mark.parametrize(
    ("name", "torch", "pin"),
    [
        ("torchvision", "2.13.0+cpu", "torchvision==0.28.0+cpu"),
        ("torchvision", "2.13.0+cu130", None),  # PyPI's builds are of this kind
        ("torchtext", "2.13.0+cpu", None),  # no version goes with this torch
        ("xformers", "2.13.0+cpu", None),
    ],
)
def test_a_version_for_another_torch_is_replaced_by_that_for_this_one(name: str, torch: str, pin: str | None) -> None:
    """The metadata of torchvision 0.24.1 require torch 2.9.1, those of 0.28.0 require torch 2.13.0."""
    unmet = Unmet(subject=f"{name} 0.24.1", requirement="torch==2.9.1", name="torch", there=torch)
    broken = msgspec.structs.replace(lacking(name), version="0.24.1", unmet=(unmet,))
    assert list(pytorch_index.list_wanted([broken], torch, replacing=False).values()) == ([pin] if pin else [])
    assert [remedy.remedies for remedy in name_builds([broken], torch, Pip("python"), EMPTY)] == (
        [(name,)] if pin else []
    )
    required = ("torchvision==0.24.*", "torchvision-more", "torchvision<0.1; python_version < '3'")
    other = Distribution(name="foo", version="1.0", site="/env", objects=(), requires=required, source=None)
    assert not name_builds([broken], torch, Pip("python"), WholeEnvironment(python=None, distributions=(other,)))
    other = msgspec.structs.replace(other, requires=required[1:])
    environment = WholeEnvironment(python=None, distributions=(other,))
    assert bool(name_builds([broken], torch, Pip("python"), environment)) is bool(pin)


@pytest.mark.parametrize(
    ("versions", "torch", "pinned"),
    [
        (("0.28.0",), "2.13.0+cpu", "torchvision==0.28.0+cpu"),
        (("0.28.0", "0.28.0+cpu"), "2.13.0+cpu", None),  # it was read: a search of it is examined
        (("0.28.0",), "2.13.0+cu130", None),  # PyPI's builds are of this kind
    ],
)
def test_an_installation_names_a_build_before_another_torch(
    versions: tuple[str, ...], torch: str, pinned: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(CheckedPackage, "torch_kind", "CUDA")
    monkeypatch.setattr(Pip, "list_versions", lambda *_: versions)
    result = CheckedPackage(results=())
    vision = Problem(name="torchvision", version="0.28.0", source=Path("torchvision"), checked_package=result)
    timm = msgspec.structs.replace(lacking("timm"), unmet=(), cause="torchvision")
    words = ["torchvision<1", "timm", "--no-cache-dir"]
    task = Task(words=words, plan=Plan(python="python", packages=()), broken=[timm, vision], torch=torch)
    lines = list(gate.name_builds(Pip("python"), task, Session(folder=tmp_path)))
    expected = [
        f"{pinned} is on PyTorch's own index, which was not read",
        (
            f"to install it: {Pip('python').format_command(['install', str(pinned), 'timm', '--no-cache-dir'])}"
            " --extra-index-url https://download.pytorch.org/whl/cpu"
        ),
    ]
    assert lines == (expected if pinned else [])
    # Where something fails for another reason, a build is not enough.
    other = msgspec.structs.replace(task, broken=[vision, lacking("other")])
    monkeypatch.setattr(CheckedPackage, "torch_kind", property(lambda self: "CUDA" if self is result else None))
    assert list(gate.name_builds(Pip("python"), other, Session(folder=tmp_path))) == []


def wanting(*unmet: tuple[str, str | None]) -> Problem:
    """timm, with requirements that are not met, and the versions that are there."""
    items = [
        Unmet(subject="timm 1.0", requirement=text, name=Requirement(text).name, there=there) for text, there in unmet
    ]
    return msgspec.structs.replace(lacking("timm"), unmet=tuple(items))


@pytest.mark.parametrize(
    ("requirements", "word"),
    [
        (["helper[fast]>=1"], "helper[fast]>=1"),
        (["helper[fast]>=1", "helper[slow]<3"], "helper[fast,slow]<3,>=1"),
        (["helper @ https://example.org/helper.zip"], "helper @ https://example.org/helper.zip"),
        (["helper>=1", "helper @ https://example.org/helper.zip"], "helper @ https://example.org/helper.zip"),
        # The version that goes with torch would be another one than what is asked for by its address.
        (["torchvision @ https://example.org/vision.zip"], "torchvision @ https://example.org/vision.zip"),
    ],
)
def test_what_is_wanted_is_what_is_required(requirements: list[str], word: str) -> None:
    problems = [wanting((text, None)) for text in requirements]
    assert list(pytorch_index.list_wanted(problems, "2.13.0+cpu", replacing=False).values()) == [word]


def test_everything_that_comes_with_a_build_is_named() -> None:
    problem = wanting(("torchvision", None), ("helper==1.2", None), ("other>=2", None), ("numpy==2.1.0", "1.26.4"))
    wanted = pytorch_index.list_wanted([problem], "2.13.0+cpu", replacing=True)
    remedy = pytorch_index.name_unread([problem], wanted, Pip("python"))
    changes = {change.name: (change.before, change.after) for change in remedy.changes}
    assert changes == {"torchvision": (None, "0.28.0+cpu"), "helper": (None, "1.2"), "numpy": ("1.26.4", "2.1.0")}
    assert remedy.advice == (
        "torchvision==0.28.0+cpu is on PyTorch's own index, which was not read; "
        "which version of other>=2 would be installed is not known"
    )


def test_only_builds_of_packages_next_to_torch_are_on_its_index() -> None:
    """As PyPI's metadata of torchvision and of torch-scatter's wheels for torch 2.5 have versions."""
    on_its_index = pytorch_index.is_on_own_index
    assert on_its_index("torchvision==0.20.0+cpu")
    assert not on_its_index("torch-scatter==2.1.2+pt25cu121")
    assert pytorch_index.words_of({"a": "torch-scatter==2.1.2+pt25cu121"}) == ["torch-scatter==2.1.2+pt25cu121"]


def test_a_trial_says_nothing_of_what_was_not_asked_about(search: Callable[..., remedies.Remedies]) -> None:
    def lacks(name: str, *required: str) -> Problem:
        unmet = (Unmet(subject=f"{name} 1.0", requirement=item, name=item, there=None) for item in required)
        return msgspec.structs.replace(lacking(name), unmet=tuple(unmet))

    # All three fail, whatever is installed: the trial for the first says nothing of the second.
    result = search(lambda name, _: name, [lacks("a", "x"), lacks("b", "x"), lacks("c", "x", "z")])
    assert result.remedies == ()


def test_a_search_is_interrupted_again_where_that_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPython prints and drops what is raised in a generator that nobody has any more."""
    monkeypatch.setattr(remedies, "_AGAIN", 0.01)
    lost = list[object]()
    monkeypatch.setattr(sys, "unraisablehook", lambda found: lost.append(found.exc_type))

    def take_time(seconds: float) -> None:
        begin = time.process_time()
        while time.process_time() - begin < seconds:
            pass

    def held() -> Iterator[None]:
        try:
            yield
        finally:
            take_time(1)

    def lose() -> None:
        dropped = held()
        next(dropped)
        del dropped
        take_time(2)

    with pytest.raises(remedies.OutOfTimeError), remedies._interrupted_after(0.05):
        lose()
    assert lost == [remedies.OutOfTimeError]
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0


def test_what_tidies_up_sets_of_weak_references_is_not_interrupted() -> None:
    class Held:
        pass

    seen = list[bool]()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.append(remedies._is_tidying_up(frame))

    held = Held()
    holding = weakref.WeakSet([held])
    sys.setprofile(look)
    del held
    sys.setprofile(None)
    assert seen == [True]
    assert not holding


def test_a_search_in_a_thread_has_no_timer() -> None:
    """Only the main thread may handle signals."""

    def search(rounds: int) -> None:
        with remedies._interrupted_after(0.001):
            for number in range(rounds):
                counted[:] = [number]

    counted: list[int] = []
    thread = threading.Thread(target=search, args=[100_000])
    thread.start()
    thread.join()
    assert counted == [99_999]
    with pytest.raises(remedies.OutOfTimeError):
        search(10**9)
