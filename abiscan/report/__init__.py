"""Views of the results, one per format. A view only renders: it decides nothing, so only results come in."""
