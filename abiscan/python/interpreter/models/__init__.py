"""Models of libraries: what their functions give, where the reading of a package needs to know."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from abiscan.python.interpreter.machine import PythonMachine
from abiscan.python.interpreter.models import (
    acting,
    builtin,
    config,
    dataclasses_,
    enum_,
    importlib_,
    os_,
    plain,
    pure,
    texts,
    torch_,
    torch_library,
)
from abiscan.python.interpreter.models.recipes import with_recipes

MODELS: Mapping[str, Callable[[PythonMachine], object]] = with_recipes(
    acting.with_acting(
        pure.with_pure(
            {
                **os_.MODELS,
                **importlib_.MODELS,
                **plain.MODELS,
                **builtin.MODELS,
                **config.MODELS,
                **enum_.MODELS,
                **dataclasses_.MODELS,
                **texts.MODELS,
                **torch_.MODELS,
                **torch_library.MODELS,
            }
        )
    )
)
"""Modules by full name, and what makes them."""
