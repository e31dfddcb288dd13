"""Lock files: which packages and which of their files a project's tool would install, in each environment."""
