"""Doubles of libstdc++: node-based containers, hashes, locales and their facets, functions that fail.

What templates inline into an extension runs as it is; only the out-of-line parts need a stand-in. Layouts: libstdc++'s
bits/stl_tree.h, bits/stl_list.h, bits/hashtable_policy.h, bits/locale_facets.h.
"""

from __future__ import annotations

import struct
from typing import Final

from abiscan.emulation.bucket_counts import FIRST, buckets_for
from abiscan.emulation.doubles import Doubles, ctype
from abiscan.emulation.emulator import Emulator, Stop
from abiscan.emulation.process import Call, EmulatedProcess
from abiscan.emulation.strings import COW, CXX11

LIBSTDCXX: Final = Doubles()

_NPOS: Final = 0xFFFF_FFFF_FFFF_FFFF
_MURMUR: Final = 0xC6A4_A793_5BD1_E995
_FNV: Final = 0x100_0000_01B3
# Red-black trees: color, parent, left, right. Kept ordered but not balanced, which no reader of them notices.

_PARENT, _LEFT, _RIGHT = 8, 16, 24
_DEEPEST: Final = 100_000  # a tree that is not balanced may be as deep as it has nodes


@LIBSTDCXX.named("_ZSt29_Rb_tree_insert_and_rebalancebPSt18_Rb_tree_node_baseS0_RS_")
def _rb_tree_insert_and_rebalance(call: Call) -> None:
    machine = call.machine
    left, node, parent, header = call.argument(0) & 1, call.argument(1), call.argument(2), call.argument(3)
    # Black: the header alone is red, which is how ``_Rb_tree_decrement`` knows it (tree.cc).
    machine.write(node, struct.pack("<QQQQ", 1, parent, 0, 0))
    machine.set_word(parent + (_LEFT if left else _RIGHT), node)
    if parent == header:  # the first node is root, leftmost and rightmost
        machine.write(header + _PARENT, struct.pack("<QQQ", node, node, node))
    elif left and machine.word(header + _LEFT) == parent:
        machine.set_word(header + _LEFT, node)
    elif not left and machine.word(header + _RIGHT) == parent:
        machine.set_word(header + _RIGHT, node)


@LIBSTDCXX.named("_ZSt28_Rb_tree_rebalance_for_erasePSt18_Rb_tree_node_baseRS_")
def _rb_tree_rebalance_for_erase(call: Call) -> int:
    """Remove a node from its tree and return it. A node with two children is replaced by the next in order."""
    machine, node, header = call.machine, call.argument(0), call.argument(1)
    _, parent, left, right = machine.words(node, 4)
    heir = left or right
    # As in tree.cc, the node is taken out of its place, not its value: iterators to all other nodes stay valid.
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
    """Attach a node, or none for 0, below ``parent``."""
    machine.set_word(parent + side, child)
    if child:
        machine.set_word(child + _PARENT, parent)


def _end_of(machine: Emulator, node: int, side: int) -> int:
    """Return the last node on one side of the tree below ``node``.

    :raises Stop: there is no end: the tree has a cycle
    """
    for _ in range(_DEEPEST):
        following = machine.word(node + side)
        if not following:
            return node
        node = following
    raise Stop("std::map whose tree does not end", machine.vm.pc)


def _tree_neighbour(call: Call, near: int, far: int) -> int:
    """Return the neighbour of a node in order, on the side ``near``.

    :raises Stop: the tree has a cycle
    """
    machine, node = call.machine, call.argument(0)
    if child := machine.word(node + near):
        return _end_of(machine, child, far)
    # Up until the way came from the other side. At the root that ends at the header, whose parent is the root.
    parent = machine.word(node + _PARENT)
    for _ in range(_DEEPEST):
        if node != machine.word(parent + near):
            return parent if machine.word(node + near) != parent else node
        node, parent = parent, machine.word(parent + _PARENT)
    raise Stop("std::map whose tree does not end", call.return_address)


@LIBSTDCXX.matching(r"_ZSt18_Rb_tree_incrementP")
def _rb_tree_increment(call: Call) -> int:
    return _tree_neighbour(call, _RIGHT, _LEFT)


@LIBSTDCXX.matching(r"_ZSt18_Rb_tree_decrementP")
def _rb_tree_decrement(call: Call) -> int:
    machine, node = call.machine, call.argument(0)
    is_header = machine.read(node, 4) == bytes(4) and machine.word(machine.word(node + _PARENT) + _PARENT) == node
    return machine.word(node + _RIGHT) if is_header else _tree_neighbour(call, _LEFT, _RIGHT)


# Hash tables


def _next_bucket_count_of(call: Call, policy: int, requested: int) -> int:
    """Return the number of buckets for at least so many, and note it in the policy (src/c++11/hashtable_c++0x.cc)."""
    if not requested:
        return 1
    count = buckets_for(requested)
    if count is None:
        raise Stop(f"a hash table of {requested} buckets", call.return_address)
    (load,) = struct.unpack("<f", call.machine.read(policy, 4))
    call.machine.set_word(policy + 8, int(count * load))
    return count


@LIBSTDCXX.named("_ZNKSt8__detail20_Prime_rehash_policy11_M_next_bktEm")
def _prime_rehash_policy_next_bkt(call: Call) -> int:
    return _next_bucket_count_of(call, call.argument(0), call.argument(1))


@LIBSTDCXX.named("_ZNKSt8__detail20_Prime_rehash_policy14_M_need_rehashEmmm")
def _prime_rehash_policy_need_rehash(call: Call) -> int:
    """Return ``pair<bool, size_t>`` in the two result registers: whether, and to how many buckets."""
    policy, buckets, elements, added = (call.argument(index) for index in range(4))
    until = call.machine.word(policy + 8)
    call.give_second(0)
    if elements + added <= until:
        return 0
    (load,) = struct.unpack("<f", call.machine.read(policy, 4))
    # The limit is 0 as long as nothing is allocated: the first bucket count is for 11 elements (hashtable_c++0x.cc).
    needed = max(elements + added, 0 if until else FIRST) / (load or 1.0)
    if needed < buckets:
        call.machine.set_word(policy + 8, int(buckets * load))
        return 0
    call.give_second(_next_bucket_count_of(call, policy, max(int(needed) + 1, 2 * buckets)))
    return 1


@LIBSTDCXX.named("_ZSt11_Hash_bytesPKvmm")
def _hash_bytes(call: Call) -> int:
    """Compute MurmurHash2, of 64 bits (libsupc++, hash_bytes.cc)."""
    content, value = _hashed_argument(call), call.argument(2)
    value ^= len(content) * _MURMUR & _NPOS
    for (word,) in struct.iter_unpack("<Q", content[: len(content) & ~7]):
        value = (value ^ _mixed(word * _MURMUR & _NPOS) * _MURMUR) * _MURMUR & _NPOS
    if remainder := content[len(content) & ~7 :]:
        value = (value ^ int.from_bytes(remainder, "little")) * _MURMUR & _NPOS
    return _mixed(_mixed(value) * _MURMUR & _NPOS)


def _hashed_argument(call: Call) -> bytes:
    return call.machine.read(call.argument(0), call.argument(1)) if call.argument(1) else b""


def _mixed(value: int) -> int:
    return value ^ value >> 47


@LIBSTDCXX.named("_ZSt15_Fnv_hash_bytesPKvmm")
def _fnv_hash_bytes(call: Call) -> int:
    """Compute FNV-1a, of 64 bits (libsupc++, hash_bytes.cc)."""
    value = call.argument(2)
    for (character,) in struct.iter_unpack("<b", _hashed_argument(call)):  # with its sign
        value = (value ^ character) * _FNV & _NPOS
    return value


# Lists


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base7_M_hookEPS0_")
def _list_node_hook(call: Call) -> None:
    machine, node, after = call.machine, call.argument(0), call.argument(1)
    before = machine.word(after + 8)
    machine.write(node, struct.pack("<QQ", after, before))
    machine.set_word(before, node)
    machine.set_word(after + 8, node)


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base9_M_unhookEv")
def _list_node_unhook(call: Call) -> None:
    machine = call.machine
    after, before = machine.words(call.argument(0), 2)
    machine.set_word(before, after)
    machine.set_word(after + 8, before)


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base11_M_transferEPS0_S1_")
def _list_node_transfer(call: Call) -> None:
    """Move the nodes from ``first`` up to ``last`` in front of ``this``."""
    machine, this_address, first, last = call.machine, call.argument(0), call.argument(1), call.argument(2)
    if this_address == last:
        return
    end, before_first, before_this = machine.word(last + 8), machine.word(first + 8), machine.word(this_address + 8)
    machine.set_word(end, this_address)
    machine.set_word(before_first, last)
    machine.set_word(before_this, first)
    machine.set_word(this_address + 8, end)
    machine.set_word(last + 8, before_first)
    machine.set_word(first + 8, before_this)


_MOST_NODES: Final = 1 << 20


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base10_M_reverseEv")
def _list_node_reverse(call: Call) -> None:
    machine, head = call.machine, call.argument(0)
    node = head
    for _ in range(_MOST_NODES):
        after, before = machine.words(node, 2)
        machine.write(node, struct.pack("<QQ", before, after))
        node = after
        if node == head:
            return


@LIBSTDCXX.named("_ZNSt8__detail15_List_node_base4swapERS0_S1_")
def _list_node_swap(call: Call) -> None:
    machine, heads = call.machine, (call.argument(0), call.argument(1))
    # The head of a list is one of its nodes: those of an empty one lead to itself.
    links = [machine.words(head, 2) for head in heads]
    for head, item, (after, before) in zip(heads, reversed(heads), reversed(links), strict=True):
        if after == item:  # the other list is empty
            machine.write(head, struct.pack("<QQ", head, head))
        else:
            machine.write(head, struct.pack("<QQ", after, before))
            machine.set_word(after + 8, head)
            machine.set_word(before, head)


# Texts of numbers


@LIBSTDCXX.matching(r"_ZNSt7__cxx119to_stringE[ijlmxy]")
def _to_string(call: Call) -> None:
    result, kind = call.result, call.name[-1]
    bits = 32 if kind in "ij" else 64
    value = call.argument(0) & ((1 << bits) - 1)
    if kind in "ilx" and value >> (bits - 1):
        value -= 1 << bits
    CXX11.create(call.process, result, str(value).encode())


# Locales. Only the classic one exists, and its one facet is std::ctype<char>, which std::regex looks characters up in:
# tables of upper and lower case and of the classes of <ctype.h>, then two tables that map every character to itself, a
# flag before the first and behind the second that they are complete (bits/locale_facets.h). The locale of the process
# is the classic one, as Python leaves it: the C++ library has its own.


_FACETS: Final = 64
_MANY: Final = 1 << 20  # owners, so that none is the last
_CTYPE_SIZE: Final = 0x240
# In the order of the virtual table, behind two destructors.
_CTYPE_FUNCTIONS: Final = (
    *("10do_toupperEc", "10do_toupperEPcPKc", "10do_tolowerEc", "10do_tolowerEPcPKc"),
    *("8do_widenEc", "8do_widenEPKcS2_Pc", "9do_narrowEcc", "9do_narrowEPKcS2_cPc"),
)


def _ctype_table(process: EmulatedProcess) -> int:
    """Return the virtual table of ``std::ctype<char>``."""
    table = process.bind("_ZTVSt5ctypeIcE")
    functions = [process.bind("_ZNKSt5ctypeIcE" + name) for name in _CTYPE_FUNCTIONS]
    process.machine.write(table + 32, struct.pack(f"<{len(functions)}Q", *functions))
    return table + 16


def _classic_locale(process: EmulatedProcess) -> int:
    """Return the address of the classic ``std::locale::_Impl``: reference count, facets, their number."""
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
def _locale_constructor(call: Call) -> int:
    """Construct a ``std::locale``. Takes (this[, name or another one, ...]); whether a machine has another locale
    than the classic one is not known.
    """
    at = {"_ZNSt6localeC1EPKc": 1, "_ZNSt6localeC2EPKc": 1}.get(call.name, 2 if "PKc" in call.name else 0)
    if at and call.machine.text(call.argument(at)) not in (b"C", b"POSIX"):
        call.outcome_is_unknown("an exception")
    call.machine.set_word(call.argument(0), _classic_locale(call.process))
    return call.argument(0)


@LIBSTDCXX.matching(r"_ZNKSt6locale4name(B5cxx11)?Ev$")
def _locale_name(call: Call) -> None:
    (CXX11 if "cxx11" in call.name else COW).create(call.process, call.result, b"C")


@LIBSTDCXX.named("_ZNKSt6localeeqERKS_")
def _locale_equal(call: Call) -> int:
    return int(call.machine.word(call.argument(0)) == call.machine.word(call.argument(1)))


@LIBSTDCXX.named("_ZNSt6locale7classicEv", "_ZNKSt8ios_base6getlocEv")
def _locale_classic(call: Call) -> int:
    return call.process.store(struct.pack("<Q", _classic_locale(call.process)))


@LIBSTDCXX.named("_ZNKSt6locale2id5_M_idEv")
def _locale_id(_: Call) -> int:
    """Do nothing: all are in the same place, in the classic locale here."""
    return 0


def classic_ctype(process: EmulatedProcess) -> int:
    """Return the address of the classic ``std::ctype<char>``."""
    return process.machine.word(process.machine.word(_classic_locale(process) + 8))


@LIBSTDCXX.matching(r"_ZSt9use_facetISt5ctypeIcE", r"_ZSt16__try_use_facetIKSt5ctypeIcE")
def _use_facet_ctype(call: Call) -> int:
    return classic_ctype(call.process)


@LIBSTDCXX.matching(r"_ZSt9has_facetISt5ctypeIcE")
def _has_facet_ctype(_: Call) -> int:
    return 1


@LIBSTDCXX.matching(r"_ZSt9use_facetI(St7collate|NSt7__cxx117collate)IcE")
def _use_facet_collate(call: Call) -> int:
    """Return a facet that only has virtual functions."""
    name = "_ZTVNSt7__cxx117collateIcEE" if "__cxx11" in call.name else "_ZTVSt7collateIcE"
    return call.process.store(struct.pack("<Q", call.process.bind(name) + 16))


@LIBSTDCXX.named("_ZNKSt5ctypeIcE10do_toupperEc", "_ZNKSt5ctypeIcE10do_tolowerEc")
def _ctype_do_toupper(call: Call) -> int:
    change = ctype.upper if "toupper" in call.name else ctype.lower
    return change(call.argument(1) & 0xFF)


@LIBSTDCXX.named("_ZNKSt5ctypeIcE10do_toupperEPcPKc", "_ZNKSt5ctypeIcE10do_tolowerEPcPKc")
def _ctype_do_toupper_range(call: Call) -> int:
    change = ctype.upper if "toupper" in call.name else ctype.lower
    begin, end = call.argument(1), call.argument(2)
    if end > begin:
        call.machine.write(begin, bytes(map(change, call.machine.read(begin, end - begin))))
    return end


@LIBSTDCXX.named("_ZNKSt5ctypeIcE8do_widenEc", "_ZNKSt5ctypeIcE9do_narrowEcc")
def _ctype_do_widen(call: Call) -> int:
    return call.argument(1) & 0xFF


@LIBSTDCXX.named("_ZNKSt5ctypeIcE8do_widenEPKcS2_Pc", "_ZNKSt5ctypeIcE9do_narrowEPKcS2_cPc")
def _ctype_do_widen_range(call: Call) -> int:
    begin, end, target = call.argument(1), call.argument(2), call.argument(4 if "narrow" in call.name else 3)
    if end > begin:
        call.machine.write(target, call.machine.read(begin, end - begin))
    return end


@LIBSTDCXX.matching(r"_ZNKSt5ctypeIcE13_M_(widen|narrow)_initEv", r"_ZNSt5ctypeIcED[012]Ev")
def _ctype_widen_init(_: Call) -> None:
    """Do nothing: the tables of the facet are complete."""


@LIBSTDCXX.matching(
    r"virtual function of _ZTV(St7collate|NSt7__cxx117collate)IcE", r"_ZNKSt(7__cxx11)?7collateIcE9transformE"
)
def _collate_transform(call: Call) -> None:
    """Return the sort key of a text, as ``std::collate::transform`` and ``do_transform`` do. Takes (this, begin, end).

    In the classic locale, texts are ordered by their bytes.
    """
    result, begin, end = call.result, call.argument(1), call.argument(2)
    text = call.machine.read(begin, end - begin) if end > begin else b""
    (CXX11 if "__cxx11" in call.name else COW).create(call.process, result, text)


# std::pmr: every resource gives memory that is never taken back


@LIBSTDCXX.matching(r"_ZNSt3pmr(20get_default_resource|19new_delete_resource)Ev$")
def _get_default_resource(call: Call) -> int:
    place = call.process.bind("a resource of memory")
    call.machine.set_word(place, call.process.bind("_ZTVNSt3pmr a resource of memory") + 16)
    return place


@LIBSTDCXX.matching(r"_ZNSt3pmr2[68](un)?synchronized_pool_resourceC[12]ERKNS_12pool_optionsEPNS_15memory_resourceE")
def _pool_resource_constructor(call: Call) -> None:
    class_name = call.name[len("_ZN") : call.name.index("C", call.name.index("pool_resource"))]
    call.machine.set_word(call.argument(0), call.process.bind(f"_ZTVN{class_name}E") + 16)


@LIBSTDCXX.named("_ZNSt3pmr25monotonic_buffer_resource13_M_new_bufferEmm")
def _monotonic_buffer_new_buffer(call: Call) -> None:
    """Allocate a further buffer of a memory resource. Takes (this, size, alignment); virtual pointer, then where the
    buffer is, and how much is left.
    """
    size = max(2 * call.argument(1), 128)
    buffer = call.process.allocate(size, max(call.argument(2), 16))
    call.machine.write(call.argument(0) + 8, struct.pack("<QQ", buffer, size))


@LIBSTDCXX.named("pmr allocate")
def _memory_resource_allocate(call: Call) -> int:
    """Allocate from a memory resource. Takes (this, size, alignment)."""
    return call.process.allocate(call.argument(1), max(call.argument(2), 16))


@LIBSTDCXX.named("pmr is equal")
def _memory_resource_is_equal(call: Call) -> int:
    return int(call.argument(0) == call.argument(1))


@LIBSTDCXX.matching(
    r"_ZNSt3pmr25monotonic_buffer_resource(18_M_release_buffersEv|D[012]Ev)",
    r"_ZNSt3pmr15memory_resourceD[012]Ev",
    r"_ZNSt3pmr2[68](un)?synchronized_pool_resource(7releaseEv|D[012]Ev)",
    r"pmr (destroy|delete|deallocate)$",
)
def _memory_resource_destructor(_: Call) -> None:
    """Do nothing: memory is never reused."""
