"""Where projects publish their builds: the addresses are those of their instructions, for one torch that they name."""

from __future__ import annotations

import pytest

from abiscan.index.own_pages import own_page

MAMBA = "https://github.com/state-spaces/mamba/releases/expanded_assets"


@pytest.mark.parametrize(
    ("name", "build", "version", "option"),
    [
        ("MMCV", "2.4.1+cu121", "2.2.0", "--find-links https://download.openmmlab.com/mmcv/dist/cu121/torch2.4/index.html"),
        ("gsplat", "2.4.0+cu124", "1.5.3", "--index-url https://docs.gsplat.studio/whl/pt24cu124"),
        ("kaolin", "2.5.1+cu121", "0.17.0", "--find-links https://nvidia-kaolin.s3.us-east-2.amazonaws.com/torch-2.5.1_cu121.html"),
        ("dgl", "2.4.0+cu124", "2.4.0", "--find-links https://data.dgl.ai/wheels/torch-2.4/cu124/repo.html"),
        ("torch_scatter", "2.8.0", "2.1.2", "--find-links https://data.pyg.org/whl/torch-2.8.0+cpu.html"),
        ("mamba-ssm", "2.7.1+cu128", "2.2.5", f"--find-links {MAMBA}/v2.2.5"),
    ],
)  # fmt: skip
def test_the_command_that_looks_there(name: str, build: str, version: str, option: str) -> None:
    page = own_page(name)
    assert page is not None
    assert page.command(name, build, version) == f"abiscan fit {name} --torch {build} {option}"


def test_a_project_whose_builds_are_on_the_index() -> None:
    assert own_page("torchvision") is None
