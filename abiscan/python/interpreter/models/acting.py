"""What the functions do that load a library, end the process, or run data: see ``abiscan.python.package.acting``."""

from __future__ import annotations

import enum
import posixpath
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Final

from abiscan.python.interpreter import loading
from abiscan.python.interpreter.filesystem import as_text
from abiscan.python.interpreter.machine import ProcessEnded, PythonMachine
from abiscan.python.interpreter.modelled import Modelled, Native
from abiscan.python.interpreter.models.namespace import Args, Kwargs, Model, Namespace, extend, take_argument
from abiscan.python.interpreter.operations import describe_value
from abiscan.python.interpreter.values import Instance, NotKnown, Thrown, thrown
from abiscan.python.package.model import PROCESS_ENDS, LoadedBy, Raised

# ---- libraries


def open_library(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``dlopen``; return the handle."""
    name, mode = take_argument(args, kwargs, 0, "name"), take_argument(args, kwargs, 1, "mode", 0)
    system = machine.files.system
    # There, CDLL looks for slashes in the name before anything else (Lib/ctypes/__init__.py).
    if name is None and system.is_windows:
        raise thrown(TypeError, "argument of type 'NoneType' is not iterable")
    if name is None or (isinstance(name, str) and system.is_system_library(name)):
        return NotKnown("a handle of dlopen")
    # With RTLD_NOLOAD, it asks for a library that is in the process already.
    if isinstance(mode, int) and mode & 4 and isinstance(name, str) and not system.is_windows:  # RTLD_NOLOAD
        inside = machine.files.inside(name)
        if not any(item.path == inside and item.raised is None for item in machine.trace.attempts):
            raise thrown(*system.not_there(name))
    is_local = system.is_windows or (isinstance(mode, int) and not mode & system.rtld_global)
    loading.load_library(machine, name, LoadedBy.CTYPES if is_local else LoadedBy.CTYPES_GLOBAL)
    return NotKnown("a handle of dlopen")


def _create_dynamic(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    """Execute ``_imp.create_dynamic``: load the extension module of a spec."""
    spec = args[0] if args else NotKnown("the spec")
    loading.load_library(machine, machine.get_attribute(spec, "origin"), LoadedBy.IMPORT)
    return NotKnown(describe_value(machine.get_attribute(spec, "name")))


def _load_for_numpy(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``numpy.ctypeslib.load_library``, which adds the suffix of libraries, or that of extension modules."""
    name, place = (as_text(take_argument(args, kwargs, i, word)) for i, word in enumerate(("libname", "loader_path")))
    folder = None if place is None else machine.files.inside(place)
    path: object = NotKnown(f"numpy.ctypeslib.load_library({', '.join(map(describe_value, args))})")
    if name is not None and folder is not None:
        folder = posixpath.dirname(folder) if folder in machine.files.members else folder
        own = machine.library.files.extension(posixpath.join(folder, name), machine.world.python)
        names = [name] if posixpath.splitext(name)[1] else [posixpath.basename(own or ""), f"{name}.so", f"{name}.dll"]
        paths = [posixpath.join(folder, name) for name in names]
        inside = next((path for path in paths if path in machine.files.members), None)
        if inside is None:
            raise thrown(OSError, "no file with expected extension")
        path = machine.files.system.place(inside)
    return machine.call(machine.get_attribute(machine.import_module("ctypes"), "CDLL"), [path], {})


def _open_quietly(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    """Execute ``dlopen`` or ``LoadLibraryW`` themselves, which return no handle for what cannot be loaded."""
    path = args[0] if args else None
    with _expect_failure(machine, OSError):
        try:
            open_library(machine, [path.decode() if isinstance(path, bytes) else path], {})
        except Thrown:
            return None
    return 1


@contextmanager
def _expect_failure(machine: PythonMachine, error: type[BaseException]) -> Iterator[None]:
    """Have an exception count as handled while the body of the ``with`` runs."""
    machine.guards.append((error,))
    try:
        yield
    finally:
        machine.guards.pop()


def _run_checked(function: str, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute what raises if a program fails, which may load a library that it gets the path of."""
    if function != "run" or kwargs.get("check"):
        machine.note_possible_uses(
            NotKnown(f"the program that subprocess.{function} starts"), [*args, *kwargs.values()]
        )
    return NotKnown(f"subprocess.{function}").part("()", *args, *kwargs.values())


LOADERS: Final[Mapping[str, Model]] = {
    "_ctypes.dlopen": open_library,
    "_ctypes.LoadLibrary": open_library,
    "_imp.create_dynamic": _create_dynamic,
    "numpy.ctypeslib.load_library": _load_for_numpy,
    **{f"subprocess.{name}": partial(_run_checked, name) for name in ("check_call", "check_output", "run")},
}

# ---- the end of the process


class Signal(enum.IntEnum):
    """The signals of Linux (bits/signum-generic.h, bits/signum-arch.h)."""

    SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE = range(1, 9)
    SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT = range(9, 17)
    SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGXCPU = range(17, 25)
    SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGPWR, SIGSYS = range(25, 32)

    @property
    def is_plain(self) -> bool:
        """Whether it has the attributes of the real one."""
        return True


_DEFAULT, _IGNORE = 0, 1
_IGNORED: Final = frozenset({
    0, Signal.SIGCHLD, Signal.SIGCONT, Signal.SIGURG, Signal.SIGWINCH, Signal.SIGPIPE, Signal.SIGXFSZ,
})  # fmt: skip
"""What ends no process where nothing is set up; Python ignores the last two (PyOS_InitSigs)."""
_OWN: Final = frozenset({"os.getpid()", "os.getpgid()", "os.getpgrp()"})


def _end_process(machine: PythonMachine, words: str) -> None:
    """End the process, unless the code may not run at all."""
    if not machine.is_speculative:
        raise ProcessEnded(Raised(exception=PROCESS_ENDS, message=words, at=machine.place()))


def _ends_with(words: str, machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
    _end_process(machine, words)
    return None


def _exits(function: str, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    _end_process(machine, f"{function}({describe_value(args[0]) if args else ''})")
    return None


def _executes(function: str, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    """End this program: another one takes the place of it."""
    _end_process(machine, f"{function}({describe_value(args[0]) if args else ''}) runs another program in its place")
    return None


def _reads_null(function: str, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    pointer = args[0] if args else next(iter(kwargs.values()), 0)
    if pointer in (0, None):
        _end_process(machine, f"SIGSEGV in {function}(0)")
    return NotKnown(f"{function}()")


def _kills(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    """Execute ``os.kill``: to this process, or to another one, which matters to nobody here."""
    is_own = len(args) == 2 and (args[0] == 0 or getattr(args[0], "name", None) in _OWN)
    return _raise_signal(machine, args[1]) if is_own else None


def _interrupts(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return _raise_signal(machine, args[0] if args else Signal.SIGINT)


def _raise_signal(machine: PythonMachine, number: object) -> object:
    """Execute ``signal.raise_signal``: whatever raises a signal comes to what the code has set up for it."""
    return machine.call(machine.get_attribute(machine.import_module("signal"), "raise_signal"), [number], {})


class Signals:
    """What the code sets up for signals."""

    def __init__(self) -> None:
        self.handlers: dict[object, object] = {}

    def model_signal(self, _machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        """Execute ``signal.signal``."""
        number, handler = take_argument(args, kwargs, 0, "signalnum"), take_argument(args, kwargs, 1, "handler")
        before = self.handlers.get(number, _DEFAULT) if isinstance(number, int) else NotKnown("signal.signal()")
        if isinstance(number, int):
            self.handlers[number] = handler
        return before

    def model_raise(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        """Execute ``signal.raise_signal``."""
        number = take_argument(args, kwargs, 0, "signum")
        if not isinstance(number, int):
            return None
        handler = self.handlers.get(number, _DEFAULT)
        if isinstance(handler, NotKnown) or handler == _IGNORE:
            return None
        if handler != _DEFAULT:
            return machine.call(handler, [number, NotKnown("the frame")], {})
        if number == Signal.SIGINT:
            raise thrown(KeyboardInterrupt)
        if number not in _IGNORED:
            _end_process(machine, Signal(number).name if number in list(Signal) else f"signal {number}")
        return None


def _make_signal(_machine: PythonMachine) -> object:
    signals = Signals()
    functions: dict[str, Model] = {
        "signal": signals.model_signal,
        "raise_signal": signals.model_raise,
        "pthread_kill": lambda machine, args, kwargs: signals.model_raise(machine, args[1:], kwargs),
        "getsignal": lambda _m, args, _k: signals.handlers.get(args[0] if args else None, NotKnown("getsignal()")),
    }
    names: dict[str, object] = {name: Native(f"signal.{name}", model) for name, model in functions.items()}
    names |= {**Signal.__members__, "SIG_DFL": _DEFAULT, "SIG_IGN": _IGNORE}
    return Namespace("signal", {**names, "Signals": Namespace("signal.Signals", Signal.__members__)})


_EXECUTING: Final = ("execl", "execle", "execlp", "execlpe", "execv", "execve", "execvp", "execvpe")
ENDS: Final[Mapping[str, Model]] = {
    "os.abort": partial(_ends_with, "SIGABRT in os.abort()"),
    "os._exit": partial(_exits, "os._exit"),
    "os.kill": _kills,
    "os.killpg": _kills,
    **{f"os.{name}": partial(_executes, f"os.{name}") for name in _EXECUTING},
    "_thread.interrupt_main": _interrupts,
    "faulthandler._sigsegv": partial(_ends_with, "SIGSEGV in faulthandler._sigsegv()"),
    "faulthandler._sigabrt": partial(_ends_with, "SIGABRT in faulthandler._sigabrt()"),
    "faulthandler._sigfpe": partial(_ends_with, "SIGFPE in faulthandler._sigfpe()"),
    "faulthandler._read_null": partial(_ends_with, "SIGSEGV in faulthandler._read_null()"),
    "faulthandler._stack_overflow": partial(_ends_with, "SIGSEGV in faulthandler._stack_overflow()"),
    "faulthandler._fatal_error_c_thread": partial(_ends_with, "SIGABRT in faulthandler._fatal_error_c_thread()"),
    **{
        f"ctypes.{name}": partial(_reads_null, f"ctypes.{name}")
        for name in ("string_at", "wstring_at", "memset", "memmove")
    },
}

# ---- data that is run


_PICKLES_THAT_CALL: Final = frozenset({
    "GLOBAL", "STACK_GLOBAL", "REDUCE", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BUILD", "EXT1", "EXT2", "EXT4", "PERSID",
    "BINPERSID",
})  # fmt: skip


def _unpickles(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    """Execute ``pickle.load`` or ``loads``: a pickle may call anything."""
    data = args[0] if args else None
    if not isinstance(data, bytes):
        data = machine.call(machine.get_attribute(data, "read"), [], {})
    if not isinstance(data, bytes) or _may_call(data):
        machine.note_possible_loads("a pickle", machine.files.libraries)
    return NotKnown("pickle.load()")


def _may_call(data: bytes) -> bool:
    """Whether a pickle may call something as it is read."""
    import pickletools  # seldom needed

    try:
        return any(opcode.name in _PICKLES_THAT_CALL for opcode, _, _ in pickletools.genops(data))
    except Exception:  # noqa: BLE001 - what it raises for data that is no pickle is not documented
        return True


def _make_unpickler(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return Namespace("pickle.Unpickler()", {"load": Native("load", lambda m, _a, _k: _unpickles(m, args, {}))})


def _make_function(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    """Execute ``types.FunctionType``: return a function that runs what was compiled."""
    run = machine.builtins["exec"]
    return Native("FunctionType()", lambda machine, _args, _kwargs: machine.call(run, args[:2], {}))


RUNNERS: Final[Mapping[str, Model]] = {
    **{f"{module}.{name}": _unpickles for module in ("pickle", "_pickle") for name in ("load", "loads")},
    **{f"{module}.Unpickler": _make_unpickler for module in ("pickle", "_pickle")},
    "types.FunctionType": _make_function,
}

# ---- functions of C


class LoadedLibrary(Modelled):
    """A library in the process: which functions it has is not known, apart from some of the system's."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return a function."""
        library = self.name.lower().rpartition("/")[2].partition(".")[0]
        if name in _SYSTEM_MODELS.get(library, ()):
            return Native(f"{library}.{name}", _SYSTEM_MODELS[library][name])
        return super().get_attribute(machine, name)

    def display_name(self) -> str:
        """Return what was loaded."""
        return f"ctypes.CDLL({self.name})"


def _add_folder(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    return machine.call(machine.get_attribute(machine.import_module("os"), "add_dll_directory"), args, kwargs)


_LIBC_MODELS: Final[Mapping[str, Model]] = {
    "dlopen": _open_quietly,
    "abort": partial(_ends_with, "SIGABRT in abort()"),
    "exit": partial(_exits, "exit"),
    "_exit": partial(_exits, "_exit"),
    "Py_Exit": partial(_exits, "Py_Exit"),
    "Py_FatalError": partial(_ends_with, "SIGABRT in Py_FatalError()"),
    "raise": lambda machine, args, _kwargs: _kills(machine, [0, *args], {}),
    "kill": _kills,
}
_SYSTEM_MODELS: Final[Mapping[str, Mapping[str, Model]]] = {
    **dict.fromkeys(("the process", "libc", "libdl"), _LIBC_MODELS),
    "kernel32": {
        "LoadLibraryW": _open_quietly,
        "LoadLibraryExW": _open_quietly,
        "AddDllDirectory": _add_folder,
        "SetErrorMode": lambda _m, _a, _k: 0,
    },
}


def _find_function(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    """Execute ``_ctypes.CFuncPtr((NAME, LIBRARY))``."""
    if not args or not isinstance(args[0], tuple) or len(args[0]) != 2:
        return NotKnown("CFuncPtr()")
    name, library = args[0]
    path = library.attributes.get("_name") if isinstance(library, Instance) else library
    opened = LoadedLibrary("the process" if path is None else describe_value(path).strip("'"))
    return opened.get_attribute(_machine, name) if isinstance(name, str) else NotKnown(f"{opened.display_name()}[…]")


# ---- all of them


def with_acting(
    models: Mapping[str, Callable[[PythonMachine], object]],
) -> dict[str, Callable[[PythonMachine], object]]:
    """Return models of modules, with the functions of the tables in them."""
    functions: dict[str, dict[str, object]] = {"_ctypes": {"CFuncPtr": Native("CFuncPtr", _find_function)}}
    for full, model in (*LOADERS.items(), *ENDS.items(), *RUNNERS.items()):
        module, _, name = full.rpartition(".")
        functions.setdefault(module, {})[name] = Native(full, model)
    functions["posix"] = functions["os"]
    made = {name: partial(extend, Namespace(name, names), models.get(name)) for name, names in functions.items()}
    return {**models, **made, "signal": _make_signal}
