"""Commands as users run them: real processes, with arguments, pipes, terminals, signals and an environment."""
