"""``os``, ``os.path``, ``pathlib``, ``glob``, ``shutil``: the environment has nothing set that is unusual."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from abiscan.inputs import observed_fs
from abiscan.python.interpreter import special
from abiscan.python.interpreter.builtin_methods import fill_dict
from abiscan.python.interpreter.filesystem import as_text, glob_paths, join_paths, list_folder, note_made, path_exists
from abiscan.python.interpreter.iteration import Lazy
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Model, Namespace, native_functions, take_argument
from abiscan.python.interpreter.operations import attempt_operation, describe_value
from abiscan.python.interpreter.values import NotKnown, Why, as_scalar, is_concrete, thrown

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


_SEARCH_PATH = "LD_LIBRARY_PATH"
_NO_TEXT = (int, float, bool, type(None), list, tuple, dict, PurePath)


class Environment(Modelled):
    """``os.environ``.

    :ivar values: variables that are known to be set, by the code or outside
    :ivar usual: variables of which nothing is known
    :ivar is_open: whether the code has set some whose names are not known
    :ivar is_copy: whether it is a dict of the variables, which takes anything
    """

    __slots__ = ("is_copy", "is_open", "usual", "values")

    def __init__(self, machine: PythonMachine) -> None:
        self.is_open = self.is_copy = False
        self.values: dict[str, object] = {}
        self.usual = _USUAL
        # Where this machine is the one that is asked about, libraries are looked for with it, too.
        if machine.library.surroundings.is_here:
            self.usual -= {_SEARCH_PATH}
            if value := observed_fs.read_variable(_SEARCH_PATH):
                self.values[_SEARCH_PATH] = value

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its methods."""
        machine.outward += 1
        methods: dict[str, Model] = {
            "get": self._model_get,
            "__getitem__": self._model_item,
            "__setitem__": self._model_set,
            "__delitem__": self._model_delete,
            "__contains__": self._model_has,
            "setdefault": self._model_default,
            "pop": self._model_pop,
            "update": self._model_update,
            "copy": lambda _m, _a, _k: self.copied(),
            "keys": lambda _m, _a, _k: EnvironmentKeys(self),
        }
        return Native(f"os.environ.{name}", methods[name]) if name in methods else NotKnown(f"os.environ.{name}")

    def display_name(self) -> str:
        """Return its name."""
        return "os.environ"

    def copied(self) -> Environment:
        """Return a dict of the variables, which the code may change."""
        made = object.__new__(Environment)
        made.values, made.usual, made.is_open, made.is_copy = dict(self.values), self.usual, self.is_open, True
        return made

    def _known_variable(self, name: object) -> bool | None:
        name = as_scalar(name)
        if isinstance(name, str) and name in self.values:
            return True
        return None if self.is_open or not isinstance(name, str) or name in self.usual else False

    def _model_get(self, _machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        name, default = take_argument(args, kwargs, 0, "key"), take_argument(args, kwargs, 1, "default")
        is_set = self._known_variable(name)
        if is_set is None:
            return NotKnown(f"the environment variable {name}", Why.ENVIRONMENT)
        return self.values[str(name)] if is_set else default

    def _model_item(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        args = list(map(as_scalar, args))
        if args and self._known_variable(args[0]) is False:
            raise thrown(KeyError, args[0])
        return self._model_get(machine, args, kwargs)

    def _model_set(self, _machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        for part in args[:2]:  # _Environ.__setitem__ in Lib/os.py; a copy is a dict of anything
            if isinstance(part, _NO_TEXT) and not self.is_copy:
                raise thrown(TypeError, f"str expected, not {type(part).__name__}")
        if isinstance(args[0], str):
            self.values[args[0]] = args[1]
        self.is_open = self.is_open or not isinstance(args[0], str)
        return None

    def _model_delete(self, _machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        if self._known_variable(args[0]) is False:
            raise thrown(KeyError, args[0])
        self.values.pop(str(args[0]), None)
        return None

    def _model_has(self, _machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        is_set = self._known_variable(args[0]) if args else None
        return NotKnown(f"{describe_value(args[0])} in os.environ", Why.ENVIRONMENT) if is_set is None else is_set

    def _model_default(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        if self._known_variable(args[0]) is False:
            self._model_set(machine, args, kwargs)
        return self._model_get(machine, args, kwargs)

    def _model_pop(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        is_set = self._known_variable(args[0]) if args else None
        if is_set is False and len(args) == 1:
            raise thrown(KeyError, args[0])
        if is_set is False:
            return args[1]
        value = self._model_get(machine, args[:1], {})
        self.values.pop(str(args[0]) if args else "", None)
        return value

    def _model_update(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        changed: dict[object, object] = {}
        known = not args or fill_dict(machine, changed, args[0])
        changed.update(kwargs)
        for item in changed.items():
            self._model_set(machine, list(item), {})
        self.is_open = self.is_open or not known
        return None


class EnvironmentKeys(Modelled):
    """``os.environ.keys()``: which there are is not known, but for those that somebody asks for."""

    __slots__ = ("environment",)

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what tells whether a variable is set."""
        is_asking = name == "__contains__"
        return self.environment.get_attribute(machine, name) if is_asking else NotKnown(f"os.environ.keys().{name}")


def _make_pure(function: Callable[..., object], name: str) -> Model:
    def call(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        texts = [as_text(argument) if not isinstance(argument, (list, tuple)) else argument for argument in args]
        if None in texts or not is_concrete(texts):
            unknown = next((argument for argument in args if isinstance(argument, NotKnown)), None)
            return NotKnown(
                f"{name}({', '.join(map(describe_value, args))})", unknown.why if unknown else Why.NOT_FOLLOWED
            )
        return attempt_operation(name, function, *texts)

    return call


def _model_absolute(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    text = as_text(args[0]) if args else None
    return NotKnown("os.path.abspath()", Why.ENVIRONMENT) if text is None else machine.files.system.resolved(text)


def _make_check(kind: str) -> Model:
    return lambda machine, args, _kwargs: path_exists(machine, args[0] if args else None, kind)


def _model_expanded(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    text = as_text(args[0]) if args else None
    place = None if text is None else machine.files.system.expanded(text)
    return NotKnown("os.path.expanduser()", Why.ENVIRONMENT) if place is None else place


def _model_listdir(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return list_folder(machine, args[0] if args else NotKnown("the current folder"))


def _model_mkdir(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    note_made(machine, next(iter([*args, *kwargs.values()]), None), "folder")
    return None


class DirEntry(Modelled):
    """What ``os.scandir`` gives."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its name, its path, and what it is."""
        if name in {"name", "path"}:
            return machine.files.system.paths.basename(self.path) if name == "name" else self.path
        kind = {"is_file": "file", "is_dir": "folder"}.get(name)
        is_kind = None if kind is None else path_exists(machine, self.path, kind)
        return NotKnown(f"DirEntry.{name}") if kind is None else Native(name, lambda _m, _a, _k: is_kind)


def _model_scandir(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    folder = args[0] if args else NotKnown("the current folder")
    names = list_folder(machine, folder)
    if isinstance(names, NotKnown):
        return names
    return Lazy("os.scandir()", iter([DirEntry(machine.files.system.paths.join(str(folder), name)) for name in names]))


def _model_uname(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
    fields = {
        "sysname": machine.files.system.name,
        "system": machine.files.system.name,
        "machine": machine.world.machine,
    }
    return Namespace("os.uname()", fields)


def _model_walk(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    top = as_text(args[0]) if args else None
    inside = None if top is None else machine.files.inside(top)
    if not inside or top is None:
        return NotKnown(f"os.walk({describe_value(args[0]) if args else ''})", Why.ENVIRONMENT)
    matches: list[object] = []
    waiting = [inside]
    while waiting:
        folder = waiting.pop(0)
        names = sorted(machine.files.folders.get(folder, ()))
        below = [name for name in names if f"{folder}/{name}" in machine.files.folders]
        matches.append((machine.files.system.place(folder), below, [n for n in names if n not in below]))
        waiting.extend(f"{folder}/{name}" for name in below)
    return Lazy("os.walk()", iter(matches))


def _model_glob(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    pattern = as_text(args[0]) if args else None
    system = machine.files.system
    if pattern is None or not system.paths.isabs(pattern):
        return NotKnown("glob.glob()", Why.ENVIRONMENT)
    # The folders before the first wildcard are looked up as they are, the rest is matched.
    fixed = []
    steps = system.with_slashes(pattern).split("/")
    while steps and not any(sign in steps[0] for sign in "*?["):
        fixed.append(steps.pop(0))
    if not steps:
        there = path_exists(machine, pattern)
        return there if isinstance(there, NotKnown) else [pattern] if there else []
    return glob_paths(machine, system.paths.sep.join(fixed) or "/", "/".join(steps))


def _model_iglob(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    paths = _model_glob(machine, args, kwargs)
    return Lazy("glob.iglob()", iter(paths)) if isinstance(paths, list) else paths


def _model_fspath(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    text = as_text(args[0]) if args else None
    return NotKnown("os.fspath()") if text is None else text


def _add_dll_directory(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    text = as_text(args[0]) if args else None
    inside = None if text is None else machine.files.inside(text)
    if inside is not None and text is not None:
        if path_exists(machine, text, "folder") is False:
            raise thrown(FileNotFoundError, f"[WinError 2] The system cannot find the file specified: {text!r}")
        machine.dll_folders.add(inside)
    return NotKnown("os.add_dll_directory()")


def _with_paths(functions: dict[str, object]) -> dict[str, object]:
    """Return functions that take objects with ``__fspath__`` for paths."""

    def taking(function: Native) -> Native:
        def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
            return function.call(machine, [special.as_path(machine, argument) for argument in args], kwargs)

        return Native(function.name, call)

    return {name: taking(item) if isinstance(item, Native) else item for name, item in functions.items()}


def _os_path(machine: PythonMachine) -> object:
    path = machine.files.system.paths
    functions = native_functions(
        "os.path",
        join=lambda m, args, _k: join_paths(m, args),
        dirname=_make_pure(path.dirname, "dirname"),
        basename=_make_pure(path.basename, "basename"),
        splitext=_make_pure(path.splitext, "splitext"),
        split=_make_pure(path.split, "split"),
        normpath=_make_pure(path.normpath, "normpath"),
        normcase=_make_pure(path.normcase, "normcase"),
        relpath=_make_pure(path.relpath, "relpath"),
        isabs=_make_pure(path.isabs, "isabs"),
        commonpath=_make_pure(path.commonpath, "commonpath"),
        abspath=_model_absolute,
        realpath=_model_absolute,
        exists=_make_check("any"),
        lexists=_make_check("any"),
        isfile=_make_check("file"),
        isdir=_make_check("folder"),
        expanduser=_model_expanded,
        # Wheels have no links. Where it is not known whether anything is there, neither is that.
        islink=lambda _m, args, _k: (
            False if isinstance(_make_check("any")(_m, args, _k), bool) else NotKnown("islink()", Why.ENVIRONMENT)
        ),
    )
    functions = _with_paths(functions)
    constants = {name: getattr(path, name) for name in ("sep", "altsep", "pathsep", "curdir", "pardir", "extsep")}
    return Namespace("os.path", {**functions, **constants})


def _make_os(machine: PythonMachine) -> object:
    system = machine.files.system
    machine.modules["os.path"] = path = _os_path(machine)
    environment = Environment(machine)
    functions = native_functions(
        "os",
        listdir=_model_listdir,
        walk=_model_walk,
        scandir=_model_scandir,
        makedirs=_model_mkdir,
        mkdir=_model_mkdir,
        uname=_model_uname,
        fspath=_model_fspath,
        # The code that goes on is that of the parent.
        fork=lambda _m, _a, _k: 2,
        getenv=lambda m, args, kwargs: m.call(m.get_attribute(environment, "get"), args, kwargs),
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
    # The numbers of glibc (bits/dlfcn.h).
    names["RTLD_GLOBAL"] = system.rtld_global
    names["RTLD_NOW"], names["RTLD_LAZY"], names["RTLD_LOCAL"] = 2, 1, 0
    names["RTLD_NODELETE"], names["RTLD_NOLOAD"], names["RTLD_DEEPBIND"] = 4096, 4, 8
    of_windows = frozenset() if system.is_windows else frozenset({"add_dll_directory", "startfile"})
    return Namespace("os", names, absent=system.lacks_os | of_windows | {"exit"})


def _make_pathlib(machine: PythonMachine) -> object:
    own = machine.files.system.path_class
    return Namespace(
        "pathlib",
        {"Path": own, "PurePath": own, "PosixPath": PurePosixPath, "PurePosixPath": PurePosixPath,
         "WindowsPath": PureWindowsPath, "PureWindowsPath": PureWindowsPath},
    )  # fmt: skip


def _model_which(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return NotKnown(f"shutil.which({describe_value(args[0]) if args else ''})", Why.ENVIRONMENT)


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    "os": _make_os,
    "os.path": lambda machine: machine.modules.get("os.path") or _os_path(machine),
    "posixpath": _os_path,
    "pathlib": _make_pathlib,
    "glob": lambda _machine: Namespace("glob", native_functions("glob", glob=_model_glob, iglob=_model_iglob)),
    "shutil": lambda _machine: Namespace("shutil", native_functions("shutil", which=_model_which)),
}
