"""Whether an installation replaces or removes the installed torch, and whether the user asked for that.

The user asks for it by naming torch: as a requirement, in a file of requirements, as a wheel. A file of constraints
names versions, but does not ask for a package; neither does ``--upgrade`` of another package.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from abiscan.errors import InputError
from abiscan.hooks import arguments as arguments_of
from abiscan.hooks.install import Inspection, Inspector
from abiscan.hooks.plan import Plan, Planned
from abiscan.inputs import interpreter, packages
from abiscan.inputs.requirement import parse_applying
from abiscan.inputs.session import Session
from abiscan.words import listed

# With them, packages go elsewhere, and the torch of the environment stays as it is.
_ELSEWHERE: Final = ("--target", "-t", "--prefix", "--root")


class TorchChange(Struct, frozen=True, kw_only=True):
    """One torch instead of another.

    ``before`` and ``after`` are full versions, ``after`` is None if torch is removed. ``requested`` says whether the
    user asked for it, and ``because`` which packages require it, as far as that is known.
    """

    before: str
    after: str | None
    requested: bool
    because: tuple[str, ...] = ()

    def __str__(self) -> str:
        change = f"torch {self.before} -> {self.after or 'removed'}"
        return f"{change} (required by {listed(self.because)})" if self.because else change


def torch_change(
    plan: Plan, inspection: Inspection, inspector: Inspector, arguments: Sequence[str], session: Session
) -> TorchChange | None:
    """Return how a plan changes the torch of the environment; None if it does not, or if there is none yet.

    Another build of the same version, with another local tag, is another torch.

    :raises InputError: the interpreter cannot be run
    """
    planned = plan.find_planned("torch")
    if (planned is None and "torch" not in plan.removed) or arguments_of.has_option(arguments, *_ELSEWHERE):
        return None
    installed = packages.find_installed("torch", interpreter.search_path(plan.python))
    before = _build_now(plan, inspector, session) or (installed.version if installed else None)
    if before is None:
        return None
    if planned is None:
        return TorchChange(before=before, after=None, requested=False)
    # The build where it is known; an installer may call 2.9.1 what calls itself 2.9.1+cu128, and that is no change.
    after = inspection.torch or planned.version
    if after == before or (inspection.torch is None and installed is not None and after == installed.version):
        return None
    return TorchChange(
        before=before,
        after=after,
        requested=planned.requested,
        because=() if planned.requested else tuple(map(str, requiring_another(plan, before))),
    )


def _build_now(plan: Plan, inspector: Inspector, session: Session) -> str | None:
    choice = inspector.torch_now(plan)
    try:
        return choice.open(session.files(), session).build if choice else None
    except InputError:
        return None


def requiring_another(plan: Plan, before: str) -> Iterator[Planned]:
    """Yield the packages of a plan that do not admit the torch that is there."""
    for planned in plan.packages:
        requirements = filter(None, map(parse_applying, planned.requires or ()))
        try:
            if any(
                canonicalize_name(requirement.name) == "torch"
                and not requirement.specifier.contains(before, prereleases=True)
                for requirement in requirements
            ):
                yield planned
        except InvalidVersion:  # of a torch that was built by hand
            return
