"""Whole environments: a Python, its torch and all other packages, installed already or by a plan."""
