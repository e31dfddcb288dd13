"""Code for x86-64 of the functions of the C and C++ libraries that initialisers call most often.

A call from the emulator to a double in Python takes as long as a hundred instructions. Cases that are rare, or may not
be what they look like, are still left to the double.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from abiscan.emulation.bucket_counts import buckets_for

_STRING: Final = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE"
_NEED_REHASH: Final = "_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm"
_ALLOCATOR: Final = b"\x11" * 8  # stands for the address of the allocator


def runtime(allocate: int, double_of: Callable[[str], int]) -> dict[str, bytes]:
    """Return the codes by the names of the functions; position-independent.

    :param allocate: a function that takes memory, and preserves all registers but ``rax``, ``rcx`` and ``rdx``
    :param double_of: where the double of a function is
    """

    def or_double(name: str) -> bytes:
        return b"\x48\xb8" + double_of(name).to_bytes(8, "little") + b"\xff\xe0"  # mov rax, double; jmp rax

    members = ("9_M_createERmm", "7reserveEm", "9_M_appendEPKcm", "10_M_replaceEmmPKcm")
    create, reserve, append, replace = (_STRING + member for member in members)
    codes = {
        "__tlsdesc_resolve": b"\x48\x8b\x40\x08\xc3",  # mov rax, [rax + 8]; ret
        "memcpy": _MEMCPY,
        "memset": _MEMSET,
        "strlen": _STRLEN,
        "tolower": _change_case("A", 32),
        "toupper": _change_case("a", -32),
        _NEED_REHASH: _REHASH + or_double(_NEED_REHASH) + _BUCKETS,
        create: _CREATE + or_double(create),
        reserve: _RESERVE + or_double(reserve),
        append: _APPEND + or_double(append),
        replace: _REPLACE + or_double(replace),
    }
    return {name: code.replace(_ALLOCATOR, allocate.to_bytes(8, "little")) for name, code in codes.items()}


# memcpy: to rdi, from rsi, rdx bytes
_MEMCPY: Final = bytes.fromhex(
    "4889f8"  # mov rax, rdi
    "4889d1 48c1e903 f348a5"  # mov rcx, rdx; shr rcx, 3; rep movsq
    "89d1 83e107 f3a4 c3"  # mov ecx, edx; and ecx, 7; rep movsb; ret
)
# memset: at rdi, the byte in esi, rdx times
_MEMSET: Final = bytes.fromhex(
    "4989f8 400fb6c6"  # mov r8, rdi; movzx eax, sil
    "49b90101010101010101 490fafc1"  # mov r9, 0x0101010101010101; imul rax, r9
    "4889d1 48c1e903 f348ab"  # mov rcx, rdx; shr rcx, 3; rep stosq
    "89d1 83e107 f3aa 4c89c0 c3"  # mov ecx, edx; and ecx, 7; rep stosb; mov rax, r8; ret
)
# strlen: of rdi, sixteen aligned bytes at a time
_STRLEN: Final = bytes.fromhex(
    "4889f8 4883e0f0 89f9 83e10f"  # mov rax, rdi; and rax, -16; mov ecx, edi; and ecx, 15
    "660fefc0 660f6f08 660f74c8 660fd7d1"  # pxor xmm0, xmm0; movdqa xmm1, [rax]; pcmpeqb xmm1, xmm0; pmovmskb edx, xmm1
    "d3ea 85d2 751e"  # shr edx, cl; test edx, edx; jne to the last line
    "4883c010 660f6f08 660f74c8 660fd7d1 85d2 74ec"  # add rax, 16; the same again; je to here
    "0fbcd2 4801d0 4829f8 c3"  # bsf edx, edx; add rax, rdx; sub rax, rdi; ret
    "0fbcc2 c3"  # bsf eax, edx; ret
)


def _change_case(first: str, distance: int) -> bytes:
    """Return ``tolower`` or ``toupper`` of edi, which adds ``distance`` to the 26 letters from ``first`` on.

    A negative ``char`` gives the character that it stands for, and EOF itself.
    """
    return bytes.fromhex(
        f"8d47{-ord(first) & 0xFF:02x} 83f819 7704"  # lea eax, [rdi - first]; cmp eax, 25; ja to the second line
        f"8d47{distance & 0xFF:02x} c3"  # lea eax, [rdi + distance]; ret
        "8d8f80000000 89f8 83f97f 7304"  # lea ecx, [rdi + 128]; mov eax, edi; cmp ecx, 127; jae to ret
        "400fb6c7 c3"  # movzx eax, dil; ret
    )


# std::__detail::_Prime_rehash_policy::_M_need_rehash(rdi, buckets: rsi, elements: rdx, added: rcx), where there is to
# be one element per bucket, up to 127. The policy's second word is the number of elements up to which nothing need be
# done, and zero at first (src/c++11/hashtable_c++0x.cc). The jumps to the end lead to the double, behind which are the
# numbers of buckets.
_REHASH: Final = bytes.fromhex(
    "488d040a 4c8b4708 4c39c0 764d"  # lea rax, [rdx + rcx]; mov r8, [rdi + 8]; cmp rax, r8; jbe to the last line
    "813f0000803f 754a"  # cmp dword [rdi], 1.0; jne to the end
    "4d85c0 750d 41b80b000000 4c39c0 490f42c0"  # test r8, r8; jne to cmp; mov r8d, 11; cmp rax, r8; cmovb rax, r8
    "4839f0 722a"  # cmp rax, rsi; jb to the line before the last
    "48ffc0 4c8d0436 4c39c0 490f42c0"  # inc rax; lea r8, [rsi + rsi]; cmp rax, r8; cmovb rax, r8
    "4883f87f 771f 4c8d0524000000"  # cmp rax, 127; ja to the end; lea r8, [rip + _BUCKETS]
    "410fb61400 48895708 b801000000 c3"  # movzx edx, byte [r8 + rax]; mov [rdi + 8], rdx; mov eax, 1; ret
    "48897708"  # mov [rdi + 8], rsi
    "31c0 31d2 c3"  # xor eax, eax; xor edx, edx; ret
)
_BUCKETS: Final = bytes(buckets_for(count) or 0 for count in range(128))

# Members of std::string: the pointer is at rdi, the length at rdi + 8; at rdi + 16 there is room for 15 characters, or,
# if the pointer leads elsewhere, the capacity (bits/basic_string.h).

_CALL_ALLOCATOR: Final = f"48b8{_ALLOCATOR.hex()} ffd0"  # mov rax, allocator; call rax

# _M_create(this, capacity: [rsi], the old one: rdx), of at most 64 KiB
_CREATE: Final = bytes.fromhex(
    "488b06 483d00000100 7723"  # mov rax, [rsi]; cmp rax, 0x10000; ja to the end
    "4839d0 760b"  # cmp rax, rdx; jbe to mov
    "488d0c12 4839c8 480f42c1"  # lea rcx, [rdx + rdx]; cmp rax, rcx; cmovb rax, rcx
    "488906 488d7801"  # mov [rsi], rax; lea rdi, [rax + 1]
    f"48b8{_ALLOCATOR.hex()} ffe0"  # mov rax, allocator; jmp rax
)
# reserve(this, capacity: rsi), up to 1 MiB
_RESERVE: Final = bytes.fromhex(
    "4883fe0f 7644 4881fe00001000 773c"  # cmp rsi, 15; jbe to ret; cmp rsi, 0x100000; ja to the end
    "488d4710 483b07 7406"  # lea rax, [rdi + 16]; cmp rax, [rdi]; je to push
    "483b7710 762c"  # cmp rsi, [rdi + 16]; jbe to ret
    "57 56 488d7e01"  # push rdi; push rsi; lea rdi, [rsi + 1]
    f"{_CALL_ALLOCATOR} 4158 4159"  # pop r8; pop r9
    "4889c7 498b31 498b4908 48ffc1 f3a4"  # mov rdi, rax; mov rsi, [r9]; mov rcx, [r9 + 8]; inc rcx; rep movsb
    "498901 4d894110 c3"  # mov [r9], rax; mov [r9 + 16], r8; ret
)
# _M_append(this, text: rsi, size: rdx), each of at most 64 KiB
_APPEND: Final = bytes.fromhex(
    "4881fa00000100 0f878f000000 4c8b4708"  # cmp rdx, 0x10000; ja to the end; mov r8, [rdi + 8]
    "b90f000000 4c8d4f10 4c3b0f 480f454f10"  # mov ecx, 15; lea r9, [rdi + 16]; cmp r9, [rdi]; cmovne rcx, [rdi + 16]
    "4981f800000100 7771"  # cmp r8, 0x10000; ja to the end
    "4901d0 4939c8 763e"  # add r8, rdx; cmp r8, rcx; jbe to mov r9, rdi
    "4801c9 4c39c1 490f42c8"  # add rcx, rcx; cmp rcx, r8; cmovb rcx, r8
    "57 56 52 51 488d7901"  # push rdi; push rsi; push rdx; push rcx; lea rdi, [rcx + 1]
    f"{_CALL_ALLOCATOR} 415a 5a 415b 4159"  # pop r10; pop rdx; pop r11; pop r9
    "4889c7 498b31 498b4908 f3a4"  # mov rdi, rax; mov rsi, [r9]; mov rcx, [r9 + 8]; rep movsb
    "498901 4d895110"  # mov [r9], rax; mov [r9 + 16], r10
    "4c89cf 4c89de"  # mov rdi, r9; mov rsi, r11
    "4989f9 488b4708 4c894708"  # mov r9, rdi; mov rax, [rdi + 8]; mov [rdi + 8], r8
    "488b3f 42c6040700 4801c7"  # mov rdi, [rdi]; mov byte [rdi + r8], 0; add rdi, rax
    "4889d1 48c1e903 f348a5"  # mov rcx, rdx; shr rcx, 3; rep movsq
    "89d1 83e107 f3a4 4c89c8 c3"  # mov ecx, edx; and ecx, 7; rep movsb; mov rax, r9; ret
)
# _M_replace(this, from: rsi, so many: rdx, by the text: rcx, size: r8): all of it, by at most 64 KiB from elsewhere
_REPLACE: Final = bytes.fromhex(
    "4885f6 7573 483b5708 756d"  # test rsi, rsi; jne to the end; cmp rdx, [rdi + 8]; jne to the end
    "4981f800000100 7764"  # cmp r8, 0x10000; ja to the end
    "4889c8 482b07 4839d0 7659"  # mov rax, rcx; sub rax, [rdi]; cmp rax, rdx; jbe to the end
    "b80f000000 4c8d4f10 4c3b0f 480f454710"  # mov eax, 15; lea r9, [rdi + 16]; cmp r9, [rdi]; cmovne rax, [rdi + 16]
    "4939c0 761b"  # cmp r8, rax; jbe to mov
    "57 51 498d7801"  # push rdi; push rcx; lea rdi, [r8 + 1]
    f"{_CALL_ALLOCATOR} 59 5f 488907 4c894710"  # pop rcx; pop rdi; mov [rdi], rax; mov [rdi + 16], r8
    "4c894708 4989f9"  # mov [rdi + 8], r8; mov r9, rdi
    "488b3f 42c6040700"  # mov rdi, [rdi]; mov byte [rdi + r8], 0
    "4889ce 4c89c1 48c1e903 f348a5"  # mov rsi, rcx; mov rcx, r8; shr rcx, 3; rep movsq
    "4489c1 83e107 f3a4 4c89c8 c3"  # mov ecx, r8d; and ecx, 7; rep movsb; mov rax, r9; ret
)
