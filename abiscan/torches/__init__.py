"""What is known about a torch: read from its files, or looked up in the data that is embedded for every release."""
