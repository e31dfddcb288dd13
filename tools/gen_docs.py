"""Write the table of rules into the README, from the docstrings of the rules.

python -m tools.gen_docs           rewrites the part of README.md between the markers
python -m tools.gen_docs --check   exits with 1 if that would change it
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from abiscan.rules import RULES

README: Final = Path(__file__).resolve().parent.parent / "README.md"
BEGIN: Final = "<!-- rules: made by tools/gen_docs.py from the docstrings in abiscan/rules -->\n"
END: Final = "<!-- end of rules -->\n"


def table() -> str:
    """The rules as a Markdown table."""
    rows = [f"| `{rule.name}` | {rule.summary} |\n" for rule in RULES]
    return "".join(["| rule | what it means |\n", "|---|---|\n", *rows])


def main() -> int:
    """Rewrite the table, or only compare it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if README.md is out of date")
    check = parser.parse_args().check
    text = README.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    fresh = f"{before}{BEGIN}{table()}{END}{after}"
    if check:
        if fresh != text:
            print("README.md is out of date: run `make gen`")
        return int(fresh != text)
    README.write_text(fresh, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
