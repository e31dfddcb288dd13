"""The guard that ``abiscan guard`` writes, in a package that is read.

It asks a running torch for all that the stamp next to it lists, which cannot be followed. The answers of the build that
the stamp was made with are known: the stamp has what that build says.
"""

from __future__ import annotations

import json
import posixpath
from typing import Final

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.values import PythonFunction

_GUARD, _STAMP = "_abiscan_guard.py", "_abiscan_stamp.json"
_BEGINNING: Final = b'"""The import-time guard of abiscan'


def finds_no_difference(machine: PythonMachine, function: PythonFunction) -> bool:
    """Whether a function named ``check`` is that of a guard, which finds no difference here."""
    file = function.scope.module.file
    if file is None or posixpath.basename(file) != _GUARD:
        return False
    stamp = posixpath.join(posixpath.dirname(file), _STAMP)
    if not machine.files.exists(stamp) or not machine.files.read(file).startswith(_BEGINNING):
        return False
    try:
        built_for = json.loads(machine.files.read(stamp))["built_for"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return bool(built_for == machine.world.torch_version)
