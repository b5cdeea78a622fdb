"""Files of people in the store, for gateways that share it."""
