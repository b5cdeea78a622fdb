"""Decisions on what several gateways have in common. Pure."""
