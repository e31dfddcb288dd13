"""Imports of a package, followed to their ends on every way that some machine can take."""
