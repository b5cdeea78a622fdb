"""Conversations at work: from a stored message to a turn that is over."""
