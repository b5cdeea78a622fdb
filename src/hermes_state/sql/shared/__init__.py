"""What all processes of a store have in common beside people and conversations."""
