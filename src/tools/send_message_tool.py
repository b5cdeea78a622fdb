"""`send_message_tool`: the tool `send_message` for plugins, under the name by which they import it."""

from collections.abc import Mapping
from typing import Any

from tools.builtin import send_message_tool as builtin
from tools.registry import registry


def send_message_tool(args: Mapping[str, Any], **kwargs: Any) -> str:
    """Send a message with the rights, and by the consent, of the turn that this thread works for; JSON text."""
    return registry.dispatch(builtin.SCHEMA["name"], args, **kwargs)
