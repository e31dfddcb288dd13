"""``abiscan explain``."""

from __future__ import annotations

import click

from abiscan.rules import RULES, by_name


@click.command()
@click.argument("rule", required=False)
def explain(rule: str | None) -> None:
    """What a rule finds, why it fails, and what to do. Without RULE: all rules, a line each.

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
        raise click.BadParameter(f"no rule is called {rule}; there are: {', '.join(each.name for each in RULES)}")
    click.echo(f"{found.name}\n\n{found.documentation}")
