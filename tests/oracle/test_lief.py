"""Every fact of an ELF file, against lief: another reader, which uses the section headers too."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import lief
import pytest

from abiscan.binary.elf import ElfFile, SharedObject
from abiscan.binary.symbols import SymbolTable
from tests.fakes import elf_samples

lief.disable_leak_warning()

SAMPLES = elf_samples()
SYSTEM = sorted(Path("/lib").glob("*-linux-gnu/lib[cm].so.6")) + sorted(Path("/lib").glob("*-linux-gnu/libstdc++.so.6"))
TORCH = sorted(Path(sysconfig.get_path("purelib"), "torch", "lib").glob("lib[cst]*.so"))


def read(path: Path) -> tuple[SharedObject, lief.ELF.Binary]:
    config = lief.ELF.ParserConfig()
    config.parse_relocations = False
    config.parse_symtab_symbols = False
    config.parse_overlay = False
    parsed = lief.ELF.parse(str(path), config)
    assert isinstance(parsed, lief.ELF.Binary)
    return ElfFile.open(path).facts(), parsed


@pytest.mark.parametrize("path", [*SAMPLES, *SYSTEM, *TORCH], ids=lambda path: path.name)
def test_lief_reads_the_same(path: Path) -> None:
    facts, parsed = read(path)
    entries = list(parsed.dynamic_entries)
    assert facts.needed == tuple(entry.name for entry in entries if isinstance(entry, lief.ELF.DynamicEntryLibrary))
    sonames = [entry.name for entry in entries if isinstance(entry, lief.ELF.DynamicSharedObject)]
    assert facts.soname == (sonames[0] if sonames else None)
    rpaths = [str(entry.rpath) for entry in entries if isinstance(entry, lief.ELF.DynamicEntryRpath)]
    runpaths = [str(entry.runpath) for entry in entries if isinstance(entry, lief.ELF.DynamicEntryRunPath)]
    assert (":".join(facts.rpath), ":".join(facts.runpath)) == ("".join(rpaths), "".join(runpaths))
    identities = [
        bytes(note.description).hex() for note in parsed.notes if note.type == lief.ELF.Note.TYPE.GNU_BUILD_ID
    ]
    assert facts.build_id == (identities[0] if identities else None)
    assert [(version.file, version.name) for version in facts.version_needs] == [
        (requirement.name, version.name)
        for requirement in parsed.symbols_version_requirement
        for version in requirement.get_auxiliary_symbols()
    ]
    defined = {each.auxiliary_symbols[0].name for each in parsed.symbols_version_definition if not each.flags & 1}
    assert (facts.version_definitions or frozenset()) == defined
    symbols = list(parsed.dynamic_symbols)
    assert facts.imports == {symbol.name for symbol in symbols[1:] if symbol.shndx == 0}
    assert isinstance(facts.symbols, SymbolTable)
    local = lief.ELF.Symbol.BINDING.LOCAL
    visible = (lief.ELF.Symbol.VISIBILITY.DEFAULT, lief.ELF.Symbol.VISIBILITY.PROTECTED)
    assert set(facts.symbols) == {
        symbol.name
        for symbol in symbols
        if symbol.shndx != 0
        and symbol.binding != local
        and symbol.visibility in visible
        and (symbol.value or symbol.type == lief.ELF.Symbol.TYPE.TLS or symbol.shndx == 0xFFF1)
    }
