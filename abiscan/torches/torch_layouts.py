"""Which embedded releases have the class layouts of a torch, class by class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from abiscan.binary.elf import Machine
from abiscan.inputs.files import Files
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.session import Session
from abiscan.inputs.version import number_of
from abiscan.torches import embedded, embedded_declarations, layouts, own_headers
from abiscan.torches.model import TorchRelease
from abiscan.torches.string_abi import uses_cxx11_strings


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchLayouts:
    """Where the layouts of a torch are embedded.

    ``release`` is the number of the release that has all of them; None for a torch that is not embedded, which may
    still declare some classes in its headers as a release does: ``by_class`` has the number of that release.
    ``basis`` says how this is known of a torch that is not embedded itself; ``assertions`` are the lines of assertions
    in the headers of such a torch.
    """

    release: str | None = None
    by_class: Mapping[str, str] = field(default_factory=dict)
    basis: str | None = None
    assertions: frozenset[str] = frozenset()

    def release_of(self, name: str) -> str | None:
        """The number of a release whose layout of a class is that of the torch; None if that is unknown."""
        return self.release or self.by_class.get(name)


UNKNOWN = TorchLayouts()


def of_release(number: str, machine: Machine) -> TorchLayouts:
    """The layouts of a release, by its number."""
    return TorchLayouts(release=number) if layouts.is_known(number, machine) else UNKNOWN


def of_installed(release: TorchRelease, files: Files, session: Session) -> TorchLayouts:
    """The layouts of a torch with files of its own."""
    number = number_of(release.same_as or release.build or "")
    cxx11 = uses_cxx11_strings(Libraries(release.own_libraries, files))
    if layouts.is_known(number, release.machine) and cxx11 in (
        None,
        embedded.uses_cxx11_strings(number, release.machine),
    ):
        basis = f"its libraries are those of torch {release.same_as}" if release.same_as else None
        return TorchLayouts(release=number, basis=basis)
    headers = own_headers.headers_of(release, files, session)
    if headers is None:
        return UNKNOWN
    # A layout depends on the string as well, and a release for this machine may have been built with the other one.
    alike = {
        number
        for number in embedded_declarations.releases()
        if layouts.is_known(number, release.machine) and embedded.uses_cxx11_strings(number, release.machine) is cxx11
    }
    by_class = {}
    for name, digest in headers.digests.items():
        declaring = [number for number in embedded_declarations.releases_declaring(name, digest) if number in alike]
        if declaring:
            by_class[name] = declaring[-1]
    return TorchLayouts(by_class=by_class, basis="its headers declare them alike", assertions=headers.assertions)
