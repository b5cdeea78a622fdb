"""The wire formats that the server speaks, one module each."""

from hermes_lab.formats import chat_completions
from hermes_lab.formats.base import Format

FORMATS: tuple[Format, ...] = (chat_completions.FORMAT,)

__all__ = ["FORMATS", "Format"]
