"""What ``import`` does besides ``dlopen``.

The importer goes by file names, and pybind11 modules check the version of Python.
"""

from __future__ import annotations

import posixpath

from abiscan.binary.elf import SharedObject
from abiscan.inputs.interpreter import Interpreter, PythonTag
from abiscan.linkage.model import LoadError


def expected_tag(name: str, facts: SharedObject) -> PythonTag | None:
    """Read from its file name which Python a module is for; return None if it is for any, or is not a module."""
    return PythonTag.of_file(name) if facts.python_modules else None


def compiled_for(facts: SharedObject, interpreter: Interpreter) -> str | None:
    """Return the Python version that a pybind11 module was compiled for (``3.12``), as far as its strings show it.

    ``PyInit_*`` of such a module compares a literal with ``Py_GetVersion()``; the literal is one of the module's
    strings. If there are several candidates, one that matches the interpreter is taken.
    """
    if not facts.python_modules:
        return None
    running = interpreter.tag.version
    if running in facts.pybind11_python:
        return running
    return facts.pybind11_python[0] if len(facts.pybind11_python) == 1 else None


def import_error(path: str, facts: SharedObject, interpreter: Interpreter | None) -> LoadError | None:
    """Predict the error that ``import`` raises for a module that ``dlopen`` accepts; return None if it raises none.

    The messages are those of pybind11 (``PYBIND11_CHECK_PYTHON_VERSION``) and of ``importlib``.
    """
    if interpreter is None:
        return None
    version = compiled_for(facts, interpreter)
    if version is not None and version != interpreter.tag.version:
        running = interpreter.full_version or interpreter.tag.version
        return LoadError(
            object=None,
            message=(
                f"Python version mismatch: module was compiled for Python {version}, but the interpreter version is "
                f"incompatible: {running}."
            ),
        )
    if is_passed_over(path, facts, interpreter):
        return LoadError(object=None, message=f"No module named '{posixpath.basename(path).partition('.')[0]}'")
    return None


def is_passed_over(path: str, facts: SharedObject, interpreter: Interpreter | None) -> bool:
    """Whether ``import`` does not even open a file, since its name says that it is for a different Python."""
    tag = expected_tag(posixpath.basename(path), facts)
    return interpreter is not None and tag is not None and tag != interpreter.tag
