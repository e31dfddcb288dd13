"""A model of torch's dispatcher: what it knows of operators, and what it says when they are registered."""
