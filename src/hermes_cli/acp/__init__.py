"""Hermes for editors: the Agent Client Protocol on stdio, over the socket that terminals use."""
