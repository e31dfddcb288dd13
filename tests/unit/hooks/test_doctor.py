"""``abiscan doctor`` in environments made up for the purpose."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click.testing
import pytest

from abiscan.cli import main
from abiscan.environments import examination
from abiscan.environments.package_check import Problem, check_package
from abiscan.hooks import remedies
from abiscan.hooks.doctor import diagnose_environment, examine_environment
from abiscan.inputs import observed_fs
from abiscan.inputs.environment import PythonEnvironment
from abiscan.inputs.session import Session
from abiscan.results.doctor import ProblemKind
from tests.elf_builder import Elf, exports, uses
from tests.fakes import extension, install, package_wheel, python_of, site_of, torch_libraries, torch_package
from tests.schemas import validate

PYTHON = f"py{sys.version_info[0]}{sys.version_info[1]}"
GONE = uses("_ZN2at4goneEv")


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("wheel_index")]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An environment with a torch, a package that fits it, and one that has nothing to do with it."""
    folder = tmp_path / "site"
    torch_package(folder)
    install(folder, "torch", {}, version="9.9.0", requires="")
    install(folder, "good", {"good/_C.so": extension()})
    install(folder, "plain", {"plain.so": Elf()}, requires="")
    return folder


def run(site: Path, *words: str) -> click.testing.Result:
    python = python_of(site, site.parent)
    result = click.testing.CliRunner().invoke(main, ["doctor", "--python", python, *words])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def pip(site: Path) -> str:
    return f"abiscan pip --python {site.parent / 'python'}"


def ailments(site: Path, code: int, *words: str) -> list[dict[str, Any]]:
    result = run(site, "--format", "json", *words)
    assert result.exit_code == code, result.output
    document = json.loads(result.stdout)
    validate(document, "doctor", 2)
    found: list[dict[str, Any]] = document["ailments"]
    return found


def test_a_healthy_environment_is_silent(site: Path) -> None:
    result = run(site)
    where = f"environment {site.parent / 'python'} (--python), torch 9.9.0+cpu"
    first, second, others, *rest = result.stdout.splitlines()
    assert (result.exit_code, first, second) == (0, "1 distribution uses torch: 1 works", where)
    assert others == "1 other distribution does not use torch and was not examined"
    # What pip check says is no reason to fail.
    assert rest == ["", "requirements:", "  good 1.0 has requirement torch==2.5.1, but you have torch 9.9.0."]
    assert run(site, "-q").stdout == ""
    assert ailments(site, 0) == []


def test_a_folder_that_comes_to_the_search_path_of_a_python(python: str, environment: Path, tmp_path: Path) -> None:
    """A process that goes on, such as one that uses the API, sees what an editable installation adds."""

    def verdict() -> str:
        words = ["check", "pkg", "--python", python, "--format", "json"]
        result = click.testing.CliRunner().invoke(main, words)
        (package,) = json.loads(result.stdout)["packages"]
        return str(package["verdict"])

    code = "import torch\nimport added\n"
    install(site_of(environment), "pkg", {}, requires="torch", files={"pkg/__init__.py": code})
    (tmp_path / "added.py").touch()
    assert verdict() == "import-fails"
    link = site_of(environment) / "added.pth"
    link.write_text(str(tmp_path))
    try:
        assert verdict() == "works"
    finally:
        link.unlink()


def test_what_was_looked_at_is_no_other_distribution(site: Path) -> None:
    # An extra of it requires torch, and none of its code: it works, and has no row.
    install(site, "helper", {}, requires="torch; extra == 'all'", files={"helper/__init__.py": ""})
    install(site, "copy", {"copy/libtorch.so": Elf()}, requires="", files={"copy/__init__.py": ""})
    document = json.loads(run(site, "--format", "json").stdout)
    assert [row["name"] for row in document["distributions"]] == ["good"]
    assert document["environment"]["others"] == 1  # plain


@pytest.mark.parametrize("requires", ["good", "good>=5", "absent"])
def test_a_doubt_about_what_has_not_what_it_requires_is_a_problem(site: Path, requires: str) -> None:
    """As pandas 3 beside numpy 1, which it refuses in a way that was not followed. Any other doubt is shown."""
    install(site, "user", {}, requires="torch\nRequires-Dist: frame", files={"user.py": "import torch\n"})
    install(site, "frame", {}, requires=requires, files={"frame/__init__.py": "raise ValueError('numpy is too old')\n"})
    document = json.loads(run(site, "--format", "json").stdout)
    assert [row["name"] for row in document["distributions"] if row["verdict"] == "unknown"] == ["frame"]
    is_problem = requires != "good"
    assert [item["subject"] for item in document["ailments"]] == ["frame==1.0"] * is_problem
    result = run(site)
    assert result.exit_code == 3 * is_problem
    assert ("unknown:\n  frame==1.0: " in result.stdout) is not is_problem


def test_what_a_package_works_without_is_listed(site: Path) -> None:
    code = "import torch\ntry:\n    from . import _C\nexcept ImportError:\n    pass\n"
    objects = {"partly/_C.so": extension(undefined=uses("_ZN2at4goneEv"))}
    install(site, "partly", objects, files={"partly/__init__.py": code})
    lost = "partly==1.0 works without partly/_C.so (silently): partly/_C.so: undefined symbol: _ZN2at4goneEv"
    result = run(site)
    assert (result.exit_code, result.stdout.splitlines()[4:6]) == (0, ["in part:", f"  {lost}"])
    assert result.stdout.startswith("2 distributions use torch: 1 works, 1 without a part\n")
    document = json.loads(run(site, "--format", "json1").stdout)
    validate(document, "doctor")
    assert document["incomplete"] == [lost]


def test_without_an_index_nothing_is_looked_for(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[object] = []
    install(site, "bad", {"bad/_C.so": extension(undefined=GONE)})
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setattr(remedies, "solve", lambda task, *_: searches.append(task.same_torch))

    (ailment,) = ailments(site, 1, "--no-index")
    assert (ailment["subject"], ailment["commands"], searches) == ("bad==1.0", [], [])
    package_wheel(site, "bad", {"bad/_C.so": extension(undefined=GONE)})
    ailments(site, 1, "--no-index", "--find-links", str(site))
    assert searches == [True, False]  # the torch that is there first
    other = tmp_path / "other"
    other.mkdir()
    (ailment,) = ailments(site, 1, "--no-index", "--find-links", str(other))
    assert ailment["stays"] == "no index was asked, and what --find-links names does not have bad 1.0"


def test_what_is_required_from_an_address_is_not_tried(
    site: Path, wheel_index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip would download and build it (PEP 508): its setup.py is code that nobody has asked for."""
    tried: list[str] = []

    def find(broken: Sequence[Problem], *_: object) -> remedies.Remedies:
        tried.extend(map(str, broken))
        return remedies.Remedies(remedies=(), unfinished=())

    monkeypatch.setattr(remedies, "find_remedies", find)
    address = "https://user:secret@index.example/evil-1.0.tar.gz"
    requires = {
        "direct": f"torch\nRequires-Dist: evil @ {address}",
        "above": "torch\nRequires-Dist: direct",
        "apart": "torch",
    }
    for name, required in requires.items():
        install(site, name, {}, requires=required, files={f"{name}/__init__.py": "import torch\nimport evil\n"})
        package_wheel(wheel_index, name, {})
    reasons = {ailment["subject"]: ailment["stays"] for ailment in ailments(site, 1, "--find-links", str(wheel_index))}
    why = "direct requires evil @ https://index.example/evil-1.0.tar.gz; addresses are not tried"
    assert reasons["direct==1.0"] == why
    assert tried == ["the installed apart 1.0"]


def test_the_setuptools_that_still_has_a_module(site: Path, wheel_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing requires setuptools here, so a newer one does not show in the requirements that are not met."""
    needed: dict[str, str | None] = {}

    def find(broken: Sequence[Problem], *_: object) -> remedies.Remedies:
        needed.update({problem.name: problem.other for problem in broken})
        return remedies.Remedies(remedies=(), unfinished=())

    monkeypatch.setattr(remedies, "find_remedies", find)
    for name, code in (("asks", "from pkg_resources import parse_version"), ("lacks", "import not_there")):
        install(site, name, {}, requires="torch", files={f"{name}/__init__.py": f"import torch\n{code}\n"})
    package_wheel(wheel_index, "asks", {})
    ailments(site, 1, "--find-links", str(wheel_index))
    assert needed == {"asks": "setuptools<82", "lacks": None}


def test_python_code_counts_where_its_import_fails(site: Path) -> None:
    codes = {
        "fails": "torch.nope",
        "guards": "hasattr(torch, 'nope')",
        "lacks-another": "import not_there\ntorch.nope",
        "uses-nothing": "print(torch.__version__)",
    }
    for name, code in codes.items():
        install(
            site, name, {}, requires="torch", files={f"{name.replace('-', '_')}/__init__.py": f"import torch\n{code}\n"}
        )
    install(site, "of-others", {}, requires="numpy", files={"of_others/__init__.py": "import torch\ntorch.nope\n"})

    found = {ailment["subject"]: ailment for ailment in ailments(site, 1)}

    # Whatever an import fails for: what torch lacks, or what is not installed.
    assert sorted(found) == ["fails==1.0", "lacks-another==1.0", "of-others==1.0"]
    assert found["fails==1.0"]["message"].startswith("AttributeError: module 'torch' has no attribute 'nope'")
    assert found["lacks-another==1.0"]["message"].startswith("ModuleNotFoundError: No module named 'not_there'")
    assert all(ailment["trouble"] == "broken" and not ailment["extensions"] for ailment in found.values())
    assert run(site).stdout.startswith("6 distributions use torch: 3 work, 3 fail\n")


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The packages that are judged from now on; whatever changes from now on shows at once."""
    packages: list[str] = []

    def noted(source: Any, *rest: Any, **named: Any) -> Any:
        packages.append(str(source))
        return check_package(source, *rest, **named)

    monkeypatch.setattr(observed_fs, "_CLOCK_TICK", -(10**12))
    monkeypatch.setattr("abiscan.environments.examination.check_package", noted)
    return packages


def test_only_packages_that_have_changed_are_judged_again(site: Path, judged: list[str]) -> None:
    install(site, "other", {"other/_C.so": extension()})
    python = PythonEnvironment(python=python_of(site, site.parent), origin="PATH")
    session = Session(folder=site.parent / "cache")
    first = diagnose_environment(python, None, session)
    assert sorted(set(judged) - {"plain==1.0"}) == ["good==1.0", "other==1.0"]
    judged.clear()
    assert diagnose_environment(python, None, session) == first
    assert judged == []
    extension(undefined=GONE).write(site / "other" / "_C.so")
    assert [ailment.subject for ailment in diagnose_environment(python, None, session).ailments] == ["other==1.0"]
    assert set(judged) == {"other==1.0"}


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("change", ["install", "rebuild", "variable", "build on the fly"])
def test_a_diagnosis_is_kept_until_something_changes(
    change: str, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = python_of(site, tmp_path)
    builds = tmp_path / "builds"
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(builds))

    def doctor() -> tuple[int, str]:
        result = click.testing.CliRunner().invoke(main, ["doctor", "--python", python])
        return result.exit_code, result.output

    before = doctor()
    assert before[0] == 0
    monkeypatch.setattr("abiscan.hooks.doctor.examine_environment", lambda *_: pytest.fail("it is looked at again"))
    assert doctor() == before
    monkeypatch.setattr("abiscan.hooks.doctor.examine_environment", examine_environment)
    if change == "install":
        install(site, "bad", {"bad/_C.so": extension(undefined=GONE)}, requires="")
    elif change == "rebuild":
        extension(undefined=GONE).write(site / "good" / "_C.so")
    elif change == "variable":
        torch_libraries()["libc10.so"].write(tmp_path / "other" / "libc10.so")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / "other"))
    else:
        extension(undefined=GONE).write(builds / "mine" / "mine.so")
    assert doctor()[0] == 1


@pytest.mark.parametrize("moment", ["checking gone==1.0", "gone==1.0: gone/_C.so on torch"])
def test_a_package_that_is_removed_meanwhile_is_unknown(moment: str, site: Path) -> None:
    install(site, "gone", {"gone/_C.so": extension()})

    def progress(text: str) -> None:
        if text.startswith(moment):
            (site / "gone" / "_C.so").unlink(missing_ok=True)

    python = PythonEnvironment(python=python_of(site, site.parent), origin="PATH")
    diagnosis = diagnose_environment(python, None, Session(folder=site.parent / "cache", progress=progress))
    (ailment,) = diagnosis.ailments
    assert (ailment.subject, ailment.trouble) == ("gone==1.0", ProblemKind.UNKNOWN)
    assert diagnosis.healthy == ("good==1.0",)


def test_what_does_not_load_is_found(site: Path) -> None:
    objects = {"bad/_C.so": extension(undefined=GONE), "bad/_D.so": extension(undefined=GONE)}
    install(site, "bad", objects, requires="")
    (found,) = ailments(site, 1)
    assert (found["subject"], found["trouble"], found["effect"]) == ("bad==1.0", "broken", "load-fails")
    assert found["message"] == "_C.so: undefined symbol: _ZN2at4goneEv"
    assert found["extensions"] == ["bad/_C.so", "bad/_D.so"]
    assert found["commands"] == []  # the index is empty
    text = run(site).stdout
    assert "does not work: _C.so: undefined symbol: _ZN2at4goneEv" in text
    assert "built for" not in text  # nothing says for which torch
    assert "good==1.0" not in text


def test_an_editable_install_is_to_be_built_again(site: Path, tmp_path: Path) -> None:
    extension(undefined=GONE).write(tmp_path / "src" / "_C.so")
    info = install(site, "mine", {})
    origin = {"url": (tmp_path / "src").as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    (found,) = ailments(site, 1)
    assert found["commands"] == [f"{pip(site)} install --no-build-isolation -e {tmp_path / 'src'}"]


@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ({"url": "file:///src/mine", "dir_info": {}, "subdirectory": "py"}, "file:///src/mine#subdirectory=py"),
        (
            {"url": "https://me:key@host/mine.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "git+https://host/mine.git@abc",
        ),
        ({"url": "https://host/mine-1.0-py3-none-any.whl", "archive_info": {}}, None),
    ],
)
def test_what_an_address_had_is_not_replaced_from_an_index(
    site: Path, wheel_index: Path, origin: dict[str, Any], address: str | None
) -> None:
    info = install(site, "mine", {"mine/_C.so": extension(undefined=GONE)}, requires="")
    (info / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    for version, undefined in (("1.0", GONE), ("9.0", ())):
        package_wheel(wheel_index, "mine", {"mine/_C.so": extension(undefined=undefined)}, version=version)
    (found,) = ailments(site, 1)
    again = f"{pip(site)} install --no-build-isolation --force-reinstall --no-deps '{address}'"
    assert [shlex.split(command) for command in found["commands"]] == ([shlex.split(again)] if address else [])
    assert found["stays"].startswith("it was installed from ")
    assert "key" not in json.dumps(found)
    assert f"did not look for other versions of mine==1.0: {found['stays']}" in run(site).stdout


def test_a_torch_for_cpus_beside_extensions_for_cuda(site: Path) -> None:
    gpu = extension(needed=("libtorch_cpu.so", "libtorch_cuda.so"))
    install(site, "gpu", {"gpu/_C.so": gpu}, requires="")
    install(site, "old", {"old/_C.so": gpu}, requires="torch==2.5.1")
    of_kind, of_release = ailments(site, 1)
    assert (of_kind["trouble"], of_release["trouble"]) == ("cpu-torch", "broken")
    assert of_kind["cause"] == "was built for a torch with CUDA, and this one has none"
    # A CUDA build of torch 9.9.0 would not help it, so that is not the main cause.
    assert of_release["cause"] == "was built for torch 2.5.1"
    for found in (of_kind, of_release):
        assert found["message"].startswith("libtorch_cuda.so: cannot open shared object file")


@pytest.mark.parametrize("name", ["libtorch_cpu.so", "libc10-5de87c2d.so"])
def test_a_second_libtorch_in_a_package(name: str, site: Path) -> None:
    install(site, "bundle", {f"bundle.libs/{name}": torch_libraries()["libc10.so"]})
    (found,) = ailments(site, 1)
    assert (found["trouble"], found["commands"]) == ("second-libtorch", [f"{pip(site)} uninstall bundle"])
    assert name in found["message"]


def test_what_imports_a_package_with_a_second_libtorch_that_fails_fails_with_it(site: Path) -> None:
    """CPython imports none of the three with torch 2.13.0, whose libraries are loaded by then."""
    codes = {
        "first": "import ctypes\nctypes.CDLL(None)\nimport second\n",
        "second": "import third\n",
        "third": "from torch import gone_name\n",
    }
    requires = {"first": "torch\nRequires-Dist: second", "second": "torch\nRequires-Dist: third"}
    for name, code in codes.items():
        objects = {"third/lib/libtorch_cpu.so": Elf()} if name == "third" else {}
        files = {f"{name}/__init__.py": f"import torch\n{code}"}
        install(site, name, objects, requires=requires.get(name, "torch"), files=files)
    found = {ailment["subject"] for ailment in ailments(site, 1) if ailment["trouble"] == "broken"}
    assert found == {"first==1.0", "second==1.0", "third==1.0"}


def test_libraries_called_alike_are_no_second_libtorch(site: Path) -> None:
    names = ("libtorch_npu.so", "libtorchvision.so", "libshm.so", "libc10_extra.so")
    install(site, "vendor", {f"vendor/{name}": Elf() for name in names})
    assert ailments(site, 0) == []


def test_a_second_libtorch_on_the_search_path(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_libraries()["libc10.so"].write(tmp_path / "other" / "libc10.so")
    own, harmless = site / "torch" / "lib", tmp_path / "harmless"
    for folders, command in (
        ([tmp_path / "other"], "unset LD_LIBRARY_PATH"),
        ([harmless, tmp_path / "other"], f"export LD_LIBRARY_PATH={harmless}"),
        ([own, harmless], None),
    ):
        monkeypatch.setenv("LD_LIBRARY_PATH", ":".join(map(str, folders)))
        found = ailments(site, 1 if command else 0)
        assert [one["commands"] for one in found] == ([[command]] if command else [])


@pytest.mark.parametrize(
    ("version", "folder"),
    [
        ("cuda = None", f"{PYTHON}_cpu"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = None", f"{PYTHON}_cpu"),
        ("cuda: Optional[str] = '12.8'\nhip: Optional[str] = None", f"{PYTHON}_cu128"),
        ("cuda = None\nhip: Optional[str] = '6.3'", f"{PYTHON}_rocm63"),
    ],
)
def test_a_stale_build_on_the_fly(
    version: str, folder: str, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (site / "torch" / "version.py").open("a", encoding="utf-8") as stream:
        stream.write(f"{version}\n")
    # torch names the folder after the Python that runs it (cpp_extension.py, _get_build_directory).
    cache = tmp_path / "cache home" / "torch_extensions"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    fresh = extension().write(cache / folder / "fresh" / "fresh.so")
    stale = extension(undefined=GONE).write(cache / folder / "stale" / "stale.so")
    extension(undefined=GONE).write(cache / "py27_cu90" / "unused" / "unused.so")
    (cache / folder / "empty").mkdir()
    (found,) = ailments(site, 1)
    assert (found["trouble"], found["subject"]) == ("stale-build", str(stale.parent))
    assert found["commands"] == [f"rm -r '{stale.parent}'"]
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(cache / "py27_cu90"))
    assert [Path(one["subject"]).name for one in ailments(site, 1)] == ["unused"]
    assert str(fresh.parent) not in json.dumps(found)


def test_the_worst_comes_first(site: Path) -> None:
    install(site, "a-unknown", {"a.so": extension(), "cut.so": extension()})
    (site / "cut.so").write_bytes(extension().build()[:200])
    assert [one["trouble"] for one in ailments(site, 3)] == ["unknown"]
    install(site, "b-bundle", {"libtorch_cpu.so": Elf(defined=exports("x"))})
    install(site, "c-bad", {"c.so": extension(undefined=GONE)})
    assert [one["subject"] for one in ailments(site, 1)] == ["c-bad==1.0", "b-bundle==1.0", "a-unknown==1.0"]


def test_an_environment_without_torch_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    result = run(tmp_path / "site")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "has no torch (name the Python that has it with --python)" in result.stderr


def test_a_bug_costs_the_answer_about_one_package(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(site, "bad", {"bad/_C.so": extension(undefined=GONE)})
    install(site, "unlucky", {"unlucky/_C.so": extension()})

    def fail(source: Any, *words: Any, **named: Any) -> Any:
        if source.name == "unlucky":
            raise KeyError("a bug")
        return check_package(source, *words, **named)

    with monkeypatch.context() as broken:
        broken.setattr(examination, "check_package", fail)
        found = {ailment["subject"]: ailment for ailment in ailments(site, 1)}
    assert found.pop("unlucky==1.0")["message"].startswith("internal error, please report it: KeyError: 'a bug' (")
    assert list(found.values()) == ailments(site, 1)
