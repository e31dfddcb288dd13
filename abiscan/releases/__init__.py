"""The target torch: what its files say about it."""
