"""The extension and torch were compiled with different `std::string` ABIs.

**What it finds.** Undefined torch symbols whose parameters or return types use the other `std::string`: `Ss` (the old
copy-on-write string, `_GLIBCXX_USE_CXX11_ABI=0`) where torch exports `std::__cxx11::basic_string`, or the reverse.

**Why it fails.** The two are different types with different mangled names, so none of these symbols resolves. The
default x86_64 wheels of torch use the old ABI up to 2.6 and the new one from 2.7 on; aarch64 wheels use the old one
up to 2.5 and the new one from 2.6 on; conda builds always use the new one.

**Fix.** Install the build of the extension with the other setting (often labelled `cxx11abiTRUE` or `cxx11abiFALSE`),
or rebuild it: `torch.utils.cpp_extension` takes the setting from the installed torch.

**Limits.** A function that merely returns a string has no trace of it in its old mangled name. It is recognised by
what this torch exports in its place.

**Example.** `undefined symbol: _ZN3c105ErrorC2ENS_14SourceLocationESs`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.mangling import demangle, uses_cxx11_string
from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.symbols import effect_of, is_string_abi_mismatch, nearest_exports
from abiscan.rules.symptom import describe_symptom
from abiscan.words import plural

_SETTING = {True: "the C++11 ABI (_GLIBCXX_USE_CXX11_ABI=1)", False: "the pre-C++11 ABI (_GLIBCXX_USE_CXX11_ABI=0)"}


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for all symbols that use the other string."""
    load = linkage.load
    symbols = [symbol for symbol in load.undefined if is_string_abi_mismatch(load, symbol.reference.name)]
    # A result of type string alone tells torch's side; one parameter of that type is needed to know the extension's.
    if not any(uses_cxx11_string(symbol.reference.name) is not None for symbol in symbols):
        return
    torch_is_cxx11 = load.torch_uses_cxx11_strings
    assert torch_is_cxx11 is not None
    # The export with the other string differs in nothing else, so it is the nearest: what to show next to the symbol.
    nearest = nearest_exports(load, [symbol.reference.name for symbol in symbols])
    evidence = [
        Evidence(
            subject=symbol.reference.name,
            readable=demangle(symbol.reference.name),
            object=symbol.module.name,
            instead=nearest.get(symbol.reference.name),
        )
        for symbol in symbols
    ]
    yield Finding(
        rule=RULE.name,
        effect=effect_of(symbols),
        message=(
            f"std::string ABI mismatch: {load.name} is compiled with {_SETTING[not torch_is_cxx11]}, "
            f"{load.release} with {_SETTING[torch_is_cxx11]}; this leaves {plural(len(symbols), 'symbol')} undefined"
        ),
        evidence=tuple(evidence),
        fix=f"install or rebuild the extension with _GLIBCXX_USE_CXX11_ABI={int(torch_is_cxx11)}, like this torch",
        symptom=describe_symptom(load),
    )


RULE = rule("cxx11-abi-mismatch", __doc__, find_problems)
