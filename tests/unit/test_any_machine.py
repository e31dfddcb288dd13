"""The suite itself runs where nothing is as on the machine of its authors: see ``tests/conftest.py``."""

from __future__ import annotations

import locale
import sys
import time
from pathlib import Path

import pytest


def test_it_runs_far_from_utc() -> None:
    assert time.localtime().tm_gmtoff == 14 * 3600


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_it_runs_in_a_locale_that_is_not_installed() -> None:
    with pytest.raises(locale.Error):
        locale.setlocale(locale.LC_ALL, "")


def test_it_runs_without_a_home() -> None:
    assert not Path.home().exists()
