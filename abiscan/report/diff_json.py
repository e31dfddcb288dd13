"""What changed between two torches, as JSON version 1. Its JSON Schema is ``schema/diff-v1.json``, beside it."""

from __future__ import annotations

import dataclasses
import json
from typing import Final

from abiscan.comparison import Comparison

VERSION: Final = 1


def render(comparison: Comparison) -> str:
    """A JSON text that ends in a newline."""
    document = {
        "version": VERSION,
        "old": comparison.old,
        "new": comparison.new,
        "symbols": [dataclasses.asdict(change) for change in comparison.symbols],
        "dispatch_keys": [dataclasses.asdict(change) for change in comparison.keys],
        "old_api_version": comparison.old_api,
        "new_api_version": comparison.new_api,
        "operators_added": comparison.operators_added,
        "operators_removed": comparison.operators_removed,
        "schemas_changed": [dataclasses.asdict(change) for change in comparison.schemas],
        "dispatch_changed": [dataclasses.asdict(change) for change in comparison.dispatch],
        "layouts_changed": [
            {
                "class": change.name,
                "old_size": change.old.size,
                "new_size": change.new.size,
                "differences": change.differences,
            }
            for change in comparison.layouts
        ],
        "cuda_compared": comparison.cuda_compared,
        "gaps": comparison.gaps,
    }
    return json.dumps(document, indent=1) + "\n"
