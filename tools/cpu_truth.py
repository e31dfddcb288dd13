"""Compare recorded loads on older processors with what is predicted.

python -m tools.cpu_truth RECORD FOLDER

RECORD is what ``record_cpu_loads`` wrote, FOLDER where the libraries are to which its paths are relative: wheels are
unpacked into folders named NAME-VERSION. A load that raised an exception says nothing about the processor, but that it
does not lack anything before. Exits with 1 if a prediction is wrong; what is unknown is counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

import abiscan
from abiscan.errors import AbiscanError

TORCH = "2.13.0"
SIGILL = 4


def outcome(library: Path, cpu: str) -> str:
    """What is predicted: ``dies``, ``lives`` or ``unknown``."""
    (result,) = abiscan.check(library, TORCH, cpus=[cpu]).results
    if result.predicted_error and result.predicted_error.signal == SIGILL:
        return "dies"
    return "unknown" if any(gap.stage == "cpu" and gap.decides for gap in result.gaps) else "lives"


def main() -> int:
    """Print each difference, and how many agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    counts: Counter[str] = Counter()
    for text in options.record.read_text("utf-8").splitlines():
        line = json.loads(text)
        library = options.folder / line["library"]
        if not library.is_file():
            counts["not there"] += 1
            continue
        real = "dies" if line.get("signal") == SIGILL else "lives"
        try:
            predicted = outcome(library, line["cpu"])
        except AbiscanError as error:
            predicted = str(error)
        state = "right" if predicted == real else "unknown" if predicted == "unknown" else "wrong"
        counts[state] += 1
        if state != "right":
            print(f"{line['library']} on {line['cpu']}: {real}, predicted: {predicted}")
    print(", ".join(f"{count} {state}" for state, count in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
