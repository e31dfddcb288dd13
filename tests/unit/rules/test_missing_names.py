"""The words of Python and torch for a name that is missing: those that ``tests/oracle/test_torch_names.py`` hears from
a torch that runs, for every way in which code uses a name.
"""

from __future__ import annotations

import pytest
from msgspec import structs

from abiscan.findings import Confidence, Effect
from abiscan.python.later.mentions import LaterUse
from abiscan.rules import rejected_torch_call
from abiscan.rules.missing_torch_name import count_places, list_doubtful, list_findings
from abiscan.torches import name_history
from abiscan.torches.name_history import NameHistory

RELEASES = ("2.4.1", "2.5.0", "2.13.0")


def history(name: str, *there: str) -> NameHistory:
    lacking = tuple(release for release in RELEASES if release not in there)
    return NameHistory(name=name, releases=RELEASES, there=there, possible=(), lacking=lacking, deprecated=())


def use(name: str, how: str, function: str = "f", line: int = 1) -> LaterUse:
    return LaterUse(name=name, file="pack/a.py", line=line, function=function, how=how)


@pytest.mark.parametrize(
    ("name", "how", "says"),
    [
        ("torch.nope", "attribute", "module 'torch' has no attribute 'nope'"),
        ("torch.Tensor.nope", "attribute", "type object 'Tensor' has no attribute 'nope'"),
        ("torch.nn.Linear.nope", "object", "object has no attribute 'nope'"),
        ("torch.nope", "from", "cannot import name 'nope' from 'torch'"),
        ("torch.nope.more", "import", "No module named 'torch.nope.more'"),
        ("torch._inductor.config.nope", "option", "torch._inductor.config.nope does not exist"),
        ("torch._inductor.config.nope", "compile", "Unexpected optimization option nope,"),
        ("torch.ops.aten.nope", "attribute", "'_OpNamespace' 'aten' object has no attribute 'nope'"),
        ("torch.ops.aten.add.Nope", "attribute", "The underlying op of 'aten.add' has no overload name 'Nope'"),
    ],
)
def test_what_python_says(name: str, how: str, says: str) -> None:
    (finding,) = list_findings([use(name, how)], history(name), "pack", "torch 2.13.0", "2.13.0")
    assert finding.says == says


@pytest.mark.parametrize(
    ("name", "there", "message", "fix"),
    [
        (
            "torch.nope",
            RELEASES[:1],
            "torch.nope is missing in torch 2.13.0: pack uses it in 2 functions",
            "use torch 2.4.1, which has it, or a version of pack for torch 2.13.0",
        ),
        (
            "torchvision.nope",
            RELEASES[1:],
            "torchvision.nope is missing in torchvision 2.4.1: pack uses it in 2 functions",
            (
                "use torchvision 2.5.0-2.13.0, which has it (and the torch that it requires), or a version of pack for "
                "torchvision 2.4.1"
            ),
        ),
        (
            "torch.nope",
            (),
            "torch.nope is missing in torch 2.13.0: pack uses it in 2 functions",
            "use a version of pack for torch 2.13.0",
        ),
        (
            "torch.ops.pack.nope",
            (),
            "torch.ops.pack.nope is missing in torch 2.13.0: pack uses it in 2 functions",
            (
                "use a version of the package whose Python code matches its libraries: they define the operator "
                "differently"
            ),
        ),
    ],
)
def test_what_is_missing_and_who_has_it(name: str, there: tuple[str, ...], message: str, fix: str) -> None:
    uses = [use(name, "attribute"), use(name, "attribute", "g", 7), use(name, "attribute", "g", 8)]
    (finding,) = list_findings(uses, history(name, *there), "pack", "torch 2.13.0", "2.13.0")
    assert (finding.message, finding.fix) == (message, fix)
    assert [(proof.subject, proof.object) for proof in finding.evidence] == [
        *(("pack/a.py:1", "f"), ("pack/a.py:7", "g"), ("pack/a.py:8", "g"))
    ]


def test_code_outside_of_functions_fails_as_a_module() -> None:
    assert count_places([use("torch.nope", "from", ""), use("torch.nope", "attribute", "", 5)]) == "1 module"


def test_releases_that_may_have_it_are_the_fix_where_none_certainly_does() -> None:
    # The functions of torch._C are not listed by the sources of its wheels.
    known = name_history.history("torch._foreach_copy_")
    assert (known.there, known.lacking[-1]) == ((), "2.0.1")
    uses = [use("torch._foreach_copy_", "attribute")]
    (finding,) = list_findings(uses, known, "pack", "torch 2.0.1", "2.0.1")
    assert finding.fix.startswith("use torch 2.1.0-")
    assert finding.fix.endswith(", which may have it, or a version of pack for torch 2.0.1")


@pytest.mark.parametrize(("how", "confidence"), [("call", Confidence.CERTAIN), ("method", Confidence.POSSIBLE)])
def test_that_an_object_is_a_tensor_is_not_certain(how: str, confidence: Confidence) -> None:
    uses = [use("torch.Tensor.any", how)]
    (finding,) = rejected_torch_call.list_findings(uses, history("torch.Tensor.any"), "pack", "torch 2.1.0")
    assert finding.confidence is confidence


@pytest.mark.parametrize(("function", "object_"), [("f", "f"), ("", None)])
def test_a_place_has_the_function_that_it_is_in(function: str, object_: str | None) -> None:
    uses = [use("torch.nope", "attribute", function)]
    missing = list_findings(uses, history("torch.nope"), "pack", "torch 2.13.0", "2.13.0")
    rejected = rejected_torch_call.list_findings(uses, history("torch.nope"), "pack", "torch 2.13.0")
    for finding in (*missing, *rejected):
        assert [(place.subject, place.object) for place in finding.evidence] == [("pack/a.py:1", object_)]


def test_doubtful_uses_are_one_note_for_all_names() -> None:
    uses = [use("torch.irfft", "attribute"), use("torch.nope", "from", function="g", line=7)]
    (finding,) = list_doubtful(uses, "pack", "torch 2.13.0", "2.13.0")

    assert (finding.effect, finding.confidence) == (Effect.NOTE, Confidence.POSSIBLE)
    assert finding.message == (
        "torch.irfft, torch.nope are missing in torch 2.13.0: pack uses them in 2 functions,"
        " unless a condition keeps it from that"
    )
    assert [evidence.readable for evidence in finding.evidence] == [
        "pack/a.py:1: module 'torch' has no attribute 'irfft'",
        "pack/a.py:7: cannot import name 'nope' from 'torch'",
    ]


def test_a_doubtful_use_of_another_package() -> None:
    (finding,) = list_doubtful([use("torchvision.io.x", "attribute")], "pack", "torch 2.13.0", "2.13.0")

    assert finding.message.startswith(
        "torchvision.io.x is missing in the torchvision that goes with torch 2.13.0: pack"
    )


def test_doubtful_calls_are_a_note() -> None:
    call = structs.replace(use("torch.meshgrid", "call"), error="meshgrid() got …", doubtful=True)
    (finding,) = rejected_torch_call.list_findings([call], history("torch.meshgrid", "2.13.0"), "pack", "torch 2.4.1")

    assert (finding.effect, finding.says) == (Effect.NOTE, "meshgrid() got …")
    assert finding.message.endswith("pack makes it in 1 function, unless a condition keeps it from that")
