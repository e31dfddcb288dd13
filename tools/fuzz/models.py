"""Saved models: real ones of several releases, and packages of AOTInductor, with members that are damaged."""

from __future__ import annotations

import functools
import io
import json
import warnings
import zipfile
from pathlib import Path
from random import Random
from typing import Final

from tools.fuzz import elf
from tools.fuzz.model import ROOT, TORCH, Case, damaged
from tools.fuzz.texts import changed

_MODELS: Final = ROOT / "tests" / "oracle" / "models.zip"
_BACKEND: Final = str(ROOT / "sample_binaries" / "registrations" / "backend.so")
_LONGEST: Final = 200_000  # of a member that is mutated: others are compiled code that nobody parses
_NODES: Final = {"nodes": [{"node": {"target": "torch.ops.x.y.default"}}, {"node": {"target": "aten::add.Tensor"}}]}
_PICKLED: Final = (b"(", b"\x85", b"h\0", b"R", b"c", b"Q", b"\x8d" + b"\xff" * 8, b"N", b"\x94", b"0", b".")
"""Opcodes: marks, tuples, the memo, calls, names, persistent ids, a text of any length."""


@functools.cache
def _members(name: str) -> dict[str, bytes] | bytes:
    """Return the members of a model, or the bytes of one that is no archive."""
    with zipfile.ZipFile(_MODELS) as models:
        content = models.read(name)
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    return {name: content for name, content in members.items() if len(content) <= _LONGEST}


@functools.cache
def _names() -> list[str]:
    with zipfile.ZipFile(_MODELS) as models:
        return models.namelist()


def case(random: Random, folder: Path) -> Case:
    """A model with damaged members, and a command that reads it."""
    name = random.choice(_names())
    file = folder / f"m{Path(name).suffix}"
    members = _members(name)
    if isinstance(members, bytes):
        file.write_bytes(damaged(members, random))
    else:
        file.write_bytes(_archive(members, random))
    words = random.choice((
        ["check", str(file), *TORCH, "--format", "json"], ["check", str(file), "--torch", "2.7.1"],
        ["ops", str(file), "--format", "json"], ["matrix", str(file), *TORCH, "--torch", "2.8.0"],
        ["coverage", _BACKEND, *TORCH, "--backend", "PrivateUse1", "--workload", str(file)],
    ))  # fmt: skip
    return Case(words=words)


def _archive(members: dict[str, bytes], random: Random) -> bytes:
    members = dict(members)
    if random.random() < 0.3:
        _add_library(members, random)
    for name in random.sample(list(members), min(len(members), random.choice((1, 1, 2)))):
        if random.random() < 0.1:
            del members[name]
        else:
            members[name] = _mutated(name, members[name], random)
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", random.choice((0, 0, 8))) as archive:
        warnings.simplefilter("ignore")  # of duplicates
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)
        if random.random() < 0.05:
            name = random.choice(list(members) or ["x"])
            archive.writestr(name + random.choice(("", "x", ".py", ".so", "/", "/../x")), b"")
    data = stream.getvalue()
    return damaged(data, random, 3) if random.random() < 0.15 else data


def _add_library(members: dict[str, bytes], random: Random) -> None:
    """Add what AOTInductor compiles: a library, the nodes that it calls by name, its metadata."""
    root = next(iter(members), "m/").partition("/")[0]
    folder = f"{root}/data/aotinductor/model"
    library = random.choice(elf.samples()).read_bytes()
    members[f"{folder}/m.so"] = elf.mutated(library, random) if random.random() < 0.7 else library[:64]
    members[f"{folder}/m.json"] = json.dumps(_NODES).encode()
    members[f"{folder}/m_metadata.json"] = b'{"AOTI_DEVICE_KEY": "cpu", "AOTI_CPU_ISA": "avx2"}'
    members.setdefault(f"{root}/.data/version", b"6\n")


def _mutated(name: str, content: bytes, random: Random) -> bytes:
    if name.endswith(".json") and random.random() < 0.7:
        try:
            return json.dumps(changed(json.loads(content), random)).encode()
        except ValueError:  # it was mutated before
            return content
    if name.endswith(".pkl") and random.random() < 0.5:
        at = random.randrange(len(content) + 1)
        return content[:at] + random.choice(_PICKLED) * random.choice((1, 1, 3, 1_000)) + content[at:]
    return damaged(content, random)
