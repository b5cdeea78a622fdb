"""The hands: what the model can do. Never imports the mind; what it needs from above is passed in."""
