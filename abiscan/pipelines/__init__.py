"""One pipeline per question: from what the user named to a result, with one call per stage."""
