"""Projects that publish their builds for torch on pages of their own, and how to look there.

Each link page is from the installation instructions of the project, or from its releases.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from packaging.utils import canonicalize_name

from abiscan.inputs.version import number_of


class OwnPage(Struct, frozen=True, kw_only=True):
    """Where a project publishes its builds.

    :ivar page: for people
    :ivar links: for ``--find-links``, or for ``--index-url``: ``{release}`` is 2.8.0, ``{minor}`` 2.8, ``{digits}`` 28,
        ``{label}`` cu128 or cpu, ``{version}`` that of the package
    """

    page: str
    links: str
    option: str = "--find-links"

    def command(self, name: str, build: str, version: str) -> str:
        """Return what to type to look there for what works with a build of torch: ``2.8.0+cu128``."""
        release, label = number_of(build), build.partition("+")[2] or "cpu"
        minor = release.rpartition(".")[0]
        links = self.links.format(
            release=release, minor=minor, digits=minor.replace(".", ""), label=label, version=version
        )
        return f"abiscan fit {name} --torch {build} {self.option} {links}"


def own_page(name: str) -> OwnPage | None:
    """Return where a project publishes its builds; None if that is the index, as far as is known."""
    return _PAGES.get(canonicalize_name(name))


def _of_github(repository: str) -> OwnPage:
    """Return the page of releases, whose links are on a page for each of them."""
    releases = f"https://github.com/{repository}/releases"
    return OwnPage(page=releases, links=f"{releases}/expanded_assets/v{{version}}")


_PYG: Final = OwnPage(page="https://data.pyg.org/whl", links="https://data.pyg.org/whl/torch-{minor}.0+{label}.html")
_MMCV: Final = OwnPage(
    page="https://mmcv.readthedocs.io/en/latest/get_started/installation.html",
    links="https://download.openmmlab.com/mmcv/dist/{label}/torch{minor}/index.html",
)
_PAGES: Final = {
    "causal-conv1d": _of_github("Dao-AILab/causal-conv1d"),
    "dgl": OwnPage(
        page="https://www.dgl.ai/pages/start.html", links="https://data.dgl.ai/wheels/torch-{minor}/{label}/repo.html"
    ),
    "flash-attn": _of_github("Dao-AILab/flash-attention"),
    "gsplat": OwnPage(
        page="https://docs.gsplat.studio/whl",
        links="https://docs.gsplat.studio/whl/pt{digits}{label}",
        option="--index-url",
    ),
    "kaolin": OwnPage(
        page="https://kaolin.readthedocs.io/en/latest/notes/installation.html",
        links="https://nvidia-kaolin.s3.us-east-2.amazonaws.com/torch-{release}_{label}.html",
    ),
    "mamba-ssm": _of_github("state-spaces/mamba"),
    "mmcv": _MMCV,
    "mmcv-full": _MMCV,
    "natten": OwnPage(page="https://natten.org/install", links="https://whl.natten.org"),
    **dict.fromkeys(("pyg-lib", "torch-cluster", "torch-scatter", "torch-sparse", "torch-spline-conv"), _PYG),
}
