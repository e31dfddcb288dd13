"""The files that were checked, in the words of an installer: it installs them and no others.

Both installers ask the index again once they install, and what that answers then may be another file. So they are told
the versions and the hashes, in files that are kept for them. Nothing of that shows in what is installed: to pass the
files themselves would make packages of the index ones that somebody named by an address (``direct_url.json``).
"""

from __future__ import annotations

import hashlib
import html
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from packaging.utils import canonicalize_name

from abiscan.cache import cache_folder
from abiscan.hooks.plan import Plan, Planned, WheelFacts
from abiscan.inputs import interpreter, packages
from abiscan.inputs.session import Session

_HASH: Final = "sha256="
_DIGITS: Final = 32  # of the hash that a file is called by


class Pins:
    """The files of a plan.

    :param files: what is remembered of the wheels that were looked at
    """

    def __init__(self, plan: Plan, files: Mapping[Planned, WheelFacts], session: Session) -> None:
        self._plan = plan
        self._files = files
        self._session = session

    @property
    def all_wheels(self) -> bool:
        """Whether nothing is built."""
        return all(planned.wheel for planned in self._plan.packages)

    def versions(self, *, hashes: bool = False, others: bool = False) -> str:
        """Return a line for each package whose version an index decides: ``NAME==VERSION``.

        :param hashes: whether those of the files are added, as far as they are known
        :param others: whether what is installed, and stays as it is, is among them
        """
        lines = []
        for planned in self._plan.packages:
            if planned.wheel and not planned.direct:
                digest = self._hash_of(planned) if hashes else None
                lines.append(f"{planned.name}=={planned.version}{f' --hash=sha256:{digest}' if digest else ''}\n")
        return "".join([*lines, *(self._staying() if others else ())])

    def _staying(self) -> Iterator[str]:
        changed = {canonicalize_name(planned.name) for planned in self._plan.packages} | self._plan.removed
        for item in packages.list_installed(interpreter.search_path(self._plan.python)):
            if canonicalize_name(item.name) not in changed:
                yield f"{item.name}=={item.version}\n"

    def page(self) -> str:
        """Return a page with links to the files that come from an index, as an index has it."""
        links = []
        for planned in self._plan.packages:
            if planned.url is not None and not planned.direct:
                address, digest = planned.url.partition("#")[0], self._hash_of(planned)
                name = urllib.parse.unquote(urllib.parse.urlsplit(address).path.rpartition("/")[2])
                link = f"{address}#{_HASH}{digest}" if digest else address
                links.append(f'<a href="{html.escape(link)}">{html.escape(name)}</a><br>\n')
        return f"<!DOCTYPE html>\n<html><body>\n{''.join(links)}</body></html>\n"

    def hash_addresses(self, words: Iterable[str]) -> list[str]:
        """Return a command line, with the hashes of the files whose addresses it has, unless it has them already."""
        by_address = {
            planned.url.partition("#")[0]: planned
            for planned in self._plan.packages
            if planned.direct and planned.wheel and planned.url is not None and planned.url.startswith("http")
        }
        hashed = []
        for word in words:
            address, mark, fragment = word.rpartition(" ")[2].partition("#")  # "NAME @ ADDRESS", or the address alone
            planned = by_address.get(address)
            digest = self._hash_of(planned) if planned is not None and _HASH not in fragment else None
            hashed.append(f"{word}{'&' if mark else '#'}{_HASH}{digest}" if digest else word)
        return hashed

    def write_file(self, text: str, suffix: str = ".plan") -> Path:
        """Keep a file for the installer, which reads it when this process is gone.

        :raises OSError: it cannot be written
        """
        content = text.encode()
        path = self._session.folder / f"{hashlib.sha256(content).hexdigest()[:_DIGITS]}{suffix}"
        with cache_folder.replace_whole(path) as part:
            part.write_bytes(content)
        return path

    def _hash_of(self, planned: Planned) -> str | None:
        """Return the SHA-256 of the file of a package: of the one that was looked at, or as the index states it."""
        return self._files[planned].sha256 if planned in self._files else planned.sha256


def add_options(words: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return a command line with further options at its end, before the words that cannot be options."""
    end = words.index("--") if "--" in words else len(words)
    return [*words[:end], *options, *words[end:]]
