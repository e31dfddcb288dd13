"""The functions of other code that load a library, end the process, or run data: one table each.

They are those that Python code comes to in the end, from ``ctypes.cdll`` to ``_ctypes.dlopen``; what they do is in
``interpreter/models/acting.py``. Code that is in no table and gets the path of a library of the package is a gap: see
``PythonMachine.note_possible_loads``.
"""

from __future__ import annotations

from typing import Final

LOADERS: Final = frozenset({
    "_ctypes.dlopen", "_ctypes.LoadLibrary", "_imp.create_dynamic", "numpy.ctypeslib.load_library",
    "subprocess.check_call", "subprocess.check_output", "subprocess.run",
})  # fmt: skip
"""Those of ``subprocess`` have a program do it, and raise what becomes of that."""
ENDS: Final = frozenset({
    "os._exit", "os.abort", "os.execl", "os.execle", "os.execlp", "os.execlpe", "os.execv", "os.execve", "os.execvp",
    "os.execvpe", "os.kill", "os.killpg", "signal.pthread_kill", "signal.raise_signal", "_thread.interrupt_main",
    "ctypes.memmove", "ctypes.memset", "ctypes.string_at", "ctypes.wstring_at", "faulthandler._fatal_error_c_thread",
    "faulthandler._read_null", "faulthandler._sigabrt", "faulthandler._sigfpe", "faulthandler._sigsegv",
    "faulthandler._stack_overflow",
})  # fmt: skip
EXITS: Final = frozenset({"os._exit", "os.abort", "sys.exit"})
"""What ends the program whatever it gets: where that depends on something that is not known, it is a check."""
RUNNERS: Final = frozenset({
    "_pickle.Unpickler", "_pickle.load", "_pickle.loads", "pickle.Unpickler", "pickle.load", "pickle.loads",
    "types.FunctionType",
})  # fmt: skip
_WAYS_THERE: Final = frozenset({
    "builtins.eval", "builtins.exec", "cProfile.run", "cProfile.runctx", "cffi.FFI", "code.InteractiveConsole",
    "code.InteractiveInterpreter", "posix._exit", "posix.abort", "posix.execv", "posix.execve", "posix.kill",
    "profile.run", "profile.runctx", "runpy.run_module", "runpy.run_path", "sys.exit", "timeit.Timer", "timeit.repeat",
    "timeit.timeit", "trace.Trace",
})  # fmt: skip
"""What the reading follows to one of them, or raises to the same end."""
ACTING: Final = LOADERS | ENDS | RUNNERS | _WAYS_THERE
