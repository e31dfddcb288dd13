"""What abiscan can read: files, packages, interpreters, the system, and the targets that a user names."""
