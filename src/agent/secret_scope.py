"""`get_secret`: a key by its name, for plugins that ask here instead of reading the environment."""

from hermes_cli import config as cli_config


class UnscopedSecretError(RuntimeError):
    """A secret was asked for without saying for which profile. Here a process has one profile, so it never happens."""


def get_secret(name: str, default: str | None = None) -> str | None:
    return cli_config.env_value(name) or default
