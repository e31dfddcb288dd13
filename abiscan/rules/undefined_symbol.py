"""The extension uses functions or data that this torch does not offer it.

**What it finds.** Strong references, of the extension and of the libraries it brings along, that nothing in the scope
of the load defines. There is one finding per cause: the function has other parameters now (the nearest export is
shown, what differs between « and »); the name is gone; it lives in a library of torch that the extension does not
need; it belongs to no library of torch at all.

**Why it fails.** Extensions are loaded with all symbols resolved at once (`RTLD_NOW`), and torch's own libraries are
loaded with `RTLD_LOCAL`: a symbol counts only if a library that the extension needs, directly or through others,
defines it.

**Fix.** Install a build of the extension made for this torch, or the torch it was built with. For a library that is
not needed: link the extension with it (`-ltorch_python`).

**Limits.** References that only a library which was not found here can satisfy are not judged; they are listed as a
gap.

**Example.** `undefined symbol: _ZNK5torch8autograd4Node4nameEv`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from abiscan.binary.mangling import demangle
from abiscan.binary.ownership import is_python_symbol, is_torch_symbol
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.model import UndefinedSymbol
from abiscan.rules.advice import other_build
from abiscan.rules.symbols import is_string_abi_mismatch, library_with, nearest_export, of_missing_libraries
from abiscan.rules.symptom import symptom


def check(linkage: Linkage) -> Iterator[Finding]:
    """Group what is undefined by its cause; all in one where nobody asks for the cause."""
    if not linkage.explained:
        yield from _unsorted(linkage)
        return
    changed: list[tuple[UndefinedSymbol, str]] = []
    elsewhere: dict[str, list[UndefinedSymbol]] = {}
    beside: dict[str, list[UndefinedSymbol]] = {}
    gone: list[UndefinedSymbol] = []
    foreign: list[UndefinedSymbol] = []
    for symbol in _unexplained(linkage):
        name = symbol.reference.name
        if library := library_with(linkage.siblings, name):
            beside.setdefault(library, []).append(symbol)
        elif library := library_with(linkage.torch_libraries, name):
            elsewhere.setdefault(library, []).append(symbol)
        elif not is_torch_symbol(name):
            foreign.append(symbol)
        elif nearest := nearest_export(linkage, name):
            changed.append((symbol, nearest.signature))
        else:
            gone.append(symbol)
    torch = str(linkage.release)
    if changed:
        symbols = [symbol for symbol, _ in changed]
        yield _finding(
            linkage,
            f"{linkage.name} {_count(symbols)} that {torch} has with other parameters",
            [_evidence(symbol, instead) for symbol, instead in changed],
            other_build(linkage),
        )
    if gone:
        yield _finding(
            linkage,
            f"{linkage.name} {_count(gone)} that {torch} does not have",
            list(map(_evidence, gone)),
            other_build(linkage),
        )
    for library, symbols in elsewhere.items():
        yield _finding(
            linkage,
            f"{symbols[0].module.name} {_count(symbols)} of {library}, which it does not need",
            list(map(_evidence, symbols)),
            f"link the extension with {library} (torch's own libraries are loaded with RTLD_LOCAL)",
        )
    for library, symbols in beside.items():
        yield _finding(
            linkage,
            f"{symbols[0].module.name} {_count(symbols)} of {library} beside it, which it does not need",
            list(map(_evidence, symbols)),
            f"link it with {library}, or load {library} first with RTLD_GLOBAL, as the package may do by itself",
        )
    if foreign:
        yield _finding(
            linkage,
            f"{linkage.name} {_count(foreign)} that no library in reach defines",
            list(map(_evidence, foreign)),
            "link the extension with the library that defines it",
        )


def _unsorted(linkage: Linkage) -> Iterator[Finding]:
    symbols = list(_unexplained(linkage))
    if symbols:
        message = f"{linkage.name} {_count(symbols)} that nothing in reach defines"
        yield _finding(linkage, message, [], other_build(linkage))


def _unexplained(linkage: Linkage) -> Iterator[UndefinedSymbol]:
    """What no other rule on symbols explains."""
    stale = {version.version for version in linkage.resolution.missing_versions} if linkage.resolution else set()
    explained = {symbol.reference.name for symbol in of_missing_libraries(linkage)}
    for symbol in linkage.undefined:
        name = symbol.reference.name
        if symbol.reference.version in stale or name in explained or is_python_symbol(name):
            continue
        if not is_string_abi_mismatch(linkage, name):
            yield symbol


def _count(symbols: Sequence[UndefinedSymbol]) -> str:
    number = len({symbol.reference.name for symbol in symbols})
    return "uses a symbol" if number == 1 else f"uses {number} symbols"


def _evidence(symbol: UndefinedSymbol, instead: str | None = None) -> Evidence:
    name = symbol.reference.name
    return Evidence(subject=name, readable=demangle(name), object=symbol.module.name, instead=instead)


def _finding(linkage: Linkage, message: str, evidence: list[Evidence], fix: str) -> Finding:
    return Finding(
        rule=RULE.name,
        effect=Effect.LOAD_FAILS,
        message=message,
        evidence=tuple(evidence),
        fix=fix,
        symptom=symptom(linkage),
    )


RULE = rule("undefined-symbol", __doc__, check)
