"""Doubles of libstdc++: the members of ``std::string`` in both layouts, node-based containers, string streams.

What templates inline into an extension runs as it is; only the out-of-line parts need a stand-in. Layouts: libstdc++'s
bits/basic_string.h, bits/cow_string.h, bits/stl_tree.h, bits/stl_list.h, bits/hashtable_policy.h, <streambuf>.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from abiscan.emulation.bucket_counts import FIRST, buckets_for
from abiscan.emulation.doubles import Doubles, ctype
from abiscan.emulation.doubles.exceptions import throw
from abiscan.emulation.emulator import Emulator, Stop
from abiscan.emulation.process import Call, Double, EmulatedProcess
from abiscan.emulation.strings import COW, CXX11, EMPTY_REP, REP_SIZE, StringAbi, abi_in

LIBSTDCXX: Final = Doubles()

_MOST_RESERVED: Final = 1 << 20  # with the length of a text that is not known
_NPOS: Final = 0xFFFF_FFFF_FFFF_FFFF
_MURMUR: Final = 0xC6A4_A793_5BD1_E995
_FNV: Final = 0x100_0000_01B3
_CXX11_CLASS: Final = "St7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE"


def _spellings(member: str, *, const: bool) -> tuple[str, str]:
    """Both mangled names of a member of ``std::string``, given as the old layout spells it."""
    start = "_ZNK" if const else "_ZN"
    modern = member.replace("RKSaIcE", "RKS3_")
    for qualifier in ("RK", "O", "R"):
        modern = modern.replace(f"{qualifier}Ss", f"{qualifier}S4_")
    return f"{start}Ss{member}", f"{start}{_CXX11_CLASS}{modern}"


def _member(*members: str, const: bool = False) -> Callable[[Double], Double]:
    return LIBSTDCXX.named(*(name for member in members for name in _spellings(member, const=const)))


def _constructor(*signatures: str) -> Callable[[Double], Double]:
    return _member(*(f"C{kind}E{signature}" for kind in "12" for signature in signatures))


def _abi(call: Call) -> StringAbi:
    return abi_in(call.name) or CXX11


def _text(call: Call, index: int = 0) -> bytes:
    """The text of a string."""
    return _known(call, lambda: _abi(call).read(call.process, call.argument(index)))


def _range(call: Call, start: int, size: int) -> bytes:
    """The text at one argument, with the length in another one."""
    return _known(
        call, lambda: call.machine.read(call.argument(start), call.argument(size)) if call.argument(size) else b""
    )


def _known(call: Call, read: Callable[[], bytes]) -> bytes:
    try:
        return read()
    except Stop:
        if call.process.unknown_text is None:
            raise
        return call.process.unknown_text


def _set(call: Call, text: bytes, index: int = 0) -> int:
    _abi(call).create(call.process, call.argument(index), text)
    return call.argument(index)


# Construction and assignment


@_constructor("v", "RKSaIcE")
def _construct_empty(call: Call) -> None:
    _set(call, b"")


@_constructor("PKcRKSaIcE")
def _construct_from_c(call: Call) -> None:
    _set(call, call.machine.text(call.argument(1)))


LIBSTDCXX.named(f"_ZN{_CXX11_CLASS}C1IS3_EEPKcRKS3_", f"_ZN{_CXX11_CLASS}C2IS3_EEPKcRKS3_")(_construct_from_c)


@_constructor("PKcmRKSaIcE")
def _construct_from_range(call: Call) -> None:
    _set(call, call.machine.read(call.argument(1), call.argument(2)))


@_constructor("RKSs", "OSs")
def _construct_from_string(call: Call) -> None:
    text = _text(call, 1)
    if call.name.endswith(("OS4_", "OSs")):
        _set(call, b"", 1)
    _set(call, text)


@_constructor("RKSsmm", "RKSsm", "RKSsmRKSaIcE")
def _construct_from_part(call: Call) -> None:
    count = call.argument(3) if call.name.endswith("mm") else _NPOS
    text, at = _text(call, 1), call.argument(2)
    if at > len(text):
        what = f"basic_string::basic_string: __pos (which is {at}) > this->size() (which is {len(text)})"
        throw(call, "St12out_of_range", what)
    _set(call, text[at:][:count])


@_constructor("mcRKSaIcE")
def _construct_repeated(call: Call) -> None:
    _set(call, call.repeated(2, 1))


@LIBSTDCXX.named(f"_ZN{_CXX11_CLASS}12_M_constructEmc")
def _construct_in_place(call: Call) -> None:
    _set(call, call.repeated(2, 1))


@LIBSTDCXX.matching(
    rf"_ZN{_CXX11_CLASS}12?1?[0-9]_M_constructI(PKc|Pc|N9__gnu_cxx)", rf"_ZN{_CXX11_CLASS}12_M_constructILb"
)
def _construct_between(call: Call) -> None:
    first, second = call.argument(1), call.argument(2)
    size = second if "ILb" in call.name else second - first  # from GCC 15 on: pointer and length
    _set(call, call.machine.read(first, size) if size else b"")


@_member("D1Ev", "D2Ev", "10_M_disposeEv", "10_M_destroyEm", "13shrink_to_fitEv", "4_Rep10_M_disposeERKSaIcE")
def _nothing(_: Call) -> None:
    """Memory is never reused, so there is nothing to free."""


@_member("6assignERKSs", "aSERKSs", "9_M_assignERKSs", "aSEOSs", "6assignEOSs")
def _assign(call: Call) -> int:
    return _set(call, _text(call, 1))


@_member("6assignEPKc", "aSEPKc")
def _assign_c(call: Call) -> int:
    return _set(call, call.machine.text(call.argument(1)))


@_member("6assignEPKcm")
def _assign_range(call: Call) -> int:
    return _set(call, call.machine.read(call.argument(1), call.argument(2)) if call.argument(2) else b"")


@_member("4swapERSs")
def _swap(call: Call) -> None:
    first, second = _text(call), _text(call, 1)
    _set(call, second)
    _set(call, first, 1)


# Growing and editing


@_member("6appendERKSs", "pLERKSs")
def _append(call: Call) -> int:
    return _set(call, _text(call) + _text(call, 1))


@_member("6appendEPKc", "pLEPKc")
def _append_c(call: Call) -> int:
    return _set(call, _text(call) + call.machine.text(call.argument(1)))


@_member("6appendEPKcm", "9_M_appendEPKcm")
def _append_range(call: Call) -> int:
    return _set(call, _text(call) + _range(call, 1, 2))


@_member("6appendEmc")
def _append_repeated(call: Call) -> int:
    return _set(call, _text(call) + call.repeated(2, 1))


@_member("6appendERKSsmm")
def _append_part(call: Call) -> int:
    return _set(call, _text(call) + _text(call, 1)[call.argument(2) :][: call.argument(3)])


@_member("5clearEv")
def _clear(call: Call) -> None:
    _set(call, b"")


@_member("9push_backEc", "pLEc")
def _push(call: Call) -> int:
    return _set(call, _text(call) + bytes((call.argument(1) & 0xFF,)))


@_member("6insertEmPKc", "6insertEmRKSs", "6insertEmPKcm", "6insertEmRKSsmm")
def _insert(call: Call) -> int:
    text, at = _text(call), call.argument(1)
    if call.name.endswith("PKcm"):
        added = _range(call, 2, 3)
    else:
        added = call.machine.text(call.argument(2)) if call.name.endswith("PKc") else _text(call, 2)
        if call.name.endswith("mm"):
            added = added[call.argument(3) :][: call.argument(4)]
    return _set(call, text[:at] + added + text[at:])


@_member("7replaceEmmPKc", "7replaceEmmPKcm", "10_M_replaceEmmPKcm", "7replaceEmmRKSs", "15_M_replace_safeEmmPKcm")
def _replace(call: Call) -> int:
    text, at, count = _text(call), call.argument(1), call.argument(2)
    if call.name.endswith("PKcm"):
        added = _range(call, 3, 4)
    else:
        added = call.machine.text(call.argument(3)) if call.name.endswith("PKc") else _text(call, 3)
    return _set(call, text[:at] + added + text[at + count :])


@_member("14_M_replace_auxEmmmc", "7replaceEmmmc")
def _replace_repeated(call: Call) -> int:
    text, at, count = _text(call), call.argument(1), call.argument(2)
    added = call.repeated(4, 3)
    return _set(call, text[:at] + added + text[at + count :])


@_member("5eraseEmm", "8_M_eraseEmm")
def _erase(call: Call) -> int:
    text, at = _text(call), call.argument(1)
    return _set(call, text[:at] + text[at:][call.argument(2) :])


@_member("6resizeEmc", "6resizeEm")
def _resize(call: Call) -> None:
    filler = call.argument(2) & 0xFF if call.name.endswith("mc") else 0
    _set(call, _text(call)[: call.argument(1)].ljust(call.argument(1), bytes((filler,))))


@_member("7reserveEm")
def _reserve(call: Call) -> None:
    """Space for this many characters: inlined code then writes after the end."""
    text, capacity = _text(call), call.argument(1)
    machine = call.machine
    if capacity > _MOST_RESERVED and call.process.unknown_text is not None:
        return
    if _abi(call) is COW:
        machine.set_word(call.argument(0), COW.new_text(call.process, text, max(capacity, 1)))
    elif capacity > 15:
        buffer = call.process.allocate(capacity + 1)
        machine.write(buffer, text + b"\0")
        machine.write(call.argument(0), struct.pack("<QQQ", buffer, len(text), capacity))


@LIBSTDCXX.named(f"_ZN{_CXX11_CLASS}9_M_createERmm")
def _create_buffer(call: Call) -> int:
    """A buffer for at least the capacity in the first argument, twice the old one where that is more."""
    wanted, old = call.machine.word(call.argument(1)), call.argument(2)
    capacity = max(wanted, 2 * old) if wanted > old else wanted
    buffer = call.process.allocate(capacity + 1)
    call.machine.set_word(call.argument(1), capacity)
    return buffer


@LIBSTDCXX.named(f"_ZN{_CXX11_CLASS}9_M_mutateEmmPKcm")
def _mutate(call: Call) -> None:
    text, at, count, added = _text(call), call.argument(1), call.argument(2), call.argument(4)
    middle = call.machine.read(call.argument(3), added) if call.argument(3) and added else bytes(added)
    length = call.machine.word(call.argument(0) + 8)
    new = text[:at] + middle + text[at + count :]
    buffer = call.process.allocate(2 * len(new) + 32)
    call.machine.write(buffer, new + b"\0")
    call.machine.write(call.argument(0), struct.pack("<QQQ", buffer, length, 2 * len(new) + 31))


# Looking


@_member("7compareEPKc", "7compareERKSs", const=True)
def _compare(call: Call) -> int:
    other = call.machine.text(call.argument(1)) if call.name.endswith("PKc") else _text(call, 1)
    text = _text(call)
    return (text > other) - (text < other)


@_member("4findEPKcmm", "4findEcm", "5rfindEcm", "5rfindEPKcmm", "4findERKSsm", "4findEPKcm", const=True)
def _find(call: Call) -> int:
    text, start = _text(call), call.argument(2)
    if call.name.endswith("cm") and not call.name.endswith("PKcm"):
        wanted = bytes((call.argument(1) & 0xFF,))
    elif call.name.endswith("PKcmm"):
        wanted = call.machine.read(call.argument(1), call.argument(3)) if call.argument(3) else b""
    else:
        wanted = call.machine.text(call.argument(1)) if call.name.endswith("PKcm") else _text(call, 1)
    at = (
        text.rfind(wanted, 0, min(start, len(text)) + len(wanted)) if "rfind" in call.name else text.find(wanted, start)
    )
    return at if at >= 0 else _NPOS


@_member(
    "13find_first_ofEPKcmm", "12find_last_ofEPKcmm", "17find_first_not_ofEPKcmm", "16find_last_not_ofEPKcmm", const=True
)
def _find_any(call: Call) -> int:
    text, start = _text(call), call.argument(2)
    wanted = call.machine.read(call.argument(1), call.argument(3)) if call.argument(3) else b""
    places = range(min(start, len(text) - 1), -1, -1) if "_last_" in call.name else range(start, len(text))
    return next((at for at in places if (text[at] in wanted) != ("_not_" in call.name)), _NPOS)


@_member("6substrEmm", const=True)
def _part(call: Call) -> None:
    result = call.result
    text, at = _text(call), call.argument(1)
    if at > len(text):
        what = f"basic_string::substr: __pos (which is {at}) > this->size() (which is {len(text)})"
        throw(call, "St12out_of_range", what)
    _abi(call).create(call.process, result, text[at:][: call.argument(2)])


@_member("5c_strEv", "4dataEv", const=True)
def _characters(call: Call) -> int:
    return call.machine.word(call.argument(0))


@_member("4sizeEv", "6lengthEv", const=True)
def _size(call: Call) -> int:
    return len(_text(call))


@_member("5emptyEv", const=True)
def _is_empty(call: Call) -> int:
    return int(not _text(call))


# The private parts of the present string, which unoptimised code calls one by one.


def _private(*members: str) -> Callable[[Double], Double]:
    return LIBSTDCXX.named(*(f"_ZN{const}{_CXX11_CLASS}{member}" for member in members for const in ("", "K")))


@_private("7_M_dataEv", "5beginEv", "6cbeginEv", "5frontEv")
def _pointer(call: Call) -> int:
    return call.machine.word(call.argument(0))


@_private("4backEv")
def _last(call: Call) -> int:
    return sum(call.machine.words(call.argument(0), 2)) - 1


@_private("3endEv", "4cendEv")
def _end(call: Call) -> int:
    return sum(call.machine.words(call.argument(0), 2))


@_private("ixEm", "2atEm")
def _at(call: Call) -> int:
    size = len(_text(call))
    if "2atEm" in call.name and call.argument(1) >= size:
        text = f"basic_string::at: __n (which is {call.argument(1)}) >= this->size() (which is {size})"
        throw(call, "St12out_of_range", text)
    return call.machine.word(call.argument(0)) + call.argument(1)


@_private("7_M_dataEPc", "12_Alloc_hiderC1EPcRKS3_", "12_Alloc_hiderC2EPcRKS3_", "12_Alloc_hiderC1EPcOS3_")
def _set_pointer(call: Call) -> None:
    call.machine.set_word(call.argument(0), call.argument(1))


@_private("9_M_lengthEm")
def _store_length(call: Call) -> None:
    call.machine.set_word(call.argument(0) + 8, call.argument(1))


@_private("11_M_capacityEm")
def _store_capacity(call: Call) -> None:
    call.machine.set_word(call.argument(0) + 16, call.argument(1))


@_private("13_M_local_dataEv", "17_M_use_local_dataEv")
def _local_buffer(call: Call) -> int:
    return call.argument(0) + 16


@_private("11_M_is_localEv")
def _is_local(call: Call) -> int:
    return int(call.machine.word(call.argument(0)) == call.argument(0) + 16)


@_private("16_M_get_allocatorEv")
def _allocator(call: Call) -> int:
    return call.argument(0)


@_private("13_M_set_lengthEm")
def _end_text(call: Call) -> None:
    call.machine.set_word(call.argument(0) + 8, call.argument(1))
    call.machine.write(call.machine.word(call.argument(0)) + call.argument(1), b"\0")


@_private("7_S_copyEPcPKcm", "7_S_moveEPcPKcm")
def _copy_part(call: Call) -> None:
    if call.argument(2):
        call.machine.write(call.argument(0), call.machine.read(call.argument(1), call.argument(2)))


@_private("8capacityEv")
def _capacity(call: Call) -> int:
    is_local = call.machine.word(call.argument(0)) == call.argument(0) + 16
    return 15 if is_local else call.machine.word(call.argument(0) + 16)


# The parts of a copy-on-write string


@LIBSTDCXX.named("_ZNSs4_Rep9_S_createEmmRKSaIcE")
def _create_rep(call: Call) -> int:
    capacity = call.argument(0)
    if capacity > call.argument(1):
        capacity = max(capacity, 2 * call.argument(1))
    rep = call.process.allocate(REP_SIZE + capacity + 1)
    call.machine.set_word(rep + 8, capacity)
    return rep


@LIBSTDCXX.named("_ZNSs4_Rep26_M_set_length_and_sharableEm")
def _set_length(call: Call) -> None:
    rep, length = call.argument(0), call.argument(1)
    if rep != call.process.bind(EMPTY_REP):
        call.machine.set_word(rep, length)
        call.machine.write(rep + 16, bytes(4))
        call.machine.write(rep + REP_SIZE + length, b"\0")


@LIBSTDCXX.named("_ZNSs4_Rep10_M_refdataEv", "_ZNSs4_Rep10_M_refcopyEv", "_ZNSs4_Rep7_M_grabERKSaIcES2_")
def _rep_text(call: Call) -> int:
    """The text behind a rep. Sharing it is as good as copying it: nothing here is ever given back."""
    return call.argument(0) + REP_SIZE


@LIBSTDCXX.named("_ZNSs4_Rep8_M_cloneERKSaIcEm")
def _clone_rep(call: Call) -> int:
    text = call.machine.read(call.argument(0) + REP_SIZE, call.machine.word(call.argument(0)))
    return COW.new_text(call.process, text, len(text) + call.argument(2))


@LIBSTDCXX.named("_ZNSs12_S_empty_repEv", "_ZNSs4_Rep12_S_empty_repEv")
def _empty_rep(call: Call) -> int:
    return call.process.bind(EMPTY_REP)


@LIBSTDCXX.named("_ZNSs12_Alloc_hiderC1EPcRKSaIcE", "_ZNSs12_Alloc_hiderC2EPcRKSaIcE")
def _construct_hider(call: Call) -> None:
    call.machine.set_word(call.argument(0), call.argument(1))


@LIBSTDCXX.matching(r"_ZNSs13_S_copy_charsEPc", rf"_ZN{_CXX11_CLASS}13_S_copy_charsEPc")
def _copy_characters(call: Call) -> None:
    first, end = call.argument(1), call.argument(2)
    if end > first:
        call.machine.write(call.argument(0), call.machine.read(first, end - first))


@LIBSTDCXX.matching(r"_ZNSs12_S_constructI")
def _construct_text(call: Call) -> int:
    first, end = call.argument(0), call.argument(1)
    return COW.new_text(call.process, call.machine.read(first, end - first) if end > first else b"")


@LIBSTDCXX.named("_ZNSs12_S_constructEmcRKSaIcE")
def _construct_repeated_text(call: Call) -> int:
    return COW.new_text(call.process, call.repeated(1, 0))


_REFERENCES: Final = -8  # from the text of a copy-on-write string: their number less one, negative if it is not shared


@LIBSTDCXX.named("_ZNSs12_M_leak_hardEv", "_ZNSs7_M_leakEv")
def _unshare(call: Call) -> None:
    """A text of its own, marked as not to be shared: code asks twice, for its beginning and for its end."""
    text = call.machine.word(call.argument(0))
    count = text + _REFERENCES
    if text == call.process.bind(EMPTY_REP) + REP_SIZE or int.from_bytes(call.machine.read(count, 4), "little") >> 31:
        return
    _set(call, _text(call))
    call.machine.write(call.machine.word(call.argument(0)) + _REFERENCES, b"\xff" * 4)


@LIBSTDCXX.named("_ZNSs9_M_mutateEmmm")
def _mutate_cow(call: Call) -> None:
    text, at, count, added = _text(call), call.argument(1), call.argument(2), call.argument(3)
    _set(call, text[:at] + bytes(added) + text[at + count :])


# Red-black trees: color, parent, left, right. Kept ordered but not balanced, which no reader of them notices.

_PARENT, _LEFT, _RIGHT = 8, 16, 24
_DEEPEST: Final = 100_000  # a tree that is not balanced may be as deep as it has nodes


@LIBSTDCXX.named("_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_")
def _insert_node(call: Call) -> None:
    machine = call.machine
    left, node, parent, header = call.argument(0) & 1, call.argument(1), call.argument(2), call.argument(3)
    machine.write(node, struct.pack("<QQQQ", 1, parent, 0, 0))
    machine.set_word(parent + (_LEFT if left else _RIGHT), node)
    if parent == header:  # the first node is root, leftmost and rightmost
        machine.write(header + _PARENT, struct.pack("<QQQ", node, node, node))
    elif left and machine.word(header + _LEFT) == parent:
        machine.set_word(header + _LEFT, node)
    elif not left and machine.word(header + _RIGHT) == parent:
        machine.set_word(header + _RIGHT, node)


@LIBSTDCXX.named("_ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_")
def _remove_node(call: Call) -> int:
    """Remove a node from its tree and return it. A node with two children is replaced by the next in order."""
    machine, node, header = call.machine, call.argument(0), call.argument(1)
    _, parent, left, right = machine.words(node, 4)
    heir = left or right
    if left and right:
        heir = _end_of(machine, right, _LEFT)
        if heir != right:
            _, above, _, below = machine.words(heir, 4)
            _link(machine, above, _LEFT, below)
            _link(machine, heir, _RIGHT, right)
        _link(machine, heir, _LEFT, left)
    side = _PARENT if parent == header else _LEFT if machine.word(parent + _LEFT) == node else _RIGHT
    _link(machine, parent, side, heir)
    if machine.word(header + _LEFT) == node:
        machine.set_word(header + _LEFT, _end_of(machine, right, _LEFT) if right else parent)
    if machine.word(header + _RIGHT) == node:
        machine.set_word(header + _RIGHT, _end_of(machine, left, _RIGHT) if left else parent)
    return node


def _link(machine: Emulator, parent: int, side: int, child: int) -> None:
    """Attach a node, or none for 0, below another."""
    machine.set_word(parent + side, child)
    if child:
        machine.set_word(child + _PARENT, parent)


def _end_of(machine: Emulator, node: int, side: int) -> int:
    """The last node on one side of the tree below ``node``.

    :raises Stop: there is no end: the tree has a cycle
    """
    for _ in range(_DEEPEST):
        following = machine.word(node + side)
        if not following:
            return node
        node = following
    raise Stop("std::map whose tree does not end", machine.vm.pc)


def _step(call: Call, near: int, far: int) -> int:
    """The neighbour of a node in order: ``near`` is the side stepped to.

    :raises Stop: the tree has a cycle
    """
    machine, node = call.machine, call.argument(0)
    if child := machine.word(node + near):
        return _end_of(machine, child, far)
    parent = machine.word(node + _PARENT)
    for _ in range(_DEEPEST):
        if node != machine.word(parent + near):
            return parent if machine.word(node + near) != parent else node
        node, parent = parent, machine.word(parent + _PARENT)
    raise Stop("std::map whose tree does not end", call.return_address)


@LIBSTDCXX.matching(r"_ZSt18_Rb_tree_incrementP")
def _next_node(call: Call) -> int:
    return _step(call, _RIGHT, _LEFT)


@LIBSTDCXX.matching(r"_ZSt18_Rb_tree_decrementP")
def _previous_node(call: Call) -> int:
    machine, node = call.machine, call.argument(0)
    is_header = machine.read(node, 4) == bytes(4) and machine.word(machine.word(node + _PARENT) + _PARENT) == node
    return machine.word(node + _RIGHT) if is_header else _step(call, _LEFT, _RIGHT)


# Hash tables and lists


def _next_bucket_count_of(call: Call, policy: int, wanted: int) -> int:
    """The number of buckets for at least so many, which the policy keeps in mind (src/c++11/hashtable_c++0x.cc)."""
    if not wanted:
        return 1
    count = buckets_for(wanted)
    if count is None:
        raise Stop(f"a hash table of {wanted} buckets", call.return_address)
    (load,) = struct.unpack("<f", call.machine.read(policy, 4))
    call.machine.set_word(policy + 8, int(count * load))
    return count


@LIBSTDCXX.named("_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm")
def _next_bucket_count(call: Call) -> int:
    return _next_bucket_count_of(call, call.argument(0), call.argument(1))


@LIBSTDCXX.named("_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm")
def _need_rehash(call: Call) -> int:
    """``pair<bool, size_t>`` in the two result registers: whether, and to how many buckets."""
    policy, buckets, elements, added = (call.argument(index) for index in range(4))
    until = call.machine.word(policy + 8)
    call.give_second(0)
    if elements + added <= until:
        return 0
    (load,) = struct.unpack("<f", call.machine.read(policy, 4))
    needed = max(elements + added, 0 if until else FIRST) / (load or 1.0)
    if needed < buckets:
        call.machine.set_word(policy + 8, int(buckets * load))
        return 0
    call.give_second(_next_bucket_count_of(call, policy, max(int(needed) + 1, 2 * buckets)))
    return 1


@LIBSTDCXX.named("_ZSt11_Hash_bytesPKvmm")
def _hash(call: Call) -> int:
    """MurmurHash2, of 64 bits (libsupc++, hash_bytes.cc)."""
    data, value = _hashed(call), call.argument(2)
    value ^= len(data) * _MURMUR & _NPOS
    for (word,) in struct.iter_unpack("<Q", data[: len(data) & ~7]):
        value = (value ^ _mixed(word * _MURMUR & _NPOS) * _MURMUR) * _MURMUR & _NPOS
    if rest := data[len(data) & ~7 :]:
        value = (value ^ int.from_bytes(rest, "little")) * _MURMUR & _NPOS
    return _mixed(_mixed(value) * _MURMUR & _NPOS)


def _hashed(call: Call) -> bytes:
    return call.machine.read(call.argument(0), call.argument(1)) if call.argument(1) else b""


def _mixed(value: int) -> int:
    return value ^ value >> 47


@LIBSTDCXX.named("_ZSt15_Fnv_hash_bytesPKvmm")
def _fnv_hash(call: Call) -> int:
    """FNV-1a, of 64 bits (libsupc++, hash_bytes.cc)."""
    value = call.argument(2)
    for (character,) in struct.iter_unpack("<b", _hashed(call)):  # with its sign
        value = (value ^ character) * _FNV & _NPOS
    return value


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base7_M_hookEPS0_")
def _hook(call: Call) -> None:
    machine, node, after = call.machine, call.argument(0), call.argument(1)
    before = machine.word(after + 8)
    machine.write(node, struct.pack("<QQ", after, before))
    machine.set_word(before, node)
    machine.set_word(after + 8, node)


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base9_M_unhookEv")
def _unhook(call: Call) -> None:
    machine = call.machine
    after, before = machine.words(call.argument(0), 2)
    machine.set_word(before, after)
    machine.set_word(after + 8, before)


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base11_M_transferEPS0_S1_")
def _transfer(call: Call) -> None:
    """Move the nodes from ``first`` up to ``last`` in front of ``this``."""
    machine, this, first, last = call.machine, call.argument(0), call.argument(1), call.argument(2)
    if this == last:
        return
    end, before_first, before_this = machine.word(last + 8), machine.word(first + 8), machine.word(this + 8)
    machine.set_word(end, this)
    machine.set_word(before_first, last)
    machine.set_word(before_this, first)
    machine.set_word(this + 8, end)
    machine.set_word(last + 8, before_first)
    machine.set_word(first + 8, before_this)


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base4swapERS0_S1_")
def _swap_lists(call: Call) -> None:
    machine, heads = call.machine, (call.argument(0), call.argument(1))
    links = [machine.words(head, 2) for head in heads]
    for head, other, (after, before) in zip(heads, reversed(heads), reversed(links), strict=True):
        if after == other:  # the other list is empty
            machine.write(head, struct.pack("<QQ", head, head))
        else:
            machine.write(head, struct.pack("<QQ", after, before))
            machine.set_word(after + 8, head)
            machine.set_word(before, head)


# Locales. Only the classic one exists, and its one facet is std::ctype<char>, which std::regex looks characters up in:
# tables of upper and lower case and of the classes of <ctype.h>, then two tables that map every character to itself, a
# flag before the first and behind the second that they are complete (bits/locale_facets.h).

_FACETS: Final = 64
_MANY: Final = 1 << 20  # owners, so that none is the last
_CTYPE_SIZE: Final = 0x240


# In the order of the virtual table, behind two destructors.
_CTYPE_FUNCTIONS: Final = (
    *("10do_toupperEc", "10do_toupperEPcPKc", "10do_tolowerEc", "10do_tolowerEPcPKc"),
    *("8do_widenEc", "8do_widenEPKcS2_Pc", "9do_narrowEcc", "9do_narrowEPKcS2_cPc"),
)


def _ctype_table(process: EmulatedProcess) -> int:
    """The virtual table of ``std::ctype<char>``."""
    table = process.bind("_ZTVSt5ctypeIcE")
    functions = [process.bind("_ZNKSt5ctypeIcE" + name) for name in _CTYPE_FUNCTIONS]
    process.machine.write(table + 32, struct.pack(f"<{len(functions)}Q", *functions))
    return table + 16


def _classic_locale(process: EmulatedProcess) -> int:
    """The address of the classic ``std::locale::_Impl``: reference count, facets, their number."""
    if not process.locale:
        upper, lower = (process.store(struct.pack("<256i", *map(of, range(256)))) for of in (ctype.upper, ctype.lower))
        facet = struct.pack("<QQ16xQQ", _ctype_table(process), _MANY, upper, lower)
        facet += struct.pack("<Q", process.store(struct.pack("<256H", *map(ctype.classes, range(256)))))
        facet += b"\1" + bytes(range(256)) + bytes(range(256)) + b"\1"  # how to widen, how to narrow, each with a flag
        address = process.store(facet.ljust(_CTYPE_SIZE, b"\0"))
        facets = process.store(struct.pack("<Q", address) * _FACETS)
        process.locale = process.store(struct.pack("<QQQ", _MANY, facets, _FACETS))
    return process.locale


@LIBSTDCXX.matching(r"_ZNSt6localeC[12]E", r"_ZNSt6localeaSERKS_")
def _construct_locale(call: Call) -> int:
    call.machine.set_word(call.argument(0), _classic_locale(call.process))
    return call.argument(0)


@LIBSTDCXX.named("_ZNSt6locale7classicEv", "_ZNKSt8ios_base6getlocEv")
def _locale(call: Call) -> int:
    return call.process.store(struct.pack("<Q", _classic_locale(call.process)))


@LIBSTDCXX.matching(r"_ZSt9use_facetI(St7collate|NSt7__cxx117collate)IcE")
def _collation(call: Call) -> int:
    """A facet that only has virtual functions."""
    name = "_ZTVNSt7__cxx117collateIcEE" if "__cxx11" in call.name else "_ZTVSt7collateIcE"
    return call.process.store(struct.pack("<Q", call.process.bind(name) + 16))


@LIBSTDCXX.matching(r"virtual function of _ZTV(St7collate|NSt7__cxx117collate)IcE")
def _transform(call: Call) -> None:
    """``do_transform``: in the classic locale, texts are ordered by their bytes."""
    result, begin, end = call.result, call.argument(1), call.argument(2)
    text = call.machine.read(begin, end - begin) if end > begin else b""
    (CXX11 if "__cxx11" in call.name else COW).create(call.process, result, text)


@LIBSTDCXX.named("_ZNKSt6locale2id5_M_idEv")
def _facet_number(_: Call) -> int:
    """All are in the same place, in the classic locale here."""
    return 0


def classic_ctype(process: EmulatedProcess) -> int:
    """The address of the classic ``std::ctype<char>``."""
    return process.machine.word(process.machine.word(_classic_locale(process) + 8))


@LIBSTDCXX.matching(r"_ZSt9use_facetISt5ctypeIcE", r"_ZSt16__try_use_facetIKSt5ctypeIcE")
def _facet(call: Call) -> int:
    return classic_ctype(call.process)


@LIBSTDCXX.matching(r"_ZSt9has_facetISt5ctypeIcE")
def _has_facet(_: Call) -> int:
    return 1


@LIBSTDCXX.named("_ZNKSt5ctypeIcE10do_toupperEc", "_ZNKSt5ctypeIcE10do_tolowerEc")
def _change_case(call: Call) -> int:
    change = ctype.upper if "toupper" in call.name else ctype.lower
    return change(call.argument(1) & 0xFF)


@LIBSTDCXX.named("_ZNKSt5ctypeIcE10do_toupperEPcPKc", "_ZNKSt5ctypeIcE10do_tolowerEPcPKc")
def _change_cases(call: Call) -> int:
    change = ctype.upper if "toupper" in call.name else ctype.lower
    begin, end = call.argument(1), call.argument(2)
    if end > begin:
        call.machine.write(begin, bytes(map(change, call.machine.read(begin, end - begin))))
    return end


@LIBSTDCXX.named("_ZNKSt5ctypeIcE8do_widenEc", "_ZNKSt5ctypeIcE9do_narrowEcc")
def _same_character(call: Call) -> int:
    return call.argument(1) & 0xFF


@LIBSTDCXX.named("_ZNKSt5ctypeIcE8do_widenEPKcS2_Pc", "_ZNKSt5ctypeIcE9do_narrowEPKcS2_cPc")
def _same_characters(call: Call) -> int:
    begin, end, target = call.argument(1), call.argument(2), call.argument(4 if "narrow" in call.name else 3)
    if end > begin:
        call.machine.write(target, call.machine.read(begin, end - begin))
    return end


@LIBSTDCXX.matching(r"_ZNKSt5ctypeIcE13_M_(widen|narrow)_initEv", r"_ZNSt5ctypeIcED[012]Ev")
def _nothing_to_do(_: Call) -> None:
    """The tables of the facet are complete."""


@LIBSTDCXX.matching(r"_ZNSt7__cxx119to_stringE[ijlmxy]")
def _format_integer(call: Call) -> None:
    result, kind = call.result, call.name[-1]
    bits = 32 if kind in "ij" else 64
    value = call.argument(0) & ((1 << bits) - 1)
    if kind in "ilx" and value >> (bits - 1):
        value -= 1 << bits
    CXX11.create(call.process, result, str(value).encode())


# std::string_view arguments: (length, characters)


@LIBSTDCXX.matching(rf"_ZN{_CXX11_CLASS}17_S_to_string_viewESt17basic_string_view", r"_ZNSs17_S_to_string_viewE")
def _same_view(call: Call) -> int:
    length, characters = call.argument(0), call.argument(1)
    call.give_second(characters)
    return length


@LIBSTDCXX.matching(rf"_ZN{_CXX11_CLASS}12__sv_wrapperC[12]E", r"_ZNSs12__sv_wrapperC[12]E")
def _wrap_view(call: Call) -> None:
    call.machine.write(call.argument(0), struct.pack("<QQ", call.argument(1), call.argument(2)))


@LIBSTDCXX.matching(rf"_ZN{_CXX11_CLASS}C[12]ENS4_12__sv_wrapperERKS3_", r"_ZNSsC[12]ENSs12__sv_wrapperERKSaIcE")
def _construct_from_view(call: Call) -> None:
    """(this, length, characters, allocator)."""
    _set(call, call.machine.read(call.argument(2), call.argument(1)) if call.argument(1) else b"")


@LIBSTDCXX.matching(r"_ZNKSt(7__cxx11)?7collateIcE9transformE")
def _collated(call: Call) -> None:
    """(this, begin, end): in the classic locale, texts are ordered by their bytes."""
    result, begin, end = call.result, call.argument(1), call.argument(2)
    text = call.machine.read(begin, end - begin) if end > begin else b""
    (CXX11 if "__cxx11" in call.name else COW).create(call.process, result, text)


@_member("6assignEmc")
def _assign_repeated(call: Call) -> int:
    return _set(call, call.repeated(2, 1))


@LIBSTDCXX.matching(rf"_ZNK{_CXX11_CLASS}13get_allocatorEv", r"_ZNKSs13get_allocatorEv")
def _own_allocator(call: Call) -> None:
    """An object of an empty class, in memory."""
    _ = call.result


@_private("4dataEv")
def _own_characters(call: Call) -> int:
    return call.machine.word(call.argument(0))


@LIBSTDCXX.matching(rf"_ZNK{_CXX11_CLASS}7compareEmm", r"_ZNKSs7compareEmm")
def _compare_part(call: Call) -> int:
    """(this, position, length, another text[, position, length]): a string, or characters and their number."""
    text, at = _text(call), call.argument(1)
    if at > len(text):
        throw(call, "St12out_of_range", f"basic_string::compare: __pos (which is {at}) > this->size()")
    part = text[at : at + call.argument(2)]
    if "PKc" in call.name:
        other = _range(call, 3, 4) if call.name.endswith("PKcm") else call.machine.text(call.argument(3))
    else:
        other = _text(call, 3)
        if call.name.endswith("mm") and not call.name.endswith("Emm"):
            other = other[call.argument(4) :][: call.argument(5)]
    return (part > other) - (part < other)


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base10_M_reverseEv")
def _reverse(call: Call) -> None:
    machine, head = call.machine, call.argument(0)
    node = head
    for _ in range(_MOST_NODES):
        after, before = machine.words(node, 2)
        machine.write(node, struct.pack("<QQ", before, after))
        node = after
        if node == head:
            return


_MOST_NODES: Final = 1 << 20
