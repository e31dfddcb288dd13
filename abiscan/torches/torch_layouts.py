"""Where the class layouts of a torch are from, class by class: an embedded release, or its own headers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from abiscan.binary.elf import Machine
from abiscan.inputs.files import Files
from abiscan.inputs.libraries import Libraries
from abiscan.inputs.session import Session
from abiscan.inputs.version import number_of
from abiscan.torches import embedded, layouts
from abiscan.torches.layouts import LayoutSource, ReleaseLayouts
from abiscan.torches.model import TorchRelease
from abiscan.torches.string_abi import uses_cxx11_strings

if TYPE_CHECKING:
    from abiscan.torches.unlisted_torch_layouts import OwnLayouts


def _no_layouts(_name: str) -> OwnLayouts:
    from abiscan.torches.unlisted_torch_layouts import OwnLayouts

    return OwnLayouts()


class TorchLayouts(Struct, frozen=True, kw_only=True, eq=False):
    """Where the layouts of a torch are from.

    :ivar release: the number of the release that has all of them; None for a torch that is not embedded
    :ivar by_class: the number of a release that declares a class as the headers of such a torch do
    :ivar in_question: the classes that are declared like in no release
    :ivar lay_out: reads one of these with a compiler, and what it consists of
    :ivar basis: how this is known of a torch that is not embedded itself
    :ivar assertions: the lines of assertions in the headers of such a torch
    :ivar cxx11: whether it has the C++11 ``std::string``
    """

    machine: Machine
    release: str | None = None
    by_class: Mapping[str, str] = field(default_factory=dict)
    in_question: frozenset[str] = frozenset()
    lay_out: Callable[[str], OwnLayouts] = _no_layouts
    basis: str | None = None
    assertions: frozenset[str] = frozenset()
    cxx11: bool | None = None

    def release_of(self, name: str) -> str | None:
        """Return the number of a release whose layout of a class is that of the torch; None if there is none."""
        return self.release or self.by_class.get(name)

    @property
    def string(self) -> bool | None:
        """Whether the torch has the C++11 ``std::string``; None if that is unknown."""
        return embedded.uses_cxx11_strings(self.release, self.machine) if self.release else self.cxx11

    def source_of(self, name: str) -> LayoutSource | None:
        """Return what has the layout of a class; None if it is unknown."""
        release = self.release_of(name)
        if release is not None:
            return ReleaseLayouts(release, self.machine)
        own = self.lay_out(name) if name in self.in_question else None
        return own if own is not None and name in own.records else None

    def gap_of(self, name: str) -> str | None:
        """Return why the layout of a class is unknown, as far as that can be said."""
        return self.lay_out(name).gap if name in self.in_question else None


def of_release(number: str, machine: Machine) -> TorchLayouts:
    """Return the layouts of a release, by its number."""
    return TorchLayouts(machine=machine, release=number if layouts.is_known(number, machine) else None)


def of_installed(release: TorchRelease, files: Files, session: Session) -> TorchLayouts:
    """Return the layouts of a torch with files of its own."""
    # Three sources, from the most certain: the release itself, a release with the same declaration, a compiler.
    number = number_of(release.same_as or release.build or "")
    cxx11 = uses_cxx11_strings(Libraries(release.own_libraries, files))
    if layouts.is_known(number, release.machine) and cxx11 in (
        None,
        embedded.uses_cxx11_strings(number, release.machine),
    ):
        basis = f"its libraries are those of torch {release.same_as}" if release.same_as else None
        return TorchLayouts(machine=release.machine, release=number, basis=basis)
    from abiscan.torches import (  # few torches come so far
        embedded_declarations,
        unlisted_torch_headers,
        unlisted_torch_layouts,
    )

    headers = unlisted_torch_headers.headers_of(release, files, session)
    if headers is None:
        return TorchLayouts(machine=release.machine)
    # A layout depends on the string as well, and a release for this machine may have been built with the other one.
    alike = {
        number
        for number in embedded_declarations.releases()
        if layouts.is_known(number, release.machine) and embedded.uses_cxx11_strings(number, release.machine) is cxx11
    }
    by_class = {}
    for name, digest in headers.digests.items():
        declaring = [number for number in embedded_declarations.releases_declaring(name, digest) if number in alike]
        # The newest of the releases that declare it alike stands for them: their layouts are the same by construction.
        if declaring:
            by_class[name] = declaring[-1]
    # A compiler has to be told which string it is.
    in_question = frozenset(headers.declared_in.keys() - by_class.keys() if cxx11 is not None else ())

    @functools.cache
    def lay_out_with(header: str | None) -> OwnLayouts:
        return unlisted_torch_layouts.lay_out(
            release, headers, in_question, header, cxx11=bool(cxx11), files=files, session=session
        )

    def lay_out(name: str) -> OwnLayouts:
        # Most classes come with the headers that all extensions include; only for others is another run worth it.
        common = lay_out_with(None)
        return common if name in common.records or common.gap else lay_out_with(headers.declared_in[name])

    return TorchLayouts(
        machine=release.machine,
        by_class=by_class,
        in_question=in_question,
        lay_out=lay_out,
        basis="its headers declare them alike",
        assertions=headers.assertions,
        cxx11=cxx11,
    )
