"""A connection to an IRC server: lines, how it begins, and what waits to go out."""
