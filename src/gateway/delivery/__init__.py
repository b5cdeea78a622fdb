"""From the outbox to the platforms, and what is shown while a turn runs."""
