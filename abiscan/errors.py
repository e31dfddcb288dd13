"""The errors that abiscan raises: every message names the file and the fix."""

from __future__ import annotations

from collections.abc import Sequence


class AbiscanError(Exception):
    """Base of every error that a user can fix.

    :ivar exit_code: what the command ends with: ``docs/effects.md`` explains it
    """

    exit_code = 2


class InputError(AbiscanError):
    """A target, a torch or an interpreter that cannot be read.

    :param subject: the file (or wheel member) at fault, as the user named it
    :param problem: what is wrong with it, in one clause
    :param fix: what the user can do about it
    """

    def __init__(self, subject: str, problem: str, fix: str = "") -> None:
        super().__init__(f"{subject}: {problem}" + (f" ({fix})" if fix else ""))
        self.subject = subject
        self.problem = problem
        self.fix = fix

    def __reduce__(self) -> tuple[type[InputError], tuple[str, str, str]]:
        """Return what another process makes it from."""
        return type(self), (self.subject, self.problem, self.fix)


class NotElfError(InputError):
    """The bytes are not a 64-bit little-endian ELF shared object: another format, too short, or damaged."""


class NoWheelError(InputError):
    """A version of a package that pip finds no wheel of, for this Python and machine."""


class NoExtensionError(InputError):
    """A readable target without an extension of torch."""


class NoTorchError(InputError):
    """An interpreter that has no torch."""


class StoppedError(InputError):
    """A target that cannot be read within the limits, or not without killing the process that reads it."""

    exit_code = 3


class InternalError(StoppedError):
    """A fault of abiscan's, which ends the turn of one target and of no other."""


class UnreachableError(InputError):
    """A package index that cannot be reached, or does not answer with what was asked for."""


class UnclearPlanError(InputError):
    """What an installer would install cannot be told, so it must not install it."""

    exit_code = 3

    def __init__(self, subject: str, problem: str, fix: str = "use --force to install without a check") -> None:
        super().__init__(subject, problem, fix)


def raise_together(errors: Sequence[AbiscanError]) -> None:
    """Raise what is wrong with several targets as one error, one line for each; do nothing if there are none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        together = AbiscanError("\n".join(dict.fromkeys(map(str, errors))))
        # Of 2, which is an error, and 3, which says that something is unknown, 2 is the more definite.
        together.exit_code = min(error.exit_code for error in errors)
        raise together from errors[0]
