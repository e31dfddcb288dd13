"""Names that Microsoft's compiler decorates: ``?call@zeros@_ops@at@@…``. The extra ``abiscan[windows]`` reads them."""

from __future__ import annotations


def undecorate(name: str) -> str | None:
    """Return the C++ name of a decorated one; None if it is not decorated, or if pydemumble is not installed."""
    if not name.startswith("?"):
        return None
    try:
        import pydemumble
    except ImportError:
        return None
    text: str = pydemumble.demangle(name)
    return text if text and text != name else None
