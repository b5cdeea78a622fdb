"""Back-ups of a home: made, checked and put back."""
