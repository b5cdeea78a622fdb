"""The port to a database engine, and the engines that there are."""
