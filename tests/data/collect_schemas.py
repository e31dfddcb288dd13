#!/usr/bin/env python3
"""Collect the schemas that real torches printed: ``collect_schemas.py FOLDER…`` writes ``schemas.txt.gz`` here.

A folder holds ``*.json.gz``, each what one torch said of itself, or of an extension that it had loaded: its version
under ``torch``, and schemas anywhere below. A line of the result is a release, a tab, and a schema that this release
printed; each schema stands once per way of printing, with the oldest release that printed it.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

TARGET = Path(__file__).with_name("schemas.txt.gz")

_SCHEMA = re.compile(r"(?:^|\nschema: )(\w+::[\w.]+\(.*\) -> .+)")
_PRINTS_AS_TODAY = (1, 13)


def schemas(value: object) -> Iterator[str]:
    """The schemas in what was recorded: texts of their own, and the ``schema:`` lines of dumps."""
    if isinstance(value, str):
        matched = _SCHEMA.search(value)
        if matched is not None:
            yield matched[1]
    elif isinstance(value, dict):
        for inner in value.values():
            yield from schemas(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from schemas(inner)


def main(folders: list[str]) -> None:
    """Write the list, the same for the same input."""
    found: dict[tuple[bool, str], tuple[int, ...]] = {}
    for path in sorted(path for folder in folders for path in Path(folder).glob("*.json.gz")):
        record = json.loads(gzip.decompress(path.read_bytes()))
        release = tuple(int(part) for part in record["torch"].split("+")[0].split(".")[:2])
        for schema in schemas(record):
            key = (release >= _PRINTS_AS_TODAY, schema)
            found[key] = min(found.get(key, release), release)
    lines = sorted((release, schema) for (_, schema), release in found.items())
    text = "".join(f"{major}.{minor}\t{schema}\n" for (major, minor), schema in lines)
    TARGET.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
