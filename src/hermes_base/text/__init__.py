"""Text: made valid, shown without secrets, marked as foreign, read and wrapped."""
