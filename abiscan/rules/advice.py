"""The fix that most rules give: which torch the extension wants, which build this torch wants."""

from __future__ import annotations

from abiscan.linkage.linkage import Linkage


def other_build(linkage: Linkage) -> str:
    """Either of the two ways out of a mismatch, as far as the metadata knows them."""
    torch = f"torch {linkage.release.version}" if linkage.release.version else "this torch"
    mine = f"install a build of the extension made for {torch}"
    if linkage.requires_torch:
        return f"{mine}, or the torch that its metadata asks for: {linkage.requires_torch}"
    return f"{mine}, or the torch it was built with"
