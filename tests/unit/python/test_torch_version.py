"""``torch.__version__`` compares as the class of the release does: torch/torch_version.py."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from abiscan.python.package.installed import Surroundings, installed_in
from abiscan.python.package.model import Raised
from tests.fakes import install
from tests.unit.python.packages import FakeWorld, reading_of

START: Final = """
import torch
from packaging.version import Version, parse
from distutils.version import LooseVersion
from torch.torch_version import TorchVersion
"""
UNEQUAL: Final = ("False", "True")
EQUAL: Final = ("True", "True")
"""``==`` and ``!=`` of what are not the same text: the class has its own ``__eq__`` and the ``__ne__`` of texts."""
LIVE: Final = {
    "None": (*UNEQUAL, "NoneType"),
    "3": (*UNEQUAL, "int"),
    "2.13": (*UNEQUAL, "float"),
    "Version('2.13.0+cpu')": (*UNEQUAL, "Version"),
    "(2, 13)": (*UNEQUAL, "False"),
    "'2.13'": (*UNEQUAL, "False"),
    "'2.13.0+cpu'": ("True", "False", "False"),
    "'2.13.0.0+cpu'": (*EQUAL, "False"),
    "'parrot'": (*UNEQUAL, "True"),
    "b'x'": (*UNEQUAL, "True"),
    "{2: 13}": (*UNEQUAL, "False"),
    "LooseVersion('2.14')": (*UNEQUAL, "True"),
}
"""What ``torch.__version__`` of torch 2.13.0+cpu says of ``==``, ``!=`` and ``<``; the name of a type it refuses."""


def raised_by(body: str, release: str) -> Raised | None:
    (outcome,) = reading_of({"p/__init__.py": START + body}, FakeWorld(torch_version=release)).imports
    assert outcome.raised is None or isinstance(outcome.raised, Raised)
    return outcome.raised


@pytest.mark.parametrize(("other", "answers"), LIVE.items())
@pytest.mark.parametrize("sign", ["==", "!=", "<"])
def test_a_version_compares_as_that_of_torch(other: str, answers: tuple[str, ...], sign: str) -> None:
    answer = answers[("==", "!=", "<").index(sign)]
    raised = raised_by(f"raise ValueError(torch.__version__ {sign} {other})", "2.13.0+cpu")
    assert raised is not None
    if answer in {"True", "False"}:
        assert (raised.exception, raised.message) == ("ValueError", answer)
    else:
        text = f"'<' not supported between instances of 'TorchVersion' and '{answer}'"
        assert (raised.exception, raised.message) == ("TypeError", text)


@pytest.mark.parametrize(
    ("release", "claim"),
    [
        ("2.13.0+cpu", "type(torch.__version__) is TorchVersion"),
        ("2.13.0+cpu", "isinstance(torch.__version__, TorchVersion)"),
        ("2.1.0", "type(torch.__version__) is TorchVersion"),
        ("2.13.0+cpu", "TorchVersion('2.12') < '2.13'"),
        ("2.13.0+cpu", "TorchVersion.__name__ == 'TorchVersion'"),
        ("1.13.1", "issubclass(type(torch.__version__), str)"),
    ],
)
def test_the_class_of_the_version(release: str, claim: str) -> None:
    assert raised_by(f"if not ({claim}):\n    raise ValueError", release) is None
    assert raised_by(f"if {claim}:\n    raise ValueError", release) is not None


@pytest.mark.parametrize(
    ("release", "condition", "kind"),
    [
        # A plain text, before there is torch/torch_version.py.
        ("1.9.1", "torch.__version__ == '1.9.1.0'", None),
        ("1.9.1", "torch.__version__ < '1.10'", None),
        ("1.9.1", "torch.__version__ < Version('1.10')", "str"),
        ("1.10.0", "torch.__version__ == '1.10.0.0'", "holds"),
        # packaging itself until 2.1, torch._vendor.packaging since 2.2.
        ("2.1.2", "torch.__version__ < parse('2.2')", "holds"),
        ("2.2.0", "torch.__version__ < parse('2.2')", "TorchVersion"),
        ("2.2.0", "parse(torch.__version__) < parse('2.3')", "holds"),
        ("2.2.0", "torch.__version__ < TorchVersion('2.3')", "holds"),
        ("2.2.0", "TorchVersion('2.2') < parse('2.3')", "TorchVersion"),
        ("2.1.2", "TorchVersion('2.2') < parse('2.3')", "holds"),
    ],
)
def test_releases_compare_differently(release: str, condition: str, kind: str | None) -> None:
    raised = raised_by(f"assert {condition}", release)
    if kind == "holds":
        assert raised is None
    elif kind is None:
        assert raised is not None
        assert raised.exception == "AssertionError"
    else:
        assert raised is not None
        assert raised.message == f"'<' not supported between instances of '{kind}' and 'Version'"


@pytest.mark.parametrize(("release", "more"), [("1.13.1", ""), ("2.0.0", ""), ("2.1.0a0", ", use_base_version=True")])
def test_lightning_compares_the_version_of_torch(release: str, more: str) -> None:
    ask = "import operator\nfrom lightning_utilities.core.imports import compare_version\nNEW = compare_version("
    raised = raised_by(f"{ask}'torch', operator.ge, '2.{int(bool(more))}'{more})\nraise ValueError(NEW)", release)
    assert raised is not None
    assert raised.message == str(release != "1.13.1")


@pytest.mark.parametrize(("version", "raises"), [("0.15.2", True), ("0.15.3", False)])
def test_lightning_takes_an_import_that_fails_for_an_absent_package(version: str, raises: bool, tmp_path: Path) -> None:
    """Since 0.15.3 it catches a RuntimeError, such as that of torchvision beside another build of torch."""
    utilities = {f"lightning_utilities/{path}": "" for path in ("__init__.py", "core/__init__.py")}
    utilities["lightning_utilities/core/imports.py"] = "def compare_version(): ...\n"
    install(tmp_path, "lightning-utilities", {}, version=version, requires="", files=utilities)
    install(
        tmp_path, "packaging", {}, files={"packaging/__init__.py": "", "packaging/version.py": "class Version: ...\n"}
    )
    ask = "import operator\nfrom lightning_utilities.core.imports import compare_version\n"
    files = {
        "p/__init__.py": f"{ask}NEW = compare_version('p.other', operator.ge, '1')\nraise ValueError(NEW)",
        "p/other.py": "raise RuntimeError('operator torchvision::nms does not exist')",
    }
    around = Surroundings(folders=(tmp_path,), installed=installed_in((tmp_path,)), is_final=True)
    raised = reading_of(files, around=around).imports[0].raised
    assert isinstance(raised, Raised)
    assert raised.exception == ("RuntimeError" if raises else "ValueError")


@pytest.mark.parametrize(
    ("condition", "release", "holds"),
    [
        # As these functions of diffusers 0.32.1, accelerate 1.12.0 and transformers 5.14.1 say.
        ("diffusers.utils.is_torch_version('>=', '2.4')", "2.8.0", True),
        ("diffusers.utils.import_utils.is_torch_version('<', '2.4.1')", "2.4.0", True),
        ("accelerate.utils.is_torch_version('==', '2.8')", "2.8.0", True),
        ("accelerate.utils.compare_versions('torch', '<=', '2.3')", "2.4.0", False),
        ("transformers.utils.is_torch_greater_or_equal('2.4')", "2.8.0", True),
        ("transformers.utils.import_utils.is_torch_greater_or_equal('2.9', accept_dev=True)", "2.8.0", False),
        ("transformers.utils.is_torch_less_or_equal('2.9')", "2.8.0", True),
        ("transformers.utils.is_torch_greater_or_equal('2.9')", "2.4.0", False),
        # transformers 5.15.0 says no to this torch, 5.14.1 does not.
        ("transformers.utils.is_torch_greater_or_equal('2.0')", "2.4.0", None),
    ],
)
def test_what_others_say_of_the_version_of_torch(condition: str, release: str, *, holds: bool | None) -> None:
    called, _, arguments = condition.partition("(")
    module, _, function = called.rpartition(".")
    code = f"from {module} import logging, {function}\nif {function}({arguments}: raise ValueError"
    raised = reading_of({"p/__init__.py": code}, FakeWorld(torch_version=release)).imports[0].raised
    assert (raised is None) is (holds is False)
    assert isinstance(raised, Raised) is (holds is True)
