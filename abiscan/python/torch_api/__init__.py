"""What torch's own Python code has, takes and says, release by release."""
