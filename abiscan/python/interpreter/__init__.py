"""What Python code does: compiled to closures over values that are ours, and run within limits."""
