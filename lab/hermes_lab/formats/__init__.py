"""The wire formats that the server speaks, one module each."""

from hermes_lab.formats import chat_completions, messages, responses
from hermes_lab.formats.base import Format

FORMATS: tuple[Format, ...] = (chat_completions.FORMAT, messages.FORMAT, responses.FORMAT)

__all__ = ["FORMATS", "Format"]
