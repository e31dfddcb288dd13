"""Compare abiscan with recorded real imports: verdict, exception and text, for every pair of package and torch.

The record (``tests/oracle/packages.jsonl.gz``) says what really happened when a package was imported in a fresh process
next to a released torch. Its builds for CUDA ran on a machine without a GPU, with stand-ins for the CUDA libraries, so
abiscan is asked about the release of that number, for which such libraries are assumed to be there. This downloads the
wheels with pip, predicts every import, and prints each difference. It exits with 1 if there is one.

    python -m tools.package_truth                          # everything: downloads 150 MB, takes a minute
    python -m tools.package_truth --package torchvision    # one package
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from abiscan.inputs.session import Session
from abiscan.pipelines.check import check_targets
from abiscan.results.package import ImportFailure, PackageResult, PackageVerdict
from abiscan.results.verdict import How
from abiscan.rules import RULES
from abiscan.torches.torch import ReleaseNumber
from abiscan.verdict.torch_set import CheckRequest
from tools.ground_truth import wheel

RECORD: Final = Path(__file__).resolve().parent.parent / "tests" / "oracle" / "packages.jsonl.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Import:
    """One recorded import.

    ``outcome`` is ``ok``, ``raises`` or ``signal``; ``exception`` and ``text`` are those that users see, ``cause`` is
    the text of the exception behind it. ``others`` are the packages installed with it, as ``name-version``.
    """

    package: str
    version: str
    module: str
    torch: str
    outcome: str
    exception: str | None
    text: str | None
    cause: str | None
    others: tuple[str, ...]

    def __str__(self) -> str:
        return f"import {self.module} of {self.package} {self.version} on torch {self.torch}"


def recorded() -> list[Import]:
    """The imports of the record, in their order."""
    with gzip.open(RECORD, "rt", encoding="utf-8") as stream:
        return [_import(json.loads(line)) for line in stream]


def _import(row: dict[str, Any]) -> Import:
    chain = row.get("chain") or []
    return Import(
        package=row["package"],
        version=row["version"],
        module=row["modules"][0],
        torch=row["torch"],
        outcome=row["outcome"],
        exception=row.get("exception"),
        text=row.get("text"),
        cause=chain[-1][1] if len(chain) > 1 else None,
        others=tuple(row["other_packages"]),
    )


def differences(recorded: Import, package: PackageResult | None) -> Iterator[str]:
    """What the prediction has otherwise than the record; nothing if they agree."""
    if package is None:
        if recorded.outcome != "ok":
            yield f"predicted nothing, recorded {recorded.exception or recorded.outcome}"
        return
    verdict, error = of_module(recorded.module, package)
    if recorded.outcome == "ok":
        # That the import damages memory does not show in the import itself.
        if verdict in (PackageVerdict.IMPORT_FAILS, PackageVerdict.UNKNOWN):
            yield f"predicted {verdict.value} ({error or package.summary}), recorded that it works"
    elif error is None:
        yield f"predicted {verdict.value} ({package.summary}), recorded {recorded.exception or recorded.outcome}"
    elif recorded.outcome == "signal":
        # What a crash prints is undefined; that it is one is what can be predicted.
        if error.how is not How.ABORTS:
            yield f"predicted {error}, recorded a crash"
    else:
        if (error.exception, error.message) != (recorded.exception, recorded.text):
            yield f"predicted {error.exception}: {error.message}, recorded {recorded.exception}: {recorded.text}"
        if recorded.cause is not None and error.cause != recorded.cause:
            yield f"predicted the cause {error.cause}, recorded {recorded.cause}"


def of_module(module: str, package: PackageResult) -> tuple[PackageVerdict, ImportFailure | None]:
    """The verdict on the import of one module of a package."""
    for other in package.modules:
        if other.name == module:
            return other.verdict, other.error
    return package.verdict, package.error


def predict(imports: Iterable[Import], folder: Path) -> Iterator[tuple[Import, PackageResult | None]]:
    """Each import with what abiscan predicts for it; None for a package without libraries.

    Wheels that are not in ``folder`` are downloaded.
    """
    session = Session(folder=folder / "cache")
    found: dict[tuple[str, ...], PackageResult | None] = {}
    for one in imports:
        key = one.package, one.version, one.torch
        if key not in found:
            others = (other.rpartition("-") for other in one.others)
            neighbours = [wheel(name, version, folder) for name, _, version in others]
            target = wheel(one.package, one.version, folder)
            request = CheckRequest(
                targets=(target,), torches=(ReleaseNumber(one.torch),), rules=tuple(RULES), neighbours=tuple(neighbours)
            )
            report = check_targets(request, session)
            found[key] = next(iter(report.packages), None)
        yield one, found[key]


def main() -> int:
    """Print the differences and their number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", action="append", metavar="NAME", help="only this package (repeatable)")
    parser.add_argument(
        "--folder", type=Path, default=Path("corpus"), help="where downloads go and stay (default: corpus)"
    )
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    imports = [one for one in recorded() if not arguments.package or one.package in arguments.package]
    wrong = 0
    for one, package in predict(imports, arguments.folder):
        if found := list(differences(one, package)):
            wrong += 1
            print(f"{one}:", *found, sep="\n  ")
    print(f"{len(imports) - wrong} of {len(imports)} imports agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
