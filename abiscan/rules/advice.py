"""The fix that most rules suggest: another build of the extension, or another torch."""

from __future__ import annotations

from abiscan.linkage.linkage import Linkage


def other_build(linkage: Linkage) -> str:
    """The two ways out of a mismatch; the second names the torch that the metadata requires, if it does."""
    torch = f"torch {linkage.release.version}" if linkage.release.version else "this torch"
    own_build = f"install a build of the extension made for {torch}"
    if linkage.requires_torch:
        return f"{own_build}, or the torch that its metadata requires: {linkage.requires_torch}"
    return f"{own_build}, or the torch it was built for"
