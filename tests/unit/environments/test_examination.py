"""What becomes of each distribution of an environment, and for which of them it fails."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from abiscan import api
from abiscan.environments import examination
from abiscan.environments.examination import (
    ExaminedDistribution,
    examine,
    examine_numpy,
    has_modules_for_another_numpy,
    is_for_another_numpy,
    list_modules,
    list_required,
    list_users,
)
from abiscan.environments.model import WholeEnvironment, modules_of, origin_of
from abiscan.environments.package_check import CheckedPackage, Fitness
from abiscan.errors import InputError
from abiscan.inputs.files import Files
from abiscan.inputs.interpreter import PythonTag
from abiscan.inputs.packages import Distribution, list_installed
from abiscan.inputs.session import Session
from abiscan.python.importing.other_code import OtherCode
from abiscan.python.reading import PackageReader
from abiscan.results.package import PackageVerdict
from abiscan.torches.torch import ReleaseNumber
from abiscan.verdict import torch_set
from tests.elf_builder import Elf, exports, uses
from tests.fakes import extension, install, python_of, torch_package

GONE = uses("_ZN2at4goneEv")
# What numpy's headers compile into a module: 1.26.4, 2.0 for numpy 1.23 and newer, 2.0 for itself.
CHECK = b"module compiled against ABI version 0x%x but this version of numpy is 0x%x"
# What Cython 0.29 compiles into a module that uses ``cimport numpy``, and what scipy 1.10.1 raises beside numpy 2.2.6.
CYTHON_TYPE = (
    b"%.200s.%.200s size changed, may indicate binary incompatibility. "
    b"Expected %zd from C header, got %zd from PyObject"
)
SMALLER = (
    "ValueError: numpy.dtype size changed, may indicate binary incompatibility."
    " Expected 96 from C header, got 88 from PyObject"
)
OF_1 = (CHECK, b"numpy.core._multiarray_umath", b"numpy.core.multiarray failed to import")
_OF_2 = "module was compiled against NumPy C-API version 0x%x (NumPy {}) but the running NumPy has C-API version 0x%x."
OF_2 = (CHECK, b"numpy._core._multiarray_umath", b"numpy.core._multiarray_umath")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    torch_package(folder)
    install(folder, "torch", {}, version="9.9.0", requires="")
    return folder


def rows_of(site: Path) -> dict[str, ExaminedDistribution]:
    environment = WholeEnvironment.installed(python_of(site, site.parent))
    session = Session(folder=site.parent / "cache")
    users = list_users(environment, session.files())
    required = list_required(environment, users, session.files())
    return {row.name: row for row in examine(environment, [*users, *required], session, users=users, required=required)}


def test_what_imports_a_package_that_fails_fails_with_it(site: Path) -> None:
    install(
        site, "vision", {"vision/_C.so": extension(undefined=GONE)}, files={"vision/__init__.py": "from . import _C"}
    )
    # As torchmetrics imports torchvision, and lightning torchmetrics.
    utilities = {"__init__.py": "", "core/__init__.py": "", "core/imports.py": "class RequirementCache: ...\n"}
    files = {f"lightning_utilities/{path}": text for path, text in utilities.items()}
    install(site, "lightning-utilities", {}, requires="", files=files)
    install(
        site,
        "packaging",
        {},
        requires="",
        files={"packaging/__init__.py": "", "packaging/version.py": "class Version: ...\n"},
    )
    metrics = (
        "import torch\nfrom lightning_utilities.core.imports import RequirementCache\n"
        "if RequirementCache('vision>=0.5,<2'):\n    import vision\n"
    )
    install(site, "metrics", {}, requires="torch", files={"metrics/__init__.py": metrics})
    install(site, "light", {}, requires="metrics", files={"light/__init__.py": "import torch\nimport metrics\n"})
    older = metrics.replace(">=0.5,<2", ">=2")
    install(site, "without", {}, requires="torch", files={"without/__init__.py": older})
    guarded = "import torch\ntry:\n    import metrics\nexcept ImportError:\n    metrics = None\n"
    install(site, "guards", {}, requires="metrics", files={"guards/__init__.py": guarded})
    rows = rows_of(site)
    assert {name: (row.fitness, row.cause) for name, row in rows.items()} == {
        "vision": (Fitness.FAILS, None),
        "metrics": (Fitness.FAILS, "vision"),
        "light": (Fitness.FAILS, "vision"),
        "without": (Fitness.WORKS, None),
        "guards": (Fitness.WORKS, None),
    }
    assert rows["light"].error is not None
    assert rows["light"].error.message == "vision/_C.so: undefined symbol: _ZN2at4goneEv"


def test_what_a_look_has_settled_is_read_if_it_imports_what_fails(site: Path) -> None:
    # As accelerate 0.25.0 imports transformers where it is installed, without requiring it.
    install(site, "tokens", {}, version="0.22.0", requires="")
    refuses = (
        "import importlib.metadata\nimport torch\nthere = importlib.metadata.version('tokens')\n"
        "if there != '0.18.0':\n    raise ImportError(f'tokens<0.19 is required, but found tokens=={there}.')\n"
    )
    install(site, "former", {}, requires="torch", files={"former/__init__.py": refuses})
    text = "import importlib.util\nimport torch\nif importlib.util.find_spec('former'):\n    import former\n"
    install(site, "a_tuner", {}, requires="torch", files={"a_tuner/__init__.py": text})
    row = rows_of(site)["a-tuner"]
    assert (row.fitness, row.cause) == (Fitness.FAILS, "former")
    program = f"import sys\nsys.path.append({str(site)!r})\nimport a_tuner"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    assert str(row.error).partition(" (")[0] == done.stderr.splitlines()[-1]


def damage(site: Path, kind: str) -> None:
    """Leave of an installed package what an interrupted installation may leave: the metadata, the files, or a part."""
    library = next(Path(sysconfig.get_config_var("DESTSHARED")).glob("_struct.*.so")).read_bytes()
    files = {"part/__init__.py": "from . import _c\n", "part/_c.so": ""}
    info = install(site, "part", {}, requires="", files=files)
    if kind == "cut off":
        (site / "part" / "_c.so").write_bytes(library[:4096])
    elif kind == "metadata alone":
        shutil.rmtree(site / "part")
    elif kind == "files alone":
        shutil.rmtree(info)
        (site / "part" / "__init__.py").write_text("", "utf-8")


@pytest.mark.parametrize(
    ("kind", "cause"), [("empty", "part"), ("cut off", "part"), ("metadata alone", "part"), ("files alone", None)]
)
def test_what_an_interrupted_installation_has_left(site: Path, kind: str, cause: str | None) -> None:
    damage(site, kind)
    # What fails for itself may come to the other one first.
    text = "import torch\nimport part\nimport importlib.metadata\nimportlib.metadata.version('part')\ntorch.nope\n"
    install(site, "user", {}, requires="torch\nRequires-Dist: part", files={"user/__init__.py": text})
    row = rows_of(site)["user"]
    assert (row.fitness, row.cause) == (Fitness.FAILS, cause), row.error
    program = f"import sys\nsys.path.append({str(site)!r})\nimport user"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    lines = ["", *done.stderr.replace(f"{site}/", "").splitlines()]
    end = lines[-1] if done.returncode == 1 else f"the process ends: {signal.strsignal(-done.returncode)}"
    assert str(row.error).partition(" (")[0] == end.removeprefix("importlib.metadata.")


def install_in_place(site: Path, project: Path, kind: str, undefined: tuple[str, ...]) -> None:
    """Install a project as its build backend does for ``pip install -e``, or ``setup.py develop``."""
    body, library = project / "src" / "mine" / "__init__.py", extension(undefined=undefined)
    body.parent.mkdir(parents=True)
    body.write_text("import torch\nfrom . import _C\n", "utf-8")
    (project / "setup.py").touch()
    if kind == "scikit-build-core":  # it installs what is compiled, and a finder that puts both together
        files = {"_editable_skbc_mine.py": "", "_editable_skbc_mine.pth": "import _editable_skbc_mine\n"}
        info = install(site, "mine", {"mine/_C.so": library}, requires="torch", files=files)
        origin = {"url": project.as_uri(), "dir_info": {"editable": True}}
        (info / "direct_url.json").write_text(json.dumps(origin), "utf-8")
        return
    library.write(body.with_name("_C.so"))
    (info := project / "src" / "mine.egg-info").mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n", "utf-8")
    (info / "requires.txt").write_text("torch\n", "utf-8")
    (info / "SOURCES.txt").write_text("setup.py\nsrc/mine/__init__.py\nsrc/mine/_C.so\n", "utf-8")


@pytest.mark.parametrize("kind", ["scikit-build-core", "develop"])
@pytest.mark.parametrize("undefined", [(), GONE])
def test_what_is_installed_in_place(site: Path, kind: str, undefined: tuple[str, ...]) -> None:
    project = site.parent / "project"
    install_in_place(site, project, kind, undefined)
    found = tuple(list_installed([str(site), str(project / "src")]))
    environment = WholeEnvironment(python=python_of(site, site.parent), distributions=found)
    session = Session(folder=site.parent / "cache")
    (row,) = examine(environment, list_users(environment, session.files()), session)
    assert (
        row.error is None
        if not undefined
        else row.error and row.error.message == ("mine/_C.so: undefined symbol: _ZN2at4goneEv")
    )
    assert (row.fitness is Fitness.WORKS) == (not undefined)
    assert (row.distribution.source, origin_of(row.distribution)) == (str(project), "editable")


LARGE = "# {}\n".format("x" * 70) * 80


@pytest.mark.parametrize("large", [False, True])
def test_modules_for_another_python_are_passed_over(site: Path, large: bool) -> None:
    """As where ``PYTHONPATH`` leads to the packages of another Python."""
    body = "import re\nfrom parts import _fast\ndef f(): ...\n"
    files = {"parts/__init__.py": "from parts._main import f\n", "parts/_main.py": (LARGE if large else "") + body}
    library = Elf(defined=exports("PyInit__fast"))
    install(site, "parts", {"parts/_fast.cpython-37m-x86_64-linux-gnu.so": library}, requires="", files=files)
    numpy = (
        "try:\n    from numpy._umath import add\nexcept ImportError as error:\n"
        "    raise ImportError('Error importing numpy') from error\n"
    )
    library = Elf(defined=exports("PyInit__umath"))
    objects = {"numpy/_umath.cpython-37m-x86_64-linux-gnu.so": library}
    install(site, "numpy", objects, version="2.4.6", requires="", files={"numpy/__init__.py": numpy})
    install(
        site, "user", {}, requires="torch\nRequires-Dist: parts", files={"user/__init__.py": "import torch, parts\n"}
    )
    row = rows_of(site)["user"]
    environment, session = WholeEnvironment.installed(str(site.parent / "python")), Session(folder=site / "cache")
    of_numpy = examine_numpy(environment, environment.choice.open(Files(), session), session)
    assert of_numpy is not None
    for name, error in (("user", row.error), ("numpy", of_numpy.error)):
        program = f"import sys\nsys.path.insert(0, {str(site)!r})\nimport {name}"
        done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
        assert done.stderr.replace(f"{site}/", "").splitlines()[-1].startswith(str(error).rpartition(" (")[0])
    # A library for this Python beside it is the one that is imported.
    (site / "numpy" / "_umath.so").touch()
    assert examine_numpy(environment, environment.choice.open(Files(), session), session) is None


def test_what_comes_to_a_module_that_may_fail_is_read(site: Path) -> None:
    """The first to be read is imported by nothing: whether others work is not known then."""
    codes = {
        "bad": "import torch\ntorch.nope\n",
        "mid": "import bad\nimport torch\n",
        "good": "import torch\n",
        "top": "import mid, torch\n",
        "fine": "import good, torch\n",
    }
    requires = {"mid": "torch\nRequires-Dist: bad"}
    for name, code in codes.items():
        # What has a library for torch is read before the others.
        objects = {f"{name}/_sums.so": extension(undefined=())} if name in ("top", "fine") else {}
        install(site, name, objects, requires=requires.get(name, "torch"), files={f"{name}/__init__.py": code})
    rows = rows_of(site)
    assert {name: row.fitness for name, row in rows.items()} == {
        "bad": Fitness.FAILS, "mid": Fitness.FAILS, "good": Fitness.WORKS, "top": Fitness.FAILS, "fine": Fitness.WORKS,
    }  # fmt: skip


def test_what_else_would_break_it_is_not_looked_for(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is installed is known."""
    sought = list[PackageReader]()

    def note(self: PackageReader, *_: object) -> tuple[()]:
        sought.append(self)
        return ()

    monkeypatch.setattr(PackageReader, "conflicts", note)
    files = {"user/__init__.py": "from . import _sums\nimport torch\n"}
    install(site, "user", {"user/_sums.so": extension(undefined=())}, requires="torch", files=files)
    assert rows_of(site)["user"].fitness is Fitness.WORKS
    assert sought == []


def test_what_nothing_requires_is_looked_at_where_it_is_imported(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "try:\n    import there\nexcept ImportError:\n    pass\nimport torch\n"
    install(
        site, "user", {"user/_sums.so": extension(undefined=())}, requires="torch", files={"user/__init__.py": code}
    )
    install(site, "there", {}, requires="", files={"there/__init__.py": "x = 1\n"})
    read, find = list[str](), OtherCode.error

    def note(self: OtherCode, module: str, name: str | None) -> object:
        read.append(module)
        return find(self, module, name)

    monkeypatch.setattr(OtherCode, "error", note)
    assert rows_of(site)["user"].fitness is Fitness.WORKS
    assert read == []


LAZY = "import torch, importlib\ndef __getattr__(name):\n    return importlib.import_module('.impl', __name__).thing\n"
# What CPython says with torch 2.13.0: ``import user`` fails in each of them.
UNSOUND = {
    "a name that is made": {
        "user/__init__.py": "import torch\nfrom lazy import thing\n",
        "lazy/__init__.py": LAZY,
        "lazy/impl.py": "import torch\nfrom torch import gone_name\ndef thing(): ...\n",
    },
    "a name whose module uses what torch lacks": {
        "user/__init__.py": "import torch\nfrom lazy import thing\n",
        "lazy/__init__.py": "import torch\ndef __getattr__(name):\n    from lazy.impl import thing\n    return thing\n",
        "lazy/impl.py": "import torch\nclass thing(torch.nn.GoneModule): ...\n",
    },
    "a helper of another module": {
        "user/__init__.py": "import torch\nimport other\n",
        "other/__init__.py": "import torch\nfrom other.helper import f\nX = f()\n",
        "other/helper.py": "import torch\ndef f():\n    return torch.gone_name\n",
    },
    "behind libraries": {
        "user/__init__.py": "import torch\nimport other\n",
        "other/__init__.py": "import torch\nimport compiled\n",
        "compiled/__init__.py": "import bad\n",
        "bad/__init__.py": "import torch\nfrom torch import gone_name\n",
    },
}


def install_unsound(site: Path, name: str) -> None:
    files = UNSOUND[name]
    tops = {path.partition("/")[0] for path in files}
    for top in tops:
        requires = "\nRequires-Dist: ".join({"torch", *tops} - {top})
        objects = {"compiled/_x.so": Elf(defined=exports("PyInit__x"))} if top == "compiled" else {}
        own = {path: text for path, text in files.items() if path.startswith(f"{top}/")}
        install(site, top, objects, requires=requires, files=own)


@pytest.mark.parametrize("name", UNSOUND)
def test_a_check_of_one_package_reads_what_it_imports(site: Path, name: str, tmp_path: Path) -> None:
    """Nothing else judges the packages in between, as the rows of ``doctor`` do."""
    install_unsound(site, name)
    python = python_of(site, site.parent)
    (package,) = api.check("user", python=python, session=Session(folder=tmp_path / "cache")).packages
    assert package.verdict is PackageVerdict.IMPORT_FAILS


def test_distributions_that_mention_torch_nowhere_are_found_by_their_code(site: Path) -> None:
    install(site, "silent", {}, requires="", files={"silent/__init__.py": "import torch\ntorch.nope\n"})
    install(site, "extra", {}, requires="torch; extra == 'all'", files={"extra/__init__.py": ""})
    install(site, "apart", {}, requires="", files={"apart/__init__.py": "import json\n"})
    rows = rows_of(site)
    assert (sorted(rows), rows["silent"].fitness) == (["silent"], Fitness.FAILS)


def test_what_is_required_is_examined_as_well(site: Path) -> None:
    """As skorch requires scikit-learn, which fails for a numpy, opencv without a library, pandas without pytz."""
    frames = {"frames/__init__.py": "import zones\n"}
    install(site, "frames", {}, requires="zones", files=frames)
    learns = {"learns/__init__.py": "from . import _counts, _sums\n"}
    counts = extension(needed=(), texts=OF_1, defined=exports("PyInit__counts"))
    install(
        site,
        "learns",
        {"learns/_counts.so": counts, "learns/_sums.so": extension(needed=())},
        requires="",
        files=learns,
    )
    images = {"images/__init__.py": "from ._view import show\n"}
    install(site, "images", {"images/_view.so": extension(needed=("libnot-there.so.1",))}, requires="", files=images)
    sound = {
        "sound/__init__.py": "from . import _sums\nfrom .deep import name\n",
        "sound/deep.py": "from ._sums import *\n",
    }
    install(site, "sound", {"sound/_sums.so": extension(needed=())}, requires="", files=sound)
    install(site, "numpy", {}, version="2.4.6", requires="")
    sparse = {"sparse/__init__.py": "", "sparse/sums/__init__.py": "from . import _counts\n"}
    install(site, "sparse", {"sparse/sums/_counts.so": counts}, requires="numpy", files=sparse)
    scatter = {"scatter/__init__.py": "import torch\nfrom sparse.sums import total\n"}
    install(site, "scatter", {}, requires="torch\nRequires-Dist: sparse", files=scatter)
    frame = {"frame/__init__.py": "from . import _counts\n"}  # nothing requires it, as pandas beside torch
    install(site, "frame", {"frame/_counts.so": counts}, requires="numpy", files=frame)
    install(site, "apart", {}, requires="", files={"apart/__init__.py": "import zones\n"})
    text = "import torch, sound\ndef f():\n    import frames, images, learns\n"
    needs = "torch, frames, images, learns, sound".replace(", ", "\nRequires-Dist: ")
    install(site, "user", {}, requires=needs, files={"user/__init__.py": text})
    rows = rows_of(site)
    assert {name: (row.fitness, row.error and row.error.message) for name, row in rows.items()} == {
        "user": (Fitness.WORKS, None),
        "frames": (Fitness.FAILS, "No module named 'zones'"),
        "learns": (Fitness.FAILS, "numpy.core.multiarray failed to import"),
        "images": (Fitness.FAILS, "libnot-there.so.1: cannot open shared object file: No such file or directory"),
        "sound": (Fitness.WORKS, None),
        "sparse": (Fitness.WORKS, None),
        "frame": (Fitness.FAILS, "numpy.core.multiarray failed to import"),
        "scatter": (Fitness.FAILS, "numpy.core.multiarray failed to import"),
    }
    assert rows["sound"].is_settled


@pytest.mark.slow
@pytest.mark.parametrize(
    "requires", ["absent>=2", "there>=2", "there<2", "there; python_version < '3'", "there[x]>=1", "there[x,a]>=2"]
)
def test_requirements_are_met_as_pip_check_has_it(site: Path, requires: str) -> None:
    install(site, "there", {}, version="1.0", requires="")
    install(site, "asks", {}, requires=requires)
    environment = WholeEnvironment.installed(python_of(site, site.parent))
    asks = environment.find("ASKS")
    assert asks is not None
    program = f"import sys; sys.path[:0] = [{str(site)!r}]; from pip._internal.cli.main import main; main(['check'])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if line.startswith("asks ")]
    assert list(map(str, environment.unmet(asks))) == said


@pytest.mark.parametrize(
    ("texts", "numpy", "error"),
    [
        (OF_1, "2.4.6", "ImportError: numpy.core.multiarray failed to import"),
        ((*OF_1, CYTHON_TYPE), "2.4.6", "ImportError: numpy.core.multiarray failed to import"),
        ((*OF_1, CYTHON_TYPE, b"flatiter"), "2.4.6", SMALLER),
        ((*OF_1, CYTHON_TYPE, b"flatiter"), "1.26.4", None),
        (OF_1, "1.26.4", None),
        (OF_1, None, None),
        ((*OF_2, _OF_2.format("1.23").encode()), "2.4.6", None),
        ((*OF_2, _OF_2.format("1.23").encode()), "1.26.4", None),
        ((*OF_2, _OF_2.format("2.0").encode()), "1.26.4", "ImportError: numpy.core.multiarray failed to import"),
        ((b"numpy.core._multiarray_umath",), "2.4.6", None),  # as pybind11 looks numpy up when it is needed
    ],
)
def test_a_module_for_another_numpy(site: Path, texts: tuple[bytes, ...], numpy: str | None, error: str | None) -> None:
    module = extension(texts=texts, defined=exports("PyInit__C"))
    install(site, "counts", {"counts/_C.so": module}, files={"counts/__init__.py": "import torch\nfrom . import _C"})
    if numpy:
        install(site, "numpy", {}, version=numpy, requires="")
    row = rows_of(site)["counts"]
    shown = f"{row.error.exception}: {row.error.message}" if row.error else None
    assert shown == error
    raised = torch_set._numpy_error(str(site), Files(), [str(site)], "counts/_C.so")  # as a package beside meets it
    assert (f"{raised.exception}: {raised.message}" if raised else None) == error


def test_the_numpy_for_a_module_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "_C.so").write_bytes(b"no library")
    assert torch_set._numpy_error(str(tmp_path), Files(), [str(tmp_path)], "_C.so") is None


@pytest.mark.parametrize(("numpy", "fitness"), [("1.26.4", Fitness.WORKS), ("2.4.6", Fitness.UNKNOWN)])
@pytest.mark.parametrize(
    ("own", "beside"),
    [
        # pyarrow 12: its modules say nothing of numpy, and libarrow_python.so asks for it when one of them calls it.
        pytest.param((), OF_1, id="a library asks"),
        # onnxruntime 1.16.3: import_array1 prints the error, and its import goes on.
        pytest.param((*OF_1, b"pybind11"), (), id="pybind11"),
    ],
)
def test_what_another_numpy_does_to_a_module_may_be_unknown(
    site: Path, own: tuple[bytes, ...], beside: tuple[bytes, ...], numpy: str, fitness: Fitness
) -> None:
    module = extension(needed=("libasks.so",), runpath="$ORIGIN", texts=own, defined=exports("PyInit__C"))
    files = {"arrow/_C.so": module, "arrow/libasks.so": extension(needed=(), texts=beside)}
    install(site, "arrow", files, requires="numpy", files={"arrow/__init__.py": "from . import _C"})
    install(site, "user", {}, requires="torch\nRequires-Dist: arrow", files={"user.py": "import torch\n"})
    install(site, "numpy", {}, version=numpy, requires="")
    row = rows_of(site).get("arrow")
    assert row is not None
    assert row.fitness is fitness


def test_a_module_without_python_code(site: Path) -> None:
    """As xxhash and rapidjson are, and what builds a kernel with ``name="fast"`` in its setup.py."""

    def compiled(name: str, file: str, **changes: object) -> None:
        module = extension(defined=exports(f"PyInit_{name}"), **changes)
        install(site, name, {file: module}, requires="torch" if "needed" not in changes else "")

    compiled("fast", "fast.so")
    compiled("gone", "gone.so", undefined=GONE)
    compiled("apart", "apart.abi3.so", needed=())
    compiled("lacks", "lacks.abi3.so", needed=("libnot-there.so.1",))
    compiled("inner", "libinner.so", needed=())  # which no import takes for the module of another name
    uses_all = "torch\nRequires-Dist: apart\nRequires-Dist: lacks\nRequires-Dist: inner"
    install(site, "user", {}, requires=uses_all, files={"user.py": "import torch\nimport apart\n"})
    install(site, "fails", {}, requires="gone", files={"fails.py": "import torch\nimport gone\n"})
    undefined = "gone.so: undefined symbol: _ZN2at4goneEv"
    assert {name: row.error and row.error.message for name, row in rows_of(site).items()} == {
        "fast": None,
        "gone": undefined,
        "fails": undefined,
        "user": None,
        "apart": None,
        "lacks": "libnot-there.so.1: cannot open shared object file: No such file or directory",
        "inner": None,
    }


@pytest.mark.parametrize(
    ("text", "is_certain"),
    [
        ("tokens<0.19 is required, but found tokens=={there}.", True),  # as transformers, of what it does not require
        ("Please upgrade tokens to >= 0.30 to use this.\\nYour tokens version is {there}.", True),  # as pandas of numpy
        ("this needs 0.19, and found {there}.", False),
        ("tokens 0.19 is required.", False),
        # What is there is what is asked for, or the version is that of something else: it is not why this fails.
        ("former needs tokens>={there}.", False),
        ("former needs tokens ~= {there}.", False),
        ("former needs tokens {there}.", False),
        ("tokens {there} is required.", False),
        ("former is absent (tested with sums 1.0 and tokens {there}).", False),
        ("no plugin for tokens; needs bar {there}.", False),
        ("bar {there} is needed by tokens.", False),
        ("bar of tokens of version {there} is missing.", False),
    ],
)
def test_a_package_that_refuses_an_installed_version(site: Path, text: str, is_certain: bool) -> None:
    install(site, "tokens", {}, version="0.22.0", requires="")
    refuses = (
        "import importlib.metadata\nthere = importlib.metadata.version('tokens')\n"
        f"if there != '0.18.0':\n    raise ImportError(f'{text}')\nimport torch\n"
    )
    install(site, "former", {}, requires="torch", files={"former/__init__.py": refuses})
    install(site, "speeds", {}, requires="former", files={"speeds.py": "import torch\nimport former\n"})
    program = f"import sys\nsys.path.append({str(site)!r})\nimport former"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    said = done.stderr.partition("ImportError: ")[2].rstrip("\n")
    rows = rows_of(site)
    assert {row.error and row.error.message for row in rows.values()} == {said if is_certain else None}
    assert len(rows) == 2


ASKS = "def is_there():\n    return version('torch') >= '{}'\n"
STEPS = "LEAST = '{}'\ndef is_new():\n    return version('torch') >= LEAST\ndef is_there():\n    return is_new()\n"


@pytest.mark.parametrize(
    ("asks", "settled"),
    [
        (ASKS.format("9.8.7"), True),
        (ASKS.format("9.9.1"), False),
        (STEPS.format("9.9.1"), False),
        ("NEW = version('torch') >= '9.9.1'\nis_there = lambda: NEW\n", False),
        (ASKS.replace("torch", "other").format("9.9.1"), True),
    ],
)
def test_what_does_without_an_older_torch(site: Path, asks: str, *, settled: bool) -> None:
    """What uses a name of torch then fails, in the words of CPython; where torch is new enough, nothing is read."""
    layers = "from gate import is_there\nif is_there():\n    import torch\nclass Layer(torch.Tensor): ...\n"
    code = f"from importlib.metadata import version\n{asks}"
    (site / "torch" / "__init__.py").write_text("class Tensor: ...\n", encoding="utf-8")
    install(site, "other", {}, version="9.9.5", requires="")
    install(site, "gate", {}, requires="torch", files={"gate/layers.py": layers, "gate/__init__.py": code})
    install(site, "rests", {}, requires="gate", files={"rests.py": "import torch\nfrom gate.layers import Layer\n"})
    program = f"import sys\nsys.path.append({str(site)!r})\nimport rests"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=False)
    row = rows_of(site)["rests"]
    assert str(row.error).partition(" (")[0] == (done.stderr.splitlines() or ["None"])[-1]
    assert row.is_settled is settled


def test_what_a_planned_torch_certainly_has_is_not_read(site: Path) -> None:
    """Nothing of that torch is there; what uses a name that it lacks is checked."""
    for name, use in (("plain", "torch.nn.Module"), ("newer", "torch.no_such_name")):
        install(site, name, {}, requires="torch", files={f"{name}/__init__.py": f"import torch\nX = {use}\n"})
    environment = WholeEnvironment.installed(python_of(site, site.parent))
    session, checked = Session(folder=site.parent / "cache"), []

    def check(distribution: Distribution, **_: Any) -> CheckedPackage:
        checked.append(distribution.name)
        return CheckedPackage(results=())

    users = list_users(environment, session.files())
    planned = ReleaseNumber("2.13.0+cpu", PythonTag.of_file(".cpython-311-x86_64-linux-gnu.so"))
    rows = examine(environment, users, session, check, planned_torch=planned)
    assert checked == ["newer"]
    assert sorted(row.name for row in rows) == ["newer", "plain"]


def test_modules_and_origins(site: Path) -> None:
    files = {"two_a/__init__.py": "", "two_b.py": "", "two_b_data/x.txt": ""}
    info = install(site, "two", {"two_c.so": extension()}, files=files)
    (info / "INSTALLER").write_text("conda\n", encoding="utf-8")
    environment = WholeEnvironment.installed(python_of(site, site.parent))
    two = environment.find("two")
    assert two is not None
    assert (modules_of(two), origin_of(two)) == (("two_c", "two_a", "two_b", "two_b_data"), "conda")


def test_a_distribution_is_imported_by_the_module_with_its_name(site: Path) -> None:
    modules = {f"{name}/__init__.py": "import torch" for name in ("a_helper", "lib_two", "tests")}
    install(site, "lib-two", {}, requires="torch", files=modules)
    checked = rows_of(site)["lib-two"].checked_package
    assert checked is not None
    assert checked.package is not None
    assert checked.package.module == "lib_two"


def test_names_of_a_package_that_imports_what_fails_are_in_doubt(site: Path) -> None:
    """As peft imports names from transformers, which imports torchvision for some of them."""
    vision = {"vision/__init__.py": "from . import _C"}
    install(site, "vision", {"vision/_C.so": extension(undefined=GONE)}, files=vision)
    lazy = {
        "lazy/__init__.py": "def __getattr__(name):\n    from . import images\n    return images.Model\n",
        "lazy/deep.py": "if open('/proc/version').read():\n    import vision\n",  # which the reading does not know
        "lazy/images.py": "import torch\nif True:\n    import vision\nclass Model: pass\n",
    }
    install(site, "lazy", {}, requires="torch", files=lazy)
    install(site, "takes", {}, requires="lazy", files={"takes/__init__.py": "import torch\nfrom lazy import Model\n"})
    install(site, "has", {}, requires="lazy", files={"has/__init__.py": "import torch\nimport lazy\n"})
    part = {"part/__init__.py": "import torch\nimport lazy.deep\n"}
    install(site, "part", {}, requires="lazy", files=part)
    # As onnxruntime brings examples that import transformers, and that nothing imports.
    shows = {"shows/__init__.py": "import torch\n", "shows/examples/convert.py": "from lazy import Model\n"}
    install(site, "shows", {}, requires="lazy", files=shows)
    # As monai takes names from transformers, and goes on without them.
    guarded = "import torch\ntry:\n    from lazy import Model\nexcept Exception:\n    Model = None\n"
    install(site, "guards", {}, requires="lazy", files={"guards/__init__.py": guarded})
    rows = rows_of(site)
    assert {name: row.fitness for name, row in rows.items()} == {
        "vision": Fitness.FAILS,
        "lazy": Fitness.WORKS,
        "takes": Fitness.UNKNOWN,
        "part": Fitness.UNKNOWN,
        "has": Fitness.WORKS,
        "shows": Fitness.WORKS,
        "guards": Fitness.WORKS,
    }
    assert rows["takes"].problem == "it imports parts of lazy, some of which import vision, whose import fails"


@pytest.mark.parametrize(("code", "is_lost"), [("import torch, vision\n", True), ("import torch\n", False)])
def test_what_requires_a_package_that_fails_may_lose_a_part(code: str, site: Path, *, is_lost: bool) -> None:
    """As ``import fastai.vision.all`` fails beside a torchvision for another torch, and ``import fastai`` does not."""
    vision = {"vision/__init__.py": "import torch\nfrom . import _C"}
    install(site, "vision", {"vision/_C.so": extension(undefined=GONE)}, requires="torch", files=vision)
    learns = {"learns/__init__.py": "import torch\n", "learns/vision/__init__.py": "", "learns/vision/all.py": code}
    install(site, "learns", {}, requires="torch\nRequires-Dist: vision", files=learns)
    row = rows_of(site)["learns"]
    assert (row.fitness, [*row.lost]) == (Fitness.WORKS, ["learns.vision.all"] * is_lost)


def test_a_package_that_hides_what_it_fails_for_is_no_cause(site: Path) -> None:
    """As transformers raises a text of its own where torchvision, which it does not require, fails for a name of it."""
    vision = {"vision/__init__.py": "from . import _C"}
    install(site, "vision", {"vision/_C.so": extension(undefined=GONE)}, files=vision)
    hides = (
        "try:\n    import vision\nexcept ImportError as error:\n    raise ModuleNotFoundError('no Model') from error\n"
    )
    files = {"lazy/__init__.py": "import torch\n", "lazy/models.py": hides}
    install(site, "lazy", {}, requires="torch", files=files)
    install(
        site, "takes", {}, requires="lazy", files={"takes/__init__.py": "import torch\nfrom lazy.models import Model\n"}
    )
    rows = rows_of(site)
    assert {name: (row.fitness, row.cause) for name, row in rows.items()} == {
        "vision": (Fitness.FAILS, None),
        "lazy": (Fitness.WORKS, None),
        "takes": (Fitness.FAILS, "vision"),
    }


def test_a_part_of_a_package_that_works_raises_what_another_package_does(site: Path) -> None:
    """As scikit-learn imports scipy.sparse, which was compiled for another numpy, as matplotlib was."""
    module = extension(texts=OF_1, defined=exports("PyInit__C"))
    install(site, "numpy", {}, version="2.4.6", requires="")
    install(site, "plots", {"plots/_C.so": module}, requires="numpy", files={"plots/__init__.py": "from . import _C"})
    science = {"science/__init__.py": "import os\n", "science/sparse/__init__.py": "from . import _C"}
    science["science/show.py"] = "def show():\n    import plots\n"
    install(site, "science", {"science/sparse/_C.so": module}, requires="numpy", files=science)
    learns = {"learns/__init__.py": "import torch\nimport science.sparse\n"}
    install(site, "learns", {}, requires="torch\nRequires-Dist: science\nRequires-Dist: plots", files=learns)
    rows = rows_of(site)
    assert {name: (row.verdict, row.cause) for name, row in rows.items() if name != "numpy"} == {
        "plots": (PackageVerdict.IMPORT_FAILS, None),
        "science": (PackageVerdict.WORKS_WITHOUT, None),
        "learns": (PackageVerdict.IMPORT_FAILS, None),
    }


@pytest.mark.parametrize(
    ("module", "names", "expected"),
    [
        ("pkg", [], [("pkg", "E: own")]),
        ("pkg", ["other"], [("pkg", "E: own"), ("other", None)]),
        ("pkg", ["pkg", "other"], [("pkg", None), ("other", None)]),
        (None, ["other"], [("other", None)]),
    ],
)
def test_the_module_of_its_own_name_comes_first(
    module: str | None, names: list[str], expected: list[tuple[str, str | None]]
) -> None:
    modules = [SimpleNamespace(name=name, verdict=PackageVerdict.WORKS, error=None) for name in names]
    package: Any = SimpleNamespace(module=module, modules=modules, verdict=PackageVerdict.IMPORT_FAILS, error="E: own")
    assert [(one.name, one.error) for one in list_modules(package)] == expected
    package.error = None
    assert {one.error for one in list_modules(package)} == {None}


def test_a_package_that_cannot_be_examined_leaves_the_others(site: Path) -> None:
    """As another pip removes one while a command looks at all."""
    for name in ("one", "two", "three"):
        install(site, name, {}, requires="torch", files={f"{name}/__init__.py": "import torch\n"})
    environment = WholeEnvironment.installed(python_of(site, site.parent))
    distributions = [item for name in ("one", "two", "three") if (item := environment.find(name))]

    def find(distribution: Distribution) -> Any:
        if distribution.name == "two":
            raise InputError(str(distribution), "was removed", "run it again")
        return f"what {distribution.name} comes to"

    session = Session(folder=site.parent / "cache")
    rows = list(examination._check_all(environment, distributions, find, session, first_here=False))
    assert [(row.distribution.name, row.checked_package, row.problem) for row in rows] == [
        ("one", "what one comes to", None),
        ("two", None, "was removed"),
        ("three", "what three comes to", None),
    ]


@pytest.mark.parametrize("exception", ["SystemError", "RuntimeError", "AssertionError"])
def test_a_package_that_refuses_the_version_of_another_one_fails(site: Path, exception: str) -> None:
    """As pydantic refuses another pydantic-core, whose version Python has from its library, with a SystemError."""
    compiled = {"slow_core/_core.so": extension(texts=(b"2.27.2-alpha__version__",), defined=exports("PyInit__core"))}
    core = {"slow_core/__init__.py": "from ._core import __version__\n"}
    install(site, "slow-core", compiled, version="2.27.2", requires="", files=core)
    check = (
        "from slow_core import __version__\nif __version__ != '2.50.5':\n"
        f"    raise {exception}(f'The installed slow-core version ({{__version__}}) is incompatible with this one.')\n"
    )
    install(site, "slow", {}, requires="slow-core==2.50.5", files={"slow/__init__.py": check})
    install(site, "model", {}, requires="slow", files={"model/__init__.py": "import torch\nimport slow\n"})
    text = f"{exception}: The installed slow-core version (2.27.2) is incompatible with this one."
    assert {name: (str(row.error), row.cause) for name, row in rows_of(site).items() if row.error} == {
        "slow": (f"{text} (slow/__init__.py:3)", None),
        "model": (f"{text} (model/__init__.py:2)", "slow"),
    }


@pytest.mark.parametrize("requires", ["", "numpy"])
def test_modules_for_another_numpy(site: Path, requires: str) -> None:
    """faiss-cpu 1.7.4 requires nothing, and was compiled for numpy 1."""
    install(site, "numpy", {}, version="2.4.6", requires="")
    module = extension(texts=OF_1, defined=exports("PyInit__C"))
    install(site, "faiss", {"faiss/_C.so": module}, requires=requires, files={"faiss/__init__.py": "from . import _C"})
    environment = WholeEnvironment.installed(python_of(site, site.parent))
    faiss, files = environment.find("faiss"), Session(folder=site.parent / "cache").files()
    assert faiss is not None
    assert has_modules_for_another_numpy(environment, faiss, files)
    assert is_for_another_numpy(environment, faiss, files) is bool(requires)
