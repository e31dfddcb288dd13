"""Where ``ld.so`` finds libraries: layouts made at random, opened by the ``ld.so`` of this machine and by the model.

``python -m tests.oracle.test_library_search [COUNT [SEED]]`` opens many, and after ``import torch`` if there is one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from abiscan.binary.elf import Machine
from abiscan.inputs import system
from abiscan.inputs.files import Files
from abiscan.linkage.host import Host
from abiscan.linkage.resolve import library_error, resolve_load
from abiscan.linkage.scope import Loader, SearchPath
from tests.elf_builder import EM_AARCH64, EM_X86_64
from tests.oracle.search_layouts import make_layout

pytestmark = pytest.mark.skipif(system.own_machine() is None, reason="needs Linux")

_CHILD: Final = """
import ctypes, json, os, sys
if sys.argv[1:]:
    import torch
class Info(ctypes.Structure):
    _fields_ = [("address", ctypes.c_void_p), ("name", ctypes.c_char_p)]
names = []
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Info), ctypes.c_size_t, ctypes.c_void_p)(
    lambda info, _size, _data: names.append(info.contents.name.decode()) or 0
)
for path in json.load(sys.stdin):
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_LOCAL)
            told = None
        except OSError as error:
            told = str(error)
        ctypes.CDLL(None).dl_iterate_phdr(callback, None)
        os.write(writing, json.dumps([told, names]).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as stream:
        print(stream.read() or '["killed", []]', flush=True)
    os.waitpid(child, 0)
"""


_OF_LAYOUT: Final = re.compile(r"(?:^|/)(?:x|libs\d+_.)\.so$")


class Outcome(NamedTuple):
    """How a load ends: what ``ld.so`` says, and by which paths it knows the libraries of the layout."""

    words: str | None
    opened: list[str]


def open_really(paths: Sequence[Path], folder: Path, *, torch: bool = False) -> Iterator[Outcome]:
    """Open each file in a process of its own, whose working directory is ``folder``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LD_")}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, *(["torch"] if torch else [])],
        input=json.dumps(list(map(str, paths))),
        env={**kept, "LC_ALL": "C", "LD_LIBRARY_PATH": _environment(folder)},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    for line in done.stdout.splitlines():
        words, names = json.loads(line)
        yield Outcome(words, [name for name in names if _OF_LAYOUT.search(name)] if words is None else [])


def _environment(folder: Path) -> str:
    return f"{folder}/env;rel/../envlink/../more:$ORIGIN/nothing:{folder}/file"


def open_in_model(path: Path, folder: Path) -> Outcome:
    """Do the same in the model; a library that is nowhere counts as an error."""
    machine = system.own_machine()
    assert machine is not None
    search = SearchPath(environment=tuple(re.split("[:;]", _environment(folder))), host=Host(machine))
    loader = Loader(Files(), search, machine)
    process = loader.start_process((os.path.realpath(sys.executable),), global_libraries=(), libraries=())
    opened = loader.open(process, str(path))
    if opened.missing:
        error = library_error(opened.missing[0])
        return Outcome(f"{error.object}: {error.message}" if error.object else error.message, [])
    error_or_none = resolve_load(process, opened).error
    if error_or_none:
        return Outcome(f"{error_or_none.object}: {error_or_none.message}", [])
    return Outcome(None, [module.called for module in opened.new if _OF_LAYOUT.search(module.called)])


def compare(folder: Path, numbers: Sequence[int], seed: int, *, torch: bool = False) -> list[str]:
    """Return a line for each layout in which model and reality differ."""
    machine = EM_X86_64 if system.own_machine() is Machine.X86_64 else EM_AARCH64
    for name in ("rel", "env", "d0", "elsewhere/inner", "elsewhere/more", "more"):
        (folder / name).mkdir(exist_ok=True, parents=True)
    (folder / "envlink").symlink_to("elsewhere/inner")
    layouts = [make_layout(folder, number, machine, seed) for number in numbers]
    real = open_really([layout.root for layout in layouts], folder, torch=torch)
    before = Path.cwd()
    os.chdir(folder)
    try:
        different = []
        for layout, outcome in zip(layouts, real, strict=True):
            words = outcome.words and re.sub(r"^[^:]*/([^/:]*: )", r"\1", outcome.words)
            modelled = open_in_model(layout.root, folder)
            if (words, sorted(outcome.opened)) != (modelled.words, sorted(modelled.opened)):
                different.append(f"{layout.root}: {words} {outcome.opened} != {modelled.words} {modelled.opened}")
    finally:
        os.chdir(before)
    return different


def test_random_layouts(tmp_path: Path) -> None:
    assert compare(tmp_path, range(60), seed=1) == []


if __name__ == "__main__":
    count, own_seed = (int(argument) for argument in (sys.argv[1:] + ["400", "0"][len(sys.argv) - 1 :]))
    scratch = Path(tempfile.mkdtemp(prefix="library-search-"))
    lines = compare(scratch, range(count), own_seed, torch=True)
    print(*lines, f"{count - len(lines)} of {count} equal, in {scratch}", sep="\n")
