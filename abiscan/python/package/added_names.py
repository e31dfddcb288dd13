"""Which names code may give to modules and objects of others, going by its text."""

from __future__ import annotations

import re
from typing import Final

from abiscan.regex import regex

FINDS_MODULES: Final = regex(rb"\b(?:meta_path|path_hooks)\.(?:append|insert|extend)\(")
"""What changes how modules of others are found."""

_TAKES_MODULES: Final = regex(rb"\bfrom\s+sys\s+import\b[^\n]*\bmodules\b|\bmodules\s*=\s*\w*sys\.modules\b")
"""What gives ``sys.modules`` the short name."""
_ANNOTATED: Final = regex(rb"(?:^|[(,;\n])[ \t]*(?!else\b|try\b|finally\b)\w+[ \t]*:[ \t]*[\w.|\[\], \t]*$")
_LONGEST_ANNOTATION: Final = 200
_OF_ITS_OWN: Final = regex(rb"(?:\A|\W)(?:self|cls)\Z")
_SETTER: Final = regex(rb"(?:setattr|patch)\(")
_FURTHEST_SETTER: Final = 208  # before the name, with the word itself


def may_add_in(source: bytes, module: str, name: str) -> bool:
    """Whether code may give a module a name or a submodule, or one that it computes, or put another in its place."""
    if module.partition(".")[0].encode() not in source:
        return False
    full, last = re.escape(module.encode()), re.escape(module.rpartition(".")[2].encode())
    aliases = re.findall(rb"\bimport\s+(?:%b|%b)\s+as\s+(\w+)" % (full, last), source)
    owner = rb"\b(?:%b)" % b"|".join({last, *aliases})
    changes = (
        rb"%b\.(?:%b\s*(?::[^=\n]+)?=[^=]|__path__|__dict__)" % (owner, re.escape(name.encode())),
        rb"\bsetattr\(\s*[\w.]*%b\s*,\s*(?:[^'\"\s]|['\"]%b['\"])" % (owner, re.escape(name.encode())),
        rb"\bvars\(\s*[\w.]*%b\s*\)" % owner,
        rb"\bmodules\[\s*['\"]%b['\"]\s*\]\s*=[^=]" % full,
        # A set or dict of that name is no ``sys.modules``.
        rb"%b\.(?:setdefault|update)\(" % (rb"\bmodules" if _TAKES_MODULES.search(source) else rb"sys\.modules"),
        rb"\bmodules\[\s*['\"]%b\.%b['\"]\s*\]\s*=[^=]" % (full, re.escape(name.encode())),
    )
    return FINDS_MODULES.search(source) is not None or any(re.search(change, source) for change in changes)


def may_set_in(source: bytes, name: str) -> bool:
    """Whether code may set an attribute of that name on an object of others."""
    # The name is searched for, and then what stands around it: that is several times as fast as one expression.
    word = name.encode()
    if word not in source:
        return False
    # ``x.name = …``, but for ``self`` and ``cls``, which are mostly objects of its own
    stored = re.compile(rb"\.%b\s*(?::[^=\n]+)?=[^=]" % re.escape(word))
    for place in (match.start() for match in stored.finditer(source)):
        if not _OF_ITS_OWN.search(source[max(place - 5, 0) : place]) and not _is_in_annotation(source, place):
            return True
    # ``setattr(x, "name", …)``, and the same by tools that patch
    quoted = re.compile(rb"['\"]%b['\"]" % re.escape(word))
    return any(
        not _is_in_annotation(source, setter.start())
        for match in quoted.finditer(source)
        for setter in _SETTER.finditer(source, max(match.start() - _FURTHEST_SETTER, 0), match.start())
    )


def _is_in_annotation(source: bytes, place: int) -> bool:
    """Whether what seems to be set is the annotation of something with a value: ``x: torch.SymInt = 1``."""
    return _ANNOTATED.search(source, max(place - _LONGEST_ANNOTATION, 0), place) is not None
