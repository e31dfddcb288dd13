"""What is known of a torch: what its own files say, or the data about its releases inside the package."""
