"""What a turn is given, what it may ask for, and what it writes: values and protocols."""
