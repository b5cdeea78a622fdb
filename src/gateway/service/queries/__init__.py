"""What the page and the API may read and change beside sending messages."""
