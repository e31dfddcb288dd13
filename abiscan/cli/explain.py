"""``abiscan explain``."""

from __future__ import annotations

import click

from abiscan.cli.rule_name import RULE_NAME
from abiscan.findings import Rule
from abiscan.rules import RULES


@click.command()
@click.argument("rule", type=RULE_NAME, required=False)
def explain(rule: Rule | None) -> None:
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
    click.echo(f"{rule.name}\n\n{rule.documentation}")
