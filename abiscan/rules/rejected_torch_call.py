"""Python code of a package calls a function or class of torch with arguments that it does not take.

**What it finds.** Calls in functions of a package, and in modules that importing the package does not import, that
this torch certainly rejects and some other release accepts: a keyword that came later or went
(`ReduceLROnPlateau(optimizer, verbose=True)`), too many arguments, or too few. If the import of the package itself
meets one, the verdict is `import-fails`, and this rule is silent.

A call that leaves out what another default decides now counts, too, where it is sure to fail: `torch.load` since 2.6
without `weights_only`, of a file whose content the code then uses as a module (`torch.load(path).eval()`);
`torch.stft` since 2.0 without `return_complex`, which only complex input does not need. So do functions that torch
keeps only to say that they are gone: `torch.symeig`, and `x.symeig()`. And `torch.onnx.export` since 2.9 without
`dynamo`, which then imports onnxscript, if the package neither requires nor mentions it: torch does not bring it.
Whether it is installed is not known, so this is only possible.

So does an object of a class of the same source that torch calls with what it does not take: a layer for
`torch.nn.TransformerEncoder` whose `forward` has no `is_causal`, since 2.0, and one for `TransformerDecoder` without
`tgt_is_causal`, since 2.1.

So does an optimizer of the package whose constructor leaves out that of `torch.optim.Optimizer`, since 2.0: after
`zero_grad()`, `step()` asks it for hooks that it never got. It counts if the class has a `step`, but no `zero_grad` of
its own, and takes over nothing from another object (`__dict__`, `__getattr__`).

Of compiled functions (`torch.div`, `torch.nn.functional.gelu`), the schemas say which keywords a release takes; of
methods, where `dim` takes several dimensions: `x.any(dim=(0, 1))` since 2.2. Since `x` may be no tensor, a finding on a
method is only possible; it is left out where `x` comes from another package, or the package has a method of that name.

Calls of operators (`torch.ops.aten.add.Tensor(x)`) count by their schemas: those of this release, and those that the
package's own libraries register, where all of them could be read.

**Why it fails.** Python compares a call with the parameters as it is made. The package can be imported, and the first
call raises `TypeError`; of an operator, `RuntimeError`.

**Fix.** Use a release that takes the call, or a version of the package for this torch. In your own package, leave the
argument out, or pass it only where `inspect.signature` has it.

A call in a function that is called under some condition, or that other code of the package asks a version for, is a
note.

**Limits.** What counts is what counts for [missing-torch-name](missing-torch-name.md): a call does not if the version
of torch may decide whether it is made, if a `TypeError` is caught around it, if the package sets the function, or if it
asks functions for their parameters. Of functions and classes in Python, only those count that no decorator changes; of
a class that derives from one of torch's, `super().__init__`, and calls where it has no `__init__` of its own. Of what
is compiled, the number of arguments and their types are not compared; of other methods of objects, nothing is.

**Example.** `torch.optim.lr_scheduler.ReduceLROnPlateau rejects a call in torch 2.13.0: pack makes it in 1 function`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from abiscan.findings import Confidence, Effect, Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.rules.missing_torch_name import UNLESS_KEPT, advise, count_places

if TYPE_CHECKING:
    from abiscan.python.later.mentions import LaterUse
    from abiscan.torches.name_history import NameHistory


def find_problems(linkage: Linkage) -> Iterator[Finding]:  # noqa: ARG001 - it is about Python code
    """Find nothing in an extension: see ``list_findings``."""
    yield from ()


def list_findings(
    calls: Sequence[LaterUse],
    history: NameHistory,
    package: str,
    torch: str,
    advice: str | None = None,
    needs: str | None = None,
) -> Iterator[Finding]:
    """Yield the finding about calls that fail for one reason.

    :param history: the releases that take the calls
    :param torch: the torch that does not, in words
    :param advice: what to do instead of using another version of the package
    :param needs: the package that they need to be installed
    """
    since, until = history.span
    other, makes = advice or f"a version of {package} for {torch}", "makes it"
    does = f"imports {needs}, which torch does not require, for a call" if needs else "rejects a call"
    if calls[0].how == "uninitialised":
        does, makes = "needs its __init__ to have run", "leaves it out"
    # Of which class the object of a method is, nothing says, nor what else is installed.
    is_doubtful = all(call.doubtful for call in calls)
    is_possible = needs or is_doubtful or all(call.how == "method" for call in calls)
    where = f"{count_places(calls)}{UNLESS_KEPT if is_doubtful else ''}"
    yield Finding(
        rule=RULE.name,
        effect=Effect.NOTE if is_doubtful else Effect.CALL_FAILS,
        message=f"{history.name} {does} in {torch}: {package} {makes} in {where}",
        confidence=Confidence.POSSIBLE if is_possible else Confidence.CERTAIN,
        evidence=tuple(
            Evidence(subject=f"{call.file}:{call.line}", object=call.function or None, since=since, until=until)
            for call in calls
        ),
        fix=advise(history, ("takes", "take"), other),
        says=calls[0].error,
    )


RULE = rule("rejected-torch-call", __doc__, find_problems)
