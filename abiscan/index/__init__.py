"""Reads package indexes: the wheels that they offer, and parts of those wheels. The only way to the network."""
