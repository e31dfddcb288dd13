"""Compare abiscan with recorded real loads: verdict, first error, undefined symbols, for every pair of file and torch.

For loads that succeed, also: kernels, schemas, custom classes (``tools/registrations.py``).

The records (``tests/oracle/pairs*.jsonl.gz``) say what really happened when a file of a released wheel was loaded into
a released torch; ``tools/record_loads.py`` makes more of them. This downloads the wheels with pip, unpacks the
libraries of the torch releases, predicts every pair, and prints each difference. It exits with 1 if there is one.

    python -m tools.ground_truth                      # everything: downloads 5 GB, unpacks 7 GB, takes minutes
    python -m tools.ground_truth --torch 2.13.0       # only the pairs with the torch installed here
    python -m tools.ground_truth --embedded           # against the releases in the package: no torch is fetched
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from abiscan.binary.ownership import is_cxx_symbol, is_torch_library
from abiscan.extension.examined import examine
from abiscan.inputs import interpreter
from abiscan.inputs.session import Session
from abiscan.inputs.store import Store, written_whole
from abiscan.pipelines.bench import Bench
from abiscan.results.check import Result
from abiscan.results.verdict import How, Verdict
from abiscan.rules import RULES
from abiscan.torches.torch import ReleaseNumber, TorchAt
from tools import registrations
from tools.wheels import download

_ORACLE: Final = Path(__file__).resolve().parent.parent / "tests" / "oracle"
RECORDS: Final = (_ORACLE / "pairs.jsonl.gz", _ORACLE / "pairs_more.jsonl.gz")
PYTHON: Final = "3.11"
"""The Python of the record; its wheels are fetched whichever Python runs this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One recorded load.

    ``other_wheels`` are the libraries of other wheels that were on the search path, as ``package-version/path``.
    """

    package: str
    version: str
    path: str
    sha256: str
    torch: str
    verdict: str
    signal: str | None
    object: str | None
    message: str | None
    undefined: frozenset[str]
    other_wheels: tuple[str, ...] = ()

    @property
    def corpus(self) -> str:
        """``package-version``."""
        return f"{self.package}-{self.version}"


def recorded(records: Iterable[Path] = RECORDS) -> list[Pair]:
    """The pairs of the records, in their order."""
    pairs = []
    for record in records:
        with gzip.open(record, "rt", encoding="utf-8") as stream:
            pairs += [_pair(json.loads(line)) for line in stream]
    return pairs


def _pair(row: dict[str, Any]) -> Pair:
    return Pair(
        package=row["package"],
        version=row["version"],
        path=row["path"],
        sha256=row["sha256"],
        torch=row["torch"],
        verdict=row["verdict"],
        signal=row.get("signal"),
        object=row.get("object"),
        message=row.get("message"),
        # ``ldd -r``, which listed them, starts without torch and so judges torch's own libraries too; a load after
        # ``import torch`` does not touch those any more.
        undefined=frozenset(
            name for library, names in row["undefined"].items() if not is_torch_library(library) for name in names
        ),
        other_wheels=tuple(row.get("other_wheels", ())),
    )


def differences(pair: Pair, result: Result, *, embedded: bool = False) -> list[str]:
    """What the prediction has otherwise than the record; nothing if they agree.

    :param embedded: the prediction is for a release number, on no system in particular: what only the C++ library of
        the recorded system lacks is not expected of it
    """
    error = result.predicted_error
    # That a load damages memory does not show in the load itself.
    verdict = Verdict.LOADS if result.verdict is Verdict.CORRUPTS else result.verdict
    predicted = (verdict.value, error.object if error else None, error.message if error else None)
    found = []
    if result.sha256 != pair.sha256:
        found.append("the file is not the one that was recorded")
    if pair.signal:
        # What a crash prints is undefined; that it is one is what can be predicted.
        if error is None or error.how is not How.ABORTS or error.exact:
            found.append(f"predicted {predicted}, recorded {pair.signal}")
    elif predicted != (pair.verdict, pair.object, pair.message):
        found.append(f"predicted {predicted}, recorded {(pair.verdict, pair.object, pair.message)}")
    expected = {name for name in pair.undefined if not (embedded and is_cxx_symbol(name))}
    if missed := expected - set(result.undefined_symbols):
        found.append(f"{len(missed)} undefined symbols missed: {sorted(missed)[:5]}")
    if invented := set(result.undefined_symbols) - pair.undefined:
        found.append(f"{len(invented)} undefined symbols invented: {sorted(invented)[:5]}")
    return found


def targets_of(pairs: Iterable[Pair], folder: Path) -> dict[str, Path]:
    """What to check for the pairs, by ``package-version``; wheels that are not in ``folder`` are downloaded."""
    corpora = {pair.corpus: pair for pair in pairs}
    return {corpus: _with_other_wheels(pair, folder) for corpus, pair in corpora.items()}


def _with_other_wheels(pair: Pair, folder: Path) -> Path:
    """The wheel of a pair; if libraries of other wheels were on its search path, a copy that has them as siblings."""
    alone = wheel(pair.package, pair.version, folder)
    if not pair.other_wheels:
        return alone
    libraries = [library.partition("/") for library in pair.other_wheels]
    together = folder / f"with-{'-'.join(dict.fromkeys(corpus for corpus, _, _ in libraries))}" / alone.name
    if not together.is_file():
        with written_whole(together) as part:
            shutil.copyfile(alone, part)
            with zipfile.ZipFile(part, "a") as archive:
                for corpus, _, path in libraries:
                    package, _, version = corpus.rpartition("-")
                    with zipfile.ZipFile(wheel(package, version, folder)) as other:
                        archive.writestr(path, other.read(path))
    return together


def torch_of(version: str, folder: Path) -> Path:
    """The folder of a torch: the installed one if it is that version, else its libraries, unpacked into ``folder``."""
    installed = interpreter.installed_torch()
    if installed and f"'{version}" in (installed / "version.py").read_text("utf-8"):
        return installed
    package = folder / f"torch-{version}" / "torch"
    if not package.is_dir():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            part = Path(scratch, "part")
            with zipfile.ZipFile(wheel("torch", version, Path(scratch))) as archive:
                for name in archive.namelist():
                    if name.startswith("torch/") and (".so" in Path(name).name or name == "torch/version.py"):
                        archive.extract(name, part)
            package.parent.mkdir(parents=True, exist_ok=True)
            (part / "torch").rename(package)
    return package


def wheel(package: str, version: str, folder: Path) -> Path:
    """The wheel of a package in ``folder``, downloaded if it is not there yet."""
    known = next(folder.glob(f"{package.replace('-', '_')}-{version}-*.whl"), None)
    path = known or download(f"{package}=={version}", folder, python=PYTHON)
    assert path is not None, f"no wheel of {package} {version} for Python {PYTHON}"
    return path


def predict(pairs: Sequence[Pair], folder: Path, *, embedded: bool = False) -> Iterable[tuple[Pair, Result]]:
    """Each pair with what abiscan predicts for it.

    :param embedded: from the data in the package, not from the files of the torch
    """
    targets = targets_of(pairs, folder)
    session = Session(store=Store(folder / "cache"))
    torches = sorted({pair.torch for pair in pairs})
    every = Bench(list(map(ReleaseNumber, torches)), session) if embedded else None
    for torch in torches:
        bench = every or Bench([TorchAt(torch_of(torch, folder))], session)
        chosen = [pair for pair in pairs if pair.torch == torch]
        corpora = dict.fromkeys(pair.corpus for pair in chosen)
        # Each load was recorded in a process of its own, so nothing stays in the process for the next.
        found = (result for corpus in corpora for result in bench.judge(targets[corpus], torch, RULES))
        results = {(result.target, result.path): result for result in found}
        for pair in chosen:
            yield pair, results[str(targets[pair.corpus]), pair.path]


def compare_registrations(
    loads: Sequence[registrations.Load], folder: Path
) -> Iterable[tuple[registrations.Load, list[str]]]:
    """Each recorded load with what is recovered otherwise, wheel by wheel."""
    session = Session(store=Store(folder / "cache"))
    for corpus in dict.fromkeys(load.corpus for load in loads):
        chosen = [load for load in loads if load.corpus == corpus]
        examined = examine(wheel(chosen[0].package, chosen[0].version, folder), session)
        inventories = [extension.inventory for extension in examined.extensions]
        for load in chosen:
            yield load, registrations.differences(load, inventories)


def main() -> int:
    """Print the differences and their number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--torch", action="append", metavar="VERSION", help="only the pairs with this torch (repeatable)"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("corpus"), help="where downloads go and stay (default: corpus)"
    )
    parser.add_argument("--embedded", action="store_true", help="take the torch from the data in the package")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    pairs = [pair for pair in recorded() if not arguments.torch or pair.torch in arguments.torch]
    wrong = 0
    for pair, result in predict(pairs, arguments.folder, embedded=arguments.embedded):
        if found := differences(pair, result, embedded=arguments.embedded):
            wrong += 1
            print(f"{pair.corpus} {pair.path} on torch {pair.torch}:", *found, sep="\n  ")
    print(f"{len(pairs) - wrong} of {len(pairs)} pairs agree")
    loads = [load for load in registrations.recorded() if not arguments.torch or load.torch in arguments.torch]
    unlike = 0
    for load, found in compare_registrations(loads, arguments.folder):
        if found:
            unlike += 1
            print(f"{load.corpus} {load.path} on torch {load.torch}:", *found, sep="\n  ")
    print(f"{len(loads) - unlike} of {len(loads)} loads register what is recovered")
    return 1 if wrong or unlike else 0


if __name__ == "__main__":
    sys.exit(main())
