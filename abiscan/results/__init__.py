"""What the commands answer: one frozen type for each command, and the JSON document that is published of it."""
