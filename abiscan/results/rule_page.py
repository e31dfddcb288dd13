"""Where the documentation of a rule is."""

from __future__ import annotations

import os


def page_of(rule: str) -> str:
    """Return the page of a rule: its address where ``ABISCAN_DOCS`` says where the documentation is, else its path from
    the root of the repository.
    """
    return locate_page(f"rules/{rule}.md")


def locate_page(path: str) -> str:
    """Return a page of the documentation as ``page_of`` does: its address, or else its path."""
    return f"{os.environ.get('ABISCAN_DOCS', 'docs').rstrip('/')}/{path}"


def is_address(page: str) -> bool:
    """Whether a browser can follow a page of ``page_of``."""
    return page.startswith(("https://", "http://"))
