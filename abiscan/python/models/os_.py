"""``os``, ``os.path``, ``pathlib``, ``glob``, ``shutil``: the environment has nothing set that is unusual."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath, PureWindowsPath

from abiscan.python import special
from abiscan.python.filesystem import as_text, exists, join, listing, matching
from abiscan.python.iteration import Lazy
from abiscan.python.machine import PythonMachine
from abiscan.python.modelled import Modelled, Native
from abiscan.python.models.namespace import Args, Kwargs, Model, Namespace, argument, natives
from abiscan.python.operations import attempt, described
from abiscan.python.values import NotKnown, Why, concrete, thrown

_USUAL = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LANG",
        "PWD",
        "SHELL",
        "TERM",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "CUDA_HOME",
        "CUDA_PATH",
        "CONDA_PREFIX",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "ROCM_HOME",
        "ROCM_PATH",
    }
)
"""Variables that may well be set; the others are taken not to be."""


class Environment(Modelled):
    """``os.environ``."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[str, object] = {}

    def attribute(self, machine: PythonMachine, name: str) -> object:
        """Its methods."""
        methods: dict[str, Model] = {
            "get": self._get,
            "__getitem__": self._item,
            "__setitem__": self._set,
            "__contains__": self._has,
            "setdefault": self._default,
            "pop": self._pop,
            "copy": lambda _m, _a, _k: self,
        }
        return Native(f"os.environ.{name}", methods[name]) if name in methods else NotKnown(f"os.environ.{name}")

    def described(self) -> str:
        """Its name."""
        return "os.environ"

    def _known(self, name: object) -> bool | None:
        if isinstance(name, str) and name in self.values:
            return True
        return None if not isinstance(name, str) or name in _USUAL else False

    def _get(self, _machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name, default = argument(args, kwargs, 0, "key"), argument(args, kwargs, 1, "default")
        known = self._known(name)
        if known is None:
            return NotKnown(f"the environment variable {name}", Why.ENVIRONMENT)
        return self.values[str(name)] if known else default

    def _item(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        if args and self._known(args[0]) is False:
            raise thrown(KeyError, args[0])
        return self._get(machine, args, kwargs)

    def _set(self, _machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        if isinstance(args[0], str):
            self.values[args[0]] = args[1]
        return None

    def _has(self, _machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        known = self._known(args[0]) if args else None
        return NotKnown(f"{described(args[0])} in os.environ", Why.ENVIRONMENT) if known is None else known

    def _default(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        if self._known(args[0]) is False:
            self._set(machine, args, kwargs)
        return self._get(machine, args, kwargs)

    def _pop(self, _machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        return self.values.pop(str(args[0]), args[1] if len(args) > 1 else NotKnown("os.environ.pop()"))


def _pure(function: Callable[..., object], name: str) -> Model:
    def call(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        texts = [as_text(one) if not isinstance(one, (list, tuple)) else one for one in args]
        if None in texts or not concrete(texts):
            unknown = next((one for one in args if isinstance(one, NotKnown)), None)
            return NotKnown(f"{name}({', '.join(map(described, args))})", unknown.why if unknown else Why.NOT_FOLLOWED)
        return attempt(name, function, *texts)

    return call


def _absolute(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    text = as_text(args[0]) if args else None
    return NotKnown("os.path.abspath()", Why.ENVIRONMENT) if text is None else machine.files.system.resolved(text)


def _check(kind: str) -> Model:
    return lambda machine, args, _kwargs: exists(machine, args[0] if args else None, kind)


def _expanded(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    text = as_text(args[0]) if args else None
    place = None if text is None else machine.files.system.expanded(text)
    return NotKnown("os.path.expanduser()", Why.ENVIRONMENT) if place is None else place


def _listdir(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return listing(machine, args[0] if args else NotKnown("the current folder"))


class DirEntry(Modelled):
    """What ``os.scandir`` gives."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def attribute(self, machine: PythonMachine, name: str) -> object:
        """Its name, its path, and what it is."""
        if name in {"name", "path"}:
            return machine.files.system.paths.basename(self.path) if name == "name" else self.path
        kind = {"is_file": "file", "is_dir": "folder"}.get(name)
        found = None if kind is None else exists(machine, self.path, kind)
        return NotKnown(f"DirEntry.{name}") if kind is None else Native(name, lambda _m, _a, _k: found)


def _scandir(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    folder = args[0] if args else NotKnown("the current folder")
    names = listing(machine, folder)
    if isinstance(names, NotKnown):
        return names
    return Lazy("os.scandir()", iter([DirEntry(machine.files.system.paths.join(str(folder), name)) for name in names]))


def _uname(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
    known = {
        "sysname": machine.files.system.name,
        "system": machine.files.system.name,
        "machine": machine.world.machine,
    }
    return Namespace("os.uname()", known)


def _walk(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    top = as_text(args[0]) if args else None
    inside = None if top is None else machine.files.inside(top)
    if not inside or top is None:
        return NotKnown(f"os.walk({described(args[0]) if args else ''})", Why.ENVIRONMENT)
    found: list[object] = []
    waiting = [inside]
    while waiting:
        folder = waiting.pop(0)
        names = sorted(machine.files.folders.get(folder, ()))
        below = [name for name in names if f"{folder}/{name}" in machine.files.folders]
        found.append((machine.files.system.place(folder), below, [n for n in names if n not in below]))
        waiting.extend(f"{folder}/{name}" for name in below)
    return Lazy("os.walk()", iter(found))


def _glob(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    pattern = as_text(args[0]) if args else None
    system = machine.files.system
    if pattern is None or not system.paths.isabs(pattern):
        return NotKnown("glob.glob()", Why.ENVIRONMENT)
    fixed = []
    steps = system.with_slashes(pattern).split("/")
    while steps and not any(sign in steps[0] for sign in "*?["):
        fixed.append(steps.pop(0))
    if not steps:
        there = exists(machine, pattern)
        return there if isinstance(there, NotKnown) else [pattern] if there else []
    return matching(machine, system.paths.sep.join(fixed) or "/", "/".join(steps))


def _iglob(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    found = _glob(machine, args, kwargs)
    return Lazy("glob.iglob()", iter(found)) if isinstance(found, list) else found


def _exit(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    raise thrown(SystemExit, *args[:1])


def _fspath(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    text = as_text(args[0]) if args else None
    return NotKnown("os.fspath()") if text is None else text


def _add_dll_directory(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    text = as_text(args[0]) if args else None
    inside = None if text is None else machine.files.inside(text)
    if inside is not None and text is not None:
        if exists(machine, text, "folder") is False:
            raise thrown(FileNotFoundError, f"[WinError 2] The system cannot find the file specified: {text!r}")
        machine.dll_folders.add(inside)
    return NotKnown("os.add_dll_directory()")


def _with_paths(functions: dict[str, object]) -> dict[str, object]:
    """Functions that take objects with ``__fspath__`` for paths."""

    def taking(function: Native) -> Native:
        def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
            return function.call(machine, [special.path(machine, one) for one in args], kwargs)

        return Native(function.name, call)

    return {name: taking(one) if isinstance(one, Native) else one for name, one in functions.items()}


def _os_path(machine: PythonMachine) -> object:
    path = machine.files.system.paths
    functions = natives(
        "os.path",
        join=lambda m, args, _k: join(m, args),
        dirname=_pure(path.dirname, "dirname"),
        basename=_pure(path.basename, "basename"),
        splitext=_pure(path.splitext, "splitext"),
        split=_pure(path.split, "split"),
        normpath=_pure(path.normpath, "normpath"),
        normcase=_pure(path.normcase, "normcase"),
        relpath=_pure(path.relpath, "relpath"),
        isabs=_pure(path.isabs, "isabs"),
        commonpath=_pure(path.commonpath, "commonpath"),
        abspath=_absolute,
        realpath=_absolute,
        exists=_check("any"),
        lexists=_check("any"),
        isfile=_check("file"),
        isdir=_check("folder"),
        expanduser=_expanded,
        islink=lambda _m, args, _k: (
            False if isinstance(_check("any")(_m, args, _k), bool) else NotKnown("islink()", Why.ENVIRONMENT)
        ),
    )
    functions = _with_paths(functions)
    constants = {name: getattr(path, name) for name in ("sep", "altsep", "pathsep", "curdir", "pardir", "extsep")}
    return Namespace("os.path", {**functions, **constants})


def _os(machine: PythonMachine) -> object:
    system = machine.files.system
    machine.modules["os.path"] = path = _os_path(machine)
    environment = Environment()
    functions = natives(
        "os",
        listdir=_listdir,
        walk=_walk,
        scandir=_scandir,
        uname=_uname,
        fspath=_fspath,
        _exit=_exit,
        getenv=lambda m, args, kwargs: m.call(m.attribute(environment, "get"), args, kwargs),
        getcwd=lambda _m, _a, _k: system.current_folder,
        putenv=lambda _m, _a, _k: None,
        cpu_count=lambda _m, _a, _k: NotKnown("os.cpu_count()", Why.ENVIRONMENT),
        add_dll_directory=_add_dll_directory,
    )
    names = {
        **_with_paths(functions),
        **{name: getattr(system.paths, name) for name in ("sep", "altsep", "pathsep", "curdir", "pardir", "extsep")},
        "path": path,
        "environ": environment,
        "name": system.os_name,
        "linesep": "\r\n" if system.is_windows else "\n",
    }
    names["PathLike"] = system.path_class
    names["RTLD_GLOBAL"], names["RTLD_NOW"], names["RTLD_LAZY"], names["RTLD_LOCAL"] = 256, 2, 1, 0
    names["RTLD_NODELETE"], names["RTLD_NOLOAD"], names["RTLD_DEEPBIND"] = 4096, 4, 8
    of_windows = frozenset() if system.is_windows else frozenset({"add_dll_directory", "startfile"})
    return Namespace("os", names, absent=system.lacks_os | of_windows | {"exit"})


def _pathlib(machine: PythonMachine) -> object:
    own = machine.files.system.path_class
    return Namespace(
        "pathlib",
        {"Path": own, "PurePath": own, "PosixPath": PurePosixPath, "PurePosixPath": PurePosixPath,
         "WindowsPath": PureWindowsPath, "PureWindowsPath": PureWindowsPath},
    )  # fmt: skip


def _which(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return NotKnown(f"shutil.which({described(args[0]) if args else ''})", Why.ENVIRONMENT)


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    "os": _os,
    "os.path": lambda machine: machine.modules.get("os.path") or _os_path(machine),
    "posixpath": _os_path,
    "pathlib": _pathlib,
    "glob": lambda _machine: Namespace("glob", natives("glob", glob=_glob, iglob=_iglob)),
    "shutil": lambda _machine: Namespace("shutil", natives("shutil", which=_which)),
}
