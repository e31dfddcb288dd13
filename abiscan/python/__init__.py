"""What a package's own Python code does as it is imported: read from its source, never executed."""
