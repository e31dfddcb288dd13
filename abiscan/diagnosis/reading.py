"""What is read from a pasted error: its cause, the names in it, and the versions and packages that it mentions."""

from __future__ import annotations

import functools
import re
import string
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from abiscan.diagnosis.causes import CAUSES, ErrorCause
from abiscan.inputs.version import TorchVersion
from abiscan.regex import regex

MOST_READ: Final = 200_000
"""Characters of a text that are read: the last ones, since an error ends it."""

_ENOUGH: Final = 45
"""Characters of a template that are enough to know it by: titles and logs cut messages off."""
_LONG: Final = 80
_SHORTEST: Final = 8
_NAME: Final = r"[A-Za-z_]\w{0,200}"
_DOTTED: Final = r"[\w.:]{1,300}"
# A limit for each: without one, a long text without spaces takes time that grows with its square.
_FIELDS: Final = {
    "symbol": r"(?:[\w.$@]{1,500}(?:::|\()[^\n'`]{0,2000}|[\w.$@]{1,5000})",
    "library": r"[\w.+-]{1,100}\.(?:so|dll|dylib)[\w.]{0,40}",
    "path": r"[^\n'\"]{1,1000}",
    "where": r"[^\n:]{0,300}",
    "wheel": r"[\w.+!-]{1,200}",
    "operator": _DOTTED,
    "module": r"[\w.]{1,300}",
    "name": _DOTTED,
    "namespace": _NAME,
    "packet": _DOTTED,
    "package": r"[\w.-]{1,100}",
    "function": r"[\w.]{1,200}",
    "parameter": _NAME,
    "class": _DOTTED,
    "global": r"[\w.]{1,300}",
    "version": r"[\w.+]{1,60}",
    "symbol_version": r"(?:GLIBC|GLIBCXX|CXXABI|GCC|GOMP|OPENSSL)_[\w.]{1,40}",
    "schema_version": r"[0-9]{1,2}\.[0-9]{1,2}",
    "key": r"\w{1,60}",
}
_ANYTHING: Final = r"[\s\S]{0,600}?"
_BEGINNING: Final = r"(?<![\w.+-])"
_PARTIAL: Final = r"(?<!partially initialized )"
"""A module that is still being imported lacks names for another reason."""

# Frames and margins of tracebacks, and the colours of a terminal.
_MARGIN: Final = regex(r"\x1b\[[0-9;]*m|^[ \t]*[│┃|❱]+|[│┃|]+[ \t]*$|^[ \t]*(?:E|>)[ ]{2,}", re.MULTILINE)
_EXCEPTION: Final = regex(
    r"^[ \t]*((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)|Segmentation fault)\b[:\s]", re.MULTILINE
)
_TRACEBACK: Final = "Traceback (most recent call last)"
_QUOTES: Final = str.maketrans({0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"'})

_TORCH: Final = regex(
    r"(?<!built for: )(?<!requires )(?<![\w.-])"
    r"(?:py)?torch(?:(?:\s+|_)?version)?(?:\s+is|\s+installed)?[\s:=v|`*-]{1,24}"
    r"([0-9]+\.[0-9]+(?:\.[0-9]+)?(?:\+[a-z0-9.]+)?)(?![\w.]*[0-9]\.)",
    re.IGNORECASE,
)
_SITE: Final = regex(r"(?:site|dist)-packages[/\\]([A-Za-z_]\w*)(?:-[\w.]+\.egg[/\\](\w+))?")
_VERSIONED: Final = (
    r"(?<![\w-]){}(?:==|-|\s+version:?\s*|\s+|:\s*|=)v?([0-9]+(?:\.[0-9]+)+(?:\.?(?:post|dev|rc)[0-9]+)?)"
)
_DISTRIBUTIONS: Final = {
    "flash_attn_2_cuda": "flash-attn",
    "_torch_ipex": "intel-extension-for-pytorch",
    "_XLAC": "torch-xla",
    "awq_ext": "autoawq-kernels",
    "cv2": "opencv-python",
    "sklearn": "scikit-learn",
    "libpyg": "pyg-lib",
    "fbgemm_gpu": "fbgemm-gpu",
}
"""The distributions of modules that are called otherwise."""
_NO_SUBJECT: Final = frozenset({"torch", "nvidia", "ctypes", "numpy", "_pytest", "pip", "setuptools", "click", "typer"})
"""Packages that are in tracebacks of errors of others."""


class Match(Struct, frozen=True, kw_only=True):
    """A text that is known.

    :ivar text: what is there of it, in one line
    :ivar values: the names in it
    :ivar start: where its line begins
    :ivar path: the file that the loader names before it
    """

    cause: ErrorCause
    text: str
    values: Mapping[str, str]
    start: int
    path: str | None = None


class PastedText(Struct, frozen=True, kw_only=True):
    """What a text says.

    :ivar match: the text that is nearest to the cause; None if none is known
    :ivar torch: the version of torch that it names
    :ivar packages: the distributions that it names, each with its version or None; the likeliest first
    :ivar last: the exception that it ends in, in its own words
    """

    match: Match | None
    torch: str | None
    packages: tuple[tuple[str, str | None], ...]
    last: str | None = None


def read(text: str) -> PastedText:
    """Read what somebody pastes."""
    text = _MARGIN.sub("", text[-MOST_READ:].translate(_QUOTES))
    match, last = next(_find_all(text), None), _last_exception(text)
    # What was only logged before an error that is not known explains nothing, nor does a warning anywhere. The loaders
    # of models put a traceback into their own messages.
    is_aside = match is not None and (
        match.cause.warns or (match.start < text.find(_TRACEBACK) and not match.cause.name.startswith("model-"))
    )
    if is_aside and last and last.partition(":")[2].strip() and not _is_known(last):
        match = None
    versions = [version for version in _TORCH.findall(text) if TorchVersion.parse(version)]
    return PastedText(
        match=match,
        torch=max(versions, key=lambda version: (versions.count(version), len(version)), default=None),
        packages=tuple(_packages_in(text, match)),
        last=last,
    )


def _is_known(text: str) -> bool:
    return any(not match.cause.warns for match in _find_all(text))


def _find_all(text: str) -> Iterator[Match]:
    """Yield the texts that are known, those nearest to the cause first."""
    for cause, patterns in _compiled():
        for pattern in patterns:
            if (match := pattern.search(text)) is not None:
                yield _make_match(cause, match, text)
                break


def _make_match(cause: ErrorCause, match: re.Match[str], text: str) -> Match:
    start = text.rfind("\n", 0, match.start()) + 1
    end = text.find("\n", match.end())
    before = text[start : match.start()]
    file = re.search(r"([^\s:'\"()]*\.(?:so|pyd|dylib|dll)[\w.]*)['\")]?[:,]?[^\n/\\]*$", before)
    return Match(
        cause=cause,
        text=" ".join(text[start : end if end >= 0 else None].split())[:400],
        values={name: value.strip(" .") for name, value in match.groupdict().items() if value},
        start=start,
        path=file[1] if file else None,
    )


def _last_exception(text: str) -> str | None:
    if _TRACEBACK not in text:
        return None
    starts = [match.start() for match in _EXCEPTION.finditer(text, text.rfind(_TRACEBACK))]
    return text[starts[-1] :].strip()[:2000] if starts else None


@functools.cache
def _compiled() -> tuple[tuple[ErrorCause, tuple[re.Pattern[str], ...]], ...]:
    return tuple((cause, tuple(re.compile(pattern_of(text)) for text in cause.texts)) for cause in CAUSES)


def pattern_of(template: str) -> str:
    """Return a regular expression for what a template becomes, or for enough of its beginning."""
    pattern, length, seen = "", 0, set[str]()
    for literal, field, _, _ in string.Formatter().parse(template):
        known = _FIELDS.get(field or "")
        missing = max(_ENOUGH - length, _SHORTEST)
        length += len(literal.strip())
        is_last = field is None or (length >= _ENOUGH and known is None)
        text = literal if len(literal) <= _LONG else literal[: literal.find(" ", missing)]
        # Logs and titles end before the full stop.
        is_last = is_last or text is not literal
        text = text.rstrip(" .\n") if is_last else text
        if is_last and pattern and not text.strip("'`\""):
            break  # a quote at the end may be cut off
        pattern += r"\s+".join(map(re.escape, re.split(r"\s+", text)))
        if is_last:
            break
        # One attempt for each word, not for each of its characters.
        pattern += _BEGINNING if not pattern else ""
        pattern += known or _ANYTHING if field in seen or known is None else f"(?P<{field}>{known})"
        seen.add(field or "")
        if length >= _ENOUGH:
            break
    return _PARTIAL + pattern if template.startswith("module '") else pattern


def _packages_in(text: str, match: Match | None) -> Iterator[tuple[str, str | None]]:
    """Yield the packages, that of the file which fails first, then those of the traceback from its end."""
    modules = []
    if match is not None:
        modules += [module for module in (match.path and _module_of(match.path), match.values.get("package")) if module]
        if match.cause.name == "wheel-for-another-system" and (wheel := match.values.get("wheel")):
            modules.append(wheel.partition("-")[0])
    modules += [site[2] or site[1] for site in reversed(list(_SITE.finditer(text)))]
    seen = set[str]()
    for module in modules:
        name = distribution_of(module)
        if module not in _NO_SUBJECT and name not in seen:
            seen.add(name)
            yield name, _version_in(text, name)


def _module_of(path: str) -> str | None:
    match = _SITE.search(path)
    if match:
        return match[2] or match[1]
    # A name alone: that of a module, or of a library.
    base = re.split(r"[/\\]", path)[-1].partition(".")[0]
    parts = re.split(r"[/\\]", path)
    return (
        parts[-2] if base.startswith("_") and len(parts) == 2 else base if "cpython" in path or "abi3" in path else None
    )


def distribution_of(module: str) -> str:
    """Return the name under which a module is most likely installed."""
    return _DISTRIBUTIONS.get(module, module.replace("_", "-").strip("-").lower())


def _version_in(text: str, name: str) -> str | None:
    spelling = re.escape(name).replace(r"\-", "[-_]")
    match = re.search(_VERSIONED.format(spelling), text, re.IGNORECASE)
    return match[1] if match else None
