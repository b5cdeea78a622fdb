"""Timed jobs that plugins keep in the home. Nothing runs them yet."""
