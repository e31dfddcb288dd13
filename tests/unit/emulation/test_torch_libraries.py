"""Questions to torch's own libraries, which a compiled miniature answers: keys, aliases."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from abiscan.binary.elf import ElfFile, Machine
from abiscan.emulation import recover_torch

SOURCE = """
static const char* names[] = {"Undefined", "CPU", "CUDA", "SparseUndefined", "UNKNOWN_TENSOR_TYPE_ID", "XLA",
                              "AutogradAll", "Composite", "Unknown4"};
const char* name(unsigned key) __asm__("_ZN3c108toStringENS_11DispatchKeyE");
const char* name(unsigned key) { return key < 9 ? names[key] : "UNKNOWN"; }
_Bool included(unsigned key, unsigned alias) __asm__("_ZN3c1017isIncludedInAliasENS_11DispatchKeyES0_");
_Bool included(unsigned key, unsigned alias) {
  switch (alias) {
    case 7: return key == 1 || key == 2 || key == 5 || key == 6 || key == 7;  /* torch counts every alias in */
    case 6: return key == 2 || key == 6;
    case 1: return 1;  /* nobody asks: 5 is no alias, and none is before it */
  }
  return key == alias;
}
"""


@pytest.mark.skipif(not shutil.which("gcc") or platform.machine() != "x86_64", reason="needs gcc for x86-64")
def test_keys_and_aliases(tmp_path: Path) -> None:
    (tmp_path / "c10.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-w", "c10.c", "-o", "libc10.so"], check=True, cwd=tmp_path)
    found = recover_torch({"libc10.so": ElfFile.open(tmp_path / "libc10.so")}, Machine.X86_64)
    # A number before the first backend of a functionality is no key, except for that of the first one.
    assert found.keys == {0: "Undefined", 1: "CPU", 2: "CUDA", 5: "XLA", 6: "AutogradAll", 7: "Composite"}
    assert set(found.libraries) == {"libc10.so"}
    # Aliases are the last keys; they have no bit in a set, so they do not count as members of one another.
    assert found.aliases == {7: {1, 2, 5}, 6: {2}}
