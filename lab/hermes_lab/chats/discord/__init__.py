"""Discord on this machine: its HTTP API, its gateway, and the people there."""
