"""Which processor runs the code of an architecture: the native one where there is one, else icicle's."""

from __future__ import annotations

from abiscan import native
from abiscan.emulation.processor import Processor


def take(architecture: str, most_pages: int) -> Processor:
    """Return a processor in its initial state, without memory.

    :param most_pages: how many pages can ever be mapped
    """
    if native.runs(architecture):
        from abiscan.emulation.by_native import NativeProcessor

        return NativeProcessor(architecture, most_pages)
    from abiscan.emulation.by_icicle import IcicleProcessor

    return IcicleProcessor(architecture, most_pages)
