"""What an operator does, and what the settings of people and platforms say: one call each, JSON in and out."""
