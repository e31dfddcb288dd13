"""The systems that targets are for: Linux, or Windows and macOS. Here it is decided, once, how a target is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from abiscan.binary.elf import Machine
from abiscan.extension.examined import ExaminedTarget
from abiscan.findings import Rule
from abiscan.inputs.files import Files
from abiscan.inputs.package_files import Package
from abiscan.inputs.sources import Target
from abiscan.python.systems import LINUX, PythonSystem
from abiscan.results.check import Result
from abiscan.torches.torch import EmbeddedTorch
from abiscan.verdict.judge import Judge
from abiscan.verdict.world import PackageWorld

if TYPE_CHECKING:
    from abiscan.verdict.image_world import ImageWorld


class TargetSystem(Protocol):
    """A kind of system, with what differs for targets that are for it."""

    def python(self, target: Target) -> PythonSystem:
        """Return the system as Python code sees it."""

    def judge(self, judge: Judge, target: ExaminedTarget, rules: Sequence[Rule], **options: Any) -> tuple[Result, ...]:
        """Return the results for the libraries of a target.

        :param options: those of ``Judge.judge``
        :raises InputError: the torch does not exist for the system
        """

    def is_embedded(self, torch: EmbeddedTorch, target: Target, has_build: Callable[[Machine], bool]) -> bool:
        """Whether an embedded torch exists for the target, or needs not to.

        :param has_build: whether it exists for Linux on a machine
        """

    def make_world(
        self, judge: Judge, target: ExaminedTarget, package: Package, files: Files
    ) -> PackageWorld | ImageWorld:
        """Return the process that imports a package.

        :param files: those that the torch and the target were read from
        """


def system_of(target: Target) -> TargetSystem:
    """Return the system that a target is for; Linux, if it has no library."""
    return _IMAGES if target.images else _LINUX


class _Linux:
    """Linux: extensions are emulated, linked and judged by all rules."""

    def python(self, _target: Target) -> PythonSystem:
        return LINUX

    def judge(self, judge: Judge, target: ExaminedTarget, rules: Sequence[Rule], **options: Any) -> tuple[Result, ...]:
        return judge.judge(target, rules, **options)

    def is_embedded(self, _torch: EmbeddedTorch, target: Target, has_build: Callable[[Machine], bool]) -> bool:
        machines = {extension.facts.machine for extension in target.extensions}
        return not machines or any(map(has_build, machines))

    def make_world(self, judge: Judge, target: ExaminedTarget, package: Package, files: Files) -> PackageWorld:
        return PackageWorld(judge, target, package, files)


class _Images:
    """Windows and macOS: the imports of images are compared with exports. Targets for Linux do not import it."""

    def python(self, target: Target) -> PythonSystem:
        from abiscan.verdict.image_world import SYSTEMS

        return SYSTEMS[target.images[0].system]

    def judge(self, judge: Judge, target: ExaminedTarget, rules: Sequence[Rule], **_options: Any) -> tuple[Result, ...]:
        from abiscan.verdict.images import judge_images

        return judge_images(target.target, judge.torch, rules)

    def is_embedded(self, torch: EmbeddedTorch, target: Target, _has_build: Callable[[Machine], bool]) -> bool:
        from abiscan.verdict.images import exists_for_images

        return exists_for_images(torch, target)

    def make_world(self, judge: Judge, target: ExaminedTarget, package: Package, _files: Files) -> ImageWorld:
        from abiscan.verdict.image_world import ImageWorld

        return ImageWorld(judge.torch, target.target, package)


_LINUX: Final = _Linux()
_IMAGES: Final = _Images()
