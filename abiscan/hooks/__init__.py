"""Where abiscan hooks into other tools: before an install, in an environment, at an import."""
