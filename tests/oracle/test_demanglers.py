"""The two ways to demangle a name, compared on every C++ name of the samples and of a release of torch."""

from __future__ import annotations

from abiscan.binary import by_lief, mangling
from abiscan.binary.elf import ElfFile, Machine
from abiscan.torches import embedded
from tests.fakes import elf_samples


def test_lief_says_what_cxxfilt_says() -> None:
    names = {name for library in embedded.exports("2.13.0", Machine.X86_64).values() for name in library}
    for path in elf_samples():
        facts = ElfFile.open(path).facts()
        names |= facts.imports | set(facts.symbols.starting_with(""))
    mangled = [name for name in names if name.startswith("_Z")]
    # Types of kernels and of classes are asked for by the name of their typeinfo.
    mangled += [f"_ZTS{name[4:]}" for name in mangled if name.startswith("_ZTI")]
    answers = {name: mangling._by_cxxfilt(name) for name in mangled}
    assert sum(text is not None for text in answers.values()) > 50_000
    assert {name: by_lief.demangle_by_lief(name) for name in mangled} == answers
