"""``abiscan explain``."""

from __future__ import annotations

import click

from abiscan.cli.common import errors_reported
from abiscan.cli.rule_name import RULE_OR_NAME
from abiscan.findings import Documented
from abiscan.rules import EVERY_RULE


@click.command()
@click.argument("rule", type=RULE_OR_NAME, required=False)
def explain(rule: Documented | str | None) -> None:
    """Explain what a rule finds, why it fails and how to fix it. Without RULE, list all rules.

    For a Python name of torch, say which releases have it.

    \b
    Examples:
      abiscan explain
      abiscan explain cxx11-abi-mismatch
      abiscan explain torch.amp.custom_bwd
    """
    if rule is None:
        width = max(len(known_rule.name) for known_rule in EVERY_RULE)
        for known_rule in EVERY_RULE:
            click.echo(f"{known_rule.name:{width}}  {known_rule.summary}")
        return
    if isinstance(rule, str):
        from abiscan.torches.name_history import history

        with errors_reported():
            click.echo(str(history(rule)))
        return
    click.echo(f"{rule.name}\n\n{rule.documentation}")
