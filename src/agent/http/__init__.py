"""The network of model calls: clients, connections, streams."""
