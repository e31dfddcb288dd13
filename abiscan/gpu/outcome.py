"""What a GPU runs of an extension, operator by operator."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from abiscan.gpu.compatibility import Choice, CodeFit, choose_code
from abiscan.gpu.devices import Gpu
from abiscan.gpu.drivers import Driver
from abiscan.gpu.model import Container


class GpuOutcome(Struct, frozen=True, kw_only=True):
    """What one GPU runs of an extension.

    :ivar gpu: the GPU
    :ivar driver: its driver, None for one that knows everything
    :ivar operators: for each operator, what the runtime chooses for each kernel that it launches
    :ivar containers: what the runtime chooses from each container by itself
    :ivar code: the containers of each operator
    :ivar every: all containers that a GPU could run
    """

    gpu: Gpu
    driver: Driver | None
    operators: Mapping[str, tuple[Choice, ...]]
    containers: tuple[Choice, ...]
    code: Mapping[str, tuple[Container, ...]]
    every: tuple[Container, ...]

    @property
    def failing(self) -> dict[str, Choice]:
        """The operators none of whose kernels run, with the best that the runtime finds for them."""
        return {
            operator: best_of(choices)
            for operator, choices in self.operators.items()
            if not any(choice.fit.runs for choice in choices)
        }

    @property
    def partial(self) -> dict[str, int]:
        """The operators some of whose kernels do not run, and how many."""
        counts = {name: sum(not choice.fit.runs for choice in choices) for name, choices in self.operators.items()}
        return {name: count for name, count in counts.items() if 0 < count < len(self.operators[name])}

    @property
    def translated(self) -> dict[str, Choice]:
        """The operators whose kernels run, but none of them without translation by the driver."""
        bests = {operator: best_of(choices) for operator, choices in self.operators.items()}
        return {operator: choice for operator, choice in bests.items() if choice.fit is CodeFit.JIT}

    @property
    def file(self) -> Choice:
        """The best of all containers: if even that does not run, nothing in the file does."""
        return best_of(self.containers)

    def file_fits(self, fit: CodeFit) -> bool:
        """Whether the best code of the file fits so, where no operator could be connected with its kernels."""
        return not self.operators and bool(self.containers) and self.file.fit is fit


def outcome_of(
    operators: Mapping[str, tuple[tuple[Container, ...], ...]],
    containers: Sequence[Container],
    toolkit: tuple[int, int] | None,
    gpu: Gpu,
    driver: Driver | None,
) -> GpuOutcome:
    """Choose the code that a GPU runs, for each operator and for the whole file.

    :param operators: for each operator, the containers of each kernel that it launches
    :param containers: all of the extension
    :param toolkit: the CUDA that compiled them, None if that is not known
    """
    choices: dict[tuple[int, ...], Choice] = {}

    # Many kernels are in the same containers: each group is looked at once.
    def choose_once(same: tuple[Container, ...]) -> Choice:
        key = tuple(map(id, same))  # addresses are those of several objects
        if key not in choices:
            choices[key] = choose_code(same, gpu, driver, toolkit)
        return choices[key]

    runnable = tuple(container for container in containers if container.entries and not container.relocatable)
    return GpuOutcome(
        gpu=gpu,
        driver=driver,
        operators={operator: tuple(map(choose_once, kernels)) for operator, kernels in operators.items()},
        containers=tuple(choose_once((container,)) for container in runnable),
        code={
            operator: tuple(dict.fromkeys(itertools.chain.from_iterable(kernels)))
            for operator, kernels in operators.items()
        },
        every=runnable,
    )


def best_of(choices: Iterable[Choice]) -> Choice:
    """Return the choice that fits best."""
    return min(choices, key=lambda choice: list(CodeFit).index(choice.fit), default=Choice(fit=CodeFit.NONE))
