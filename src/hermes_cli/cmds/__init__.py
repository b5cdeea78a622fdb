"""One module for each `hermes` command, and what they share."""
