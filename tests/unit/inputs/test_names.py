"""What names, tags and lists say: kinds of targets, systems of wheels, caches of libraries, operators of a workload."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from abiscan.binary.machines import Machine
from abiscan.errors import InputError, NoWheelError
from abiscan.inputs import cuda_wheels, gpu_tools, packages, programs, wheel_tag
from abiscan.inputs.cuda_wheels import brought_libraries
from abiscan.inputs.gpu_tools import NativeGpu, native_driver, native_gpus
from abiscan.inputs.image_files import is_torch_image
from abiscan.inputs.kinds import TargetKind, is_address, is_lock_name, kind_of, looks_like_file, may_be_package
from abiscan.inputs.loader_cache import read_cache
from abiscan.inputs.packages import explain_unfetched, fetch_wheels, is_library, path_of_url, pip_error
from abiscan.inputs.requirements_file import has_password, names_index, read_requirements
from abiscan.inputs.target_list import target_names
from abiscan.inputs.target_system import LinuxSystem, target_system
from abiscan.inputs.workload import read_workload
from tests.elf_builder import Defined, Elf


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.so", TargetKind.LIBRARY), ("a.whl", TargetKind.WHEEL), ("a-1.0-0.conda", TargetKind.CONDA),
        ("a-1.0-py312_0.tar.bz2", TargetKind.CONDA), ("a-1.0.tar.bz2", TargetKind.SOURCE),
        ("a-1.0.tar.gz", TargetKind.SOURCE), ("a.zip", TargetKind.SOURCE), ("a.tgz", TargetKind.SOURCE),
        ("a.tar", TargetKind.SOURCE), ("a.gz", TargetKind.LIBRARY),
        ("a.conda", TargetKind.LIBRARY), ("folder.whl", TargetKind.FOLDER), ("a", TargetKind.LIBRARY),
    ],
)  # fmt: skip
def test_what_a_target_is_by_its_name(name: str, kind: TargetKind, tmp_path: Path) -> None:
    (tmp_path / "folder.whl").mkdir()
    assert kind_of(tmp_path / name) is kind
    assert may_be_package(name) is (kind in (TargetKind.WHEEL, TargetKind.CONDA) or name == "folder.whl")
    assert (kind.is_archive, kind.is_single) == (
        kind in (TargetKind.WHEEL, TargetKind.CONDA),
        kind is TargetKind.LIBRARY,
    )


@pytest.mark.parametrize(
    ("word", "is_file"),
    [
        ("a/b", True), ("a\\b", True), ("a.whl", True), ("a.conda", True), ("a.tar.bz2", True), ("a.so", True),
        ("a.so.1.2", True), ("a.pyd", True), ("a.dll", True), ("a.dylib", True), ("a", False), ("a==1.0", False),
        ("a.source", False), ("so", False),
    ],
)  # fmt: skip
def test_words_that_are_paths(word: str, *, is_file: bool) -> None:
    assert looks_like_file(word) is is_file


def test_names_of_libraries_addresses_and_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = [
        name for name in ("a.so", "a.so.1.2", "a.SO", "a.pyd", "A.DLL", "a.dylib", "a.so.x", "aso") if is_library(name)
    ]
    assert libraries == ["a.so", "a.so.1.2", "a.pyd", "A.DLL", "a.dylib"]
    addresses = (
        "https://h/a.whl",
        "http://h/a.whl#sha256=0",
        "https://h/a.whl?x",
        "ftp://h/a.whl",
        "a.whl",
        "https://h/a.zip",
    )
    assert list(map(is_address, addresses)) == [True, True, True, False, False, False]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.txt").mkdir()
    assert (
        list(map(is_lock_name, ("a.lock", "a.toml", "a.txt", "a.json", "-a.txt", "folder.txt")))
        == [True] * 3 + [False] * 3
    )
    images = (
        "torch_cpu.dll",
        "@rpath/libc10.dylib",
        "C10_CUDA.DLL",
        "torch_cuda_linalg.dll",
        "mytorch.dll",
        "torch.so",
    )
    assert list(map(is_torch_image, images)) == [True, True, True, True, False, False]
    urls = ("file:///src/pkg", "file:///C:/src/a%20b", "file:///c", "https://h/x/y.whl?z")
    assert list(map(path_of_url, urls)) == ["/src/pkg", "C:/src/a b", "/c", "/x/y.whl"]


@pytest.mark.parametrize(
    ("wheel", "glibc", "python"),
    [
        ("a-1-cp39-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", (2, 17), (3, 9)),
        ("a-1-cp39-abi3-manylinux_2_28_x86_64.manylinux_2_34_x86_64.whl", (2, 28), (3, 9)),
        ("a-1-cp32.cp33-abi3-manylinux1_x86_64.whl", (2, 5), (3, 2)),
        ("a-1-cp31-abi3-manylinux2010_x86_64.whl", (2, 12), (3, 2)),  # the limited API begins with 3.2
        ("a-1-cp312-cp312-linux_x86_64.whl", None, None),
        ("a-1-py3-none-any.whl", None, None),
        ("a-1-cp310-abi3-win_amd64.whl", None, (3, 10)),
    ],
)
def test_what_the_tags_of_a_wheel_promise(
    wheel: str, glibc: tuple[int, ...] | None, python: tuple[int, ...] | None
) -> None:
    """PEP 600, PEP 425; of a set of tags, the oldest system counts."""
    assert (wheel_tag.manylinux_version(wheel), wheel_tag.abi3_python(wheel)) == (glibc, python)
    assert wheel_tag.is_for_any_system(wheel) is wheel.endswith("any.whl")
    assert wheel_tag.platform_tag(wheel) == wheel[:-4].rsplit("-", 1)[-1]


def test_versions_of_symbols() -> None:
    assert wheel_tag.lowest_manylinux("GLIBC_2.34", "x86_64") == (2, 34)
    # PEP 571 and 599: CentOS 6 has GCC 4.4 (GLIBCXX_3.4.13), CentOS 7 GCC 4.8 (GLIBCXX_3.4.19).
    assert wheel_tag.lowest_manylinux("GLIBCXX_3.4.13", "x86_64") == (2, 12)
    assert wheel_tag.lowest_manylinux("GLIBCXX_3.4.19", "x86_64") == (2, 17)
    assert wheel_tag.lowest_manylinux("GLIBCXX_9.9.9", "x86_64") is None
    assert wheel_tag.lowest_manylinux("PRIVATE", "x86_64") is None
    assert wheel_tag.newest_of_manylinux((2, 17))["GLIBCXX"] == "3.4.19"
    assert wheel_tag.newest_of_manylinux((2, 12))["GLIBCXX"] == "3.4.13"
    assert [wheel_tag.has_rules_for(name) for name in ("GLIBC_2.5", "GLIBCXX_3.4", "OPENSSL_1.1", "x")] == [
        True,
        True,
        False,
        False,
    ]
    # glibc 2.36 brought DT_RELR, whose version has no number.
    assert wheel_tag.family_and_number("GLIBC_ABI_DT_RELR") == ("GLIBC", "2.36")
    assert wheel_tag.family_and_number("GLIBC_2.2.5") == ("GLIBC", "2.2.5")
    assert wheel_tag.family_and_number("GLIBC_PRIVATE") is None
    assert wheel_tag.version_of("3.10") == (3, 10)


def test_the_libraries_that_a_requirement_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the versions with one major number, the newest and the oldest are known; bounds between them may be any."""
    (tmp_path / "table.txt").write_text(
        "some-wheel 12.2 12.9 libcudart.so.12\nsome-wheel 11.0 11.8 libcudart.so.11\n"
        "some-wheel[extra] 12.2 12.9 libcublas.so.12\nother 1.0 1.0 libother.so.1\n"
        "early 0.0.1.dev4 0.0.1.dev5 libearly.so.0\n"
    )
    monkeypatch.setattr(cuda_wheels, "PATH", tmp_path / "table.txt")
    cuda_wheels._read_table.cache_clear()
    old, new = {"libcudart.so.11"}, {"libcudart.so.12"}
    expected = {
        "Some_Wheel==11.8": old, "some-wheel==11.0": old, "some-wheel<12": old, "some-wheel": new,
        "some-wheel==12.5": new,
        "some-wheel==12.5.*": new, "some-wheel!=12.9": new, "some-wheel[none]": new,
        "some-wheel[extra]==12.9": {*new, "libcublas.so.12"}, "some-wheel==13.0": set(), "other": {"libother.so.1"},
        "early": {"libearly.so.0"},  # pip takes what comes before a release where there is nothing else
        "absent": set(),
    }  # fmt: skip
    try:
        assert {text: set(brought_libraries(Requirement(text))) for text in expected} == expected
    finally:
        cuda_wheels._read_table.cache_clear()


# glibc, sysdeps/generic/dl-cache.h: struct cache_file_new, struct file_entry_new, struct cache_extension.
X86_64, AARCH64 = 0x0303, 0x0A03


def cache(*entries: tuple[str, str, int, int], flags: int = 2, subfolders: tuple[str, ...] = ()) -> bytes:
    """A cache of these libraries: name, path, flags and features; with names of subfolders in an extension."""
    table_end = 48 + 24 * len(entries)
    texts, offsets = b"", []
    for name, path, *_ in entries:
        offsets.append((table_end + len(texts), table_end + len(texts) + len(name) + 1))
        texts += f"{name}\0{path}\0".encode()
    rows = b"".join(
        struct.pack("<iIIIQ", kind, *place, 0, features)
        for (_, _, kind, features), place in zip(entries, offsets, strict=True)
    )
    extension = 0
    if subfolders:
        texts += bytes(-(table_end + len(texts)) % 4)
        extension = table_end + len(texts)
        numbers_at = extension + 8 + 16
        names_at = numbers_at + 4 * len(subfolders)
        places, names = [], b""
        for subfolder in subfolders:
            places.append(names_at + len(names))
            names += subfolder.encode() + b"\0"
        texts += struct.pack("<IIIIII", 0xEAA42174, 1, 1, 0, numbers_at, 4 * len(subfolders))
        texts += struct.pack(f"<{len(places)}I", *places) + names
    return (
        struct.pack("<20sIIB3xI12x", b"glibc-ld.so.cache1.1", len(entries), len(texts), flags, extension) + rows + texts
    )


def test_the_libraries_in_the_cache_of_ld_so() -> None:
    content = cache(("libz.so.1", "/lib/libz.so.1", X86_64, 0), ("libz.so.1", "/arm/libz.so.1", AARCH64, 0),
                    ("liba.so", "/first/liba.so", X86_64, 0), ("liba.so", "/second/liba.so", X86_64, 0))  # fmt: skip
    read = read_cache(content, Machine.X86_64, ())
    assert dict(read) == {b"libz.so.1": b"/lib/libz.so.1", b"liba.so": b"/first/liba.so"}, "the first of a name counts"
    assert dict(read_cache(content, Machine.AARCH64, ())) == {b"libz.so.1": b"/arm/libz.so.1"}
    # Behind a cache of the old format, offsets are from its own beginning.
    assert read_cache(b"ld.so-1.7.0" + bytes(30) + content, Machine.X86_64, ()) == read
    for damaged in (
        b"",
        content[:60],
        content[:-20],
        cache(("a", "b", X86_64, 0), flags=3),
        cache(("a", "b", X86_64, 0), flags=1),
    ):
        assert len(read_cache(damaged, Machine.X86_64, ())) == 0
    assert dict(read_cache(cache(("a", "/b", X86_64, 0), flags=0), Machine.X86_64, ())) == {b"a": b"/b"}


def test_subfolders_in_the_cache_for_better_processors() -> None:
    """glibc 2.33: bit 62 of the features says that the lower half is the number of a subfolder."""
    inside = 1 << 62
    plain, v2, v3 = (("a", "/a", X86_64, 0), ("a", "/v2/a", X86_64, inside), ("a", "/v3/a", X86_64, inside | 1))
    names = ("x86-64-v2", "x86-64-v3")
    for order in ((plain, v2, v3), (v3, v2, plain), (v2, plain, v3)):
        content = cache(*order, subfolders=names)
        assert read_cache(content, Machine.X86_64, ("x86-64-v3", "x86-64-v2")) == {b"a": b"/v3/a"}
        assert read_cache(content, Machine.X86_64, ("x86-64-v2",)) == {b"a": b"/v2/a"}
        assert read_cache(content, Machine.X86_64, ()) == {b"a": b"/a"}
    # A level of ISA in the features stays within ten bits; other bits are of kinds that glibc 2.37 has given up.
    assert read_cache(cache(("a", "/a", X86_64, inside | 3 << 32), subfolders=names), Machine.X86_64, names) == {
        b"a": b"/a"
    }
    # None of these is one that counts, and the others still do; the number of a subfolder may be beyond the last one.
    for features in (1 << 60, inside | 7, inside | len(names), 5):
        content = cache(("a", "/other/a", X86_64, features), plain, subfolders=names)
        assert read_cache(content, Machine.X86_64, names) == {b"a": b"/a"}


def test_targets_of_a_survey(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tmp_path / "wheels"
    for name in ("b-1-py3-none-any.whl", "deep/a-1-py3-none-any.whl", "deep/a-1-0.conda", "notes.txt"):
        (wheels / name).parent.mkdir(parents=True, exist_ok=True)
        (wheels / name).touch()
    (tmp_path / "empty").mkdir()
    listed = tmp_path / "list.txt"
    listed.write_text(f"# a comment\n\n  vision==1.0  \n{wheels}\nvision==1.0\n", "utf-8")
    found = [str(wheels / name) for name in ("b-1-py3-none-any.whl", "deep/a-1-0.conda", "deep/a-1-py3-none-any.whl")]
    assert list(target_names([str(wheels)])) == found
    assert list(target_names([str(listed), "other"])) == ["vision==1.0", *found, "other"]
    assert list(target_names([str(tmp_path / "empty"), "absent.txt"])) == [str(tmp_path / "empty"), "absent.txt"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("a\n#b\nc\n"))
    assert list(target_names(["-", "a"])) == ["a", "c"]
    assert list(target_names(["https://user:secret@index.example/a.whl"])) == ["https://index.example/a.whl"]
    listed.write_bytes(b"\xff")
    with pytest.raises(InputError, match="the list of targets cannot be read: it is not text in UTF-8"):
        list(target_names([str(listed)]))


@pytest.mark.parametrize(
    ("name", "glibc"),
    [("manylinux_2_17", "2.17"), ("manylinux2014", "2.17"), ("manylinux_2_28", "2.28"), ("manylinux_2_39", "2.39")],
)
def test_systems_by_the_name_of_a_tag(name: str, glibc: str) -> None:
    system = target_system(name)
    assert (system.newest["GLIBC"], system.path_of("libc.so.6")) == (glibc, "/lib64/libc.so.6")
    number = int(glibc.partition(".")[2])
    assert system.lacks("libc.so.6", f"GLIBC_2.{number + 1}")
    assert not system.lacks("libc.so.6", f"GLIBC_2.{number}")
    assert system.lacks("libm.so.6", f"GLIBC_2.{number + 1}")
    assert not system.lacks("libfoo.so.1", f"GLIBC_2.{number + 1}"), "whose it is, is not known"
    assert not system.lacks("libc.so.6", "PRIVATE")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("manylinux_2_16", "is neither a system"), ("manylinux_2_40", "is neither a system"),
        ("", "is neither a system"),
        ("ubuntu99", "is neither a system"), ("musllinux_1_2", "has musl instead of glibc"),
    ],
)  # fmt: skip
def test_names_of_no_system(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        target_system(name)


def test_the_system_in_a_folder(tmp_path: Path) -> None:
    versions = ("GLIBC_2.2.5", "GLIBC_2.10", "GLIBC_2.9", "GLIBC_PRIVATE")
    libc = Elf(soname="libc.so.6", defined=tuple(Defined(name=f"f{n}", version=v) for n, v in enumerate(versions)))
    libc.write(tmp_path / "usr/lib64/libc.so.6")
    system = target_system(str(tmp_path))
    assert system == LinuxSystem(name=str(tmp_path), folder="/lib64", newest={"GLIBC": "2.10"}, folders=system.folders)
    assert str(tmp_path / "usr/lib64") in system.folders
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/ld-musl-x86_64.so.1").touch()
    with pytest.raises(InputError, match="has musl instead of glibc"):
        target_system(str(tmp_path))
    (tmp_path / "lib/ld-musl-x86_64.so.1").unlink()
    (tmp_path / "usr/lib64/libc.so.6").unlink()
    with pytest.raises(InputError, match=r"has no libc\.so\.6 of glibc"):
        target_system(str(tmp_path))


def says(monkeypatch: pytest.MonkeyPatch, outputs: dict[str, str | Exception], code: int = 0) -> None:
    """Have programs print some lines, by their names."""

    def run(command: Any, **_: Any) -> subprocess.CompletedProcess[str]:
        said = outputs.get(command[0], OSError())
        if isinstance(said, Exception):
            raise said
        return subprocess.CompletedProcess(command, code, said, "")

    monkeypatch.setattr(programs, "run_program", run)


def test_the_gpus_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nvidia = "NVIDIA H100, 9.0, 570.26\nNVIDIA H100, 9.0, 570.26\nno devices\n"
    says(monkeypatch, {"nvidia-smi": nvidia, "rocm_agent_enumerator": "gfx000\ngfx942\ngfx942\n\n"})
    assert native_gpus() == [NativeGpu("NVIDIA H100", "9.0", "570.26"), NativeGpu("gfx942", "gfx942", None)]
    says(monkeypatch, {"nvidia-smi": nvidia}, code=9)
    assert native_gpus() == []
    says(monkeypatch, {"nvidia-smi": subprocess.TimeoutExpired("x", 1)})
    assert native_gpus() == []
    monkeypatch.setattr(gpu_tools, "_DRIVER_FILE", tmp_path / "version")
    assert native_driver() is None
    for content, driver in (("570.26\n", "570.26"), ("", None), ("\xff", None)):
        (tmp_path / "version").write_bytes(content.encode("latin-1"))
        assert native_driver() == driver


LOG = "  Could not fetch URL {}: {} - skipping\n"


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ("There was a problem: too many 429 error responses", "the server answers 429"),
        ("403 Client Error: Forbidden", "the server answers 403"),
        ("connection error: Read timed out.", "the server did not answer in time"),
        ("connection error: [Errno 111] Connection refused')", "connection refused"),
        ("something else", "something else"),
    ],
)
def test_why_pip_could_not_read_an_index(why: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "pip.log").write_text(LOG.format("https://user:secret@index.example/simple/x/", why), "utf-8")
    assert explain_unfetched(tmp_path / "pip.log") == f"index.example/simple/x/: {said}"


def test_an_index_without_the_package_is_no_failure(tmp_path: Path) -> None:
    text = LOG.format("https://a.example/simple/x/", "404 Client Error: Not Found for url: https://a.example/simple/x/")
    (tmp_path / "pip.log").write_text(text, "utf-8")
    assert explain_unfetched(tmp_path / "pip.log") is None
    refused = LOG.format("https://b.example/simple/x/", "403 Client Error: Forbidden")
    (tmp_path / "pip.log").write_text(text + refused, "utf-8")
    assert explain_unfetched(tmp_path / "pip.log") == "https://b.example/simple/x/: the server answers 403"


def test_other_reasons_in_the_log_of_pip(tmp_path: Path) -> None:
    assert explain_unfetched(tmp_path / "absent.log") is None
    assert explain_unfetched(tmp_path / "absent.log", "MemoryError\n") == "pip ran out of memory as it read the index"
    errors = {
        "ERROR: a\nERROR: b\n": "b", "words\n\nlast\n": "last", "": "pip gave no reason",
        "ERROR: Exception:\nTraceback\nValueError: x\n": "ValueError: x", "ERROR: a\nWARNING: b\n": "a",
    }  # fmt: skip
    assert {text: pip_error(text) for text in errors} == errors


@pytest.mark.parametrize(
    ("code", "stderr", "kind", "said"),
    [
        (-9, "", InputError, "pip was ended by SIGKILL: the system has no more memory for what it reads"),
        (-15, "", InputError, "pip was ended by SIGTERM$"),
        (1, "ERROR: No matching distribution", NoWheelError, "could not download a wheel: No matching distribution"),
        (1, "OSError: [Errno 28] No space left\nArguments: ('/tmp/x',)\n", InputError, "no space left on device$"),
        (0, "", NoWheelError, "pip gave no reason"),
    ],
)
def test_a_wheel_that_pip_does_not_get(
    code: int, stderr: str, kind: type[InputError], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "pip_command", lambda _: ["pip"])
    done = subprocess.CompletedProcess(["pip"], code, "", stderr)
    monkeypatch.setattr(programs, "run_program", lambda *_, **__: done)
    with pytest.raises(kind) as caught:
        fetch_wheels(["a==1", "b==2"], tmp_path, None)
    assert caught.value.subject == "a==1, b==2"
    assert (said.removesuffix("$") in caught.value.problem, type(caught.value)) == (True, kind)
    assert not said.endswith("$") or caught.value.problem.endswith(said[:-1])


@pytest.mark.parametrize(
    ("offered", "fix"),
    [
        ("none", "check the name, and that there is a wheel for this Python and machine"),
        ("1.0, 1.1, 2.0, 2.1", "the newest with a wheel for this Python and machine: 1.1, 2.0, 2.1"),
    ],
)
def test_what_to_check_if_pip_finds_no_wheel(
    offered: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "pip_command", lambda _: ["pip"])
    said = f"ERROR: Could not find a version that satisfies the requirement a==9 (from versions: {offered})\n"
    done = subprocess.CompletedProcess(["pip"], 1, "", f"{said}ERROR: No matching distribution found for a==9\n")
    monkeypatch.setattr(programs, "run_program", lambda *_, **__: done)
    with pytest.raises(NoWheelError) as caught:
        fetch_wheels(["a==9"], tmp_path, None)
    assert (caught.value.problem, caught.value.fix) == (
        "could not download a wheel: No matching distribution found for a==9",
        fix,
    )


def test_wheels_that_pip_gets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "before-1-py3-none-any.whl").touch()

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[command.index("--dest") + 1] == str(tmp_path)
        assert command[-3:] == ["--pre", "b==2", "a==1"]
        for name in ("b-2-py3-none-any.whl", "a-1-py3-none-any.whl", "notes"):
            (tmp_path / name).touch()
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(packages, "pip_command", lambda _: ["pip"])
    monkeypatch.setattr(programs, "run_program", run)
    assert [path.name for path in fetch_wheels(["b==2", "a==1"], tmp_path, None, ["--pre"])] == [
        "a-1-py3-none-any.whl", "b-2-py3-none-any.whl",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "has"),
    [
        ("--index-url https://user:secret@index.example/", True), ("-i https://u@index.example/", True),
        ("--extra-index-url=https://${TOKEN}/simple", True), ("--index-url https://index.example/", False),
        ("vision @ https://u@index.example/v.whl", False), ("# -i https://u@index.example/", False), ("", False),
    ],
)  # fmt: skip
def test_credentials_in_a_file_of_requirements(line: str, tmp_path: Path, *, has: bool) -> None:
    path, outer = tmp_path / "inner.txt", tmp_path / "outer.txt"
    path.write_text(f"torch\n{line}\n-r outer.txt\n", "utf-8")
    outer.write_text("-r inner.txt\n-c absent.txt\n", "utf-8")
    assert (has_password(path), has_password(outer), has_password(tmp_path / "absent.txt")) == (has, has, False)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("-i https://i", True), ("--extra-index-url=https://i", True), ("-f wheels", True), ("--no-index", True),
        ("--index nightly=https://i", True), ("torch --hash=sha256:00", False), ("-e .", False), ("", False),
    ],
)  # fmt: skip
def test_where_packages_come_from_in_a_file_of_requirements(line: str, tmp_path: Path, *, names: bool) -> None:
    path, outer = tmp_path / "inner.txt", tmp_path / "outer.txt"
    path.write_text(f"torch\n{line}\n", "utf-8")
    outer.write_text("-r inner.txt\n", "utf-8")
    assert (names_index(path), names_index(outer)) == (names, names)


def test_requirements_and_constraints_in_files(tmp_path: Path) -> None:
    main = tmp_path / "main.txt"
    (tmp_path / "c.txt").write_text("torch<2.9\n-r deep.txt\n", "utf-8")
    (tmp_path / "deep.txt").write_text("numpy\n./wheel.whl\n", "utf-8")
    main.write_text(
        "a==1 --hash=sha256:0\nb \\\n  >=2\nold; python_version < '3'\n--pre\n--constraint=c.txt\n", "utf-8"
    )
    read = read_requirements(main, by_name_only=False)
    assert [(str(line.requirement), line.constraint) for line in read] == [
        ("a==1", False), ("b>=2", False), ("torch<2.9", True), ("numpy", True),
    ]  # fmt: skip
    with pytest.raises(InputError, match=r"deep\.txt:2: is not a requirement by name"):
        read_requirements(main)
    assert all(
        line.constraint for line in read_requirements(tmp_path / "deep.txt", constraint=True, by_name_only=False)
    )


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("aten::add.Tensor  # why", ("aten::add.Tensor",)), ("aten::add.default", ("aten::add",)),
        ("aten::add", ("aten::add",)),
        ("# nothing", ()), ("", ()), ("add", None), ("aten::" + "a" * 10_000, None),
    ],
)  # fmt: skip
def test_a_list_of_operators(line: str, names: tuple[str, ...] | None, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"\n{line}\n", "utf-8")
    if names is not None:
        assert read_workload(path) == names
    else:
        with pytest.raises(InputError, match=r"list\.txt:2: is not an operator"):
            read_workload(path)
