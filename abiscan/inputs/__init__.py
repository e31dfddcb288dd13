"""What is at hand to look at: files, packages, interpreters, the system, and the targets that a user names."""
