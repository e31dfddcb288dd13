"""What is known of a name in an error: in which releases of torch it is, and since when it is otherwise."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.binary.mangling import Signature, demangle, same_name_prefixes, uses_cxx11_string
from abiscan.binary.ownership import gpu_library, is_cxx_symbol, is_python_symbol, is_torch_library, is_torch_symbol
from abiscan.errors import InputError
from abiscan.inputs.version import TorchVersion
from abiscan.models.namespaces import PACKAGES
from abiscan.regex import regex
from abiscan.torches import embedded, embedded_names, embedded_operators
from abiscan.torches.name_history import history
from abiscan.words import listed, ranges

_MOST_OVERLOADS: Final = 4
_CUDA: Final = (
    *("cuda", "__cuda", "cu", "nccl", "cublas", "cudnn", "cusparse", "cusolver", "cufft", "nvrtc", "nvJitLink"),
    *("__nvJitLink", "curand"),
)
CUDA_NAME: Final = regex(rf"(?:{'|'.join(_CUDA)})[A-Z_]\w*")
_MKL_PREFIXES: Final = ("iJIT_", "mkl_", "MKL_")
_LIBPYTHON: Final = regex(r"libpython(3\.[0-9]+)")
_ROCM_PREFIXES: Final = ("amdhip", "hip", "roc", "rccl", "MIOpen")
_COMPILERS: Final = {
    "GLIBCXX": (
        *(("3.4.21", "5.1"), ("3.4.22", "6.1"), ("3.4.23", "7.1"), ("3.4.24", "7.2"), ("3.4.25", "8.1")),
        *(("3.4.26", "9.1"), ("3.4.27", "9.2"), ("3.4.28", "9.3"), ("3.4.29", "11.1"), ("3.4.30", "12.1")),
        *(("3.4.31", "13.1"), ("3.4.32", "13.2"), ("3.4.33", "14.1"), ("3.4.34", "15.1")),
    ),
    "CXXABI": (
        *(("1.3.9", "5.1"), ("1.3.10", "6.1"), ("1.3.11", "7.1"), ("1.3.12", "10.1"), ("1.3.13", "11.1")),
        *(("1.3.14", "13.1"), ("1.3.15", "14.1")),
    ),
}
"""The first GCC whose libstdc++ has a version (libstdc++ manual, "ABI Policy and Guidelines")."""


class KnownName(Struct, frozen=True, kw_only=True):
    """What is known of a name.

    :ivar lines: for users, the name first
    :ivar cause: the name of the cause that it shows; None if it does not tell
    :ivar package: the distribution that it belongs to
    :ivar there: the releases of torch that have it, if it is torch's
    :ivar is_foreign: whether it is neither torch's nor that of a library that is known
    """

    lines: tuple[str, ...]
    cause: str | None = None
    package: str | None = None
    there: tuple[str, ...] | None = None
    is_foreign: bool = False


def of_symbol(
    name: str, machine: Machine = Machine.X86_64, torch: str | None = None, *, of_macos: bool = False
) -> KnownName:
    """Return what is known of a mangled symbol."""
    name = name.partition("@")[0].rstrip(".")
    if name.startswith("__Z"):
        name, of_macos = name[1:], True
    readable = demangle(name)
    first = (name, *((f"  {readable}",) if readable != name else ()))
    if CUDA_NAME.match(name):
        line = "  a function of a library of CUDA: another version of it is loaded than the file was built for"
        return KnownName(lines=(*first, line), cause="cuda-runtime-mismatch")
    exported = embedded.exported_by_release(name, machine)
    if of_macos and is_torch_symbol(name) and not any(exported.values()):
        # int64_t is another type there, and so are the classes of the standard library.
        return KnownName(
            lines=(*first, "  of torch; its names on macOS are not those on Linux, which abiscan compares")
        )
    if any(exported.values()) or is_torch_symbol(name):
        return _of_torch_symbol(name, first, exported, machine, torch)
    if is_python_symbol(name):
        return KnownName(
            lines=(*first, "  a function of Python: the file is for another Python"), cause="python-abi-mismatch"
        )
    if name.startswith(_MKL_PREFIXES):
        return KnownName(
            lines=(*first, "  a function of MKL: torch was built with another version (conda install 'mkl<2024.1')")
        )
    if is_cxx_symbol(name) and not name.startswith("_ZNSt3__1"):
        line = (
            "  a function of the C++ runtime: the libstdc++.so.6 that is loaded is older than the one it was built with"
        )
        return KnownName(lines=(*first, line), cause="symbol-version-not-found")
    line = "  in no torch that abiscan knows: a library is not linked, or not loaded"
    return KnownName(lines=(*first, line), is_foreign=True)


def _of_torch_symbol(
    name: str, first: Sequence[str], exported: Mapping[TorchVersion, bool], machine: Machine, torch: str | None
) -> KnownName:
    releases = list(map(str, exported))
    there = [release for release, has in zip(releases, exported.values(), strict=True) if has]
    lines = [*first, f"  {_spans(there, releases)}{_libraries(name, machine)}"]
    alike = _alike(name, machine)
    own = _without_string(first[-1].strip())
    string = uses_cxx11_string(name)
    other_string = [
        other
        for other in alike
        if _without_string(other.readable) == own and bool(uses_cxx11_string(other.name)) is not bool(string)
    ]
    if other_string:
        spans = sorted({release for other in other_string for release in other.releases}, key=TorchVersion)
        lines.append(f"  with the other std::string in torch {ranges(spans, releases)}")
    others = dict.fromkeys(
        f"  as {other.marked} in torch {ranges(other.releases, releases)}"
        for other in alike
        if _without_string(other.readable) != own
    )
    lines += list(others)[:_MOST_OVERLOADS]
    named = _release_of(torch)
    is_string = bool(other_string) and (named not in there if named else True)
    return KnownName(lines=tuple(lines), cause="cxx11-abi-mismatch" if is_string else None, there=tuple(there))


class _Other(Struct, frozen=True, kw_only=True):
    """An export of the same qualified name."""

    name: str
    readable: str
    marked: str
    releases: tuple[str, ...]


def _alike(name: str, machine: Machine) -> list[_Other]:
    """Return the exports of the same qualified name, those with the most similar parameters first."""
    missing = Signature.of(demangle(name))
    prefixes = same_name_prefixes(name)
    if missing.parameters is None or not prefixes:
        return []
    others = []
    for candidate in {other for prefix in prefixes for other, _ in embedded.exports_starting_with(prefix)} - {name}:
        signature = Signature.of(demangle(candidate))
        if signature.parameters is None or _without_tag(signature.name) != _without_tag(missing.name):
            continue
        releases = tuple(
            str(release) for release, has in embedded.exported_by_release(candidate, machine).items() if has
        )
        if releases:
            marked = signature.mark_against(missing)
            others.append(
                (
                    signature.similarity_to(missing),
                    _Other(name=candidate, readable=demangle(candidate), marked=marked, releases=releases),
                )
            )
    return [other for _, other in sorted(others, key=lambda pair: (-pair[0], pair[1].marked))]


def _without_tag(name: str) -> str:
    return name.replace("[abi:cxx11]", "")


def _without_string(readable: str) -> str:
    return _without_tag(readable.replace("__cxx11::", ""))


def of_cxx_name(name: str, machine: Machine = Machine.X86_64, torch: str | None = None) -> KnownName | None:
    """Return what is known of a demangled name, with parameters or without; None if no torch exports it."""
    signature = Signature.of(" ".join(name.split()))
    qualified = signature.name.rpartition(" ")[2]
    parts = qualified.split("::")
    if len(parts) < 2 or not all(part.isidentifier() for part in parts):
        return None
    path = "".join(f"{len(part)}{part}" for part in parts)
    candidates = {
        other: demangle(other)
        for prefix in (f"_ZN{path}", f"_ZNK{path}")
        for other, _ in embedded.exports_starting_with(prefix)
    }
    same = {other: text for other, text in candidates.items() if _without_tag(Signature.of(text).name) == qualified}
    if signature.parameters is not None:
        given = str(Signature.of(" ".join(name.split()))).replace(" ", "")
        exact = [other for other, text in same.items() if text.replace(" ", "") == given]
        if exact:
            return of_symbol(exact[0], machine, torch)
    if not same:
        return None
    lines = [qualified]
    for other in sorted(same)[: 2 * _MOST_OVERLOADS]:
        exported = embedded.exported_by_release(other, machine)
        there = [str(release) for release, has in exported.items() if has]
        lines += [f"  {same[other]}", f"    {_spans(there, list(map(str, exported)))}{_libraries(other, machine)}"]
    if len(same) > 2 * _MOST_OVERLOADS:
        lines.append(f"  and {len(same) - 2 * _MOST_OVERLOADS} more")
    return KnownName(lines=tuple(lines))


def of_operator(name: str, machine: Machine = Machine.X86_64) -> KnownName | None:
    """Return what is known of an operator, ``aten::add.Tensor``; None if nothing is."""
    name = name.rstrip(".").removesuffix(".default")
    namespace, separator, rest = name.partition("::")
    if not separator or not namespace.isidentifier() or not rest:
        return None
    releases = [str(version) for version in embedded.versions(machine)]
    schemas: dict[str, list[str]] = {}
    there = []
    for release in releases:
        operator = embedded_operators.operators(release, machine, {name}).operators.get(name)
        if operator is not None:
            there.append(release)
            schemas.setdefault(str(operator.schema), []).append(release)
        elif embedded_operators.EmbeddedOperators(release, machine).has(name):
            there.append(release)
    if there:
        lines = [name, f"  {_spans(there, releases)}"]
        lines += [f"  {schema} in torch {ranges(chosen, releases)}" for schema, chosen in schemas.items()]
        return KnownName(lines=tuple(lines), there=tuple(there))
    package = PACKAGES.get(namespace)
    if package is not None:
        return KnownName(lines=(name, f"  an operator of {package}, not of torch"), package=package)
    return None


def of_torch_name(name: str) -> KnownName | None:
    """Return what is known of a Python name below ``torch``; None if it is not one."""
    try:
        known = history(name)
    except InputError:
        return None
    module, _, function = name.rpartition(".")
    signatures = _signatures(module, function)
    lines = [str(known)]
    if len(signatures) > 1:
        in_order = sorted(signatures.items(), key=lambda item: known.releases.index(item[1][0]))
        lines += [f"  {function}({text}) in {ranges(chosen, known.releases)}" for text, chosen in in_order]
    return KnownName(lines=tuple(lines), there=known.there)


def of_parameter(function: str, parameter: str) -> KnownName | None:
    """Return what is known of a parameter that a function lacks; None if no function of torch ever had or has it.

    :param function: its name, without its module
    """
    table, releases = embedded_names.table(), embedded_names.releases()
    # Several functions may have that name: those that users call come first.
    for module, marks in sorted(table.items(), key=lambda item: "._" in item[0]):
        if not module.startswith("torch") or not any(mark.startswith(f"{function}(") for mark in marks):
            continue
        signatures = _signatures(module, function)
        there = {
            release
            for text, chosen in signatures.items()
            if parameter in (part.rstrip("=…").strip() for part in text.split(","))
            for release in chosen
        }
        if there:
            having = tuple(release for release in releases if release in there)
            line = f"  has the parameter {parameter} in torch {ranges(having, releases)}"
            # Those of a decorated function are what the decorator makes of them.
            known = {release for chosen in signatures.values() for release in chosen}
            bits = marks.get(function, 0)
            unknown = [item for item in releases if bits >> table.numbers[item] & 1 and item not in known]
            if unknown:
                line += f"; its parameters in torch {ranges(unknown, releases)} are not known"
            return KnownName(lines=(f"{module}.{function}", line), there=None if unknown else having)
    return None


def _signatures(module: str, function: str) -> dict[str, list[str]]:
    """Return the parameters of a function of torch, each with the releases that have it so."""
    table = embedded_names.table()
    signatures: dict[str, list[str]] = {}
    for mark, bits in table.marks_of(module).items():
        if mark.startswith(f"{function}("):
            parts = mark.partition("(")[2].split(",")
            text = ", ".join(f"{part}…" if part.endswith("=") else part for part in parts)
            releases = [release for release in embedded_names.releases() if bits >> table.numbers[release] & 1]
            signatures.setdefault(text, []).extend(releases)
    return signatures


def of_library(name: str, machine: Machine = Machine.X86_64) -> KnownName | None:
    """Return what is known of a library that is missing."""
    if is_torch_library(name):
        builds = [build for _, of, build in embedded.builds() if of is machine]
        there = [build for build in builds if name in embedded.libraries(build, machine)]
        # Builds of one release for other versions of CUDA may have others, so it is said of these builds alone.
        spans = f"in {ranges(there, builds)}" if there else "in none"
        return KnownName(lines=(name, f"  a library of torch: of the builds inside abiscan, it is {spans}"))
    if library := gpu_library(name):
        maker = "ROCm" if library.stem.startswith(_ROCM_PREFIXES) else "CUDA"
        lines = [name, f"  {library.stem} of {maker}, version {library.version}"]
        if library.stem == "cudart":
            major = library.version.partition(".")[0]
            majors = embedded.cuda_majors(machine)
            there = [str(release) for release, of in majors.items() if major in of]
            if there:
                lines.append(f"  torch built for CUDA {major}: {ranges(there, list(map(str, majors)))}")
        return KnownName(lines=tuple(lines))
    if match := _LIBPYTHON.match(name):
        line = f"  Python {match[1]} as a library: conda install python={match[1]}, or the package of the system"
        return KnownName(lines=(name, line))
    return KnownName(lines=(name,))


def of_symbol_version(name: str) -> KnownName:
    """Return what is known of the version of a system library, ``GLIBCXX_3.4.29``."""
    kind, _, version = name.partition("_")
    gcc = dict(_COMPILERS.get(kind, ())).get(version)
    if gcc:
        return KnownName(lines=(name, f"  in the libstdc++ of GCC {gcc} and later"))
    if kind == "GLIBC" and version[:1].isdigit():
        return KnownName(lines=(name, f"  in glibc {version} and later"))
    return KnownName(lines=(name,))


def _spans(there: Collection[str], releases: Sequence[str]) -> str:
    lacking = [release for release in releases if release not in set(there)]
    if not there:
        return f"not in torch {ranges(lacking, releases)}"
    absent = f"; not in {ranges(lacking, releases)}" if lacking else ""
    return f"there in torch {ranges(list(there), releases)}{absent}"


def _libraries(name: str, machine: Machine) -> str:
    libraries = sorted(embedded.libraries_exporting(name, machine))
    return f" ({listed(libraries)})" if libraries else ""


def _release_of(torch: str | None) -> str | None:
    version = TorchVersion.parse(torch) if torch else None
    return str(version.of_release) if version else None
