"""A library that the extension needs is missing.

**What it finds.** `DT_NEEDED` entries, of the extension and of the libraries it brings along, for which no file
exists: not in torch, not in the wheel or folder of the extension, not on the system, not in RPATH or RUNPATH.

**Why it fails.** `ld.so` opens all needed libraries before it resolves a single symbol, and stops at the first one
that it does not find. If it is a library of torch that this torch does not have (`libtorch_cuda.so` with a CPU build
of torch), the failure is certain: `load-fails`. Any other library (a CUDA or vendor runtime, another package) may be
present when the extension is used. It is assumed to be, listed as external, and reported as a `note`; for a
torch on disk, `--strict` counts it as a failure.

The search also fails at a file of the right name that is no library, in a folder before the one that has it: `ld.so`
passes over libraries for other machines, and over nothing else.

Nothing loads a library before a program does. On this machine, a search path must lead to each that it needs, to those
of torch, too: RPATH, RUNPATH, `LD_LIBRARY_PATH`, the folders of the system.

**Fix.** For torch's own libraries: install the right kind of torch (CUDA, ROCm, XPU), or a build of the extension for
the kind of torch you have. For others: install the package that provides the library, or put it on the search path.

**Limits.** Packages often load their own libraries first, with `ctypes` or in `__init__.py`. Libraries in the same
wheel or folder therefore count as found; those of other packages do not. For a single file, a `note` names those that
no search path leads to. The verdict on a package goes by what its Python code loads before.

**Example.** `libc10_cuda.so: cannot open shared object file: No such file or directory`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from abiscan.binary.mangling import demangle
from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.model import NO_SUCH_FILE, Absence, MissingLibrary
from abiscan.rules.advice import other_build, other_kind, required_elsewhere
from abiscan.rules.symbols import KINDS, missing_torch_libraries, of_missing_libraries
from abiscan.rules.symptom import describe_symptom


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding for libraries that torch lacks, and notes on those whose search may find nothing."""
    load = linkage.load
    # The kinds of absence exclude each other, and differ in how certain the failure is.
    if of_torch := missing_torch_libraries(load):
        yield _torch_lacks(linkage, of_torch)
    missing = load.resolution.closure.missing if load.resolution else ()
    if unreached := [library for library in missing if library.absence is Absence.UNREACHED]:
        names = ", ".join(dict.fromkeys(library.name for library in unreached))
        yield Finding(
            rule=RULE.name,
            effect=Effect.LOAD_FAILS,
            message=f"{load.name} needs {names}, and no search path leads there: {unreached[0].message}",
            evidence=_evidence_of_libraries(unreached),
            fix="link it with -Wl,-rpath and the folder that has it, or name that folder in LD_LIBRARY_PATH",
        )
    for library in dict.fromkeys(library for library in missing if library.absence is Absence.REFUSED):
        yield Finding(
            rule=RULE.name,
            effect=Effect.LOAD_FAILS,
            message=(
                f"{library.needed_by.name} needs {library.name}, and the search ends at a wrong file: {library.message}"
            ),
            evidence=_evidence_of_libraries([library]),
            fix="remove that file, or put the library in its place",
        )
    external = [library for library in missing if library.absence is Absence.EXTERNAL]
    # On another machine, nothing is known of its libraries, and a note about each would be noise.
    if external and load.here:
        names = ", ".join(dict.fromkeys(library.name for library in external))
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=(
                f"{load.name} needs {names}: not in torch, not next to the extension, not on this machine; assumed "
                f"to be present at run time, otherwise loading fails: {external[0].name}: {NO_SUCH_FILE}"
            ),
            evidence=_evidence_of_libraries(external),
            fix="install the package that provides it, put it on RPATH or LD_LIBRARY_PATH, or load it first",
            confidence=Confidence.POSSIBLE,
        )
    # Found by this check since it lies there, and by ``ld.so`` only if something loads it first.
    if load.found_only_next_to_file:
        names = ", ".join(load.found_only_next_to_file)
        yield Finding(
            rule=RULE.name,
            effect=Effect.NOTE,
            message=(
                f"{load.name} needs {names}, which lies next to it, but no RPATH or RUNPATH leads there: unless it "
                f"is loaded first, loading fails: {load.found_only_next_to_file[0]}: {NO_SUCH_FILE}"
            ),
            evidence=tuple(Evidence(subject=name, object=load.name) for name in load.found_only_next_to_file),
            fix="link it with -Wl,-rpath,'$ORIGIN', or load the library first",
            confidence=Confidence.POSSIBLE,
        )


def _torch_lacks(linkage: Linkage, missing: Sequence[MissingLibrary]) -> Finding:
    load = linkage.load
    word, kind = next(((word, kind) for library in missing for word, kind in KINDS if word in library.name), ("", None))
    # torch 1.10 to 1.13 split libtorch_cuda.so into two libraries, which other CUDA builds lack, too.
    if kind and not any(word in name for name in load.torch_libraries):
        cause = f"{load.name} is a {kind} build, but {load.release} has no {kind}"
        # A build of this torch with the libraries would be the wrong release still.
        fix = other_build(linkage, kind) if required_elsewhere(linkage) else other_kind(linkage, kind)
    else:
        cause = f"{load.name} needs libraries of torch that {load.release} does not have"
        fix = other_build(linkage)
    return Finding(
        rule=RULE.name,
        effect=Effect.LOAD_FAILS,
        message=f"{cause}: {missing[0].name}: {NO_SUCH_FILE}",
        evidence=(
            *_evidence_of_libraries(missing),
            *(
                Evidence(
                    subject=symbol.reference.name, readable=demangle(symbol.reference.name), object=symbol.module.name
                )
                for symbol in of_missing_libraries(load)
            ),
        ),
        fix=fix,
        symptom=describe_symptom(load),
    )


def _evidence_of_libraries(missing: Sequence[MissingLibrary]) -> tuple[Evidence, ...]:
    pairs = dict.fromkeys((library.name, library.needed_by.name) for library in missing)
    return tuple(Evidence(subject=name, object=needed_by) for name, needed_by in pairs)


RULE = rule("missing-library", __doc__, find_problems)
