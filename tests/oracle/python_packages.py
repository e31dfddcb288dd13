"""Packages in miniature, one for each way of loading a library. A value ``@sample`` is a library among the samples."""

from __future__ import annotations

GOOD = "@loads/loads.so"
"""Loads, and defines ``abiscan_loads::double_it``."""
BAD = "@undefined_symbol_not_linked/undefined_symbol_not_linked.so"
NO_CUDA = "@missing_torch_library/missing_torch_library.so"
MODULE = "@registrations/pybind.so"
OLD_MODULE = "@python_abi_tag/python_abi_tag.cpython-312-x86_64-linux-gnu.so"

_LOAD = """\
import os
import torch

def _load(name):
    path = os.path.join(os.path.dirname(__file__), name)
    torch.ops.load_library(path)

"""

PACKAGES: dict[str, dict[str, str]] = {
    # ---- how a failure ends
    "plain": {"__init__.py": _LOAD + "_load('lib.so')\n", "lib.so": GOOD},
    "uncaught": {"__init__.py": _LOAD + "_load('lib.so')\n", "lib.so": BAD},
    "two_libraries": {"__init__.py": _LOAD + "for n in ('a', 'b'):\n    _load(f'{n}.so')\n", "a.so": GOOD, "b.so": BAD},
    "vendored": {
        "__init__.py": "import os, sys\nhere = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'vendor')\n"
        "if os.path.exists(here) and here not in sys.path:\n"
        "    sys.path = [path for path in sys.path if 'tvm' not in path]\n    sys.path.insert(0, here)\n"
        "import abiscan_vendored.loader\n",
        "vendor/abiscan_vendored/__init__.py": "",
        "vendor/abiscan_vendored/loader.py": _LOAD + "_load('lib.so')\n",
        "vendor/abiscan_vendored/lib.so": BAD,
    },
    "vendored_by_another_module": {
        "__init__.py": "from . import paths\nimport abiscan_vendored_too\n",
        "paths.py": "import sys\nfrom pathlib import Path\nsys.path.append(str(Path(__file__).parent / 'vendor'))\n",
        "vendor/abiscan_vendored_too.py": _LOAD + "_load('lib.so')\n",
        "vendor/lib.so": GOOD,
    },
    "vendored_in_other_ways": {
        "__init__.py": "import os, sys\nhere = os.path.dirname(__file__)\n"
        "sys.path += [here + '/vendor']\nimport abiscan_vendored_first\n"
        "sys.path.remove(here + '/vendor')\n"
        "try:\n    import abiscan_vendored_second\nexcept ImportError:\n    pass\n"
        "sys.path = [here + '/vendor'] + sys.path\nimport abiscan_vendored_third\n",
        "vendor/abiscan_vendored_first.py": "",
        "vendor/abiscan_vendored_second.py": _LOAD + "_load('lib.so')\n",
        "vendor/abiscan_vendored_third.py": _LOAD + "_load('other.so')\n",
        "vendor/lib.so": GOOD,
        "vendor/other.so": BAD,
    },
    "configured": {
        "__init__.py": _LOAD
        + "import json\nconfig = os.path.join(os.path.expanduser('~'), '.abiscan_test', 'c.json')\n"
        "backend = 'lib'\nif os.path.exists(config):\n    with open(config) as file:\n"
        "        backend = json.load(file)['backend']\n"
        "_load(backend + '.so')\n",
        "lib.so": BAD,
    },
    "classes": {
        "__init__.py": "import torch\nfrom pathlib import Path\n"
        "torch.classes.load_library(str(Path(__file__).parent / 'lib' / 'x.so'))\n",
        "lib/x.so": NO_CUDA,
    },
    "warned": {
        "__init__.py": _LOAD + "import warnings\ntry:\n    _load('lib.so')\n"
        "except OSError as error:\n    warnings.warn(f'no extension: {error}')\n",
        "lib.so": BAD,
    },
    "logged": {
        "__init__.py": _LOAD + "import logging\nlogger = logging.getLogger(__name__)\n"
        "try:\n    _load('lib.so')\nexcept Exception as e:\n    logger.warning('failed: %s', e)\n",
        "lib.so": BAD,
    },
    "logged_unseen": {
        "__init__.py": _LOAD + "import logging\nlogger = logging.getLogger(__name__)\n"
        "try:\n    _load('lib.so')\nexcept Exception as e:\n    logger.debug('failed: %s', e)\n"
        "    logger.info('failed: %s', e)\n    logging.getLogger().log(logging.INFO, 'failed')\n",
        "lib.so": BAD,
    },
    "printed": {"__init__.py": _LOAD + "try:\n    _load('lib.so')\nexcept:\n    print('no')\n", "lib.so": BAD},
    "suppressed": {
        "__init__.py": _LOAD + "import contextlib\nwith contextlib.suppress(OSError, ImportError):\n"
        "    _load('lib.so')\n    raise RuntimeError('not reached')\n",
        "lib.so": BAD,
    },
    "wrong_handler": {
        "__init__.py": _LOAD + "try:\n    _load('lib.so')\nexcept ImportError:\n    pass\n",
        "lib.so": BAD,
    },
    "raised_from": {
        "__init__.py": _LOAD + "try:\n    _load('lib.so')\nexcept OSError as error:\n"
        "    raise ImportError(\n        f'rebuild me: {error}'\n    ) from error\n",
        "lib.so": BAD,
    },
    "raised_while": {
        "__init__.py": _LOAD + "class BrokenInstallation(RuntimeError):\n"
        "    def __init__(self, what):\n        super().__init__(f'broken: {what}')\n\n"
        "def start():\n    try:\n        _load('lib.so')\n    except OSError:\n"
        "        raise BrokenInstallation('lib')\n\nstart()\n",
        "lib.so": BAD,
    },
    "raised_from_none": {
        "__init__.py": _LOAD + "try:\n    _load('lib.so')\nexcept OSError:\n    raise ImportError('gone') from None\n",
        "lib.so": BAD,
    },
    "reraised": {
        "__init__.py": _LOAD + "def start():\n    try:\n        _load('lib.so')\n    except OSError as e:\n"
        "        if 'undefined symbol' in str(e.__cause__):\n            raise\n        return False\n\nstart()\n",
        "lib.so": BAD,
    },
    "text_of_exception": {
        "__init__.py": _LOAD + "class LibraryError(Exception):\n    def __init__(self, name, reason):\n"
        "        self.name = name\n        self.reason = reason\n\n"
        "    def __str__(self):\n        return f'{self.name}: {self.reason}'\n\n"
        "try:\n    _load('lib.so')\nexcept OSError as e:\n    raise LibraryError('lib', type(e).__name__) from e\n",
        "lib.so": BAD,
    },
    "finally_and_else": {
        "__init__.py": _LOAD
        + "steps = []\ntry:\n    _load('good.so')\nexcept OSError:\n    steps.append('no')\nelse:\n"
        "    steps.append('yes')\nfinally:\n    steps.append('end')\nraise RuntimeError(', '.join(steps))\n",
        "good.so": GOOD,
    },
    "context_manager": {
        "__init__.py": _LOAD + "from contextlib import contextmanager\n\n@contextmanager\ndef explained(name):\n"
        "    try:\n        yield name\n    except OSError as error:\n"
        "        raise ImportError(f'{name} does not load') from error\n\n"
        "with explained('lib') as what:\n    _load(what + '.so')\n",
        "lib.so": BAD,
    },
    # ---- which file is chosen
    "by_torch_version": {
        "__init__.py": "import os, re, torch\nhere = os.path.realpath(os.path.dirname(__file__))\n"
        "major, minor = re.match(r'(\\d+)\\.(\\d+)', torch.__version__).groups()\n"
        "prefix = os.path.join(here, f'torch-{major}.{minor}')\n"
        "torch.ops.load_library(os.path.join(prefix, 'lib.so'))\n",
        "torch-2.12/lib.so": BAD,
        "torch-2.13/lib.so": GOOD,
    },
    "no_version_fits": {
        "__init__.py": "import glob, os, torch\nhere = os.path.dirname(__file__)\n"
        "wanted = '.'.join(torch.__version__.split('.')[:2])\n"
        "found = sorted(os.path.basename(p)[6:] for p in glob.glob(os.path.join(here, 'torch-*')))\n"
        "if wanted not in found:\n    raise ImportError(f'built for {\", \".join(found)}, here is {wanted}')\n"
        "torch.ops.load_library(os.path.join(here, 'torch-' + wanted, 'lib.so'))\n",
        "torch-2.7/lib.so": GOOD,
        "torch-2.8/lib.so": GOOD,
    },
    "dictionary": {
        "__init__.py": "import torch\nfrom pathlib import Path\nBUILDS = {'2.12': 'a.so', '2.11': 'b.so'}\n"
        "version = torch.__version__.rsplit('.', 1)[0]\n"
        "torch.ops.load_library(Path(__file__).with_name(BUILDS[version]))\n",
        "a.so": GOOD,
        "b.so": GOOD,
    },
    "first_that_exists": {
        "__init__.py": "import torch\nfrom pathlib import Path\nhere = Path(__file__).resolve().parent\n"
        "names = ('_C_cuda.so', '_C.so', '_C_cpu.so')\n"
        "torch.ops.load_library(next(here / n for n in names if (here / n).exists()))\n",
        "_C.so": GOOD,
        "_C_cpu.so": BAD,
    },
    "none_exists": {
        "__init__.py": "import torch\nfrom pathlib import Path\nhere = Path(__file__).parent\n"
        "paths = [p for p in here.glob('*.so') if p.stem.startswith('_gpu')]\npath = paths[0]\n",
        "_C.so": GOOD,
    },
    "cuda_or_cpu": {
        "__init__.py": _LOAD + "kind = 'cpu' if torch.version.cuda is None else 'cu' + torch.version.cuda\n"
        "_load(f'_C_{kind}.so')\n",
        "_C_cpu.so": BAD,
        "_C_cu126.so": GOOD,
    },
    "text_comparison": {
        "__init__.py": _LOAD
        + "if str(torch.__version__) >= '2.9':\n    raise ImportError('too new')\n_load('lib.so')\n",
        "lib.so": BAD,
    },
    "version_comparison": {
        "__init__.py": _LOAD + "if torch.__version__ >= (2, 9):\n    raise ImportError('too new')\n_load('lib.so')\n",
        "lib.so": GOOD,
    },
    "python_version": {
        "__init__.py": _LOAD
        + "import sys\nif sys.version_info[:2] < (3, 99):\n    _load(f'py{sys.version_info.major}.so')\n",
        "py3.so": BAD,
    },
    "absent_file": {"__init__.py": _LOAD + "_load('lib.so')\n", "other.so": GOOD},
    # ---- extension modules
    "module": {"__init__.py": "import torch\nfrom . import pybind_sample\n", "pybind_sample.so": MODULE},
    "module_for_other_python": {
        "__init__.py": "import torch\nfrom . import python_abi_tag\n",
        "python_abi_tag.cpython-39-x86_64-linux-gnu.so": OLD_MODULE,
    },
    "module_by_name": {
        "__init__.py": "import importlib, torch\ntry:\n    _C = importlib.import_module('._C', __name__)\n"
        "except ImportError as e:\n    raise ImportError(f'{e.name!r} is missing') from e\n",
        "_C.cpython-39-x86_64-linux-gnu.so": OLD_MODULE,
    },
    "not_a_module": {
        "__init__.py": "import torch\ntry:\n    from ._C import run\nexcept ImportError:\n    run = None\n"
        "if run is None:\n    raise RuntimeError('no _C')\n",
        "_C.so": GOOD,
    },
    "spec": {
        "__init__.py": "import importlib.util, os, torch\nhere = os.path.dirname(__file__)\n"
        "spec = importlib.util.spec_from_file_location('ext', os.path.join(here, 'ext.so'))\n"
        "module = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(module)\n",
        "ext.so": BAD,
    },
    "found_spec": {
        "__init__.py": "import importlib.util, torch\nspec = importlib.util.find_spec('found_spec._C')\n"
        "if spec is None:\n    raise ImportError('not built')\ntorch.ops.load_library(spec.origin)\n",
        "_C.so": BAD,
    },
    "ctypes": {
        "__init__.py": "import ctypes, os, torch\n"
        "here = os.path.abspath(os.path.dirname(__file__))\n"
        "dll = ctypes.CDLL(os.path.join(here, 'lib.so'), mode=ctypes.RTLD_GLOBAL)\n",
        "lib.so": BAD,
    },
    # ---- ways to find a library
    "path_finder": {
        "__init__.py": "import importlib\n"
        "import os.path as osp\n"
        "import torch\n"
        "for library in ['_version', '_scatter']:\n"
        "    cuda_spec = importlib.machinery.PathFinder().find_spec(f'{library}_cuda', [osp.dirname(__file__)])\n"
        "    cpu_spec = importlib.machinery.PathFinder().find_spec(f'{library}_cpu', [osp.dirname(__file__)])\n"
        "    spec = cuda_spec or cpu_spec\n"
        "    if spec is not None:\n"
        "        torch.ops.load_library(spec.origin)\n"
        "    else:\n"
        "        raise ImportError(f\"Could not find module '{library}_cpu' in {osp.dirname(__file__)}\")\n",
        "_version_cpu.so": GOOD,
        "_scatter_cpu.so": BAD,
    },
    "path_finder_finds_nothing": {
        "__init__.py": "import importlib, torch\n"
        "import os.path as osp\n"
        "spec = importlib.machinery.PathFinder.find_spec('_gone', [osp.dirname(__file__)])\n"
        "if spec is None:\n"
        "    raise ImportError(f\"Could not find module '_gone'\")\n"
        "torch.ops.load_library(spec.origin)\n",
        "lib.so": BAD,
    },
    "extension_loader": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "from importlib.machinery import ExtensionFileLoader\n"
        "loader = ExtensionFileLoader('_C', os.path.join(here, '_C.so'))\n"
        "import importlib.util\n"
        "spec = importlib.util.spec_from_loader('_C', loader)\n"
        "mod = importlib.util.module_from_spec(spec)\n"
        "loader.exec_module(mod)\n",
        "_C.so": BAD,
    },
    "scandir": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "with os.scandir(here) as it:\n"
        "    for e in it:\n"
        "        if e.name.endswith('.so') and e.is_file():\n"
        "            torch.ops.load_library(e.path)\n",
        "lib.so": BAD,
    },
    "suffix_of_extensions": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "import sysconfig\n"
        "suffix = sysconfig.get_config_var('EXT_SUFFIX')\n"
        "torch.ops.load_library(os.path.join(here, '_C' + suffix))\n",
        "_C.cpython-311-x86_64-linux-gnu.so": BAD,
    },
    "suffix_among_variables": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "from sysconfig import get_config_vars\n"
        "torch.ops.load_library(here + '/_C' + get_config_vars()['EXT_SUFFIX'])\n",
        "_C.cpython-311-x86_64-linux-gnu.so": BAD,
    },
    "resource_path": {
        "__init__.py": "import importlib.resources, torch\n"
        "with importlib.resources.path('resource_path', 'lib.so') as p:\n"
        "    torch.ops.load_library(str(p))\n",
        "lib.so": BAD,
    },
    "nullcontext": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "from contextlib import nullcontext\n"
        "with nullcontext(os.path.join(here, 'lib.so')) as p:\n"
        "    torch.ops.load_library(p)\n",
        "lib.so": BAD,
    },
    "cdll_item": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "import ctypes\n"
        "ctypes.cdll[os.path.join(here, 'lib.so')]\n",
        "lib.so": BAD,
    },
    "load_dynamic": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "import imp\n"
        "imp.load_dynamic('_C', os.path.join(here, '_C.so'))\n",
        "_C.so": BAD,
    },
    "iter_modules": {
        "__init__.py": "import pkgutil, importlib, torch\n"
        "for _, name, ispkg in pkgutil.iter_modules(__path__, __name__ + '.'):\n"
        "    importlib.import_module(name)\n",
        "sub.py": "raise ValueError('sub')\n",
        "lib.so": BAD,
    },
    "walk_packages": {
        "__init__.py": "import pkgutil, importlib\n"
        "for info in pkgutil.walk_packages(__path__, prefix=__name__ + '.'):\n"
        "    importlib.import_module(info.name)\n",
        "s/__init__.py": "",
        "s/t.py": "raise ValueError('t')\n",
        "lib.so": BAD,
    },
    "find_loader": {
        "__init__.py": "import pkgutil, torch\n"
        "if pkgutil.find_loader('find_loader._ext') is None:\n"
        "    raise ImportError('no ext')\n",
        "lib.so": BAD,
    },
    "uname": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "if os.uname().machine == 'x86_64':\n"
        "    torch.ops.load_library(here + '/lib.so')\n",
        "lib.so": BAD,
    },
    "star_of_a_name_that_is_absent": {
        "__init__.py": "from .impl import *\nrun()\n",
        "impl.py": "__all__ = ['run', 'gone']\ndef run():\n    pass\n",
        "lib.so": BAD,
    },
    "absent_library_of_torch": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "import ctypes\n"
        "p = os.path.join(os.path.dirname(torch.__file__), 'lib', 'libtorch_cuda.so')\n"
        "if not os.path.exists(p):\n"
        "    raise ImportError('needs a CUDA build of torch')\n",
        "lib.so": BAD,
    },
    "configuration": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "from configparser import ConfigParser\n"
        "config = ConfigParser()\n"
        "config.read(os.path.join(here, 'run.ini'))\n"
        "C = dict(config.items('CONFIG'))\n"
        "if C.get('cib', '0') == '1':\n"
        "    torch.ops.load_library(os.path.join(here, 'lib.so'))\n",
        "run.ini": "[CONFIG]\ncib = 1\n",
        "lib.so": BAD,
    },
    "configuration_of_sections": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "import configparser\n"
        "c = configparser.ConfigParser()\n"
        "with open(here + '/run.ini') as f:\n"
        "    c.read_file(f)\n"
        "if c.getboolean('CONFIG', 'cib') and c['CONFIG']['name'] == 'lib':\n"
        "    torch.ops.load_library(os.path.join(here, c.get('CONFIG', 'name') + '.so'))\n",
        "run.ini": "[CONFIG]\ncib = yes\nname = lib\n",
        "lib.so": BAD,
    },
    # ---- modules of the package, of torch and of others
    "submodules": {
        "__init__.py": "from .a import *\nfrom . import b\nassert b.name == 'b'\nrun()\n",
        "a.py": "from .c.deep import start as run, hidden as _hidden\n__all__ = ['run']\n",
        "b.py": "name = __name__.split('.')[-1]\n",
        "c/deep.py": _LOAD.replace("dirname(__file__)", "dirname(os.path.dirname(__file__))")
        + "hidden = 1\ndef start():\n    _load('lib.so')\n",
        "lib.so": BAD,
    },
    "circular": {
        "__init__.py": "from .a import one\n",
        "a.py": "from .b import two\none = 1\n",
        "b.py": "from .a import one\ntwo = 2\n",
    },
    "absent_name": {"__init__.py": "import torch\nfrom .a import nothing\n", "a.py": "something = 1\n"},
    "absent_module": {"__init__.py": "import torch\nfrom .a import b\nimport absent_module.c\n", "a.py": "b = 1\n"},
    "absent_attribute": {"__init__.py": "import torch\nfrom . import a\na.nothing\n", "a.py": "something = 1\n"},
    "absent_in_torch": {"__init__.py": "from torch.nn.functional import NoSuchFunction\n"},
    "string_abi": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "if torch._C._GLIBCXX_USE_CXX11_ABI != False:\n"
        "    raise RuntimeError('ABI')\n",
        "lib.so": BAD,
    },
    "string_abi_asked": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "if torch.compiled_with_cxx11_abi():\n"
        "    raise RuntimeError('ABI')\n",
        "lib.so": BAD,
    },
    "absent_below_a_star": {
        "__init__.py": "import torch.utils._pytree as pt\n"
        "f = pt.register_pytree_node\n"
        "from torch.distributed._tensor import DTensor\n"
        "from torch.onnx.symbolic_helper import no_such_name\n",
        "lib.so": BAD,
    },
    "absent_beside_dynamic_code": {
        "__init__.py": "from torch.nn.parallel._functions import _get_stream\n"
        "from torch.distributed.algorithms.join import Join\n"
        "from torch._inductor.utils import no_such_thing\n",
        "lib.so": BAD,
    },
    "absent_torch_module": {"__init__.py": "import torch\nimport torch.nn.no_such_module\n"},
    "absent_package": {"__init__.py": "import torch\nimport no_such_package_of_abiscan\n"},
    "optional_package": {
        "__init__.py": _LOAD
        + "try:\n    import no_such_package_of_abiscan\n    HAS = True\nexcept ImportError:\n    HAS = False\n"
        "_load('a.so' if HAS else 'b.so')\n",
        "a.so": GOOD,
        "b.so": BAD,
    },
    "module_getattr": {
        "__init__.py": "import importlib, torch\n_lazy = {'run': '.a'}\n\ndef __getattr__(name):\n"
        "    if name in _lazy:\n        return getattr(importlib.import_module(_lazy[name], __name__), name)\n"
        "    raise AttributeError(f'module {__name__} has no {name}')\n\nfrom . import user\n",
        "user.py": "import module_getattr\ntry:\n    module_getattr.run()\n    module_getattr.walk()\n"
        "except ValueError:\n    raise\n",
        "a.py": "def run():\n    return 1\n",
    },
    # ---- operators
    "registers": {
        "__init__.py": _LOAD + "_load('lib.so')\nfrom . import ops\n",
        "ops.py": "import torch\n\n"
        "@torch.library.register_fake('abiscan_loads::double_it')\ndef _(x):\n    return x\n\n"
        "NAMES = ('one', 'two')\nlib = torch.library.Library('abiscan_python', 'DEF')\n"
        "for name in NAMES:\n    lib.define(name + '(Tensor x) -> Tensor')\n    lib.impl(name, lambda x: x, 'CPU')\n\n"
        "def custom(name, **kw):\n    return torch.library.custom_op(f'abiscan_python::{name}', **kw)\n\n"
        "@custom('three', mutates_args=())\ndef three(x: torch.Tensor) -> torch.Tensor:\n    return x.clone()\n\n"
        "@custom('four', mutates_args={'x'}, device_types='cpu')\ndef four(x: torch.Tensor) -> None:\n    pass\n\n"
        "@three.register_kernel('cuda')\ndef _(x):\n    return x\n\n"
        "@torch.library.impl(lib, 'two', 'Meta')\ndef two_meta(x):\n    return x\n\n"
        "torch.library.define('abiscan_python::five', '(Tensor x) -> Tensor')\n\n"
        "@torch.library.impl('abiscan_python::five', ('cpu', 'cuda'))\ndef five(x):\n    return x\n\n"
        "@torch.library.register_kernel('abiscan_python::one', 'xpu')\ndef one_xpu(x):\n    return x\n",
        "lib.so": GOOD,
    },
    "fake_without_operator": {
        "__init__.py": _LOAD + "try:\n    _load('lib.so')\nexcept OSError:\n    pass\n\n"
        "@torch.library.register_fake('abiscan_loads::double_it')\ndef fake(\n    x,\n):\n    return x\n",
        "lib.so": BAD,
    },
    "autograd_without_operator": {
        "__init__.py": "import torch\n\ndef backward(ctx, grad):\n    return grad\n\n"
        "torch.library.register_autograd('abiscan_none::gone', backward)\n",
    },
    "custom_ops_without_operator": {
        "__init__.py": _LOAD + "import torch._custom_ops\ntry:\n    _load('lib.so')\nexcept OSError:\n    pass\n"
        "@torch._custom_ops.impl_abstract('abiscan_python::absent')\ndef fake(x):\n    return x\n",
        "lib.so": BAD,
    },
    "custom_ops": {
        "__init__.py": _LOAD + "_load('lib.so')\nfrom torch._custom_ops import custom_op, impl, impl_abstract\n"
        "custom_op('abiscan_old::twice', '(Tensor x) -> Tensor')\n"
        "@impl('abiscan_old::twice', device_types='cpu')\ndef twice(x):\n    return x + x\n"
        "@impl_abstract('abiscan_old::twice')\ndef fake(x):\n    return x\n"
        "@custom_op('abiscan_old::inferred')\ndef inferred(x: torch.Tensor) -> torch.Tensor:\n    ...\n"
        "@impl('abiscan_old::gone')\ndef gone(x):\n    return x\n",
        "lib.so": GOOD,
    },
    "meta_without_operator": {
        "__init__.py": "import torch\nlib = torch.library.Library('abiscan_none', 'IMPL', 'Meta')\n"
        "lib.impl('gone', lambda x: x)\n",
    },
    "kernel_without_operator": {
        "__init__.py": "import torch\nlib = torch.library.Library('abiscan_none', 'IMPL')\n"
        "lib.impl('gone', lambda x: x, 'CPU')\n",
    },
    "operator_lookup": {
        "__init__.py": "import torch\nif hasattr(torch.ops.abiscan_none, 'gone'):\n    raise RuntimeError('there')\n"
        "gone = torch.ops.abiscan_none.gone\n",
    },
    "operator_after_load": {
        "__init__.py": _LOAD + "_load('lib.so')\ndouble_it = torch.ops.abiscan_loads.double_it.default\n"
        "triple_it = torch.ops.abiscan_loads.triple_it\n",
        "lib.so": GOOD,
    },
    "wrong_kind": {"__init__.py": "import torch\ntorch.library.Library('x', 'NEW')\n"},
    # ---- Python
    "attributes_of_a_class_that_are_none": {
        "__init__.py": _LOAD + "class Once:\n    loaded = None\n\n    @classmethod\n    def load(cls, name):\n"
        "        if cls.loaded is None:\n            _load(name)\n            cls.loaded = name\n\n"
        "Once.load('a.so')\nOnce.load('b.so')\n",
        "a.so": GOOD,
        "b.so": BAD,
    },
    "data_classes_that_check_themselves": {
        "__init__.py": _LOAD + "import ctypes\nfrom dataclasses import dataclass\nfrom typing import Optional\n\n"
        "@dataclass(frozen=True)\nclass Variant:\n    name: str\n    alias: Optional[str] = None\n"
        "    kind: Optional[type] = None\n\n    def __post_init__(self):\n"
        "        if (self.alias is None) == (self.kind is None):\n"
        "            raise ValueError(f'{self.name}: one of the two')\n\n"
        "def path(one):\n    if one.alias is not None:\n        return one.alias + '.so'\n"
        "    if one.kind is not None:\n        return one.name + '.so'\n    raise AssertionError('unreachable')\n\n"
        "for one in (Variant('x', alias='a'), Variant(name='b', kind=ctypes.c_int64)):\n"
        "    try:\n        _load(path(one))\n    except OSError:\n        pass\n"
        "Variant('neither')\n",
        "a.so": GOOD,
        "b.so": BAD,
    },
    "lists_of_unknown_length": {
        "__init__.py": _LOAD + "import random\nmore = torch.arange(random.choice([3, 4])).tolist()\n"
        "some = [1, 2]\nsome += more\nsome.extend(more)\nothers = [*more]\nlast = [1, *more, 'a']\n"
        "if len(some) < 8 or not others:\n    raise RuntimeError(some)\n"
        "if last[0] != 1 or last[-1] != 'a' or last[2] != 1:\n    raise RuntimeError(last)\n"
        "first, *_, end = last\ndef count(*numbers):\n    assert len(numbers) > 2\ncount(*more)\n"
        "for _ in more:\n    others.pop()\n_load(last[-1] + '.so')\n",
        "a.so": BAD,
    },
    "changed_in_a_loop_that_is_not_known": {
        "__init__.py": _LOAD + "import random\nmany = torch.arange(random.choice([2, 3])).tolist()\n"
        "class Registry:\n    found = 0\n    def __init__(self):\n        self.names = {}\n"
        "    def add(self, name):\n        self.names[name] = name\n        self.found += 1\n"
        "def collect(into):\n    for one in many:\n        into.append(one)\n"
        "def each():\n    for one in many:\n        yield one\n"
        "registry, listed, grouped, distinct = Registry(), ['a'], {}, set()\n"
        "for one in many:\n    registry.add(one)\n    grouped.setdefault('all', []).append(one)\n"
        "collect(listed)\ndistinct.update(many)\nleft = list(many)\nwhile left:\n    left.pop()\n"
        "if not registry.names or registry.found == 0 or 'all' not in grouped or len(listed) < 3 or not distinct:\n"
        "    raise RuntimeError('empty')\nif not list(each()):\n    raise RuntimeError('none')\n"
        "_load(listed[0] + '.so')\n",
        "a.so": BAD,
    },
    "classes_and_closures": {
        "__init__.py": _LOAD + "import functools\n\nclass Base:\n    suffix = '.so'\n\n    def __init__(self, name):\n"
        "        self._name = name\n\n    @property\n    def file(self):\n        return self._name + self.suffix\n\n"
        "    @classmethod\n    def make(cls, *names):\n        return [cls(n) for n in names]\n\n"
        "class Loader(Base):\n    loaded = []\n\n    def __init__(self, name, *, strict=True):\n"
        "        super().__init__(name.lower())\n        self.strict = strict\n\n    def __call__(self):\n"
        "        _load(self.file)\n        Loader.loaded.append(self.file)\n\n"
        "@functools.lru_cache(maxsize=None)\ndef once():\n    count = 0\n\n    def step():\n        nonlocal count\n"
        "        count += 1\n        return count\n\n"
        "    for one in Loader.make('A', 'B'):\n        one()\n        step()\n"
        "    return count\n\nassert once() == 2 and once() == 2, 'two'\n"
        "raise RuntimeError(f'{Loader.loaded!r} {once():03d}')\n",
        "a.so": GOOD,
        "b.so": MODULE,
    },
    "executed_file": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "ns = {}\n"
        "with open(os.path.join(here, 'version.py')) as f:\n"
        "    exec(f.read(), ns)\n"
        "if not torch.__version__.startswith(ns['torch_version']):\n"
        "    raise ImportError('built for ' + ns['torch_version'])\n",
        "version.py": "torch_version = '2.5.1'\n",
        "lib.so": BAD,
    },
    "compiled_file": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "ns = {}\n"
        "exec(compile(open(os.path.join(here, 'version.py')).read(), 'v', 'exec'), ns)\n"
        "if ns['torch_version'] != torch.__version__:\n"
        "    raise ImportError('built for ' + ns['torch_version'])\n",
        "version.py": "torch_version = '2.5.1'\n",
        "lib.so": BAD,
    },
    "executed_function": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "ns = {'a': 1}\n"
        "with open(os.path.join(here, 'v.py')) as f:\n"
        "    exec(f.read(), ns)\n"
        "raise ImportError(ns['f']())\n",
        "v.py": "x = a + 1\ndef f():\n    return 'x%d' % x\n",
        "lib.so": BAD,
    },
    "dataclass": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "from dataclasses import dataclass, field\n"
        "@dataclass\n"
        "class L:\n"
        "    name: str\n"
        "    extra: list = field(default_factory=list)\n"
        "    @property\n"
        "    def path(self):\n"
        "        return os.path.join(here, self.name)\n"
        "for l in [L('lib.so')]:\n"
        "    torch.ops.load_library(l.path)\n",
        "lib.so": BAD,
    },
    "named_tuple": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "from typing import NamedTuple\n"
        "class L(NamedTuple):\n"
        "    name: str\n"
        "    strict: bool = True\n"
        "for l in (L('lib.so'),):\n"
        "    if l.strict:\n"
        "        torch.ops.load_library(os.path.join(here, l.name))\n",
        "lib.so": BAD,
    },
    "cached_property": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "import functools\n"
        "class L:\n"
        "    @functools.cached_property\n"
        "    def path(self):\n"
        "        return os.path.join(here, 'lib.so')\n"
        "    @staticmethod\n"
        "    def load(p):\n"
        "        torch.ops.load_library(p)\n"
        "L.load(L().path)\n",
        "lib.so": BAD,
    },
    "metaclass": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "class Meta(type):\n"
        "    registry = []\n"
        "    def __new__(m, n, b, d):\n"
        "        c = super().__new__(m, n, b, d)\n"
        "        m.registry.append(n)\n"
        "        return c\n"
        "class A(metaclass=Meta):\n"
        "    pass\n"
        "if 'A' in Meta.registry:\n"
        "    raise RuntimeError('A')\n",
        "lib.so": BAD,
    },
    "init_subclass": {
        "__init__.py": "import os, torch\n"
        "here = os.path.dirname(os.path.abspath(__file__))\n"
        "class Base:\n"
        "    reg = {}\n"
        "    def __init_subclass__(cls, **k):\n"
        "        Base.reg[cls.__name__] = cls\n"
        "class Foo(Base):\n"
        "    pass\n"
        "if 'Foo' not in Base.reg:\n"
        "    raise RuntimeError('x')\n"
        "torch.ops.load_library(here + '/lib.so')\n",
        "lib.so": BAD,
    },
    "exits": {"__init__.py": "import sys, torch\nif not sys.argv:\n    pass\nsys.exit('cannot run here')\n"},
    "quits": {"__init__.py": "import torch\nif torch.__version__ != '1.0':\n    print('wrong torch')\n    exit(127)\n"},
    "asserts": {"__init__.py": "import torch\nx = {'a': [1, 2, 3]}\nassert len(x['a']) == 4, f\"{x['a'][-1]}\"\n"},
    "key_error": {"__init__.py": "import os, torch\nos.environ['ABISCAN_TESTS_UNSET']\n"},
    "value_error": {"__init__.py": "import torch\nmajor, minor = [int(n) for n in '2.13'.split('.')] + [0]\n"},
}
