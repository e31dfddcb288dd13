"""What a running torch accepts, for ``abiscan/dispatch/data/acceptance.json``.

Which words it reads as types in a schema, and for which dispatch keys it takes a second fallback. ``tools.ask_torch``
asks the releases, one of each minor version, and both sides of a change.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from packaging.version import Version

WORDS: Final = (
    *("Tensor", "int", "float", "bool", "str", "Scalar", "complex", "Device", "Stream", "Generator", "Quantizer"),
    *("QScheme", "ScalarType", "Layout", "MemoryFormat", "Storage", "Dimname", "None", "NoneType", "Any", "Capsule"),
    *("AnyEnumType", "AnyClassType", "AnyListType", "AnyTupleType", "SymInt", "SymFloat", "SymBool", "DeviceIndex"),
    *("ConstQuantizerPtr", "DeviceObjType", "DimnameList", "Event", "PyObject", "Function", "Enum"),
)
"""Every word that some release reads as a type, or prints as one, in lower case or not."""

ASK: Final = """
import json, sys
import torch
words, keys = json.loads(sys.argv[1])
def reads(word):
    try:
        torch._C.parse_schema("ns::f(" + word + " a) -> ()")
    except RuntimeError:
        return False
    return True
libraries = []
def takes_fallback(key):
    libraries.append(torch._C._dispatch_library("IMPL", "_", key))
    libraries[-1].fallback_fallthrough()
def takes_two(key):
    try:
        takes_fallback(key)
        takes_fallback(key)
    except RuntimeError:
        return False
    return True
can_ask = hasattr(torch._C, "_dispatch_library")
json.dump({
    "type_words": [word for word in words if reads(word)],
    "repeatable_fallbacks": [key for key in keys if takes_two(key)] if can_ask else None,
}, sys.stdout)
"""


def accepted(release: str, python: str, keys: Iterable[str]) -> Any:
    """What the torch of a Python accepts.

    :param keys: its dispatch keys
    :raises SystemExit: it does not answer
    """
    wanted = json.dumps([WORDS, sorted(keys)])
    done = subprocess.run([python, "-c", ASK, wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"torch {release} does not say what it accepts: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def replaced(text: str, accepts: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """The data file with some releases replaced or added.

    :param without: releases to leave out
    """
    known = {release: what for release, what in json.loads(text).items() if release not in without} | dict(accepts)
    rows = (f"{json.dumps(release)}: {json.dumps(known[release])}" for release in sorted(known, key=Version))
    return "{\n" + ",\n".join(rows) + "\n}\n"
