"""Markdown in the markup of an app: read once into leaves, written by a dialect, which is data."""
