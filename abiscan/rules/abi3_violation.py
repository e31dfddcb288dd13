"""The file is tagged abi3, but uses symbols of Python that its tag does not cover.

**What it finds.** Modules named `….abi3.so`, and modules in wheels with an `abi3` tag, that import symbols of Python
which do not belong to Python's stable ABI, or which joined it in a later Python than the oldest one in the tag
(`cp310-abi3`: Python 3.10).

**Why it fails.** pip installs an `abi3` wheel for its oldest Python and every later one. A symbol that joined later is
an undefined symbol on the older ones. One that does not belong to the stable ABI may disappear in any release.

**Fix.** Compile with `Py_LIMITED_API` defined as the oldest Python, or tag the wheel for what it needs.

**Limits.** Without a wheel the oldest Python is unknown: then only symbols outside of the stable ABI are found. Macros
and members of structures that code inlines show in no symbol. Weak references count, since they tell what was
compiled.

**Example.** `_C.abi3.so is for Python 3.9 and newer, but PyObject_GetBuffer is in the stable ABI from 3.11`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.ownership import is_python_symbol
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.inputs.wheel_tag import Version, abi3_python, limited_api
from abiscan.linkage.linkage import ExtensionLoad, Linkage
from abiscan.words import listed

_SUFFIX = ".abi3.so"


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for the symbols that are not in the stable ABI, one for those that joined it later."""
    load = linkage.load
    # Either name makes the promise: that of the module to Python's import system, the tag of the wheel to pip.
    oldest = abi3_python(linkage.promises.wheel)
    if not load.name.endswith(_SUFFIX) and (oldest is None or not load.facts.python_modules):
        return
    used = sorted(filter(is_python_symbol, load.facts.imports))
    # Two findings, since the fixes differ: a symbol outside has to go, a later one may stay under another tag.
    outside = [name for name in used if name not in limited_api()]
    if outside:
        yield _make_finding(load, outside, f"is tagged abi3, but Python's stable ABI does not have {listed(outside)}")
    later = {name: since for name in used if oldest and (since := limited_api().get(name)) and since > oldest}
    if oldest and later:
        newest = max(later.values())
        text = (
            f"is for Python {_format_version(oldest)} and newer, but {listed(later)} joined Python's stable ABI later"
        )
        yield _make_finding(load, list(later), text, f"tag it cp{newest[0]}{newest[1]}-abi3, or ")


def _make_finding(load: ExtensionLoad, names: list[str], subject: str, fix: str = "") -> Finding:
    return Finding(
        rule=RULE.name,
        effect=Effect.NOTE,
        message=f"{load.name} {subject}",
        evidence=tuple(
            Evidence(subject=name, object=load.name, instead=f"in the stable ABI from Python {_format_version(since)}")
            if (since := limited_api().get(name))
            else Evidence(subject=name, object=load.name)
            for name in names
        ),
        fix=f"{fix}compile it with Py_LIMITED_API defined as the oldest Python that it is for",
    )


def _format_version(version: Version) -> str:
    return ".".join(map(str, version))


RULE = rule("abi3-violation", __doc__, find_problems)
