"""A static initialiser of the extension ends the process.

**What it finds.** An exception that nothing catches, a call of `abort`, `exit` or `std::terminate`, a trap, or access
to memory that is not there, in code that runs while the extension, or a library that it brings along, is loaded:
initialisers, and the functions that choose others as `ld.so` relocates (`ifunc`).

**Why it fails.** Static initialisers run inside `dlopen`, which catches no exception: the process ends.

**Fix.** Correct the initialiser, or report it to the extension's maintainers: it does so on every torch.

**Limits.** Only what the initialiser does on every machine: after it has asked for a file, a variable or a device, the
end of the process is a gap, since it may not come to it elsewhere. So is an initialiser that runs for very long. Only
code that depends on no other library is predicted to get a signal, and no code of NVIDIA's, AMD's or the system's
libraries is run.

**Example.** `throws std::runtime_error, which nothing catches … no such mode`.
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.binary.mangling import demangle
from abiscan.dispatch.messages import CODE_OF_EXTENSION
from abiscan.findings import Evidence, Finding, rule
from abiscan.linkage.linkage import Linkage
from abiscan.linkage.unknown_torch_data import TorchData
from abiscan.registrations import ProcessEnd
from abiscan.rules.registration import list_refusals, refusal_finding


def find_problems(linkage: Linkage) -> Iterator[Finding]:
    """Yield one finding: the first end is the last."""
    # It stands among the reactions because it competes with them: whatever comes first ends the load.
    for reaction in list_refusals(linkage.load, (CODE_OF_EXTENSION,)):
        event = reaction.outcome.event
        assert isinstance(event, ProcessEnd)
        place = demangle(event.symbol) if event.symbol else "a static initialiser"
        yield refusal_finding(
            RULE.name,
            linkage,
            reaction,
            f"a static initialiser of {reaction.object} {event.cause}",
            [Evidence(subject=event.symbol or event.cause, readable=place, object=reaction.object)],
            "correct the initialiser, or report it to the extension's maintainers: it does so on every torch",
        )


RULE = rule("initialiser-ends-process", __doc__, find_problems, [TorchData.OPERATORS])
