"""Values, errors, protocols and tables that every room shares; does no I/O but the log."""
