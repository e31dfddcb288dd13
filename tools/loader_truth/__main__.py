"""Load crafted libraries with the real ``dlopen`` after ``import torch``, and compare with the prediction.

python -m tools.loader_truth [--seed 1] [--count 400] [--record PATH]

Needs gcc, Linux on x86-64, and a torch in this Python. Each case is opened with RTLD_NOW in a process of its own
that has imported torch. It prints every case that differs, and how many agree: verdict and words, after the path of the
file. ``--record`` keeps a sample of the cases with the truth, for the test that holds them against the prediction.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import abiscan
from abiscan.errors import AbiscanError
from tools.loader_truth.cases import FOLDERS, Outcome, outcome_of, pack
from tools.loader_truth.crafting import craft

_TRUTH = """
import ctypes, json, os, signal, sys, tempfile
import torch
for path in json.load(sys.stdin):
    with tempfile.TemporaryFile() as errors:
        receiving, sending = os.pipe()
        child = os.fork()
        if not child:
            signal.alarm(10)
            os.dup2(errors.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            try:
                ctypes.CDLL(path, mode=os.RTLD_NOW)
                told = {"loads": True}
            except OSError as error:
                told = {"raises": str(error)}
            os.write(sending, json.dumps(told).encode())
            os._exit(0)
        os.close(sending)
        with os.fdopen(receiving, "rb") as stream:
            told = json.loads(stream.read() or b"{}")
        status = os.waitpid(child, 0)[1]
        errors.seek(0)
        text = errors.read().decode("utf-8", "replace")
        print(json.dumps({**told, "signal": status & 127, "status": status >> 8, "text": text}), flush=True)
"""


def ask_loader(paths: list[str]) -> list[Outcome]:
    """Return what ``dlopen`` does with each file."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _TRUTH],
        input=json.dumps(paths),
        capture_output=True,
        text=True,
        check=True,
    )
    return [_read_truth(json.loads(line)) for line in done.stdout.splitlines()]


def _read_truth(told: dict[str, object]) -> Outcome:
    if "loads" in told:
        return Outcome(verdict="loads")
    if "raises" in told:
        return Outcome(verdict="raises", message=FOLDERS.sub("", str(told["raises"])))
    text = str(told["text"]).strip()
    if text.startswith("Inconsistency"):
        return Outcome(verdict="aborts", message=re.sub(r": [0-9]+: ", ": ?: ", text.splitlines()[0]))
    return Outcome(verdict="aborts", message=f"signal {told['signal']}" if told["signal"] else "")


def predict(path: str, torch: str) -> Outcome:
    """Return what abiscan says."""
    try:
        (result,) = abiscan.check(path, torch).results
    except AbiscanError as unreadable:
        return Outcome(verdict="unreadable", message=str(unreadable))
    error = result.predicted_error
    if error is not None:
        return outcome_of(
            aborts=error.how.value == "aborts", name=error.object, message=error.message, signal=error.signal
        )
    if result.verdict.value == "loads" and not result.external:
        return Outcome(verdict="loads")
    return Outcome(verdict="unknown", message="; ".join(gap.reason for gap in result.gaps))


def main() -> int:
    """Print each difference, and how many agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loader-") as folder:
        cases = craft(options.seed, options.count, Path(folder))
        paths = [str(Path(folder, case.name, "x.so")) for case in cases]
        truths = ask_loader(paths)
        spec = importlib.util.find_spec("torch")
        assert spec is not None
        assert spec.origin is not None
        package = Path(spec.origin).parent
        counts: Counter[str] = Counter()
        agreeing = []
        for case, path, truth in zip(cases, paths, truths, strict=True):
            predicted = predict(path, str(package))
            state = truth.compare(predicted)
            counts[state] += 1
            if state == "agree":
                agreeing.append((case, truth))
            else:
                print(f"{case.name}: {state}\n  {'; '.join(case.steps)}\n  {truth}\n  {predicted}")
        if options.record:
            pack(options.record, Path(folder), agreeing)
    print(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    told = counts["agree"] + counts["unreadable"] + counts["assumed elsewhere"]
    return 0 if told >= 0.98 * len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
