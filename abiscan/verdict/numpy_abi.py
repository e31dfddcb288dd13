"""The C API of numpy: what an extension module raises that was compiled for another numpy than the one installed.

A module that uses the API calls ``_import_array`` as it is imported, which is compiled into the module itself: numpy's
``__multiarray_api.h``, written by ``numpy/_core/code_generators/generate_numpy_api.py``. Headers of numpy 1 ask for
``numpy.core``, whose place in numpy 2 raises; those of numpy 2 state the oldest numpy that the module is for.

Before that, a module made by Cython looks at the types that numpy's own ``__init__.pxd`` declares: one that has become
smaller raises in ``__Pyx_ImportType``. Numpy 2 took fields out of ``PyArray_Descr``: 96 bytes became 88, on 64 bits.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import Final

from packaging.version import InvalidVersion, Version

from abiscan.binary.elf import ElfFile
from abiscan.inputs import packages
from abiscan.inputs.files import Files
from abiscan.python.package.model import Answer, Raised
from abiscan.regex import regex

_CHECKS: Final = b"module compiled against ABI version 0x%x but this version of numpy is 0x%x"
_NUMPY_2_MODULE: Final = b"numpy._core._multiarray_umath\0"
_NUMPY_1_MODULE: Final = regex(rb"numpy\.core\.(?:_multiarray_umath|multiarray)\0")
_OLDEST: Final = regex(rb"NumPy C-API version 0x%x \(NumPy ([0-9]+(?:\.[0-9]+)*)\+?\) but the running NumPy")
_CHECKS_SIZE: Final = b"%.200s.%.200s size changed, may indicate binary incompatibility. Expected %zd from C header,"
_PXD_TYPE: Final = b"\0flatiter\0"
"""A type that no code names but numpy's own declarations for Cython, which are used as a whole."""
_SMALLER: Final = (
    "numpy.dtype size changed, may indicate binary incompatibility. Expected 96 from C header, got 88 from PyObject"
)
_PYBIND11: Final = b"pybind11"
_FAILS: Final = regex(rb"\0((?:numpy\._core\.multiarray|numpy\.core\.multiarray|_multiarray_umath) failed to import)\0")


def find_module_error(path: str, files: Files, search_path: Sequence[str]) -> Raised | Answer | None:
    """Return what the extension module at a path raises because of the numpy that is installed; None if it does not
    mind. A library next to it may ask for numpy on its behalf, as ``libarrow_python.so`` does: when, is not known. Nor
    is what a module of pybind11 does once ``import_array1`` fails: onnxruntime 1.16.3 prints the error and goes on.

    :param search_path: where numpy is looked for
    :raises InputError: the file cannot be read
    """
    facts = files.object_at(path, remember=False)
    if facts is None or not facts.python_modules:
        return None
    beside = (posixpath.join(posixpath.dirname(path), name) for name in facts.needed)
    images = (source.open_elf() for source in map(files.find_source, (path, *beside)) if source is not None)
    image = next(images, None)
    error = find_numpy_error(image, search_path) if image is not None else None
    if image is not None and error is not None:
        return error if next(image.find_in_data(_PYBIND11), None) is None else Answer.UNKNOWN
    return Answer.UNKNOWN if any(find_numpy_error(other, search_path) for other in images) else None


def find_numpy_error(file: ElfFile, search_path: Sequence[str]) -> Raised | None:
    """Return what an extension module raises because of the numpy that is installed; None if it does not mind.

    :param search_path: where numpy is looked for
    """
    if next(file.find_in_data(_CHECKS), None) is None:
        return None
    numpy = packages.find_version("numpy", search_path)
    if numpy is None:
        return None
    try:
        version = Version(numpy)
    except InvalidVersion:
        return None
    if next(file.find_in_data(_NUMPY_2_MODULE), None) is None:
        if version.major < 2 or _search(file, _NUMPY_1_MODULE) is None:
            return None
        if all(next(file.find_in_data(text), None) is not None for text in (_CHECKS_SIZE, _PXD_TYPE)):
            return Raised(exception="ValueError", message=_SMALLER, at=None)
        cause = f"A module that was compiled using NumPy 1.x cannot be run in NumPy {numpy} as it may crash."
    else:
        oldest = _search(file, _OLDEST)
        if oldest is None or version >= Version(oldest[1].decode()):
            return None
        cause = f"module was compiled against the C-API of NumPy {oldest[1].decode()}, the running NumPy is {version}"
    match = _search(file, _FAILS)
    message = match[1].decode() if match else "numpy.core.multiarray failed to import"
    said = Raised(exception="ImportError", message=cause, at=None)
    return Raised(exception="ImportError", message=message, at=None, cause=said)


def _search(file: ElfFile, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
    return next(file.search_data(pattern), None)
