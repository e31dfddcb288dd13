"""What the names of files and folders say about the target that a library is for."""

from __future__ import annotations

import functools
import re

from msgspec import Struct

from abiscan.python.interpreter.questions import AskedWorld
from abiscan.python.package.model import Answer, World
from abiscan.regex import regex

# ``torch2.1`` and ``torch21``, ``cu118`` and ``cuda-11.8``, ``py3.10`` and ``cp310``; a word such as ``cpu`` only where
# no letter or digit touches it.
_TOKEN = regex(
    r"torch[-_]?v?(?P<torch>\d[._]?\d{1,2})(?!\d)"
    r"|(?:cuda|cu)[-_]?(?P<cuda>\d+\.\d+|\d{2,3})(?!\d)"
    r"|(?:cpython-|cp|py)[-_]?(?P<python>3\.?\d{1,2})(?!\d)"
    r"|(?<![a-z])(?P<build>cpu|cuda|rocm|hip|xpu)(?![a-z0-9])",
    re.IGNORECASE,
)


class Named(Struct, frozen=True, kw_only=True):
    """A library's path, split into what names a target and the rest.

    :ivar pattern: the path, in which the kind of each part stands for it: ``_C_<CUDA>.so``
    :ivar parts: the kind and the value of each part: ``("cuda", "11.8")``
    """

    pattern: str
    parts: tuple[tuple[str, str], ...]


def parts_named_by(path: str) -> Named:
    """Take the parts that name a version of torch, CUDA or Python, or a kind of build, out of a path."""
    parts = []

    def take(match: re.Match[str]) -> str:
        kind = match.lastgroup or ""
        digits = re.sub(r"\D", "", match[kind])
        value = match[kind].lower() if kind == "build" else digits
        # Without a point, the minor version of CUDA is the last digit (118 is 11.8), and the major version of the
        # others is the first one (310 is 3.10).
        split = len(value) - 1 if kind == "cuda" else 1
        parts.append((kind, value if kind == "build" else f"{value[:split]}.{value[split:]}"))
        # The kind of a build and its CUDA take the same place: ``_C_cpu.so`` is an alternative to ``_C_cu118.so``.
        return "<CUDA>" if kind in {"cuda", "build"} else f"<{kind}>"

    return Named(pattern=_TOKEN.sub(take, path), parts=tuple(parts))


def fits_target(name: Named, world: AskedWorld) -> bool | None:
    """Whether the target is the one that a path names; None if it names none, or the target is not known."""
    answers = [
        world.tells(f"it is {kind} {value}", functools.partial(_fits_part, kind, value)) for kind, value in name.parts
    ]
    return None if not answers or None in answers else all(answers)


def _fits_part(kind: str, value: str, world: World) -> bool | None:
    if kind == "torch":
        torch_version = world.torch_version
        return (
            None
            if isinstance(torch_version, Answer)
            else tuple(torch_version.split("+")[0].split(".")[:2]) == tuple(value.split("."))
        )
    if kind == "python":
        python = world.python
        return None if isinstance(python, Answer) else f"{python[0]}.{python[1]}" == value
    if isinstance(world.cuda, Answer):
        return None
    if kind == "build":
        return value == ("cpu" if world.cuda is None else "cuda")
    return world.cuda == value
