"""Code that is not read and gets a library, what ends the process, and what runs data."""

from __future__ import annotations

import pytest

from abiscan.python.interpreter.models import acting as models
from abiscan.python.package import acting
from abiscan.python.package.model import PROCESS_ENDS, Answer, ImportOutcome, Raised
from tests.unit.python.packages import FakeWorld, reading_of

BEFORE = """\
import os
import foreign

HERE = os.path.dirname(os.path.abspath(__file__))
LIB = os.path.join(HERE, "lib.so")

"""
LARGE = "WORDS = [\n" + "    'of a list that does nothing',\n" * 200 + "]\nFIRST = WORDS[0]\n"
ERROR = "undefined symbol: _ZN2at4addE"


def _imported(code: str, *, other: str = "", loads: bool = False, library: bool = True) -> ImportOutcome:
    files = {"p/__init__.py": BEFORE + code, "p/other.py": other, **({"p/lib.so": ""} if library else {})}
    world = FakeWorld(error=lambda path: None if loads else f"{path}: {ERROR}")
    return reading_of(files, world).imports[0]


def _exception(outcome: ImportOutcome) -> str | Answer | None:
    return outcome.raised.exception if isinstance(outcome.raised, Raised) else outcome.raised


def test_each_function_of_the_tables_has_a_model() -> None:
    assert set(models.LOADERS) == acting.LOADERS
    assert {*models.ENDS, "signal.raise_signal", "signal.pthread_kill"} == acting.ENDS
    assert set(models.RUNNERS) == acting.RUNNERS


@pytest.mark.parametrize(
    "code",
    [
        "foreign.load(LIB)\n",
        "foreign.load(path=LIB)\n",
        "foreign.load([LIB])\n",
        "foreign.load({'path': LIB})\n",
        "foreign.load(LIB.encode())\n",
        "import pathlib\nforeign.load(pathlib.Path(LIB))\n",
        "foreign.libraries[LIB]\n",
        "getattr(foreign.libraries, LIB)\n",
        "foreign.Loader(LIB).load()\n",
        "import subprocess, sys\nsubprocess.check_call([sys.executable, '-c', '…', LIB])\n",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', '…', LIB], check=True)\n",
        "import sqlite3\nsqlite3.connect(':memory:').load_extension(LIB)\n",
    ],
)
def test_a_library_that_is_handed_to_code_that_is_not_read_may_be_loaded(code: str) -> None:
    outcome = _imported(code)
    assert outcome.raised is Answer.UNKNOWN
    (gap,) = outcome.gaps
    assert gap.startswith(f"p/__init__.py:{len((BEFORE + code).splitlines())}: whether ")
    assert gap.endswith("loads p/lib.so is not known")
    # Where it loads, nothing depends on whether it is loaded.
    outcome = _imported(code, loads=True)
    assert (outcome.raised, outcome.gaps, outcome.loads) == (None, (), ())
    # What is not there loads no more than what is broken.
    assert _imported(code, library=False).raised is Answer.UNKNOWN


@pytest.mark.parametrize(
    "code",
    [
        "import logging\nlogging.getLogger('x').info('at %s', LIB)\nprint(LIB)\n",
        "import warnings\nwarnings.warn(LIB)\n",
        "x = [LIB, os.path.basename(LIB), LIB.upper()]\nos.path.exists(LIB) and os.path.getsize(LIB)\n",
        "os.stat(LIB)\nos.access(LIB, os.R_OK)\nopen(LIB, 'rb').read(4)\n",
        "import hashlib, shutil\nhashlib.sha256(LIB.encode())\nshutil.copy(LIB, '/tmp')\n",
        "import subprocess\nsubprocess.run(['ldd', LIB])\n",
        "foreign.paths.append(LIB)\nos.environ['LIB'] = LIB\n",
        "foreign.load(HERE)\nforeign.load('lib.so')\n",
    ],
)
def test_a_path_that_is_only_handled_loads_nothing(code: str) -> None:
    outcome = _imported(code)
    assert (outcome.raised, outcome.gaps, outcome.loads) == (None, (), ())


@pytest.mark.parametrize(
    ("code", "error"),  # as numpy 2.4.6 and cffi 2.1.1 say it
    [
        ("from numpy.ctypeslib import load_library\nload_library('lib.so', HERE)\n", "{0}"),
        ("import numpy as np\nnp.ctypeslib.load_library('lib', HERE)\n", "{0}"),
        ("import numpy.ctypeslib\nnumpy.ctypeslib.load_library('lib', __file__)\n", "{0}"),
        ("from cffi import FFI\nFFI().dlopen(LIB)\n", "cannot load library 'p/lib.so': {0}.  Additionally, {1}"),
        ("import _cffi_backend\n_cffi_backend.FFI().dlopen(LIB)\n", "cannot load library 'p/lib.so': {0}"),
    ],
)
def test_numpy_and_cffi_load_libraries(code: str, error: str) -> None:
    tried = "ctypes.util.find_library() did not manage to locate a library called 'p/lib.so'"
    outcome = _imported(code)
    assert isinstance(outcome.raised, Raised)
    assert (outcome.raised.exception, outcome.raised.message) == (
        "OSError",
        error.format(f"p/lib.so: {ERROR}", tried),
    )
    assert [(load.path, str(load.at)) for load in outcome.loads] == [("p/lib.so", str(outcome.raised.at))]
    assert _imported(code, loads=True).raised is None


def test_a_library_that_numpy_does_not_find() -> None:
    outcome = _imported("import numpy as np\nnp.ctypeslib.load_library('other', HERE)\n")
    assert isinstance(outcome.raised, Raised)
    assert outcome.raised.message == "no file with expected extension"


@pytest.mark.parametrize("before", ["", LARGE])
@pytest.mark.parametrize(
    "call",
    [
        *("os.abort()", "os._exit(0)", "os.kill(os.getpid(), 9)", "os.execv('/bin/true', ['true'])"),
        "exec('import os; os.abort()')",
        "import signal\nsignal.raise_signal(signal.SIGTERM)",
        *("import faulthandler\nfaulthandler._sigsegv()", "import ctypes\nctypes.string_at(0)"),
    ],
)
def test_the_end_of_the_process_is_seen_in_every_module(call: str, before: str) -> None:
    outcome = _imported("from . import other\n", other=f"import os\n{before}{call}\n")
    assert _exception(outcome) == PROCESS_ENDS
    body = call.replace("\n", "\n    ")
    outcome = _imported("from . import other\n", other=f"import os\ndef go():\n    {body}\n{before}go()\n")
    assert _exception(outcome) == PROCESS_ENDS


def test_nothing_of_the_package_survives_the_end_of_the_process() -> None:
    outcome = _imported("try:\n    os._exit(3)\nexcept BaseException:\n    pass\nfinally:\n    foreign.load(LIB)\n")
    assert isinstance(outcome.raised, Raised)
    assert (outcome.raised.exception, outcome.raised.message) == (PROCESS_ENDS, "os._exit(3)")
    assert str(outcome.raised.at) == "p/__init__.py:8"


@pytest.mark.parametrize(
    "code",
    [
        "if foreign.is_broken():\n    os._exit(1)\n",
        "if not foreign.works():\n    os.abort()\n",
        "if not foreign.works():\n    import sys\n    sys.exit('broken')\n",
        "def leave():\n    os._exit(1)\nforeign.at_exit(leave)\n",
        "import sys\nsys.excepthook = lambda *error: os._exit(1)\n",
        "if os.fork() == 0:\n    os._exit(0)\n",
        "os.kill(foreign.pid, 9)\nos.kill(os.getpid(), 0)\n",
    ],
)
def test_a_check_of_what_is_not_known_is_passed(code: str) -> None:
    outcome = _imported(code)
    assert (outcome.raised, outcome.gaps) == (None, ())


@pytest.mark.parametrize(
    ("code", "raised"),
    [
        ("run = exec\nrun('VALUE = 1')\nassert VALUE == 1\n", None),
        ("names = {}\nexec('VALUE = 1', {}, names)\nassert names['VALUE'] == 1\n", None),
        ("names = {'A': 1}\nexec('B = A + C', names, {'C': 1})\nassert 'B' not in names\n", None),
        ("VALUE = 1\nexec('assert VALUE == 1', None, {})\n", None),
        ("VALUE = 1\nexec('assert VALUE == 1', {}, {})\n", "NameError"),
        ("def f(x):\n    own = locals().copy()\n    exec('assert x == 1', globals(), own)\nf(1)\n", None),
        ("def f(x):\n    return list(map(eval, ['x + 1']))\nassert f(1) == [2]\n", None),
        ("space = globals\nspace()['VALUE'] = 1\nassert VALUE == 1\n", None),
        ("__builtins__['exec']('raise ImportError')\n", "ImportError"),
        ("import builtins\nbuiltins.__dict__['exec']('raise ImportError')\n", "ImportError"),
        ("exec(foreign.text)\n", Answer.UNKNOWN),
    ],
)
def test_texts_are_run_whatever_they_are_called_by(code: str, raised: str | Answer | None) -> None:
    assert _exception(_imported(code)) == raised


def test_a_text_that_is_not_known_matters_only_where_a_library_does_not_load() -> None:
    assert _imported("exec(foreign.text)\n").gaps == (
        "p/__init__.py:7: whether the text that exec runs loads p/lib.so is not known",
    )
    outcome = _imported("exec(foreign.text)\n", loads=True)
    assert (outcome.raised, outcome.gaps) == (None, ())


def test_all_names_of_a_module_of_others_by_its_name() -> None:
    # As array-api-compat copies the names of numpy, whose names are not known here.
    code = (
        "import importlib\nmod = importlib.import_module('_pytest.outcomes')\nobjs = {}\n"
        "exec(f'from {mod.__name__} import *', objs)\nassert mod.__name__ == '_pytest.outcomes'\n"
        "if 'fail' not in objs:\n    raise KeyError\n"
    )
    exec(code, {})
    outcome = _imported(code)
    assert (outcome.raised, outcome.gaps) == (None, ())
