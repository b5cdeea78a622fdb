"""Runs of the API: begun, followed, found again."""
