"""The folder that a command was started in."""

from pathlib import Path

from hermes_base.errors import HermesError


def find_folder() -> Path:
    """The folder; HermesError when it was deleted meanwhile."""
    try:
        return Path.cwd()
    except OSError as error:
        raise HermesError(
            "The folder that you are in is gone, or may not be read.",
            kept="Nothing was done.",
            fix="Go to another one (`cd`), then try again.",
        ) from error
