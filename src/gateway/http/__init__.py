"""The HTTP server: the page and the API behind one gate."""
