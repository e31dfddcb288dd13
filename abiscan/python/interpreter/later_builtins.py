"""The built-in names that came after Python 3.10, and stand-ins for their classes where the running one lacks them."""

from __future__ import annotations

import builtins
from typing import Any, Final

FIRST: Final = {
    "BaseExceptionGroup": (3, 11), "ExceptionGroup": (3, 11), "PythonFinalizationError": (3, 13),
    "_IncompleteInputError": (3, 13),
}  # fmt: skip
"""The names, and the versions that brought them: "What's New in Python 3.X", up to 3.14."""
NAMES: Final = frozenset({*dir(builtins), *FIRST})
"""The names that some Python has built in."""


def _stand_in(name: str, *bases: type) -> Any:
    return getattr(builtins, name, None) or type(name, bases, {"__module__": "builtins"})


_group: Final = _stand_in("BaseExceptionGroup", BaseException)
CLASSES: Final[dict[str, type[BaseException]]] = {
    "BaseExceptionGroup": _group,
    "ExceptionGroup": _stand_in("ExceptionGroup", _group, Exception),
    "PythonFinalizationError": _stand_in("PythonFinalizationError", RuntimeError),
    "_IncompleteInputError": _stand_in("_IncompleteInputError", SyntaxError),
}


def built_in(name: str) -> Any:
    """Return what is built in by a name, None if nothing is."""
    return CLASSES.get(name) or getattr(builtins, name, None)
