"""Ways to load a library, to end the process, and to run data: packages of one module each.

``LIB`` is the path of the library, ``load`` loads it, and ``TEXT`` is a program that does. ``PACKAGE`` stands for the
name of the package, which has the program in ``code.txt``, ``code.py`` and ``other.py``, too.
"""

from __future__ import annotations

from typing import Final

BEFORE: Final = """\
import os
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
LIB = os.path.join(HERE, "lib.so")


def load(path=LIB):
    torch.ops.load_library(path)


TEXT = "import sys, torch; torch.ops.load_library(sys.modules[__name__].LIB)".replace("__name__", repr(__name__))
"""
LOADERS: Final = {
    "ctypes_cdll": "import ctypes\nctypes.CDLL(LIB)\n",
    "ctypes_pydll": "import ctypes\nctypes.PyDLL(LIB)\n",
    "cdll_getattr": "import ctypes\ngetattr(ctypes.cdll, LIB)\n",
    "pydll_getattr": "import ctypes\ngetattr(ctypes.pydll, LIB)\n",
    "cdll_item": "import ctypes\nctypes.cdll[LIB]\n",
    "cdll_load_library": "import ctypes\nctypes.cdll.LoadLibrary(LIB)\n",
    "from_ctypes_cdll": "from ctypes import cdll\ncdll.LoadLibrary(LIB)\n",
    "library_loader": "import ctypes\nctypes.LibraryLoader(ctypes.CDLL).LoadLibrary(LIB)\n",
    "library_loader_item": "import ctypes\nctypes.LibraryLoader(ctypes.PyDLL)[LIB]\n",
    "library_loader_getattr": "import ctypes\ngetattr(ctypes.LibraryLoader(ctypes.PyDLL), LIB)\n",
    "library_loader_subclass": (
        "import ctypes\nclass Loader(ctypes.LibraryLoader):\n    pass\nLoader(ctypes.CDLL).LoadLibrary(LIB)\n"
    ),
    "cdll_subclass": "import ctypes\nclass Library(ctypes.CDLL):\n    pass\nLibrary(LIB)\n",
    "cdll_subclass_init": (
        "import ctypes\n"
        "class Library(ctypes.CDLL):\n"
        "    def __init__(self, path):\n"
        "        super().__init__(path, mode=ctypes.RTLD_GLOBAL)\n"
        "        self.path = path\n"
        "Library(LIB)\n"
    ),
    "cdll_subclass_named": (
        "import ctypes\n"
        "class Library(ctypes.PyDLL):\n"
        "    def __init__(self, path):\n"
        "        ctypes.PyDLL.__init__(self, path)\n"
        "Library(path=LIB)\n"
    ),
    "cdll_handle": "import ctypes\nimport _ctypes\nctypes.CDLL('libfoo', handle=_ctypes.dlopen(LIB, 2))\n",
    "cdll_aliased": "import ctypes as c\nopen_library = c.CDLL\nopen_library(LIB)\n",
    "cdll_in_table": "import ctypes\nOPEN = {'so': ctypes.CDLL, 'py': ctypes.PyDLL}\nOPEN['so'](LIB)\n",
    "cdll_map": "import ctypes\nlibraries = list(map(ctypes.CDLL, [LIB]))\n",
    "cdll_partial": "import ctypes, functools\nfunctools.partial(ctypes.CDLL, LIB)()\n",
    "underscore_ctypes": "import _ctypes\n_ctypes.dlopen(LIB, 2)\n",
    "underscore_ctypes_from": "from _ctypes import dlopen\ndlopen(LIB)\n",
    "underscore_ctypes_attribute": "import ctypes\nctypes._dlopen(LIB, 2)\n",
    "dlopen_by_libc": "import ctypes\nif not ctypes.CDLL(None).dlopen(LIB.encode(), 2):\n    raise OSError('dlopen')\n",
    "imp_load_dynamic": "import warnings\nwarnings.simplefilter('ignore')\nimport imp\nimp.load_dynamic('lib', LIB)\n",
    "underscore_imp": (
        "import _imp, importlib.machinery\n"
        "spec = importlib.machinery.ModuleSpec('lib', None, origin=LIB)\n"
        "_imp.create_dynamic(spec)\n"
    ),
    "underscore_imp_spec": (
        "import _imp, importlib.util\n_imp.create_dynamic(importlib.util.spec_from_file_location('lib', LIB))\n"
    ),
    "extension_loader_create": (
        "import importlib.machinery, importlib.util\n"
        "loader = importlib.machinery.ExtensionFileLoader('lib', LIB)\n"
        "loader.create_module(importlib.util.spec_from_loader('lib', loader))\n"
    ),
    "extension_loader_exec": (
        "import importlib.machinery, importlib.util\n"
        "loader = importlib.machinery.ExtensionFileLoader('lib', LIB)\n"
        "spec = importlib.util.spec_from_file_location('lib', LIB, loader=loader)\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "loader.exec_module(module)\n"
    ),
    "extension_loader_external": (
        "from importlib._bootstrap_external import ExtensionFileLoader\n"
        "from importlib.util import spec_from_loader, module_from_spec\n"
        "module_from_spec(spec_from_loader('lib', ExtensionFileLoader('lib', LIB)))\n"
    ),
    "spec_from_location": (
        "import importlib.util\n"
        "spec = importlib.util.spec_from_file_location('lib', LIB)\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
    ),
    "load_classes": "torch.classes.load_library(LIB)\n",
    "load_sorted": "sorted([LIB, LIB], key=torch.ops.load_library)\n",
    "load_mapped": "list(map(torch.ops.load_library, [LIB]))\n",
    "load_methodcaller": "import operator\noperator.methodcaller('load_library', LIB)(torch.ops)\n",
    "load_reduce": "import functools\nfunctools.reduce(lambda _, path: load(path), [LIB], None)\n",
    "load_filter": "list(filter(load, [LIB]))\n",
    "load_resub": "import re\nre.sub('a', lambda match: load() or '', 'a')\n",
    "load_json_hook": "import json\njson.loads('{}', object_hook=lambda made: load())\n",
    "load_missing": "class Names(dict):\n    def __missing__(self, key):\n        load()\nNames()['x']\n",
    "load_property": "class A:\n    @property\n    def x(self):\n        load()\nA().x\n",
    "load_default": "import collections\ncollections.defaultdict(load)['x']\n",
    "load_set_name": "class D:\n    def __set_name__(self, owner, name):\n        load()\nclass A:\n    x = D()\n",
    "load_del": "class A:\n    def __del__(self):\n        load()\nA()\n",
    "load_weakref": "import weakref\nclass A:\n    pass\na = A()\nr = weakref.ref(a, lambda _: load())\ndel a\n",
    "load_finalize": "import weakref\nclass A:\n    pass\na = A()\nweakref.finalize(a, load)\n",
    "load_finalize_called": "import weakref\nclass A:\n    pass\na = A()\nweakref.finalize(a, load)()\n",
    "thread_start": "import threading\nthread = threading.Thread(target=load)\nthread.start()\nthread.join()\n",
    "thread_run": "import threading\nthreading.Thread(target=load).run()\n",
    "thread_subclass": (
        "import threading\nclass Loader(threading.Thread):\n    def run(self):\n        load()\nLoader().run()\n"
    ),
    "future_result": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor() as pool:\n"
        "    pool.submit(load).result()\n"
    ),
    "future_ignored": (
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n    pool.submit(load)\n"
    ),
    "future_map": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor() as pool:\n"
        "    list(pool.map(torch.ops.load_library, [LIB]))\n"
    ),
    "thread_pool": (
        "from multiprocessing.pool import ThreadPool\nwith ThreadPool(1) as pool:\n    pool.map(load, [LIB])\n"
    ),
    "atexit_register": "import atexit\natexit.register(load)\n",
    "atexit_runs": "import atexit\natexit.register(load)\natexit._run_exitfuncs()\n",
    "asyncio_run": "import asyncio\nasync def main():\n    load()\nasyncio.run(main())\n",
    "contextlib_callback": "import contextlib\nwith contextlib.ExitStack() as stack:\n    stack.callback(load)\n",
    "lazy_getattr": (
        "def __getattr__(name):\n"
        "    load()\n"
        "    raise AttributeError(name)\n"
        "import PACKAGE\n"
        "from PACKAGE import nothing_here\n"
    ),
    "audit_hook": (
        "import sys\n"
        "def hook(event, args):\n"
        "    if event == 'abiscan.test':\n"
        "        load()\n"
        "sys.addaudithook(hook)\n"
        "sys.audit('abiscan.test')\n"
    ),
    "settrace": (
        "import sys\n"
        "def trace(frame, event, arg):\n"
        "    sys.settrace(None)\n"
        "    load()\n"
        "sys.settrace(trace)\n"
        "(lambda: 0)()\n"
    ),
    "setprofile": (
        "import sys\n"
        "def trace(frame, event, arg):\n"
        "    sys.setprofile(None)\n"
        "    load()\n"
        "sys.setprofile(trace)\n"
        "(lambda: 0)()\n"
    ),
    "meta_path": (
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'abiscan_nothing':\n"
        "            load()\n"
        "sys.meta_path.insert(0, Finder())\n"
        "try:\n"
        "    import abiscan_nothing\n"
        "except ImportError:\n"
        "    pass\n"
    ),
    "path_hooks": (
        "import sys\n"
        "def hook(path):\n"
        "    if path == '/abiscan':\n"
        "        load()\n"
        "    raise ImportError\n"
        "sys.path_hooks.insert(0, hook)\n"
        "sys.path.insert(0, '/abiscan')\n"
        "try:\n"
        "    import abiscan_nothing\n"
        "except ImportError:\n"
        "    pass\n"
    ),
    "excepthook": "import sys\nsys.excepthook = lambda *error: load()\n",
    "displayhook": "import sys\nsys.displayhook = lambda value: load()\nsys.displayhook(1)\n",
    "showwarning": "import warnings\nwarnings.showwarning = lambda *a, **k: load()\nwarnings.warn('x')\n",
    "formatwarning": "import warnings\nwarnings.formatwarning = lambda *a, **k: load() or ''\nwarnings.warn('x')\n",
    "signal_handler": (
        "import signal\n"
        "signal.signal(signal.SIGUSR1, lambda number, frame: load())\n"
        "signal.raise_signal(signal.SIGUSR1)\n"
    ),
    "logging_handler": (
        "import logging\n"
        "class Handler(logging.Handler):\n"
        "    def emit(self, record):\n"
        "        load()\n"
        "logging.getLogger('x').addHandler(Handler())\n"
        "logging.getLogger('x').warning('x')\n"
    ),
    "builtins_print": "import builtins\nbuiltins.print = lambda *words: load()\nprint('x')\n",
    "codecs_register": (
        "import codecs\n"
        "codecs.register(lambda name: load())\n"
        "try:\n"
        "    'x'.encode('abiscan-nothing')\n"
        "except LookupError:\n"
        "    pass\n"
    ),
    "copyreg_pickle": (
        "import pickle\n"
        "class A:\n"
        "    def __reduce__(self):\n"
        "        return (load, ())\n"
        "pickle.loads(pickle.dumps(A()))\n"
    ),
    "import_module": "import importlib\nimportlib.import_module('PACKAGE.other')\n",
    "pkgutil_walk": (
        "import pkgutil\nfor module in pkgutil.walk_packages([HERE], 'PACKAGE.'):\n    __import__(module.name)\n"
    ),
    "only_logged": "import logging\nlogging.getLogger('x').info('at %s', LIB)\nprint(LIB)\n",
    "only_tested": "os.path.exists(LIB) and os.path.isfile(LIB)\nos.access(os.path.dirname(LIB), os.R_OK)\n",
    "only_joined": (
        "import shutil, re, hashlib\n"
        "x = [LIB, os.path.basename(LIB), str(LIB).upper()]\n"
        "re.match('a', LIB)\n"
        "hashlib.sha256(LIB.encode()).hexdigest()\n"
        "shutil.which(LIB)\n"
    ),
    "only_warned": "import warnings\nwarnings.warn(f'see {LIB}')\nwarnings.warn(LIB)\n",
    "only_stored": (
        "import threading, queue\n"
        "q = queue.Queue()\n"
        "q.put(LIB)\n"
        "PATHS = {LIB: 1}\n"
        "torch.paths = [LIB]\n"
        "os.environ['ABISCAN_LIB'] = LIB\n"
    ),
    "only_stat": (
        "try:\n"
        "    os.stat(LIB)\n"
        "    os.path.getsize(LIB)\n"
        "except OSError:\n"
        "    pass\n"
        "import sys\n"
        "sys.stdout.write(LIB)\n"
    ),
}
RUNNERS: Final = {
    "exec_plain": "exec(TEXT)\n",
    "eval_plain": "eval(\"__import__('torch').ops.load_library(LIB)\")\n",
    "exec_compiled": "exec(compile(TEXT, 'x', 'exec'))\n",
    "eval_compiled": "eval(compile(TEXT, 'x', 'exec'))\n",
    "exec_ast": "import ast\nexec(compile(ast.parse(TEXT), 'x', 'exec'))\n",
    "exec_builtins": "import builtins\ngetattr(builtins, 'ex' + 'ec')(TEXT)\n",
    "exec_builtins_attribute": "import builtins\nbuiltins.exec(TEXT)\n",
    "exec_from": "from builtins import exec as run\nrun(TEXT)\n",
    "exec_aliased": "run = exec\nrun(TEXT)\n",
    "exec_dunder": "__builtins__['exec'](TEXT) if isinstance(__builtins__, dict) else __builtins__.exec(TEXT)\n",
    "exec_globals": "globals()['__builtins__']['ex' + 'ec'](TEXT)\n",
    "exec_vars": "import builtins\nvars(builtins)['exec'](TEXT)\n",
    "exec_dict": "import builtins\nbuiltins.__dict__['exec'](TEXT)\n",
    "exec_partial": "import functools\nfunctools.partial(exec, TEXT)()\n",
    "exec_argument": "def run(how, text):\n    how(text)\nrun(exec, TEXT)\n",
    "exec_method": "class A:\n    run = staticmethod(exec)\nA.run(TEXT)\n",
    "exec_namespace": "exec(TEXT, {})\n",
    "exec_keywords": "exec(TEXT, {'__name__': 'x'}, {})\n",
    "exec_base64": "import base64\nexec(base64.b64decode(base64.b64encode(TEXT.encode())))\n",
    "exec_zlib": "import zlib\nexec(zlib.decompress(zlib.compress(TEXT.encode())))\n",
    "exec_rot13": "import codecs\nexec(codecs.decode(codecs.encode(TEXT, 'rot13'), 'rot13'))\n",
    "exec_file": "with open(os.path.join(HERE, 'code.txt')) as file:\n    exec(file.read())\n",
    "exec_path": "import pathlib\nexec(pathlib.Path(HERE, 'code.txt').read_text())\n",
    "eval_aliased": "check = eval\ncheck(\"__import__('torch').ops.load_library(LIB)\", {'LIB': LIB})\n",
    "compile_aliased": "make = compile\nexec(make(TEXT, 'x', 'exec'))\n",
    "run_path": "import runpy\nrunpy.run_path(os.path.join(HERE, 'code.txt'))\n",
    "run_path_py": "import runpy\nrunpy.run_path(os.path.join(HERE, 'code.py'))\n",
    "run_module": "import runpy\nrunpy.run_module('PACKAGE.code')\n",
    "run_module_as_main": "from runpy import run_module\nrun_module('PACKAGE.code', run_name='__main__')\n",
    "source_loader": (
        "import importlib.util, importlib.machinery\n"
        "from importlib.machinery import SourceFileLoader\nplace = os.path.join(HERE, 'code.txt')\n"
        "spec = importlib.util.spec_from_file_location('m', place, loader=SourceFileLoader('m', place))\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
    ),
    "pickle_loads": "import pickle\npickle.loads(b'cbuiltins\\nexec\\n(V' + TEXT.encode() + b'\\ntR.')\n",
    "pickle_load": (
        "import pickle, io\npickle.load(io.BytesIO(b'cbuiltins\\nexec\\n(V' + TEXT.encode() + b'\\ntR.'))\n"
    ),
    "pickle_unpickler": (
        "import pickle, io\npickle.Unpickler(io.BytesIO(b'cbuiltins\\nexec\\n(V' + TEXT.encode() + b'\\ntR.')).load()\n"
    ),
    "underscore_pickle": "import _pickle\n_pickle.loads(b'cbuiltins\\nexec\\n(V' + TEXT.encode() + b'\\ntR.')\n",
    "marshal_loads": "import marshal\nexec(marshal.loads(marshal.dumps(compile(TEXT, 'x', 'exec'))))\n",
    "interpreter": "import code\ncode.InteractiveInterpreter().runsource(TEXT)\n",
    "timeit_text": "import timeit\ntimeit.timeit(TEXT, number=1)\n",
    "timeit_setup": "import timeit\ntimeit.timeit('pass', setup=TEXT, number=1)\n",
    "timeit_function": "import timeit\ntimeit.timeit(load, number=1)\n",
    "timer_text": "import timeit\ntimeit.Timer(TEXT).timeit(1)\n",
    "profile_run": (
        "import cProfile, io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()):\n    cProfile.run(TEXT)\n"
    ),
    "trace_run": "import trace\ntrace.Trace(count=0, trace=0).run(TEXT)\n",
    "function_type": "import types\ntypes.FunctionType(compile(TEXT, 'x', 'exec'), {'__builtins__': __builtins__})()\n",
    "namedtuple_like": "scope = {}\nexec('def f():\\n    ' + TEXT, scope)\nscope['f']()\n",
    "class_exec": "class A:\n    exec(TEXT)\n",
    "type_exec": "type('A', (), {'__init__': lambda self: exec(TEXT)})()\n",
    "types_new_class": "import types\ntypes.new_class('A', (), {}, lambda space: exec(TEXT))\n",
    "harmless": "exec('VALUE = 1')\nassert VALUE == 1\neval('1 + 1')\n",
    "harmless_aliased": "run = exec\nrun('VALUE = 2')\nassert VALUE == 2\n",
    "harmless_pickle": "import pickle\nassert pickle.loads(pickle.dumps([1, 'a'])) == [1, 'a']\n",
    "harmless_timeit": "import timeit\ntimeit.timeit('1', number=1)\n",
    "raises": "import builtins\ngetattr(builtins, 'exec')('raise ImportError(\"x\")')\n",
}
ENDS: Final = {
    "os_abort": "os.abort()\n",
    "os_abort_caught": "try:\n    os.abort()\nexcept BaseException:\n    pass\n",
    "os_kill": "os.kill(os.getpid(), 9)\n",
    "os_kill_signal": "import signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "os_kill_zero": "os.kill(os.getpid(), 0)\n",
    "os_kill_winch": "import signal\nos.kill(os.getpid(), signal.SIGWINCH)\n",
    "os_kill_interrupt": "import signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(1)\n",
    "os_kill_ignored": (
        "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nos.kill(os.getpid(), signal.SIGTERM)\n"
    ),
    "os_killpg": "import signal\nos.setpgid(0, 0)\nos.killpg(os.getpgid(0), signal.SIGTERM)\n",
    "raise_signal": "import signal\nsignal.raise_signal(signal.SIGTERM)\n",
    "raise_signal_number": "import signal\nsignal.raise_signal(11)\n",
    "pthread_kill": "import signal, threading\nsignal.pthread_kill(threading.get_ident(), signal.SIGSEGV)\n",
    "os_exit": "os._exit(3)\n",
    "os_exit_0": "os._exit(0)\n",
    "os_exit_caught": "try:\n    os._exit(3)\nexcept SystemExit:\n    pass\n",
    "from_os_exit": "from os import _exit as leave\nleave(1)\n",
    "sys_exit": "import sys\nsys.exit(1)\n",
    "sys_exit_caught": "import sys\ntry:\n    sys.exit(1)\nexcept SystemExit:\n    pass\n",
    "quit": "quit(2)\n",
    "exit": "exit()\n",
    "raise_exit": "raise SystemExit('no')\n",
    "sigsegv": "import faulthandler\nfaulthandler._sigsegv()\n",
    "sigabrt": "import faulthandler\nfaulthandler._sigabrt()\n",
    "read_null": "import faulthandler\nfaulthandler._read_null()\n",
    "fatal_error": "import faulthandler\nfaulthandler._fatal_error_c_thread()\n",
    "string_at": "import ctypes\nctypes.string_at(0)\n",
    "memset": "import ctypes\nctypes.memset(0, 0, 8)\n",
    "memmove": "import ctypes\nctypes.memmove(0, b'12345678', 8)\n",
    "wstring_at": "import ctypes\nctypes.wstring_at(0)\n",
    "pythonapi_abort": "import ctypes\nctypes.pythonapi.abort()\n",
    "libc_abort": "import ctypes\nctypes.CDLL(None).abort()\n",
    "libc_exit": "import ctypes\nctypes.CDLL(None)._exit(4)\n",
    "libc_named": (
        "import ctypes\nctypes.CDLL('libc.so.6').raise_(6) if False else ctypes.CDLL('libc.so.6').abort()\n"
    ),
    "execv": "import sys\nos.execv('/bin/true', ['true'])\n",
    "execl": "os.execl('/bin/true', 'true')\n",
    "execvp": "os.execvp('true', ['true'])\n",
    "execve": "os.execve('/bin/false', ['false'], {})\n",
    "recursion": "def f(n):\n    return f(n + 1)\nf(0)\n",
    "recursion_caught": "def f(n):\n    return f(n + 1)\ntry:\n    f(0)\nexcept RecursionError:\n    pass\n",
    "recursion_mutual": "def f():\n    g()\ndef g():\n    f()\nf()\n",
    "recursion_class": "class A:\n    def __getattr__(self, name):\n        return getattr(self, name)\nA().x\n",
    "recursion_lambda": "(lambda x: x(x))(lambda x: x(x))\n",
    "recursion_init": "class A:\n    def __init__(self):\n        self.a = A()\nA()\n",
    "recursion_property": "class A:\n    @property\n    def x(self):\n        return self.x\nA().x\n",
    "recursion_deep_fine": "def f(n):\n    return 0 if n == 0 else f(n - 1) + 1\nassert f(200) == 200\n",
    "thread_raises": (
        "import threading\ndef f():\n    raise ValueError\nt = threading.Thread(target=f)\nt.start()\nt.join()\n"
    ),
    "atexit_raises": "import atexit\ndef f():\n    raise ValueError\natexit.register(f)\n",
    "thread_aborts": "import threading\nt = threading.Thread(target=os.abort)\nt.start()\nt.join()\n",
    "thread_exits": "import threading, sys\nt = threading.Thread(target=sys.exit)\nt.start()\nt.join()\n",
    "atexit_exits": "import atexit\natexit.register(os._exit, 5)\n",
    "get_exit": "getattr(os, '_' + 'exit')(3)\n",
    "partial_exit": "import functools\nfunctools.partial(os._exit, 3)()\n",
    "posix_exit": "import posix\nposix._exit(3)\n",
    "posix_abort": "import posix\nposix.abort()\n",
    "interrupt_main": "import _thread, time\n_thread.interrupt_main()\ntime.sleep(0.1)\n",
}
