"""What the web page reads and changes."""
