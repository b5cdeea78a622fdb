"""The terminal command `hermes`, the settings, and the host of plugins."""

from hermes_constants import VERSION as __version__

__all__ = ["__version__"]
