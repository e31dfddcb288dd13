"""Small models of the standard library: what code uses on its way to a library or a warning."""

from __future__ import annotations

import ast
import ctypes
import logging
import struct
from collections import namedtuple
from collections.abc import Callable
from typing import Final

from abiscan.python.interpreter.attributes import getter_of, of_inner, set_any
from abiscan.python.interpreter.contexts import AroundBody, Suppress
from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.modelled import Ignoring, Modelled, Native
from abiscan.python.interpreter.models.acting import LoadedLibrary, open_library
from abiscan.python.interpreter.models.namespace import (
    Args,
    Kwargs,
    Model,
    Namespace,
    make_namespace,
    native_functions,
    take_argument,
)
from abiscan.python.interpreter.operations import apply_binary, attempt_operation, describe_value
from abiscan.python.interpreter.plain_values import NotPlainError, copied, parts_of
from abiscan.python.interpreter.special import text
from abiscan.python.interpreter.unknown_python import as_number, of_python
from abiscan.python.interpreter.values import (
    NotKnown,
    PythonError,
    PythonFunction,
    Thrown,
    Why,
    Wrapped,
    is_concrete,
    thrown,
)
from abiscan.python.package.model import Answer, Channel

# ---- sys, platform


class LoadedModules(Modelled):
    """``sys.modules``."""

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return its methods."""
        methods: dict[str, Model] = {
            "__getitem__": self._model_item,
            "get": self._model_get,
            "__contains__": self._model_has,
            "__setitem__": self._model_set,
            "__delitem__": self._model_delete,
            "pop": self._model_pop,
        }
        return Native(f"sys.modules.{name}", methods[name]) if name in methods else NotKnown(f"sys.modules.{name}")

    def _model_get(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        if self._is_there(machine, args, matters=args[:1] == ["torch"]) is False:
            return args[1] if len(args) > 1 else None
        return self._loaded_module(machine, args)

    def _model_item(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        if self._is_there(machine, args, matters=args[:1] == ["torch"] or machine.catches(KeyError)) is False:
            raise thrown(KeyError, args[0])
        return self._loaded_module(machine, args)

    def _is_there(self, machine: PythonMachine, args: Args, *, matters: bool) -> bool | None:
        """Whether it has a module; whether other code has imported it is decided only if that matters."""
        there = self._model_has(machine, args, {})
        if not isinstance(there, NotKnown):
            return bool(there)
        # Most code looks for a module that it can do without: that is worth no runs of its own.
        if not matters:
            return machine.taken(there)
        return machine.decide(there.name, Why.ENVIRONMENT, (machine.place().line, 0), default=True, about=there)

    def _loaded_module(self, machine: PythonMachine, args: Args) -> object:
        if args and args[0] == "torch":
            return machine.import_module("torch")
        module = machine.modules.get(str(args[0])) if args else None
        return module or NotKnown(f"sys.modules[{describe_value(args[0]) if args else ''}]")

    def _model_has(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        name = args[0] if args else None
        if isinstance(name, str) and (name in machine.modules or machine.library.is_own(name)):
            return name in machine.modules
        return NotKnown(f"{describe_value(name) if args else ''} in sys.modules", Why.ENVIRONMENT)

    def _model_set(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        if isinstance(args[0], str):
            machine.modules[args[0]] = args[1]
            machine.forget_names()
        return None

    def _model_delete(self, machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        if args and isinstance(args[0], str) and machine.modules.pop(args[0], self) is not self:
            machine.forget_names()
        return None

    def _model_pop(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        module = self._model_item(machine, args, kwargs) if len(args) == 1 else self._model_get(machine, args, kwargs)
        self._model_delete(machine, args, kwargs)
        return module


class Stream(Modelled):
    """``sys.stderr`` and ``sys.stdout``."""

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return ``write``, which tells users something."""
        return Native(name, _make_telling(Channel.PRINT, "s")) if name == "write" else NotKnown(f"stream.{name}")


class PythonCommand(Modelled):
    """``sys.orig_argv``: a program imports the package, and Python was started without options."""

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Tell whether it has an option; the rest is not known."""
        return Native("sys.orig_argv", self._model_has) if name == "__contains__" else NotKnown(f"sys.orig_argv.{name}")

    def _model_has(self, _machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
        is_option = isinstance(args[0], str) and args[0].startswith("-")
        return False if is_option else NotKnown(f"{describe_value(args[0])} in sys.orig_argv", Why.ENVIRONMENT)


def _model_exit(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    raise thrown(SystemExit, *args[:1])


def _make_sys(machine: PythonMachine) -> object:
    names: dict[str, object] = {
        "version_info": of_python("sys.version_info", lambda version: version),
        "platform": machine.files.system.sys_platform,
        "byteorder": "little",
        "maxsize": 2**63 - 1,
        "modules": LoadedModules(),
        "path": machine.search_path,
        "stderr": Stream(),
        "stdout": Stream(),
        "argv": NotKnown("sys.argv", Why.ENVIRONMENT),
        "orig_argv": PythonCommand(),
        "hexversion": of_python("sys.hexversion", as_number),
    }
    return Namespace(
        "sys",
        {**names, **native_functions("sys", exit=_model_exit, exc_info=_exc_info)},
        absent=machine.files.system.lacks_sys,
        of_target={"meta_path": _make_meta_path},
    )


def _make_meta_path(machine: PythonMachine) -> object:
    from abiscan.python.interpreter.models.meta_path import MetaPath  # few packages use it

    if machine.meta_path is None:
        machine.meta_path = MetaPath()
    return machine.meta_path


def _exc_info(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
    if not machine.handling:
        return (None, None, None)
    failure = machine.handling[-1]
    return (failure.cls, failure, NotKnown("sys.exc_info()[2]"))


def _make_platform(machine: PythonMachine) -> object:
    def given(value: object) -> Model:
        return lambda _machine, _args, _kwargs: value

    # As in ``sys.version_info``, the patch release is not known: the last that there may be.
    names = native_functions(
        "platform",
        system=given(machine.files.system.name),
        machine=given(machine.world.machine),
        processor=given(machine.world.machine),
        python_version=given(of_python("platform.python_version()", lambda version: ".".join(map(str, version[:3])))),
        python_version_tuple=given(
            of_python("platform.python_version_tuple()", lambda version: tuple(map(str, version[:3])))
        ),
        python_implementation=given("CPython"),
        architecture=given(("64bit", "WindowsPE" if machine.files.system.is_windows else "ELF")),
    )
    return Namespace("platform", names)


# ---- telling users


def _make_telling(channel: Channel, name: str = "message") -> Model:
    """Return a function that tells users its first argument, formatted with the others as ``logging`` does."""

    def call(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        message = text(machine, take_argument(args, kwargs, 0, name))
        if channel is Channel.LOG and len(args) > 1:
            filled_in = (text(machine, item) if isinstance(item, PythonError) else item for item in args[1:])
            message = apply_binary(ast.Mod(), message, tuple(filled_in))
        machine.tell(channel, message if isinstance(message, str) else None)
        return None

    return call


class CaughtWarnings(AroundBody):
    """``warnings.catch_warnings``: it restores the filters at its end."""

    def __init__(self, kwargs: Kwargs) -> None:
        self.kwargs = kwargs
        self.before: list[tuple[object, object]] = []

    def enter(self, machine: PythonMachine) -> object:
        """Remember the filters, and perhaps add one."""
        self.before = list(machine.warning_filters)
        if "action" in self.kwargs:
            _simple_filter(machine, [], self.kwargs)
        return NotKnown("catch_warnings()") if self.kwargs.get("record") else None

    def leave(self, machine: PythonMachine, failure: PythonError | None) -> object:
        """Restore the filters."""
        machine.warning_filters[:] = self.before
        return None


def _simple_filter(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    machine.warning_filters.insert(
        0, (take_argument(args, kwargs, 0, "action"), take_argument(args, kwargs, 1, "category", Warning))
    )
    return None


def _model_filter(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``filterwarnings``: which warnings a text or a module selects is not known."""
    chosen = take_argument(args, kwargs, 1, "message", "") or take_argument(args, kwargs, 3, "module", "")
    action = NotKnown("warnings.filterwarnings()") if chosen else take_argument(args, kwargs, 0, "action")
    machine.warning_filters.insert(0, (action, take_argument(args, kwargs, 2, "category", Warning)))
    return None


def _reset_filters(machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
    machine.warning_filters.clear()
    return None


def _model_warn(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``warnings.warn``, which raises where a filter of the package says so."""
    message = take_argument(args, kwargs, 0, "message")
    category = take_argument(args, kwargs, 1, "category") or UserWarning
    if isinstance(message, PythonError):
        category = message.cls
    failure = message if isinstance(message, PythonError) else PythonError(category, (message,))
    # The first filter that fits decides whether the warning is raised. One whose action is not known leaves that open,
    # and the next is asked.
    for action, of in machine.warning_filters:
        if of not in failure.ancestry():
            continue
        if action == "error" and not machine.is_speculative:
            raise Thrown(failure)
        if isinstance(action, str):
            break
    return _make_telling(Channel.WARNING)(machine, args, kwargs)


def _telling_at_level(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    """Execute ``log``, whose first argument is the level."""
    level = take_argument(args, kwargs, 0, "level")
    if isinstance(level, int) and level < logging.WARNING:
        return None
    return _make_telling(Channel.LOG, "msg")(machine, args[1:], kwargs)


_LOGGED: Final[dict[str, Model]] = {
    **dict.fromkeys(("warning", "warn", "error", "exception", "critical", "fatal"), _make_telling(Channel.LOG, "msg")),
    "log": _telling_at_level,
}
_UNSHOWN: Final = frozenset({"debug", "info"})
"""What logs below the level of a warning: no program shows it unless it is set up to."""


def _logging_function(module: str, name: str) -> object:
    """Return a function that logs, of ``logging`` or of a logger; None if there is none of that name."""
    if name in _UNSHOWN:
        return Ignoring(f"{module}.{name}")
    return Native(f"{module}.{name}", _LOGGED[name]) if name in _LOGGED else None


class Logger(Modelled):
    """A logger."""

    def get_attribute(self, _machine: PythonMachine, name: str) -> object:
        """Return its methods: users see warnings, and what is louder."""
        function = _logging_function("logger", "warning" if name == "warning_once" else name)
        return function or NotKnown(f"logger.{name}")


def _make_logging(_machine: PythonMachine) -> object:
    logger = Logger()
    names = {name: _logging_function("logging", name) for name in (*_LOGGED, *_UNSHOWN)}
    levels = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "WARN": 30, "ERROR": 40, "CRITICAL": 50, "NOTSET": 0}
    return Namespace("logging", {**names, **levels, **native_functions("logging", getLogger=lambda _m, _a, _k: logger)})


# ---- functools, contextlib, ctypes, types

_WINDOWS_NAMES: Final = frozenset({"windll", "oledll", "WinDLL", "OleDLL", "WinError", "get_last_error", "HRESULT"})


class Cached(Modelled):
    """A function under ``functools.lru_cache``: called once for the same known arguments."""

    __slots__ = ("function", "results")

    binds: Final = True

    def __init__(self, function: object) -> None:
        self.function = function
        self.results: dict[str, object] = {}

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return an attribute of the function."""
        return of_inner(machine, self.function, name)

    def call(self, machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
        """Return what the first call with these arguments gave."""
        key = repr((args, kwargs)) if is_concrete(args) and is_concrete(kwargs) else None
        if key is None:
            return machine.call_unsettled(self.function, args, kwargs)
        # That a result is there already, or none comes, is of the calls before: see ``kept_calls``.
        machine.outward += 1
        if key not in self.results:
            value = machine.call_unsettled(self.function, args, kwargs)
            machine.outward -= 1
            machine.note_cached(self, key, value)
        return self.results[key]


def _model_cache(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return Cached(args[0]) if args else NotKnown("cache()")


def _lru_cache(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    if len(args) == 1 and not isinstance(args[0], (int, type(None))):
        return _model_cache(machine, args, kwargs)
    return Native("lru_cache()", _model_cache)


def _model_wraps(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    wrapped = args[0] if args else NotKnown("wraps()")
    return Native("wraps()", lambda machine, args, _kwargs: _update_wrapper(machine, [*args[:1], wrapped], {}))


def _update_wrapper(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    # As in Lib/functools.py, for the names that code asks for; annotations are those of ``__wrapped__``.
    wrapper, wrapped = take_argument(args, kwargs, 0, "wrapper"), take_argument(args, kwargs, 1, "wrapped")
    if isinstance(wrapper, PythonFunction):
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            _copy_attribute(machine, wrapped, name, wrapper)
        if isinstance(wrapped, PythonFunction):
            wrapper.attributes.update(wrapped.attributes)
        else:
            set_any(wrapper)
        wrapper.attributes["__wrapped__"] = wrapped
    return wrapper


def _copy_attribute(machine: PythonMachine, owner: object, name: str, to: PythonFunction) -> None:
    """Give a function an attribute of an object, if that has it."""
    try:
        to.attributes[name] = getter_of(type(owner))(machine, owner, name)
    except Thrown as error:
        if error.failure.cls is not AttributeError:
            raise


def _model_partial(_machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    if not args:
        return NotKnown("partial()")
    function, *bound_arguments = args
    return Native(
        "partial", lambda machine, more, named: machine.call(function, [*bound_arguments, *more], {**kwargs, **named})
    )


def _cached_property(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return Wrapped("cached_property", args[0]) if args else NotKnown("cached_property()")


def _context_manager(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return Wrapped("contextmanager", args[0]) if args else NotKnown("contextmanager()")


class WindowsLoader(Modelled):
    """``ctypes.windll``: libraries by name, as ``ctypes.windll.kernel32``."""

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return a library, or what loads one."""
        is_load = name in {"LoadLibrary", "__getitem__"}
        return Native(f"ctypes.windll.{name}", _open_windows) if is_load else _open_windows(machine, [name], {})


def _open_windows(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    open_library(machine, args, kwargs)
    return LoadedLibrary(describe_value(take_argument(args, kwargs, 0, "name")).strip("'"))


_TYPES_OF_C: Final = tuple(name for name in dir(ctypes) if name.startswith("c_"))


def _value_of_c(_machine: PythonMachine, _args: Args, _kwargs: Kwargs) -> object:
    return NotKnown("a value of ctypes")


def _make_ctypes(machine: PythonMachine) -> object:
    """Return what the recipe of it does not have."""
    names: dict[str, object] = {"RTLD_LOCAL": 0, "DEFAULT_MODE": 0, "_dlopen": Native("ctypes._dlopen", open_library)}
    names["RTLD_GLOBAL"] = machine.files.system.rtld_global
    names |= native_functions("ctypes", **dict.fromkeys(_TYPES_OF_C, _value_of_c))
    if not machine.files.system.is_windows:
        return Namespace("ctypes", names, absent=_WINDOWS_NAMES)
    names |= {"windll": WindowsLoader(), "oledll": WindowsLoader()}
    return Namespace("ctypes", {**names, **native_functions("ctypes", WinDLL=_open_windows, OleDLL=_open_windows)})


# ---- sysconfig


def _config_variable(machine: PythonMachine, name: object) -> object:
    """Return a variable of Python's build; the suffix of extension modules is the one that packages ask for."""
    if name in {"EXT_SUFFIX", "SOABI"} and not isinstance(python := machine.world.python, Answer):
        suffix = machine.files.system.extension_suffixes(python, machine.world.machine)[0]
        return suffix if name == "EXT_SUFFIX" else suffix.strip(".").rpartition(".")[0]
    return NotKnown(f"sysconfig.get_config_var({describe_value(name)})", Why.ENVIRONMENT)


class ConfigVariables(Modelled):
    """``sysconfig.get_config_vars()``."""

    __slots__ = ()

    def get_attribute(self, machine: PythonMachine, name: str) -> object:
        """Return what takes a variable by its name."""
        is_getter = name in {"get", "__getitem__"}
        getter = Native(name, lambda machine, args, _kwargs: _config_variable(machine, args[0] if args else None))
        return getter if is_getter else NotKnown(f"sysconfig.get_config_vars().{name}", Why.ENVIRONMENT)


def _config_variables(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return [_config_variable(machine, name) for name in args] if args else ConfigVariables()


def _place_of(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    name = take_argument(args, kwargs, 0, "name")
    is_known = name in {"purelib", "platlib"}
    return (
        machine.files.system.root
        if is_known
        else NotKnown(f"sysconfig.get_path({describe_value(name)})", Why.ENVIRONMENT)
    )


def _make_site(machine: PythonMachine) -> object:
    """Return ``site``, as in a virtual environment: the user's own folder does not count."""
    system = machine.files.system
    folders = [system.prefix, system.root] if system.is_windows else [system.root]
    functions = native_functions("site", getsitepackages=lambda _m, _a, _k: list(folders))
    return Namespace("site", {"ENABLE_USER_SITE": False, **functions})


def _find_library(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    return NotKnown(f"find_library({describe_value(args[0]) if args else ''})", Why.ENVIRONMENT)


def _model_unpack(_machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    try:
        return attempt_operation("struct.unpack()", struct.unpack, *args) if is_concrete(args) else NotKnown("unpack()")
    except struct.error as error:
        raise thrown(struct.error, *error.args) from None


def _copied_plain(machine: PythonMachine, args: Args, _kwargs: Kwargs) -> object:
    """Return what ``copy.deepcopy`` makes of a value; None if anything in it is more than plain."""
    try:
        machine.count_steps(parts_of(args, set()))
    except NotPlainError:
        return None
    return copied(args[0], {})


def _model_namedtuple(machine: PythonMachine, args: Args, kwargs: Kwargs) -> object:
    typename, fields = take_argument(args, kwargs, 0, "typename"), take_argument(args, kwargs, 1, "field_names")
    names = fields if isinstance(fields, str) else machine.items(fields)
    if not isinstance(typename, str) or not is_concrete(names) or len(names) > 100:  # type: ignore[arg-type]
        return NotKnown("namedtuple()")
    # A real class is made, since only then its objects compare, unpack and print as in the package.
    more = {name: value for name, value in kwargs.items() if name not in {"typename", "field_names"}}
    if not all(name in {"defaults", "rename", "module"} and is_concrete(value) for name, value in more.items()):
        return NotKnown("namedtuple()")
    return attempt_operation("namedtuple()", namedtuple, typename, names, **more)  # noqa: PYI024 - its fields are the package's


MODELS: dict[str, Callable[[PythonMachine], object]] = {
    "sys": _make_sys,
    "platform": _make_platform,
    "logging": _make_logging,
    "warnings": make_namespace(
        "warnings",
        **native_functions(
            "warnings",
            warn=_model_warn,
            warn_explicit=_make_telling(Channel.WARNING),
            simplefilter=_simple_filter,
            filterwarnings=_model_filter,
            resetwarnings=_reset_filters,
            catch_warnings=lambda _machine, _args, kwargs: CaughtWarnings(kwargs),
        ),
    ),
    "functools": make_namespace(
        "functools",
        **native_functions(
            "functools",
            wraps=_model_wraps,
            update_wrapper=_update_wrapper,
            partial=_model_partial,
            lru_cache=_lru_cache,
            cache=_model_cache,
            cached_property=_cached_property,
        ),
    ),
    "contextlib": make_namespace(
        "contextlib",
        **native_functions(
            "contextlib",
            contextmanager=_context_manager,
            asynccontextmanager=_context_manager,
            suppress=lambda _m, args, _k: Suppress(tuple(args)),
        ),
    ),
    "concurrent": make_namespace("concurrent"),
    "copy": make_namespace(
        "copy",
        # Asked for by the recipe alone, which copies anything else part by part.
        **native_functions("copy", _copied_plain=_copied_plain, _number=lambda _machine, args, _kwargs: id(args[0])),
    ),
    "struct": make_namespace("struct", error=struct.error, **native_functions("struct", unpack=_model_unpack)),
    "collections": make_namespace("collections", **native_functions("collections", namedtuple=_model_namedtuple)),
    "ctypes": _make_ctypes,
    "sysconfig": make_namespace(
        "sysconfig",
        **native_functions(
            "sysconfig",
            get_config_var=lambda machine, args, _k: _config_variable(machine, args[0] if args else None),
            get_config_vars=_config_variables,
            get_path=_place_of,
        ),
    ),
    "site": _make_site,
    "ctypes.util": make_namespace("ctypes.util", **native_functions("ctypes.util", find_library=_find_library)),
    "typing": make_namespace(
        "typing",
        TYPE_CHECKING=False,
        **native_functions("typing", cast=lambda _m, args, _k: args[-1] if args else None),
    ),
    "typing_extensions": make_namespace("typing_extensions", TYPE_CHECKING=False),
}
"""Modules by name."""
