"""Whole environments: a Python, its torch and everything beside it, installed already or by a plan."""
