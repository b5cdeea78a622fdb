"""Hermes for other programs: an MCP server over the API of the running gateway."""
