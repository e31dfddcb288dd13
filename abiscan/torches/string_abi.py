"""Which ``std::string`` a torch was built with: the C++11 one, or the one before it."""

from __future__ import annotations

from collections.abc import Mapping

from abiscan.binary.elf import SharedObject


def uses_cxx11_strings(libraries: Mapping[str, SharedObject]) -> bool | None:
    """Whether a torch was built with the C++11 ``std::string``; None if unknown.

    Seen from the constructors of ``c10::Error``, which every release exports and every extension calls.

    :param libraries: the torch's own, by base name
    """
    for name in ("libc10.so", "libtorch_cpu.so", "libtorch.so"):
        library = libraries.get(name)
        if library is not None:
            constructors = list(library.symbols.starting_with("_ZN3c105ErrorC2"))
            if constructors:
                return any("7__cxx11" in constructor for constructor in constructors)
    return None
