"""The parts of what stands before an installer: its arguments, the files that are pinned, what changes, the guard."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import json
import os
import signal
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from abiscan.environments.model import Unmet, WholeEnvironment
from abiscan.environments.package_check import CheckedPackage, Problem
from abiscan.errors import InputError
from abiscan.findings import Effect, Evidence, Finding
from abiscan.hooks import (
    arguments,
    changes,
    fitting,
    guard,
    planned_environment,
    pytorch_index,
    solution,
    strangers,
    torch_change,
    true_properties,
)
from abiscan.hooks.candidates import Candidates
from abiscan.hooks.doctor import Examination, WayOut, conclude_diagnosis
from abiscan.hooks.install import Inspector
from abiscan.hooks.pins import Pins, add_options
from abiscan.hooks.pip import Pip
from abiscan.hooks.plan import Plan, Planned, WheelFacts
from abiscan.hooks.planned_environment import PlannedEnvironment
from abiscan.hooks.strangers import Known, explain_origin, explain_strangers
from abiscan.hooks.torch_change import TorchChange
from abiscan.hooks.wheel_file import refuse_signed, rewrite_wheel
from abiscan.index.client import Settings
from abiscan.inputs import interpreter, isolation, programs
from abiscan.inputs.files import Wheel
from abiscan.inputs.packages import Distribution
from abiscan.inputs.session import Session
from abiscan.results.doctor import Ailment, Diagnosis, EnvironmentState, ProblemKind, TorchHealth
from tests.elf_builder import uses
from tests.fakes import extension, install, package_wheel, wheel
from tests.unit.report.reports import failure


def planned(name: str, version: str = "1.0", **fields: Any) -> Planned:
    base: dict[str, Any] = {"url": None, "wheel": True, "requires": ()}
    return Planned(name=name, version=version, **{**base, **fields})


WORDS = ["-r", "reqs.txt", "Vision[image]>=1", "--index-url", "https://i/", "-U", "--no-deps", "./a-1-py3-none-any.whl",
         "--constraint", "c.txt", "torch", "--pre"]  # fmt: skip


def test_arguments_of_an_installer() -> None:
    parsed = list(arguments.parse_arguments(WORDS))
    assert [(one.option, one.value, one.package) for one in parsed] == [
        ("-r", "reqs.txt", None), (None, None, "vision"), ("--index-url", "https://i/", None), ("-U", None, None),
        ("--no-deps", None, None), (None, None, None), ("--constraint", "c.txt", None), (None, None, "torch"),
        ("--pre", None, None),
    ]  # fmt: skip
    assert arguments.index_options([*WORDS, "--no-index"]) == ["--index-url", "https://i/", "--no-index"]
    assert arguments.without_files(WORDS) == [
        word for word in WORDS if word not in ("-r", "reqs.txt", "--constraint", "c.txt")
    ]
    assert arguments.drop_options(["-r", "a", "b", "-U"], "-r", "-U") == ["b"]
    assert arguments.has_option(["--target=x"], "--target")
    assert not arguments.has_option(["target"], "target")
    assert arguments.option_values(WORDS, "-r", "--constraint") == ["reqs.txt", "c.txt"]
    assert list(map(str, arguments.files_of_requirements(["-r", "-", "-c", "c"]))) == ["/dev/stdin"]
    assert list(map(str, arguments.files(WORDS))) == ["reqs.txt", "c.txt"]
    assert [arguments.ignores_dependencies(words) for words in (WORDS, ["a"])] == [True, False]
    assert [arguments.names_package(WORDS, name) for name in ("vision", "torch", "a", "Vision")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("word", "upgrades"),
    [
        ("-U", True),
        ("--force-reinstall", True),
        ("-P", True),
        ("--upgrade-package", True),
        ("--pre", False),
        ("a", False),
    ],
)
def test_options_that_replace_what_is_there(word: str, *, upgrades: bool) -> None:
    assert arguments.upgrades(["x", word]) is upgrades


def test_versions_that_may_change_and_versions_that_are_set() -> None:
    here = Path("a-1-py3-none-any.whl").absolute().as_uri()
    urls = {here: "a"}
    assert arguments.free_versions(WORDS, ["vision", "a", "new"], urls) == [
        "-r", "reqs.txt", "vision[image]", "--index-url", "https://i/", "a", "--constraint", "c.txt", "torch", "--pre",
        "new",
    ]  # fmt: skip
    assert arguments.pin_versions(["Vision[image]>=1", "torch==2", "./a-1-py3-none-any.whl", "-U"],
                                  {"vision": "1.5", "a": "2", "new": "3"}, urls) == [
        "Vision[image]==1.5", "torch==2", "a==2", "-U", "new==3",
    ]  # fmt: skip
    address = {"https://h/b.whl": "b"}
    assert arguments.pin_versions(["https://h/b.whl#sha256=0"], {"b": "1"}, address) == ["b==1"]


def test_files_that_are_read_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[str, bool]] = []

    def keep(name: str, *, stdin: bool) -> str:
        kept.append((name, stdin))
        if name == "absent":
            raise FileNotFoundError(2, "No such file or directory")
        return f"kept-{name}"

    monkeypatch.setattr(programs, "keep_content", keep)
    for variable in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(variable)  # what a test run itself has set
    monkeypatch.setenv("PIP_CONSTRAINT", "c1 c2")
    assert arguments.keep_contents(["-r", "a", "b", "--target", "t", "-c", "-"], stdin=True) == [
        "-r", "kept-a", "b", "--target", "t", "-c", "kept--",
    ]  # fmt: skip
    assert os.environ["PIP_CONSTRAINT"] == "kept-c1 kept-c2"
    assert {stdin for _, stdin in kept} == {True}
    with pytest.raises(InputError, match="absent: cannot be read: No such file or directory"):
        arguments.keep_contents(["-r", "absent"], stdin=False)


DIGEST = hashlib.sha256(b"content").hexdigest()


def made_pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pins:
    looked_at = WheelFacts(sha256=DIGEST, size=7, requires=())
    site = tmp_path / "site"
    for name in ("Stays", "a", "goes"):
        install(site, name, {}, requires="")
    monkeypatch.setattr(interpreter, "search_path", lambda _: [str(site)])
    first = planned("a", url="https://i/a-1.0%2Bcpu.whl?x=1&y=2#sha256=00")
    plan = Plan(
        python=None,
        packages=(
            first,
            planned("b", "2.0", url="https://i/b.whl#sha256=22"),
            planned("c", "3.0", url="https://h/c.whl", direct=True),
            planned("d", "4.0", url="https://i/d.tar.gz", wheel=False),
            planned("e", "5.0"),
        ),
        removed=frozenset({"goes"}),
    )
    return Pins(plan, {first: looked_at}, Session(folder=tmp_path / "cache"))


def test_the_files_that_were_checked_are_pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_pins(tmp_path, monkeypatch)
    assert made.versions() == "a==1.0\nb==2.0\ne==5.0\n"
    assert made.versions(hashes=True) == f"a==1.0 --hash=sha256:{DIGEST}\nb==2.0 --hash=sha256:22\ne==5.0\n"
    assert made.versions(others=True) == "a==1.0\nb==2.0\ne==5.0\nStays==1.0\n"
    assert not made.all_wheels
    assert made.page().splitlines()[2:-1] == [
        f'<a href="https://i/a-1.0%2Bcpu.whl?x=1&amp;y=2#sha256={DIGEST}">a-1.0+cpu.whl</a><br>',
        '<a href="https://i/b.whl#sha256=22">b.whl</a><br>',
        '<a href="https://i/d.tar.gz">d.tar.gz</a><br>',
    ]
    path = made.write_file("text", ".txt")
    assert (path.read_text("utf-8"), path.suffix, made.write_file("text", ".txt")) == ("text", ".txt", path)
    assert made.write_file("other") != path


def test_addresses_get_the_hashes_of_their_files(tmp_path: Path) -> None:
    direct = planned("c", url="https://h/c.whl", direct=True)
    plan = Plan(python=None, packages=(direct, planned("d", url="file:///d.whl", direct=True)))
    made = Pins(plan, {direct: WheelFacts(sha256=DIGEST, size=7, requires=())}, Session(folder=tmp_path))
    words = [
        "https://h/c.whl",
        "c @ https://h/c.whl",
        "https://h/c.whl#egg=c",
        "https://h/c.whl#sha256=5",
        "file:///d.whl",
        "x",
    ]
    assert made.hash_addresses(words) == [
        f"https://h/c.whl#sha256={DIGEST}", f"c @ https://h/c.whl#sha256={DIGEST}", f"https://h/c.whl#egg=c&sha256={DIGEST}",
        "https://h/c.whl#sha256=5", "file:///d.whl", "x",
    ]  # fmt: skip
    assert made.all_wheels
    assert add_options(["install", "a", "--", "-b"], ["-x"]) == ["install", "a", "-x", "--", "-b"]
    assert add_options(["install"], ["-x"]) == ["install", "-x"]


def test_what_a_plan_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "new-2.0-py3-none-any.whl"
    file.write_bytes(bytes(100))
    site = tmp_path / "site"
    for name in ("torch", "Old"):
        install(site, name, {}, version="1.0", requires="")
    monkeypatch.setattr(interpreter, "search_path", lambda _: [str(site)])
    plan = Plan(
        python=None,
        packages=(
            planned("new", "2.0", url=file.as_uri(), requires=("torch>=2", "extra; extra == 'x'"), requested=True),
            planned("torch", "2.9.1", url="file:///absent.whl"),
        ),
        removed=frozenset({"old", "absent"}),
    )
    new, torch, absent, old = changes.list_changes(plan, "2.9.1+cpu", (), Session(folder=tmp_path), torch_alone=True)
    assert (new.name, new.before, new.after, new.size, new.requested, new.required_by, new.alone) == (
        *("new", None, "2.0", 100, True, (), False),
    )
    assert (torch.before, torch.after, torch.size, torch.required_by, torch.alone) == (
        *("1.0", "2.9.1+cpu", None, ("new 2.0",), True),
    )
    assert [(one.name, one.before, one.after) for one in (absent, old)] == [
        ("absent", None, None),
        ("old", "1.0", None),
    ]
    assert changes.list_changes(Plan(python=None, packages=()), None, (), Session(folder=tmp_path)) == ()
    (alone, *_) = changes.list_changes(plan, None, (), Session(folder=tmp_path))[1:]
    assert (alone.after, alone.alone) == ("2.9.1", False)


def changed(before: str, after: str | None, *because: str) -> TorchChange:
    return TorchChange(before=before, after=after, requested=False, because=because)


@pytest.mark.parametrize(
    ("now", "plan", "after", "words", "expected"),
    [
        ("2.8.0", {"torch": "2.9.1"}, "2.9.1+cpu", [], changed("2.8.0", "2.9.1+cpu", "user 1.0")),
        ("2.8.0", {"torch": "2.9.1"}, None, [], changed("2.8.0", "2.9.1", "user 1.0")),
        ("2.9.1", {"torch": "2.9.1"}, "2.9.1", [], None),
        ("2.9.1+cpu", {"torch": "2.9.1"}, "2.9.1+cu128", [], changed("2.9.1+cpu", "2.9.1+cu128")),
        ("2.8.0", {}, None, [], None),
        ("2.8.0", {"torch": "2.9.1"}, None, ["--target", "x"], None),
        (None, {"torch": "2.9.1"}, "2.9.1", [], None),
        ("2.8.0", {"-torch": ""}, None, [], changed("2.8.0", None)),
    ],
)  # fmt: skip
def test_another_torch(
    now: str | None, plan: Mapping[str, str], after: str | None, words: list[str], expected: TorchChange | None,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setattr(torch_change, "_build_now", lambda *_: now)
    monkeypatch.setattr(interpreter, "search_path", lambda _: [str(tmp_path)])
    packages = [planned("user", requires=("Torch>=2.9", "numpy"))] + [
        planned(*one) for one in plan.items() if one[0] == "torch"
    ]
    made = Plan(python=None, packages=tuple(packages), removed=frozenset({"torch"} if "-torch" in plan else ()))
    inspection: Any = SimpleNamespace(torch=after)
    found = torch_change.torch_change(made, inspection, None, words, Session(folder=tmp_path))  # type: ignore[arg-type]
    assert found == expected
    if expected is not None:
        change = f"torch {expected.before} -> {expected.after or 'removed'}"
        assert str(found) == (f"{change} (required by user 1.0)" if expected.because else change)


def test_a_torch_that_an_installer_calls_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The version in the metadata is 2.9.1, and the torch calls itself 2.9.1+cu128: no change."""
    install(tmp_path, "torch", {}, version="2.9.1", requires="")
    monkeypatch.setattr(torch_change, "_build_now", lambda *_: "2.9.1+cu128")
    monkeypatch.setattr(interpreter, "search_path", lambda _: [str(tmp_path)])
    plan = Plan(python=None, packages=(planned("torch", "2.9.1", requested=True),))
    session, unknown = Session(folder=tmp_path), SimpleNamespace(torch=None)
    assert torch_change.torch_change(plan, unknown, None, [], session) is None  # type: ignore[arg-type]
    other = Plan(python=None, packages=(planned("torch", "2.9.0", requested=True),))
    found = torch_change.torch_change(other, unknown, None, [], session)  # type: ignore[arg-type]
    assert found == TorchChange(before="2.9.1+cu128", after="2.9.0", requested=True)


def test_a_wheel_is_written_anew_but_for_what_changes(tmp_path: Path) -> None:
    """Binary distribution format: RECORD has every file with its hash and size, itself with neither, and comes last."""
    record = "pkg/a.py,sha256=x,1\npkg/old.json,sha256=y,2\n\npkg-1.dist-info/RECORD,,\n"
    path = wheel(tmp_path / "pkg-1-py3-none-any.whl",
                 {"pkg/old.json": b"{}", "pkg/a.py": b"a", "pkg-1.dist-info/RECORD": record.encode()})  # fmt: skip
    rewrite_wheel(path, path, {"pkg/old.json": b"[1]", "pkg/new.json": b"[]"})
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["pkg/a.py", "pkg/old.json", "pkg/new.json", "pkg-1.dist-info/RECORD"]
        assert (archive.read("pkg/a.py"), archive.read("pkg/old.json")) == (b"a", b"[1]")
        rows = list(csv.reader(io.StringIO(archive.read("pkg-1.dist-info/RECORD").decode())))
    assert [(row[0], row[2]) for row in rows] == [
        ("pkg/a.py", "1"), ("pkg/old.json", "3"), ("pkg/new.json", "2"), ("pkg-1.dist-info/RECORD", ""),
    ]  # fmt: skip
    assert rows[0][1] == "sha256=x"
    before = path.read_bytes()
    rewrite_wheel(path, path, {"pkg/old.json": b"[1]", "pkg/new.json": b"[]"})
    assert path.read_bytes() == before, "the same content gives the same bytes"
    refuse_signed(path, ["pkg-1.dist-info/RECORD"])
    for name in ("RECORD.jws", "RECORD.p7s"):
        with pytest.raises(InputError, match="is signed"):
            refuse_signed(path, ["pkg/a.py", f"pkg-1.dist-info/{name}"])


def test_torches_without_contents(tmp_path: Path) -> None:
    asked = planned("torch", "2.8.0+cu128", requires=("real",))
    made = Candidates(tmp_path, ["99.0.0", "2.9.1", "2.9.1+cpu", "2.8.0", "not a version"], asked)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"torch-{number}+zzz.abiscan-py3-none-any.whl" for number in ("2.8.0", "2.9.1")
    ]
    assert made.options == ["--find-links", str(tmp_path)]
    assert Candidates.constrain_to("2.9.1") == "torch==2.9.1+zzz.abiscan"
    empty = [planned("torch", f"{number}+zzz.abiscan") for number in ("2.8.0", "2.9.1")]
    plan = Plan(python=None, packages=(*empty, planned("torch", "2.9.1"), planned("other", "1+zzz.abiscan")))
    first, second, *others = made.restore_real(plan).packages
    assert first is asked
    assert (second.version, second.requires) == ("2.9.1", ("nvidia-cublas",)), "PyPI has the builds with CUDA"
    assert others == [planned("torch", "2.9.1"), planned("other", "1+zzz.abiscan")]


def test_what_an_index_may_not_replace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "links"
    wheel(
        folder / "known-1.0+cpu-py3-none-any.whl",
        {"known-1.0+cpu.dist-info/METADATA": b"Name: known\nVersion: 1.0+cpu\n"},
    )
    settings = Settings(find_links=(str(folder),))
    monkeypatch.setattr(fitting, "settings_of", lambda *_: settings)
    asked = [Known(name="local", version="1", origin="file:///src"), Known(name="known", version="1.0+cu128"),
             Known(name="known", version="2.0"), Known(name="own", version="1.0"),
             Known(name="odd", version="by hand")]  # fmt: skip
    reasons = explain_strangers(asked, None, (), Session(folder=tmp_path / "cache"))
    nothing = "no index was asked, and what --find-links names does not have"
    assert {f"{known.name} {known.version}": reason for known, reason in reasons.items()} == {
        "local 1": "it was installed from file:///src, and an index may have another package of that name",
        "known 2.0": f"{nothing} known 2.0", "own 1.0": f"{nothing} own 1.0", "odd by hand": f"{nothing} odd by hand",
    }  # fmt: skip
    assert strangers.explain_origin(None) is None
    assert strangers._explain_absence("a 1", is_asked=True) == (
        "no index has a 1, so what one has by that name may be another package"
    )
    assert explain_strangers(asked[:1], None, (), Session(folder=tmp_path)) == {asked[0]: reasons[asked[0]]}


def test_what_stands_for_several_releases() -> None:
    shorten = true_properties._shorten_releases
    every = ("2.7.0", "2.7.1", "2.8.0", "2.9.0", "2.9.1+cpu")
    assert list(shorten(("2.7.0", "2.7.1", "2.9.1+cpu"), every)) == ["2.7", "2.9.1"]
    assert list(shorten(every, every)) == ["2.7", "2.8", "2.9"]
    assert list(shorten((), every)) == []


def lacking(name: str, **unmet: str | None) -> Problem:
    """A package that lacks a library of torch with CUDA, and requirements: what is there by the name, or None."""
    missing = Finding(rule="missing-library", effect=Effect.LOAD_FAILS, message="", fix="",
                      evidence=(Evidence(subject="libtorch_cuda.so"),))  # fmt: skip
    items = tuple(
        Unmet(subject=f"{name} 1.0", requirement=f"{other}>=2", name=other, there=there)
        for other, there in unmet.items()
    )
    checked = CheckedPackage(results=(failure(findings=(missing,)),))
    return Problem(name=name, version="0.24.0+cu128", source=Path("a.whl"), checked_package=checked, unmet=items)


def test_builds_on_the_index_of_pytorch() -> None:
    assert pytorch_index.is_on_own_index("torchvision==0.24.0+cpu")
    assert not any(
        map(pytorch_index.is_on_own_index, ("torchvision==0.24.0", "torchvision>=1+cpu", "other==1+cpu", "torchvision"))
    )
    vision, other = lacking("torchvision"), lacking("other")
    assert pytorch_index.version_of_same_kind(vision, "2.9.1+cpu") == "0.24.0+cpu"
    assert pytorch_index.version_of_same_kind(vision, "2.9.1+cu128") is None
    assert pytorch_index.version_of_same_kind(other, "2.9.1+cpu") is None
    assert pytorch_index.version_of_same_kind(lacking("torchvision", torch="2.8"), "2.9.1+cpu") is None
    assert pytorch_index.list_wanted([vision], "2.9.1+cpu", replacing=False) == {
        "torchvision": "torchvision==0.24.0+cpu"
    }
    needs = lacking("other", numpy=None, pandas="1.0", torch="2.0")
    assert pytorch_index.list_wanted([needs], "2.9.1+cpu", replacing=False) == {"numpy": "numpy>=2"}
    assert set(pytorch_index.list_wanted([needs], "2.9.1+cpu", replacing=True)) == {"numpy", "pandas"}
    old = lacking("other", pandas="1.0")
    assert pytorch_index.list_wanted([old], "2.9.1+cpu", replacing=False) == {"pandas": "pandas>=2"}
    cpu, address = "torchvision==0.24.0+cpu", "https://download.pytorch.org/whl/cpu"
    assert pytorch_index.words_of({"torchvision": cpu}) == ["--no-deps", cpu, "--index-url", address]
    assert pytorch_index.words_of({"torchvision": cpu, "a": "a"}) == [cpu, "a", "--extra-index-url", address]
    assert pytorch_index.words_of({"a": "a"}) == ["a"]


STAMP = {
    "package": "pkg", "package_version": "1.0", "built_for": "2.8.0+cpu",
    "extensions": [{"path": "pkg/_C.so", "needed": ["libc.so.6"], "symbols": ["malloc"],
                    "layouts": {"2.9.1": "at::Tensor grew"}}],
    "keys": {"CPU": 1}, "operators": {"aten::add.Tensor": "add"},
}  # fmt: skip


class FakeTorch(SimpleNamespace):
    """A torch for the guard: keys by name, schemas by operator; schemas are compared as texts without blanks."""

    def __init__(self, version: str, keys: Mapping[str, int], schemas: Mapping[str, str]) -> None:
        def key_of(name: str) -> int:
            if name not in keys:
                raise RuntimeError(name)
            return keys[name]

        def schema_of(name: str, overload: str) -> str:
            if f"{name}.{overload}" not in schemas:
                raise RuntimeError(name)
            return schemas[f"{name}.{overload}"].replace(" ", "")

        inner = SimpleNamespace(_dispatch_key_parse=key_of, _get_schema=schema_of,
                                parse_schema=lambda text: text.replace(" ", ""))  # fmt: skip
        super().__init__(__version__=version, __path__=["/nowhere"], _C=inner)


GOOD = {"aten::add.Tensor": "a dd"}


@pytest.mark.parametrize(
    ("torch", "changes", "problem"),
    [
        (("2.8.0+cpu", {"CPU": 1}, GOOD), {}, None),
        (("2.9.1", {"CPU": 1}, GOOD), {}, "pkg/_C.so: at::Tensor grew"),
        (("2.8.0", {"CPU": 2}, GOOD), {}, "dispatch key CPU: now 2, was 1"),
        (("2.8.0", {}, GOOD), {}, "dispatch key CPU: removed, was 1"),
        (("2.8.0", {"CPU": 1}, {}), {}, "operator aten::add.Tensor: removed"),
        (("2.8.0", {"CPU": 1}, {"aten::add.Tensor": "other"}), {}, "operator aten::add.Tensor: now other, was add"),
        (("2.8.0", {"CPU": 1}, GOOD), {"symbols": ["_ZN2at4goneEv"]}, "pkg/_C.so: undefined symbol: _ZN2at4goneEv"),
        (("2.8.0", {"CPU": 1}, GOOD), {"needed": ["libgone.so"]}, "pkg/_C.so: libgone.so: not in this torch"),
    ],
)
def test_what_the_guard_finds(
    torch: tuple[str, Mapping[str, int], Mapping[str, str]], changes: Mapping[str, Any], problem: str | None,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    stamp = tmp_path / "stamp.json"
    stamp.write_text(json.dumps({**STAMP, "extensions": [{**STAMP["extensions"][0], **changes}]}))  # type: ignore[index]
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(*torch))
    monkeypatch.setenv(guard.SWITCH, "details")
    if problem is None:
        guard.check(stamp=str(stamp))
        return
    with pytest.raises(ImportError) as raised:
        guard.check(stamp=str(stamp))
    assert str(raised.value).splitlines()[1:] == [f"  {problem}"]
    monkeypatch.setenv(guard.SWITCH, "off")
    guard.check(stamp=str(stamp))
    if problem.startswith("pkg/_C.so"):
        monkeypatch.setenv(guard.SWITCH, "")
        guard.check(stamp=str(stamp), only=["other/*"])


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.9.1", "does not work with torch 2.9.1: install torch==2.8.0, or a pkg built for torch 2.9.1"),
        # Of the same release, another build.
        ("2.8.0+x", "does not work with torch 2.8.0+x: install torch==2.8.0+cpu, or a pkg built for torch 2.8.0+x"),
    ],
)  # fmt: skip
def test_how_the_guard_says_it(version: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stamp = tmp_path / "stamp.json"
    stamp.write_text(json.dumps(STAMP))
    monkeypatch.setitem(sys.modules, "torch", FakeTorch(version, {}, GOOD))
    monkeypatch.delenv(guard.SWITCH, raising=False)
    with pytest.raises(ImportError) as raised:
        guard.check(stamp=str(stamp))
    line = f"pkg 1.0 was built for torch 2.8.0+cpu and {said} (set ABISCAN_GUARD=details to see why)"
    assert str(raised.value) == line
    with pytest.warns(RuntimeWarning, match="was built for torch"):
        guard.check(action="warn", stamp=str(stamp))
    monkeypatch.setenv(guard.SWITCH, "warn")
    with pytest.warns(RuntimeWarning, match="was built for torch"):
        guard.check(stamp=str(stamp))


def test_what_the_guard_cannot_check_it_lets_pass(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", FakeTorch("2.9.1", {}, {}))
    guard.check(stamp=str(tmp_path / "absent.json"))
    (tmp_path / "bad.json").write_text("{")
    monkeypatch.setenv(guard.SWITCH, "")
    guard.check(stamp=str(tmp_path / "bad.json"))
    assert capsys.readouterr().err == ""
    monkeypatch.setenv(guard.SWITCH, "details")
    guard.check(stamp=str(tmp_path / "bad.json"))
    assert capsys.readouterr().err.startswith("abiscan guard: could not check: JSONDecodeError")
    assert guard._clean("a\x1b[31m\u202eb") == "a\\x1b[31m\\u202eb"


@pytest.mark.parametrize(("is_killed", "may_rename"), [(False, True), (True, True), (False, False)])
def test_wheels_unpacked_by_two_processes_lie_as_if_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_killed: bool, may_rename: bool
) -> None:
    """Of two files with one path, the first counts."""
    files = {
        planned(name): package_wheel(
            tmp_path, name, {}, files={f"{name}/__init__.py": "", "shared/__init__.py": name, f"shared/{name}.py": ""}
        )
        for name in "abcde"
    }
    files[planned("absent")] = tmp_path / "absent-1.0-py3-none-any.whl"

    def unpack(name: str) -> dict[str, str]:
        folder = tmp_path / name
        folder.mkdir()
        session = Session(folder=tmp_path / "cache", jobs=2)
        before = WholeEnvironment(python=None, distributions=())
        PlannedEnvironment(before, Plan(python=None, packages=()), files, folder, session).unpack()
        assert not (tmp_path / f"{name}-rest").exists()
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}

    alone = unpack("alone")
    assert alone["shared/__init__.py"] == "a"
    assert len(alone) == 1 + 5 * 5
    here, unpack_wheel = os.getpid(), planned_environment._unpack_wheel

    def end_early(wheel: Wheel, folder: Path, *, libraries: bool) -> None:
        unpack_wheel(wheel, folder, libraries=libraries)
        if os.getpid() != here and is_killed:
            os.kill(os.getpid(), signal.SIGKILL)

    def deny(*paths: Path) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link", *paths)

    monkeypatch.setattr(isolation, "is_apart", lambda: True)
    monkeypatch.setattr(planned_environment, "_unpack_wheel", end_early)
    if not may_rename:  # as the first version of Landlock denies it
        monkeypatch.setattr(os, "rename", deny)
    assert unpack("shared") == alone


@pytest.mark.parametrize(("requested", "blamed"), [((), []), (("there",), ["there"])])
def test_a_plan_is_not_to_blame_for_what_is_broken_already(
    requested: tuple[str, ...], blamed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    install(site, "there", {"there/_C.so": extension(undefined=uses("_ZN2at4goneEv"))}, requires="")
    install(site, "works", {"works/_C.so": extension()}, requires="")
    monkeypatch.setattr(interpreter, "search_path", lambda _: [str(site)])
    plan = Plan(python=None, packages=(planned("torch", "2.13.0"),))
    inspector = Inspector(tmp_path, (), Session(folder=tmp_path / "cache"), {"there"})
    assert [problem.name for problem in inspector.inspect_plan(plan, requested).problems] == blamed


@pytest.mark.parametrize(("direct", "absent"), [(True, True), (False, False), (None, False)])
def test_of_wheels_only_those_with_an_address_may_be_of_strangers(
    direct: bool | None, absent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came from an index is on it; what is in no plan comes from nowhere."""
    monkeypatch.setattr(fitting, "settings_of", lambda *_: Settings(find_links=(str(tmp_path),)))
    packages = () if direct is None else (planned("Vision", url="https://h/v.whl", direct=direct),)
    problems = [lacking("vision")]
    session = Session(folder=tmp_path / "cache")
    reasons = solution.explain_stays(problems, Plan(python=None, packages=packages), Pip("python"), (), session)
    assert list(reasons) == (["vision"] if absent else [])


@pytest.mark.parametrize(
    ("origin", "stays", "commands", "why"),
    [
        (None, None, (), None),  # no index was asked
        (None, {}, ("abiscan pip install --upgrade old",), None),
        (None, {"old==1.0": "a stranger's"}, (), "a stranger's"),
        ("file:///src", {}, (), explain_origin("file:///src")),
    ],
)
def test_what_has_no_code_for_the_gpu_is_upgraded_where_an_index_has_it(
    origin: str | None, stays: dict[str, str] | None, commands: tuple[str, ...], why: str | None
) -> None:
    ailment = Ailment(
        subject="old==1.0",
        trouble=ProblemKind.NO_GPU_CODE,
        effect=None,
        message="no code for sm_120",
        extensions=(),
        commands=(),
    )
    state = EnvironmentState(python="3.11.7", executable=None, root=None)
    health = TorchHealth(version="2.13.0", imports=None)
    found = Diagnosis(chosen="/env", environment=state, torch=health, ailments=(ailment,))
    old = Distribution(name="old", version="1.0", site="/env", objects=(), requires=(), source=None, origin=origin)
    examination = Examination(diagnosis=found, broken=(), without_gpu=(old,))
    (concluded,) = conclude_diagnosis(examination, WayOut(stays=stays), None, None).ailments
    assert (concluded.commands, concluded.stays) == (commands, why)
