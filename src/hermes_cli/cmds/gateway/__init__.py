"""The command `hermes gateway`, and what keeps the gateway of a home running."""
