from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from abiscan.inputs import observed_fs
from abiscan.torches import unlisted_torch_names


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "__init__.py": "from torch import nn\n",
        "nn/__init__.py": "def relu6(): ...\ndef relu(): ...\n",
        "patches.py": "import torch\ntorch.late = 1\nsetattr(torch, 'later', 2)\n",
        "_C/__init__.pyi": "def compiled() -> None: ...\n",
    }
    for name, text in files.items():
        path = tmp_path / "torch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "torch"


@pytest.mark.parametrize(
    ("name", "is_there"),
    [("relu6", True), ("relu", True), ("rel", False), ("elu", False), ("relu66", False), ("def", True)],
)
def test_a_module_mentions_whole_words(folder: Path, name: str, *, is_there: bool) -> None:
    assert unlisted_torch_names.names(folder).source.mentions("torch.nn", name) is is_there


def test_a_name_is_patched_where_it_is_set_or_a_text(folder: Path) -> None:
    source = unlisted_torch_names.names(folder).source
    assert [name for name in ("late", "later", "lat", "torch", "relu") if source.is_patched(name)] == ["late", "later"]


def test_each_file_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = observed_fs.read_file
    times: Counter[str] = Counter()

    def counted(path: observed_fs.StrPath) -> bytes:
        times[str(path)] += 1
        return read(path)

    monkeypatch.setattr(observed_fs, "read_file", counted)
    source = unlisted_torch_names.names(folder).source
    for name in ("late", "gone", "absent"):
        source.is_patched(name)
        source.is_compiled(name)
    assert len(times) == 4
    assert set(times.values()) == {1}
    times.clear()
    for name in ("relu", "gone", "absent"):
        source.mentions("torch.nn", name)
    assert times == {str(folder / "nn/__init__.py"): 1}
