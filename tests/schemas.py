"""JSON documents against the schemas of the commands."""

from __future__ import annotations

import functools
from typing import Final

from jsonschema import Draft202012Validator

from abiscan.results.document import read_schema

_MOST: Final = 200
"""Entries at each end of a list that are looked at: those of one list are made alike, and a torch has 10,000."""


def validate(document: object, command: str, version: int = 1) -> None:
    """Fail if a document is not as the schema of a command says."""
    _validator(command, version).validate(_shortened(document))


def is_valid(document: object, command: str, version: int = 1) -> bool:
    """Whether a document is as the schema of a command says."""
    return _validator(command, version).is_valid(_shortened(document))


def _shortened(document: object) -> object:
    return {name: _ends(value) for name, value in document.items()} if isinstance(document, dict) else document


def _ends(value: object) -> object:
    return value[:_MOST] + value[-_MOST:] if isinstance(value, list) and len(value) > 2 * _MOST else value


@functools.cache
def _validator(command: str, version: int) -> Draft202012Validator:
    """Whether the schema is one itself takes ten times as long as most documents: it is asked once in a process."""
    schema = read_schema(command, version)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
