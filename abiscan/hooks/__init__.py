"""Where people meet abiscan: before an install, in an environment, at an import."""
