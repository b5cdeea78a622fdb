"""The web for the model: pages are fetched where they may be, read in a process of their own, and kept for their task;
search services are rows of a table."""
