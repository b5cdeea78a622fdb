"""The store in memory: the twins of what `hermes_state.sql` holds, with the same answers and no file."""
