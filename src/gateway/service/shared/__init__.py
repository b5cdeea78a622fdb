"""What the gateways of one store have to know of each other."""
