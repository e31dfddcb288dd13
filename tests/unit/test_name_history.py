"""Which releases have a name, in words."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from abiscan.cli import main
from abiscan.torches.name_history import history


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("torch.amp.custom_bwd", "there in 2.4.0-"),
        ("torch.nope_that_never_was", "not in 1.4.0-"),
        ("torch.nn.Module.register_load_state_dict_pre_hook", "not in 1.4.0-2.4.1"),
        ("torch._six", "there in 1.4.0-1.13.1; not in 2.0.0-"),
    ],
)
def test_says_which_releases_have_it(name: str, words: str) -> None:
    assert words in str(history(name))


@pytest.mark.parametrize(
    ("name", "span"),
    [
        ("torch.amp.custom_bwd", ("2.4.0", None)),
        ("torch._six", (None, "1.13.1")),
        ("torch.nn.Module", (None, None)),
        ("torch.nope_that_never_was", (None, None)),
    ],
)
def test_the_span_has_an_end_where_a_release_lacks_it(name: str, span: tuple[str | None, str | None]) -> None:
    assert history(name).span == span


def test_what_is_not_known_is_said_so() -> None:
    found = history("torch.backends.cudnn.perhaps")

    assert found.possible
    assert not found.there


def test_the_command_says_it_or_what_is_wrong() -> None:
    said = CliRunner().invoke(main, ["explain", "torch.library.custom_op"])
    wrong = CliRunner().invoke(main, ["explain", "torch.a b"])

    assert said.output.startswith("torch.library.custom_op: there in 2.4.0-")
    assert wrong.exit_code == 2
