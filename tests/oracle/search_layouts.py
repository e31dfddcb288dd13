"""Layouts of folders and libraries, made at random, for what ``ld.so`` looks at as it searches: each with one object
that is opened.

A layout has a few libraries, each in several places: folders, links to folders, folders for a processor. Some of the
files are no libraries, or libraries for other machines. Most places can be told apart by an undefined symbol, which
only the file there has.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tests.elf_builder import ET_REL, Elf, uses

NODEFLIB: Final = 0x800
_SUBFOLDERS: Final = (
    *("glibc-hwcaps/x86-64-v2", "glibc-hwcaps/x86-64-v3", "glibc-hwcaps/x86-64-v4", "glibc-hwcaps/x86-64-v9"),
    *("tls", "haswell", "x86_64", "avx512_1", "tls/haswell", "haswell/x86_64", "tls/x86_64", "x86_64/tls"),
)
_PATHS: Final = (
    *("$ORIGIN/d0", "$ORIGIN/d1", "${ORIGIN}/d2/inner", "$ORIGIN/link", "$ORIGIN/link/../d0", "$ORIGIN/link/.."),
    *("$ORIGIN/missing/../d0", "$ORIGIN/d1/../d0", "$ORIGIN/./d1/", "$ORIGIN//d0", "$ORIGIN", "$ORIGIN/.."),
    *("$ORIGINx/d0", "${ORIGIN/d0", "$ORIGIN_/d0", "$ORIGIN/$LIB", "$ORIGIN/$PLATFORM", "$ORIGIN/${PLATFORM}x"),
    *("$ORIGIN/$LIBRARY", "$ORIGIN/d1/../../{case}/d0", "{folder}/d1", "{folder}/d0/../link/../d0", "", "rel", "d0"),
    *("$ORIGIN/nothing", "$ORIGIN/d0/file/..", "$ORIGIN/file"),
)
FileKind = Literal[
    "library", "foreign", "other class", "text", "short", "empty", "folder", "object", "endian", "hanging"
]
_WRONG: Final[tuple[FileKind, ...]] = (
    *("foreign", "foreign", "foreign", "other class", "other class", "text", "short", "empty", "folder", "object"),
    *("endian", "hanging", "hanging"),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """A folder with files.

    :ivar root: the object that is opened
    """

    number: int
    root: Path


def make_layout(folder: Path, number: int, machine: int, seed: int = 0) -> Layout:
    """Write a layout to a folder, in a subfolder of its own.

    :param folder: whose subfolders ``rel`` and ``env`` are shared: a relative one, and one of LD_LIBRARY_PATH
    """
    return _Maker(folder, number, machine, seed).make()


class _Maker:
    def __init__(self, folder: Path, number: int, machine: int, seed: int) -> None:
        self.chance = random.Random(f"{seed} {number}")
        self.shared = folder
        self.folder = folder / f"case{number}"
        self.number = number
        self.machine = machine
        self.marks = 0
        self.names = [f"libs{number}_{letter}.so" for letter in "abc"[: self.chance.randint(1, 3)]]

    def make(self) -> Layout:
        chance = self.chance
        for name in ("d0", "d1", "d2/inner", "away/deep"):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "link").symlink_to(chance.choice(["d2/inner", "away/deep", "d1"]))
        (self.folder / "loop").symlink_to("d2")
        (self.folder / "file").write_text("no folder", encoding="utf-8")
        for name in self.names:
            for place in self._choose_places():
                self._write_file(place / name)
        root = self.folder / chance.choice(["x.so", "x.so", "d1/x.so", "link/x.so"])
        root.write_bytes(self._library(self.names[: chance.randint(1, 2)], marked=False))
        return Layout(self.number, root)

    def _choose_places(self) -> list[Path]:
        chance = self.chance
        places = [
            self.folder / chance.choice(["d0", "d1", "d2/inner", "link", "."]) for _ in range(chance.randint(1, 3))
        ]
        if chance.random() < 0.3:
            places.append(chance.choice(places) / chance.choice(_SUBFOLDERS))
        if chance.random() < 0.1:
            places.append(self.shared / chance.choice(["rel", "env", "more", "elsewhere/more"]))
        if chance.random() < 0.1:
            places.append(
                self.folder / chance.choice(["lib/x86_64-linux-gnu", "lib64", "haswell", "x86_64", "away", "d2"])
            )
        return places

    def _write_file(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.exists():
            return
        kind: FileKind = "library" if self.chance.random() < 0.75 else self.chance.choice(_WRONG)
        library = self._library([name for name in self.names if self.chance.random() < 0.35 and name != path.name])
        match kind:
            case "folder":
                path.mkdir()
            case "hanging":
                path.symlink_to("nothing.so")
            case "library" if self.chance.random() < 0.15:
                (path.parent / f"real_{path.name}").write_bytes(library)
                path.symlink_to(f"real_{path.name}")
            case _:
                path.write_bytes(_spoil(library, kind))

    def _library(self, needed: list[str], *, marked: bool = True) -> bytes:
        chance = self.chance
        style = chance.random()
        path = self._search_path()
        other = self._search_path() if chance.random() < 0.5 else ""
        filtee = (chance.choice(["FILTER", "AUXILIARY"]), chance.choice(self.names))
        spelled = tuple(self._spell(name) for name in needed)
        self.marks += 1
        return Elf(
            machine=self.machine,
            soname=chance.choice(self.names) if chance.random() < 0.15 else None,
            needed=spelled,
            filtees=(filtee,) if chance.random() < 0.08 else (),  # type: ignore[arg-type]
            runpath=path if style < 0.5 else other if style < 0.6 else None,
            rpath=path if style >= 0.5 else None,
            undefined=uses(f"only_in_{self.number}_{self.marks}") if marked and chance.random() < 0.2 else (),
            flags_1=NODEFLIB if chance.random() < 0.08 else 0,
        ).build()

    def _spell(self, name: str) -> str:
        if self.chance.random() < 0.92:
            return name
        return self.chance.choice(["$ORIGIN/d0/", "$ORIGIN/link/../d1/", f"{self.folder}/d1/", "${ORIGIN}/"]) + name

    def _search_path(self) -> str:
        count = self.chance.choice([1, 1, 2, 2, 3])
        return ":".join(
            self.chance.choice(_PATHS).replace("{folder}", str(self.folder)).replace("{case}", self.folder.name)
            for _ in range(count)
        )


def _spoil(library: bytes, kind: FileKind) -> bytes:
    """Return what a file of some kind has instead of a library."""
    content = bytearray(library)
    match kind:
        case "foreign":
            content[18] = 183 if content[18] == 62 else 62
        case "other class":
            content[4] = 1
        case "text":
            return b"INPUT(libother.so) /* a linker script, which is longer than the header of a library */\n"
        case "short":
            return library[:40]
        case "empty":
            return b""
        case "object":
            content[16] = ET_REL
        case "endian":
            content[5] = 2
        case _:
            pass
    return bytes(content)
