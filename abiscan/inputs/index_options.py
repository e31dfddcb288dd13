"""Where packages come from, in the words of pip."""

from __future__ import annotations

from typing import Final

from msgspec import Struct


class IndexOptions(Struct, frozen=True, kw_only=True):
    """The options of pip that a user passes to abiscan; for what they leave out, pip's own settings count.

    ``index_url`` replaces the index, ``extra_index_urls`` are asked as well, ``find_links`` are folders, pages of links
    or wheels, ``no_index`` leaves out every index, those of the settings, too.
    """

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The options as words of a command line."""
        return (
            *(("--no-index",) if self.no_index else ()),
            *(("--index-url", self.index_url) if self.index_url else ()),
            *(word for url in self.extra_index_urls for word in ("--extra-index-url", url)),
            *(word for link in self.find_links for word in ("--find-links", link)),
        )


FROM_SETTINGS: Final = IndexOptions()
"""Everything as pip's settings say."""
