"""What this torch has in place of a missing symbol. Shared by the rules on symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from abiscan.binary.elf import SharedObject
from abiscan.binary.mangling import Signature, demangle, returning_cxx11_string, same_name_prefixes, uses_cxx11_string
from abiscan.binary.ownership import is_torch_symbol
from abiscan.findings import Effect
from abiscan.linkage.linkage import ExtensionLoad
from abiscan.linkage.model import Absence, MissingLibrary, UndefinedSymbol


def nearest_exports(load: ExtensionLoad, names: Iterable[str]) -> Mapping[str, str]:
    """Return the signature of the closest function of the same qualified name in any library of this torch, by the
    missing name, with the differences marked.

    Empty if findings are not explained.
    """
    if not load.with_suggestions:
        return {}
    # In order: torch's names are read in blocks, and neighbours are in the same one.
    nearest = {name: _nearest_export(load, name) for name in sorted(set(names))}
    return {name: signature for name, signature in nearest.items() if signature is not None}


def _nearest_export(load: ExtensionLoad, name: str) -> str | None:
    missing = Signature.of(demangle(name))
    if missing.parameters is None:
        return None
    # Only exports whose mangled names begin alike are demangled: all of a torch's would take seconds.
    candidates = {
        candidate: Signature.of(demangle(candidate))
        for prefix in same_name_prefixes(name)
        for library in load.torch_libraries.values()
        for candidate in library.symbols.starting_with(prefix)
    }
    alike = [
        (signature.similarity_to(missing), candidate)
        for candidate, signature in candidates.items()
        if signature.parameters is not None and _strip_tag(signature.name) == _strip_tag(missing.name)
    ]
    if not alike:
        return None
    # The name breaks ties, so that the same files always show the same export.
    _, best = max(alike)
    return candidates[best].mark_against(missing)


def library_with(libraries: Mapping[str, SharedObject], name: str) -> str | None:
    """Return the base name of the library among ``libraries`` that exports ``name``."""
    for file, library in libraries.items():
        if library.symbols.find(name):
            return file
    return None


# Words for a kind of device in the names of torch's libraries and of their symbols, each with that kind.
KINDS: Final = (("cuda", "CUDA"), ("nvrtc", "CUDA"), ("hip", "ROCm"), ("xpu", "XPU"))


def missing_torch_libraries(load: ExtensionLoad) -> tuple[MissingLibrary, ...]:
    """Return the libraries of torch that the extension needs and this torch does not have."""
    missing = load.resolution.closure.missing if load.resolution else ()
    return tuple(library for library in missing if library.absence is Absence.TORCH)


def of_missing_libraries(load: ExtensionLoad) -> list[UndefinedSymbol]:
    """Return the undefined symbols of torch that are of the same kind (CUDA, …) as a library that this torch lacks."""
    missing = missing_torch_libraries(load)
    words = {word for word, _ in KINDS for library in missing if word in library.name}
    return [
        symbol
        for symbol in (load.undefined if words else ())
        if is_torch_symbol(symbol.reference.name) and any(word in symbol.reference.name.lower() for word in words)
    ]


def is_string_abi_mismatch(load: ExtensionLoad, name: str) -> bool:
    """Whether a symbol is missing because the two sides use different ``std::string`` ABIs.

    Its mangled name mentions the other string. If it only returns one, torch's own symbol has (or lacks) the tag
    ``[abi:cxx11]`` that the Itanium ABI gives such functions.
    """
    torch_is_cxx11 = load.torch_uses_cxx11_strings
    if torch_is_cxx11 is None or not is_torch_symbol(name):
        return False
    symbol_is_cxx11 = uses_cxx11_string(name)
    if symbol_is_cxx11 is None:
        # Itanium C++ ABI, "ABI tags": a function that returns the new string is mangled with B5cxx11.
        tagged = returning_cxx11_string(name) if torch_is_cxx11 else None
        return tagged is not None and library_with(load.torch_libraries, tagged) is not None
    return symbol_is_cxx11 != torch_is_cxx11


def effect_of(symbols: Sequence[UndefinedSymbol]) -> Effect:
    """Return what symbols that are missing lead to: those that a program binds lazily, when they are first called."""
    return Effect.CALL_FAILS if all(symbol.lazy for symbol in symbols) else Effect.LOAD_FAILS


def _strip_tag(name: str) -> str:
    return name.replace("[abi:cxx11]", "")
