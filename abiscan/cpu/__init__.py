"""Processors and what code needs of them: features, levels, models, and which instructions have which feature."""
