"""What is known of a torch: read from its files, or looked up in the data about every release inside the package."""
