"""What became of our own messages, and where it can be looked up."""
