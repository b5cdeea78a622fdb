"""Puts the gateway together: in the foreground of its own process, or on a thread of a terminal."""
