"""Input that broke something once: damaged, hostile, or only unusual."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import click.testing
import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.binary.mangling import demangle, same_name_prefixes
from abiscan.cli import main
from abiscan.errors import InputError
from abiscan.inputs.files import Wheel
from abiscan.inputs.interpreter import PythonTag, ask, of_torch
from abiscan.linkage.model import Process
from abiscan.linkage.resolve import relocation_order
from abiscan.linkage.scope import Loader, SearchPath
from tests.elf_builder import Elf, uses
from tests.fakes import extension, torch_libraries, torch_package, wheel
from tests.world import ObjectsByPath, shared_object


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
    process = loader.start(("/env/bin/python",), global_libraries=(), libraries=())
    assert [m.path for m in loader.open(process, "/x/ext.so").modules] == ["/x/ext.so", "/env/lib/libstdc++.so.6"]


def test_damaged_deflate_stream(tmp_path: Path) -> None:
    path = wheel(tmp_path / "x.whl", {"b.so": extension().build()})
    data = bytearray(path.read_bytes())
    for at in range(60, 100):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(InputError, match="cannot be unpacked"):
        Wheel(path).member("b.so").open()


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
        ask(str(python))


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
