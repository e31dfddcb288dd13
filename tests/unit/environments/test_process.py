"""What concerns every process of an environment."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from abiscan.environments.model import WholeEnvironment
from abiscan.environments.process import examine_process
from abiscan.environments.torch_gpus import examine_gpus
from abiscan.findings import Finding
from abiscan.inputs import observed_fs, packages
from abiscan.inputs.files import Files
from abiscan.inputs.session import Session
from abiscan.torches.torch import InstalledTorch, TorchAt
from abiscan.verdict.hardware import hardware_of
from tests.elf_builder import Elf
from tests.fakes import install, torch_libraries, torch_package
from tests.unit.environments.test_examination import OF_1


def messages(site: Path) -> list[str]:
    return [finding.message for finding in findings_of(site)]


def findings_of(site: Path) -> list[Finding]:
    environment = WholeEnvironment(python=sys.executable, distributions=tuple(packages.list_installed([str(site)])))
    files = Files()
    torch = TorchAt(torch_package(site)).open(files, Session(folder=site / "cache"))
    return list(examine_process(environment, torch, files))


def test_two_distributions_with_the_same_files(tmp_path: Path) -> None:
    for name in ("opencv-python", "opencv-python-headless"):
        files = {"cv2/__init__.py": "", f"{name}.txt": "", "docs/source/conf.py": "", "tests/__init__.py": ""}
        install(tmp_path, name, {}, requires="", files=files)
    for name in ("google-one", "google-two"):  # parts of a namespace
        install(tmp_path, name, {}, requires="", files={f"google/{name[-3:]}/__init__.py": ""})
    (message,) = messages(tmp_path)
    names = {"opencv-python==1.0", "opencv-python-headless==1.0"}
    assert {message.split(" and ")[0], message.split(" and ")[1].split(" ")[0]} == names
    assert message.endswith("have installed the same files: cv2/__init__.py; the last one's remain")


def test_one_of_several_with_the_same_files_was_uninstalled(tmp_path: Path) -> None:
    """As ``pip uninstall opencv-python-headless`` beside two others: the files that all of them list are gone."""
    for name in ("opencv-python", "opencv-contrib-python"):
        files = {"cv2/__init__.py": "", "cv2/gapi/__init__.py": "", f"{name}.libs/a.py": ""}
        install(tmp_path, name, {}, requires="", files=files)
    (tmp_path / "cv2" / "__init__.py").unlink()
    (tmp_path / "cv2" / "gapi" / "__init__.py").unlink()
    lost = "is listed as installed, but cv2/__init__.py is not there: its import gives an empty package, or fails"
    assert sorted(messages(tmp_path)) == [f"opencv-contrib-python==1.0 {lost}", f"opencv-python==1.0 {lost}"]
    program = f"import sys\nsys.path.append({str(tmp_path)!r})\nimport cv2\nprint(cv2.__file__)"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "None\n"


def test_the_sources_of_an_egg_need_not_be_there(tmp_path: Path) -> None:
    """``SOURCES.txt`` lists the files of the source tree: its tests are there, too, and ``src/``."""
    for name, folder in (("flat", ""), ("deep", "src/")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        metadata = tmp_path / f"{name}-1.0-py3.11.egg-info"
        metadata.mkdir()
        (metadata / "PKG-INFO").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", "utf-8")
        listed = ["setup.py", f"{folder}{name}/__init__.py", *([] if folder else ["tests/__init__.py"])]
        (metadata / "SOURCES.txt").write_text("\n".join(listed), "utf-8")
    assert messages(tmp_path) == []


def test_what_earlier_installations_have_left(tmp_path: Path) -> None:
    install(tmp_path, "gone", {}, requires="", files={"gone/__init__.py": ""})
    install(tmp_path, "data", {}, requires="", files={"data.json": ""})
    (tmp_path / "gone" / "__init__.py").unlink()
    (tmp_path / "~orch").mkdir()
    assert messages(tmp_path) == [
        "gone==1.0 is listed as installed, but none of its code is there",
        f"an interrupted installation has left ~orch in {tmp_path}",
    ]


def test_a_library_whose_end_is_missing(tmp_path: Path) -> None:
    """``strip`` makes a library shorter, too: that one can be read."""
    info = install(tmp_path, "part", {f"part/_{name}.so": Elf() for name in ("whole", "cut", "stripped")}, requires="")
    cut = tmp_path / "part" / "_cut.so"
    sizes = {"whole": cut.stat().st_size, "cut": cut.stat().st_size, "stripped": 2 * cut.stat().st_size}
    (info / "RECORD").write_text("\n".join(f"part/_{name}.so,,{size}" for name, size in sizes.items()), "utf-8")
    cut.write_bytes(cut.read_bytes()[:100])
    (message,) = messages(tmp_path)
    assert message == "part==1.0 is damaged: a part is missing of part/_cut.so"


@pytest.mark.parametrize(
    ("libraries", "count"),
    [
        (("libiomp5.so", "libomp-5de87c2d.so"), 1),
        (("libgomp.so.1", "libgomp-5de87c2d.so.1.0.0"), 0),  # any number of which works in one process
        (("libiomp5.so", "libgomp.so.1"), 0),
    ],
)
def test_runtimes_of_openmp(tmp_path: Path, libraries: tuple[str, ...], count: int) -> None:
    for number, library in enumerate(libraries):
        install(tmp_path, f"brings{number}", {f"brings{number}.libs/{library}": Elf()}, requires="")
    findings = findings_of(tmp_path)
    assert len(findings) == count
    # What a process says that has loaded the libiomp5.so of intel-openmp twice, from two files.
    says = "OMP: Error #15: Initializing {}, but found {} already initialized."
    expected = {says.format("libomp.so", "libiomp5.so"), says.format("libiomp5.so", "libomp.so")}
    assert all(finding.says in expected for finding in findings)


def test_the_runtime_of_torch_beside_another(tmp_path: Path) -> None:
    """Both load, and both have threads: no error, as torch, scikit-learn and intel-openmp in one process show."""
    install(tmp_path, "torch", {"torch/lib/libgomp.so.1": Elf()}, version="9.9.0", requires="")
    install(tmp_path, "intel-openmp", {"intel.libs/libiomp5.so": Elf()}, requires="")
    (message,) = messages(tmp_path)
    assert message.startswith("torch uses libgomp.so.1, and there is libiomp5.so of intel-openmp==1.0: in a process")


@pytest.mark.parametrize(
    ("name", "shadows"),
    [
        ("random.py", "Python's own module random"),
        ("types.py", "Python's own module types"),
        ("torch/__init__.py", "torch"),
        ("numpy.py", "the module numpy, which torch imports,"),
        ("os.py", None),
        ("sys.py", None),
        ("torch/notes.txt", None),
        ("mine.py", None),
        ("datasets/__init__.py", "the module datasets of HF-datasets==1.0"),
        ("tests/__init__.py", None),  # which nobody imports of another package
    ],
)
def test_modules_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, shadows: str | None
) -> None:
    site, here = tmp_path / "site", tmp_path / "here"
    install(site, "numpy", {}, requires="", files={"numpy/__init__.py": ""})
    install(site, "HF-datasets", {}, requires="", files={"datasets/__init__.py": "", "tests/__init__.py": ""})
    (here / name).parent.mkdir(parents=True)
    (here / name).write_text("", encoding="utf-8")
    monkeypatch.chdir(here)
    file = name.partition("/")[0]
    where = "for python -m, python -c and scripts in this folder"
    assert messages(site) == ([f"{file} in the current folder shadows {shadows} {where}"] if shadows else [])
    # What Python says to that: -c finds the current folder first.
    module = file.removesuffix(".py")
    program = f"import {module}; print(getattr({module}, '__file__', None))"
    done = subprocess.run([sys.executable, "-Ic", f"import sys; sys.path[0:0] = ['']; {program}"], text=True,
                          capture_output=True, check=False)  # fmt: skip
    assert (str(here) in done.stdout) == (shadows is not None or name in {"mine.py", "tests/__init__.py"})


def test_what_else_is_in_the_current_folder_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that is written there must not make the next run examine everything again."""
    (here := tmp_path / "here").mkdir()
    monkeypatch.chdir(here)
    with observed_fs.record_observations() as record:
        assert not messages(tmp_path / "site")
    (here / "report.json").touch()
    assert observed_fs.is_unchanged(record.seen)
    (here / "random.py").touch()
    assert not observed_fs.is_unchanged(record.seen)


def test_path_files_and_what_conda_has_recorded(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    install(site, "torch", {}, version="2.13.0+cpu", requires="")
    install(site, "numpy", {}, version="2.4.6", requires="")
    for name in ("pytorch-2.13.0-cpu_generic_py311", "numpy-1.26.4-py311h64a7726_0", "zlib-1.3.1-hb9d3cd8_2"):
        record = tmp_path / "conda-meta" / f"{name}.json"
        record.parent.mkdir(exist_ok=True)
        record.write_text("{}", encoding="utf-8")
    (site / "early.pth").write_text("import sys; import torch\n", encoding="utf-8")
    (site / "other.pth").write_text("../torch\nimport site\n", encoding="utf-8")
    first, second = messages(site)
    assert first == "early.pth imports torch whenever this Python starts, whatever it runs"
    assert second.startswith("conda has installed numpy 1.26.4, and there is numpy==2.4.6: another installer")


def test_several_versions_of_a_distribution(tmp_path: Path) -> None:
    """``importlib.metadata`` tells which of them counts."""
    first, second = tmp_path / "first", tmp_path / "second"
    for site, version in ((first, "2.4.6"), (second, "1.26.4"), (second, "1.26.5")):
        install(site, "numpy", {}, version=version, requires="")
    for name in ("pip", "same"):
        install(first, name, {}, version="1.0" if name == "same" else "2.0", requires="")
        install(second, name, {}, requires="")
    install(second, "own", {}, requires="")
    install(first, "tokenizers", {}, version="0.21", requires="")
    for version in ("0.22", "0.23"):
        install(first, "tokenizers", {}, version=version, requires="")
    environment = WholeEnvironment(
        python=sys.executable, distributions=tuple(packages.list_installed([str(first), str(second)]))
    )
    torch = TorchAt(torch_package(tmp_path)).open(Files(), Session(folder=tmp_path / "cache"))
    found = [item for item in examine_process(environment, torch, Files()) if item.rule != "openmp-runtimes"]
    twice, shadowed = (item.message for item in found)
    program = "import sys, importlib.metadata as m; sys.path[:0] = sys.argv[1:]; print(m.version('tokenizers'))"
    there = subprocess.run([sys.executable, "-c", program, first, second], capture_output=True, text=True, check=True)
    chosen = there.stdout.strip()
    assert f"pip and Python take {chosen} for the one that is installed" in twice
    assert shadowed.startswith(
        f"{first} comes before {second} on the search path: numpy 2.4.6 shadows 1.26.4, numpy 2.4.6 shadows 1.26.5;"
    )


@pytest.mark.parametrize(
    ("version", "in_name"), [("2024.01.02", "2024.1.2"), ("1.0-1", "1.0_1"), ("1.0-1", "1.0.post1"), ("1.0", "1.0.0")]
)
def test_a_version_that_is_written_in_another_way_is_the_same(tmp_path: Path, version: str, in_name: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for site in (first, second):
        install(site, "one", {}, version=version, requires="").rename(site / f"one-{in_name}.dist-info")
    environment = WholeEnvironment(
        python=sys.executable, distributions=tuple(packages.list_installed([str(first), str(second)]))
    )
    torch = TorchAt(torch_package(tmp_path)).open(Files(), Session(folder=tmp_path / "cache"))
    assert "leftover" not in (rules := [item.rule for item in examine_process(environment, torch, Files())])
    assert "shadowed-distribution" not in rules


def test_a_size_that_no_file_has_says_nothing(tmp_path: Path) -> None:
    info = install(tmp_path, "one", {}, requires="", files={"one/_lib.so": "", "one/__init__.py": ""})
    (info / "RECORD").write_text(f"one/__init__.py,,\none/_lib.so,,{'9' * 5000}\n", encoding="utf-8")
    assert not messages(tmp_path)


@pytest.mark.parametrize(("version", "count"), [("2.4.6", 1), ("1.26.4", 0)])
def test_a_torch_that_was_compiled_for_numpy_1(tmp_path: Path, version: str, count: int) -> None:
    """As torch up to 2.2 was: import torch goes on with a warning, which numpy words."""
    install(tmp_path, "numpy", {}, version=version, requires="")
    package = torch_package(tmp_path)
    python = torch_libraries()["libtorch_python.so"]
    dataclasses.replace(python, texts=(*python.texts, *OF_1)).write(package / "lib" / "libtorch_python.so")
    environment = WholeEnvironment(python=sys.executable, distributions=tuple(packages.list_installed([str(tmp_path)])))
    files = Files()
    torch = TorchAt(package).open(files, Session(folder=tmp_path / "cache"))
    findings = list(examine_process(environment, torch, files))
    assert [finding.rule for finding in findings] == ["numpy-abi"] * count
    assert all("compiled using NumPy 1.x cannot be run in NumPy 2.4.6" in str(finding.says) for finding in findings)


@pytest.mark.parametrize(
    ("build", "cuda", "gpu", "driver", "rules"),
    [
        # Users' reports: a driver with CUDA 12.8 or 12.9 and a torch for CUDA 13 ("found version 12080").
        ("2.13.0+cu130", "'13.0'", "9.0", "570.133.20", ["driver-too-old"]),
        ("2.13.0+cu130", "'13.0'", "9.0", "580.65.06", []),
        ("2.13.0+cu126", "'12.6'", "9.0", "525.60.13", []),
        ("2.13.0+cu130", "'13.0'", "V100", "580.65.06", ["no-kernel-image"]),
        ("2.13.0+cpu", "None", "V100", "418.39", []),
    ],
)
def test_torch_itself_on_a_gpu(tmp_path: Path, build: str, cuda: str, gpu: str, driver: str, rules: list[str]) -> None:
    package = torch_package(tmp_path, build=build)
    with (package / "version.py").open("a", encoding="utf-8") as stream:
        stream.write(f"cuda: Optional[str] = {cuda}\n")
    files = Files()
    torch = TorchAt(package).open(files, Session(folder=tmp_path / "cache"))
    assert isinstance(torch, InstalledTorch)
    findings = list(examine_gpus(torch.release, hardware_of([gpu], driver), files))
    assert [finding.rule for finding in findings] == rules
