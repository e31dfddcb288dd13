"""Keep what was computed for later runs: the folder and its limit, and the answers of commands."""
