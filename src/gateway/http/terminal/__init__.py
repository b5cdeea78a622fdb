"""What terminals ask over the socket of the home: the page's protocol, in rows of the outbox."""
