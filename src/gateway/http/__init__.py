"""The web page: its server, who may look at it, and what it reads and changes."""
