"""Crafted libraries, the real ``ld.so``, and what is predicted: ``python -m tools.loader_truth``."""
