"""Reads images of Windows and macOS with lief, which takes a quarter of a second to import."""

from __future__ import annotations

import itertools
import struct
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Final

from abiscan.binary.by_lief import lief_module
from abiscan.binary.elf import Machine
from abiscan.binary.image import PE_MAGIC, Images, ImageSystem, ImportedName, LibraryImage, NeededImage
from abiscan.binary.ownership import is_torch_symbol
from abiscan.errors import InputError
from abiscan.words import plural

_WEAK_LOOKUP: Final = -3  # BIND_SPECIAL_DYLIB_WEAK_LOOKUP of mach-o/loader.h
_N_EXT, _STAB_TYPE_EXTERNAL = 0x01, 0xEF  # of nlist.n_type: an external symbol that is undefined has the first alone
_DAMAGED: Final = "download or build it again"


def read_images(content: bytes, subject: str, *, exports_only: bool = False) -> Images:
    """Return the parts of a PE or Mach-O file for x86_64 and aarch64.

    :param subject: how messages name the file
    :param exports_only: leave out what they import, which takes longest
    :raises InputError: it is damaged, or has no such part
    """
    read = _portable_executable if content.startswith(PE_MAGIC) else _universal_images
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # numbers that are no member of an enumeration
            images = {image.machine: image for image in read(content, subject, exports_only=exports_only)}
    except (InputError, MemoryError):
        raise
    except Exception as error:  # such as for the number of an unknown machine, of which there is no object of Python
        raise InputError(subject, "is damaged: it has values that the format does not know", _DAMAGED) from error
    if not images:
        raise InputError(subject, "is not for x86_64 or aarch64", "only these are supported")
    return images


def _portable_executable(content: bytes, subject: str, *, exports_only: bool) -> Iterator[LibraryImage]:
    lief = lief_module()
    # What is not asked for is not parsed.
    config = lief.PE.ParserConfig()
    config.parse_signature = config.parse_rsrc = config.parse_reloc = config.parse_exceptions = False
    config.parse_imports = not exports_only
    binary = lief.PE.parse(content, config)
    if binary is None:
        raise InputError(subject, "is damaged: its headers are not those of a PE file", _DAMAGED)
    headers = (0, binary.optional_header.sizeof_headers)
    _require_all(subject, content, (headers, *((section.offset, section.size) for section in binary.sections)))
    if len(binary.sections) != binary.header.numberof_sections:
        raise InputError(subject, "is damaged: not all of its sections can be read", _DAMAGED)
    _require_tables(subject, lief, binary, exports_only=exports_only)
    # The parser leaves out what it cannot read, which must not make a file look as if it needed less.
    if any(len(library.entries) != _count_thunks(content, binary, library) for library in binary.imports):
        raise InputError(subject, "is damaged: not all of its imports can be read", _DAMAGED)
    types = lief.PE.Header.MACHINE_TYPES
    machines = {getattr(types, machine.traits.pe): machine for machine in Machine}
    if binary.header.machine not in machines:
        return
    export = binary.get_export() if binary.has_exports else None
    yield LibraryImage(
        system=ImageSystem.WINDOWS,
        machine=machines[binary.header.machine],
        name=_decode_name(export.name) if export else None,
        needed=(
            *(NeededImage(name=_decode_name(library.name), optional=False) for library in binary.imports),
            *(NeededImage(name=_decode_name(library.name), optional=True) for library in binary.delay_imports),
        ),
        imports=tuple(
            ImportedName(
                name=f"#{entry.ordinal}" if entry.is_ordinal else _decode_name(entry.name),
                library=_decode_name(library.name),
            )
            for library in binary.imports
            for entry in library.entries
        ),
        exports=frozenset(_exported_names(export)) if export else frozenset(),
    )


def _require_tables(subject: str, lief: Any, binary: Any, *, exports_only: bool) -> None:
    """Reject a file of which lief leaves out a table that the header names."""
    types = lief.PE.DataDirectory.TYPES
    tables = {types.EXPORT_TABLE: binary.has_exports}
    if not exports_only:
        tables |= {types.IMPORT_TABLE: binary.has_imports, types.DELAY_IMPORT_DESCRIPTOR: binary.has_delay_imports}
    for table, is_read in tables.items():
        directory = binary.data_directory(table)
        # Windows ignores the stated size of the table of imports.
        is_there = directory is not None and directory.rva and (directory.size or table == types.IMPORT_TABLE)
        if is_there and not is_read:
            raise InputError(subject, "is damaged: its tables of imports and exports cannot be read", _DAMAGED)


def _count_thunks(content: bytes, binary: Any, library: Any) -> int:
    """Return how many imports a library has: 64-bit words up to a zero. lief leaves out those whose names it does not
    like.
    """
    start = binary.rva_to_offset(library.import_lookup_table_rva or library.import_address_table_rva)
    words = struct.iter_unpack("<Q", content[start : start + (len(content) - start) // 8 * 8])
    return sum(1 for _ in itertools.takewhile(lambda word: word[0], words))


def _exported_names(export: Any) -> Iterator[str]:
    for entry in export.entries:
        yield f"#{entry.ordinal}"
        if entry.name:
            yield _decode_name(entry.name)


def _universal_images(content: bytes, subject: str, *, exports_only: bool) -> Iterator[LibraryImage]:
    lief = lief_module()
    config = lief.MachO.ParserConfig()
    config.parse_dyld_rebases = False
    config.parse_dyld_bindings = not exports_only
    file = lief.MachO.parse(content, config)
    if file is None or file.size == 0:
        raise InputError(subject, "is damaged: its headers are not those of a Mach-O file", _DAMAGED)
    types = lief.MachO.Header.CPU_TYPE
    machines = {getattr(types, machine.traits.macho): machine for machine in Machine}
    parts = _read_parts(content)
    _require_all(subject, content, parts)
    if file.size != len(parts):
        raise InputError(subject, f"is damaged: of {plural(len(parts), 'part')}, {file.size} can be read", _DAMAGED)
    for binary in file:
        # The header says how many commands there are, and how long they are together (mach-o/loader.h).
        sizes = sum(command.size for command in binary.commands)
        if len(binary.commands) != binary.header.nb_cmds or sizes != binary.header.sizeof_cmds:
            raise InputError(subject, "is damaged: not all of its load commands can be read", _DAMAGED)
        segments = ((binary.fat_offset + segment.file_offset, segment.file_size) for segment in binary.segments)
        _require_all(subject, content, segments)
        if not exports_only:
            _require_bindings(subject, binary)
        if binary.header.cpu_type in machines:
            yield _mach_image(binary, machines[binary.header.cpu_type])


def _require_bindings(subject: str, binary: Any) -> None:
    """Reject a file whose symbols have more imports of interest than lief finds bindings for.

    lief ends at the first binding that it does not understand.
    """
    undefined = [symbol.name for symbol in binary.symbols if symbol.raw_type & _STAB_TYPE_EXTERNAL == _N_EXT]
    stated = binary.dynamic_symbol_command.nb_undefined_symbols if binary.has_dynamic_symbol_command else 0
    bound = {binding.symbol.name for binding in binary.bindings if binding.has_symbol}
    lost = any(name not in bound and is_torch_symbol(_decode_name(name).removeprefix("_")) for name in undefined)
    without_library = any(binding.library_ordinal > 0 and not binding.has_library for binding in binary.bindings)
    if lost or without_library or len(undefined) < stated:
        raise InputError(subject, "is damaged: not all of its imports can be read", _DAMAGED)


def _read_parts(content: bytes) -> list[tuple[int, int]]:
    """Return where the parts of a universal file are, and how long, as its header says (``mach-o/fat.h``)."""
    wide = content.startswith(b"\xca\xfe\xba\xbf")
    if not wide and not content.startswith(b"\xca\xfe\xba\xbe"):
        return [(0, len(content))]
    row = struct.Struct(">IIQQII" if wide else ">IIIII")
    count = min(int.from_bytes(content[4:8], "big"), (len(content) - 8) // row.size)
    return [row.unpack_from(content, 8 + row.size * index)[2:4] for index in range(count)]


def _mach_image(binary: Any, machine: Machine) -> LibraryImage:
    types = lief_module().MachO.LoadCommand.TYPE
    libraries = [library for library in binary.libraries if library.command != types.ID_DYLIB]
    own = (_decode_name(library.name) for library in binary.libraries if library.command == types.ID_DYLIB)
    return LibraryImage(
        system=ImageSystem.MACOS,
        machine=machine,
        name=next(own, None),
        needed=tuple(
            NeededImage(name=_decode_name(library.name), optional=library.command == types.LOAD_WEAK_DYLIB)
            for library in libraries
        ),
        imports=tuple(dict.fromkeys(_bound_names(binary))),
        exports=frozenset(_exported_by(binary)),
        reexports=tuple(_decode_name(library.name) for library in libraries if library.command == types.REEXPORT_DYLIB),
        rpaths=tuple(_decode_name(rpath.path) for rpath in binary.rpaths),
        minimum_os=_minimum_os(binary),
    )


def _exported_by(binary: Any) -> Iterator[str]:
    """Yield the names in the tree of exports, which has those of other libraries, too, that are passed on one
    by one.
    """
    if binary.has_dyld_exports_trie:
        tree = binary.dyld_exports_trie.exports
    elif binary.has_dyld_info:
        tree = binary.dyld_info.exports
    else:
        yield from (_decode_name(symbol.name) for symbol in binary.exported_symbols)
        return
    yield from (_decode_name(export.symbol.name) for export in tree if export.has_symbol)


def _bound_names(binary: Any) -> Iterator[ImportedName]:
    """Yield what dyld binds as the image is loaded, also lazily bound names, since Python asks for all (``RTLD_NOW``).

    Weak imports may be absent, and weakly defined names are found in the image itself.
    """
    for binding in binary.bindings:
        if binding.has_symbol and not binding.weak_import and binding.library_ordinal != _WEAK_LOOKUP:
            library = _decode_name(binding.library.name) if binding.has_library else None
            yield ImportedName(name=_decode_name(binding.symbol.name), library=library)


def _minimum_os(binary: Any) -> str | None:
    for has, command in (("has_build_version", "build_version"), ("has_version_min", "version_min")):
        if getattr(binary, has):
            load_command = getattr(binary, command)
            major, minor = (load_command.minos if command == "build_version" else load_command.version)[:2]
            return f"{major}.{minor}"
    return None


def _decode_name(name: str | bytes) -> str:
    """Return a name; lief returns bytes if it is not UTF-8."""
    return name if isinstance(name, str) else name.decode("utf-8", "backslashreplace")


def _require_all(subject: str, content: bytes, parts: Iterable[tuple[int, int]]) -> None:
    """Reject a truncated file, of which lief returns what is left."""
    if any(offset + size > len(content) for offset, size in parts):
        raise InputError(subject, "is truncated", _DAMAGED)
