"""Small changes of the package, and which of them the tests notice: see ``python -m tools.mutate --help``."""
