"""What Python says of arguments that a function does not take."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

_PICKLE_MODULE: Final = "pickle_module"
_WEIGHTS_ONLY: Final = "weights_only"
"""With it, torch.load passes its keywords on to torch/_weights_only_unpickler.py."""
_OF_UNPICKLER: Final = {"**pickle_load_args": ("fix_imports", "encoding", "errors", "buffers")}
"""What ``torch.load`` calls the keywords that it passes on to ``pickle.Unpickler``, and those that this takes."""


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
    more = ""
    if keyword_only:
        given = f"positional argument{'' if count == 1 else 's'}"
        more = f" {given} (and {keyword_only} keyword-only argument{'' if keyword_only == 1 else 's'})"
    verb = "was" if count == 1 and not keyword_only else "were"
    return f"{name}() takes {takes} but {count}{more} {verb} given"


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


class PassedArguments(Struct, frozen=True, order=True, kw_only=True):
    """What a call passes, as it is written.

    :ivar count: how many arguments by position
    :ivar takes_more: whether a star passes others
    :ivar takes_keywords: whether two stars do
    """

    count: int = 0
    keywords: tuple[str, ...] = ()
    takes_more: bool = False
    takes_keywords: bool = False


class ParameterList(Struct, frozen=True, kw_only=True):
    """The parameters of a function.

    :ivar only_positional: how many of the positional ones have no keyword
    :ivar has_star: whether it takes any number by position
    :ivar has_keywords: whether it takes any keyword
    :ivar unpickles: whether other keywords than those of its own are passed on to ``pickle.Unpickler``
    """

    positional: tuple[str, ...]
    only_positional: int
    keyword_only: tuple[str, ...]
    required: frozenset[str]
    has_star: bool
    has_keywords: bool
    unpickles: bool = False

    @property
    def keywords(self) -> frozenset[str]:
        """Those that may be passed by keyword."""
        return frozenset((*self.positional[self.only_positional :], *self.keyword_only))

    def takes_all_of(self, other: ParameterList) -> bool:
        """Whether it takes each call that another one takes."""
        by_position = self.has_star or (not other.has_star and len(self.positional) >= len(other.positional))
        by_keyword = self.has_keywords or (not other.has_keywords and self.keywords >= other.keywords)
        # What one takes as any keyword, the other may have by position already, or not as a keyword.
        by_keyword &= not other.has_keywords or self.keywords <= other.keywords
        by_keyword &= other.keywords.isdisjoint(self.positional[: self.only_positional])
        return by_position and by_keyword and self.required <= other.required


@functools.lru_cache(maxsize=1024)
def parse_parameters(text: str) -> ParameterList:
    """Return the parameters that ``module_names.signature_text`` has written."""
    positional: list[str] = []
    keyword_only: list[str] = []
    required: set[str] = set()
    only_positional, has_star, has_keywords, after_star, unpickles = 0, False, False, False, False
    for part in filter(None, text.split(",")):
        name = part.rstrip("=")
        if part == "/":
            only_positional = len(positional)
        elif part in _OF_UNPICKLER:
            keyword_only += _OF_UNPICKLER[part]
            unpickles = True
        elif part.startswith("**"):
            has_keywords = True
        elif part.startswith("*"):
            after_star, has_star = True, len(part) > 1
        else:
            (keyword_only if after_star else positional).append(name)
            required.update([name] if name == part else ())
    return ParameterList(
        positional=tuple(positional),
        only_positional=only_positional,
        keyword_only=tuple(keyword_only),
        required=frozenset(required),
        has_star=has_star,
        has_keywords=has_keywords,
        unpickles=unpickles,
    )


def refusal(name: str, signature: ParameterList, call: PassedArguments) -> str | None:
    """Return what Python says of a call that a function does not take; None of one that it may take.

    A method counts its object as an argument: ``name`` has a dot then.
    """
    # In the order of initialize_locals (Python/ceval.c).
    itself = 1 if "." in name else 0
    filled = frozenset(signature.positional[: call.count])
    for keyword in call.keywords:
        if keyword in filled & signature.keywords:
            return f"{name}() got multiple values for argument '{keyword}'"
        if keyword not in signature.keywords and not signature.has_keywords:
            if signature.unpickles:
                if _WEIGHTS_ONLY in signature.keywords.intersection(call.keywords):
                    return f"Unpickler.__init__() got an unexpected keyword argument '{keyword}'"
                # Another module in place of pickle may take it.
                is_pickle = _PICKLE_MODULE not in filled.union(call.keywords) and not call.takes_more
                return f"'{keyword}' is an invalid keyword argument for Unpickler()" if is_pickle else None
            by_position = signature.positional[: signature.only_positional]
            if passed := [parameter for parameter in by_position if parameter in call.keywords]:
                text = "got some positional-only arguments passed as keyword arguments"
                return f"{name}() {text}: '{', '.join(passed)}'"
            return f"{name}() got an unexpected keyword argument '{keyword}'"
    most = len(signature.positional)
    if call.count > most and not signature.has_star:
        defaults = sum(parameter not in signature.required for parameter in signature.positional)
        keyword_only = sum(keyword in signature.keyword_only for keyword in call.keywords)
        return too_many_arguments(name, most + itself, defaults, call.count + itself, keyword_only)
    if call.takes_more or call.takes_keywords:
        return None
    named = (*signature.positional, *signature.keyword_only)
    passed_to = filled | (signature.keywords & {*call.keywords})
    lacking = [parameter for parameter in named if parameter in signature.required - passed_to]
    return missing_arguments(name, lacking, signature.keyword_only) if lacking else None
