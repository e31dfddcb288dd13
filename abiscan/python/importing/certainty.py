"""Which errors of Python code alone are certain.

A package was imported before it was published. So an error is a mistake of the reading, or due to what is installed,
unless it is known what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from abiscan.python.interpreter.machine import Trace
from abiscan.python.package.installed import Surroundings
from abiscan.python.package.model import Raised
from abiscan.regex import regex

_ABSENT_TORCH_NAME: Final = regex(r"'torch[.']|_OpNamespace|The underlying op of ")
"""What the errors have in their texts that Python and torch raise for a name which torch does not have."""
_ABSENT_MODULE: Final = regex(r"No module named '(\w+((?:\.\w+)*))'(?:; .*)?")
"""What Python says of a module that is not installed."""
_NO_METADATA: Final = regex(r"No package metadata was found for (\S+)")
"""What Python says of a distribution that is not installed (``importlib.metadata.PackageNotFoundError``)."""
_PRESENT: Final = regex(
    r"(?<![\w.-])([A-Za-z][\w-]{0,80}(?:\.[A-Za-z][\w-]{0,80}){0,3})"
    r"(?:[\s:('\"`]{1,4}(?:version|is|was|has|found|installed|currently|detected|at)\b){0,4}"
    r"(?:[\s:('\"`]{1,4}|={1,2})(\d{1,9}(?:\.\w{1,30}){1,9})"
    r"(?!\.?\w|\+|\S{0,9}\s{1,4}(?:(?:is|are|was)\s{1,4}(?:required|needed|recommended)|or\s{1,4}(?:newer|later|higher|above)))"
)
"""How code says which version it has come upon: ``found tokenizers==0.22.0``, ``your numpy version is 1.26.4``."""
_REACH: Final = 80
_WANTED: Final = regex(
    r"(?i)\b(?:tested\b[^;,]*|(?:needs?|requir(?:es?|ed|ing)|install(?:ing)?|upgrade|downgrade|least)\s+(?:[\w-]+\s+)?)$"
)
"""What stands before a name with the version that ought to be there."""


def is_certain(raised: Raised, surroundings: Surroundings, trace: Trace | None = None) -> bool:
    """Whether an error counts: torch lacks a name, this environment a module that can be imported, or another package
    raises it.

    :param trace: of the run that raises it: where a library of the package has failed to load, that is why
    """
    errors = list(chain(raised))
    # Packages that are installed alongside it were read, too, so their absence is no mistake of this reading.
    if any(error.of_other or error.of_torch or _ABSENT_TORCH_NAME.search(error.message or "") for error in errors):
        return True
    if trace is not None and any(isinstance(attempt.raised, Raised) for attempt in trace.attempts):
        return True
    if any(_is_refused(error, surroundings) for error in errors):
        return True
    is_of_import = raised.exception in {"ImportError", "ModuleNotFoundError", "PackageNotFoundError"}
    return is_of_import and any(_is_absent(error, surroundings) for error in errors)


def _is_absent(raised: Raised, surroundings: Surroundings) -> bool:
    """Whether an error says that a module or a distribution is absent which the environment is known to lack."""
    if raised.exception == "PackageNotFoundError":
        found = _NO_METADATA.fullmatch(raised.message or "")
        return found is not None and surroundings.version(found[1]) is None
    absent = _ABSENT_MODULE.fullmatch(raised.message or "") if raised.exception == "ModuleNotFoundError" else None
    if absent is None:
        return False
    return (surroundings.has(absent[1], None) if absent[2] else surroundings.installed(absent[1])) is False


def _is_refused(raised: Raised, surroundings: Surroundings) -> bool:
    """Whether an error names the version of a distribution that is installed: code refuses that one."""
    text = raised.message or ""
    return any(
        surroundings.version(found[1]) == found[2]
        and not _WANTED.search(text[max(0, found.start() - _REACH) : found.start()])
        for found in _PRESENT.finditer(text)
    )


def fails_for_torch(raised: object) -> bool:
    """Whether an import fails because torch lacks a name, a parameter or an operator."""
    errors = list(chain(raised if isinstance(raised, Raised) else None))
    # If the torch lacks something that another package needs, another version of this package does not help.
    if any(error.of_other for error in errors):
        return False
    return any(error.of_torch or _ABSENT_TORCH_NAME.search(error.message or "") for error in errors)


def chain(raised: Raised | None) -> Iterator[Raised]:
    """Yield an error, and what it was raised from."""
    while raised is not None:
        yield raised
        raised = raised.cause
