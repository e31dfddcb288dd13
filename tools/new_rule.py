"""Start a rule: its module, its line in the registry, and its folder of cases.

python -m tools.new_rule some-rule
"""

from __future__ import annotations

import argparse
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


def check(linkage: Linkage) -> Iterator[Finding]:
    """One finding per cause."""
    yield from ()


RULE = rule("{name}", __doc__, check)
'''


def main() -> int:
    """Write the files of the rule named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="kebab-case, e.g. kernel-override")
    name = parser.parse_args().name
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name):
        parser.error("the name of a rule is kebab-case")
    module = name.replace("-", "_")
    path = ROOT / "abiscan" / "rules" / f"{module}.py"
    if path.exists():
        parser.error(f"{path.relative_to(ROOT)} exists")
    path.write_text(TEMPLATE.replace("{name}", name), "utf-8")
    registry = path.with_name("__init__.py")
    text = registry.read_text("utf-8")
    text = text.replace("from abiscan.rules import (\n", f"from abiscan.rules import (\n    {module},\n", 1)
    text = text.replace(
        ')\n"""In the order in which a load', f'    {module}.RULE,\n)\n"""In the order in which a load', 1
    )
    registry.write_text(text, "utf-8")
    cases = ROOT / "tests" / "cases" / name
    cases.mkdir(parents=True)
    for written in (path, registry, cases):
        print(written.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
