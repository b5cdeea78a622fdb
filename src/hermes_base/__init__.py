"""Values, errors, protocols and tables that every package shares; does no I/O but the log."""
