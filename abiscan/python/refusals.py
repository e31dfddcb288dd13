"""What Python says of arguments that a function does not take."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def too_many_arguments(name: str, most: int, defaults: int, count: int, keyword_only: int = 0) -> str:
    """Return the text of too_many_positional (Python/ceval.c).

    :param most: the number of parameters that take arguments by position
    :param defaults: the number of those that have a default
    :param count: the number of arguments that were passed by position
    :param keyword_only: the number of those that were passed to keyword-only parameters
    """
    takes = f"{most} positional argument{'' if most == 1 else 's'}"
    if defaults:
        takes = f"from {most - defaults} to {most} positional arguments"
    further = ""
    if keyword_only:
        given = f"positional argument{'' if count == 1 else 's'}"
        further = f" {given} (and {keyword_only} keyword-only argument{'' if keyword_only == 1 else 's'})"
    verb = "was" if count == 1 and not keyword_only else "were"
    return f"{name}() takes {takes} but {count}{further} {verb} given"


def missing_arguments(name: str, lacking: Sequence[str], keywords: Collection[str] = ()) -> str:
    """Return the text of missing_arguments (Python/ceval.c).

    :param lacking: the required parameters that got no argument, at least one
    :param keywords: the keyword-only parameters
    """
    kind = "keyword-only" if lacking[0] in keywords else "positional"
    names = [parameter for parameter in lacking if (parameter in keywords) is (kind == "keyword-only")]
    quoted = [f"'{parameter}'" for parameter in names]
    listed = (
        quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])}{',' if len(quoted) > 2 else ''} and {quoted[-1]}"
    )
    return f"{name}() missing {len(names)} required {kind} argument{'s' if len(names) > 1 else ''}: {listed}"
