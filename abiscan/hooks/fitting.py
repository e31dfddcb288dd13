"""The newest versions that work with a torch, for hooks: found as ``abiscan fit`` finds them, on the user's indexes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from packaging.utils import canonicalize_name

from abiscan.errors import InputError
from abiscan.inputs.session import Session
from abiscan.pipelines.fit_request import Request, answer
from abiscan.torches.torch import TorchChoice


def newest_fitting(
    names: Sequence[str], torch: TorchChoice, python: str | None, options: Sequence[str], session: Session
) -> dict[str, str]:
    """The newest versions of packages that work with a torch and with each other, by canonical name; empty if none do.

    :param python: the interpreter that they are for
    :param options: where packages come from, as pip spells it
    """
    pairs = list(itertools.pairwise(options))
    request = Request(
        packages=tuple(names),
        torch=torch,
        python=python,
        index_url=next((value for option, value in reversed(pairs) if option == "--index-url"), None),
        extra_index_urls=tuple(value for option, value in pairs if option == "--extra-index-url"),
    )
    try:
        found = answer(request, session)
    except InputError:  # the index cannot be read, or does not have one of them
        return {}
    return {canonicalize_name(package.name): package.version for package in found.packages}
