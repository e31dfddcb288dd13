"""How a package uses its libraries, and what it says about a failure that it survives."""

from __future__ import annotations

import pytest

from abiscan.python.importing.runs import Run, Runs
from abiscan.python.interpreter.machine import Choices
from abiscan.python.package.model import PROCESS_ENDS, Answer, Channel, HowLoaded, LoadedBy, OtherTorch, Raised, Skipped
from abiscan.python.reading import read_package
from tests.unit.python.packages import FakeWorld, TextSources, reading_of

LOAD = """\
import os, torch
def load(name):
    torch.ops.load_library(os.path.join(os.path.dirname(__file__), name))
"""


def _fails(path: str) -> str:
    return f"{path}: undefined symbol: absent"


def _how(files: dict[str, str], world: FakeWorld | None = None) -> dict[str, HowLoaded]:
    reading = reading_of(files, world)
    return {path.removeprefix("p/"): use.how for path, use in reading.uses.items()}


def test_what_import_loads() -> None:
    code = LOAD + "load('a.so')\ntry:\n    load('b.so')\nexcept OSError:\n    pass\n"
    assert _how({"p/__init__.py": code, "p/a.so": "", "p/b.so": ""}) == {
        "a.so": HowLoaded.IMPORT,
        "b.so": HowLoaded.GUARDED,
    }


def test_a_handler_that_raises_again_guards_nothing() -> None:
    code = LOAD + "try:\n    load('a.so')\nexcept OSError as e:\n    raise ImportError('no') from e\n"
    assert _how({"p/__init__.py": code, "p/a.so": ""}) == {"a.so": HowLoaded.IMPORT}


def test_what_is_caught_further_out_is_guarded() -> None:
    code = LOAD + (
        "class Invalid(Exception):\n    pass\n"
        "def start():\n    try:\n        load('a.so')\n    except OSError as e:\n        raise Invalid from e\n"
        "try:\n    start()\nexcept Invalid as e:\n    print(e)\n"
    )
    reading = reading_of({"p/__init__.py": code, "p/a.so": ""}, FakeWorld(error=_fails))
    assert reading.imports[0].raised is None
    assert reading.imports[0].loads[0].told is Channel.PRINT
    assert reading.uses["p/a.so"].how is HowLoaded.GUARDED


def test_what_would_be_loaded_after_a_failure() -> None:
    files = {"p/__init__.py": LOAD + "load('a.so')\nload('b.so')\n", "p/a.so": "", "p/b.so": ""}
    assert _how(files, FakeWorld(error=_fails)) == {"a.so": HowLoaded.IMPORT, "b.so": HowLoaded.IMPORT}


def test_another_way_to_the_loads_is_followed_until_all_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    note = FakeWorld.operator

    def noting(self: FakeWorld, name: str) -> bool | Answer:
        asked.append(name)
        return note(self, name)

    monkeypatch.setattr(FakeWorld, "operator", noting)
    code = LOAD + (
        "load('a.so')\nif torch.cuda.is_available():\n    load('a.so')\nload('b.so')\nhasattr(torch.ops.aten, 'late')\n"
    )
    files = {"p/__init__.py": code, "p/a.so": "", "p/b.so": ""}
    world = FakeWorld(error=_fails, cuda="12.6")
    assert _how(files, world) == {"a.so": HowLoaded.IMPORT, "b.so": HowLoaded.IMPORT}
    assert asked == ["aten::late"] * 2  # by the usual way: for its end, and by other modules


def test_a_gpu_may_be_there() -> None:
    code = LOAD + "if torch.cuda.is_available():\n    load('gpu.so')\n"
    files = {"p/__init__.py": code, "p/gpu.so": ""}
    assert _how(files, FakeWorld(cuda="12.6")) == {"gpu.so": HowLoaded.CONDITIONAL}
    assert _how(files, FakeWorld(cuda=None)) == {"gpu.so": HowLoaded.NEVER}
    (outcome,) = reading_of(files, FakeWorld(cuda="12.6", error=_fails)).imports
    assert outcome.raised is Answer.UNKNOWN
    assert [(one.text, str(one.at), one.taken) for one in outcome.conditions] == [
        ("torch.cuda.is_available()", "p/__init__.py:4", False)
    ]


def test_what_is_tried_when_another_does_not_load() -> None:
    code = (
        LOAD
        + "for n in '654':\n    try:\n        load(f'ffmpeg{n}.so')\n        break\n    except OSError:\n        pass\n"
    )
    files = {"p/__init__.py": code, "p/ffmpeg6.so": "", "p/ffmpeg5.so": "", "p/ffmpeg4.so": ""}
    found = _how(files)
    assert found == {
        "ffmpeg6.so": HowLoaded.GUARDED,
        "ffmpeg5.so": HowLoaded.CONDITIONAL,
        "ffmpeg4.so": HowLoaded.CONDITIONAL,
    }


_ENDLESS = "def endless():\n    number = 0\n    while number < 10**9:\n        number += 1\n    load('c.so')\n"


@pytest.mark.parametrize("before", ["", _ENDLESS])
def test_on_demand(before: str) -> None:
    files = {
        "p/__init__.py": LOAD + before + "def later():\n    load('a.so')\n",
        "p/sub.py": "from . import load\nload('b.so')\n",
        "p/a.so": "",
        "p/b.so": "",
    }
    reading = reading_of(files)
    assert {path: (use.how, str(use.at)) for path, use in reading.uses.items()} == {
        "p/a.so": (HowLoaded.ON_DEMAND, "p/__init__.py:3"),
        "p/b.so": (HowLoaded.ON_DEMAND, "p/__init__.py:3"),
    }
    assert [outcome.module for outcome in reading.imports] == ["p", "p.sub"]


def test_a_submodule_that_fails_is_told_apart() -> None:
    files = {"p/__init__.py": "", "p/ops.py": LOAD + "load('a.so')\n", "p/a.so": ""}
    main, apart = reading_of(files, FakeWorld(error=_fails)).imports
    assert main.raised is None
    assert isinstance(apart.raised, Raised)
    assert (apart.module, apart.raised.message) == ("p.ops", "Could not load this library: p/a.so")


_THREE_WAYS = "import other\n" + "".join(
    f"if other.{name}:\n    from .{name} import FLAG as {name}\nelse:\n    {name} = False\n" for name in "xyz"
)


@pytest.mark.parametrize("acting", ["", "x", "y"])
def test_ways_that_the_package_followed_are_followed_together(acting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    modules: list[str] = []
    make = Runs.run

    def run(runs: Runs, module: str, *choices: Choices, **how: bool) -> Run:
        modules.append(module)
        return make(runs, module, *choices, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(Runs, "run", run)
    flags = {f"p/{name}.py": "FLAG = True\n" for name in "xyz"}
    raising = f"import p\nif p.{acting}:\n    raise RuntimeError\n" if acting else ""
    ops = {"p/ops.py": LOAD + "load('a.so')\n" + raising, "p/a.so": ""}
    main, apart = reading_of({"p/__init__.py": _THREE_WAYS, **flags, **ops}).imports
    assert (main.module, apart.module, main.conditions) == ("p", "p.ops", ())
    assert [condition.text for condition in apart.conditions] == ([f"other.{acting}"] if acting else [])
    assert (modules.count("p.ops") < 4) is not bool(acting)  # one for each way, without any


def test_builds_for_other_versions() -> None:
    code = LOAD + "load('torch-' + '.'.join(torch.__version__.split('.')[:2]) + '/lib.so')\n"
    files = {"p/__init__.py": code, "p/torch-2.12/lib.so": "", "p/torch-2.13/lib.so": ""}
    assert _how(files) == {"torch-2.12/lib.so": HowLoaded.ALTERNATIVE, "torch-2.13/lib.so": HowLoaded.IMPORT}


@pytest.mark.parametrize(
    ("names", "fitting"),
    [
        (("lib_torch2.12.so", "lib_torch2.13.so"), "lib_torch2.13.so"),
        (("x_cpu.so", "x_cu126.so"), "x_cpu.so"),
        (("py310/x.so", "py311/x.so"), "py311/x.so"),
    ],
)
def test_names_decide_where_the_code_says_nothing(names: tuple[str, ...], fitting: str) -> None:
    code = "import torch\nfrom somewhere import find\ntorch.ops.load_library(find())\n"
    reading = reading_of({"p/__init__.py": code, **{f"p/{name}": "" for name in names}})
    for name in names:
        use = reading.uses[f"p/{name}"]
        assert use.how is (HowLoaded.IMPORT if name == fitting else HowLoaded.ALTERNATIVE)
        assert use.convention
    assert reading.imports[0].gaps == (
        "p/__init__.py:3: the path of a library that is loaded is not known: somewhere.find()",
    )


def test_never_needed_and_unknown() -> None:
    files = {
        "p/__init__.py": LOAD + "load('a.so')\n",
        "p/a.so": "libb.so libtorch.so",
        "p.libs/libb.so": "libc-1.so",
        "p.libs/libc-1.so": "",
        "p/old.cpython-39-x86_64-linux-gnu.so": "",
    }
    assert {path: use.how for path, use in reading_of(files).uses.items()} == {
        "p/a.so": HowLoaded.IMPORT,
        "p.libs/libb.so": HowLoaded.NEEDED,
        "p.libs/libc-1.so": HowLoaded.NEEDED,
        "p/old.cpython-39-x86_64-linux-gnu.so": HowLoaded.NEVER,
    }
    unclear = {**files, "p/__init__.py": LOAD + "load(input())\n"}
    found = {path: use.how for path, use in reading_of(unclear).uses.items()}
    assert found["p/a.so"] is HowLoaded.UNKNOWN
    assert found["p/old.cpython-39-x86_64-linux-gnu.so"] is HowLoaded.NEVER
    unclear["p/__init__.py"] = LOAD + "def later():\n    load(input())\n"
    use = reading_of(unclear).uses["p/a.so"]  # the import certainly does without it
    assert (use.how, str(use.at)) == (HowLoaded.ON_DEMAND, "p/__init__.py:3")


@pytest.mark.parametrize(
    ("handler", "told", "words"),
    [
        ("pass", Channel.NOTHING, None),
        ("AVAILABLE = False", Channel.NOTHING, None),
        ("print('without a.so:', e)", Channel.PRINT, "without a.so: Could not load this library: p/a.so"),
        (
            "logging.getLogger(__name__).error('no %s: %s', 'a', e)",
            Channel.LOG,
            "no a: Could not load this library: p/a.so",
        ),
        ("logging.log(30, 'no %s', 'a')", Channel.LOG, "no a"),
        ("logging.log(logging.INFO, 'no a')", Channel.NOTHING, None),
        ("logging.log(os.getpid(), 'no a')", Channel.LOG, "no a"),
        ("logging.getLogger(__name__).debug('no a: %s', e)", Channel.NOTHING, None),
        ("logging.info('no a'); print('without a')", Channel.PRINT, "without a"),
        ("logging.warning(f'{os.getpid()} has no a')", Channel.LOG, None),
        ("import warnings; warnings.warn('no a', stacklevel=2)", Channel.WARNING, "no a"),
        ("print(e); import warnings; warnings.warn(message='no a')", Channel.WARNING, "no a"),
        ("import platform; print('no a on ' + platform.python_version())", Channel.PRINT, "no a on 3.11.?"),
        ("tell(e)", Channel.WARNING, "Could not load this library: p/a.so"),
    ],
)
def test_what_users_are_told(handler: str, told: Channel, words: str | None) -> None:
    tell = "import logging\ndef tell(e):\n    from warnings import warn\n    warn(e)\n"
    code = LOAD + tell + f"try:\n    load('a.so')\nexcept OSError as e:\n    {handler}\n"
    (outcome,) = reading_of({"p/__init__.py": code, "p/a.so": ""}, FakeWorld(error=_fails)).imports
    assert outcome.raised is None
    (load,) = outcome.loads
    assert (load.told, load.told_text) == (told, words)
    assert isinstance(load.raised, Raised)
    assert (load.path, load.loader, str(load.at)) == ("p/a.so", LoadedBy.LOAD_LIBRARY, "p/__init__.py:3")


def test_what_may_load_or_not() -> None:
    files = {"p/__init__.py": LOAD + "load('a.so')\n", "p/a.so": ""}
    (outcome,) = reading_of(files, FakeWorld(error=lambda _path: Answer.UNKNOWN)).imports
    assert outcome.raised is Answer.UNKNOWN
    assert [one.text for one in outcome.conditions] == ["p/a.so loads"]


def test_a_load_that_ends_the_process_is_not_caught() -> None:
    class Ending(FakeWorld):
        def load(self, path: str | None, loader: LoadedBy) -> Raised | Answer | None:
            return Raised(exception=PROCESS_ENDS, message=f"{loader.value} of {path}", at=None)

    code = LOAD + "try:\n    load('a.so')\nexcept BaseException:\n    pass\n"
    reading = read_package(TextSources({"p/__init__.py": code, "p/a.so": ""}), (), Ending)
    raised = reading.imports[0].raised
    assert isinstance(raised, Raised)
    assert (raised.exception, str(raised.at)) == (PROCESS_ENDS, "p/__init__.py:3")


def test_the_error_of_torch_before_2_9_is_that_of_the_loader() -> None:
    files = {"p/__init__.py": LOAD + "load('a.so')\n", "p/a.so": ""}
    old, new = (
        reading_of(files, FakeWorld(torch_version=version, error=_fails)).imports[0].raised
        for version in ("2.8.0+cu128", "2.9.0+cu128")
    )
    assert isinstance(old, Raised)
    assert isinstance(new, Raised)
    assert (old.message, old.cause) == ("p/a.so: undefined symbol: absent", None)
    assert new.message == "Could not load this library: p/a.so"
    assert new.cause == old


def test_definitions_under_a_condition_are_perhaps() -> None:
    code = (
        "import torch\nlib = torch.library.Library('p', 'DEF')\nlib.define('a(Tensor x) -> Tensor')\n"
        "try:\n    import no_such_package\n    lib.define('b(Tensor x) -> Tensor')\nexcept ImportError:\n    pass\n"
        "if torch.cuda.is_available():\n    lib.define('c(Tensor x) -> Tensor')\n"
    )
    (outcome,) = reading_of({"p/__init__.py": code}, FakeWorld(cuda="12.6")).imports
    assert {one.operator: one.is_conditional for one in outcome.registrations} == {
        "p::a": False,
        "p::b": True,
        "p::c": True,
    }
    assert outcome.raised is None


def test_the_package_that_others_put_packages_into() -> None:
    files = {"space/torch/__init__.py": LOAD + "load('a.so')\n", "space/torch/a.so": ""}
    files["x-1.dist-info/top_level.txt"] = "space\n"
    assert [outcome.module for outcome in reading_of(files).imports] == ["space.torch"]


GUARDED = LOAD + (
    "import logging\n"
    "if tuple(map(int, torch.__version__.split('+')[0].split('.'))) < (2, 10):\n    load('a.so')\n"
    "else:\n    logging.warning('no a on %s', torch.__version__)\n"
)
OLD = OtherTorch(version="2.9.0", cuda=None)


def test_what_a_condition_on_torch_leaves_out() -> None:
    use = reading_of({"p/__init__.py": GUARDED, "p/a.so": ""}, built_for=(OLD,)).uses["p/a.so"]
    assert (use.how, str(use.at), use.skipped) == (HowLoaded.IMPORT, "p/__init__.py:3", Skipped.GUARD)
    assert use.message is not None
    assert (use.message.how, use.message.text) == (Channel.LOG, "no a on 2.13.0+cpu")
    # What else is said on this torch alone is not the reason, however loud.
    loud = "if not torch.__version__.startswith('2.9'):\n    import warnings\n    warnings.warn('new torch')\n"
    use = reading_of({"p/__init__.py": GUARDED + loud, "p/a.so": ""}, built_for=(OLD,)).uses["p/a.so"]
    assert use.message is not None
    assert use.message.text == "no a on 2.13.0+cpu"
    # Neither does the torch that it was built for load it.
    newer = OtherTorch(version="2.12.0", cuda=None)
    use = reading_of({"p/__init__.py": GUARDED, "p/a.so": ""}, built_for=(newer,)).uses["p/a.so"]
    assert (use.how, use.skipped, use.message) == (HowLoaded.NEVER, None, None)


@pytest.mark.parametrize(
    ("load", "skipped"),
    [
        ("for file in Path(__file__).parent.glob('a*.so'): torch.ops.load_library(file)", Skipped.GUARD),
        ("from . import a", Skipped.GUARD),
        ("torch.ops.load_library('b.so')", None),
        ("a = 1", None),
    ],
)
def test_what_a_version_of_its_own_leaves_out(load: str, skipped: Skipped | None) -> None:
    """As in torchao 0.14.0 (Comfy-Org/ComfyUI#10371), which lists pairs of versions of torch and of itself."""
    code = (
        f"{LOAD}from pathlib import Path\nimport logging\n"
        "if (torch.__version__, '1.4') == ('2.9.0', '1.3'):\n    new = True\nelse:\n    new = False\n"
        f"if not new:\n    logging.warning('no a')\nelse:\n    {load}\n"
    )
    use = reading_of({"p/__init__.py": code, "p/a.so": ""}, built_for=(OLD,)).uses["p/a.so"]
    assert (use.skipped, use.message and use.message.text) == (skipped, "no a" if skipped else None)


def test_what_is_left_out_without_a_word() -> None:
    code = LOAD + "print('hello')\nif torch.version.cuda:\n    load('a.so')\n"
    built_for = (OtherTorch(version="2.13.0+cu130", cuda="13.0"),)
    use = reading_of({"p/__init__.py": code, "p/a.so": ""}, built_for=built_for).uses["p/a.so"]
    assert (use.how, use.skipped, use.message) == (HowLoaded.IMPORT, Skipped.GUARD, None)


def test_another_library_in_its_place_leaves_nothing_out() -> None:
    code = LOAD + "load({True: 'old.so', False: 'new.so'}[torch.__version__ < '2.10'])\n"
    uses = reading_of({"p/__init__.py": code, "p/old.so": "", "p/new.so": ""}, built_for=(OLD,)).uses
    assert {path: (use.how, use.skipped) for path, use in uses.items()} == {
        "p/old.so": (HowLoaded.ALTERNATIVE, None),
        "p/new.so": (HowLoaded.IMPORT, None),
    }


def test_an_import_that_stops_before_a_library() -> None:
    stop = "import torch\nif torch.__version__ >= '2.10':\n    raise ImportError('too new')\n"
    use = reading_of({"p/__init__.py": stop + LOAD + "load('a.so')\n", "p/a.so": ""}, built_for=(OLD,)).uses["p/a.so"]
    assert (use.how, str(use.at), use.skipped) == (HowLoaded.IMPORT, "p/__init__.py:6", Skipped.IMPORT_STOPS)
    # Where no torch is known to get further, nobody knows what would be loaded.
    files = {"p/__init__.py": "raise ImportError('never')\n", "p/a.so": "", "p/b.cpython-39-x86_64-linux-gnu.so": ""}
    uses = reading_of(files).uses
    assert {path: (use.how, use.skipped) for path, use in uses.items()} == {
        "p/a.so": (HowLoaded.UNKNOWN, Skipped.IMPORT_STOPS),
        "p/b.cpython-39-x86_64-linux-gnu.so": (HowLoaded.NEVER, None),
    }


def test_a_part_is_known_by_the_name_that_users_import() -> None:
    files = {
        "p/__init__.py": "",
        "p/ops/__init__.py": "from p.ops._first import a\n",
        "p/ops/_first.py": LOAD + "load('a.so')\na = 1\n",
        "p/ops/a.so": "",
    }
    imports = reading_of(files).imports
    assert [(outcome.module, len(outcome.loads)) for outcome in imports] == [("p", 0), ("p.ops", 1)]


def test_a_loop_does_not_return_where_a_function_in_it_does() -> None:
    """What the loop goes through is not known, and nothing in it decides: there is but one way."""

    def ways(body: str) -> int:
        worlds: list[FakeWorld] = []

        def fresh() -> FakeWorld:
            worlds.append(FakeWorld())
            return worlds[-1]

        loop = f"import unknown\nfor one in unknown.all():\n    {body}\n    unknown.add(keep)\n"
        read_package(TextSources({"p/__init__.py": LOAD + loop + "load('a.so')\n", "p/a.so": ""}), (), fresh)
        return len(worlds)

    assert ways("def keep(): return one") == ways("def keep(): pass")
    assert ways("if one: raise one") > ways("def keep(): pass")


@pytest.mark.slow
def test_an_import_that_is_not_followed_to_its_end_does_not_stop() -> None:
    """Whether the library is loaded is not known then; only an import that raises stops before it."""
    files = {"p/__init__.py": LOAD + "while True:\n    x = 1\nload('a.so')\n", "p/a.so": ""}
    use = reading_of(files).uses["p/a.so"]
    assert (use.how, use.skipped) == (HowLoaded.UNKNOWN, None)


def test_what_depends_on_a_way_that_is_not_the_usual_one_is_followed_too() -> None:
    code = (
        "import os, torch\nfor folder in os.environ.get('LD_LIBRARY_PATH', '').split(':'):\n"
        "    path = os.path.join(folder, 'libmore.so')\n    if os.path.isfile(path):\n"
        "        torch.ops.load_library(path)\n        break\nelse:\n    raise ImportError('no libmore.so')\n"
    )
    (outcome,) = reading_of({"p/__init__.py": code}).imports
    assert outcome.raised is Answer.UNKNOWN
    assert {one.text for one in outcome.conditions} >= {"os.path.isfile(path)"}


@pytest.mark.parametrize(
    ("path", "raises"),
    [
        # What a package requires is there, though it is not read; what its user or developer would have to make is not.
        ("os.path.join(os.path.dirname(torch.__file__), 'lib', 'libc10.so')", False),
        ("os.path.join(sys.prefix, 'lib', 'libother.so')", False),
        ("os.path.expanduser('~/libother.so')", True),
    ],
)
def test_a_library_outside_of_the_package(path: str, *, raises: bool) -> None:
    reading = reading_of({"p/__init__.py": f"import os, sys, torch\ntorch.ops.load_library({path})\n"})
    (outcome,) = reading.imports
    assert isinstance(outcome.raised, Raised) is raises


def test_a_library_at_a_place_of_which_nothing_is_known() -> None:
    reading = reading_of({"p/__init__.py": "import torch\ntorch.ops.load_library('/opt/vendor/libother.so')\n"})
    (outcome,) = reading.imports
    assert any("/opt/vendor/libother.so" in gap for gap in outcome.gaps)
