"""The way out: with the real pip, an index that is a folder, and an environment that is really changed."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
from pathlib import Path

import click.testing
import pytest

from abiscan.cli import main
from abiscan.inputs import interpreter, packages
from tests.elf_builder import uses
from tests.fakes import extension, install, package_wheel, site_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("warm_pip"),
    pytest.mark.skipif((platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="needs x86_64 Linux"),
]
GONE = uses("_ZN2at4goneEv")
THREADS = uses("_ZN2at15get_num_threadsEv")
PLAN = re.compile(r"would change |  [-+] ")
# sample_binaries/README.md: torch 2.13.0 has at::_ops::align_as no longer; 2.12.1 is the last release with it.
REMOVED = uses("_ZN2at4_ops8align_as4callERKNS_6TensorES4_")


@pytest.fixture(autouse=True)
def index(wheel_index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The index; what abiscan hands over to runs, but does not replace the tests."""

    def execvp(_: str, program: list[str]) -> None:
        done = subprocess.run(program, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        raise SystemExit(0)

    monkeypatch.setattr(os, "execvp", execvp)
    return wheel_index


ADVICE = ": the newest that work"


def torch_on(index: Path, *versions: str) -> None:
    """Empty wheels of torches that are embedded, so nothing in them is read; they require CUDA, as the index's do."""
    package_wheel(index, "nvidia_cublas", {})
    for version in versions:
        package_wheel(index, "torch", {}, version=version, metadata={"Requires-Dist": "nvidia-cublas"})


def abiscan(*words: str) -> click.testing.Result:
    result = click.testing.CliRunner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def refused(python: str, *words: str) -> list[str]:
    """What is printed if an installation is refused, between the environment and the last line."""
    result = abiscan("pip", "--python", python, "install", *words)
    assert result.exit_code == 1, result.output
    lines = [line.removeprefix("abiscan: ") for line in result.stderr.splitlines()]
    assert lines[0].startswith("environment ")
    assert lines[-1] == "nothing was installed; use --force to install anyway"
    return lines[1:-1]


def refusal(python: str, *words: str) -> list[str]:
    """What is printed, without what is said of the version, of a torch that would change, and of other packages."""
    return [
        line for line in refused(python, *words) if ADVICE not in line and " -> " not in line and not PLAN.match(line)
    ]


def command(line: str) -> list[str]:
    """The words of the command that a line says to type."""
    words = shlex.split(line.partition("this works: ")[2] or line)
    assert words[0] == "abiscan"
    return words[1:]


def typed(words: list[str]) -> None:
    """Run such a command to its end: the real pip installs."""
    result = abiscan(*words)
    assert result.exit_code == 0, result.output


def installed(python: str) -> dict[str, str]:
    return {each.name: each.version for each in packages.list_installed(interpreter.search_path(python))}


def test_the_newest_version_that_works_is_found(python: str, index: Path) -> None:
    for version, elf, requires in (
        ("1.0", extension(undefined=GONE), "torch"),
        ("2.0", extension(), "torch"),
        ("3.0", extension(), "torch>=9"),
        ("4.0", extension(undefined=GONE), "torch"),  # whose metadata promise too much
        ("5.0", extension(), "torch>=10"),
    ):
        package_wheel(index, "pkg", {"pkg/_C.so": elf}, version=version, metadata={"Requires-Dist": requires})
    _, advice, way, count, coming = refused(python, "pkg==1.0", "--no-deps", "--progress-bar", "off")
    assert count.startswith("would change 1 package, ")
    assert re.fullmatch(r"  \+ pkg 3\.0 +\d\.\d kB  asked for", coming)
    assert advice == "install pkg==3.0: the newest that works with the torch 9.9.0 you have"
    assert way == f"this works: abiscan pip --python {python} install pkg==3.0 --no-deps --progress-bar off"
    typed(command(way))
    assert installed(python)["pkg"] == "3.0"


def test_many_versions_that_do_not_work_are_no_obstacle(python: str, index: Path) -> None:
    """They are looked at in place, as abiscan fit does, and not installed one after the other to see."""
    for number in range(1, 13):
        elf = extension(undefined=GONE) if number > 1 else extension()
        package_wheel(index, "pkg", {"pkg/_C.so": elf}, version=f"{number}.0", metadata={"Requires-Dist": "torch"})
    _, way = refusal(python, "pkg", "--no-deps")
    assert way == f"this works: abiscan pip --python {python} install pkg==1.0 --no-deps"


def test_the_installed_version_may_be_the_one_that_works(python: str, index: Path, environment: Path) -> None:
    install(site_of(environment), "pkg", {"pkg/_C.so": extension()}, version="2.0", requires="")
    for version, elf in (("1.0", extension(undefined=GONE)), ("2.0", extension())):
        package_wheel(index, "pkg", {"pkg/_C.so": elf}, version=version)
    for options in ([], ["--no-deps"]):
        _, way = refusal(python, "pkg==1.0", *options)
        assert command(way) == ["pip", "--python", python, "install", "pkg==2.0", *options]


def test_the_installed_version_may_be_on_no_index(python: str, index: Path, environment: Path) -> None:
    install(site_of(environment), "pkg", {"pkg/_C.so": extension()}, version="2.0", requires="")
    install(site_of(environment), "other", {"other/_C.so": extension()}, version="7.0", requires="")
    package_wheel(index, "pkg", {"pkg/_C.so": extension(undefined=GONE)}, metadata={"Requires-Dist": "other"})
    *_, way = refusal(python, "pkg==1.0")
    assert command(way) == ["pip", "--python", python, "install", "pkg==2.0"]
    typed(command(way))
    assert installed(python)["pkg"] == "2.0"


def test_extras_and_other_packages_stay(python: str, index: Path) -> None:
    package_wheel(index, "other", {"other.so": extension()})
    for version, elf in (("1.0", extension()), ("2.0", extension(undefined=GONE))):
        package_wheel(index, "Pkg", {"pkg/_C.so": elf}, version=version, metadata={"Provides-Extra": "more"})
    _, way = refusal(python, "Pkg[more]>=1", "other<2")
    assert way == f"this works: abiscan pip --python {python} install 'Pkg[more]==1.0' 'other<2'"


def test_a_wheel_by_its_path_is_replaced_by_its_version(python: str, index: Path, tmp_path: Path) -> None:
    package_wheel(index, "pkg", {"pkg/_C.so": extension()}, version="1.0")
    path = package_wheel(tmp_path / "a folder", "pkg", {"pkg/_C.so": extension(undefined=GONE)}, version="2.0")
    # The index has no such version, so it may be another package of that name.
    _, why, none = refusal(python, str(path))
    reason = "no index was asked, and what --find-links names does not have pkg 2.0"
    assert why == f"did not look for other versions of pkg: {reason}"
    assert none.endswith("looked for other releases of torch")
    package_wheel(index, "pkg", {"pkg/_C.so": extension(undefined=GONE)}, version="2.0")
    _, way = refusal(python, str(path))
    assert way == f"this works: abiscan pip --python {python} install pkg==1.0"


@pytest.mark.parametrize("origin", [None, {"url": "file:///src/mine", "dir_info": {}}])
def test_no_stranger_replaces_a_private_package(
    python: str, index: Path, environment: Path, origin: dict[str, object] | None
) -> None:
    # A symbol that the torch of the environment has, and no released one.
    only_here = uses("_ZN2at4_ops5zeros4callEl")
    info = install(site_of(environment), "mine", {"mine/_C.so": extension(undefined=only_here)}, requires="")
    if origin is not None:
        (info / "direct_url.json").write_text(json.dumps(origin), "utf-8")
    torch_on(index, "2.13.0")
    # Somebody else has published something under that name, and it works.
    package_wheel(index, "mine", {"mine/_C.so": extension()}, version="9.0")
    problem, why, *rest = refusal(python, "torch==2.13.0")
    assert problem.startswith("the installed mine 1.0 will not work with torch 2.13.0")
    because = "it was installed from file:///src/mine, and" if origin else "no index was asked, and"
    assert why.startswith(f"did not look for other versions of mine: {because} ")
    assert "mine==" not in "".join(rest)


def test_another_torch_for_the_version_that_was_asked_for(python: str, index: Path) -> None:
    package_wheel(index, "pkg", {"pkg/_C.so": extension(undefined=REMOVED)})
    torch_on(index, "2.13.0", "2.12.1", "2.12.0", "2.5.1")
    problem, way = refusal(python, "pkg==1.0")
    assert problem.startswith("pkg 1.0 will not work with torch 9.9.0+cpu: ")
    assert way == f"this works: abiscan pip --python {python} install pkg==1.0 torch==2.12.1"
    _, way, note = refusal(python, "pkg", "--no-deps")
    assert command(way)[-2:] == ["--no-deps", "torch==2.12.1"]
    assert note == "torch 2.12.1 has dependencies of its own, which --no-deps leaves out"


def test_without_a_torch_on_the_index_it_is_said_what_would_work(python: str, index: Path) -> None:
    package_wheel(index, "pkg", {"pkg/_C.so": extension(undefined=REMOVED)})
    _, none, fits = refusal(python, "pkg")
    assert none == "found no versions on the index that work together: looked for pkg, and for other releases of torch"
    assert fits.startswith("pkg 1.0 works with torch 2.12.1, 2.12.0, ")


def test_the_main_cause_comes_first(python: str, index: Path) -> None:
    needed = ("libtorch_cpu.so", "libtorch_cuda.so")
    package_wheel(index, "pkg", {"pkg/_C.so": extension(needed=needed)}, metadata={"Requires-Dist": "torch==2.5.1"})
    problem = refusal(python, "pkg", "--no-deps")[0]
    assert problem == (
        "pkg 1.0 will not work with torch 9.9.0+cpu: it was built for torch 2.5.1 "
        "(libtorch_cuda.so: cannot open shared object file: No such file or directory)"
    )


def test_a_torch_that_was_asked_for_stays(python: str, index: Path, environment: Path) -> None:
    # What torch 9.9.0 exports here is in no real torch.
    of_old_torch = extension(undefined=uses("_ZN2at4_ops5zeros4callEl"))
    install(site_of(environment), "there", {"there/_C.so": of_old_torch}, requires="")
    for version, elf in (
        ("1.0", of_old_torch),
        ("2.0", extension(undefined=THREADS)),
        ("3.0", extension(undefined=GONE)),
    ):
        package_wheel(index, "there", {"there/_C.so": elf}, version=version)
    torch_on(index, "2.14.1", "2.13.0", "2.12.1")
    problem, way = refusal(python, "torch==2.13.0")
    assert problem.startswith("the installed there 1.0 will not work with torch 2.13.0+cu130: ")
    assert way == f"this works: abiscan pip --python {python} install torch==2.13.0 there==2.0"


def test_what_is_broken_already_is_no_reason_to_refuse(python: str, index: Path, environment: Path) -> None:
    install(site_of(environment), "there", {"there/_C.so": extension(undefined=GONE)}, requires="")
    package_wheel(index, "good", {"good/_C.so": extension()})
    torch_on(index, "2.13.0")
    typed(["pip", "--python", python, "install", "good"])
    result = abiscan("pip", "--python", python, "install", "--dry-run", "torch==2.13.0", "good", "--force")
    assert "the installed there 1.0 does not work now, and will not work with torch 2.13.0" in result.stderr
    assert "nothing was installed" not in result.stderr


def test_files_that_exclude_every_solution_are_left_out(python: str, index: Path, tmp_path: Path) -> None:
    for version, elf in (("1.0", extension(undefined=GONE)), ("2.0", extension())):
        package_wheel(index, "pkg", {"pkg/_C.so": elf}, version=version)
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("pkg<2\n", encoding="utf-8")
    _, way = refusal(python, "pkg", "-c", str(constraints))
    works = f"abiscan pip --python {python} install pkg==2.0"
    assert way == f"this works without your files, which require other versions: {works}"


def test_a_circle_of_refusals_ends(python: str, index: Path, environment: Path) -> None:
    """Two packages, each for a torch of its own: whatever either alone recommends would be refused for the other."""
    for name, old, requires in (("vision", "0.20.1", "torch==2.5.1"), ("audio", "2.8.0", "torch==2.8.0")):
        broken = extension(undefined=GONE)
        install(site_of(environment), name, {f"{name}/_C.so": broken}, version=old, requires=requires)
        for version, elf, needs in ((old, broken, requires), ("3.0", extension(), "torch"), ("4.0", broken, "torch")):
            package_wheel(index, name, {f"{name}/_C.so": elf}, version=version, metadata={"Requires-Dist": needs})
    diagnosis = json.loads(abiscan("doctor", "--python", python, "--format", "json").stdout)
    works = {name: f"abiscan pip --python {python} install {name}==3.0" for name in ("audio", "vision")}
    assert {remedy["command"]: (remedy["for"], remedy["examined"]) for remedy in diagnosis["way_out"]} == {
        works["audio"]: (["audio"], True),
        works["vision"]: (["vision"], True),
    }
    assert sorted(each["commands"] for each in diagnosis["ailments"]) == [[works["audio"]], [works["vision"]]]
    assert {each["cause"] for each in diagnosis["ailments"]} == {
        "was built for torch 2.5.1",
        "was built for torch 2.8.0",
    }
    text = abiscan("doctor", "--python", python).stdout
    assert all(text.count(way) == 1 for way in works.values())
    # Each refusal on the way leads out as well.
    for name in ("vision", "audio"):
        way = refusal(python, "--force-reinstall", "--no-deps", f"{name}=={diagnosis_version(diagnosis, name)}")[1]
        assert way == f"this works: abiscan pip --python {python} install --force-reinstall --no-deps {name}==3.0"
    for way in works.values():
        typed(command(way))
    assert abiscan("doctor", "--python", python).stdout.startswith("2 distributions use torch: 2 work\n")


def diagnosis_version(diagnosis: dict[str, object], name: str) -> str:
    ailments = diagnosis["ailments"]
    assert isinstance(ailments, list)
    return str(next(each["subject"].partition("==")[2] for each in ailments if each["subject"].startswith(name)))


def test_uv_stays_uv(python: str, index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for version, elf in (("1.0", extension()), ("2.0", extension(undefined=GONE))):
        package_wheel(index, "pkg", {"pkg/_C.so": elf}, version=version)
    # As uv answers: the version that is pinned, or the newest one; with a constraint file, the older one.
    answer = "*--constraint*pkg\\<2*) v=1.0;; *pkg==1.0*) v=1.0;; *) v=2.0;;"
    script = f"""#!/bin/sh
case "$1" in python) echo {python}; exit;; esac
words="$*"
for word in "$@"; do case "$word" in */constraints.txt) words="$words $(cat $word)";; esac; done
case "$words" in {answer} esac
printf 'Would install 1 package\\n + pkg==%s\\n' "$v" >&2
"""
    uv = tmp_path / "bin" / "uv"
    uv.parent.mkdir()
    uv.write_text(script, encoding="utf-8")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(uv.parent), prepend=":")
    result = abiscan("uv", "pip", "install", "--python", python, "--no-deps", "pkg")
    assert result.exit_code == 1, result.output
    lines = result.stderr.splitlines()
    assert lines[0] == f"abiscan: environment {Path(python).parent.parent} (chosen by uv)"
    assert lines[2] == "abiscan: install pkg==1.0: the newest that works with the torch 9.9.0 you have"
    assert lines[3] == f"abiscan: this works: abiscan uv pip install --python {python} --no-deps pkg==1.0"


def test_what_is_required_and_missing_is_installed_first(python: str, index: Path, environment: Path) -> None:
    """Each cause has its own way out, and one that has none takes nothing from the other."""
    site = site_of(environment)
    asks = {"asks/__init__.py": "import torch\nfrom helper import tool\n"}
    install(site, "asks", {}, requires="helper>=1", files=asks)
    install(site, "plain", {}, requires="helper", files={"plain/__init__.py": "from helper import tool\n"})
    above = {"above/__init__.py": "import torch\nimport asks\n"}
    install(site, "above", {}, requires="asks\nRequires-Dist: plain", files=above)
    install(site, "bad", {"bad/_C.so": extension(undefined=GONE)}, requires="")
    package_wheel(index, "bad", {"bad/_C.so": extension(undefined=GONE)})
    package_wheel(index, "asks", {}, files=asks, metadata={"Requires-Dist": "helper>=1"})
    package_wheel(index, "helper", {}, files={"helper/__init__.py": ""}, version="1.0")
    diagnosis = json.loads(abiscan("doctor", "--python", python, "--format", "json").stdout)
    # That the import fails without it is certain; that it works with it is not so of a helper without its tool.
    assert {item["subject"]: item["because_of"] for item in diagnosis["ailments"]} == {
        "asks==1.0": None,
        "above==1.0": "asks",
        "bad==1.0": None,
        "plain==1.0": None,  # which does not use torch
    }
    assert diagnosis["way_out"] == []
    package_wheel(index, "helper", {}, files={"helper/__init__.py": "tool = 1\n"}, version="2.0")
    diagnosis = json.loads(abiscan("doctor", "--python", python, "--format", "json").stdout)
    (remedy,) = diagnosis["way_out"]
    assert sorted(remedy["for"]) == ["above", "asks", "plain"]  # the first of which fails for the second
    assert shlex.split(remedy["command"])[4:] == ["install", "helper>=1"]
    assert [(change["name"], change["after"]) for change in remedy["changes"]] == [("helper", "2.0")]
    typed(command(remedy["command"]))
    after = json.loads(abiscan("doctor", "--python", python, "--format", "json").stdout)
    assert [item["subject"] for item in after["ailments"]] == ["bad==1.0"]


def test_editable_python_code_is_not_built_again(python: str, index: Path, environment: Path, tmp_path: Path) -> None:
    """It fails as before then. What it requires and lacks may come from an index, and no other version of it."""
    for name, code, requires in (
        ("lacks", "import helper", "torch\nRequires-Dist: helper"),
        ("old", "torch.nope", "torch"),
    ):
        package = tmp_path / name / name
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"import torch\n{code}\n", "utf-8")
        info = install(site_of(environment), name, {}, requires=requires)
        origin = {"url": (tmp_path / name).as_uri(), "dir_info": {"editable": True}}
        (info / "direct_url.json").write_text(json.dumps(origin), "utf-8")
    package_wheel(index, "helper", {}, files={"helper/__init__.py": ""}, tag="py3-none-any")
    diagnosis = json.loads(abiscan("doctor", "--python", python, "--format", "json").stdout)
    found = {item["subject"]: item for item in diagnosis["ailments"]}
    assert [command(line)[3:] for line in found["lacks==1.0"]["commands"]] == [["install", "helper"]]
    assert found["old==1.0"]["commands"] == []
    assert "it was installed from file:///" in found["old==1.0"]["stays"]


def test_a_build_for_cpus_on_an_index_that_cannot_be_read(python: str, index: Path, environment: Path) -> None:
    vision = extension(needed=("libtorch_cpu.so", "libtorch_cuda.so"))
    install(site_of(environment), "torchvision", {"torchvision/_C.so": vision}, version="0.9", requires="torch")
    package_wheel(index, "torchvision", {"torchvision/_C.so": vision}, version="0.9")
    diagnosis = json.loads(abiscan("doctor", "--python", python, "--format", "json").stdout)
    (remedy,) = diagnosis["way_out"]
    words = ["--no-deps", "torchvision==0.9+cpu", "--index-url", "https://download.pytorch.org/whl/cpu"]
    assert (shlex.split(remedy["command"])[5:], remedy["examined"]) == (words, False)
    assert [ailment["commands"] for ailment in diagnosis["ailments"]] == [[remedy["command"]]]
