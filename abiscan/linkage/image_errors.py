"""What Python prints when Windows or macOS refuses an image.

Windows names no symbol, and its texts are in the user's language. Sources: ``dynload_win.c`` and ``callproc.c`` of
CPython (the errors 126 and 127 of ``LoadLibraryEx``), and what users report: pytorch3d issue #1872 (import of ``_C``),
pytorch issue #37733 (``ctypes``), pytorch issue #39640 (a library that dyld does not find), pytorch-osx-build issue #19
(a symbol).
"""

from __future__ import annotations

from abiscan.binary.image import ImageSystem
from abiscan.inputs.image_files import ImageFile
from abiscan.linkage.images import ImageLoad

_NO_MODULE = "The specified module could not be found"
_NO_PROCEDURE = "The specified procedure could not be found"


def error_text(file: ImageFile, image_load: ImageLoad, *, imported: bool | None = None) -> str:
    """Format the first error as Python prints it. A ``?`` stands for a folder.

    :param imported: whether it is imported, and not loaded by ``ctypes``; by default, its name decides
    """
    if file.system is ImageSystem.MACOS:
        return _format_macos_error(file, image_load)
    return _format_windows_error(
        file, image_load, imported=file.name.lower().endswith(".pyd") if imported is None else imported
    )


def _format_windows_error(file: ImageFile, image_load: ImageLoad, *, imported: bool) -> str:
    """Format an error of Windows, whose loader maps all libraries before it binds a name."""
    if imported:
        module = file.name.partition(".")[0]
        return f"DLL load failed while importing {module}: {_NO_MODULE if image_load.libraries else _NO_PROCEDURE}."
    if image_load.libraries:
        return (
            f"Could not find module '?\\{file.name}' (or one of its dependencies). Try using the full path with "
            "constructor syntax."
        )
    return f"[WinError 127] {_NO_PROCEDURE}"


def _format_macos_error(file: ImageFile, image_load: ImageLoad) -> str:
    """Format an error of dyld, which reports the first library or symbol that it does not find."""
    if image_load.libraries:
        first = image_load.libraries[0]
        return (
            f"dlopen(?/{file.name}, 0x0002): Library not loaded: {first.name}\n  Referenced from: ?/{first.needed_by}"
        )
    name = image_load.names[0]
    if name.library is None:
        return f"dlopen(?/{file.name}, 0x0002): symbol not found in flat namespace '{name.name}'"
    return (
        f"dlopen(?/{file.name}, 0x0002): Symbol not found: {name.name}\n  Referenced from: ?/{name.needed_by}\n"
        f"  Expected in: ?/{name.library}"
    )
