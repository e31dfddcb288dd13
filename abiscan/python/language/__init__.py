"""Python as a language: sources as text and as trees, and what Python says of them."""
