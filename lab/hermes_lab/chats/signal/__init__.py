"""signal-cli's daemon, and a Signal behind it."""
