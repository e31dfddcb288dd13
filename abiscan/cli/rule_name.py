"""A rule as a parameter of a command: by its name, which shells complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from abiscan.findings import Documented, Rule
from abiscan.regex import regex
from abiscan.words import did_you_mean

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_LIKE_RULE: Final = regex(r"[a-z0-9]+(?:-[a-z0-9]+)*")

# The rules take longer to import than a result that was kept takes to print.


class _RuleName(click.ParamType):  # type: ignore[type-arg]  # not generic in older releases of click
    name = "rule"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Rule:
        """Return the rule of that name."""
        # click converts a value again that has been converted, such as a default.
        if isinstance(value, Rule):
            return value
        from abiscan.rules import SELECTABLE, by_name

        names = [rule.name for rule in SELECTABLE]
        rule = by_name(str(value))
        if rule is None:
            hint = did_you_mean(str(value), names) or f"rules: {', '.join(names)}"
            self.fail(f"there is no rule {value}; {hint}", param, ctx)
        return rule

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the rules whose names begin like that."""
        from click.shell_completion import CompletionItem

        from abiscan.rules import SELECTABLE

        return [CompletionItem(rule.name, help=rule.summary) for rule in SELECTABLE if rule.name.startswith(incomplete)]


class _RuleOrError(_RuleName):
    """A rule, of models too, or a text that is no name of one: an error, a symbol, an operator, a name of torch."""

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Documented | str:  # type: ignore[override]
        """Return the rule of that name, or the text itself."""
        if isinstance(value, str) and not _LIKE_RULE.fullmatch(value):
            return value
        from abiscan.rules.of_models import MODEL_RULES

        # Rules of models explain errors of torch's loader; they cannot be selected, since they are no checks of their
        # own.
        of_models = next((rule for rule in MODEL_RULES if rule.name == value), None)
        return of_models or super().convert(value, param, ctx)


RULE_OR_ERROR: Final = _RuleOrError()
RULE_NAME: Final = _RuleName()
