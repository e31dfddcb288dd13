"""Input that broke something once: damaged, hostile, or only unusual."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import click.testing
import pytest
from packaging.requirements import Requirement

import abiscan
from abiscan.binary.elf import ElfFile, Machine
from abiscan.binary.mangling import demangle, same_name_prefixes
from abiscan.cli import main
from abiscan.emulation import recover
from abiscan.errors import InputError
from abiscan.index.client import Index, Settings
from abiscan.index.system import System
from abiscan.inputs.files import DiskFile, Wheel, random_access
from abiscan.inputs.interpreter import PythonTag, ask_interpreter, of_torch
from abiscan.inputs.session import Session
from abiscan.linkage.model import Process
from abiscan.linkage.resolve import relocation_order
from abiscan.linkage.scope import Loader, SearchPath
from tests.clock import grows_linearly
from tests.elf_builder import Elf, uses
from tests.fakes import SAMPLES, extension, package_wheel, torch_libraries, torch_package, wheel
from tests.index_server import serving
from tests.world import ObjectsByPath, shared_object

pytestmark = pytest.mark.hostile


def order(needed: dict[str, tuple[str, ...]]) -> list[str]:
    objects = {name: shared_object(needed=names) for name, names in needed.items()}
    loader = Loader(ObjectsByPath(objects), SearchPath(siblings={name: name for name in objects}), Machine.X86_64)
    return [m.name for m in relocation_order(loader.open(Process(has_python=True), "ext"))]


def test_relocation_order_when_something_needs_the_extension() -> None:
    # glibc 2.36, LD_DEBUG=reloc, of such libraries
    assert order({"ext": ("d",), "d": ("c",), "c": ("f", "ext", "e"), "f": (), "e": ("c",)}) == [
        "f",
        "c",
        "e",
        "d",
        "ext",
    ]


def test_rpath_of_the_program_counts_for_everybody() -> None:
    # glibc, _dl_map_object: "if (!did_main_map && main_map != NULL && main_map != loader)"; seen with gcc
    objects = {
        "/env/bin/python": shared_object(rpath=["$ORIGIN/../lib"], executable=True),
        "/env/lib/libstdc++.so.6": shared_object(),
        "/lib/libstdc++.so.6": shared_object(),
        "/x/ext.so": shared_object(needed=["libstdc++.so.6"]),
    }
    loader = Loader(ObjectsByPath(objects), SearchPath(system=("/lib",)), Machine.X86_64)
    process = loader.start_process(("/env/bin/python",), global_libraries=(), libraries=())
    assert [m.path for m in loader.open(process, "/x/ext.so").modules] == ["/x/ext.so", "/env/lib/libstdc++.so.6"]


def test_damaged_deflate_stream(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x.whl", {"b.so": extension().build()})
    data = bytearray(path.read_bytes())
    for at in range(60, 100):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match="cannot be unpacked"):
        Wheel(path).find_member("b.so").open_elf()


def test_a_length_of_thousands_of_digits() -> None:
    assert same_name_prefixes("_ZN2at" + "9" * 5_000 + "(x)") == ()


def test_the_last_character_of_unicode(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    big = dataclasses.replace(torch_libraries()["libtorch_cpu.so"], size=5 << 20)
    big.write(package / "lib" / "libtorch_cpu.so")
    path = extension(undefined=uses("_ZN2at1\U0010ffff(x)"), runpath=str(package / "lib")).write(tmp_path / "u.so")
    for _ in range(2):  # the second time from the store
        result = click.testing.CliRunner().invoke(main, ["check", str(path), "--torch", str(package)])
        assert isinstance(result.exception, SystemExit)


def test_a_name_that_explodes() -> None:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def sub(i: int) -> str:
        return "S_" if i == 0 else f"S{digits[(i - 1) // 36] if i > 36 else ''}{digits[(i - 1) % 36]}_"

    name = "_ZN2at1fE1a1pIS0_S0_E" + "".join(f"{sub(2)}I{sub(i)}{sub(i)}E" for i in range(3, 43))
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        f"from abiscan.binary.mangling import demangle; demangle({name!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=5)


def test_names_that_are_not_utf8() -> None:
    facts = ElfFile.from_bytes(Elf(needed=("caf\udce9.so",), soname="caf\udce9.so").build(), "x").facts()
    assert (facts.needed, facts.soname) == (("caf\\xe9.so",), "caf\\xe9.so")  # as symbol names


def test_output_of_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    path = os.fsencode(tmp_path) + b"/caf\xe9.so"
    Path(os.fsdecode(path)).write_bytes(extension(runpath=str(package / "lib")).build())
    words: list[str | bytes] = [sys.executable, "-m", "abiscan", "check", path]
    words += ["--torch", str(package), "--output", str(tmp_path / "o.txt")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, "UnicodeEncodeError" in done.stderr) == (0, False)


def test_an_exclamation_mark_in_a_folder(tmp_path: Path) -> None:
    package = torch_package(tmp_path / "site")
    folder = tmp_path / "a!b"
    folder.mkdir()
    (folder / "cut.so").write_bytes(extension().build()[:200])
    words = ["check", str(folder), "--torch", str(package), "--format", "json"]
    document = json.loads(click.testing.CliRunner().invoke(main, words).stdout)
    assert document["results"][0]["path"] == "cut.so"  # is "b/cut.so"


def test_a_program_that_answers_other_json(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 5\n")
    python.chmod(0o755)
    with pytest.raises(InputError):
        ask_interpreter(str(python))


@pytest.mark.skipif(not Path("/bin/python3.11").is_file(), reason="needs a Python of the system")
def test_a_torch_in_any_folder_is_not_that_of_the_system(tmp_path: Path) -> None:
    found = of_torch(tmp_path / "torch", PythonTag(major=3, minor=11))
    assert found is not None
    assert found.executable != Path("/usr/bin/python3.11")


def test_nested_default_allocators() -> None:
    assert demangle("_Z1fSt6vectorIS_IiSaIiEESaIS1_EE") == "f(std::vector<std::vector<int>>)"


def test_a_gap_belongs_to_its_own_target(tmp_path: Path) -> None:
    package = torch_package(tmp_path / "site")
    first = extension(needed=("libtorch_cpu.so", "libside.so"), runpath="$ORIGIN").write(tmp_path / "x" / "_C.so")
    (tmp_path / "x" / "libside.so").write_bytes(extension().build()[:200])
    second = extension().write(tmp_path / "y" / "_C.so")
    words = ["check", str(first), str(second), "--torch", str(package), "--format", "json"]
    results = json.loads(click.testing.CliRunner().invoke(main, words).stdout)["results"]
    assert [gap for gap in results[0]["gaps"] if gap["stage"] == "elf"]
    assert [gap for gap in results[1]["gaps"] if gap["stage"] == "elf"] == []


def run(*words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, words)


DEEP = "[" * 100_000


def test_a_baseline_nested_too_deep(tmp_path: Path) -> None:
    (tmp_path / "baseline.json").write_text(DEEP)
    sample = str(SAMPLES / "loads" / "loads.so")
    result = run("check", sample, "--torch", "2.13.0", "--baseline", str(tmp_path / "baseline.json"))
    assert (result.exit_code, "not JSON" in result.stderr) == (2, True)


def test_a_configuration_nested_too_deep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pyproject.toml").write_text(f"x = {DEEP}")
    monkeypatch.chdir(tmp_path)
    result = run("check", str(SAMPLES / "loads" / "loads.so"), "--torch", "2.13.0")
    assert (result.exit_code, "not TOML" in result.stderr) == (2, True)


def test_damage_in_the_code_of_a_wheel_does_not_stop_coverage(tmp_path: Path) -> None:
    backend = (SAMPLES / "coverage" / "backend.so").read_bytes()
    path = tmp_path / "x-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/_C.so", backend)
        archive.writestr("x/__init__.py", b"some text that is found again")
    path.write_bytes(path.read_bytes().replace(b"some text", b"same text"))  # the checksum is wrong
    result = run("coverage", str(path), "--torch", "2.13.0", "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(result.stdout)["paths"] == ["x/_C.so"]


def test_coverage_of_what_cannot_be_read(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x-1.0-py3-none-linux_x86_64.whl", {"x/_C.so": extension().build()[:100]})
    result = run("coverage", str(path), "--torch", "2.13.0")
    assert (result.exit_code, "_C.so: truncated" in result.stderr) == (2, True)


def test_a_damaged_lzma_stream(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("b.so", extension().build())
    data = bytearray(path.read_bytes())
    for at in range(60, 100):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match="cannot be unpacked"):
        Wheel(path).find_member("b.so").open_elf()


def test_a_member_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.open(zipfile.ZipInfo(""), "w").close()
        archive.writestr("b.so", b"")
    assert list(Wheel(path).list_members()) == ["b.so"]


def test_a_text_that_unpacks_to_too_much(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x.whl", {"x-1.0.dist-info/METADATA": bytes(33 << 20)})
    with pytest.raises(InputError, match="claims to be a text of 33 MiB"):
        Wheel(path).read_text("x-1.0.dist-info/METADATA")


def test_a_text_that_never_ends(tmp_path: Path) -> None:
    (tmp_path / "x-1.0.dist-info").mkdir()
    (tmp_path / "x-1.0.dist-info" / "METADATA").symlink_to("/dev/zero")
    extension().write(tmp_path / "x.so")
    assert run("check", str(tmp_path), "--torch", "2.13.0").exit_code == 0


@pytest.mark.parametrize("marker", ["sys_platform ~= 'x'", "python_version >= 'x' and extra ~= 'y'"])
def test_a_marker_without_a_meaning(tmp_path: Path, marker: str) -> None:
    metadata = {"Requires-Dist": f"torch==2.5.1; {marker}"}
    path = package_wheel(tmp_path, "x", {"x/_C.so": extension()}, metadata=metadata)
    assert run("check", str(path), "--torch", "2.13.0").exit_code == 0


def test_a_torch_that_knows_no_dispatch_keys(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    result = run("check", str(SAMPLES / "loads" / "loads.so"), "--torch", str(package))
    assert result.exit_code == 1  # it has none of the symbols
    assert "internal error" not in result.stderr


def test_a_torch_whose_hash_table_is_damaged(tmp_path: Path) -> None:
    package = torch_package(tmp_path)
    data = bytearray((SAMPLES / "registrations" / "backend.so").read_bytes())
    at = next(at for at in ElfFile.from_bytes(bytes(data), "x").entries if at[0] == 0x6FFF_FEF5)[1]  # DT_GNU_HASH
    buckets, first = struct.unpack_from("<2I", data, at)
    struct.pack_into("<I", data, at + 8, 1 << 20)  # words of the filter: the buckets would be far beyond the table
    assert (buckets > 0, first > 0) == (True, True)
    (package / "lib" / "libtorch_cpu.so").write_bytes(data)
    result = run("ops", "--torch", str(package))
    assert (result.exit_code, "damaged" in result.stderr) == (2, True)


def test_version_needs_inside_each_other() -> None:
    # Each entry is one of a file and, seen from the one before, one of a version: n entries are read n * n times.
    elf = Elf(version_needs=(("libc.so.6", "GLIBC_2.14", False),), size=2 << 20)
    data = bytearray(elf.build())
    entries = dict(ElfFile.from_bytes(bytes(data), "x").entries)
    row = struct.pack("<HHIII", 1, 0xFFFF, 1, 16, 16)
    place = 1 << 20
    data[place:] = row * ((len(data) - place) // len(row))
    dynamic = data.find(struct.pack("<QQ", 0x6FFF_FFFE, entries[0x6FFF_FFFE]))  # DT_VERNEED
    struct.pack_into("<QQ", data, dynamic, 0x6FFF_FFFE, place)
    with pytest.raises(InputError, match="version needs overlap"):
        ElfFile.from_bytes(bytes(data), "x").facts()


def test_bytes_beyond_the_end_are_none(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"0123456789")
    with random_access(DiskFile(tmp_path / "x")) as read:
        assert (read(8, 100), read(10, 1), read(2**64 - 1, 4), read(4, 2**63)) == (b"89", b"", b"", b"456789")


LOAD = "torch.ops.load_library('none.so') if not torch else None"


@pytest.mark.parametrize(
    "code",
    ["return 1", "if True:\n    break", "continue", "class C:\n    return", "try:\n    return\nfinally:\n    pass"],
)
def test_a_statement_outside_of_what_it_ends(tmp_path: Path, code: str) -> None:
    path = package_wheel(
        tmp_path, "x", {"x/_C.so": extension()}, files={"x/__init__.py": f"import torch\n{LOAD}\n{code}\n"}
    )
    result = run("check", str(path), "--torch", "2.13.0", "--format", "json")
    package = json.loads(result.stdout)["packages"][0]
    assert "internal error" not in result.stderr  # Python says: SyntaxError
    assert "outside a function or loop" in str(package["gaps"])


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        ("text/html", b"<!DOCTYPE html><html>\xff"),
        ("application/vnd.pypi.simple.v1+json", b"{"),
        ("application/vnd.pypi.simple.v1+json", b"[]"),
        ("application/vnd.pypi.simple.v1+json", b'{"files": [{"url": 5}]}'),
        ("application/vnd.pypi.simple.v1+json", b"[" * 100_000),
    ],
)
def test_a_page_of_an_index_that_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, page: bytes
) -> None:
    with serving(tmp_path) as server:
        monkeypatch.setattr(server, "page", lambda _: (kind, page))
        index = Index(Settings(index_urls=(server.url,)), System.of((3, 11), "linux_x86_64"), tmp_path / "cache")
        with pytest.raises(InputError, match="cannot be read"):
            index.candidates(Requirement("x"))


def test_an_index_that_names_a_wheel_by_what_is_no_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path) as server:
        file = {"url": "x\x00/x-1.0-py3-none-any.whl", "filename": "x-1.0-py3-none-any.whl", "hashes": {}}
        page = json.dumps({"meta": {"api-version": "1.0"}, "name": "x", "files": [file]}).encode()
        monkeypatch.setattr(server, "page", lambda _: ("application/vnd.pypi.simple.v1+json", page))
        index = Index(Settings(index_urls=(server.url,)), System.of((3, 11), "linux_x86_64"), tmp_path / "cache")
        (candidate,) = index.candidates(Requirement("x"))
        with pytest.raises(InputError, match="is not a URL"):
            index.requirements(candidate)


WRONG = ({"hashes": {"sha256": ["0"]}}, {"hashes": "0"}, {"requires-python": [">=3"]}, {"requires-python": 3})


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_a_file_that_an_index_describes_wrongly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, object]
) -> None:
    with serving(tmp_path) as server:
        files = [
            {"url": f"x-{version}-py3-none-any.whl", "filename": f"x-{version}-py3-none-any.whl", "hashes": {}, **more}
            for version, more in (("1.0", {}), ("2.0", wrong))
        ]
        page = json.dumps({"meta": {"api-version": "1.0"}, "name": "x", "files": files}).encode()
        monkeypatch.setattr(server, "page", lambda _: ("application/vnd.pypi.simple.v1+json", page))
        index = Index(Settings(index_urls=(server.url,)), System.of((3, 11), "linux_x86_64"), tmp_path / "cache")
        newer, older = index.candidates(Requirement("x"))
        assert newer.unfit == "is described wrongly by the index"
        assert (older.unfit, older.wheel) == ("", "x-1.0-py3-none-any.whl")


def test_an_index_that_names_a_file_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (
        b'<!DOCTYPE html><html><base href="file:///"><a href="none/x-1.0-py3-none-any.whl">x-1.0-py3-none-any.whl</a>'
    )
    with serving(tmp_path) as server:
        monkeypatch.setattr(server, "page", lambda _: ("text/html", page))
        index = Index(Settings(index_urls=(server.url,)), System.of((3, 11), "linux_x86_64"), tmp_path / "cache")
        (candidate,) = index.candidates(Requirement("x"))
        assert candidate.unfit == "is described wrongly by the index"


def test_a_range_whose_length_is_no_number_of_c(tmp_path: Path) -> None:
    code = "".join(
        f"try:\n    {statement}\nexcept OverflowError:\n    {handler}\n"
        for statement, handler in (
            ("list(range(10**20))", "pass"),
            ("' '.join(range(10**20))", "pass"),
            ("len(range(10**20))", "from . import _C"),
        )
    )
    path = package_wheel(tmp_path, "x", {"x/_C.so": extension()}, files={"x/__init__.py": code})
    result = run("check", str(path), "--torch", "2.13.0", "--format", "json")
    assert "internal error" not in result.stderr
    (used,) = json.loads(result.stdout)["packages"][0]["libraries"]
    assert used["how"] == "import"


def test_the_time_for_modules_and_libraries_grows_with_their_number(tmp_path: Path) -> None:
    def check(count: int) -> Callable[[], object]:
        modules = {f"x/m{number}.py": b"" for number in range(count)}
        libraries = {f"x/e{number}.so": b"" for number in range(count)}
        own = {"x/__init__.py": b"", "x/_C.so": extension().build()}
        path = wheel(tmp_path / f"x-{count}-py3-none-any.whl", {**own, **modules, **libraries})
        return lambda: abiscan.check(path, "2.13.0", session=Session.of_user())

    check(10)()
    assert grows_linearly(check, 4_000)


FAR = ".rept 100; inc %rax; .endr; jmp again"
STUCK = {
    "wrmsr": "unknown instruction: wrmsr",  # icicle counts it, and does not get on
    "again: cpuid; jmp again": "limit of 50,000 instructions that the processor does not know",
    f"again: pclmulqdq $0, %xmm1, %xmm1; {FAR}": "limit of 50,000 instructions and pages",
}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
@pytest.mark.parametrize("code", STUCK)
def test_instructions_that_take_longer_than_others(tmp_path: Path, code: str) -> None:
    body = "\n".join(code.split("; "))
    source = f'.section .init_array,"aw"\n.quad bad\n.text\n.type bad, @function\nbad:\n{body}\nret\n'
    path = tmp_path / "x.so"
    command = ["gcc", "-shared", "-nostdlib", "-x", "assembler", "-", "-o", str(path)]
    subprocess.run(command, input=source, text=True, check=True)
    file = ElfFile.open(path)
    before = time.process_time()
    (gap,) = recover(file, file.facts()).gaps
    assert time.process_time() - before < 10
    assert gap.reason.startswith(STUCK[code])
