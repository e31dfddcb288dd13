"""JSON documents against the schemas of the commands."""

from __future__ import annotations

import functools

from jsonschema import Draft202012Validator

from abiscan.results.document import read_schema


def validate(document: object, command: str, version: int = 1) -> None:
    """Fail if a document is not as the schema of a command says."""
    _validator(command, version).validate(document)


@functools.cache
def _validator(command: str, version: int) -> Draft202012Validator:
    """Whether the schema is one itself takes ten times as long as most documents: it is asked once in a process."""
    schema = read_schema(command, version)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)
