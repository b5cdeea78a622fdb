"""Slack on this machine: its Web API, Socket Mode and signed requests, for tests and for trying by hand."""
