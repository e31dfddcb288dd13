"""The JSON documents of the commands: their common parts, and their published schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

import abiscan


def rendered(fields: Mapping[str, Any]) -> str:
    """A document, version 1, with the tool that made it, as a JSON text that ends in a newline."""
    tool = {"name": "abiscan", "version": abiscan.__version__}
    return json.dumps({"version": 1, "tool": tool, **fields}, indent=1) + "\n"


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) that every JSON document of a command satisfies.

    :param command: ``check``, ``coverage``, ``diff``, ``doctor``, ``fit``, ``matrix`` or ``ops``;
        ``ops-api-version`` and ``ops-api-history`` for ``ops --api-version`` of a torch and of an extension,
        ``ops-model`` for ``ops`` of a saved model
    """
    text = resources.files("abiscan.results").joinpath(f"schema/{command}-v1.json").read_text("utf-8")
    return json.loads(text)  # type: ignore[no-any-return]
