"""Compare abiscan with recorded real loads: verdict, first error, undefined symbols, for every pair of file and torch.

For loads that succeed, also: kernels, schemas, custom classes (``tools/registrations.py``).

The records (``tests/oracle/pairs*.jsonl.gz``) say what really happened when a file of a released wheel was loaded into
a released torch; ``tools/record_loads.py`` makes more of them. This downloads the wheels with pip, unpacks the
libraries of the torch releases, predicts every pair, and prints each difference. It exits with 1 if there is one.

The loads on aarch64 were recorded as they are, without stand-ins for absent libraries and with nothing on the search
path. Where the loader stopped at such a library, or at a symbol of an older C++ library, torch was never asked: then
only that abiscan knows of the library is compared.

    python -m tools.ground_truth                      # everything: downloads 5 GB, unpacks 7 GB, takes minutes
    python -m tools.ground_truth --torch 2.13.0       # only the pairs with the torch installed here
    python -m tools.ground_truth --machine aarch64    # only the pairs on aarch64: downloads 300 MB
    python -m tools.ground_truth --embedded           # against the releases in the package: no torch is fetched
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import shutil
import signal
import sys
import tempfile
import zipfile
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from abiscan.binary.elf import Machine
from abiscan.binary.ownership import is_cxx_symbol, is_torch_library
from abiscan.cache.cache_folder import replace_whole
from abiscan.extension.examined import examine
from abiscan.inputs import interpreter, system
from abiscan.inputs.session import Session
from abiscan.results.check import Result
from abiscan.results.verdict import How, Verdict
from abiscan.rules import RULES
from abiscan.torches.torch import ReleaseNumber, TorchAt, TorchChoice
from abiscan.verdict.torch_set import CheckRequest, TorchSet
from tools import registrations
from tools.wheels import download, download_together

_ORACLE: Final = Path(__file__).resolve().parent.parent / "tests" / "oracle"
RECORDS: Final = (_ORACLE / "pairs.jsonl.gz", _ORACLE / "pairs_more.jsonl.gz", _ORACLE / "pairs_aarch64.jsonl.gz")
_NOT_FOUND: Final = re.compile(r"(\S+): cannot open shared object file: No such file or directory")
_UNDEFINED: Final = "undefined symbol: "
PYTHON: Final = "3.11"
"""The Python of the record; its wheels are fetched whichever Python runs this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One recorded load.

    ``sha256`` and ``undefined`` are None if they were not recorded. ``other_wheels`` are the libraries of other wheels
    that were on the search path, as ``package-version/path``. ``alone`` means that nothing was on it, and no library
    was replaced.
    """

    package: str
    version: str
    path: str
    machine: Machine
    sha256: str | None
    torch: str
    verdict: str
    signal: str | None
    object: str | None
    message: str | None
    undefined: frozenset[str] | None
    other_wheels: tuple[str, ...] = ()
    alone: bool = False

    @property
    def corpus(self) -> str:
        """``package-version``, with the machine if it is not the usual one."""
        name = f"{self.package}-{self.version}"
        return name if self.machine is Machine.X86_64 else f"{name}-{self.machine.value}"

    @property
    def absent_library(self) -> str | None:
        """The library at whose absence the loader stopped, though a package or a system may have it."""
        match = _NOT_FOUND.fullmatch(self.message or "") if self.alone else None
        return match[1] if match and not is_torch_library(match[1]) else None

    @property
    def is_of_older_system(self) -> bool:
        """Whether the loader stopped at a symbol that a newer C++ library has."""
        return self.alone and is_cxx_symbol((self.message or "").removeprefix(_UNDEFINED))


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
        machine=Machine(row.get("machine", Machine.X86_64)),
        sha256=row.get("sha256"),
        torch=row["torch"],
        verdict=row["verdict"],
        signal=_signal(row.get("signal")),
        object=row.get("object"),
        message=row.get("message"),
        undefined=_undefined(row["undefined"]) if "undefined" in row else None,
        other_wheels=tuple(row.get("other_wheels", ())),
        alone="stubbed" not in row,
    )


def _signal(named: str | int | None) -> str | None:
    return signal.Signals(named).name if isinstance(named, int) else named


def _undefined(by_library: dict[str, list[str]]) -> frozenset[str]:
    """The symbols, without those of torch's own libraries.

    ``ldd -r``, which listed them, starts without torch and so checks these too; a load after ``import torch`` does not
    touch them any more.
    """
    return frozenset(name for library, names in by_library.items() if not is_torch_library(library) for name in names)


def differences(
    pair: Pair, result: Result, *, embedded: bool = False, shipped: Collection[str] = frozenset()
) -> list[str]:
    """What the prediction has otherwise than the record; nothing if they agree.

    :param embedded: the prediction is for a release number, on no system in particular: what only the C++ library of
        the recorded system lacks is not expected of it
    :param shipped: the libraries in the wheel, which the package loads in an order of its own
    """
    error = result.predicted_error
    # That a load damages memory does not show in the load itself.
    verdict = Verdict.LOADS if result.verdict is Verdict.CORRUPTS else result.verdict
    predicted = (verdict.value, error.object if error else None, error.message if error else None)
    found = []
    if pair.sha256 is not None and result.sha256 != pair.sha256:
        found.append("the file is not the one that was recorded")
    if pair.absent_library is not None:
        if pair.absent_library not in {*result.external, *shipped}:
            found.append(f"{pair.absent_library} was absent, which is not said of it")
    elif pair.signal:
        # What a crash prints is undefined; that it is one is what can be predicted.
        if error is None or error.how is not How.ABORTS or error.exact:
            found.append(f"predicted {predicted}, recorded {pair.signal}")
    elif not pair.is_of_older_system and predicted != (pair.verdict, pair.object, pair.message):
        found.append(f"predicted {predicted}, recorded {(pair.verdict, pair.object, pair.message)}")
    if pair.undefined is not None:
        expected = {name for name in pair.undefined if not (embedded and is_cxx_symbol(name))}
        if missed := expected - set(result.undefined_symbols):
            found.append(f"{len(missed)} undefined symbols missed: {sorted(missed)[:5]}")
        if invented := set(result.undefined_symbols) - pair.undefined:
            found.append(f"{len(invented)} undefined symbols invented: {sorted(invented)[:5]}")
    return found


def targets_of(pairs: Iterable[Pair], folder: Path) -> dict[str, Path]:
    """What to check for the pairs, by ``package-version``; wheels that are not in ``folder`` are downloaded."""
    corpora = {pair.corpus: pair for pair in pairs}
    fetch(((pair.package, pair.version, pair.machine) for pair in corpora.values()), folder)
    return {corpus: _with_other_wheels(pair, folder) for corpus, pair in corpora.items()}


def _with_other_wheels(pair: Pair, folder: Path) -> Path:
    """The wheel of a pair; if libraries of other wheels were on its search path, a copy that has them as siblings."""
    alone = wheel(pair.package, pair.version, folder, pair.machine)
    if not pair.other_wheels:
        return alone
    libraries = [library.partition("/") for library in pair.other_wheels]
    together = folder / f"with-{'-'.join(dict.fromkeys(corpus for corpus, _, _ in libraries))}" / alone.name
    if not together.is_file():
        with replace_whole(together) as part:
            shutil.copyfile(alone, part)
            with zipfile.ZipFile(part, "a") as archive:
                for corpus, _, path in libraries:
                    package, _, version = corpus.rpartition("-")
                    with zipfile.ZipFile(wheel(package, version, folder)) as other:
                        archive.writestr(path, other.read(path))
    return together


def torch_of(version: str, folder: Path, machine: Machine = Machine.X86_64) -> Path:
    """The folder of a torch: the installed one if it is that version, else its libraries, unpacked into ``folder``."""
    installed = interpreter.installed_torch() if machine is system.own_machine() else None
    if installed and f"'{version}" in (installed / "version.py").read_text("utf-8"):
        return installed
    name = f"torch-{version}" if machine is Machine.X86_64 else f"torch-{version}-{machine.value}"
    package = folder / name / "torch"
    if not package.is_dir():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            part = Path(scratch, "part")
            with zipfile.ZipFile(wheel("torch", version, Path(scratch), machine)) as archive:
                for name in archive.namelist():
                    if name.startswith("torch/") and (".so" in Path(name).name or name == "torch/version.py"):
                        archive.extract(name, part)
            package.parent.mkdir(parents=True, exist_ok=True)
            (part / "torch").rename(package)
    return package


def wheel(package: str, version: str, folder: Path, machine: Machine = Machine.X86_64) -> Path:
    """The wheel of a package in ``folder``, downloaded if it is not there yet."""
    path = _known(package, version, folder, machine)
    path = path or download(f"{package}=={version}", folder, python=PYTHON, machine=machine)
    assert path is not None, f"no wheel of {package} {version} for Python {PYTHON} on {machine.value}"
    return path


def fetch(wanted: Iterable[tuple[str, str, Machine]], folder: Path) -> None:
    """Download the wheels of packages, versions and machines that are not in ``folder``, several at a time."""
    missing = [one for one in dict.fromkeys(wanted) if _known(one[0], one[1], folder, one[2]) is None]
    while missing:
        # pip takes one version of a package.
        chosen = {(package, machine): version for package, version, machine in missing}
        for machine in Machine:
            names = [f"{package}=={version}" for (package, one), version in chosen.items() if one is machine]
            if names:
                download_together(names, folder, machine)
        missing = [one for one in missing if chosen[one[0], one[2]] != one[1]]


def _known(package: str, version: str, folder: Path, machine: Machine) -> Path | None:
    """The wheel of a package in ``folder``."""
    paths = folder.glob(f"{package.replace('-', '_')}-{version}-*.whl")
    return next((path for path in paths if path.stem.endswith((machine.value, "-any"))), None)


def shipped_in(target: Path) -> frozenset[str]:
    """The names of the libraries in a wheel."""
    with zipfile.ZipFile(target) as archive:
        return frozenset(Path(name).name for name in archive.namelist() if ".so" in name)


def _torch_set(torches: Sequence[TorchChoice], session: Session) -> TorchSet:
    request = CheckRequest(targets=(), torches=tuple(torches), rules=tuple(RULES), each_file=True)
    return TorchSet(request, session)


def predict(pairs: Sequence[Pair], folder: Path, *, embedded: bool = False) -> Iterable[tuple[Pair, Result]]:
    """Each pair with what abiscan predicts for it.

    :param embedded: from the data in the package, not from the files of the torch
    """
    targets = targets_of(pairs, folder)
    session = Session(folder=folder / "cache")
    torches = sorted({(pair.torch, pair.machine.value) for pair in pairs})
    numbers = dict.fromkeys(torch for torch, _ in torches)
    every = _torch_set(tuple(map(ReleaseNumber, numbers)), session) if embedded else None
    for torch, machine in torches:
        torch_set = every or _torch_set((TorchAt(torch_of(torch, folder, Machine(machine))),), session)
        chosen = [pair for pair in pairs if (pair.torch, pair.machine.value) == (torch, machine)]
        corpora = dict.fromkeys(pair.corpus for pair in chosen)
        # Each load was recorded in a process of its own, so nothing stays in the process for the next.
        found = (result for corpus in corpora for result in torch_set.check(targets[corpus], torch))
        results = {(result.target, result.path): result for result in found}
        for pair in chosen:
            yield pair, results[str(targets[pair.corpus]), pair.path]


def disagreeing(pairs: Sequence[Pair], folder: Path, *, embedded: bool = False) -> dict[Pair, list[str]]:
    """The pairs that abiscan predicts otherwise than they were recorded, with all differences."""
    shipped = {corpus: shipped_in(target) for corpus, target in targets_of(pairs, folder).items()}
    compared = (
        (pair, differences(pair, result, embedded=embedded, shipped=shipped[pair.corpus]))
        for pair, result in predict(pairs, folder, embedded=embedded)
    )
    return {pair: found for pair, found in compared if found}


def compare_registrations(
    loads: Sequence[registrations.Load], folder: Path
) -> Iterable[tuple[registrations.Load, list[str]]]:
    """Each recorded load with what is recovered otherwise, wheel by wheel."""
    session = Session(folder=folder / "cache")
    for corpus in dict.fromkeys(load.corpus for load in loads):
        chosen = [load for load in loads if load.corpus == corpus]
        examined = examine(wheel(chosen[0].package, chosen[0].version, folder, chosen[0].machine), session)
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
        "--machine", action="append", choices=[each.value for each in Machine], help="only the pairs on it"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("corpus"), help="where downloads go and stay (default: corpus)"
    )
    parser.add_argument("--embedded", action="store_true", help="take the torch from the data in the package")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)

    def is_asked_for(load: Pair | registrations.Load) -> bool:
        return (not arguments.torch or load.torch in arguments.torch) and (
            not arguments.machine or load.machine.value in arguments.machine
        )

    pairs = list(filter(is_asked_for, recorded()))
    wrong = disagreeing(pairs, arguments.folder, embedded=arguments.embedded)
    for pair, found in wrong.items():
        print(f"{pair.corpus} {pair.path} on torch {pair.torch}:", *found, sep="\n  ")
    print(f"{len(pairs) - len(wrong)} of {len(pairs)} pairs agree")
    loads = list(filter(is_asked_for, registrations.recorded()))
    unlike = 0
    for load, found in compare_registrations(loads, arguments.folder):
        if found:
            unlike += 1
            print(f"{load.corpus} {load.path} on torch {load.torch}:", *found, sep="\n  ")
    print(f"{len(loads) - unlike} of {len(loads)} loads register what is recovered")
    return 1 if wrong or unlike else 0


if __name__ == "__main__":
    sys.exit(main())
