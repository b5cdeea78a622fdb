"""What the turn needs of a wire format, and which format an API mode speaks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent import chat_completions
from agent.providers import CHAT_COMPLETIONS, Provider
from hermes_base.errors import ConfigProblem


class WireFormat(Protocol):
    """Pure functions of a module: neutral values in, bytes out."""

    def encode_message(self, message: Mapping[str, Any]) -> bytes: ...

    def encode_system(self, text: str) -> bytes: ...

    def encode_tools(self, tools: Sequence[Mapping[str, Any]]) -> bytes: ...

    def join_request(
        self, model: str, tools: bytes, system: bytes, messages: Sequence[bytes], tail: Mapping[str, Any]
    ) -> bytes: ...


_FORMATS: Mapping[str, WireFormat] = {CHAT_COMPLETIONS: chat_completions}


@dataclass(frozen=True, slots=True)
class Dialect:
    """A wire format as one kind of provider wants it. A model that cannot call tools gets a prompt of its own."""

    api_mode: str
    plain: bool = False

    @property
    def name(self) -> str:
        return f"{self.api_mode}/plain" if self.plain else self.api_mode

    @property
    def neutral(self) -> str:
        """The name under which the parts are kept before they are encoded."""
        return "neutral/plain" if self.plain else "neutral"

    @property
    def format(self) -> WireFormat:
        found = _FORMATS.get(self.api_mode)
        if found is None:
            raise ConfigProblem(
                f"The API mode '{self.api_mode}' cannot be spoken yet.",
                fix=f"Set it to one of: {', '.join(_FORMATS)} (hermes config set model.api_mode …).",
            )
        return found


def dialect_of(api_mode: str, provider: Provider) -> Dialect:
    return Dialect(api_mode, plain=not provider.calls_tools)


def call_settings(
    provider: Provider, *, max_tokens: int | None, reasoning: Mapping[str, Any] | None, with_tools: bool
) -> dict[str, Any]:
    """What stands behind the messages of a request: it may change from call to call without moving the prefix."""
    tail: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
    if max_tokens:
        tail[provider.output_limit_field] = max_tokens
    effort = str((reasoning or {}).get("effort") or "")
    if effort and effort != "none" and (reasoning or {}).get("enabled", True):
        tail[provider.reasoning_field] = {"effort": effort} if provider.reasoning_field == "reasoning" else effort
    if not with_tools:
        tail["tool_choice"] = "none"
    return tail
