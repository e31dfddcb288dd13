"""The extension module is built for a different Python than the one that runs torch.

**What it finds.** A module (it exports `PyInit_…`) whose file name carries the tag of another version or build of
Python; a pybind11 module compiled for another version; symbols of the Python C API that this interpreter does not
export.

**Why it fails.** `import` ignores files with the tag of another Python: `No module named '…'`. A pybind11 module
compares versions first and raises ImportError. A symbol that this Python lacks is an undefined symbol.

**Fix.** Install the wheel with the matching Python tag (`cp311` for Python 3.11, `cp313t` for a free-threaded 3.13),
or an `abi3` wheel, which works with every later version.

**Limits.** A module without pybind11 and without a tag does not record which Python it was compiled for; only the
symbols it needs tell. The version that a pybind11 module compares is read from its strings.

**Example.** `Python version mismatch: module was compiled for Python 3.12, but the interpreter version is
incompatible: 3.11.7 …`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.ownership import is_python_symbol
from abiscan.findings import Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.python_import import compiled_for, expected_tag
from abiscan.linkage.resolve import symbol_message
from abiscan.rules.symptom import describe_symptom


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding with all evidence of a different Python."""
    load, interpreter = linkage.load, linkage.load.interpreter
    if interpreter is None:
        return
    running = str(interpreter.tag)
    evidence: list[Evidence] = []
    built_for: str | None = None
    # Three clues in the order in which Python meets them: the file name before it opens the file, the check of pybind11
    # as the module is initialised, a symbol as it is loaded. The message names the version if any clue has it.
    tag = expected_tag(load.name, load.facts)
    if tag is not None and tag != interpreter.tag:
        built_for = str(tag)
        evidence.append(Evidence(subject=load.name, readable=f"tagged for Python {tag}", instead=f"Python {running}"))
    version = compiled_for(load.facts, interpreter)
    if version is not None and version != interpreter.tag.version:
        built_for = version
        evidence.append(
            Evidence(subject=load.name, readable=f"pybind11 module for Python {version}", instead=f"Python {running}")
        )
    symbols = [symbol for symbol in load.undefined if is_python_symbol(symbol.reference.name)]
    evidence += [Evidence(subject=symbol.reference.name, object=symbol.module.name) for symbol in symbols]
    if not evidence:
        return
    if built_for is not None:
        message = f"{load.name} is built for Python {built_for}, but torch runs in Python {running}"
    else:
        message = f"{load.name} uses a part of the Python C API that Python {running} does not have"
    if symbols:
        message += f": {symbol_message(symbols[0].reference)}"
    yield Finding(
        rule=RULE.name,
        effect=Effect.LOAD_FAILS,
        message=message,
        evidence=tuple(evidence),
        fix=f"install the wheel for Python {running} (tag cp{running.replace('.', '')})",
        symptom=describe_symptom(load),
    )


RULE = rule("python-abi-mismatch", __doc__, find_problems)
