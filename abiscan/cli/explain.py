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
        width = max(len(each.name) for each in RULES)
        for each in RULES:
            click.echo(f"{each.name:{width}}  {each.summary}")
        return
    found = by_name(rule)
    if found is None:
        raise click.BadParameter(f"there is no rule {rule}; rules: {', '.join(each.name for each in RULES)}")
    click.echo(f"{found.name}\n\n{found.documentation}")
