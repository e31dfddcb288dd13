"""The answer to a pasted error, or to a name: its cause, what is known, and what to type next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from abiscan.binary.elf import Machine
from abiscan.diagnosis import names
from abiscan.diagnosis.causes import CAUSES, CHANGED_PARAMETERS, CLASSES_IN_ERRORS, ErrorCause
from abiscan.diagnosis.names import KnownName
from abiscan.diagnosis.reading import Match, PastedText, read
from abiscan.inputs.version import TorchVersion
from abiscan.models.namespaces import PACKAGES
from abiscan.regex import regex
from abiscan.torches import embedded
from abiscan.words import ranges

_SYMBOL: Final = regex(r"_{1,2}Z[\w.$@]+|(?:aoti_)?torch_\w+|THP\w+|_?Py[A-Z_]\w+")
_OPERATOR: Final = regex(r"(?:torch\.ops\.)?[A-Za-z_]\w*(?:::|\.)[\w.]+")
_MACOS_ERROR: Final = regex(r"[Ss]ymbol not found")
_CXX_NAME: Final = regex(r"[A-Za-z_]\w*(?:::~?\w+)+(?:\(.*\)[\w ]*)?")
_LIBRARY: Final = regex(r"lib[\w.+-]+\.so(?:\.[0-9]+)*")
_VERSION: Final = regex(r"(?:GLIBCXX|GLIBC|CXXABI)_[0-9.]+")
_NAME: Final = regex(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OF_CLASS: Final = regex(r"type object '([\w.]+)'|'([\w.]+)' object")
_ITSELF: Final = ("torch/lib/", "torch/_C.", "nvidia/")
_LOADER_RULES: Final = ("undefined-symbol", "cxx11-abi-mismatch", "cuda-runtime-mismatch")
_TORCH_FAILS_ADVICE: Final = (
    "it is torch itself that does not load: another copy of a library is met before its own, or its packages do not go "
    "together. Unset LD_LIBRARY_PATH, and install torch again in a new environment"
)

_LOADED: Final = (
    "this release has it, so it is not loaded, or not linked: import torch before the extension; link the extension "
    "with the library that has it"
)
_NOT_OF_TORCH: Final = (
    "the name is the package's own, or of a library that it needs: install the package again, or build it with all of "
    "its sources and link it with that library"
)
_OTHER_FILE: Final = (
    "this release has it, so another torch is imported, or a part of one: "
    "python -c 'import torch; print(torch.__file__, torch.__version__)'"
)
_NOT_THE_RELEASE: Final = {
    "undefined-symbol": _LOADED,
    "cxx11-abi-mismatch": _LOADED,
    "missing-torch-name": _OTHER_FILE,
}
_RELEASE_CAUSES: Final = (*_NOT_THE_RELEASE, "missing-operator-lookup", CHANGED_PARAMETERS)


class Explanation(Struct, frozen=True, kw_only=True):
    """What is known of a text.

    :ivar cause: None for a name, which has none, and for a text that is not recognised
    :ivar lines: what to print
    :ivar recognised: whether anything is known
    :ivar names: the names that were looked up
    """

    cause: str | None
    lines: tuple[str, ...]
    recognised: bool = True
    names: tuple[str, ...] = ()


def answer(text: str) -> Explanation:
    """Explain a pasted error, a symbol, an operator, or a C++ name."""
    stripped = text.strip()
    known = _of_name(stripped) if "\n" not in stripped else None
    if known is not None:
        lines = [*known.lines, *_meaning_of_marks([known])]
        if known.cause:
            lines.append(f"explained in: abiscan explain {known.cause}" if _has_page(known.cause) else "")
        return Explanation(cause=known.cause, lines=tuple(filter(None, lines)), names=(known.lines[0],))
    reading = read(text)
    if reading.match is not None:
        machine = next((machine for machine in Machine if machine.value in text), Machine.X86_64)
        knowns = list(_known_names(reading, reading.match, machine))
        if knowns or reading.match.cause.name != CHANGED_PARAMETERS:
            return _answer_match(reading, reading.match, knowns)
    return Explanation(cause=None, lines=tuple(_not_recognised(reading)), recognised=False)


def _of_name(text: str) -> KnownName | None:
    if _SYMBOL.fullmatch(text) or names.CUDA_NAME.fullmatch(text):
        return names.of_symbol(text)
    if _LIBRARY.fullmatch(text):
        return names.of_library(text)
    if _VERSION.fullmatch(text):
        return names.of_symbol_version(text)
    if _OPERATOR.fullmatch(text):
        name = text.removeprefix("torch.ops.")
        if "::" not in name:
            name = name.replace(".", "::", 1) if name != text else ""
        if name and (known := names.of_operator(name)):
            return known
    return names.of_cxx_name(text) if _CXX_NAME.fullmatch(text) else None


def _answer_match(reading: PastedText, match: Match, knowns: Sequence[KnownName]) -> Explanation:
    cause = match.cause
    # The words are the same for several causes; the symbol tells which.
    for known in knowns:
        if known.cause is not None:
            cause = next((other for other in CAUSES if other.name == known.cause), cause)
    packages = [*reading.packages, *((known.package, None) for known in knowns if known.package)]
    lines = [f"{cause.name}: {cause.summary}", f"  in the text: {match.text}"]
    for known in knowns:
        lines += [f"  {line}" for line in known.lines]
    lines += _meaning_of_marks(knowns)
    lines += _state_torch(reading, knowns)
    is_torch = match.path is not None and any(part in match.path.replace("\\", "/") for part in _ITSELF)
    lines.append(
        f"fix: {_TORCH_FAILS_ADVICE if is_torch and cause.name in _LOADER_RULES else _fix_of(cause, reading, knowns)}"
    )
    lines += _next_commands(cause, reading, [] if is_torch else packages)
    return Explanation(cause=cause.name, lines=tuple(lines), names=tuple(known.lines[0] for known in knowns))


def _meaning_of_marks(knowns: Sequence[KnownName]) -> list[str]:
    """Return what « and » mean, if there are any."""
    is_marked = any("«" in line for known in knowns for line in known.lines)
    return ["  «…»: what differs from the name that was looked up"] if is_marked else []


def _known_names(reading: PastedText, match: Match, machine: Machine) -> Iterator[KnownName]:
    values = match.values
    if symbol := values.get("symbol"):
        # macOS has an underscore before every name.
        of_macos = _MACOS_ERROR.search(match.text) is not None
        symbol = symbol.removeprefix("_") if of_macos else symbol
        if "::" in symbol:
            yield names.of_cxx_name(symbol, machine, reading.torch) or KnownName(lines=(symbol,))
        else:
            yield names.of_symbol(symbol, machine, reading.torch, of_macos=of_macos)
    if match.cause.name == "missing-torch-name" and (name := _torch_name(match)):
        yield names.of_torch_name(name) or KnownName(lines=(name,))
    elif match.cause.name == CHANGED_PARAMETERS:
        function = values["function"].rpartition(".")[2]
        if known := names.of_parameter(function, values["parameter"]):
            yield known
    elif match.cause.name == "missing-name":
        module, name = values.get("module"), values.get("name")
        yield KnownName(lines=(".".join(filter(None, (module, name))) if name else f"triton.{module}",))
    elif match.cause.name == "duplicate-library" and "namespace" in values:
        yield KnownName(lines=(values["namespace"],), package=PACKAGES.get(values["namespace"]))
    elif operator := _operator_of(values):
        yield names.of_operator(operator, machine) or KnownName(lines=(operator,), package=_package_of(operator))
    elif match.cause.name in ("missing-module", "python-abi-mismatch") and "module" in values:
        yield KnownName(lines=(values["module"],))
    if library := values.get("library"):
        yield names.of_library(library, machine) or KnownName(lines=(library,))
    if match.cause.name == "symbol-version-not-found":
        yield names.of_symbol_version(values.get("version") or values["symbol_version"])


def _torch_name(match: Match) -> str | None:
    values, text = match.values, match.text
    owner = f"torch.{values['module']}" if "module" in values else "torch"
    if of_class := _OF_CLASS.search(text):
        owner = CLASSES_IN_ERRORS.get(of_class[1] or of_class[2], owner)
    if "name" in values:
        return f"{owner}.{values['name']}"
    return owner if "No module named" in text and owner != "torch" else None


def _operator_of(values: Mapping[str, str]) -> str | None:
    if "operator" in values:
        return values["operator"]
    if "namespace" in values and "name" in values:
        return f"{values['namespace']}::{values['name']}"
    name = values.get("name", values.get("packet", ""))
    return name if "::" in name and not name.startswith("__torch__") else None


def _package_of(operator: str) -> str | None:
    namespace = operator.partition("::")[0]
    return PACKAGES.get(namespace)


def _fix_of(cause: ErrorCause, reading: PastedText, knowns: Sequence[KnownName]) -> str:
    """Return what to do, with the releases of torch that have what is missing."""
    there = next((known.there for known in knowns if known.there is not None), None)
    if cause.name not in _RELEASE_CAUSES or there is None:
        is_own = cause.name == "undefined-symbol" and any(known.is_foreign for known in knowns)
        return _NOT_OF_TORCH if is_own else cause.fix
    releases = list(map(str, embedded.versions()))
    version = TorchVersion.parse(reading.torch) if reading.torch else None
    has_it = str(version.of_release) in there if version else set(there) >= set(releases)
    if has_it:
        return _NOT_THE_RELEASE.get(cause.name, cause.fix)
    return f"{cause.fix}, or torch {ranges(there, releases)}, which has it" if there else cause.fix


def _state_torch(reading: PastedText, knowns: Sequence[KnownName]) -> Iterator[str]:
    """Yield what the torch that the text names has of the names."""
    version = TorchVersion.parse(reading.torch) if reading.torch else None
    if version is None:
        return
    release = str(version.of_release)
    if version.of_release not in embedded.versions():
        yield f"  the text names torch {reading.torch}, which abiscan does not know"
        return
    for known in knowns:
        if known.there is not None:
            word = "has" if release in known.there else "does not have"
            yield f"  the text names torch {reading.torch}, which {word} it"


def _next_commands(cause: ErrorCause, reading: PastedText, packages: Sequence[tuple[str, str | None]]) -> Iterator[str]:
    version = TorchVersion.parse(reading.torch) if reading.torch else None
    torch = f" --torch {version.number}" if version is not None and version.of_release in embedded.versions() else ""
    commands = []
    named = next(((name, number) for name, number in packages if _NAME.fullmatch(name)), None)
    if named is not None and cause.name not in ("torch-not-installed", "missing-module"):
        name, number = named
        commands.append(f"abiscan check {shlex.quote(f'{name}=={number}' if number and torch else name)}{torch}")
        commands.append(f"abiscan fit {name}{torch}")
    elif cause.name.startswith("model-"):
        commands.append(f"abiscan check MODEL{torch}")
    else:
        commands.append("abiscan doctor")
    if _has_page(cause.name):
        commands.append(f"abiscan explain {cause.name}")
    for place, command in enumerate(commands):
        yield f"{'     ' if place else 'next:'} {command}"


def _has_page(cause: str) -> bool:
    from abiscan.rules import EVERY_RULE

    return any(rule.name == cause for rule in EVERY_RULE)


def _not_recognised(reading: PastedText) -> Iterator[str]:
    """Say that the text is not known, and what to do."""
    yield "not recognised: nothing in the text is an error that abiscan knows"
    if reading.last is not None:
        yield f"  it ends in: {' '.join(reading.last.split())[:200]}"
    named = next((name for name, _ in reading.packages if _NAME.fullmatch(name)), None)
    yield "paste the whole traceback, with the lines before it: the cause is often in an earlier error"
    yield f"next: {f'abiscan check {named}' if named else 'abiscan doctor'}"
