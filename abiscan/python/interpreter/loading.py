"""Loads of shared libraries: asked of the world, and raised as Python and torch raise them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from zlib import crc32

from msgspec.structs import replace

from abiscan.binary.ownership import is_of_gpu_vendor
from abiscan.python.interpreter.filesystem import as_text, is_of_torch, path_exists, place_on_disk
from abiscan.python.interpreter.later_builtins import built_in
from abiscan.python.interpreter.machine import AllLoaded, Attempt, ProcessEnded, PythonMachine
from abiscan.python.interpreter.operations import describe_value
from abiscan.python.interpreter.questions import number_of
from abiscan.python.interpreter.values import (
    Class,
    NotKnown,
    PythonError,
    PythonFunction,
    TextOfError,
    Thrown,
    Why,
    thrown,
    torch_error,
)
from abiscan.python.package import standard
from abiscan.python.package.model import PROCESS_ENDS, Answer, LoadedBy, Raised
from abiscan.python.package.systems import strip_folders
from abiscan.python.torch_api.torch_texts import NOT_LOADED, release_of, wording_of

_TORCH_LOADERS: Final = (LoadedBy.LOAD_LIBRARY, LoadedBy.LOAD_CLASSES)


def load_extension(machine: PythonMachine, file: str) -> None:
    """Import an extension module of the package."""
    _load_file(machine, file, LoadedBy.IMPORT)
    _end_once_loaded(machine)


def load_library(machine: PythonMachine, path: object, loader: LoadedBy) -> None:
    """Load a library by its path, as the code gives it."""
    system = machine.files.system
    spelled = str(path) if isinstance(path, str) or hasattr(path, "as_posix") else None
    if spelled is not None and system.is_windows and "." not in system.file_name(system.with_slashes(spelled)):
        spelled += ".dll"  # as LoadLibrary does
    # In this order: a path that is not known, a file of the package, one that the package does not have, one elsewhere,
    # and a name that the system looks up.
    inside = None if spelled is None else machine.files.inside(spelled)
    if isinstance(path, NotKnown) and path.why is Why.ARGUMENT:
        return
    if isinstance(path, NotKnown) and path.why is Why.ELSEWHERE:
        _load_elsewhere(machine, path.name, loader)
    elif spelled is None:
        _unknown_path(machine, path, loader)
    elif inside is not None and inside in machine.files.members:
        _load_file(machine, inside, loader)
        _end_once_loaded(machine)
    elif inside is not None or system.with_slashes(spelled).startswith("./"):
        _not_there(machine, spelled, loader)
    elif system.has_folder(spelled):
        _load_elsewhere(machine, spelled, loader)
    elif not system.is_system_library(spelled):
        _by_name(machine, spelled, loader)


def _unknown_path(machine: PythonMachine, path: object, loader: LoadedBy) -> None:
    # ``torch.ops.load_library`` resolves it first (torch/_utils_internal.py), which takes paths alone.
    if loader in _TORCH_LOADERS and isinstance(path, (int, type(None), list, PythonFunction, Class)):
        kind = (
            "function"
            if isinstance(path, PythonFunction)
            else "type"
            if isinstance(path, Class)
            else type(path).__name__
        )
        raise thrown(TypeError, f"expected str, bytes or os.PathLike object, not {kind}")
    for own in _own_among(machine, path):
        spot = (machine.place().line, -crc32(own.encode()))
        if machine.decide(f"{describe_value(path)} is {own}", Why.ENVIRONMENT, spot, default=True):
            load_library(machine, machine.files.system.place(own), loader)
            return
    machine.gap(f"the path of a library that is loaded is not known: {describe_value(path)}")
    machine.trace.attempts.append(
        Attempt(path=None, loader=loader, at=machine.place(), raised=Answer.UNKNOWN, guarded=machine.catches(OSError))
    )


def _own_among(machine: PythonMachine, path: object) -> Iterator[str]:
    """Yield the libraries of the package that a path may be: ``find_library("x") or os.path.join(HERE, "x.so")``."""
    origin = path.origin if isinstance(path, NotKnown) else None
    if not isinstance(origin, tuple) or origin[0] not in {"Or", "And", "if"}:
        return
    for part in origin[1:]:
        text = as_text(part[1] if isinstance(part, tuple) and part[0] is str else part)
        inside = None if text is None else machine.files.inside(text)
        if inside is not None and machine.files.system.libraries.search(inside):
            yield inside


def _load_elsewhere(machine: PythonMachine, path: str, loader: LoadedBy) -> None:
    """Load a path outside the package: torch has loaded its libraries, and required ones are assumed to exist."""
    system = machine.files.system
    if system.is_empty(path) and place_on_disk(machine, path) is None and path.startswith(system.prefix):
        return
    there = path_exists(machine, path, "file") if is_of_torch(machine, path) or system.is_empty(path) else None
    if there is False:
        _not_there(machine, path, loader)
    if there is not None:
        return
    # Those of CUDA and ROCm know nothing of torch, and have nothing that libraries of other makers define.
    if is_of_gpu_vendor(system.file_name(path)):
        exists = path_exists(machine, path, "file")
        if isinstance(exists, NotKnown):
            spot = machine.place().line, 0
            exists = machine.decide(f"{path} exists", Why.ENVIRONMENT, spot, default=True, about=exists)
        if not exists:
            _not_there(machine, path, loader)
        return
    machine.gap(f"a library outside of the package is loaded: {path} ({loader.value})")


def _by_name(machine: PythonMachine, name: str, loader: LoadedBy) -> None:
    """Load a library by a bare name: the system looks in its own folders, where no library of the package is.

    Windows also looks in the folders that were added for it, and among what is in the process already.
    """
    expected = machine.catches(OSError)
    spot = (machine.place().line, 0)
    system = machine.files.system
    # A library of the package by that name shows that the name alone does not lead to it. Without one, only a guarded
    # load is worth a decision: any other is assumed to be of something that every machine has.
    own = [file for file in machine.files.libraries if system.file_name(file) == system.file_name(name)]
    for file in own if system.is_windows else ():
        loaded = any(attempt.path == file and attempt.raised is None for attempt in machine.trace.attempts)
        if loaded or file.rpartition("/")[0] in machine.dll_folders:
            _load_file(machine, file, loader)
            return
    if own:
        is_found = False
    elif expected:
        answer = machine.library.surroundings.system_has(name)
        if isinstance(answer, Answer):
            answer = machine.decide(f"the system has {name}", Why.ENVIRONMENT, spot, default=True)
        is_found = answer
    else:
        is_found = True
    if not is_found:
        _not_there(machine, name, loader)


def _not_there(machine: PythonMachine, path: str, loader: LoadedBy) -> None:
    exception: type[Exception]
    exception, text = machine.files.system.not_there(path)
    if loader is LoadedBy.IMPORT and not machine.files.system.is_windows:
        exception = ImportError
    _fail_to_load(machine, path, loader, PythonError(exception, (text,)))


def _load_file(machine: PythonMachine, file: str, loader: LoadedBy) -> None:
    kind = ImportError if loader is LoadedBy.IMPORT else OSError
    attempt = Attempt(path=file, loader=loader, at=machine.place(), raised=None, guarded=machine.catches(kind))
    attempt.before_torch = _is_before_torch(machine)
    machine.trace.attempts.append(attempt)
    number = len(machine.trace.attempts) - 1
    # What could not be followed may have loaded any library. The world hears of that before the next load, once.
    if machine.trace.gaps and not machine.told_of_gaps:
        machine.told_of_gaps = True
        machine.world.load(None, loader)
    attempt.raised = answer = machine.world.load(file, loader)
    if answer is None:
        return
    # The outcome is not known, or another machine may have what this one lacks. By default the library loads; another
    # run takes the failure.
    if isinstance(answer, Answer) or (answer.lacking is not None and not _is_lacking_for_sure(machine, answer.lacking)):
        attempt.raised = Answer.UNKNOWN
        lacking = isinstance(answer, Raised)
        machine.trace.lacking |= lacking
        loads = not (lacking and machine.as_it_is_here)
        if machine.decide(f"{file} loads", Why.ENVIRONMENT, (attempt.at.line, number), default=loads):
            return
    if isinstance(answer, Raised) and answer.exception == PROCESS_ENDS:
        raise ProcessEnded(replace(answer, at=attempt.at))
    if isinstance(answer, Answer):
        failure = PythonError(kind, (NotKnown(f"the error of {file}", Why.ENVIRONMENT),))
    else:
        failure = as_failure(answer)
    # By the number, handlers of the exception know which load they have survived, also of what is raised from it.
    failure.loads = {number}
    failure.at = attempt.at
    raise Thrown(_wrap_error(machine, file, loader, failure))


def _end_once_loaded(machine: PythonMachine) -> None:
    # Code that may not run at all may not load anything, either.
    if not machine.ends_once_loaded or machine.is_speculative:
        return
    if machine.files.has_all({attempt.path for attempt in machine.trace.attempts if attempt.path is not None}):
        raise AllLoaded


def _is_before_torch(machine: PythonMachine) -> bool:
    """Whether nothing can have imported torch so far: neither the code, nor a package of others that it imports."""
    if "torch" in machine.modules:
        return False
    tops = {name.partition(".")[0] for name in machine.modules}
    if any(not machine.library.is_own(top) and standard.has_module(top, Answer.UNKNOWN) is False for top in tops):
        return False
    # Bodies that were passed over may have imported it.
    running = {frame.file for frame in machine.frames}
    done = (file for file in machine.trace.imported if file not in running)
    return not any(b"torch" in machine.files.read(file) for file in done)


def load_unseen(machine: PythonMachine, file: str) -> None:
    """Load a library of the package as code that is not read may do: only that it fails is noted."""
    if file not in machine.files.members:
        _not_there(machine, file, LoadedBy.CTYPES)
    before = len(machine.trace.attempts)
    _load_file(machine, file, LoadedBy.CTYPES)
    del machine.trace.attempts[before:]


def _is_lacking_for_sure(machine: PythonMachine, library: str) -> bool:
    """Whether a library that no search path leads to is missing in the process, too."""
    # Where the package is installed, this machine is the one that is asked about. What was not followed may have loaded
    # the library from a folder that nobody looks in.
    return not machine.trace.gaps and machine.library.surroundings.lacks_library(library)


def _wrap_error(machine: PythonMachine, path: str, loader: LoadedBy, failure: PythonError) -> PythonError:
    """Return the error as ``torch.ops.load_library`` passes it on."""
    if loader not in _TORCH_LOADERS:
        return failure
    spelled = machine.files.system.spelled(path)
    answer = machine.world.tells(
        "it wraps errors", lambda world: wording_of(NOT_LOADED, release_of(world.torch_version)) is not None
    )
    if not answer:
        return failure
    error = torch_error(NOT_LOADED, path=spelled)
    error.cause, error.at, error.loads = failure, failure.at, set(failure.loads)
    return error


def _fail_to_load(machine: PythonMachine, path: str, loader: LoadedBy, failure: PythonError) -> None:
    """Note and raise the failure of a load of what is not there."""
    failure.at = machine.place()
    failure.loads = {len(machine.trace.attempts)}
    raised = Raised(exception=failure.name(), message=strip_folders(str(failure.args[0])), at=failure.at)
    attempt = Attempt(
        path=strip_folders(path), loader=loader, at=failure.at, raised=raised, guarded=machine.catches(OSError)
    )
    machine.trace.attempts.append(attempt)
    raise Thrown(_wrap_error(machine, strip_folders(path), loader, failure))


def as_failure(raised: Raised) -> PythonError:
    """Return the exception object of an error."""
    cls = built_in(raised.exception)
    exception_class = cls if isinstance(cls, type) and issubclass(cls, BaseException) else NotKnown(raised.exception)
    number = number_of(raised.message)
    message: object = NotKnown("the text of the error") if raised.message is None else raised.message
    if number is not None:
        message = TextOfError(number)
    cause = None if raised.cause is None else as_failure(raised.cause)
    return PythonError(exception_class, (message,), cause=cause)
