"""Where the documentation of a rule is."""

from __future__ import annotations

import os


def page_of(rule: str) -> str:
    """Return the page of a rule: its address where ``ABISCAN_DOCS`` says where the documentation is, else its path from
    the root of the repository.
    """
    return f"{os.environ.get('ABISCAN_DOCS', 'docs').rstrip('/')}/rules/{rule}.md"


def is_address(page: str) -> bool:
    """Whether a browser can follow a page of ``page_of``."""
    return page.startswith(("https://", "http://"))
