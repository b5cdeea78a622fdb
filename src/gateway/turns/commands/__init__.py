"""What slash commands do in a conversation."""
