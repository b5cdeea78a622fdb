"""The mind: the turn, wire formats, context, prompts, providers. It sees the store only as a Journal."""
