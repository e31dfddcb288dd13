"""The sources of a package, and what is there around them: a system, the standard library, other packages."""
