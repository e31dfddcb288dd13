"""Doubles of ``std::filesystem::path``: what is in the library of it, for the parts that are inlined.

A path is its text and a tagged pointer to its components: the two lowest bits say what the path is if it has one
component; a list is its length, its capacity, then components, each a path and where it begins. Sources: libstdc++'s
``bits/fs_path.h`` and ``fs_path.cc``.
"""

from __future__ import annotations

import re
import struct
from typing import Final, NoReturn

from abiscan.emulation.doubles import Doubles
from abiscan.emulation.doubles.error_codes import NO_FILE, category, message, set_error
from abiscan.emulation.doubles.exceptions import throw
from abiscan.emulation.environment import may_exist
from abiscan.emulation.process import Call
from abiscan.emulation.strings import CXX11
from abiscan.regex import regex

PATHS: Final = Doubles()

_PATH: Final = "NSt10filesystem7__cxx114path"
_CONST: Final = "NKSt10filesystem7__cxx114path"
_LIST_AT: Final = 32  # in a path, behind the text
_COMPONENT_SIZE: Final = 48
_HEAD_SIZE: Final = 8  # of a list
_MULTIPLE, _ROOT, _FILE = 0, 2, 3
_TAG: Final = 3


def _path_components(text: bytes) -> list[tuple[bytes, int, int]]:
    """Return the components of a path: text, where it begins, what it is."""
    # As ``_M_split_cmpts``: a root, then the names; a slash at the end is one more component, which is empty.
    results = []
    if text.startswith(b"/"):
        results.append((b"/", 0, _ROOT))
    at = 0
    for part in text.split(b"/"):
        if part:
            results.append((part, at, _FILE))
        at += len(part) + 1
    if text.endswith(b"/") and text.strip(b"/"):
        results.append((b"", len(text), _FILE))
    return results


def _path_argument(call: Call, index: int) -> bytes:
    return CXX11.read(call.process, call.argument(index))


def _construct_path(call: Call, at: int, text: bytes) -> None:
    CXX11.create(call.process, at, text)
    _split_path(call, at, text)


def _split_path(call: Call, at: int, text: bytes) -> None:
    parts = _path_components(text)
    # A single component needs no list: the tag says what the whole path is (fs_path.h, ``_List``).
    if len(parts) <= 1:
        call.machine.set_word(at + _LIST_AT, parts[0][2] if parts else _FILE)
        return
    begin = call.process.allocate(_HEAD_SIZE + len(parts) * _COMPONENT_SIZE)
    call.machine.write(begin, struct.pack("<ii", len(parts), len(parts)))
    for number, (part, place, kind) in enumerate(parts):
        component = begin + _HEAD_SIZE + number * _COMPONENT_SIZE
        CXX11.create(call.process, component, part)
        call.machine.write(component + _LIST_AT, struct.pack("<QQ", kind, place))
    call.machine.set_word(at + _LIST_AT, begin)


@PATHS.named(f"_Z{_PATH}14_M_split_cmptsEv")
def _path_split_cmpts(call: Call) -> None:
    _split_path(call, call.argument(0), _path_argument(call, 0))


@PATHS.matching(rf"_Z{_PATH}5_ListC[12]Ev")
def _path_list_constructor(call: Call) -> None:
    call.machine.set_word(call.argument(0), _FILE)


@PATHS.matching(rf"_Z{_PATH}5_ListC[12]ERKS2_", rf"_Z{_PATH}5_ListaSERKS2_")
def _path_list_copy_constructor(call: Call) -> int:
    """Copy a list by sharing its components, which are never changed."""
    call.machine.set_word(call.argument(0), call.machine.word(call.argument(1)))
    return call.argument(0)


@PATHS.matching(rf"_Z{_CONST}5_List(5begin|3end|5front|4back)Ev", rf"_Z{_PATH}5_List(5begin|3end|5front|4back)Ev")
def _path_list_begin(call: Call) -> int:
    begin = call.machine.word(call.argument(0)) & ~_TAG
    count = call.machine.word(begin) & 0xFFFF_FFFF
    first = begin + _HEAD_SIZE
    if "3end" in call.name:
        return first + count * _COMPONENT_SIZE
    return first + (count - 1) * _COMPONENT_SIZE if "4back" in call.name else first


@PATHS.matching(rf"_Z{_CONST}5_List13_Impl_deleterclE", rf"_Z{_PATH}5_List5clearEv", rf"_Z{_PATH}D[12]Ev")
def _path_list_destructor(call: Call) -> None:
    if "clear" in call.name:
        call.machine.set_word(call.argument(0), call.machine.word(call.argument(0)) & _TAG)


@PATHS.named(f"_Z{_CONST}17_M_find_extensionEv")
def _path_find_extension(call: Call) -> int:
    """Find the extension of a path. Takes (the text of the last component, where its extension begins), in two
    registers.
    """
    this_address, text = call.argument(0), _path_argument(call, 0)
    parts = _path_components(text)
    if not parts or parts[-1][2] != _FILE or not parts[-1][0]:
        call.give_second(0)
        return 0
    name = parts[-1][0]
    # A dot in front begins no extension (C++17, [fs.path.decompose]).
    at = name.rfind(b".") if name not in (b".", b"..") else -1
    call.give_second(at if at > 0 else 0xFFFF_FFFF_FFFF_FFFF)
    if len(parts) == 1:
        return this_address
    begin = call.machine.word(this_address + _LIST_AT) & ~_TAG
    return begin + _HEAD_SIZE + (len(parts) - 1) * _COMPONENT_SIZE


@PATHS.named(f"_Z{_CONST}11parent_pathEv", f"_Z{_CONST}9root_pathEv", f"_Z{_CONST}14root_directoryEv")
def _path_parent_path(call: Call) -> None:
    result, text = call.result, _path_argument(call, 0)
    root = b"/" if text.startswith(b"/") else b""
    if "parent" in call.name:
        head = text.rpartition(b"/")[0].rstrip(b"/")
        _construct_path(call, result, head or root)
    else:
        _construct_path(call, result, root)


@PATHS.named(f"_Z{_CONST}13relative_pathEv")
def _path_relative_path(call: Call) -> None:
    result = call.result
    _construct_path(call, result, _path_argument(call, 0).lstrip(b"/"))


@PATHS.matching(rf"_Z{_CONST}\d+has_(\w+?)Ev$")
def _path_has_part(call: Call) -> int:
    text = _path_argument(call, 0)
    subject = call.name[call.name.index("has_") + 4 : -2]
    relative = text.lstrip(b"/")
    return int(
        {
            "root_path": text.startswith(b"/"),
            "root_directory": text.startswith(b"/"),
            "root_name": False,
            "relative_path": bool(relative),
            "parent_path": b"/" in text,
            "filename": bool(text.rpartition(b"/")[2]),
        }.get(subject, False)
    )


@PATHS.named(f"_Z{_PATH}dVERKS1_")
def _path_append(call: Call) -> int:
    """Emulate ``operator/=``."""
    this_address, text, second = call.argument(0), _path_argument(call, 0), _path_argument(call, 1)
    joined = second if second.startswith(b"/") else text + (b"/" if text and not text.endswith(b"/") else b"") + second
    _construct_path(call, this_address, joined)
    return this_address


@PATHS.matching(rf"_Z{_PATH}9_M_appendESt17basic_string_view")
def _path_append_text(call: Call) -> None:
    """Append to a path. Takes (this, length, text); ``operator/=`` with a text."""
    this_address, text = call.argument(0), _path_argument(call, 0)
    second = call.machine.read(call.argument(2), call.argument(1)) if call.argument(1) else b""
    joined = second if second.startswith(b"/") else text + (b"/" if text and not text.endswith(b"/") else b"") + second
    _construct_path(call, this_address, joined)


@PATHS.matching(rf"_Z{_PATH}(pLERKS1_|9_M_concatESt17basic_string_view)")
def _path_concat(call: Call) -> int:
    this_address, text = call.argument(0), _path_argument(call, 0)
    is_view = "9_M_concat" in call.name
    second = call.machine.read(call.argument(2), call.argument(1)) if is_view else _path_argument(call, 1)
    _construct_path(call, this_address, text + second)
    return this_address


@PATHS.named(f"_Z{_PATH}aSERKS1_")
def _path_assign(call: Call) -> int:
    _construct_path(call, call.argument(0), _path_argument(call, 1))
    return call.argument(0)


@PATHS.matching(rf"_Z{_CONST}7compareERKS1_$")
def _path_compare(call: Call) -> int:
    first, second = ([part for part, _, _ in _path_components(_path_argument(call, index))] for index in (0, 1))
    return (first > second) - (first < second)


@PATHS.named(f"_Z{_PATH}15remove_filenameEv")
def _path_remove_filename(call: Call) -> int:
    head, separator, _ = _path_argument(call, 0).rpartition(b"/")
    _construct_path(call, call.argument(0), head + separator)
    return call.argument(0)


@PATHS.named(f"_Z{_PATH}16replace_filenameERKS1_")
def _path_replace_filename(call: Call) -> int:
    head, separator, _ = _path_argument(call, 0).rpartition(b"/")
    _construct_path(call, call.argument(0), head + separator + _path_argument(call, 1))
    return call.argument(0)


@PATHS.named(f"_Z{_CONST}18lexically_relativeERKS1_", f"_Z{_CONST}19lexically_proximateERKS1_")
def _path_lexically_relative(call: Call) -> None:
    """Make a path relative (C++17, [fs.path.gen]): empty where there is no way, or then the path itself."""
    result = call.result
    own, base = _path_argument(call, 0), _path_argument(call, 1)
    text = b""
    if own.startswith(b"/") == base.startswith(b"/"):
        first, second = ([part for part, _, _ in _path_components(path)] for path in (own, base))
        same = 0
        while same < min(len(first), len(second)) and first[same] == second[same]:
            same += 1
        remainder = second[same:]
        # How many names of the base have to be left again; a base that goes above itself cannot be left by its name.
        up = sum(1 if part not in (b"", b".", b"..") else -1 if part == b".." else 0 for part in remainder)
        if up == 0 and not [part for part in first[same:] if part]:
            text = b"."
        elif up >= 0:
            text = b"/".join((*[b".."] * up, *first[same:]))
    _construct_path(call, result, text or (own if "proximate" in call.name else b""))


@PATHS.named(f"_Z{_PATH}17replace_extensionERKS1_")
def _path_replace_extension(call: Call) -> int:
    text, second = _path_argument(call, 0), _path_argument(call, 1)
    head, separator, name = text.rpartition(b"/")
    at = name.rfind(b".")
    stem = name[:at] if at > 0 and name not in (b".", b"..") else name
    dot = b"." if second and not second.startswith(b".") else b""
    _construct_path(call, call.argument(0), head + separator + stem + dot + second)
    return call.argument(0)


@PATHS.named(f"_Z{_CONST}16lexically_normalEv")
def _path_lexically_normal(call: Call) -> None:
    result, text = call.result, _path_argument(call, 0)
    parts: list[bytes] = []
    root = b"/" if text.startswith(b"/") else b""
    for part in text.split(b"/"):
        if part == b".." and parts and parts[-1] != b"..":
            parts.pop()
        elif part not in (b"", b".") and not (part == b".." and root):
            parts.append(part)
    end = b"/" if parts and text.endswith((b"/", b"/.")) else b""
    _construct_path(call, result, root + b"/".join(parts) + end if parts else root or (b"." if text else b""))


# Functions of std::filesystem that need a file: there is none, and none can be made

_OPERATIONS: Final = {
    "file_size": "cannot get file size",
    "create_directory": "cannot create directory",
    "create_directories": "cannot create directories",
    "create_symlink": "cannot create symlink",
    "last_write_time": "cannot get file time",
    "hard_link_count": "cannot get link count",
    "rename": "cannot rename",
    "copy": "cannot copy",
    "copy_file": "cannot copy file",
    "read_symlink": "read_symlink",
    "canonical": "cannot make canonical path",
    "is_empty": "cannot check if file is empty",
    "resize_file": "cannot resize file",
    "permissions": "cannot set permissions",
}
_FAILED: Final = {"create_directory": 0, "create_directories": 0, "copy_file": 0, "is_empty": 0}
_OPERATION: Final = regex(r"_ZNSt10filesystem\d+([a-z_]+)E")
_ERROR: Final = "NSt10filesystem7__cxx1116filesystem_errorE"
_ITERATOR: Final = "_ZNSt10filesystem7__cxx11(18directory_iterator|28recursive_directory_iterator)C[12]E"


def _fail_with_error_code(call: Call, text: str, path: bytes) -> NoReturn:
    shown = f"filesystem error: {text}: {message(call, NO_FILE)} [{path.decode('utf-8', 'backslashreplace')}]"
    throw(call, _ERROR, shown, struct.pack("<QQQQ", NO_FILE, category(call.process, "generic"), 0, 0))


@PATHS.matching(*(rf"_ZNSt10filesystem{len(name)}{name}ERK" for name in _OPERATIONS))
def _filesystem_exists(call: Call) -> int:
    """Answer an operation of ``std::filesystem``. Takes (path, …[, error code])."""
    match = _OPERATION.match(call.name)
    assert match is not None
    name = match[1]
    if name in ("read_symlink", "canonical"):
        _construct_path(call, call.result, b"")
    path = _path_argument(call, 0)
    if not call.name.endswith("RSt10error_code"):
        if may_exist(path):
            call.outcome_is_unknown("an exception")
        _fail_with_error_code(call, _OPERATIONS[name], path)
    if may_exist(path):
        call.answer_is_unknown()
    count = len(re.findall("NS_7__cxx114path|ES4_|RKS1_", call.name))
    set_error(call, call.argument(max(count, 1)))
    return _FAILED.get(name, 0xFFFF_FFFF_FFFF_FFFF)


@PATHS.matching(r"_ZNSt10filesystem(6remove|10remove_all)ERK")
def _filesystem_remove(call: Call) -> int:
    """Emulate ``std::filesystem::remove``. Takes (path[, error code]); there is nothing to remove, which is no
    error.
    """
    if call.name.endswith("RSt10error_code"):
        call.machine.write(call.argument(1), bytes(4))
        call.machine.set_word(call.argument(1) + 8, category(call.process, "system"))
    if may_exist(_path_argument(call, 0)):
        call.answer_is_unknown()
    return 0


@PATHS.matching(r"_ZNSt10filesystem19temp_directory_pathB5cxx11E")
def _filesystem_temp_directory_path(call: Call) -> None:
    """Return the folder of temporary files. Takes ([error code])."""
    result = call.result
    if call.name.endswith("RSt10error_code"):
        call.machine.write(call.argument(0), bytes(4))
        call.machine.set_word(call.argument(0) + 8, category(call.process, "system"))
    if any(call.process.environment.get(name) for name in (b"TMPDIR", b"TMP", b"TEMP", b"TEMPDIR")):
        call.answer_is_unknown()
    _construct_path(call, result, b"/tmp")


@PATHS.matching(_ITERATOR)
def _directory_iterator_constructor(call: Call) -> None:
    """Construct a directory iterator. Takes (this, path, options, error code); an iterator at the end."""
    error, path = call.argument(3), _path_argument(call, 1)
    if may_exist(path):
        call.outcome_is_unknown("an exception" if not error else "a branch")
    if not error:
        text = f"{'recursive ' if 'recursive' in call.name else ''}directory iterator cannot open directory"
        _fail_with_error_code(call, text, path)
    set_error(call, error)
    call.machine.write(call.argument(0), bytes(16))


@PATHS.matching(
    r"_ZNSt10filesystem12current_pathB5cxx11Ev$", r"_ZNSt10filesystem12current_pathB5cxx11ERSt10error_code$"
)
def _filesystem_current_path(call: Call) -> None:
    """Return a folder: which one it is, is not known."""
    result = call.result
    call.answer_is_unknown()
    _construct_path(call, result, b"/")


@PATHS.matching(r"_ZNSt10filesystem8absoluteERK")
def _filesystem_absolute(call: Call) -> None:
    result = call.result
    path = _path_argument(call, 0)
    if not path.startswith(b"/"):
        call.answer_is_unknown()
    _construct_path(call, result, path if path.startswith(b"/") else b"/" + path)
