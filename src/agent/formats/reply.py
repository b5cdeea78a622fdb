"""What a model answered, in neutral form: text, reasoning, tool calls, why it stopped, what it cost."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.usage_pricing import CanonicalUsage

#: Gets the pieces of a text as they come.
Tell = Callable[[str], None]
#: Where a message keeps what only the provider that wrote it understands (signed thinking, sealed reasoning).
OWN_DATA = "provider_data"


def make_own_data(dialect: str, **data: Any) -> dict[str, Any]:
    """What a dialect wants to see again in later requests, as a field of the neutral message."""
    return {OWN_DATA: {"dialect": dialect, **data}}


def own_data(message: Mapping[str, Any], dialect: str) -> Mapping[str, Any]:
    """What this dialect itself left in a message; what another one left is not for it."""
    data = message.get(OWN_DATA)
    return data if data and isinstance(data, Mapping) and data.get("dialect") == dialect else {}


def without_own_data(message: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != OWN_DATA}


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str  # JSON as the model wrote it

    def as_message_part(self) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(frozen=True, slots=True)
class Reply:
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"
    usage: CanonicalUsage | None = None
    model: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)  # fields of a dialect to be sent back as they came
