"""Start a rule: its module, its line in the registry, and its folder of cases.

python -m tools.new_rule some-rule
"""

from __future__ import annotations

import argparse
import keyword
import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent

TEMPLATE: Final = '''"""One line: what is wrong.

**What it finds.** …

**Why it fails.** …

**Fix.** …

**Limits.** …

**Example.** `…`
"""

from __future__ import annotations

from collections.abc import Iterator

from abiscan.findings import Finding, rule
from abiscan.linkage.linkage import Linkage


def find_problems(linkage: Linkage) -> Iterator[Finding]:  # noqa: ARG001 - until it looks at it
    """One finding per cause."""
    yield from ()


RULE = rule("{name}", __doc__, find_problems)
'''


_IMPORTS: Final = re.compile(r"^from abiscan\.rules import \(\n(.*?)\n\)", re.MULTILINE | re.DOTALL)
_END_OF_LIST: Final = ')\n"""In the order in which a load'


def _as_ruff_sorts(line: str) -> list[str | int]:
    """The key of a natural order: digits count as numbers."""
    return [int(part) if part.isdigit() else part for part in re.split("([0-9]+)", line)]


def main() -> int:
    """Write the files of the rule named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="kebab-case, e.g. kernel-override")
    name = parser.parse_args().name
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        parser.error("the name of a rule is kebab-case")
    module = name.replace("-", "_")
    if not module.isidentifier() or keyword.iskeyword(module):
        parser.error(f"{module} cannot be the name of a module")
    path = ROOT / "abiscan" / "rules" / f"{module}.py"
    if path.exists():
        parser.error(f"{path.relative_to(ROOT)} exists")
    path.write_text(TEMPLATE.replace("{name}", name), "utf-8")
    registry = path.with_name("__init__.py")
    before, imports, after = _IMPORTS.split(registry.read_text("utf-8"), 1)
    lines = sorted([*imports.splitlines(), f"    {module},"], key=_as_ruff_sorts)
    after = after.replace(_END_OF_LIST, f"    {module}.RULE,\n{_END_OF_LIST}", 1)
    registry.write_text(f"{before}from abiscan.rules import (\n{chr(10).join(lines)}\n){after}", "utf-8")
    cases = ROOT / "tests" / "cases" / module
    cases.mkdir(parents=True)
    for written in (path, registry, cases):
        print(written.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
