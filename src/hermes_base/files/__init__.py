"""Files of people, whichever home they are in."""
