"""What can be said on a build of torch that is not embedded, while another build of its release is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec.structs

from abiscan.binary.mangling import demangle, uses_cxx11_string
from abiscan.binary.ownership import is_torch_symbol
from abiscan.findings import Effect, Evidence, Finding
from abiscan.gaps import Gap
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.linkage import ExtensionLoad
from abiscan.linkage.model import LoadError
from abiscan.results.check import Result
from abiscan.results.verdict import How, PredictedError, Verdict
from abiscan.torches import embedded, string_abi
from abiscan.words import plural

_RULE: Final = "cxx11-abi-mismatch"
_UNDEFINED: Final = "undefined-symbol"
_CORE: Final = ("_ZN3c10", "_ZNK3c10")
"""What the names in the namespace of libc10 begin with."""
_STRING: Final = {True: "the C++11 std::string", False: "the old std::string"}


def error_on(load: ExtensionLoad) -> LoadError | None:
    """Return the error that a load surely ends with on a build which another one stands for; None if there is none."""
    cxx11 = _other_strings(load)
    if cxx11 is not None:
        symbols = _symbols_of_stand_in(load, cxx11=cxx11)
        message = f"undefined symbol: {symbols[0]}" if symbols else ""
        return LoadError(object=load.name, message=message, exact=False) if symbols else None
    if load.error and _holds_for_every_build(load):
        return load.error
    lacking = _lacking_in_core(load)
    return LoadError(object=load.name, message=f"undefined symbol: {lacking[0]}", exact=False) if lacking else None


def limited(result: Result, load: ExtensionLoad) -> Result:
    """Return a result limited to what release and tag tell of a build, if another build stands for it.

    Builds of a release with one string ABI differ in what belongs to CUDA, and in nothing else that extensions use.
    With the other string ABI, most symbols have other names.
    """
    release = load.release
    if release.judged_as is None or release.build is None or load.resolution is None:
        return result
    cxx11 = _other_strings(load)
    if cxx11 is not None:
        return _with_other_strings(result, load, cxx11=cxx11)
    own = string_abi.of_build(TorchVersion(release.build), release.machine)
    shared_facts = [f"the release{'' if own is None else f' and {_STRING[own]}'}"]
    if (major := embedded.cuda_of(release.build)) is not None:
        shared_facts.append(f"CUDA {major}")
    reason = (
        f"{release} is not embedded: it was treated like {release.judged_as}, with which it shares "
        f"{', '.join(shared_facts)}; other differences of its libraries were not checked"
    )
    # A fault of the extension is only kept if it holds for every build that this one may be.
    certain = result.verdict is not Verdict.LOADS and _holds_for_every_build(load)
    gaps = (*result.gaps, Gap(stage="torch", reason=reason, decides=True))
    if certain:
        return msgspec.structs.replace(result, gaps=gaps)
    lacking, kept = _lacking_in_core(load), result.findings if result.verdict is Verdict.LOADS else ()
    return msgspec.structs.replace(
        result,
        verdict=Verdict.FAILS if lacking else Verdict.UNKNOWN,
        predicted_error=_predicted(error_on(load)),
        undefined_symbols=lacking,
        findings=(_undefined(load, lacking),) if lacking else kept,
        gaps=gaps,
    )


def _lacking_in_core(load: ExtensionLoad) -> tuple[str, ...]:
    """Return what an extension uses of libc10 that no library of its release defines.

    That library is the same in all builds of a release; what it has for CUDA is one of its own.
    """
    resolution = load.resolution
    if resolution is None or not _is_alike(load):
        return ()
    references = (*(symbol.reference for symbol in resolution.undefined), *resolution.unchecked)
    libraries = (*load.torch_libraries.values(), *load.siblings.values())
    return tuple(
        name
        for name in dict.fromkeys(reference.name for reference in references if not reference.weak)
        if name in load.facts.imports
        and name.startswith(_CORE)
        and "cuda" not in name.lower()
        and not any(library.symbols.find(name) for library in libraries)
    )


def _undefined(load: ExtensionLoad, symbols: Sequence[str]) -> Finding:
    lacking = f"no build of torch {load.release.version} has"
    return Finding(
        rule=_UNDEFINED,
        effect=Effect.LOAD_FAILS,
        message=f"{load.name} uses {plural(len(symbols), 'symbol')} of libc10 that {lacking}",
        evidence=_evidence(load, symbols),
        fix=f"install a build of the extension made for torch {load.release.version}",
    )


def _evidence(load: ExtensionLoad, symbols: Sequence[str]) -> tuple[Evidence, ...]:
    return tuple(Evidence(subject=name, readable=demangle(name), object=load.name) for name in symbols)


def _other_strings(load: ExtensionLoad) -> bool | None:
    """Return whether a build has the C++11 string, if the one that stands for it has the other; else None."""
    build = load.release.build
    own = string_abi.of_build(TorchVersion(build), load.release.machine) if build else None
    return None if own is load.torch_uses_cxx11_strings else own


def _symbols_of_stand_in(load: ExtensionLoad, *, cxx11: bool) -> list[str]:
    """Return what an extension uses of torch with the string that a build has not: the build surely lacks that."""
    symbols = sorted(load.facts.imports)
    return [name for name in symbols if is_torch_symbol(name) and uses_cxx11_string(name) is (not cxx11)]


def _holds_for_every_build(load: ExtensionLoad) -> bool:
    """Whether what counts against an extension holds for all builds of a release for the CPU or a known CUDA."""
    if not _is_alike(load):
        return False
    # Libraries of CUDA differ from build to build, but for its runtime. Builds for CPUs have none.
    notice = load.error.message.lower() if load.error else ""
    is_for_cpus = (TorchVersion(load.release.build or "").local or "").startswith("cpu")
    return is_for_cpus or "cuda" not in notice or "libcudart" in notice


def _is_alike(load: ExtensionLoad) -> bool:
    """Whether a build is one for the CPU or a known CUDA, with a known string."""
    build = TorchVersion(load.release.build or "")
    return string_abi.is_published(build) and string_abi.of_build(build, load.release.machine) is not None


def _with_other_strings(result: Result, load: ExtensionLoad, *, cxx11: bool) -> Result:
    release = load.release
    reason = (
        f"{release} is not embedded, and {release.judged_as}, which is, has {_STRING[not cxx11]}; "
        f"known of it is that it has {_STRING[cxx11]}; its symbols were not checked"
    )
    symbols, error = _symbols_of_stand_in(load, cxx11=cxx11), error_on(load)
    finding = Finding(
        rule=_RULE,
        effect=Effect.LOAD_FAILS,
        message=f"std::string ABI mismatch: {load.name} uses {_STRING[not cxx11]}, {release} has {_STRING[cxx11]}",
        evidence=_evidence(load, symbols),
        fix=f"install or rebuild the extension with _GLIBCXX_USE_CXX11_ABI={int(cxx11)}, like this torch",
    )
    return msgspec.structs.replace(
        result,
        verdict=Verdict.FAILS if error else Verdict.UNKNOWN,
        predicted_error=_predicted(error),
        undefined_symbols=tuple(symbols),
        findings=(finding,) if symbols else (),
        gaps=(Gap(stage="torch", reason=reason, decides=True),),
    )


def _predicted(error: LoadError | None) -> PredictedError | None:
    if error is None:
        return None
    return PredictedError(how=How.RAISES, object=error.object, message=error.message, exact=error.exact)
