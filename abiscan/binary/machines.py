"""The processors that files are for, and what each format of file and each system calls them: one table."""

from __future__ import annotations

import enum
from typing import Final

from msgspec import Struct


class Machine(enum.Enum):
    """The processor that an object is built for; the value is what Linux calls it."""

    X86_64 = "x86_64"
    AARCH64 = "aarch64"

    @property
    def traits(self) -> MachineTraits:
        """What is known of it."""
        return _TRAITS[self]

    @property
    def names(self) -> tuple[str, ...]:
        """What systems call it, in lower case, the name on Linux first."""
        return tuple(dict.fromkeys((self.value, self.traits.windows.lower(), self.traits.macos)))


class MachineTraits(Struct, frozen=True, kw_only=True):
    """What differs from processor to processor in files.

    :ivar elf: ``e_machine``
    :ivar copy: the type of copy relocations
    :ivar lookups: the types of relocations that linkers write to look up a symbol
    :ivar other_lookups: those that ``ld.so`` knows as well
    :ivar plain: those without a symbol
    :ivar relative: the one that RELACOUNT counts; None if ``ld.so`` does not insist on it
    :ivar static_tls: the one that needs room in the static block of thread-local variables
    :ivar pe: the machine of a PE file, as lief names it
    :ivar macho: the processor of a Mach-O file, as lief names it
    :ivar windows: what Python says on Windows (``platform.machine()``)
    :ivar macos: what Python says on macOS
    :ivar loader: the path of ``ld.so``
    :ivar cache: what marks its libraries in ``/etc/ld.so.cache`` (``_DL_CACHE_DEFAULT_ID``)
    :ivar folders: what the subfolders of search folders begin with that glibc searches up to 2.36, besides ``tls``
    :ivar irelative: the one whose place a function of the object fills (``STT_GNU_IFUNC``)
    :ivar crti: a regular expression for ``_init`` of glibc's crti.S, which does nothing
    :ivar frame_dummy: one for ``frame_dummy`` of GCC's crtstuff.c, which does nothing either, with the distance to
        ``register_tm_clones``, or the branch
    :ivar tm_clones: one for how that begins
    :ivar ios_init: one for the initialiser that including <iostream> adds, with the distances to the stubs of both
        functions that it calls: the constructor of ``std::ios_base::Init``, and ``__cxa_atexit``
    :ivar word: the size of every instruction, in bytes; None if they differ
    """

    elf: int
    copy: int
    lookups: tuple[int, ...]
    other_lookups: tuple[int, ...]
    plain: tuple[int, ...]
    relative: int | None
    static_tls: int
    pe: str
    macho: str
    windows: str
    macos: str
    loader: str
    cache: int
    folders: tuple[str, ...]
    irelative: int
    crti: bytes
    frame_dummy: bytes
    tm_clones: bytes
    ios_init: bytes | None
    word: int | None


_TRAITS: Final = {
    Machine.X86_64: MachineTraits(
        elf=62,  # EM_X86_64
        copy=5,  # R_X86_64_COPY
        lookups=(1, 6, 7, 16, 17, 18),  # R_X86_64_64, GLOB_DAT, JUMP_SLOT, DTPMOD64, DTPOFF64, TPOFF64
        # R_X86_64_PC32, COPY, 32, SIZE32, SIZE64, TLSDESC, IRELATIVE
        other_lookups=(2, 5, 10, 32, 33, 36, 37),
        plain=(0, 8, 38),  # R_X86_64_NONE, RELATIVE, RELATIVE64
        relative=8,
        static_tls=18,
        pe="AMD64",
        macho="X86_64",
        windows="AMD64",
        macos="x86_64",
        loader="/lib64/ld-linux-x86-64.so.2",
        cache=0x0303,
        folders=("xeon_phi", "haswell", "avx512_1", "x86_64"),
        irelative=37,
        # endbr64, sub rsp, a call of __gmon_start__ where it is defined, add rsp, ret
        crti=rb"(?:\xf3\x0f\x1e\xfa)?\x48\x83\xec\x08\x48\x8b\x05....\x48\x85\xc0\x74(?:\x02\xff\xd0|\x05\xe8....)"
        rb"\x48\x83\xc4\x08\xc3",
        # endbr64, a jump to register_tm_clones; up to GCC 6, a look at __JCR_LIST__ first
        frame_dummy=rb"(?:\xf3\x0f\x1e\xfa)?(?:\x55\x48\x89\xe5\x5d)?(?:\xe9(....)|\xeb(.))|"
        rb"\x48\x83\x3d....\x00\x74.\x48\x8b\x05....\x48\x85\xc0\x74.\x55\x48\x8d\x3d....\x48\x89\xe5\xff\xd0\x5d\xe9(....)|"
        rb"\x48\x8d\x3d....\x48\x83\x3f\x00\x75\x0b\xe9(....)\x66\x0f\x1f\x44\x00\x00\x48\x8b\x05....\x48\x85\xc0\x74\xe9",
        tm_clones=rb"\x48\x8d[\x05\x3d]....(?:\x48\x8d[\x05\x35\x3d]|\x55)",  # lea, lea or push
        ios_init=rb"(?:\xf3\x0f\x1e\xfa)?(?:"
        # push rbx, lea rbx, mov rdi, call, mov rdi, then mov rsi, pop rbx and lea rdx in any order, jmp
        rb"\x53\x48\x8d\x1d....\x48\x89\xdf\xe8(....)\x48\x8b\x3d....(?:\x48\x89\xde|\x5b|\x48\x8d\x15....){3}\xe9(....)|"
        # sub rsp, lea rdi, call, mov rdi, then add rsp, lea rdx and lea rsi in any order, jmp
        rb"\x48\x83\xec\x08\x48\x8d\x3d....\xe8(....)\x48\x8b\x3d...."
        rb"(?:\x48\x83\xc4\x08|\x48\x8d\x15....|\x48\x8d\x35....){3}\xe9(....))",
        word=None,
    ),
    Machine.AARCH64: MachineTraits(
        elf=183,  # EM_AARCH64
        copy=1024,  # R_AARCH64_COPY
        # R_AARCH64_ABS64, GLOB_DAT, JUMP_SLOT, TLS_DTPMOD, TLS_DTPREL, TLS_TPREL, TLSDESC
        lookups=(257, 1025, 1026, 1028, 1029, 1030, 1031),
        other_lookups=(258, 1024, 1032),  # R_AARCH64_ABS32, COPY, IRELATIVE
        plain=(0, 1027),  # R_AARCH64_NONE, RELATIVE
        relative=None,
        static_tls=1030,
        pe="ARM64",
        macho="ARM64",
        windows="ARM64",
        macos="arm64",
        loader="/lib/ld-linux-aarch64.so.1",
        cache=0x0A03,
        folders=("aarch64", "atomics"),
        irelative=1032,
        # paciasp, stp, mov, bl call_weak_fn, ldp, autiasp, ret
        crti=rb"(?:[\x1f\x5f\x3f][\x23\x24]\x03\xd5)?\xfd\x7b\xbf\xa9\xfd\x03\x00\x91...[\x94-\x97]\xfd\x7b\xc1\xa8"
        rb"(?:\xbf\x23\x03\xd5)?\xc0\x03\x5f\xd6",
        frame_dummy=rb"(?:[\x1f\x5f]\x24\x03\xd5)?(...[\x14-\x17])",  # bti, b register_tm_clones
        tm_clones=rb"[\x00\x20\x40\x60\x80\xa0\xc0\xe0]..[\x90\xb0\xd0\xf0]\x00..\x91",  # adrp x0, add x0
        ios_init=None,
        word=4,
    ),
}
MACHINES: Final = {traits.elf: machine for machine, traits in _TRAITS.items()}
"""The processors by ``e_machine``."""


def machine_of_name(name: str) -> Machine | None:
    """Return the processor that a system, or the tag of a platform, names at its end; None for another one."""
    return next((machine for machine in Machine if name.lower().endswith(machine.names)), None)
