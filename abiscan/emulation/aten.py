"""The structs in ``at::_ops``, one per operator of torch: extensions call operators through their functions (1.10 on).

``data/aten.txt`` is made by ``tools/release.py`` from the headers of the releases.
"""

from __future__ import annotations

import functools
from typing import Final

from abiscan import release_data
from abiscan.regex import regex

_MEMBER: Final = regex(r"_ZN2at4_ops(\d{1,4})(?!\d)")
_NAMESPACE: Final = "aten::"
_LONGEST: Final = 200  # characters of a struct's name; the names in a file may be as long as the file


def struct_of(operator: str) -> str:
    """Return the struct of an operator: ``add__Tensor`` is that of ``aten::add_.Tensor``."""
    return operator.removeprefix(_NAMESPACE).replace(".", "_")


def operators_behind(symbol: str) -> tuple[str, ...] | None:
    """Return the operator whose struct in ``at::_ops`` a mangled name is a member of; None if it is not of that
    namespace.

    :returns: one operator; none for a struct that no release has; two if releases use its name for different operators
    """
    match = _MEMBER.match(symbol)
    if match is None:
        return None
    struct = symbol[match.end() : match.end() + int(match[1])]
    if len(struct) > _LONGEST:
        return ()
    # Of its underscores, any may be the dot before the overload.
    places = [place for place, character in enumerate(struct) if character == "_"]
    names = [struct, *(f"{struct[:place]}.{struct[place + 1 :]}" for place in places)]
    return tuple(sorted(name for name in (_NAMESPACE + name for name in names) if is_known(name)))


@functools.cache
def _recorded_operators() -> frozenset[str]:
    return frozenset(release_data.folder("emulation").joinpath("aten.txt").read_text("utf-8").splitlines())


def is_known(operator: str) -> bool:
    """Whether torch has an operator of this name, in the releases of which the headers were read."""
    return operator in _recorded_operators()
