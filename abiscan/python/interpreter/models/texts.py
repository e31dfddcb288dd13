"""Versions, regular expressions and JSON: what code makes of texts."""

from __future__ import annotations

import codecs
import json
import re
import zlib
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

from packaging.version import VERSION_PATTERN, InvalidVersion, Version

from abiscan.python.interpreter.cost import LONGEST
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.builtin import NewFile
from abiscan.python.interpreter.models.namespace import (
    Args,
    Kwargs,
    Model,
    make_namespace,
    native_functions,
    take_argument,
)
from abiscan.python.interpreter.operations import FAITHFUL, attempt_operation
from abiscan.python.interpreter.values import (
    Bound,
    NotKnown,
    PythonError,
    PythonFunction,
    Thrown,
    as_scalar,
    is_concrete,
)
from abiscan.regex import regex


class PlainVersion(Version):
    """A version, compared as packaging does."""

    is_plain = True


class PackagingVersion(PlainVersion):
    """A version of packaging's own class: it compares with no text, and with no version of a copy of packaging."""

    is_exact = True


PackagingVersion.__name__ = PackagingVersion.__qualname__ = "Version"  # messages show the name of its class


class NumpyVersion(PlainVersion):
    """``numpy.lib.NumpyVersion``, which compares with texts, too."""

    def __lt__(self, other: object) -> bool:
        """Return whether it is older."""
        return super().__lt__(_as_version(other))

    def __le__(self, other: object) -> bool:
        """Return whether it is not newer."""
        return super().__le__(_as_version(other))

    def __gt__(self, other: object) -> bool:
        """Return whether it is newer."""
        return super().__gt__(_as_version(other))

    def __ge__(self, other: object) -> bool:
        """Return whether it is not older."""
        return super().__ge__(_as_version(other))

    def __eq__(self, other: object) -> bool:
        """Return whether it is the same."""
        return super().__eq__(_as_version(other))

    __hash__ = Version.__hash__


def _as_version(other: object) -> Any:
    return NumpyVersion(other) if isinstance(other, str) else other


def _version_class(name: str, cls: type[PlainVersion]) -> dict[str, object]:
    def make(text: str) -> PlainVersion:
        try:
            return cls(text[:200])
        except InvalidVersion as error:
            raise Thrown(PythonError(ValueError, error.args)) from None

    def parse(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        if args and isinstance(args[0], str):
            return make(args[0])
        return NotKnown("Version()", args[0].why) if args and isinstance(args[0], NotKnown) else NotKnown("Version()")

    return {
        **{member: Native(f"{name}.{member}", parse, computes=make) for member in ("Version", "parse", "LooseVersion")},
        "InvalidVersion": ValueError,
    }


class PlainMatch(Modelled):
    """A match of a regular expression."""

    is_plain = True
    __slots__ = ("match",)

    def __init__(self, match: re.Match[str]) -> None:
        self.match = match

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its methods, and its groups by number."""
        name = "group" if name == "__getitem__" else name
        if name not in {"group", "groups", "groupdict", "start", "end", "span"}:
            return NotKnown(f"match.{name}")
        return Native(name, lambda _machine, args, _kwargs: attempt_operation(name, getattr(self.match, name), *args))


_MOST_MATCHING = 10**9
_AT_ONCE = 10_000
"""What a regular expression does in the time of one step."""
_SEARCHED_AT_ONCE = 1_000
"""The characters that a text is searched for in the time of one step."""
_REPETITION: Final = regex(r"[*+?{]")
_LIKE_VERSIONS: Final = "(?P<epoch>"
_COMMENT: Final = regex(r"#.*")
_BEFORE_RELEASE: Final = regex(r"(?<=<pre_l>)\(?(?:(?:a|b|c|rc|alpha|beta|pre|preview)\|?){8}\)?(?=\))")
_POSSESSIVE: Final = regex(r"([*+?])\+")
_OF_ONE_MATCH = frozenset({"fullmatch", "match", "search"})


class Pattern(Modelled):
    """A compiled regular expression."""

    __slots__ = ("flags", "text")

    def __init__(self, text: str, flags: int) -> None:
        self.text, self.flags = text, flags

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its methods."""
        return Native(name, lambda m, args, kwargs: _make_regular(name)(m, [self, *args], kwargs))


@lru_cache(maxsize=64)
def _is_for_versions(pattern: str) -> bool:
    """Whether a pattern is that of PEP 440 (appendix B), which packages have copies of: what follows a repetition
    begins with another character, or is optional and at the end of what does, so that it takes few steps.
    """
    return _LIKE_VERSIONS in pattern and _without_layout(pattern).removeprefix("^\\s*").removesuffix("\\s*$") == (
        _without_layout(VERSION_PATTERN)
    )


def _without_layout(pattern: str) -> str:
    """Return a verbose pattern for versions without its comments and blanks, and in one of its spellings."""
    pattern = "".join(_COMMENT.sub("", pattern).split()).replace(r"[-_\.]", "[._-]").replace("(?a:", "(?:")
    return _BEFORE_RELEASE.sub("", _POSSESSIVE.sub(r"\1", pattern))


def _is_harmless(machine: PythonMachine, pattern: str, text: str, flags: int = 0) -> bool:
    """Whether matching takes few steps, which are counted."""
    from abiscan.python.interpreter.matching import most_steps  # few packages match anything as they are imported

    # For each of its repetitions, the text may be gone through.
    machine.count_steps(len(text) * len(_REPETITION.findall(pattern)) // _AT_ONCE)
    if _is_for_versions(pattern):
        return True
    steps = most_steps(pattern, flags, text)
    if steps is not None and steps <= _MOST_MATCHING:
        machine.count_steps(steps // _AT_ONCE)
        return True
    # Little text, few repetitions, none of them around others.
    # A backtracking search takes, at worst, as many steps as the text is long to the power of the repetitions; a
    # repetition around another one, exponentially many.
    repeats = len(_REPETITION.findall(pattern))
    nested = re.search(r"\)[*+{]", pattern) is not None
    most = (len(text) + 1) ** min(repeats, 20)
    if len(pattern) > 200 or len(text) > (16 if nested else 2000) or most > _MOST_MATCHING:
        return False
    machine.count_steps(most // _AT_ONCE)
    return True


def _lacks(machine: PythonMachine, texts: list[str], flags: int) -> bool:
    """Whether a text, the second, lacks a part that each match of a pattern has."""
    pattern, text = texts
    from abiscan.python.interpreter.matching import lacks_literal

    machine.count_steps(len(text) // _SEARCHED_AT_ONCE)
    return lacks_literal(pattern, flags, text)


def _make_regular(name: str) -> Model:
    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        if name == "sub" and len(args) > 2 and isinstance(args[1], (PythonFunction, Bound, Native)):
            return _substitute(machine, args, kwargs)
        flags = next((argument.flags for argument in args[:1] if isinstance(argument, Pattern)), 0)
        args = [argument.text if isinstance(argument, Pattern) else as_scalar(argument) for argument in args]
        # The first is the pattern, the last the text that is searched: a template stands between them.
        texts = [argument for argument in args if isinstance(argument, str)]
        if name == "compile" and texts:
            given = take_argument(args, kwargs, 1, "flags", flags)
            return Pattern(texts[0], given) if isinstance(given, int) else NotKnown("re.compile()")
        if name in _OF_ONE_MATCH and len(texts) == len(args) == 2 and not kwargs and _lacks(machine, texts, flags):
            return None
        if len(texts) < 2 or not is_concrete(args) or kwargs or not _is_harmless(machine, texts[0], texts[-1], flags):
            return NotKnown(f"re.{name}()")
        if name == "sub" and (len(texts[-1]) + 1) * len(texts[1]) > LONGEST:
            return NotKnown("re.sub()")
        try:
            match = getattr(re.compile(texts[0], flags), name)(*args[1:]) if flags else getattr(re, name)(*args)
        except (re.error, *FAITHFUL, TypeError, AttributeError):
            return NotKnown(f"re.{name}()")
        return (
            PlainMatch(match)
            if isinstance(match, re.Match)
            else match
            if is_concrete(match)
            else NotKnown(f"re.{name}()")
        )

    return call


def _model_json(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    source = args[0] if args else None
    content = source if isinstance(source, str) else machine.call(machine.get_attribute(source, "read"), [], {})
    if not isinstance(content, str):
        machine.note_possible_uses(NotKnown("json.load()"), kwargs.values())
        return NotKnown("json.load()")
    hooks = {
        name: _make_hook(machine, value)
        for name, value in kwargs.items()
        if name.endswith("_hook") and value is not None
    }
    return attempt_operation("json.load()", json.loads, content, **hooks)


def _model_dump(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    file = take_argument(args, kwargs, 1, "fp")
    value = take_argument(args, kwargs, 0, "obj")
    is_plain = is_concrete(value) and not kwargs.keys() & {"cls", "default"}
    if isinstance(file, NewFile):
        text = attempt_operation("json.dump()", json.dumps, value) if is_plain else NotKnown("json.dump()")
        file.put_text(machine, text)
    else:
        machine.note_possible_uses(NotKnown("json.dump()"), [*args, *kwargs.values()])
    return None


def _make_hook(machine: PythonMachine, function: object) -> Callable[[object], object]:
    return lambda value: machine.call(function, [value], {})


def _substitute(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``re.sub`` with a function, which is called for each match."""
    pattern, function, text = args[0], args[1], args[2]
    if isinstance(pattern, Pattern):
        pattern = NotKnown("re.compile()") if pattern.flags else pattern.text
    if (
        not (isinstance(pattern, str) and isinstance(text, str) and _is_harmless(machine, pattern, text))
        or len(args) > 3
        or kwargs
    ):
        machine.note_possible_call(NotKnown("re.sub()"), function)
        return NotKnown("re.sub()")
    # Between the matches, the text stays; each is replaced by what the function of the package gives for it.
    matches = attempt_operation("re.sub()", lambda: list(re.finditer(pattern, text)))
    parts: list[object] = []
    place = 0
    for match in matches if isinstance(matches, list) else ():
        parts += [text[place : match.start()], machine.call(function, [PlainMatch(match)], {})]
        place = match.end()
    parts.append(text[place:])
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if len(texts) == len(parts) else NotKnown("re.sub()")


def _make_decoder(name: str, function: Callable[..., object]) -> Model:
    """Return a function that makes one text of another: what is run is often kept so."""

    def call(_machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        known = is_concrete(args) and is_concrete(kwargs)
        return attempt_operation(f"{name}()", partial(function, *args, **kwargs)) if known else NotKnown(f"{name}()")

    return call


def _inflate(data: bytes) -> bytes | NotKnown:
    inflated = zlib.decompressobj()
    try:
        text = inflated.decompress(data, _LARGEST_TEXT)
    except zlib.error:
        return NotKnown("zlib.decompress()")
    return text if inflated.eof else NotKnown("zlib.decompress()")


def _by_codec(function: Callable[..., object]) -> Callable[..., object]:
    def convert(value: object, encoding: str = "utf-8") -> object:
        return function(value, encoding) if encoding.lower() in _CODECS else NotKnown(f"{encoding}")

    return convert


_LARGEST_TEXT: Final = 2_000_000
_CODECS: Final = frozenset({"ascii", "base64", "hex", "latin-1", "latin1", "rot13", "rot_13", "utf-8", "utf8"})
"""The encodings whose texts are not much longer than what they are decoded from."""
_DECODERS: Final[dict[str, dict[str, Callable[..., object]]]] = {
    "codecs": {"decode": _by_codec(codecs.decode), "encode": _by_codec(codecs.encode)},
    "zlib": {"decompress": _inflate},
}

MODELS: dict[str, Callable[[PythonMachine], object]] = {
    **{
        module: make_namespace(
            module,
            **{
                name: Native(f"{module}.{name}", _make_decoder(f"{module}.{name}", of))
                for name, of in functions.items()
            },
        )
        for module, functions in _DECODERS.items()
    },
    "numpy.lib": make_namespace("numpy.lib", NumpyVersion=_version_class("numpy.lib", NumpyVersion)["Version"]),
    "json": make_namespace("json", **native_functions("json", dump=_model_dump, load=_model_json, loads=_model_json)),
    "packaging": make_namespace("packaging"),
    "packaging.version": make_namespace("packaging.version", **_version_class("packaging.version", PackagingVersion)),
    "distutils.version": make_namespace("distutils.version", **_version_class("distutils.version", PlainVersion)),
    "re": make_namespace(
        "re",
        **{
            name: Native(f"re.{name}", _make_regular(name))
            for name in ("match", "search", "fullmatch", "sub", "split", "findall", "compile")
        },
        **{name: int(flag) for name, flag in re.RegexFlag.__members__.items()},
    ),
}
"""Modules by name."""
