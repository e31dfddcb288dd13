"""Which of its problems a load fails with: files are mapped, initialised and imported, in this order."""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from abiscan.binary.elf import SharedObject
from abiscan.inputs.interpreter import Interpreter
from abiscan.linkage.illegal_instruction import IllegalInstruction
from abiscan.linkage.model import NO_SUCH_FILE, LoadError, Resolution
from abiscan.linkage.python_import import import_error, is_passed_over
from abiscan.linkage.registering import Reaction, Registering
from abiscan.registrations import ProcessEnd


def first_error(
    path: str,
    facts: SharedObject,
    resolution: Resolution | None,
    interpreter: Interpreter | None,
    registering: Registering | None = None,
    crash: LoadError | None = None,
    illegal: IllegalInstruction | None = None,
) -> LoadError | None:
    """Choose the error that ends a load; return None if the load succeeds.

    :param resolution: None for an extension that is built for a different machine
    :param crash: the error of an initialiser that was compiled with different class layouts
    :param illegal: that of one with instructions that a processor lacks
    """
    if resolution is None:
        # ld.so ignores files for other machines (glibc, open_verify).
        return LoadError(object=posixpath.basename(path), message=NO_SUCH_FILE)
    of_python = import_error(path, facts, interpreter)
    # A module whose file name is for a different Python is never opened, so nothing below happens to it.
    if resolution.error or is_passed_over(path, facts, interpreter):
        return resolution.error or of_python
    # Initialisers run inside dlopen. An instruction that the processor lacks ends the process there, before wrong
    # layouts or rejected registrations can show.
    if illegal is not None and not illegal.in_module:
        return illegal.error
    if crash is not None:
        return crash
    # PyInit_* comes after all static initialisers: it is only reached if neither torch nor Python objects.
    if illegal is not None and of_python is None and (registering is None or registering.failure is None):
        return illegal.error
    if registering is None or (failure := registering.failure) is None:
        return of_python
    # pybind11 compares versions at the start of PyInit_*: after the static initialisers, before everything else.
    if of_python is not None and not failure.is_static:
        return of_python
    return _error_of_failure(failure, registering.operators.unworded if registering.operators else ())


def _error_of_failure(failure: Reaction, unworded: Collection[str]) -> LoadError:
    """Turn the exception of torch that stops a load into its error."""
    message = failure.outcome.message
    assert message is not None
    exact = message.exact and message.id not in unworded
    event = failure.outcome.event
    signal = event.signal if isinstance(event, ProcessEnd) else None
    return LoadError(object=None, message=message.text, aborts=failure.aborts, exact=exact, signal=signal)
