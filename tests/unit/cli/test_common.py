"""What all commands share: a report is written, or an error that cannot be mistaken for a finding."""

from __future__ import annotations

import pytest

from abiscan.cli import common


def test_a_bug_in_a_view_is_no_finding(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 means a finding; whatever breaks while a report is written must not look like one."""

    class Broken:
        def to_json(self) -> str:
            raise KeyError("of the view")

    with pytest.raises(SystemExit) as ended:
        common.write_result(Broken(), "json", None, {})
    assert ended.value.code == 3
    assert "internal error, please report it: KeyError: 'of the view'" in capsys.readouterr().err
