"""The doubles of all that torch's libraries define, put together for one process."""

from __future__ import annotations

from abiscan.emulation.doubles import Finder
from abiscan.emulation.doubles.torch_classes import TORCH_CLASSES, Classes
from abiscan.emulation.doubles.torch_library import TORCH_LIBRARY
from abiscan.emulation.doubles.torch_lookups import TORCH_LOOKUPS
from abiscan.emulation.doubles.torch_operators import TORCH_OPERATORS
from abiscan.emulation.doubles.torch_registries import TORCH_REGISTRIES, FilledRegistries
from abiscan.emulation.doubles.torch_stable import TORCH_STABLE
from abiscan.emulation.doubles.torch_types import TORCH_TYPES, Types
from abiscan.emulation.doubles.torch_values import TORCH_VALUES
from abiscan.emulation.torch_state import TorchState


def torch_doubles(state: TorchState, registries: FilledRegistries) -> tuple[Finder, ...]:
    """Return the doubles of torch, those that are asked for most first."""
    return (
        TORCH_LIBRARY.of(state),
        TORCH_STABLE.of(state),
        TORCH_OPERATORS.of(state),
        TORCH_CLASSES.of(Classes(state)),
        TORCH_TYPES.of(Types(state)),
        TORCH_VALUES.of(state),
        TORCH_LOOKUPS.of(state),
        TORCH_REGISTRIES.of(registries),
    )
