"""`redact_sensitive_text`: takes the secrets of this Hermes out of a text, for plugins that show or store one."""

from hermes_cli import config as cli_config


def redact_sensitive_text(text: str, *, force: bool = False) -> str:
    """The text with the values of keys and tokens replaced by their names. Always done, so `force` changes nothing."""
    del force
    return cli_config.redactor()(str(text)) if text else ""
