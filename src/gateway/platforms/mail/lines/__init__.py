"""Lines to mail servers: how both protocols are read and spoken."""
