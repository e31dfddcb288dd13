"""A system library lacks a symbol version, or the extension does not ask for one that it needs.

**What it finds.** Versions in `.gnu.version_r` (`GLIBC_2.34`, `GLIBCXX_3.4.32`, `CXXABI_1.3.15`, …) that the library
in the process does not define. And an extension with packed relocations (`DT_RELR`, of `lld
--pack-dyn-relocs=relr`) that does not require the version `GLIBC_ABI_DT_RELR`.

**Why it fails.** `ld.so` checks the versions that every object needs before it resolves symbols. Packed relocations
without theirs are refused by glibc from 2.36 on, and not read by older ones.

**Fix.** Use a newer system (or a newer `libstdc++`, for example from conda), or a build of the extension made on an
older one: `manylinux_2_28` wheels run where glibc is 2.28 or newer. Link with `-Wl,-z,pack-relative-relocs` in place of
`--pack-dyn-relocs=relr`, or without either.

**Limits.** Versions are compared with the libraries of the machine that runs abiscan, and only if the extension is
meant for it. A library loaded earlier in the process (a conda `libstdc++`) can change the outcome.

**Example.** ``version `GLIBCXX_3.4.32' not found (required by _C.so)``.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.model import MissingVersion, Module
from abiscan.linkage.resolve import PACKED, refused_packing, version_message
from abiscan.rules.symptom import describe_symptom


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding per library that is too old."""
    load = linkage.load
    # One library that is too old lacks many versions at once: ``ld.so`` names the first, the finding has all.
    by_provider: dict[str, list[MissingVersion]] = {}
    for missing in load.resolution.missing_versions if load.resolution else ():
        by_provider.setdefault(missing.provider.path, []).append(missing)
    for path, versions in by_provider.items():
        provider = versions[0].provider
        # As numbers: GLIBCXX_3.4.9 is older than GLIBCXX_3.4.30.
        newest = sorted(provider.facts.version_definitions or () if provider.facts else (), key=_as_number)
        family = versions[0].version.name.partition("_")[0] + "_"
        newest_of_family = next((name for name in reversed(newest) if name.startswith(family)), None)
        yield Finding(
            rule=RULE.name,
            effect=Effect.LOAD_FAILS,
            message=f"{path}: {version_message(versions[0])}",
            evidence=tuple(
                Evidence(subject=missing.version.name, object=missing.module.name, instead=newest_of_family)
                for missing in versions
            ),
            fix=f"use a system with a newer {provider.name}, or a build of the extension made on an older system",
            symptom=describe_symptom(load),
        )
    if load.resolution:
        yield from (_packing_finding(load, module) for module in refused_packing(load.resolution.closure))


def _packing_finding(load: ExtensionLoad, module: Module) -> Finding:
    return Finding(
        rule=RULE.name,
        effect=Effect.LOAD_FAILS,
        message=f"{module.path}: {PACKED}",
        evidence=(Evidence(subject="GLIBC_ABI_DT_RELR", object=module.name),),
        fix=f"link {module.name} with -Wl,-z,pack-relative-relocs, or without packed relocations",
        symptom=describe_symptom(load),
    )


def _as_number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.rpartition("_")[2].split(".") if part.isdigit())


RULE = rule("symbol-version-not-found", __doc__, find_problems)
