"""Ends the built-in model that tests have started."""

from agent.providers import embedded


def end_built_in_model() -> None:
    """Its process is gone afterwards, and its pipes are closed."""
    for start in embedded._starts:
        if start.done() and start.exception() is None:
            with start.result().process as process:
                process.kill()
