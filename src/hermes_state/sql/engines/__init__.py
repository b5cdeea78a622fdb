"""The port to a database engine, and the engine that there is."""
