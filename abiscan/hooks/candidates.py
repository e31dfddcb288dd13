"""The torches that a solution may use, as wheels without contents: an installer can plan with them at no cost.

A real torch has gigabytes, with what it requires, and some installers download all of that only to plan. Which releases
the index has is known without; what they export is embedded. So an installer gets an empty wheel for each release, and
finds the newest versions whose metadata fit together; the extensions among them are then checked as usual.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec.structs

from abiscan.hooks.plan import Plan, Planned
from abiscan.inputs import system
from abiscan.inputs.version import TorchVersion
from abiscan.torches import embedded

# Greater than the local tag of any real build, so that an installer prefers it.
_LOCAL: Final = "zzz.abiscan"
# How the metadata of a CUDA build differ from those of a CPU build.
_REQUIRED_BY_CUDA: Final = ("nvidia-cublas",)


class Candidates:
    """Empty wheels of torch in a folder.

    :param folder: where they are written to
    :param on_index: the versions of torch on the index, newest first
    :param planned: the torch that the user asked for, if any
    """

    def __init__(self, folder: Path, on_index: Sequence[str], planned: Planned | None) -> None:
        self._folder = folder
        self._by_number: dict[str, Planned] = {}
        machine = system.own_machine()
        builds: dict[str, list[str]] = {}
        for release, build_machine, build in embedded.builds():
            # The index may have more releases than are embedded: of others, it is not known what they export.
            if build_machine is machine:
                builds.setdefault(str(release), []).append(build)
        for text in on_index:
            version = TorchVersion.parse(text)
            if version is not None and version.number in builds:
                self._by_number.setdefault(version.number, _plan_torch(text, builds[version.number]))
        if planned is not None and (asked := TorchVersion.parse(planned.version)) is not None:
            # The user's choice wins, even if it is not the kind of build that the index offers first.
            self._by_number[asked.number] = planned
        for number in self._by_number:
            _write_wheel(folder, number)

    @property
    def options(self) -> list[str]:
        """The options that let an installer find them."""
        return ["--find-links", str(self._folder)]

    @staticmethod
    def constrain_to(number: str) -> str:
        """Return the constraint that admits only one of them."""
        return f"torch=={number}+{_LOCAL}"

    def restore_real(self, plan: Plan) -> Plan:
        """Return a plan with the real torch in place of an empty one."""
        return msgspec.structs.replace(plan, packages=tuple(map(self._restore_torch, plan.packages)))

    def _restore_torch(self, planned: Planned) -> Planned:
        number, _, local = planned.version.partition("+")
        return self._by_number[number] if planned.name == "torch" and local == _LOCAL else planned


def _plan_torch(version: str, builds: Sequence[str]) -> Planned:
    """Return the torch of that version; without a local tag, it is the CUDA build if there is one, as on the public
    index.
    """
    cuda = "+" not in version and any("+cu" in build for build in builds)
    return Planned(name="torch", version=version, url=None, wheel=True, requires=_REQUIRED_BY_CUDA if cuda else ())


def _write_wheel(folder: Path, number: str) -> None:
    version = f"{number}+{_LOCAL}"
    info = f"torch-{version}.dist-info"
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as wheel:
        # The three files that an installer reads of a wheel (binary distribution format, "The .dist-info directory").
        # No Requires-Dist: what torch requires is as large as torch, and decides nothing about the extensions.
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
