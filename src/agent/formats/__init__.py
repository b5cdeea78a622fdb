"""The wire formats: neutral messages to bytes, answers to neutral replies. Pure, no network."""
