"""What can be said on a build of torch that is not embedded, while another build of its release is."""

from __future__ import annotations

from typing import Final

import msgspec.structs

from abiscan.binary.mangling import demangle, uses_cxx11_string
from abiscan.binary.ownership import is_torch_symbol
from abiscan.findings import Effect, Evidence, Finding
from abiscan.gaps import Gap
from abiscan.inputs.version import TorchVersion
from abiscan.linkage.linkage import ExtensionLoad
from abiscan.results.check import Result
from abiscan.results.verdict import How, PredictedError, Verdict
from abiscan.torches import embedded, string_abi

_RULE: Final = "cxx11-abi-mismatch"
_STRING: Final = {True: "the C++11 std::string", False: "the old std::string"}


def limited(result: Result, load: ExtensionLoad) -> Result:
    """Return a result limited to what release and tag tell of a build, if another build stands for it.

    Builds of a release with one string ABI differ in what belongs to CUDA, and in nothing else that extensions use.
    With the other string ABI, most symbols have other names.
    """
    release = load.release
    if release.judged_as is None or release.build is None or load.resolution is None:
        return result
    own = string_abi.of_build(TorchVersion(release.build), release.machine)
    if own is not None and own is not load.torch_uses_cxx11_strings:
        return _with_other_strings(result, load, cxx11=own)
    shared_facts = [f"the release{'' if own is None else f' and {_STRING[own]}'}"]
    if (major := embedded.cuda_of(release.build)) is not None:
        shared_facts.append(f"CUDA {major}")
    reason = (
        f"{release} is not embedded: it was taken to be like {release.judged_as}, "
        f"known are {', '.join(shared_facts)}; where its libraries differ was not checked"
    )
    # What counts against the extension stays only if it holds for every build that this one may be.
    certain = own is not None and _of_every_build(result, release.build)
    return msgspec.structs.replace(
        result,
        verdict=result.verdict if certain else Verdict.UNKNOWN,
        predicted_error=result.predicted_error if certain else None,
        undefined_symbols=result.undefined_symbols if certain else (),
        findings=result.findings if certain or result.verdict is Verdict.LOADS else (),
        gaps=(*result.gaps, Gap(stage="torch", reason=reason, decides=True)),
    )


def _of_every_build(result: Result, build: str) -> bool:
    """Whether what a result says against an extension holds for all builds of a release for the CPU or a known CUDA."""
    if result.verdict is Verdict.LOADS or not (TorchVersion(build).local or "").startswith(("cpu", "cu")):
        return False
    # Libraries of CUDA differ from build to build, but for its runtime, which a build for CPUs does not have at all.
    notice = result.predicted_error.message.lower() if result.predicted_error else ""
    return "cuda" not in notice or "libcudart" in notice


def _with_other_strings(result: Result, load: ExtensionLoad, *, cxx11: bool) -> Result:
    release = load.release
    reason = (
        f"{release} is not embedded, and {release.judged_as}, which is, has {_STRING[not cxx11]}; "
        f"known of it is that it has {_STRING[cxx11]}; its symbols were not checked"
    )
    # The names with the other kind of string in them are the ones that this build surely lacks.
    second = [
        name for name in sorted(load.facts.imports) if is_torch_symbol(name) and uses_cxx11_string(name) is (not cxx11)
    ]
    finding = Finding(
        rule=_RULE,
        effect=Effect.LOAD_FAILS,
        message=f"std::string ABI mismatch: {load.name} uses {_STRING[not cxx11]}, {release} has {_STRING[cxx11]}",
        evidence=tuple(Evidence(subject=name, readable=demangle(name), object=load.name) for name in second),
        fix=f"install or rebuild the extension with _GLIBCXX_USE_CXX11_ABI={int(cxx11)}, like this torch",
    )
    error = PredictedError(
        how=How.RAISES, object=load.name, message=f"undefined symbol: {second[0]}" if second else "", exact=False
    )
    return msgspec.structs.replace(
        result,
        verdict=Verdict.FAILS if second else Verdict.UNKNOWN,
        predicted_error=error if second else None,
        undefined_symbols=tuple(second),
        findings=(finding,) if second else (),
        gaps=(Gap(stage="torch", reason=reason, decides=True),),
    )
