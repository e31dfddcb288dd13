"""The extension uses only torch's stable ABI, so one build works with many releases.

**What it finds.** Extensions that import only C functions of torch, those of its stable ABI. The note names the first
torch that has all of them, and the torch whose headers the extension was compiled with.

**Why it fails.** It does not. The stable ABI (`torch/csrc/stable`) shares no classes, so layouts do not matter, and
torch promises to keep its C functions for two years. The recorded version, `TORCH_ABI_VERSION`, is that of the torch
that the extension was compiled with. It is not `TORCH_TARGET_VERSION`, the oldest torch that it is meant for: nothing
in the file records that one, so the functions that it imports decide.

**Fix.** No action needed. `abiscan stable` shows what decides the first torch.

**Limits.** Operators that the extension calls by name are outside of that promise: see `stable-call-mismatch`.

**Example.** `uses only the stable ABI of torch; compiled with the headers of torch 2.13.0; needs torch 2.11.0 or
newer`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.elf import SharedObject
from abiscan.binary.ownership import is_torch_symbol
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.torches.shims import exported_since, is_shim


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield a note about an extension that uses nothing of torch but C functions."""
    load = linkage.load
    if not _is_stable(load.facts):
        return
    functions = sorted(filter(is_shim, load.facts.imports))
    since = (exported_since(name, load.facts.machine) for name in functions)
    # It needs all of the functions, so the newest of them decides.
    first = max(filter(None, since), default=None)
    text = f"{load.name} uses only the stable ABI of torch"
    if compiled_with := load.registering and load.registering.own.compiled_with:
        text += f"; compiled with the headers of torch {compiled_with}"
    if first:
        text += f"; needs torch {first} or newer"
    yield Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=text,
        evidence=tuple(Evidence(subject=name, object=load.name) for name in functions),
        fix="no action needed",
    )


def _is_stable(facts: SharedObject) -> bool:
    # One C++ symbol is enough to tie it to a few releases, whatever else it uses.
    if any(name.startswith("_Z") and is_torch_symbol(name) for name in facts.imports):
        return False
    return any(map(is_shim, facts.imports))


RULE = rule("stable-abi", __doc__, find_problems)
