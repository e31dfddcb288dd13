"""``abiscan explain``."""

from __future__ import annotations

import click

from abiscan.rules import RULES, by_name


@click.command()
@click.argument("rule", required=False)
def explain(rule: str | None) -> None:
    """Explain what a rule finds, why it fails and how to fix it. Without RULE, list all rules.

    \b
    Examples:
      abiscan explain
      abiscan explain cxx11-abi-mismatch
    """
    if rule is None:
        width = max(len(known_rule.name) for known_rule in RULES)
        for known_rule in RULES:
            click.echo(f"{known_rule.name:{width}}  {known_rule.summary}")
        return
    documented = by_name(rule)
    if documented is None:
        raise click.BadParameter(
            f"there is no rule {rule}; rules: {', '.join(known_rule.name for known_rule in RULES)}"
        )
    click.echo(f"{documented.name}\n\n{documented.documentation}")
