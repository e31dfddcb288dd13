"""One extension, examined: what it was built for, what it registers, and what a given torch does about that."""
