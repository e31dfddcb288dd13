"""What lief does to a run where it fails: the file that it was reading has no verdict, and all others have theirs."""

from __future__ import annotations

from pathlib import Path

import pytest

from abiscan.binary import image_reader
from abiscan.binary.image_reader import read_images
from abiscan.errors import InputError
from tests.image_samples import image, package


@pytest.mark.parametrize("error", [IndexError, KeyError, OverflowError, SystemError, AttributeError, RuntimeError])
@pytest.mark.parametrize("part", ["_portable_executable", "_universal_images"])
def test_an_exception_costs_one_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception], part: str
) -> None:
    def raising(*_args: object, **_options: object) -> object:
        raise error("of lief")

    monkeypatch.setattr(image_reader, part, raising)
    name, data = ("_C.pyd", "loads.pyd") if part == "_portable_executable" else ("_C.so", "loads.so")
    with pytest.raises(InputError, match="x: is damaged"):
        read_images(image(data), "x")
    from abiscan import check

    found = check(package(tmp_path, {f"pkg/{name}": image(data)}), "2.13.0")
    assert [result.verdict.value for result in found.results] == ["unknown"]
