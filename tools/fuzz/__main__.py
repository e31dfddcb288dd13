"""Pass hostile input, made by the thousand, to the commands, and report what escapes.

    python -m tools.fuzz                                       # 2,000 cases, as in the tests
    python -m tools.fuzz --count 100000 --time-limit 14400
    python -m tools.fuzz --seed 7 --only 1234 --keep here      # one case again; its input stays in the folder "here"

A case is determined by the seed and its number. Exits with 1 if one escapes: a traceback, an internal error, a signal,
more than the limit of time or memory, a file left behind.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from pathlib import Path

from tools.fuzz.run import KINDS, escapes, keep_torches, made


def main() -> int:
    """Run the cases, with a line for each that escapes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2_000)
    parser.add_argument("--start", type=int, default=0, metavar="NUMBER", help="the first case")
    parser.add_argument(
        "--time-limit", type=float, default=float("inf"), metavar="SECONDS", help="begin no case after it"
    )
    parser.add_argument("--kind", choices=KINDS, help="only input of this kind")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="only this case")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="with --only: write its input there, and run nothing"
    )
    chosen = parser.parse_args()
    if chosen.keep is not None and chosen.only is not None:
        chosen.keep.mkdir(parents=True, exist_ok=True)
        kind, case = made(chosen.seed, chosen.only, chosen.kind, chosen.keep.resolve())
        print(kind, *case.words)
        return 0
    print(f"seed {chosen.seed}", flush=True)  # first: whatever ends this, the cases can be made again
    begin = time.monotonic()
    count = Counter[str]()

    def said() -> None:
        count["done"] += 1
        if count["done"] % 1_000 == 0:
            print(f"{count['done']} cases, {count['escaped']} escapes, {time.monotonic() - begin:.0f} s", flush=True)

    keep_torches()
    numbers = [chosen.only] if chosen.only is not None else range(chosen.start, chosen.start + chosen.count)
    for first in range(0, len(numbers), 400):
        if time.monotonic() - begin > chosen.time_limit:
            break
        for escape in escapes(chosen.seed, numbers[first : first + 400], chosen.kind, said):
            count["escaped"] += 1
            print(f"--- case {escape.number} ({escape.kind}): {escape.how.strip()}", flush=True)
    seconds = time.monotonic() - begin
    print(f"seed {chosen.seed}: {count['done']} cases, {count['escaped']} escapes, {seconds:.0f} s")
    return 1 if count["escaped"] else 0


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    os.environ.pop("LD_LIBRARY_PATH", None)
    sys.exit(main())
