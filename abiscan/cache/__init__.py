"""What is kept for later runs: the folder and its limit, and the answers of commands."""
