"""The results of the commands: one frozen type per command, and its published JSON document."""
