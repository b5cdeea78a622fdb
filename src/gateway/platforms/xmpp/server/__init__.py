"""A server: the line to it, what it offers, and where it keeps files."""
