"""Some names that plugins import are low in the house, and what they speak of stands above them. Whoever stands above
puts itself there when it is imported. A program that imports such a name alone, as suites of plugins do, gets it
imported then: by its name, since nothing here may know it otherwise."""

import importlib

PLUGIN_HOST = "hermes_cli.plugins"
TOOLS = "model_tools"


def open_house(part: str) -> None:
    """Have a part of the house put itself where it is asked for."""
    importlib.import_module(part)
