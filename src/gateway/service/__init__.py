"""The gateway of a home, what it does by itself, and what it is asked from above."""
