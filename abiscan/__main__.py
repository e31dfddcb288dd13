"""``python -m abiscan``."""

from abiscan.cli import main

main(prog_name="abiscan")
