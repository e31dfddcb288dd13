"""The extension uses functions or data that this torch does not provide.

**What it finds.** Strong references, of the extension and of the libraries it brings along, that no library in the
lookup scope defines. There is one finding per cause: the function has different parameters now (the closest export is
shown, with the differences between « and »); the name is gone; it is in a library of torch that the extension is not
linked with; it came with a newer libstdc++; it is in no library of torch at all.

**Why it fails.** Extensions are loaded with all symbols resolved at once (`RTLD_NOW`), and torch's own libraries are
loaded with `RTLD_LOCAL`: a symbol is found only in libraries that the extension needs, directly or through others.

A program binds the functions that it calls when it first calls them, unless it is linked with `-z now`: the effect is
`call-fails`. Data, and functions whose addresses it keeps or calls without the linkage table (`-fno-plt`), are bound as
it starts.

**Fix.** Install a build of the extension made for this torch, or the torch it was built for. If it is not linked with
the library: link it (`-ltorch_python`).

**Limits.** References that only a library missing on this machine could satisfy are not checked; they are listed as a
gap.

**Example.** `undefined symbol: _ZNK5torch8autograd4Node4nameEv`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from abiscan.binary.mangling import demangle
from abiscan.binary.ownership import is_python_symbol, is_torch_symbol
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.linkage.model import UndefinedSymbol
from abiscan.rules.advice import other_build
from abiscan.rules.symbols import effect_of, is_string_abi_mismatch, library_with, nearest_exports, of_missing_libraries
from abiscan.rules.symptom import describe_symptom
from abiscan.words import plural


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Group undefined symbols by their cause; one finding for all if findings are not explained."""
    load = linkage.load
    if not load.with_suggestions:
        yield from _find_unsorted(linkage)
        return
    unlinked: dict[str, list[UndefinedSymbol]] = {}
    unlinked_siblings: dict[str, list[UndefinedSymbol]] = {}
    missing: list[UndefinedSymbol] = []
    foreign: list[UndefinedSymbol] = []
    # Each cause is asked for only if the one before it does not hold: being linked with the wrong library explains a
    # symbol better than a near name does.
    for symbol in _unexplained_symbols(load):
        name = symbol.reference.name
        if library := library_with(load.siblings, name):
            unlinked_siblings.setdefault(library, []).append(symbol)
        elif library := library_with(load.torch_libraries, name):
            unlinked.setdefault(library, []).append(symbol)
        elif not is_torch_symbol(name):
            foreign.append(symbol)
        else:
            missing.append(symbol)
    nearest = nearest_exports(load, [symbol.reference.name for symbol in missing])
    absent = [symbol for symbol in missing if symbol.reference.name not in nearest]
    torch = str(load.release)
    if symbols := [symbol for symbol in missing if symbol.reference.name in nearest]:
        yield _make_finding(
            load,
            f"{load.name} {_count_of(symbols)} that {torch} has with different parameters",
            symbols,
            [_make_evidence(symbol, nearest[symbol.reference.name]) for symbol in symbols],
            other_build(linkage),
        )
    if absent:
        yield _make_finding(
            load,
            f"{load.name} {_count_of(absent)} that {torch} does not have",
            absent,
            list(map(_make_evidence, absent)),
            other_build(linkage),
        )
    # By library, since linking with it mends all of its symbols at once.
    for library, symbols in unlinked.items():
        yield _make_finding(
            load,
            f"{symbols[0].module.name} {_count_of(symbols)} of {library}, but is not linked with it",
            symbols,
            list(map(_make_evidence, symbols)),
            f"link the extension with {library} (torch's own libraries are loaded with RTLD_LOCAL)",
        )
    for library, symbols in unlinked_siblings.items():
        yield _make_finding(
            load,
            f"{symbols[0].module.name} {_count_of(symbols)} of {library}, a sibling library that it is not linked with",
            symbols,
            list(map(_make_evidence, symbols)),
            f"link it with {library}, or load {library} first with RTLD_GLOBAL, as the package may already do",
        )
    yield from _find_foreign(load, foreign)


def _find_foreign(load: ExtensionLoad, foreign: Sequence[UndefinedSymbol]) -> Iterator[Finding]:
    """Group symbols that are not torch's by the version of libstdc++ that has them."""
    from abiscan.binary.libstdcxx import gcc_with, version_with  # few extensions lack symbols of nobody

    by_version: dict[str | None, list[UndefinedSymbol]] = {}
    for symbol in foreign:
        by_version.setdefault(version_with(symbol.reference.name), []).append(symbol)
    for version, symbols in by_version.items():
        cause, fix = "no loaded library defines", "link the extension with the library that defines it"
        if version is not None:
            gcc = gcc_with(version)
            cause = f"came with the libstdc++ of GCC {gcc} ({version})" if gcc else f"came with {version} of libstdc++"
            fix = (
                f"use a libstdc++ that has {version}: that of a newer system, or of conda (libstdcxx-ng); authors: "
                f"build it with {f'a GCC before {gcc}' if gcc else 'an older GCC'}, or link it with -static-libstdc++"
            )
        message = f"{load.name} {_count_of(symbols)} that {cause}"
        yield _make_finding(load, message, symbols, list(map(_make_evidence, symbols)), fix)


def _find_unsorted(linkage: Linkage) -> Iterator[Finding]:
    load = linkage.load
    symbols = list(_unexplained_symbols(load))
    if symbols:
        message = f"{load.name} {_count_of(symbols)} that no loaded library defines"
        # C++ names take longer to read than all the rest; the plain ones tell which finding is met first.
        evidence = [Evidence(subject=symbol.reference.name, object=symbol.module.name) for symbol in symbols]
        yield _make_finding(load, message, symbols, evidence, other_build(linkage))


def _unexplained_symbols(load: ExtensionLoad) -> Iterator[UndefinedSymbol]:
    """Yield the undefined symbols that no other rule explains."""
    # A symbol without its version is a fault of the system's library, and told there.
    stale = {version.version for version in load.resolution.missing_versions} if load.resolution else set()
    explained = {symbol.reference.name for symbol in of_missing_libraries(load)}
    for symbol in load.undefined:
        name = symbol.reference.name
        is_explained = symbol.reference.version in stale or name in explained or is_python_symbol(name)
        if not is_explained and not is_string_abi_mismatch(load, name):
            yield symbol


def _count_of(symbols: Sequence[UndefinedSymbol]) -> str:
    return f"uses {plural(len({symbol.reference.name for symbol in symbols}), 'symbol')}"


def _make_evidence(symbol: UndefinedSymbol, instead: str | None = None) -> Evidence:
    name = symbol.reference.name
    return Evidence(subject=name, readable=demangle(name), object=symbol.module.name, instead=instead)


def _make_finding(
    load: ExtensionLoad, message: str, symbols: Sequence[UndefinedSymbol], evidence: list[Evidence], fix: str
) -> Finding:
    effect = effect_of(symbols)
    return Finding(
        rule=RULE.name,
        effect=effect,
        message=f"{message}; calling one ends the program" if effect is Effect.CALL_FAILS else message,
        evidence=tuple(evidence),
        fix=fix,
        symptom=describe_symptom(load),
    )


RULE = rule("undefined-symbol", __doc__, find_problems)
