"""The systems that packages are for, as Python code sees them: names, paths, libraries, the standard library.

Sources: ``dynload_win.c``, ``dynload_shlib.c`` and ``callproc.c`` of CPython, and what the documentation of ``os``,
``sys`` and further modules says under "Availability".
"""

from __future__ import annotations

import ntpath
import posixpath
import re
from collections.abc import Mapping
from pathlib import PurePath, PurePosixPath, PureWindowsPath
from types import ModuleType
from typing import Final

from msgspec import Struct, field

from abiscan.binary.image import is_library_of_windows
from abiscan.binary.machines import Machine
from abiscan.python.package.model import Answer
from abiscan.regex import regex

_WINDOWS_MODULES: Final = dict.fromkeys(("msvcrt", "winreg", "winsound", "_winapi", "nt"))
_POSIX_MODULES: Final = dict.fromkeys(
    ("fcntl", "grp", "nis", "ossaudiodev", "posix", "pwd", "readline", "resource", "spwd", "syslog", "termios")
)


class PythonSystem(Struct, frozen=True, kw_only=True):
    """A system.

    :ivar name: ``platform.system()``
    :ivar sys_platform: ``sys.platform``
    :ivar os_name: ``os.name``
    :ivar paths: its ``os.path``
    :ivar path_class: its ``pathlib.Path``, without access to files
    :ivar prefix: the folder of Python
    :ivar root: the folder that a package is assumed to be installed in, below ``prefix``
    :ivar home: the folder of the user
    :ivar libraries: matches the names of shared libraries
    :ivar tagged: matches how the names of extension modules for a single Python end; its groups are the version
    :ivar suffixes: how those for any Python end, in the order of the import's search
    :ivar module: matches how any extension module ends
    :ivar tag: makes what ``tagged`` matches, for a Python and a machine
    :ivar lacks: the modules of the standard library that do not exist, and what each fails to import if not itself
    :ivar lacks_os: the names that ``os`` does not have
    :ivar lacks_sys: the names that ``sys`` does not have
    :ivar no_library: the exception for a library that is not there, and its text
    :ivar rtld_global: ``RTLD_GLOBAL``, as ``ctypes`` and ``os`` have it; 0 where there is none
    :ivar machines: the names of machines that differ from those on Linux
    """

    name: str
    sys_platform: str
    os_name: str = "posix"
    paths: ModuleType = posixpath
    path_class: type[PurePath] = PurePosixPath
    prefix: str = "/the-folder-of-python"
    root: str = "/the-folder-of-python/lib/python/site-packages"
    home: str = "/the-home-of-the-user"
    libraries: re.Pattern[str]
    tagged: re.Pattern[str]
    suffixes: tuple[str, ...] = (".abi3.so", ".so")
    module: re.Pattern[str] = regex(r"(\.cpython-[^.]*|\.abi3)?\.so$")
    tag: str
    lacks: Mapping[str, str | None]
    lacks_os: frozenset[str] = frozenset()
    lacks_sys: frozenset[str] = frozenset()
    no_library: tuple[type[OSError], str]
    rtld_global: int = 0x100
    machines: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_windows(self) -> bool:
        """Whether paths, and the search for libraries, are those of Windows."""
        return self.os_name == "nt"

    def place(self, path: str) -> str:
        """Return where a file of a package is; ``path`` is inside the package."""
        return f"{self.root}{self.paths.sep}{self.spelled(path)}" if path else self.root

    def spelled(self, path: str) -> str:
        """Return a path with ``/``, as the system writes it."""
        return path.replace("/", self.paths.sep)

    def inside(self, place: str) -> str | None:
        """Return the path inside a package, with ``/``; None if it is elsewhere."""
        # By the text alone: the package lies at a place that does not exist, which nothing else can be below.
        path, root = posixpath.normpath(self.with_slashes(place)), self.with_slashes(self.root)
        if path == root:
            return ""
        return path[len(root) + 1 :] if path.startswith(root + "/") else None

    def expanded(self, path: str) -> str | None:
        """Return a path whose ``~`` is the home of the user; None if it is the home of another one."""
        if not path.startswith("~"):
            return path
        return self.home + path[1:] if self.with_slashes(path[1:2]) in ("", "/") else None

    def is_empty(self, place: str) -> bool:
        """Whether nothing is assumed to be at a place outside the package.

        The package is checked as one that its user has not configured, and that is not in a folder of its developers.
        """
        path = posixpath.normpath(self.with_slashes(place))
        return path.startswith(tuple(f"{self.with_slashes(folder)}/" for folder in (self.prefix, self.home)))

    def with_slashes(self, path: str) -> str:
        """Return a path with ``/`` for every separator."""
        return path.replace("\\", "/") if self.is_windows else path

    def file_name(self, path: str) -> str:
        """Return the last part of a path inside a package, as the system compares it."""
        name = posixpath.basename(path)
        return name.lower() if self.is_windows else name

    def has_folder(self, path: str) -> bool:
        """Whether a path is more than a name."""
        return "/" in self.with_slashes(path)

    def resolved(self, path: str) -> str:
        """Return an absolute path."""
        if not self.paths.isabs(path):
            path = self.paths.join(self.current_folder, path)
        absolute: str = self.paths.normpath(path)
        return absolute

    @property
    def current_folder(self) -> str:
        """``os.getcwd()``."""
        return "C:\\cwd" if self.is_windows else "/cwd"

    def accepts_tag(self, suffix: str, python: tuple[int, int] | Answer) -> bool:
        """Whether a Python imports extension modules with this suffix because of its tag: ``.cpython-311-….so``."""
        # If the Python is not known, any tag may be its own.
        match = self.tagged.match(suffix)
        if match is None:
            return False
        return isinstance(python, Answer) or (int(match[1]), int(match[2])) == python

    def extension_suffixes(self, python: tuple[int, int], machine: str) -> list[str]:
        """Return ``importlib.machinery.EXTENSION_SUFFIXES``."""
        return [self.tag.format(f"{python[0]}{python[1]}", machine.lower()), *self.suffixes]

    def machine(self, name: str) -> str:
        """Return ``platform.machine()`` for a machine by its name on Linux."""
        return self.machines.get(name, name)

    def is_system_library(self, name: str) -> bool:
        """Whether a library is certainly there, by its name alone."""
        return self.is_windows and is_library_of_windows(name if "." in name else f"{name}.dll")

    def not_there(self, name: str) -> tuple[type[OSError], str]:
        """Return what loading a library raises that does not exist."""
        exception, text = self.no_library
        return exception, text.format(name)


LINUX: Final = PythonSystem(
    name="Linux",
    sys_platform="linux",
    libraries=regex(r"\.so(\.\d+)*(\.\d+[a-z])?$"),
    tagged=regex(r"\.cpython-(\d)(\d+)[a-z]*(-[^.]*)?\.so$"),
    tag=".cpython-{}-{}-linux-gnu.so",
    lacks=_WINDOWS_MODULES,
    no_library=(OSError, "{}: cannot open shared object file: No such file or directory"),
)

WINDOWS: Final = PythonSystem(
    name="Windows",
    sys_platform="win32",
    os_name="nt",
    paths=ntpath,
    path_class=PureWindowsPath,
    prefix="C:\\the-folder-of-python",
    root="C:\\the-folder-of-python\\Lib\\site-packages",
    home="C:\\the-home-of-the-user",
    libraries=regex(r"\.(pyd|dll)$", re.IGNORECASE),
    tagged=regex(r"\.cp(\d)(\d+)[a-z]*-win_[^.]*\.pyd$", re.IGNORECASE),
    tag=".cp{}-win_{}.pyd",
    suffixes=(".pyd",),
    module=regex(r"(\.cp\d+[a-z]*-win_[^.]*)?\.pyd$", re.IGNORECASE),
    lacks=_POSIX_MODULES | {"tty": "termios", "pty": "termios", "curses": "_curses"},
    lacks_os=frozenset({
        "RTLD_DEEPBIND", "RTLD_GLOBAL", "RTLD_LAZY", "RTLD_LOCAL", "RTLD_NODELETE", "RTLD_NOLOAD", "RTLD_NOW", "chown",
        "fork", "forkpty", "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getuid", "killpg", "mkfifo", "nice",
        "sched_getaffinity", "sched_setaffinity", "setsid", "setuid", "statvfs", "sysconf", "uname", "wait",
    }),
    lacks_sys=frozenset({"getdlopenflags", "setdlopenflags"}),
    no_library=(
        FileNotFoundError,
        "Could not find module '{}' (or one of its dependencies). Try using the full path with constructor syntax.",
    ),
    rtld_global=0,
    machines={machine.value: machine.traits.windows for machine in Machine},
)  # fmt: skip

MACOS: Final = PythonSystem(
    name="Darwin",
    sys_platform="darwin",
    libraries=regex(r"\.(so|dylib)$"),
    tagged=regex(r"\.cpython-(\d)(\d+)[a-z]*(-darwin)?\.so$"),
    tag=".cpython-{}-darwin.so",
    lacks=_WINDOWS_MODULES | dict.fromkeys(("ossaudiodev", "spwd")),
    lacks_os=frozenset({"RTLD_DEEPBIND", "memfd_create", "sched_getaffinity", "sched_setaffinity"}),
    no_library=(OSError, "dlopen({0}, 0x0006): tried: '{0}' (no such file)"),
    rtld_global=0x8,
    machines={machine.value: machine.traits.macos for machine in Machine},
)


def strip_folders(text: str) -> str:
    """Return a text without the folder of the package, and with ``~`` for the user's home."""
    for system in (LINUX, WINDOWS):  # that of macOS is that of Linux
        text = text.replace(system.root + system.paths.sep, "").replace(system.root, "").replace(system.home, "~")
    return text
