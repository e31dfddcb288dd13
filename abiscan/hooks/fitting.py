"""The newest versions that work with a torch, for hooks: found as ``abiscan fit`` finds them, on the user's indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec.structs
from packaging.utils import canonicalize_name

from abiscan.errors import InputError, UnreachableError
from abiscan.hooks import arguments
from abiscan.index.client import Settings, settings_of_pip
from abiscan.inputs.index_options import IndexOptions
from abiscan.inputs.session import Session
from abiscan.pipelines.fit_request import Request, answer_request
from abiscan.torches.torch import TorchChoice

FOLDER: Final = "wheels"
"""Where in the cache what was read of indexes is."""


def newest_fitting(
    names: Sequence[str], torch: TorchChoice, python: str | None, options: Sequence[str], session: Session
) -> dict[str, str]:
    """Return the newest versions of packages that work with a torch and with each other, by canonical name; empty if
    none do.

    :param python: the interpreter that they are for
    :param options: where packages come from, as pip spells it
    :raises UnreachableError: an index cannot be read
    """
    request = Request(
        packages=tuple(names), torch=torch, python=python, settings=settings_of(python, options), variants=False
    )
    try:
        result = answer_request(request, session)
    # It is an InputError as well, but one about the index, and not about what it lacks.
    except UnreachableError:
        raise
    except InputError:  # an index does not have one of them
        return {}
    return {canonicalize_name(package.name): package.version for package in result.packages}


def settings_of(python: str | None, options: Sequence[str]) -> Settings:
    """Return the settings of an interpreter's pip, as these options change them."""
    settings = settings_of_pip(python, named_index(options))
    return msgspec.structs.replace(
        settings,
        trusted_hosts=(*settings.trusted_hosts, *arguments.option_values(options, "--trusted-host")),
        certificates=next(reversed(arguments.option_values(options, "--cert")), settings.certificates),
        proxy=next(reversed(arguments.option_values(options, "--proxy")), settings.proxy),
    )


def named_index(options: Sequence[str]) -> IndexOptions:
    """Return where packages come from, as options say it.

    :param options: as pip spells them
    """
    index_urls = arguments.option_values(options, "-i", "--index-url", "--pypi-url")
    return IndexOptions(
        # As in pip: of an option that replaces, the last one counts; of one that adds, all do.
        index_url=index_urls[-1] if index_urls else None,
        extra_index_urls=tuple(arguments.option_values(options, "--extra-index-url")),
        find_links=tuple(arguments.option_values(options, "-f", "--find-links")),
        no_index=arguments.has_option(options, "--no-index"),
    )
