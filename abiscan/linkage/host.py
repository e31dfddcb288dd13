"""The ``ld.so`` of this machine: where it looks, as it was built and as its processor makes it.

Sources: glibc, elf/dl-load.c (``_dl_init_paths``), elf/dl-hwcaps.c (``_dl_important_hwcaps``) and
sysdeps/x86/cpu-features.c (``update_active``).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator

from abiscan.binary.elf import Machine
from abiscan.cpu.processors import cpu, native_cpu, native_maker
from abiscan.inputs import system

_LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
_AVX512 = ("avx512cd", "avx512bw", "avx512dq", "avx512vl")


class Host:
    """What ``ld.so`` does on this machine, and on no other. Most is asked for rarely, and found out then."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @functools.cached_property
    def default_folders(self) -> tuple[str, ...]:
        """The folders that are built in."""
        return system.default_folders(self._machine)

    def find_cached(self, name: str) -> str | None:
        """Return the path of a library in ``/etc/ld.so.cache``."""
        path = self._cache.get(name.encode("utf-8", "surrogateescape"))
        return path.decode("utf-8", "surrogateescape") if path is not None else None

    @functools.cached_property
    def _cache(self) -> dict[bytes, bytes]:
        return dict(system.cached_libraries(self._machine, self._levels))

    @property
    def subfolder_roots(self) -> tuple[str, ...]:
        """What the first part of a subfolder may be."""
        return (
            *(("glibc-hwcaps",) if _has_levels() else ()),
            *(("tls", *self._machine.traits.folders) if _has_legacy() else ()),
        )

    @functools.cached_property
    def subfolders(self) -> tuple[str, ...]:
        """The subfolders of each folder, in the order in which they are searched, before the folder itself."""
        levels = (f"glibc-hwcaps/{level}" for level in self._levels) if _has_levels() else ()
        return (*levels, *(self._legacy_subfolders() if _has_legacy() else ()))

    @functools.cached_property
    def _levels(self) -> tuple[str, ...]:
        own = native_cpu()
        if own is None or self._machine is not Machine.X86_64:
            return ()
        named = ((level, cpu(level)) for level in _LEVELS)
        return tuple(level for level, model in named if model and not own.lacks(model.features))

    def _legacy_subfolders(self) -> Iterator[str]:
        """Yield all combinations of the features that count, the longest first."""
        own = native_cpu()
        features = [self.platform, "tls"]
        if self._machine is Machine.X86_64:
            has_avx512 = own is not None and not own.lacks(_AVX512) and "avx512er" not in own.features
            features = ["x86_64", *(["avx512_1"] if has_avx512 and native_maker() == "GenuineIntel" else []), *features]
        elif own is not None and "lse" in own.features:
            features = ["atomics", *features]
        features.reverse()
        for chosen in itertools.product((True, False), repeat=len(features)):
            if parts := list(itertools.compress(features, chosen)):
                yield "/".join(parts)

    @functools.cached_property
    def tokens(self) -> dict[str, str]:
        """What ``$LIB`` and ``$PLATFORM`` stand for."""
        return {"LIB": self.default_folders[0].lstrip("/"), "PLATFORM": self.platform}

    @functools.cached_property
    def platform(self) -> str:
        """The name of the processor: that of the kernel, unless glibc has a better one."""
        own, haswell = native_cpu(), cpu("x86-64-v3")
        if self._machine is not Machine.X86_64 or own is None or native_maker() != "GenuineIntel":
            return self._machine.value
        if not own.lacks(("avx512cd", "avx512er", "avx512pf")):
            return "xeon_phi"
        return "haswell" if haswell and not own.lacks(haswell.features) else self._machine.value


def _has_levels() -> bool:
    return system.glibc_version() >= (2, 33)


def _has_legacy() -> bool:
    return (2,) < system.glibc_version() < (2, 37)
