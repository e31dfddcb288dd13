from __future__ import annotations

from abiscan.errors import AbiscanError, InputError, NotElfError


def test_a_message_names_the_file_the_problem_and_the_fix() -> None:
    error = InputError("a.so", "is damaged", "fetch it again")
    assert str(error) == "a.so: is damaged (fetch it again)"
    assert (error.subject, error.problem, error.fix) == ("a.so", "is damaged", "fetch it again")
    assert str(InputError("a.so", "is damaged")) == "a.so: is damaged"


def test_every_error_exits_with_2() -> None:
    assert {kind("a", "b").exit_code for kind in (InputError, NotElfError)} == {AbiscanError.exit_code} == {2}
