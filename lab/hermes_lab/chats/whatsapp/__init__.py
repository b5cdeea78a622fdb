"""WhatsApp's Cloud API as a server on this machine."""
