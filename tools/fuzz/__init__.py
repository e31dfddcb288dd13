"""Hostile input, made by the thousand and passed to the commands: see ``python -m tools.fuzz --help``."""
