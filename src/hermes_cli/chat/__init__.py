"""The chat in the terminal: the screen, the pipe, and the client of the local socket."""
